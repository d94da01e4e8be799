"""The effective config: what DeepSpeed will use, every value with where it comes from.

Paths are written with DeepSpeed's canonical spellings (`stage3_prefetch_bucket_size`, not the field
name `prefetch_bucket_size`), whatever spelling the file has. A value is UNKNOWN when a trainer fills
it or when the file gives something of a type DeepSpeed does not mean there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from dslint.document import Document, Node, Path, dotted, plain
from dslint.expression import UNKNOWN
from dslint.settings import Target
from dslint.trainers import ADDED, adds, fills

Schema = dict[str, Any]

_TRUE = {"true", "t", "yes", "y", "on", "1"}
_FALSE = {"false", "f", "no", "n", "off", "0"}
_INTEGER = re.compile(r"\s*[+-]?[0-9]+(_[0-9]+)*(\.0*)?\s*\Z")
ACCELERATE = ("accelerate",)
"""What rules put before a path to mean an accelerate config file's own keys."""

_OFFLOADING = ("cpu", "nvme")
_STAGE = ("zero_optimization", "stage")
_OVERLAP_COMM = ("zero_optimization", "overlap_comm")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an effective value comes from: a kind and, in words, what more there is to say.

    Kinds: "file", "default" (of the release), "dropped" (the file says "auto", DeepSpeed uses its
    default), "filled" (by the trainer), "derived" (from other keys) and "deprecated" (another
    spelling of the file).
    """

    kind: str
    detail: str = ""


_FILE = Origin("file")
_DEFAULT = Origin("default")
_CYCLE = (UNKNOWN, Origin("derived"))
"""The value of a path while it is worked out, so that a circle of deprecated names ends."""


class Config:
    """The effective config of one document for one target.

    `schema` is the schema of the target's release; `base` is where the DeepSpeed config stands in
    the document.
    """

    def __init__(self, document: Document, schema: Schema, target: Target) -> None:
        self.document = document
        self.schema = schema
        self.target = target
        self.base: Path = document.base
        place = document.find(self.base)
        self.root: Node | None = document.config or (place.node if place is not None else None)
        data = plain(self.root) if self.root is not None else {}
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}
        self._values: dict[Path, tuple[Any, Origin]] = {}
        self._given: dict[Path, Path] | None = None
        self._two_spellings = False

    def under(self, target: Target) -> Config:
        """The same config for another target of the same release."""
        other = copy(self)
        other.target, other._values = target, {}
        return other

    # Where things stand in the file

    def accelerate(self, path: Path) -> Any:
        """What an accelerate config file has at a path of its own; UNKNOWN in every other file."""
        if self.document.format != "accelerate":
            return UNKNOWN
        place = self.document.find(path)
        return None if place is None else plain(place.node)

    @property
    def given(self) -> Mapping[Path, Path]:
        """Every path that the file gives, in the file's and in canonical spelling -> as the file spells it.

        Paths below a list are not among them.
        """
        if self._given is None:
            self._given = {(): ()}
            self._two_spellings = not _spelled(
                self.data, self.schema, (), (), self._given, self.target.release
            )
        return self._given

    def locate(self, path: Path) -> Path | None:
        """The keys as the file spells them, or None where the file does not give the path."""
        actual = (self._given or self.given).get(path)
        if actual is None:
            return self._locate(path) if any(isinstance(key, int) for key in path) else None
        return self._locate(path) if self._two_spellings else actual

    def _locate(self, path: Path) -> Path | None:
        value: Any = self.data
        found: Path = ()
        section: Schema | None = self.schema
        for key in path:
            if isinstance(key, int):
                if not isinstance(value, list) or key >= len(value):
                    return None
                value, section, found = value[key], None, (*found, key)
                continue
            if not isinstance(value, dict):
                return None
            given = [name for name in spellings(section, key) if name in value]
            if not given:
                return None
            spelled = next((name for name in given if value[name] is not None), given[0])
            value, found = value[spelled], (*found, spelled)
            section = subschema(section, key)
        return found

    def has(self, path: Path) -> bool:
        """Whether the file gives the path, in any spelling and with any value."""
        if path[:1] == ACCELERATE:
            return self.document.format == "accelerate" and self.document.find(path[1:]) is not None
        return self.locate(path) is not None

    def written(self, path: Path) -> Any:
        """The value as the file has it; None where it has none."""
        if path[:1] == ACCELERATE:
            return self.accelerate(path[1:])
        actual = self.locate(path)
        if actual is None:
            return None
        value: Any = self.data
        for key in actual:
            value = value[key]
        return value

    def file_path(self, path: Path) -> Path:
        """The path in the whole file, spelled as the file spells it as far as it goes."""
        if path[:1] == ACCELERATE:
            return path[1:]
        if self.document.config is not None:
            places = self.document.places
            return next((places[p] for p in (path[:n] for n in range(len(path), 0, -1)) if p in places), ())
        for length in range(len(path), -1, -1):
            actual = self.locate(path[:length])
            if actual is not None:
                return (*self.base, *actual, *path[length:])
        return (*self.base, *path)

    # What DeepSpeed will use

    def value(self, path: Path) -> Any:
        """The effective value, or UNKNOWN; None where there is neither a value nor a default."""
        if path[:1] == ACCELERATE:
            return self.accelerate(path[1:])
        return self._effective(path)[0]

    def origin(self, path: Path) -> Origin:
        """Where the effective value comes from."""
        return self._effective(path)[1]

    def default(self, path: Path) -> Any:
        """The value this release uses when the file does not give the path."""
        return self._absent(path)[0]

    def offloads(self, section: Path) -> Any:
        """Whether the device of an offload section is cpu or nvme; UNKNOWN when nobody knows."""
        device = self.value((*section, "device"))
        return UNKNOWN if device is UNKNOWN else device in _OFFLOADING

    def _effective(self, path: Path) -> tuple[Any, Origin]:
        known = self._values.get(path)
        if known is None:
            self._values[path] = _CYCLE
            known = self._values[path] = self._compute(path)
        return known

    def _compute(self, path: Path) -> tuple[Any, Origin]:
        trainer = self.target.trainer
        if self.locate(path) is not None:
            raw, key = self.written(path), _key(self.schema, path)
            if raw == "auto":
                source = fills(trainer, path)
                if source is not None:
                    return self._filled(path, source)
                if key.converted:
                    return self._absent(path)[0], Origin("dropped")
            if raw is not None or path != _OVERLAP_COMM:
                return coerce(raw, key.schema, key.converted), _FILE
        source = adds(trainer, path, self.has)
        if source is not None:
            return self._filled(path, source, UNKNOWN if trainer == "lightning" else ADDED.get(path, UNKNOWN))
        return self._absent(path)

    def _filled(self, path: Path, source: str, value: Any = UNKNOWN) -> tuple[Any, Origin]:
        """A value that the trainer gives, as far as the run is known."""
        if value is UNKNOWN and (self.target.launch is not None or self.target.workload is not None):
            from dslint.trainers.values import filled

            value = filled(path, self.target)
        return value, Origin("filled", source)

    def _absent(self, path: Path) -> tuple[Any, Origin]:
        key = _key(self.schema, path)
        if path == _STAGE and isinstance(self.written(path[:-1]), bool):
            return int(self.written(path[:-1])), Origin("deprecated", "zero_optimization as a boolean")
        for old in key.deprecated:
            if self.has(old) and self.written(old) not in (None, "auto"):
                value = coerce(self.written(old), schema_at(self.schema, old), lax=True)
                if path[-1] == "device":
                    value = UNKNOWN if value is UNKNOWN else "cpu" if value else "none"
                return value, Origin("deprecated", dotted(old))
        if path == _OVERLAP_COMM:
            stage = self.value(_STAGE)
            return (UNKNOWN if stage is UNKNOWN else stage == 3), Origin("derived", "true at stage 3 only")
        return key.default

    def _collect(self, schema: Schema, path: Path, found: list[Path]) -> None:
        for key, sub in properties(schema).items():
            below = (*path, key)
            if "x-canonical" in sub or sub.get("deprecated"):
                continue
            optional = "default" in sub and sub["default"] is None and not self.has(below)
            if properties(sub) and not (optional and self.value((*below, "device")) in (None, "none")):
                self._collect(sub, below, found)
            elif not isinstance(self.written(below), dict):  # of free-form sections the file's keys follow
                found.append(below)

    def leaves(self) -> list[Path]:
        """Every path the effective config has a value for: the schema's keys, then the file's others."""
        found: list[Path] = []
        self._collect(self.schema, (), found)
        known = set(found)
        extra: list[Path] = []
        _collect_data(self.data, (), extra)
        return found + [p for p in extra if self.file_path(p) == (*self.base, *p) and p not in known]


def properties(schema: Schema | None) -> dict[str, Schema]:
    """The keys a section's schema knows."""
    found: dict[str, Schema] = (schema or {}).get("properties", {})
    return found


