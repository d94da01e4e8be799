"""A config against the schema of one release: wrong types and values, unknown and removed keys.

The validator of record is jsonschema: what `violations` reports, it reports. Importing it costs more
than everything else a file needs, so tests of the few keywords that the generated schemas use come first:
what passes them is certainly valid, and where single keywords refuse a value they tell which. They are made
of a schema once, for many files: see Part. Tests hold them to jsonschema, which is asked about all else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

from dslint.document import Path
from dslint.releases import number

Schema = dict[str, Any]

_HERE = os.path.dirname(__file__)
_INSIDE = os.path.join(_HERE, "schemas")
_FOLDER = _INSIDE if os.path.isdir(_INSIDE) else os.path.join(os.path.dirname(_HERE), "schemas")
"""Where the schemas are: inside an installed package, or beside it in a checkout."""


def table(name: str) -> Any:
    """A JSON file that lies with the schemas."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return json.load(file)


@cache
def index() -> dict[str, str]:
    """Release -> file name of its schema, oldest release first."""
    releases: dict[str, str] = table("index.json")
    return dict(sorted(releases.items(), key=lambda pair: number(pair[0])))


def newest() -> str:
    """The newest release there is a schema of."""
    return list(index())[-1]


def judged_as(release: str) -> str:
    """The release whose schema judges `release`: itself, else the newest known one not above it."""
    known = [name for name in index() if number(name) <= number(release)]
    return known[-1] if known else next(iter(index()))


@lru_cache(maxsize=8)
def load(release: str) -> Schema:
    """The schema that judges a release."""
    schema: Schema = table(index()[judged_as(release)])
    return schema


Test = Callable[[Any], bool]
Tests = tuple[Test, ...]


def _passed(tests: Tests | None, value: Any) -> bool:
    if tests is None:
        return False
    for test in tests:  # noqa: SIM110 - all() takes twice as long
        if not test(value):
            return False
    return True


class Part:
    """A part of a schema made ready to judge many values; what it needs for a kind of value is made when met.

    `tests`: Python type -> what a value of it has to pass to be certainly valid, None where none is.
    `deprecated`: the release still reads the key, but tells to replace it.
    """

    __slots__ = ("_section", "deprecated", "schema", "tests")

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.tests = _Tests(schema)
        self.deprecated = (
            isinstance(schema, dict) and bool(schema.get("deprecated")) and "x-removed" not in schema
        )
        self._section: Section | None = None

    @property
    def section(self) -> Section:
        """What it says about the keys of an object."""
        if self._section is None:
            self._section = _section(self.schema)
        return self._section

    def passed(self, value: Any) -> bool:
        """Whether a value surely satisfies the schema; False also where the tests cannot tell."""
        return _passed(self.tests[type(value)], value)


Section: TypeAlias = "tuple[_Keys, Part | None, Tests | None, str]"
"""The keys that a part knows; what judges the values of others, None: they are free; what the object has to
pass besides; and what DeepSpeed does with other keys: "ignored", "forbidden", "free" or "", nobody knows."""


class _Keys(dict[str, "Part | None"]):
    """Key -> its part, made when the key is met; None where there is none."""

    def __init__(self, properties: dict[str, Schema]) -> None:
        self.properties = properties

    def __missing__(self, key: str) -> Part | None:
        if key not in self.properties:
            return None
        known = self[key] = Part(self.properties[key])
        return known


def part(schema: Any) -> Part:
    """The part that is a whole schema."""
    known = _PARTS.get(id(schema))
    if known is None or known.schema is not schema:
        known = _PARTS[id(schema)] = Part(schema)
    return known


_PARTS: dict[int, Part] = {}
"""By identity of a schema, which its part keeps so that no other takes its place."""


def certainly_valid(data: Any, schema: Any) -> bool:
    """Whether a value surely satisfies a schema; False also where the tests cannot tell."""
    return part(schema).passed(data)


Suspect: TypeAlias = "tuple[Path, Any, Any, bool]"
"""A value that is not certainly valid: its path, itself, the schema that says more, and whether its key is
an unknown one."""


