"""The state of reading a JSON config: where it stands, what is open, and what was met so far."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import Final

from ..document import Node, Path, Problem, Span, line_starts
from .json_tokens import Token

MAX_PROBLEMS: Final = 20
"""Reading ends after this many problems: the rest would be consequences."""

MAX_DEPARTURES: Final = 1000
"""How many departures of one rule are kept, which bounds the memory that a hostile file takes."""

NO_COMMA: Final = -1
COMMA_EXCUSED: Final = -2

_SPACE = re.compile(r"[ \t\n]*")
_COMMENT_STARTS = ("#", "/")
_DEPARTURES = {
    "comment": ("strict JSON has no comments", "remove the comment"),
    "trailing-comma": ("strict JSON has no comma before a closing bracket", "remove the comma"),
    "missing-comma": ("strict JSON needs a comma here", "put a comma here"),
    "missing-root-braces": ("strict JSON needs { and } around the config", "put { before and } after it"),
    "byte-order-mark": ("strict JSON readers refuse a byte order mark", "save the file as UTF-8 without BOM"),
    "single-quoted-string": ("strict JSON has no single quotes", "write \" instead of '"),
}


class GiveUp(Exception):
    """Ends a reading early: nothing behind this point would tell more."""


class Open:
    """An object or list whose end has not been read yet."""

    __slots__ = ("closer", "comma", "count", "duplicate", "first_seen", "key", "key_span", "node")

    def __init__(self, node: Node, closer: str) -> None:
        self.node = node
        self.closer = closer  # "}" or "]", or "" for a root object without braces
        self.first_seen: dict[str, int] = {}  # where each key of an object stands first
        self.key: str | None = None  # of the member being read; None drops the value
        self.key_span = Span(0, 0)
        self.comma: int = NO_COMMA  # where the comma behind the last value stands
        self.count = 0  # values read, dropped ones included
        self.duplicate = False


class Cursor:
    """A place in a text with "\\n" line ends, and all that was noted on the way to it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.last_end = 0  # where the last token ended
        self.stack: list[Open] = []
        self.problems: list[Problem] = []
        self.departures: list[Problem] = []
        self.fatal: bool | None = None  # of the loader's first fault; None while there is none
        self._kept: Counter[str] = Counter()
        self._line_end_seen = (0, -1)  # an offset, and the last line end before it
        self._lines: list[int] = []

    # What was met

    def fault(
        self, span: Span, message: str, cure: str, fatal: bool = False, rule: str = "syntax-error"
    ) -> None:
        """Note something that the loader refuses."""
        if self.fatal is None:
            self.fatal = fatal
        self.problem(Problem(rule, span, message, self.path(), cure))

    def problem(self, problem: Problem) -> None:
        """Note a problem, unless there are too many."""
        self.problems.append(problem)
        if len(self.problems) >= MAX_PROBLEMS:
            raise GiveUp

    def depart(self, rule: str, span: Span) -> None:
        """Note something that the loader reads and strict JSON readers do not."""
        message, cure = _DEPARTURES[rule]
        self.keep(Problem(rule, span, message, cure=cure))

    def keep(self, departure: Problem) -> None:
        """Keep a departure, unless there are too many of its kind."""
        self._kept[departure.rule] += 1
        if self._kept[departure.rule] <= MAX_DEPARTURES:
            departure.path = self.path()
            self.departures.append(departure)

    def note(self, token: Token) -> None:
        """Note what a token departs in, and what is wrong with it."""
        for departure in token.departures:
            self.keep(departure)
        for fault in token.faults:
            self.fault(fault.span, fault.message, fault.cure, fault.fatal)

    def path(self) -> Path:
        """The path of the value being read, or of its object where the key is not known yet."""
        parts: list[str | int] = []
        for frame in self.stack:
            if frame.closer == "]":
                parts.append(len(frame.node.items) - (frame is not self.stack[-1]))
            elif frame.key is not None:
                parts.append(frame.key)
        return tuple(parts)

    # Where it stands

    def char(self) -> str:
        """The next character, "" at the end."""
        return self.text[self.pos : self.pos + 1]

    def here(self, length: int = 1) -> Span:
        """The span of the next characters."""
        return Span(self.pos, self.pos + length)

    def line(self, offset: int) -> int:
        """The line, from 1, of an offset."""
        self._lines = self._lines or line_starts(self.text)
        return bisect_right(self._lines, offset)

    def line_end(self, offset: int) -> int:
        """Where the line of an offset ends."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end

    def indent(self, offset: int) -> str:
        """The blanks before the first character on the line of an offset."""
        start = self._line_start(offset)
        end = start
        while self.text[end : end + 1] in (" ", "\t"):
            end += 1
        return self.text[start:end]

    def first_on_its_line(self, offset: int) -> bool:
        """Whether only blanks stand before an offset on its line."""
        return not self.text[self._line_start(offset) : offset].strip()

    def _line_start(self, offset: int) -> int:
        return self._lines[self.line(offset) - 1]

    def column(self) -> int | None:
        """The column, from 0, as the loader counts it for the indent of multi-line strings.

        On the first line it finds no line end before, and goes on counting from the end of the text.
        """
        seen, line_end = self._line_end_seen
        line_end = max(line_end, self.text.rfind("\n", seen, self.pos))
        self._line_end_seen = (self.pos, line_end)
        if line_end >= 0:
            return self.pos - line_end - 1
        last = self.text.rfind("\n")
        return None if last < 0 else self.pos - 1 + len(self.text) - last

    # Space and comments

    def skip(self, length: int = 0) -> None:
        """Skip some characters, and then space and comments."""
        text = self.text
        pos = _SPACE.match(text, self.pos + length).end()  # type: ignore[union-attr]
        while text[pos : pos + 1] in _COMMENT_STARTS and text.startswith(("#", "//", "/*"), pos):
            end = self._comment_end(pos)
            self.depart("comment", Span(pos, end))
            pos = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        self.pos = pos

    def _comment_end(self, start: int) -> int:
        if not self.text.startswith("/*", start):
            return self.line_end(start)
        close = self.text.find("*/", start + 2)
        if close >= 0:
            return close + 2
        self.fault(
            Span(start, start + 2), "the comment that begins here is never closed", "close it with */", True
        )
        raise GiveUp
