"""Strict JSON: the values are Python's json's, and the places are read when somebody asks for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sized
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from ..document import Document, Member, Node, Path, Problem, Scalar, Span, dotted

MAX_DEPTH: Final = 32
"""Levels. What is inside a value is passed over once for every level above it, which bounds the time."""

Scan = Callable[[str, int], tuple[Any, int]]
"""Reads the JSON value at an offset, and tells where it ends."""

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# Of a text that is known to be JSON: a key, and a string or word, or else the place where a bracket opens.
_PART = re.compile(
    rf"[ \t\n\r,]*(?:({_STRING})[ \t\n\r]*:[ \t\n\r]*)?"
    rf"(?:({_STRING}|[^ \t\n\r\",:{{}}\[\]]+)|(?=[{{\[]))"
)
_SCALAR = 2
"""The group of a string or word."""

_Place: TypeAlias = "tuple[re.Match[str], int]"
"""A part of an object or list, and where its value ends."""

_KINDS = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}

# Twice as fast as Span(start, end) and Member(key, span, node).
_span: Callable[[tuple[int, int]], Span] = partial(tuple.__new__, Span)
_member: Callable[[tuple[str, Span, Node]], Member] = partial(tuple.__new__, Member)

_passed: Scan = json.JSONDecoder().raw_decode


class Unread(Node):
    """A value in strict JSON. What is in it is looked for in the text when it is first asked for."""

    __slots__ = ("data", "known", "places", "text")

    data: Any
    """The value as json gives it, with all that is in it."""
    text: str
    places: dict[str, _Place]
    """Of an object: where its values stand."""
    known: dict[str, Member]
    """Of an object: the members that were asked for."""

    def __init__(self, kind: str, span: Span, value: Scalar, data: Any, text: str) -> None:
        self.kind = kind
        self.span = span
        self.value = value
        self.data = data
        self.text = text

    def __getattr__(self, name: str) -> Any:
        """Sets what is not set yet."""
        if name == "members":
            self.members = self._members() if self.kind == "object" else []
        elif name == "items":
            parts = zip(self.data, self._places(self.data), strict=True) if self.kind == "array" else ()
            self.items = [self._node(value, place) for value, place in parts]
        elif name == "places":
            self.places = dict(zip(self.data, self._places(self.data), strict=True))
            self.known = {}
        else:
            raise AttributeError(name)
        return getattr(self, name)

    def member(self, key: str) -> Member | None:
        """As for every node, and without looking for a key that is not there."""
        if self.kind != "object" or key not in self.data:
            return None
        place = self.places[key]
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._member(key, self.data[key], place)
        return found

    def plain(self) -> Any:
        """As for every node."""
        return self.data

    def _members(self) -> list[Member]:
        return [member for member in map(self.member, self.data) if member is not None]

    def _member(self, key: str, value: Any, place: _Place) -> Member:
        return _member((key, _span(place[0].span(1)), self._node(value, place)))

    def _node(self, value: Any, place: _Place) -> Unread:
        match, end = place
        if match.lastindex == _SCALAR:
            return type(self)(_KINDS[type(value)], _span(match.span(_SCALAR)), value, value, self.text)
        kind = "array" if isinstance(value, list) else "object"
        return type(self)(kind, Span(match.end(), end), None, value, self.text)

    def _places(self, parts: Sized) -> Iterator[_Place]:
        """Where the key and the value of each part stand, one behind the other."""
        text, end = self.text, self.span.start + 1
        for _ in range(len(parts)):
            match = _PART.match(text, end)
            assert match is not None
            end = match.end() if match.lastindex == _SCALAR else _passed(text, match.end())[1]
            yield match, end


class _Twice(dict[str, Any]):
    """An object with a key that is set twice."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class _UnreadTwice(Unread):
    """A value in a text where a key is set twice, which its data is not to show."""

    __slots__ = ()
    member = Node.member
    plain = Node.plain

    def _members(self) -> list[Member]:
        pairs = self.data.pairs if isinstance(self.data, _Twice) else list(self.data.items())
        places = self._places(pairs)
        return [self._member(key, value, place) for (key, value), place in zip(pairs, places, strict=True)]


