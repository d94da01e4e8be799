"""A config as Python's json module reads it, for the trainers that load it that way."""

from __future__ import annotations

import json
import re
from typing import Final

from ..document import Document, Member, Node, Path, Problem, Span, dotted

MAX_DEPTH: Final = 400
"""Open brackets; json raises a RecursionError somewhat above this."""

_TOKEN = re.compile(r'[\s,:]*(?:("(?:[^"\\]|\\.)*")|([{}\[\]])|([^\s,:{}\[\]"]+))', re.DOTALL)
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def strictly(document: Document) -> Document | None:
    """The document as json.load reads it; None where it raises.

    json takes what hjson does not: NaN, and an object with the same key twice, of which the last counts.
    """
    try:
        json.loads(document.text)
    except (ValueError, RecursionError):
        return None
    found = Document(document.name, document.text, None)
    found.root = _read(document.text, found)
    return found if found.root is not None and found.root.kind == "object" else None


def _read(text: str, document: Document) -> Node | None:
    """The tree of a text that is known to be JSON. None where it nests too deeply."""
    root: Node | None = None
    stack: list[tuple[Node, dict[str, int]]] = []
    path: list[str | int] = []
    key: tuple[str, Span] | None = None
    position = 0
    while match := _TOKEN.match(text, position):
        position = match.end()
        start = match.end() - len(match[1] or match[2] or match[3])
        span = Span(start, position)
        if match[2] in ("}", "]"):
            node, _ = stack.pop()
            node.span = Span(node.span.start, position)
            key = None
            path = path[:-1]
            continue
        if match[1] and stack and stack[-1][0].kind == "object" and key is None:
            key = (json.loads(match[1], strict=False), span)
            first = stack[-1][1].setdefault(key[0], start)
            if first != start:
                document.departures.append(_shadowed(document, (*path, key[0]), first, span))
            continue
        node = Node(*_scalar(match, span)) if not match[2] else _opened(match[2], span)
        if not stack:
            root = node
        elif stack[-1][0].kind == "array":
            path_part: str | int = len(stack[-1][0].items)
            stack[-1][0].items.append(node)
        else:
            assert key is not None
            path_part = key[0]
            stack[-1][0].members.append(Member(key[0], key[1], node))
        if match[2]:
            if len(stack) >= MAX_DEPTH:
                return None
            if stack:
                path.append(path_part)
            stack.append((node, {}))
        key = None
    return root


def _opened(bracket: str, span: Span) -> Node:
    return Node("object" if bracket == "{" else "array", span)


def _scalar(match: re.Match[str], span: Span) -> tuple[str, Span, str | int | float | bool | None]:
    word = match[1] or match[3]
    value = _CONSTANTS[word] if word in _CONSTANTS else json.loads(word)
    if isinstance(value, str):
        return "string", span, value
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean", span, value
    return "number", span, value


def _shadowed(document: Document, path: Path, first: int, span: Span) -> Problem:
    line = document.position(first)[0]
    message = f"{dotted(path)} is set twice, first on line {line}; json.load takes the last and says nothing"
    return Problem("shadowed-key", span, message, path, "remove one of the two")