@dataclass(slots=True)
class Walked:
    """What one walk over a config finds, each in the order of the config.

    `suspects`: the innermost parts that are not certainly valid. `unread`: keys that DeepSpeed drops
    without a word, unknown ones in sections that forbid nothing. `deprecated`: keys that the release
    still reads, but tells to replace, each with its schema.
    """

    suspects: list[Suspect] = field(default_factory=list)
    unread: list[Path] = field(default_factory=list)
    deprecated: list[tuple[Path, Schema]] = field(default_factory=list)

    def visit(self, data: dict[str, Any], part: Part, path: Path, judged: bool, current: bool) -> None:
        """Adds what an object holds. `judged`: nothing around it is a suspect; `current`: nor deprecated."""
        keys, rest, whole, unknown = part.section
        if judged and not _passed(whole, data):
            self.suspects.append((path, data, part.schema, False))
            judged = False
        current = current and unknown != "free"
        for key, value in data.items():
            known = keys[key]
            if known is None:
                if judged and rest is not None and not rest.passed(value):
                    self.suspects.append(((*path, key), value, rest.schema, True))
                if unknown == "ignored" or (unknown == "forbidden" and value == "auto"):
                    self.unread.append((*path, key))
                continue
            if current and known.deprecated:
                self.deprecated.append(((*path, key), known.schema))
            if isinstance(value, dict):
                self.visit(value, known, (*path, key), judged, current and not known.deprecated)
            elif judged and (tests := known.tests[type(value)]) != () and not _passed(tests, value):
                self.suspects.append(((*path, key), value, known.schema, False))


def walked(data: dict[str, Any], schema: Schema) -> Walked:
    """A config as its schema sees it, key by key."""
    found = Walked()
    found.visit(data, part(schema), (), True, True)
    return found


class Violation(NamedTuple):
    """A value the schema refuses: where, and by which keyword."""

    path: Path
    keyword: str
    value: Any


def violations(suspects: Iterable[Suspect]) -> list[Violation]:
    """What jsonschema reports about the suspects of a config, one violation a place."""
    found: dict[Path, Violation] = {}
    for start, suspect, schema, unknown in suspects:
        for path, keyword, value in _reported(suspect, schema):
            place = (*start, *path)
            if place not in found or keyword == "type":
                keyword = "additionalProperties" if unknown else keyword
                found[place] = Violation(place, keyword, value)
    return list(found.values())


Report = tuple[Path, str, Any]
"""What jsonschema says: the path below the value, the keyword, and what stands there."""


def _reported(data: Any, schema: Schema) -> list[Report]:
    """What jsonschema reports about a value. What it said about a scalar is kept: files repeat each other."""
    if isinstance(data, (dict, list)):
        told = _told(data, schema)
        return _validated(data, schema) if told is None else told
    key = (id(schema), type(data), data)
    known = _REPORTED.get(key)
    if known is None or known[0] is not schema:
        if len(_REPORTED) >= _MANY:
            _REPORTED.clear()
        told = _told(data, schema)
        known = _REPORTED[key] = (schema, _validated(data, schema) if told is None else told)
    return known[1]


_MANY = 4096
_REPORTED: dict[tuple[int, type, Any], tuple[Schema, list[Report]]] = {}
"""By identity of a schema, which is kept beside what is known so that no other takes its place."""


def _told(value: Any, schema: Any) -> list[Report] | None:
    """What jsonschema reports about a value, where the tests of single keywords surely tell; else None.

    Importing jsonschema costs as much as linting a hundred files.
    """
    if isinstance(schema, bool) or value != value or type(value) not in _ALL:
        return None
    told: list[Report] = []
    for keyword, about in schema.items():
        if keyword in _ANNOTATIONS or keyword.startswith("x-"):
            continue
        kinds = _ALL if keyword == "type" else _KEYWORDS[keyword][0] if keyword in _KEYWORDS else ()
        if kinds and type(value) not in kinds:
            continue
        if keyword not in _TELLING or not _TELLING[keyword](about):
            return None
        if not _passed(_tests({keyword: about}, type(value)), value):
            told.append(((), keyword, value))
    return told


def _validated(data: Any, schema: Schema) -> list[Report]:
    from jsonschema import Draft202012Validator

    found: list[Report] = []
    for error in _judgments(Draft202012Validator(schema).iter_errors(data)):
        additional = "additionalProperties" in error.absolute_schema_path
        keyword = "additionalProperties" if additional else str(error.validator)
        found.append((tuple(error.absolute_path), keyword, error.instance))
    return found


def _judgments(errors: Iterable[Any]) -> Iterator[Any]:
    """Errors of jsonschema; of an anyOf those of its last branch, for the ones before say when it counts."""
    for error in errors:
        if error.validator == "anyOf":
            last = len(error.validator_value) - 1
            yield from _judgments(inner for inner in error.context if inner.schema_path[0] == last)
        else:
            yield error