class SetAgain(NamedTuple):
    """A key that its object has already: where it stands, and the line on which it was set first."""

    path: Path
    span: Span
    line: int


class _Repeated(ValueError):
    """An object has the same key twice."""


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object for json's object_pairs_hook; ValueError where a key is set twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Repeated
    return found


def _every_time(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Twice(pairs)


def scans(
    real: Callable[[str], Any] | None = None, constant: Callable[[str], Any] | None = None
) -> tuple[Scan, Scan]:
    """Scans with hooks of json's: a quick one that raises where a key is set twice, and one that does not."""
    once = json.JSONDecoder(object_pairs_hook=each_once, parse_float=real, parse_constant=constant)
    every = json.JSONDecoder(object_pairs_hook=_every_time, parse_float=real, parse_constant=constant)
    return once.raw_decode, every.raw_decode


def read(document: Document, how: tuple[Scan, Scan], levels: int = MAX_DEPTH) -> list[SetAgain] | None:
    """Gives a document the root of its text, which holds one object, and tells which keys are set again.

    None, and no root, where a scan raises ValueError, something else stands in the text, or brackets are
    open in more levels.
    """
    text = document.text
    start = _SPACE.match(text).end()  # type: ignore[union-attr]
    kind = Unread
    try:
        try:
            data, end = how[0](text, start)
        except _Repeated:
            data, end = how[1](text, start)
            kind = _UnreadTwice
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or _SPACE.fullmatch(text, end) is None or _deep(text, data, levels):
        return None
    document.root = kind("object", Span(start, end), None, data, text)
    return [] if kind is Unread else _set_again(document, document.root)


def _deep(text: str, data: Any, levels: int) -> bool:
    """Whether brackets are open in more levels than these."""
    if text.count("{") + text.count("[") <= levels:
        return False
    level, depth = [data], 0
    while level and depth <= levels:
        depth += 1
        inside = [value.values() if isinstance(value, dict) else value for value in level]
        level = [value for values in inside for value in values if isinstance(value, (dict, list))]
    return depth > levels


def _set_again(document: Document, root: Node) -> list[SetAgain]:
    found: list[SetAgain] = []
    stack: list[tuple[Path, Node]] = [((), root)]
    while stack:
        path, node = stack.pop()
        first: dict[str, int] = {}
        for key, span, value in node.members:
            if first.setdefault(key, span.start) != span.start:
                found.append(SetAgain((*path, key), span, document.position(first[key])[0]))
            if _repeats(value):
                stack.append(((*path, key), value))
        stack += [((*path, i), item) for i, item in enumerate(node.items) if _repeats(item)]
    return sorted(found, key=lambda again: again.span)


def _repeats(node: Node) -> bool:
    """Whether an object in a value has a key that is set twice."""
    return isinstance(node, Unread) and _twice(node.data)


def _twice(data: Any) -> bool:
    if isinstance(data, _Twice):
        return True
    inside = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return any(map(_twice, inside))


_JSON = scans()

_LEVELS: Final = 400
"""As in hjson_reader: where hjson refuses or misreads a text, no other reader is left for deeper ones."""


def strictly(document: Document) -> Document | None:
    """The document as json.load reads it; None where it raises, and where it makes no object of it.

    json takes what hjson does not: NaN, and an object with the same key twice, of which the last counts.
    """
    found = Document(document.name, document.text, None)
    again = read(found, _JSON, _LEVELS)
    if again is None:
        return None
    for path, span, line in again:
        twice = f"{dotted(path)} is set twice, first on line {line}"
        message = f"{twice}; json.load takes the last and says nothing"
        found.departures.append(Problem("shadowed-key", span, message, path, "remove one of the two"))
    return found
