"""Strict JSON: the values are Python's json's, and the places are read when somebody asks for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from ..document import Document, Member, Node, Path, Problem, Scalar, Span, dotted, walk

MAX_DEPTH: Final = 32
"""Levels. What is inside a value is passed over once for every level above it, which bounds the time."""

Scan = Callable[[str, int], tuple[Any, int]]
"""Reads the JSON value at an offset, and tells where it ends."""

_SPACE = re.compile(r"[ \t\n\r]*")
# Of a text that is known to be JSON: a string or a word, or else the place where a bracket opens.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_VALUE = rf'(?:({_STRING}|[^ \t\n\r",{{}}\[\]]+)|(?=[{{\[]))'
_ITEM = re.compile(rf"[ \t\n\r,]*{_VALUE}")
_PAIR = re.compile(rf"[ \t\n\r,]*({_STRING})[ \t\n\r]*:[ \t\n\r]*{_VALUE}")

_KINDS = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", list: "array"}
"""All but objects."""

_skipped: Scan = json.JSONDecoder().raw_decode

# Twice as fast as Span(start, end) and Member(key, span, node), of which there are many.
_span: Callable[[tuple[int, int]], Span] = partial(tuple.__new__, Span)
_member: Callable[[tuple[str, Span, Node]], Member] = partial(tuple.__new__, Member)


class Unread(Node):
    """A value in strict JSON. Its members or items are read from the text when they are first asked for."""

    __slots__ = ("data", "text")

    def __init__(self, kind: str, span: Span, value: Scalar, data: Any, text: str) -> None:
        self.kind = kind
        self.span = span
        self.value = value
        self.data = data  # the whole value as json gives it
        self.text = text

    def __getattr__(self, name: str) -> Any:
        """Only asked for what is not set yet."""
        if name not in ("members", "items"):
            raise AttributeError(name)
        self.members = self._read_members() if self.kind == "object" else []
        self.items = self._read_items() if self.kind == "array" else []
        return getattr(self, name)

    def member(self, key: str) -> Member | None:
        """As for every node, and without reading anything for a key that is not there."""
        return super().member(key) if self.kind == "object" and key in self.data else None

    def plain(self) -> Any:
        """As for every node."""
        return self.data

    def _read_members(self) -> list[Member]:
        text, position = self.text, self.span.start + 1
        members = []
        for key, value in self.data.pairs if type(self.data) is _Twice else self.data.items():
            match = _PAIR.match(text, position)
            assert match is not None
            position = match.end()
            if match.lastindex == 2:
                node = type(self)(_KINDS[type(value)], _span(match.span(2)), value, value, text)
            else:
                node = self._opened(position, value)
                position = node.span.end
            members.append(_member((key, _span(match.span(1)), node)))
        return members

    def _read_items(self) -> list[Node]:
        text, position = self.text, self.span.start + 1
        items: list[Node] = []
        for value in self.data:
            match = _ITEM.match(text, position)
            assert match is not None
            position = match.end()
            if match.lastindex:
                items.append(type(self)(_KINDS[type(value)], _span(match.span(1)), value, value, text))
            else:
                items.append(self._opened(position, value))
                position = items[-1].span.end
        return items

    def _opened(self, start: int, value: Any) -> Unread:
        kind = _KINDS.get(type(value), "object")
        return type(self)(kind, Span(start, _skipped(self.text, start)[1]), None, value, self.text)


class _Twice(dict[str, Any]):
    """An object with a key that is set twice."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class _UnreadTwice(Unread):
    """A value in a text where a key is set twice, which its data is not to show."""

    __slots__ = ()
    plain = Node.plain


class SetAgain(NamedTuple):
    """A key that its object has already: where it stands, and the line on which it was set first."""

    path: Path
    span: Span
    line: int


class _Repeated(ValueError):
    """An object has the same key twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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
    once = json.JSONDecoder(object_pairs_hook=_once, parse_float=real, parse_constant=constant)
    every = json.JSONDecoder(object_pairs_hook=_every_time, parse_float=real, parse_constant=constant)
    return once.raw_decode, every.raw_decode


def read(document: Document, how: tuple[Scan, Scan]) -> list[SetAgain] | None:
    """Gives a document the root of its text, which holds one object, and tells which keys are set again.

    None, and no root, where a scan raises ValueError or something else stands in the text.
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
    if not isinstance(data, dict) or _SPACE.fullmatch(text, end) is None or _deep(text, data):
        return None
    document.root = kind("object", Span(start, end), None, data, text)
    return [] if kind is Unread else _set_again(document, document.root)


def _deep(text: str, data: Any) -> bool:
    """Whether brackets are open in more levels than are read here."""
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    level, depth = [data], 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        inside = [value.values() if isinstance(value, dict) else value for value in level]
        level = [value for values in inside for value in values if isinstance(value, (dict, list))]
    return depth > MAX_DEPTH


def _set_again(document: Document, root: Node) -> list[SetAgain]:
    found = []
    for place in walk(root):
        first: dict[str, int] = {}
        for key, span, _ in place.node.members:
            if first.setdefault(key, span.start) != span.start:
                found.append(SetAgain((*place.path, key), span, document.position(first[key])[0]))
    return sorted(found, key=lambda again: again.span)


_JSON = scans()


def strictly(document: Document) -> Document | None:
    """The document as json.load reads it; None where it raises, and where it makes no object of it.

    json takes what hjson does not: NaN, and an object with the same key twice, of which the last counts.
    """
    found = Document(document.name, document.text, None)
    again = read(found, _JSON)
    if again is None:
        return None
    for path, span, line in again:
        twice = f"{dotted(path)} is set twice, first on line {line}"
        message = f"{twice}; json.load takes the last and says nothing"
        found.departures.append(Problem("shadowed-key", span, message, path, "remove one of the two"))
    return found
