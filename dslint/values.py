"""Effective values: what DeepSpeed will use at a path, and where it comes from.

Paths are written with DeepSpeed's canonical spellings (`stage3_prefetch_bucket_size`, not the field
name `prefetch_bucket_size`). A value is UNKNOWN when a trainer fills it or when the file gives
something of a type DeepSpeed does not mean there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dslint.document import Path, dotted
from dslint.expression import UNKNOWN
from dslint.settings import Target
from dslint.trainers import ADDED, adds, fills

Schema = dict[str, Any]

ACCELERATE = ("accelerate",)
"""What rules put before a path to mean an accelerate config file's own keys."""

_TRUE = {"true", "t", "yes", "y", "on", "1"}
_FALSE = {"false", "f", "no", "n", "off", "0"}
_INTEGER = re.compile(r"\s*[+-]?[0-9]+(_[0-9]+)*(\.0*)?\s*\Z")

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
_DERIVED = Origin("derived")


class Values(dict[Path, Any]):
    """The effective value of every path that was asked for; None where there is neither value nor default.

    Each is worked out when first asked for. `written`: the values of the file by path. `origins`: where
    the values worked out so far come from, unless from the file or the release's default.
    """

    __slots__ = ("keys_of", "origins", "schema", "target", "written")

    def __init__(self, schema: Schema, target: Target, written: Mapping[Path, Any]) -> None:
        self.schema = schema
        self.target = target
        self.written = written
        self.keys_of = keys(schema)
        self.origins: dict[Path, Origin] = {}

    def __missing__(self, path: Path) -> Any:
        key, written = self.keys_of[path], self.written
        given = path in written
        if given and type(written[path]) in key.plain:
            value = written[path]
            if value != "auto":
                self[path] = value
                return value
        elif not given and key.absent_is_default and self.target.trainer == "raw":
            self[path] = key.default
            return key.default
        self[path] = UNKNOWN  # while it is worked out, so that a circle of deprecated names ends
        self.origins[path] = _DERIVED
        value, origin = self._compute(path, key)
        self[path], self.origins[path] = value, origin
        return value

    def origin(self, path: Path) -> Origin:
        """Where the effective value comes from."""
        self[path]
        origin = self.origins.get(path)
        return origin or (_FILE if path in self.written else _DEFAULT)

    def default(self, path: Path) -> Any:
        """The value that is used when the file does not give the path."""
        return self._absent(path, self.keys_of[path])[0]

    def _compute(self, path: Path, key: Key) -> tuple[Any, Origin]:
        trainer, written = self.target.trainer, self.written
        if path[:1] == ACCELERATE:
            inside = ACCELERATE in written
            return (written.get(path) if inside else UNKNOWN), _FILE
        if path in written:
            raw = written[path]
            if raw == "auto":
                source = fills(trainer, path)
                if source is not None:
                    return self._filled(path, source)
                if key.converted:
                    return self._absent(path, key)[0], Origin("dropped")
            if raw is not None or path != _OVERLAP_COMM:
                return coerce(raw, key.schema, key.converted), _FILE
        source = adds(trainer, path, written.__contains__)
        if source is not None:
            return self._filled(path, source, UNKNOWN if trainer == "lightning" else ADDED.get(path, UNKNOWN))
        return self._absent(path, key)

    def _filled(self, path: Path, source: str, value: Any = UNKNOWN) -> tuple[Any, Origin]:
        """A value that the trainer gives, as far as the run is known."""
        if value is UNKNOWN and (self.target.launch is not None or self.target.workload is not None):
            from dslint.trainers.values import filled

            value = filled(path, self.target)
        return value, Origin("filled", source)

    def _absent(self, path: Path, key: Key) -> tuple[Any, Origin]:
        written = self.written
        if path == _STAGE and isinstance(written.get(path[:-1]), bool):
            return int(written[path[:-1]]), Origin("deprecated", "zero_optimization as a boolean")
        for old in key.deprecated:
            if written.get(old) not in (None, "auto"):
                value = coerce(written[old], schema_at(self.schema, old), lax=True)
                if path[-1] == "device":
                    value = UNKNOWN if value is UNKNOWN else "cpu" if value else "none"
                return value, Origin("deprecated", dotted(old))
        if path == _OVERLAP_COMM:
            stage = self[_STAGE]
            return (UNKNOWN if stage is UNKNOWN else stage == 3), Origin("derived", "true at stage 3 only")
        return key.default, _DEFAULT


def properties(schema: Schema | None) -> dict[str, Schema]:
    """The keys a section's schema knows."""
    found: dict[str, Schema] = (schema or {}).get("properties", {})
    return found


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
class Key:
    """What a schema tells about a path.

    `converted`: it stands in a pydantic model, which drops "auto" and reads "true" as true. `deprecated`:
    other keys that set it, as `cpu_offload` sets `offload_optimizer.device`. `plain`: the Python types of
    which every value stays as it is. `absent_is_default`: nothing else decides it where it is not given.
    """

    schema: Schema
    converted: bool
    deprecated: tuple[Path, ...]
    default: Any
    plain: frozenset[type]
    absent_is_default: bool


class _Keys(dict[Path, Key]):
    """The keys of a schema by path, each worked out when first asked for."""

    __slots__ = ("replacing", "schema")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.replacing = _replacing(schema)

    def __missing__(self, path: Path) -> Key:
        if len(self) >= _MANY:
            self.clear()
        own = schema_at(self.schema, path)
        converted = schema_at(self.schema, path[:-1]).get("x-auto") == "dropped"
        deprecated = tuple(self.replacing.get(dotted(path[:-1] if path[-1:] == ("device",) else path), ()))
        decided = bool(deprecated) or path in (_STAGE, _OVERLAP_COMM) or path[:1] == ACCELERATE
        plain = _plain_types(own) if path[:1] != ACCELERATE and path != _OVERLAP_COMM else frozenset()
        key = self[path] = Key(own, converted, deprecated, own.get("default"), plain, not decided)
        return key


_MANY = 10_000
"""Keys of a schema that are kept at a time; paths are as many as files can think of."""

_KEYS: dict[int, _Keys] = {}
"""By identity of a schema, which its keys keep so that no other takes its place."""


def keys(schema: Schema) -> Mapping[Path, Key]:
    """What a schema tells about paths."""
    known = _KEYS.get(id(schema))
    if known is None or known.schema is not schema:
        known = _KEYS[id(schema)] = _Keys(schema)
    return known


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


_PYTHON = {"boolean": bool, "integer": int, "number": int, "string": str, "object": dict, "array": list}
_ANY = frozenset({*_PYTHON.values(), float, type(None)})


def _types(schema: Schema) -> list[str]:
    types = schema.get("x-type", [])
    return [types] if isinstance(types, str) else types


def _plain_types(schema: Schema) -> frozenset[type]:
    """The types of which `coerce` surely gives back every value, for it tries their kind first."""
    types = _types(schema)
    if not types:
        return _ANY
    plain = {_PYTHON[types[0]]} if types[0] in _PYTHON else set()
    return frozenset(plain | ({type(None)} if "null" in types else set()))


def coerce(raw: Any, schema: Schema, lax: bool) -> Any:
    """What DeepSpeed makes of a value: the value itself, converted, or UNKNOWN when it has no business.

    `lax`: the section is a pydantic model, which reads "true" and 1 as true and "8" and 8.0 as 8.
    Elsewhere values stay as they are and booleans are judged by their truth.
    """
    types = _types(schema)
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
