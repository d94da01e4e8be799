"""A config against the schema of one release: wrong types and values, unknown and removed keys.

The validator of record is jsonschema: what `violations` reports, it reports. Importing it costs more
than everything else a clean file needs, so `certainly_valid` asks first, with a check of the few
keywords the generated schemas use.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Violation:
    """A value the schema refuses: where, by which keyword, and the part of the schema that speaks."""

    path: Path
    keyword: str
    schema: Schema
    value: Any


class _Part:
    """What a walk has to know of a part of a schema, worked out when the part is first met."""

    __slots__ = ("checks", "deprecated", "free", "known", "schema", "sure", "surely", "unknown")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.checks = [
            (check, about)
            for check, about in _checks(schema)
            if check is not _properties and not (check is _additional and about is True)
        ]
        self.surely = _certain_types(schema)  # every value of these types is valid
        self.sure: set[tuple[type, Any]] = set()  # scalars that were found to be valid
        self.known = _KnownKeys(schema)
        self.unknown = schema.get("x-unknown-keys")
        self.free = self.unknown == "free"
        self.deprecated = bool(schema.get("deprecated")) and "x-removed" not in schema


class _KnownKeys(dict[str, "_Part"]):
    """The parts of a schema about the keys of an object; None of keys it says nothing about."""

    __slots__ = ("properties",)

    def __init__(self, schema: Schema) -> None:
        self.properties: dict[str, Schema] = schema.get("properties") or {}

    def __missing__(self, key: str) -> _Part | None:
        schema = self.properties.get(key)
        if schema is None:
            return None
        part = self[key] = _Part(schema)
        return part


@dataclass(slots=True)
class Walked:
    """What one walk over a config finds, each in the order of the config.

    `suspects`: the innermost parts that are not certainly valid, each with its schema. `unread`: keys that
    DeepSpeed drops without a word, unknown ones in sections that forbid nothing. `deprecated`: keys that
    the release still reads, but tells to replace.
    """

    suspects: list[tuple[Path, Any, Schema]] = field(default_factory=list)
    unread: list[Path] = field(default_factory=list)
    deprecated: list[tuple[Path, Schema]] = field(default_factory=list)


def walked(data: Any, schema: Schema) -> Walked:
    """A config as its schema sees it, key by key."""
    known = _PARTS.get(id(schema))
    if known is None or known.schema is not schema:
        known = _PARTS[id(schema)] = _Part(schema)
    found = Walked()
    _walk(data, known, (), found, True, True)
    return found


_PARTS: dict[int, _Part] = {}
"""By identity of a schema, which its part keeps so that no other takes its place."""


def _walk(value: Any, part: _Part, path: Path, found: Walked, suspecting: bool, deprecating: bool) -> None:
    """Walks what is not at once a valid scalar. Below a suspect or a deprecated key none is looked for."""
    if suspecting:
        if not all(check(value, about, part.schema) for check, about in part.checks):
            found.suspects.append((path, value, part.schema))
            suspecting = False
        elif not isinstance(value, (dict, list)) and len(part.sure) < _MANY:
            part.sure.add((type(value), value))
    if not isinstance(value, dict):
        return
    known = part.known
    deprecating = deprecating and not part.free
    for key, item in value.items():
        below = known[key]
        if below is None:
            if part.unknown == "ignored" or (part.unknown == "forbidden" and item == "auto"):
                found.unread.append((*path, key))
            continue
        replaced = deprecating and below.deprecated
        if replaced:
            found.deprecated.append(((*path, key), below.schema))
        kind = type(item)
        if kind in below.surely or (kind in _SCALARS and (kind, item) in below.sure):
            continue
        _walk(item, below, (*path, key), found, suspecting, deprecating and not replaced)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def violations(suspects: Iterable[tuple[Path, Any, Schema]]) -> list[Violation]:
    """What jsonschema reports about the suspects of a config, one violation a place."""
    found: dict[Path, Violation] = {}
    for path, value, part in suspects:
        for violation in _reported(value, part):
            place = (*path, *violation.path)
            if place not in found or violation.keyword == "type":
                found[place] = replace(violation, path=place)
    return list(found.values())


def _reported(data: Any, schema: Schema) -> list[Violation]:
    """What jsonschema reports about a value. What it said about a scalar is kept: files repeat each other."""
    if isinstance(data, (dict, list)):
        return _validated(data, schema)
    key = (id(schema), type(data), data)
    known = _REPORTED.get(key)
    if known is None or known[0] is not schema:
        if len(_REPORTED) >= _MANY:
            _REPORTED.clear()
        known = _REPORTED[key] = (schema, _validated(data, schema))
    return known[1]


_MANY = 4096
_REPORTED: dict[tuple[int, type, Any], tuple[Schema, list[Violation]]] = {}
"""By identity of a schema, which is kept beside what is known so that no other takes its place."""


def _validated(data: Any, schema: Schema) -> list[Violation]:
    from jsonschema import Draft202012Validator

    found = []
    for error in _judgments(Draft202012Validator(schema).iter_errors(data)):
        additional = "additionalProperties" in error.absolute_schema_path
        keyword = "additionalProperties" if additional else str(error.validator)
        found.append(Violation(tuple(error.absolute_path), keyword, error.schema, error.instance))
    return found


def _judgments(errors: Iterable[Any]) -> Iterator[Any]:
    """Errors of jsonschema; of an anyOf those of its last branch, for the ones before say when it counts."""
    for error in errors:
        if error.validator == "anyOf":
            last = len(error.validator_value) - 1
            yield from _judgments(inner for inner in error.context if inner.schema_path[0] == last)
        else:
            yield error


_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}


def certainly_valid(data: Any, schema: Any) -> bool:
    """Whether a value surely satisfies a schema; False also where this check cannot tell."""
    return all(check(data, value, schema) for check, value in _checks(schema))


Check = Callable[[Any, Any, Any], bool]


def _checks(schema: Any) -> list[tuple[Check, Any]]:
    """The checks of a schema with what they are about, in its order."""
    if isinstance(schema, bool):
        return [] if schema else [(_unsure, schema)]
    known = _CHECKS.get(id(schema))
    if known is None or known[0] is not schema:
        checks = [
            (_KEYWORDS.get(keyword, _unsure), value)
            for keyword, value in schema.items()
            if keyword not in _ANNOTATIONS and not keyword.startswith("x-")
        ]
        known = _CHECKS[id(schema)] = (schema, checks)
    return known[1]


_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_CONCERNS: dict[str, frozenset[type]] = {
    **dict.fromkeys(_NUMBERS, frozenset({int, float})),
    **dict.fromkeys(("pattern", "minLength"), frozenset({str})),
    **dict.fromkeys(("properties", "additionalProperties", "required", "items"), frozenset()),
}
"""Keyword -> types of the scalars that it says anything about; a keyword not named here: of all."""

_OF_TYPE: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "null": frozenset({type(None)}),
}


def _certain_types(schema: Schema) -> frozenset[type]:
    """The types of scalars of which every value satisfies a schema."""
    types = schema.get("type", list(_OF_TYPE))
    names = [types] if isinstance(types, str) else types
    surely: frozenset[type] = frozenset().union(*(_OF_TYPE.get(name, frozenset()) for name in names))
    for keyword in schema:
        if keyword != "type" and keyword not in _ANNOTATIONS and not keyword.startswith("x-"):
            surely -= _CONCERNS.get(keyword, _SCALARS)
    return surely


_CHECKS: dict[int, tuple[Schema, list[tuple[Check, Any]]]] = {}
"""By identity of a schema, which is kept beside its checks so that no other takes its place."""


def _unsure(_: Any, __: Any, ___: Any) -> bool:
    return False


_ANNOTATIONS = {"$schema", "$id", "title", "description", "default", "deprecated", "examples", "$comment"}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_type(value: Any, name: str) -> bool:
    if name in _TYPES:
        return isinstance(value, _TYPES[name])
    if name == "number":
        return _is_number(value)
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _type(data: Any, value: Any, _: Schema) -> bool:
    return _is_type(data, value) if isinstance(value, str) else any(_is_type(data, name) for name in value)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right) and not isinstance(left, (dict, list))


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _properties(data: Any, value: Schema, _: Schema) -> bool:
    return not isinstance(data, dict) or all(
        certainly_valid(item, value[key]) for key, item in data.items() if key in value
    )


def _additional(data: Any, value: Any, schema: Schema) -> bool:
    if not isinstance(data, dict) or value is True:
        return True
    if value is False:
        return set(data) <= set(schema.get("properties", ()))
    unknown = data.keys() - schema.get("properties", {}).keys()
    return all(certainly_valid(data[key], value) for key in unknown)


_EXACT = {"const", "enum", "type"}
"""Keywords whose check above is right in both directions, so that it may stand under `not`."""


_KEYWORDS: dict[str, Check] = {
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": lambda d, v, _: not isinstance(d, list) or all(certainly_valid(item, v) for item in d),
    "enum": lambda d, v, _: any(_equal(d, item) for item in v),
    "const": lambda d, v, _: _equal(d, v),
    "pattern": lambda d, v, _: not isinstance(d, str) or _pattern(v).search(d) is not None,
    "minLength": lambda d, v, _: not isinstance(d, str) or len(d) >= v,
    "minimum": lambda d, v, _: not _is_number(d) or d >= v,
    "maximum": lambda d, v, _: not _is_number(d) or d <= v,
    "exclusiveMinimum": lambda d, v, _: not _is_number(d) or d > v,
    "exclusiveMaximum": lambda d, v, _: not _is_number(d) or d < v,
    "required": lambda d, v, _: not isinstance(d, dict) or all(key in d for key in v),
    "not": lambda d, v, _: set(v) <= _EXACT and not certainly_valid(d, v),
    "anyOf": lambda d, v, _: any(certainly_valid(d, sub) for sub in v),
}
