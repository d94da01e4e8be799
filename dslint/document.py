"""What stands where in a config file: spans, nodes and whole documents.

A Document is what a reader in :mod:`dslint.formats` makes of a text. It keeps everything that a
Python dict would lose: the place of every key and value, duplicate keys, and how strict JSON
readers would judge the text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, count
from operator import add
from typing import Any, NamedTuple, TypeAlias

Path: TypeAlias = "tuple[str | int, ...]"
"""Keys and list indices from the root to a value."""

Scalar: TypeAlias = "str | int | float | bool | None"


class Span(NamedTuple):
    """A half-open range of character offsets in the text."""

    start: int
    end: int


@dataclass(slots=True)
class Node:
    """A value and where it stands. Scalars hold their Python value in `value`."""

    kind: str  # "object", "array", "string", "number", "boolean" or "null"
    span: Span
    value: Scalar = None
    members: list[Member] = field(default_factory=list)  # of an object, in order, duplicates kept
    items: list[Node] = field(default_factory=list)  # of an array

    def member(self, key: str) -> Member | None:
        """The member that readers take for a key: of a duplicate the last one."""
        return next((member for member in reversed(self.members) if member.key == key), None)

    def plain(self) -> Any:
        """See the function of this name."""
        if self.kind == "object":
            return {member.key: member.node.plain() for member in self.members}
        if self.kind == "array":
            return [item.plain() for item in self.items]
        return self.value


class Member(NamedTuple):
    """One key of an object with its value."""

    key: str
    key_span: Span
    node: Node


@dataclass(slots=True)
class Problem:
    """Something a reader met: the name of the rule that speaks about it, and what it saw."""

    rule: str
    span: Span
    message: str
    path: Path = ()
    cure: str = ""


@dataclass(slots=True)
class Document:
    """A config file as read.

    `root` is None when nothing could be read. `problems` stop DeepSpeed's own loader; `departures`
    are read by it, but rejected or read differently by strict JSON readers (HF Trainer, accelerate,
    LLaMA-Factory, axolotl).
    """

    name: str
    text: str
    root: Node | None
    problems: list[Problem] = field(default_factory=list)
    departures: list[Problem] = field(default_factory=list)
    format: str = "json"  # "json", "yaml", "accelerate", or "arguments" (of a run, no config in it)
    base: Path = ()  # where the DeepSpeed config stands in the file, () for the whole of it
    config: Node | None = None  # the DeepSpeed config that accelerate makes of its own file
    places: dict[Path, Path] = field(default_factory=dict)  # path in `config` -> where the file sets it
    patience: int = 2_000_000  # characters of JSON that may be read again to try fixes, which bounds the time
    _line_starts: list[int] = field(default_factory=list)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both from 1, columns in characters."""
        if not self._line_starts:
            self._line_starts = line_starts(self.text)
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def start_of(self, number: int) -> int:
        """The offset at which a line (from 1) begins."""
        if not self._line_starts:
            self._line_starts = line_starts(self.text)
        return self._line_starts[number - 1]

    def line(self, number: int) -> str:
        """The text of a line (from 1), without its line end."""
        start = self.start_of(number)
        end = self._line_starts[number] if number < len(self._line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    @property
    def lines(self) -> int:
        """How many lines the text has."""
        if not self._line_starts:
            self._line_starts = line_starts(self.text)
        return len(self._line_starts)

    def find(self, path: Path) -> Place | None:
        """Where `path` stands, or None. Of a duplicate key the last one, as JSON readers take it."""
        place = self.nearest(path)
        return place if place is not None and place.path == path else None

    def nearest(self, path: Path) -> Place | None:
        """Where `path` or its nearest ancestor in the text stands."""
        if self.root is None:
            return None
        node, member, depth = self.root, None, 0
        for key in path:
            if isinstance(key, int):
                if not 0 <= key < len(node.items):
                    break
                node, member = node.items[key], None
            else:
                below = node.member(key)
                if below is None:
                    break
                node, member = below.node, below
            depth += 1
        return Place(path[:depth], node, member)


@dataclass(slots=True)
class Place:
    """A value in a document: its path, its node, and its key where it has one."""

    path: Path
    node: Node
    member: Member | None = None

    @property
    def span(self) -> Span:
        """What a finding about this place points at: the key, else the value."""
        if self.member is not None:
            return self.member.key_span
        if self.node.kind in ("object", "array"):
            return Span(self.node.span.start, min(self.node.span.start + 1, self.node.span.end))
        return self.node.span


def walk(root: Node) -> Iterator[Place]:
    """Every place below and including `root`, in the order of the text."""
    stack = [Place((), root)]
    while stack:
        place = stack.pop()
        yield place
        if place.node.kind not in ("object", "array"):
            continue
        below = [Place((*place.path, m.key), m.node, m) for m in place.node.members]
        below += [Place((*place.path, i), node) for i, node in enumerate(place.node.items)]
        stack.extend(reversed(below))


def plain(node: Node) -> Any:
    """The Python value a JSON reader would give: dicts, lists and scalars; of a duplicate key the last.

    It may belong to the node: it is not to be changed.
    """
    return node.plain()


def line_starts(text: str) -> list[int]:
    """Offsets at which lines begin; a line ends with \\n, \\r\\n or a lone \\r."""
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    ends = accumulate(map(len, text.split("\n")[:-1]))  # without the line ends before them
    return [0, *map(add, ends, count(1))]


def dotted(path: Path) -> str:
    """A path as people write it: keys joined with dots, list items as [0]."""
    if path[:1] != ("",):
        try:
            return ".".join(path)  # type: ignore[arg-type]
        except TypeError:  # there are list items on the way, as hardly ever
            pass
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out