def _spelled(
    data: Any, schema: Schema | None, path: Path, actual: Path, found: dict[Path, Path], release: str
) -> bool:
    """Adds every path of the data, under the file's spelling of each key and under the canonical one.

    Without keys that only other releases read: here they are as if absent, and a rule about them is silent.
    False when a key is given in two spellings, so that which of them counts is still to be found out.
    """
    single = True
    known = properties(schema)
    for key, value in data.items():
        sub = known.get(key)
        if sub is None and schema and schema.get("x-unknown-keys") in ("ignored", "forbidden"):
            from dslint.history import story

            past = story(dotted((*path, key)))
            if past is not None and past.elsewhere(release):
                continue
        canonical = _canonical(sub) if sub is not None else None
        for name in (key, canonical) if canonical else (key,):
            below, spelled = (*path, name), (*actual, key)
            single = found.setdefault(below, spelled) == spelled and single
            if isinstance(value, dict):
                single = _spelled(value, known.get(name, sub), below, spelled, found, release) and single
    return single


def _canonical(schema: Schema) -> str | None:
    """The name that DeepSpeed calls a key by, where its schema is that of another spelling."""
    replaced = schema.get("x-replaced-by") if "properties" in schema else None
    other: str | None = schema.get("x-canonical") or replaced
    return other


