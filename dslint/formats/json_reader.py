"""Reads a JSON config exactly as DeepSpeed's loader (hjson) does, keeping places and duplicate keys.

The loader is far more lenient than JSON: comments, optional commas and quotes, text that runs to the
end of its line. Whatever it reads is read here with the same value, and remembered as a departure
where strict JSON readers differ. Whatever it refuses becomes a Problem, after which reading goes on as
well as it can. No input makes the reader raise, recurse or take more than linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Final

from ..document import Document, Member, Node, Path, Problem, Span, dotted, line_starts
from .json_tokens import (
    Dissection,
    Token,
    comma_after,
    cure_of_word,
    dissect,
    meant_value,
    read_multiline,
    read_string,
    read_unquoted,
    shown,
    single_quoted,
)

MAX_SIZE: Final = 1 << 20
"""Characters; a DeepSpeed config has a few thousand, and larger files are not read at all."""

MAX_DEPTH: Final = 400
"""Open brackets. The loader recurses and dies at 495 under Python's default limit when called from a
bare script; the frames of a training script and of DeepSpeed come off that."""

MAX_PROBLEMS: Final = 20
"""Reading ends after this many problems: the rest would be consequences."""

MAX_DEPARTURES: Final = 1000
"""How many departures of one rule are kept, which bounds the memory that a hostile file takes."""

_SPACE = re.compile(r"[ \t\n]*")
_DOUBLE_QUOTED = re.compile(r'"([^"\\\x00-\x1f]*)"')
_SINGLE_QUOTED = re.compile(r"'([^'\\\x00-\x1f]*)'")
_UNQUOTED_KEY = re.compile(r"([^ \t\n:{}\[\],]+)([ \t\n]*):")

_BOMS = ("\ufeff", "\u00ef\u00bb\u00bf")  # as UTF-8, and as UTF-8 mistaken for Latin-1
_CONFLICT = r"<{7}|={7}|>{7}"
_DEPARTURES = {
    "comment": ("strict JSON has no comments", "remove the comment"),
    "trailing-comma": ("strict JSON has no comma before a closing bracket", "remove the comma"),
    "missing-comma": ("strict JSON needs a comma here", "put a comma here"),
    "missing-root-braces": ("strict JSON needs { and } around the config", "put { before and } after it"),
    "byte-order-mark": ("strict JSON readers refuse a byte order mark", "save the file as UTF-8 without BOM"),
    "unquoted-key": ("strict JSON needs double quotes around a key", ""),
}


def read_json(text: str, name: str) -> Document:
    """Read a JSON config.

    The root is None only if nothing could be read. `problems` is empty exactly for what DeepSpeed's
    loader turns into an object, apart from empty files and files over MAX_SIZE or MAX_DEPTH. Missing
    commas, and what is missing at the end of a file, are pointed at with an empty span.
    """
    doc = Document(name, text, None)
    if len(text) > MAX_SIZE:
        size = f"{len(text):,} characters; dslint reads configs of up to {MAX_SIZE:,}"
        doc.problems.append(Problem("file-too-large", Span(0, 0), size, cure="name a DeepSpeed config"))
        return doc
    reading = _read(text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text)
    doc.root = reading.root
    doc.problems = sorted(reading.problems, key=lambda problem: problem.span)
    doc.departures = sorted(reading.departures, key=lambda departure: departure.span)
    if "\0" in text and _refused(doc.problems):
        doc.problems = [_binary_file(reading.text)]
    if "\r\n" in text:
        _restore_line_ends(doc)
    return doc


def _read(text: str) -> _Reading:
    """The reading that tells most: of a refused text that with the likeliest cause."""
    reading = _Reading(text)
    reading.read()
    if reading.swallowed and _refused(reading.problems):
        # Unquoted text took brackets or pairs for its own, so what came later was misread.
        meant = _Reading(text, as_meant=True)
        meant.read()
        return meant if meant.problems else reading
    return reading


def _refused(problems: list[Problem]) -> bool:
    """Whether the loader itself fails on the syntax, rather than DeepSpeed on what it read."""
    return any(problem.rule not in ("empty-file", "not-an-object", "duplicate-key") for problem in problems)


def _binary_file(text: str) -> Problem:
    offset = text.index("\0")
    message = "the file holds zero bytes, so it is no text; DeepSpeed cannot read it"
    cure = "name the config file, or restore it: zero bytes are what an interrupted write leaves"
    return Problem("binary-file", Span(offset, offset + 1), message, cure=cure)


def _restore_line_ends(doc: Document) -> None:
    r"""Turn offsets into the text with "\n" line ends into offsets into the text as it is."""
    breaks = [match.start() - i for i, match in enumerate(re.finditer("\r\n", doc.text))]

    def original(span: Span) -> Span:
        return Span(span.start + bisect_left(breaks, span.start), span.end + bisect_left(breaks, span.end))

    for problem in (*doc.problems, *doc.departures):
        problem.span = original(problem.span)
    nodes = [doc.root] if doc.root else []
    while nodes:
        node = nodes.pop()
        node.span = original(node.span)
        for member in node.members:
            member.key_span = original(member.key_span)
            nodes.append(member.node)
        nodes.extend(node.items)


class _GiveUp(Exception):
    """Ends a reading early: nothing behind this point would tell more."""


class _Open:
    """An object or list whose end has not been read yet."""

    __slots__ = ("closer", "comma", "count", "duplicate", "first_seen", "key", "key_span", "node")

    def __init__(self, node: Node, closer: str) -> None:
        self.node = node
        self.closer = closer  # "}" or "]", or "" for a root object without braces
        self.first_seen: dict[str, int] = {}  # where each key of an object stands first
        self.key: str | None = None  # of the member being read; None drops the value
        self.key_span = Span(0, 0)
        self.comma = -1  # where the comma behind the last value stands
        self.count = 0  # values read, dropped ones included
        self.duplicate = False


class _Reading:
    """One pass over a text with "\\n" line ends.

    `as_meant` reads unquoted text the way its author meant it instead of up to the end of the line,
    and makes a problem of it: this is for texts that the loader refuses for that very reason.
    """

    def __init__(self, text: str, as_meant: bool = False) -> None:
        self.text = text
        self.as_meant = as_meant
        self.pos = 0
        self.root: Node | None = None
        self.stack: list[_Open] = []
        self.last_end = 0  # where the last token ended
        self.problems: list[Problem] = []
        self.departures: list[Problem] = []
        self.swallowed = False  # unquoted text took in brackets or whole pairs
        self.no_object: Problem | None = None  # why the root became a single value instead of an object
        self.fatal: bool | None = None  # of the loader's first fault; None while there is none
        self._kept: Counter[str] = Counter()
        self._line_end_seen = (0, -1)  # an offset, and the last line end before it
        self._lines: list[int] = []

    # What was met

    def fault(self, span: Span, message: str, cure: str, fatal: bool = False, rule: str = "syntax-error") -> None:
        """Note something that the loader refuses."""
        if self.fatal is None:
            self.fatal = fatal
        self.problems.append(Problem(rule, span, message, self.path(), cure))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _GiveUp

    def depart(self, rule: str, span: Span, cure: str = "") -> None:
        """Note something that the loader reads and strict JSON readers do not."""
        message, usual_cure = _DEPARTURES[rule]
        self.keep(Problem(rule, span, message, cure=cure or usual_cure))

    def keep(self, departure: Problem) -> None:
        """Keep a departure, unless there are too many of its kind."""
        self._kept[departure.rule] += 1
        if self._kept[departure.rule] <= MAX_DEPARTURES:
            departure.path = self.path()
            self.departures.append(departure)

    def path(self) -> Path:
        """The path of the value being read, or of its object where the key is not known yet."""
        parts: list[str | int] = []
        for frame in self.stack:
            if frame.closer == "]":
                parts.append(len(frame.node.items))
            elif frame.key is not None:
                parts.append(frame.key)
        return tuple(parts)

    def line(self, offset: int) -> int:
        """The line, from 1, of an offset."""
        self._lines = self._lines or line_starts(self.text)
        return bisect_right(self._lines, offset)

    def char(self) -> str:
        """The next character, "" at the end."""
        return self.text[self.pos : self.pos + 1]

    # The root

    def read(self) -> None:
        """Read the whole text."""
        try:
            self._read_root()
        except _GiveUp:
            pass
        for frame in reversed(self.stack):
            self._end(frame, max(self.pos, self.last_end))
        self.stack.clear()

    def _read_root(self) -> None:
        bom = next((mark for mark in _BOMS if self.text.startswith(mark)), "")
        if bom:
            self.depart("byte-order-mark", Span(0, len(bom)))
        self.pos = len(bom)
        self._skip()
        if not self.char():
            self._empty(bom)
        elif self.char() in "{[":
            self.root = self._open(self.char())
            self._run()
            self._after_root()
        else:
            self._read_root_without_braces(self.pos)
        if self.root is not None and self.root.kind != "object":
            self._not_an_object(self.root)

    def _empty(self, bom: str) -> None:
        if self.fatal is not None:
            return  # an unclosed comment
        if not bom:
            self.root = Node("object", Span(0, 0))
        what = "only comments" if self.text[len(bom) :].strip() else "nothing"
        reads = "DeepSpeed cannot read it" if bom else "DeepSpeed reads {} and misses the batch size"
        message = f"the file holds {what}; {reads}"
        self.fault(Span(0, 0), message, 'write at least {"train_batch_size": 8}', rule="empty-file")

    def _not_an_object(self, root: Node) -> None:
        kind = "list" if root.kind == "array" else root.kind
        message = f"the config is a {kind}; DeepSpeed needs an object and crashes on it"
        cure = "take the [ ] away" if root.items else 'write { "key": value, ... }'
        span = Span(root.span.start, min(root.span.end, root.span.start + 1))
        if self.no_object is not None:
            message = f"{message}: it falls back to a {kind}, because {self.no_object.message}"
            span, cure = self.no_object.span, self.no_object.cure
        self.fault(span, message, cure, rule="not-an-object")

    def _read_root_without_braces(self, start: int) -> None:
        """An object without its braces; failing that, the loader tries a single value."""
        self.depart("missing-root-braces", Span(start, start))
        self.root = Node("object", Span(start, start))
        self.stack.append(_Open(self.root, ""))
        try:
            self._run()
        except _GiveUp:
            pass
        if self.fatal is False and not self.as_meant:
            self._try_single_value(start)

    def _try_single_value(self, start: int) -> None:
        single = _Reading(self.text)
        single.pos = start
        frame = _Open(Node("array", Span(start, start)), "]")
        single.stack.append(frame)
        try:
            single._value(frame)
        except _GiveUp:
            return
        if single.problems or single.char() or frame.comma >= 0 or not frame.node.items:
            return
        for departure in single.departures:
            departure.path = ()
        marks = [departure for departure in self.departures if departure.rule == "byte-order-mark"]
        self.no_object = self._clearest_problem() if ":" in self.text else None
        self.root = frame.node.items[0]
        self.departures = marks + single.departures
        self.problems, self.swallowed = [], False
        self.stack.clear()

    def _clearest_problem(self) -> Problem:
        """Why the text is no object."""
        if self.swallowed:
            meant = _Reading(self.text, as_meant=True)
            meant.read()
            return (meant.problems or self.problems)[0]
        return self.problems[0]

    def _after_root(self) -> None:
        """Nothing but space and comments may follow the root."""
        self._skip()
        if not self.char():
            return
        start = self.pos
        opened = f"line {self.line(self.last_end - 1)}"
        span = Span(start, start + 1)
        if re.compile(r",?\s*[{\[]").match(self.text, start):
            message = f"another document begins here, after the one that ends on {opened}"
            self.fault(span, message, "keep one config in a file", rule="several-documents")
        elif self.char() in "}]":
            self.fault(span, f"this {self.char()} closes nothing: the config ended on {opened}", "remove it")
        elif re.compile(r",?\s*(?:\"[^\"\n]*\"|[\w.]+)\s*:").match(self.text, start):
            message = f"more keys follow, but the config ended with the bracket on {opened}"
            self.fault(span, message, f"remove the bracket on {opened}, or open one that it closes")
        elif self.char() == ",":
            self.fault(span, "a comma after the end of the config", "remove the comma")
        else:
            self.fault(span, f"text after the end of the config on {opened}", "remove it, or comment it out")

    # Objects and lists

    def _run(self) -> None:
        """Read on until everything that is open has been closed."""
        stack = self.stack
        while stack:
            frame = stack[-1]
            char = self.char()
            if char == frame.closer:
                self._close(frame)
            elif not char:
                self._unclosed()
            elif frame.closer == "]":
                self._check_comma(frame)
                self._item(frame, char)
            else:
                self._check_comma(frame)
                self._member(frame, char)

    def _open(self, opener: str) -> Node:
        """Step into a new object or list."""
        if len(self.stack) >= MAX_DEPTH:
            message = f"more than {MAX_DEPTH} brackets are open; DeepSpeed's recursive loader gives up on it"
            span = Span(self.pos, self.pos + 1)
            self.fault(span, message, "nest less deeply", fatal=True, rule="nesting-too-deep")
            raise _GiveUp
        kind, closer = ("object", "}") if opener == "{" else ("array", "]")
        node = Node(kind, Span(self.pos, self.pos + 1))
        self.stack.append(_Open(node, closer))
        self.pos += 1
        self.last_end = self.pos
        self._skip()
        return node

    def _close(self, frame: _Open) -> None:
        if frame.comma >= 0:
            self.depart("trailing-comma", Span(frame.comma, frame.comma + 1))
        if frame.closer:
            self.pos += 1
            self.last_end = self.pos
        self.stack.pop()
        self._end(frame, self.last_end)
        if self.stack:
            self._after_value(self.stack[-1])

    def _end(self, frame: _Open, end: int) -> None:
        frame.node.span = Span(frame.node.span.start, max(end, frame.node.span.start))
        if frame.duplicate and self.fatal is None:
            self.fatal = True  # the loader looks for duplicate keys when an object ends

    def _unclosed(self) -> None:
        """The text ends inside brackets: one problem about all that are open."""
        frames = [frame for frame in self.stack if frame.closer]
        openers = [frame.node.span.start for frame in frames]
        closers = "".join(frame.closer for frame in reversed(frames))
        suspect = self._misindented()
        end = Span(self.last_end, self.last_end)
        if suspect is not None and len(frames) == 1:
            closer = "}" if self.text[suspect] == "{" else "]"
            place = f"line {self.line(suspect)}"
            message = f"a {closer} is missing: by its indentation, the {self.text[suspect]} opened on {place} is not closed"
            self.fault(end, message, f"close the {self.text[suspect]} of {place} with {closer}")
        elif len(frames) == 1:
            opener = self.text[openers[0]]
            message = f"the file ends, but the {opener} opened on line {self.line(openers[0])} is not closed"
            self.fault(end, message, f"write {closers} at the end")
        else:
            lines = f"lines {self.line(openers[0])} to {self.line(openers[-1])}"
            message = f"the file ends inside {len(frames)} brackets opened on {lines}"
            self.fault(end, message, f"write {shown(closers)} at the end; the file may be cut off")
        raise _GiveUp

    def _misindented(self) -> int | None:
        """The bracket whose closing one is indented otherwise, as if meant for an outer bracket."""
        found: Node | None = None
        nodes = [self.root] if self.root else []
        while nodes:
            node = nodes.pop()
            if self._closed_elsewhere(node) and (found is None or node.span.end < found.span.end):
                found = node
            nodes.extend(node.items)
            nodes.extend(member.node for member in node.members)
        return None if found is None else found.span.start

    def _closed_elsewhere(self, node: Node) -> bool:
        start, last = node.span.start, node.span.end - 1
        if node.kind not in ("object", "array") or self.line(start) == self.line(last):
            return False
        indent = self.text[self._lines[self.line(last) - 1] : last]
        return not indent.strip() and indent != self._indent_of(self._lines[self.line(start) - 1])

    def _indent_of(self, line_start: int) -> str:
        match = re.compile(r"[ \t]*").match(self.text, line_start)
        return match[0] if match else ""

    def _after_value(self, frame: _Open) -> None:
        """Skip to what follows a value, over one comma."""
        frame.count += 1
        frame.key = None
        frame.comma = -1
        self._skip()
        if self.char() == ",":
            frame.comma = self.pos
            self.pos += 1
            self._skip()

    def _check_comma(self, frame: _Open) -> None:
        if frame.comma < 0 and frame.count:
            self.depart("missing-comma", Span(self.last_end, self.last_end))
        frame.comma = -1

    def _attach(self, frame: _Open, node: Node) -> None:
        if frame.closer == "]":
            frame.node.items.append(node)
        elif frame.key is not None:
            frame.node.members.append(Member(frame.key, frame.key_span, node))

    # Keys

    def _member(self, frame: _Open, char: str) -> None:
        if char in "}],:{[":
            self._no_key(frame, char)
            return
        if char in "\"'":
            key = self._quoted_key(char)
        else:
            key = self._unquoted_key()
        if key is None:
            self._after_value(frame)
            return
        frame.key, frame.key_span = key
        first = frame.first_seen.setdefault(frame.key, frame.key_span.start)
        if first != frame.key_span.start:
            self._duplicate(frame, first)
        if self._colon(frame):
            self._value(frame)

    def _duplicate(self, frame: _Open, first: int) -> None:
        frame.duplicate = True
        path = self.path()
        message = f"{shown(dotted(path))} is set twice, first on line {self.line(first)}; DeepSpeed refuses that"
        self.problems.append(Problem("duplicate-key", frame.key_span, message, path, "remove one of the two"))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _GiveUp

    def _quoted_key(self, quote: str) -> tuple[str, Span] | None:
        start = self.pos
        match = (_DOUBLE_QUOTED if quote == '"' else _SINGLE_QUOTED).match(self.text, start)
        if match:
            span = Span(start, match.end())
            self.pos = self.last_end = span.end
            if quote == "'":
                self.keep(single_quoted(span))
            return match[1], span
        token = read_string(self.text, start)
        self.pos = self.last_end = token.next
        self._note(token)
        if token.faults and self.char() in ("", "\n"):
            return None  # never closed: the rest of its line is lost
        return str(token.value), token.span

    def _unquoted_key(self) -> tuple[str, Span] | None:
        start = self.pos
        match = _UNQUOTED_KEY.match(self.text, start)
        if match is None:
            return self._bad_key()
        key, space = match.groups()
        key = key.rstrip() if space else key  # as the loader does, to the letter
        self.pos = match.end() - 1
        self.last_end = self.pos - len(space)
        span = Span(start, start + len(key))
        plain = key.strip("\u201c\u201d\u2018\u2019\"'")
        cure = f'write "{shown(plain)}"' if '"' not in plain else "look for a missing quote before it"
        self.depart("unquoted-key", span, cure)
        return key, span

    def _no_key(self, frame: _Open, char: str) -> None:
        """A bracket, comma or colon where a key should stand."""
        span = Span(self.pos, self.pos + 1)
        if char in "}]":
            self._wrong_closer(frame, char)
        elif char == ",":
            self.fault(span, "a comma with no pair before it", "remove the comma")
            self.pos += 1
            self._skip()
        elif char == ":":
            self.fault(span, "a colon with no key before it", 'write "key": value')
            self.pos += 1
            self._skip()
            if self.char() not in ("", "}", "]", ",", ":"):
                self._value(frame)
        else:
            template = self.text.startswith("{{", self.pos - 1) or self.text.startswith("{%", self.pos - 1)
            message = f"a {char} where a key should stand"
            cure = "fill in the template first" if template else f'write "key": before the {char}'
            self.fault(span, message, cure)
            self._value(frame)

    def _wrong_closer(self, frame: _Open, char: str) -> None:
        """A closing bracket of the other kind: that of an outer bracket, or a stray one."""
        span = Span(self.pos, self.pos + 1)
        if not any(outer.closer == char for outer in self.stack):
            if frame.closer:
                opener = self.text[frame.node.span.start]
                place = f"the {opener} opened on line {self.line(frame.node.span.start)}"
                self.fault(span, f"this {char} cannot close {place}", f"write {frame.closer} instead, or remove it")
            else:
                self.fault(span, f"this {char} closes nothing: no bracket is open", "remove it, or open the file with {")
            self.pos += 1
            self._after_value(frame)
            return
        opener = self.text[frame.node.span.start]
        place = f"the {opener} opened on line {self.line(frame.node.span.start)}"
        self.fault(span, f"this {char} comes before {place} is closed", f"write {frame.closer} before it")
        while self.stack[-1].closer != char:
            self._end(self.stack.pop(), self.last_end)
        self.stack[-1].comma = -1

    def _bad_key(self) -> tuple[str, Span] | None:
        """Text that is no key: find what its author left out, and where to read on."""
        text, start = self.text, self.pos
        if self.fatal is None:
            self.fatal = False  # whatever is found out below
        if re.compile(_CONFLICT).match(text, start):
            self.fault(Span(start, start + 7), "the mark of an unfinished merge", "resolve the merge conflict")
            self.pos = self._line_end(start)
            return None
        word = re.compile(r"[^ \t\n:{}\[\],=]*").match(text, start)
        end = word.end() if word else start
        after = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        spaced = re.compile(r"[^\n:{}\[\],=]+(?=:)").match(text, start)
        if spaced:
            span = Span(start, start + len(spaced[0].rstrip()))
            key = spaced[0].rstrip()
            self.fault(span, f"a key with spaces and no quotes: {shown(key)}", f'write "{shown(key)}"')
            self.pos = self.last_end = spaced.end()
            return key, span
        self.pos = self.last_end = end
        if end == start or text[after : after + 1] in ("", ",", "}", "]"):
            if end == start:
                self.pos = self._line_end(start)
            self._key_alone(Span(start, max(end, start + 1)))
            return None
        return text[start:end], Span(start, end)

    def _key_alone(self, span: Span) -> None:
        word = shown(self.text[span.start : span.end])
        self.fault(span, f"{word} has no value", "write a colon and a value after it, or remove it")

    def _line_end(self, start: int) -> int:
        end = self.text.find("\n", start)
        return len(self.text) if end < 0 else end

    def _colon(self, frame: _Open) -> bool:
        """Skip over the colon behind a key; whether a value can be read now."""
        self._skip()
        if self.char() == ":":
            self.pos += 1
            self._skip()
            return True
        if self.char() in ("", ",", "}", "]"):
            self._key_alone(frame.key_span)
            self._after_value(frame)
            return False
        instead = re.compile(r":?=>?|=>|;|->").match(self.text, self.pos)
        key = shown(self.text[frame.key_span.start : frame.key_span.end])
        if instead:
            span = Span(instead.start(), instead.end())
            self.fault(span, f"{instead[0]} instead of a colon after {key}", f"write : instead of {instead[0]}")
            self.pos = instead.end()
            self._skip()
        else:
            span = Span(frame.key_span.end, frame.key_span.end)
            self.fault(span, f"no colon after the key {key}", f"write {key}: and the value")
        return True

    # Values

    def _item(self, frame: _Open, char: str) -> None:
        span = Span(self.pos, self.pos + 1)
        if char == "}":
            self._wrong_closer(frame, char)
        elif char == ",":
            self.fault(span, "a comma with no value before it", "remove the comma")
            self.pos += 1
            self._skip()
        elif char == ":":
            place = f"the [ opened on line {self.line(frame.node.span.start)}"
            self.fault(span, f"a colon in a list: {place} holds values, no pairs", "write { } for pairs, or a comma")
            self.pos += 1
            self._skip()
        else:
            self._value(frame)

    def _value(self, frame: _Open) -> None:
        """Read a value, or open it."""
        char = self.char()
        if char == '"':
            match = _DOUBLE_QUOTED.match(self.text, self.pos)
            if match:
                span = Span(self.pos, match.end())
                self.pos = self.last_end = span.end
                self._attach(frame, Node("string", span, match[1]))
                self._after_value(frame)
            else:
                self._scalar(frame, read_string(self.text, self.pos))
        elif char in ("{", "["):
            self._attach(frame, self._open(char))
        elif char == "'":
            if self.text.startswith("'''", self.pos):
                self._scalar(frame, read_multiline(self.text, self.pos, self._column()))
            else:
                self._scalar(frame, read_string(self.text, self.pos))
        elif char in ("", "}", "]", ",", ":"):
            self._no_value(frame)
        else:
            self._unquoted(frame)

    def _unquoted(self, frame: _Open) -> None:
        token = read_unquoted(self.text, self.pos)
        if token.kind == "string":
            parts = dissect(str(token.value))
            if parts.swallowed in ("pair", "bracket"):
                self.swallowed = True
                if self.as_meant:
                    token = self._cut_short(token, parts)
        self._scalar(frame, token)

    def _cut_short(self, token: Token, parts: Dissection) -> Token:
        """Make a problem of text that swallowed brackets or pairs, and end it where it was meant to."""
        start, end = token.span.start, token.span.start + len(parts.word)
        rest = shown(parts.rest.strip())
        if parts.swallowed == "pair" and not parts.rest.lstrip().startswith(","):
            message = f"no comma after {shown(parts.word)}, so the string that begins there takes {rest} with it"
            self.fault(Span(end, end), message, comma_after(parts.word))
        else:
            message = f"unquoted text runs to the end of its line: {shown(parts.word)} takes {rest} with it"
            self.fault(Span(start, end), message, cure_of_word(parts.word))
        return meant_value(start, parts.word)

    def _no_value(self, frame: _Open) -> None:
        """A bracket, comma, colon or the end of the text where the value of a key should stand."""
        char = self.char()
        if not char and frame.closer:
            return  # reported as unclosed
        key = shown(self.text[frame.key_span.start : frame.key_span.end])
        if char == ":":
            self.fault(Span(self.pos, self.pos + 1), "a second colon", "remove one of the two")
            self.pos += 1
            self._skip()
            self._value(frame)
            return
        self.fault(Span(self.last_end, self.last_end), f"no value for {key}", f"write a value after {key}:")
        self._after_value(frame)

    def _scalar(self, frame: _Open, token: Token) -> None:
        self.pos = token.next
        self.last_end = token.span.end
        self._note(token)
        self._attach(frame, Node(token.kind, token.span, token.value))
        self._after_value(frame)

    def _note(self, token: Token) -> None:
        for departure in token.departures:
            self.keep(departure)
        for fault in token.faults:
            self.fault(*fault)

    def _column(self) -> int | None:
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

    def _skip(self) -> None:
        """Skip space and comments."""
        text = self.text
        pos = _SPACE.match(text, self.pos).end()  # type: ignore[union-attr]
        while text.startswith(("#", "//", "/*"), pos):
            end = self._comment_end(pos)
            self.depart("comment", Span(pos, end))
            pos = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        self.pos = pos

    def _comment_end(self, start: int) -> int:
        if not self.text.startswith("/*", start):
            return self._line_end(start)
        close = self.text.find("*/", start + 2)
        if close >= 0:
            return close + 2
        self.fault(Span(start, start + 2), "the comment that begins here is never closed", "close it with */", True)
        raise _GiveUp