class _Tests(dict[type, "Tests | None"]):
    """Python type of a value -> what it has to pass, made when a value of that type is met."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    def __missing__(self, kind: type) -> Tests | None:
        tests = self[kind] = _tests(self.schema, kind)
        return tests


def _tests(schema: Any, kind: type, apart: Collection[str] = ()) -> Tests | None:
    """What a value of a type has to pass by the keywords of a schema, but for those kept `apart`."""
    if isinstance(schema, bool):
        return () if schema else None
    found: list[Test] = []
    for keyword, value in schema.items():
        if keyword in _ANNOTATIONS or keyword in apart or keyword.startswith("x-"):
            continue
        if keyword == "type":
            names = (value,) if isinstance(value, str) else value
            if not any(kind in _TYPES[name] for name in names):
                if kind is not float or "integer" not in names:
                    return None
                found.append(float.is_integer)
            continue
        if keyword not in _KEYWORDS:
            return None
        kinds, make = _KEYWORDS[keyword]
        if kind in kinds:
            found.append(make(value, schema))
    return tuple(found)


_ANNOTATIONS = {"$schema", "$id", "title", "description", "default", "deprecated", "examples", "$comment"}

_TYPES = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),  # and a float without a fraction
}
_NUMBERS = (int, float)
_ALL = (dict, list, str, bool, int, float, type(None))


def _section(schema: Any) -> Section:
    if isinstance(schema, bool):
        return _Keys({}), None, _tests(schema, dict), ""
    rest = schema.get("additionalProperties", True)
    apart = ("properties",) if rest is False else ("properties", "additionalProperties")
    return (
        _Keys(schema.get("properties", {})),
        Part(rest) if isinstance(rest, dict) else None,
        _tests(schema, dict, apart),
        schema.get("x-unknown-keys", ""),
    )


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _one_of(values: list[Any], _: Schema) -> Test:
    """One of some values, which are scalars; true is not 1."""
    switches = [value for value in values if isinstance(value, bool)]
    others = [value for value in values if not isinstance(value, (bool, dict, list))]
    return lambda value: value in (switches if isinstance(value, bool) else others)


def _properties(known: Schema, _: Schema) -> Test:
    parts = {key: Part(sub) for key, sub in known.items()}
    return lambda value: all(parts[key].passed(item) for key, item in value.items() if key in parts)


def _additional(rest: Any, schema: Schema) -> Test:
    known, other = schema.get("properties", {}), Part(rest)
    return lambda value: all(other.passed(item) for key, item in value.items() if key not in known)


def _items(schema: Any, _: Schema) -> Test:
    each = Part(schema)
    return lambda value: all(each.passed(item) for item in value)


def _not(schema: Any, _: Schema) -> Test:
    refused, exact = Part(schema), set(schema) <= _EXACT
    return lambda value: exact and not refused.passed(value)


def _any_of(schemas: list[Any], _: Schema) -> Test:
    parts = [Part(schema) for schema in schemas]
    return lambda value: any(part.passed(value) for part in parts)


_EXACT = {"const", "enum", "type"}
"""Keywords whose tests are right in both directions, so that they may stand under `not`."""


def _always(_: Any) -> bool:
    return True


def _of_scalars(values: list[Any]) -> bool:
    return not any(isinstance(value, (dict, list)) for value in values)


_TELLING: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("type", "pattern", "minLength"), _always),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _always),
    "enum": _of_scalars,
    "const": lambda only: _of_scalars([only]),
    "not": lambda schema: set(schema) <= {"const", "type"} and _of_scalars([schema.get("const")]),
}
"""Keywords whose tests are right in both directions, with what they may be about for that."""

_KEYWORDS: dict[str, tuple[tuple[type, ...], Callable[[Any, Schema], Test]]] = {
    "properties": ((dict,), _properties),
    "additionalProperties": ((dict,), _additional),
    "required": ((dict,), lambda keys, _: lambda value: all(key in value for key in keys)),
    "items": ((list,), _items),
    "pattern": ((str,), lambda pattern, _: lambda value: _pattern(pattern).search(value) is not None),
    "minLength": ((str,), lambda least, _: lambda value: len(value) >= least),
    "minimum": (_NUMBERS, lambda least, _: lambda value: value >= least),
    "maximum": (_NUMBERS, lambda most, _: lambda value: value <= most),
    "exclusiveMinimum": (_NUMBERS, lambda below, _: lambda value: value > below),
    "exclusiveMaximum": (_NUMBERS, lambda above, _: lambda value: value < above),
    "enum": (_ALL, _one_of),
    "const": (_ALL, lambda only, _: _one_of([only], {})),
    "not": (_ALL, _not),
    "anyOf": (_ALL, _any_of),
}
"""Keyword -> the Python types it is about, and what makes the test of such a value."""