def spellings(schema: Schema | None, key: str) -> list[str]:
    """The canonical key, then the other spellings that DeepSpeed reads as the same.

    An old name of a whole section (`bfloat16`) counts as a spelling of the new one.
    """
    if schema is None:
        return [key]
    known = _SPELLINGS.get(id(schema))
    if known is None or known[0] is not schema:
        table: dict[str, list[str]] = {}
        for name, sub in properties(schema).items():
            other = _canonical(sub)
            if other:
                table.setdefault(other, [other]).append(name)
        known = _SPELLINGS[id(schema)] = (schema, table)
    return known[1].get(key) or [key]


_SPELLINGS: dict[int, tuple[Schema, dict[str, list[str]]]] = {}
"""By identity of a section's schema, which is kept beside its table so that no other takes its place."""


def subschema(schema: Schema | None, key: str) -> Schema | None:
    """The schema of a key of a section; None where the section does not know it."""
    return properties(schema).get(key)


def schema_at(schema: Schema, path: Path) -> Schema:
    """The schema at a path, {} where there is none."""
    found: Schema | None = schema
    for key in path:
        found = subschema(found, str(key)) if isinstance(key, str) else (found or {}).get("items")
    return found or {}


@dataclass(frozen=True, slots=True)
class _Key:
    """What a schema tells about a path.

    `converted`: it stands in a pydantic model, which drops "auto" and reads "true" as true. `deprecated`:
    other keys that set it, as `cpu_offload` sets `offload_optimizer.device`.
    """

    schema: Schema
    converted: bool
    deprecated: tuple[Path, ...]
    default: tuple[Any, Origin]


