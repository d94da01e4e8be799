"""The effective config: what a file gives, path by path, and with it what DeepSpeed will use.

Paths are written with DeepSpeed's canonical spellings (`stage3_prefetch_bucket_size`, not the field
name `prefetch_bucket_size`), whatever spelling the file has.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from dslint.document import Document, Node, Path, dotted, plain
from dslint.expression import UNKNOWN
from dslint.settings import Target
from dslint.values import ACCELERATE, Origin, Schema, Values, properties, subschema

OFFLOADING = ("cpu", "nvme")
"""Devices to which an offload section moves something."""


def root_of(document: Document) -> Node | None:
    """The DeepSpeed config in a document; None where there is none."""
    if document.config is not None:
        return document.config
    place = document.find(document.base)
    return None if place is None else place.node


def data_of(document: Document) -> dict[str, Any]:
    """The DeepSpeed config in a document as plain data; empty where it is no object."""
    root = root_of(document)
    data = plain(root) if root is not None else {}
    return data if isinstance(data, dict) else {}


class Config:
    """The effective config of one document for one target.

    `schema` is the schema of the target's release; `base` is where the DeepSpeed config stands in
    the document. `given` has every path that the file gives, in the file's and in canonical spelling,
    with the value as the file has it; of an accelerate file also its own keys, below ACCELERATE. Keys
    that only other releases read are not there: they are as if absent, and a rule about them is silent.
    `values` has the effective values, `known` what was computed from all this, by whom.
    """

    def __init__(self, document: Document, schema: Schema, target: Target) -> None:
        self.document = document
        self.schema = schema
        self.target = target
        self.base: Path = document.base
        self.root = root_of(document)
        self.data = data_of(document)
        self.given: dict[Path, Any] = {(): self.data}
        self._spelled: dict[Path, Path] = {}
        self._list_given()
        self.values = Values(schema, target, self.given)
        self.known: dict[Callable[[Config], Any], Any] = {}

    def under(self, target: Target) -> Config:
        """The same config for another target of the same release."""
        other = copy(self)
        other.target, other.values, other.known = target, Values(self.schema, target, self.given), {}
        return other

    # Where things stand in the file

    def _list_given(self) -> None:
        listing = _Listing(self.given, self._spelled, self.target.release)
        listing.object(self.data, self.schema, (), ())
        if listing.twice:  # which of the spellings counts is found out path by path
            for path in list(self.given):
                actual = self._locate(path)
                if actual is None:
                    del self.given[path]
                else:
                    self._spelled[path], self.given[path] = actual, at(self.data, actual)
        if ACCELERATE[0] in self.data:  # a key of this name is none of accelerate's own
            for path in [path for path in self.given if path[:1] == ACCELERATE]:
                del self.given[path]
        if self.document.format == "accelerate" and self.document.root is not None:
            own = plain(self.document.root)
            self.given[ACCELERATE] = own
            if isinstance(own, dict):
                listing.object(own, None, ACCELERATE, ACCELERATE)

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

    def accelerate(self, path: Path) -> Any:
        """What an accelerate config file has at a path of its own; UNKNOWN in every other file."""
        return self.given.get(ACCELERATE + path) if ACCELERATE in self.given else UNKNOWN

    def locate(self, path: Path) -> Path | None:
        """The keys as the file spells them, or None where the file does not give the path."""
        return self._spelled.get(path, path) if path in self.given else None

    def has(self, path: Path) -> bool:
        """Whether the file gives the path, in any spelling and with any value."""
        return path in self.given

    def written(self, path: Path) -> Any:
        """The value as the file has it; None where it has none."""
        return self.given.get(path)

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
        return self.values[path]

    def origin(self, path: Path) -> Origin:
        """Where the effective value comes from."""
        return self.values.origin(path)

    def default(self, path: Path) -> Any:
        """The value this release uses when the file does not give the path."""
        return self.values.default(path)

    def offloads(self, section: Path) -> Any:
        """Whether the device of an offload section is cpu or nvme; UNKNOWN when nobody knows."""
        device = self.value((*section, "device"))
        return UNKNOWN if device is UNKNOWN else device in OFFLOADING

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


def at(data: Any, path: Path) -> Any:
    """The value of plain data at a path that it has."""
    for key in path:
        data = data[key]
    return data


class _Listing:
    """Lists every path of data, under the file's spelling of each key and under the canonical one."""

    def __init__(self, given: dict[Path, Any], spelled: dict[Path, Path], release: str) -> None:
        self.given = given
        self.spelled = spelled  # how the file spells the paths that it spells otherwise
        self.release = release
        self.twice = False  # a key is given in two spellings

    def object(self, data: dict[str, Any], schema: Schema | None, path: Path, actual: Path) -> None:
        """Lists what is in the object at `path`, which the file spells `actual`."""
        known = properties(schema)
        for key, value in data.items():
            sub = known.get(key)
            if sub is None:
                if schema and self._of_another_release(schema, (*path, key)):
                    continue
            elif "x-canonical" in sub or "x-replaced-by" in sub:
                canonical = _canonical(sub)
                if canonical:
                    below = known.get(canonical, sub)
                    self._value(value, below, (*path, canonical), (*actual, key))
            here = (*path, key)
            self._value(value, sub, here, (*actual, key) if actual is not path else here)

    def _value(self, value: Any, schema: Schema | None, path: Path, actual: Path) -> None:
        if path in self.given:
            self.twice = True
        self.given[path] = value
        if actual is not path:
            self.spelled[path] = actual
        if isinstance(value, dict):
            self.object(value, schema, path, actual)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                here = (*path, i)
                self._value(item, None, here, (*actual, i) if actual is not path else here)

    def _of_another_release(self, schema: Schema, path: Path) -> bool:
        if schema.get("x-unknown-keys") not in ("ignored", "forbidden"):
            return False
        from dslint.history import story

        past = story(dotted(path))
        return past is not None and bool(past.elsewhere(self.release))


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


def _collect_data(value: Any, path: Path, found: list[Path]) -> None:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            _collect_data(below, (*path, key), found)
    elif path:
        found.append(path)