def _key(schema: Schema, path: Path) -> _Key:
    known = _KEYS.get(id(schema))
    if known is None or known[0] is not schema:
        known = _KEYS[id(schema)] = (schema, _replacing(schema), {})
    _, replacing, keys = known
    key = keys.get(path)
    if key is None:
        if len(keys) >= _MANY:
            keys.clear()
        own = schema_at(schema, path)
        converted = schema_at(schema, path[:-1]).get("x-auto") == "dropped"
        deprecated = tuple(replacing.get(dotted(path[:-1] if path[-1:] == ("device",) else path), ()))
        key = keys[path] = _Key(own, converted, deprecated, (own.get("default"), _DEFAULT))
    return key


def _replacing(schema: Schema) -> dict[str, list[Path]]:
    """Path of a key -> deprecated keys that set it."""
    table: dict[str, list[Path]] = {}
    for section in ((), *((key,) for key in properties(schema))):
        for name, sub in properties(schema_at(schema, section)).items():
            new = sub.get("x-replaced-by")
            if sub.get("deprecated") and new:
                for home in {dotted((*section, new)), new}:
                    table.setdefault(home, []).append((*section, name))
    return table


_MANY = 10_000
"""Keys of a schema that are kept at a time; paths are as many as files can think of."""

_KEYS: dict[int, tuple[Schema, dict[str, list[Path]], dict[Path, _Key]]] = {}
"""By identity of a schema, which is kept beside its keys so that no other takes its place."""


def coerce(raw: Any, schema: Schema, lax: bool) -> Any:
    """What DeepSpeed makes of a value: the value itself, converted, or UNKNOWN when it has no business.

    `lax`: the section is a pydantic model, which reads "true" and 1 as true and "8" and 8.0 as 8.
    Elsewhere values stay as they are and booleans are judged by their truth.
    """
    types = schema.get("x-type", [])
    types = [types] if isinstance(types, str) else types
    if not types or (raw is None and "null" in types):
        return raw
    for kind in types:
        value = _as(kind, raw, lax)
        if value is not UNKNOWN:
            return value
    return UNKNOWN


def _as(kind: str, raw: Any, lax: bool) -> Any:
    if kind == "boolean":
        if isinstance(raw, bool):
            return raw
        if not lax:
            return UNKNOWN if isinstance(raw, (dict, list)) else bool(raw)
        text = raw.lower() if isinstance(raw, str) else str(int(raw)) if raw in (0, 1) else ""
        return True if text in _TRUE else False if text in _FALSE else UNKNOWN
    if kind in ("integer", "number"):
        return _as_number(kind, raw, lax)
    if kind == "string":
        return raw if isinstance(raw, str) else UNKNOWN
    if kind == "object":
        return raw if isinstance(raw, dict) else UNKNOWN
    return raw if kind == "array" and isinstance(raw, list) else UNKNOWN


def _as_number(kind: str, raw: Any, lax: bool) -> Any:
    if isinstance(raw, bool):
        return int(raw) if lax else UNKNOWN
    if isinstance(raw, str):
        if not lax:
            return UNKNOWN
        if _INTEGER.match(raw):
            return int(raw.split(".")[0].replace("_", ""))
        try:
            raw = float(raw)
        except ValueError:
            return UNKNOWN
        return raw if kind == "number" and math.isfinite(raw) else UNKNOWN
    if isinstance(raw, float) and (raw.is_integer() or not math.isfinite(raw)):
        return int(raw) if math.isfinite(raw) else UNKNOWN
    if isinstance(raw, (int, float)):
        return raw
    return UNKNOWN


def _collect_data(value: Any, path: Path, found: list[Path]) -> None:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            _collect_data(below, (*path, key), found)
    elif path:
        found.append(path)
