"""Reads a JSON config exactly as DeepSpeed's loader (hjson) does, keeping places and duplicate keys.

The loader is far more lenient than JSON: comments, optional commas and quotes, text that runs to the
end of its line. Whatever it reads is read here with the same value, and remembered as a departure
where strict JSON readers differ. Whatever it refuses becomes a Problem, after which reading goes on as
well as it can. No input makes the reader raise, recurse or take more than linear time.

Strict JSON is read alike, only more slowly than :mod:`.json_reader` does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from contextlib import suppress
from typing import Final

from ..document import Document, Member, Node, Path, Problem, Span, dotted
from .json_cursor import COMMA_EXCUSED, NO_COMMA, Cursor, GiveUp, Open
from .json_tokens import (
    Dissection,
    Token,
    comma_cure,
    comma_missing,
    cure_of_word,
    dissect,
    judge_key,
    meant_value,
    read_multiline,
    read_string,
    read_unquoted,
    shown,
    what_is,
)

MAX_DEPTH: Final = 400
"""Open brackets. The loader recurses and dies at 495 under Python's default limit when called from a
bare script; the frames of a training script and of DeepSpeed come off that."""

_DOUBLE_QUOTED = re.compile(r'"([^"\\\x00-\x1f]*)"')
_UNQUOTED_KEY = re.compile(r"([^ \t\n:{}\[\],]+)([ \t\n]*):")

_BOMS = ("\ufeff", "\u00ef\u00bb\u00bf")  # as UTF-8, and as UTF-8 mistaken for Latin-1
_NOT_SYNTAX = ("not-an-object", "empty-file", "duplicate-key")  # DeepSpeed fails on what was read

# Patterns for faulty input are compiled where they are first used, to keep start-up short.
_MERGE_MARK = r"(?m:^)(?:<{7}|={7}|>{7})"
_MARKUP = r"<[!?a-zA-Z]"
_TEMPLATE = r"\{\{[^{}\"]*\}\}|\{%"
_NEXT_DOCUMENT = r",?\s*[{\[]"
_NEXT_PAIR = r",?\s*(?:\"[^\"\n]*\"|[\w.]+)\s*:"
_INSTEAD_OF_COLON = r":?=>?|;|->"
_SPACED_KEY = r"[^\n:{}\[\],=]+(?=:)"
_BARE_WORD = r"[^ \t\n:{}\[\],=]+"
_DIGIT_GROUPS = r"\d{3}(?:,\d{3})*(?!\w)"


def read_hjson(doc: Document) -> None:
    """Read the text of a document into it.

    The root stays None only if nothing could be read. `problems` is empty exactly for what DeepSpeed's
    loader turns into an object, apart from empty files and files over MAX_DEPTH. Missing commas, and
    what is missing at the end of a file, are pointed at with an empty span.
    """
    text = doc.text
    reading = _read(text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text)
    doc.root = reading.root
    doc.problems = sorted(reading.problems, key=lambda problem: problem.span)
    doc.departures = sorted(reading.departures, key=lambda departure: departure.span)
    if "\0" in text and _not_read(doc):
        doc.problems = [_binary_file(reading.text)]
    if "\r\n" in text:
        _restore_line_ends(doc)


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
    return any(problem.rule not in _NOT_SYNTAX for problem in problems)


def _not_read(doc: Document) -> bool:
    return _refused(doc.problems) or (doc.root is not None and doc.root.kind != "object")


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
        node.members = [member._replace(key_span=original(member.key_span)) for member in node.members]
        nodes.extend(member.node for member in node.members)
        nodes.extend(node.items)


def set_twice(path: Path, span: Span, line: int) -> Problem:
    """The problem of a key that was set before, on some line."""
    message = f"{shown(dotted(path))} is set twice, first on line {line}; DeepSpeed refuses that"
    return Problem("duplicate-key", span, message, path, "remove one of the two")


class _Reading(Cursor):
    """One pass over a text with "\\n" line ends.

    `as_meant` reads unquoted text the way its author meant it instead of up to the end of the line,
    and makes a problem of it: this is for texts that the loader refuses for that very reason.
    """

    def __init__(self, text: str, as_meant: bool = False) -> None:
        super().__init__(text)
        self.as_meant = as_meant
        self.root: Node | None = None
        self.swallowed = False  # unquoted text took in brackets or whole pairs
        self.no_object: Problem | None = None  # why the root became a single value instead of an object

    # The root

    def read(self) -> None:
        """Read the whole text."""
        with suppress(GiveUp):
            self._read_root()
        for frame in reversed(self.stack):
            self._end(frame, max(self.pos, self.last_end))
        self.stack.clear()

    def _read_root(self) -> None:
        bom = next((mark for mark in _BOMS if self.text.startswith(mark)), "")
        if bom:
            self.depart("byte-order-mark", Span(0, len(bom)))
        self.skip(len(bom))
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
        if not bom:
            self.root = Node("object", Span(0, 0))
        what = "only comments" if self.text[len(bom) :].strip() else "nothing"
        reads = "DeepSpeed cannot read it" if bom else "DeepSpeed reads {} and misses the batch size"
        cure = 'write at least {"train_batch_size": 8}'
        self.fault(Span(0, 0), f"the file holds {what}; {reads}", cure, rule="empty-file")

    def _not_an_object(self, root: Node) -> None:
        kind = {"array": "a list", "null": "null"}.get(root.kind, f"a {root.kind}")
        message = f"the config is {kind}; DeepSpeed needs an object and crashes on it"
        cure = "take the [ ] away" if root.items else 'write { "key": value, ... }'
        span = Span(root.span.start, min(root.span.end, root.span.start + 1))
        if self.no_object is not None:
            message = f"DeepSpeed takes the whole file for {kind} and crashes on it: {self.no_object.message}"
            span, cure = self.no_object.span, self.no_object.cure
        self.fault(span, message, cure, rule="not-an-object")

    def _read_root_without_braces(self, start: int) -> None:
        """An object without its braces; failing that, the loader tries a single value."""
        self.depart("missing-root-braces", Span(start, start))
        self.root = Node("object", Span(start, start))
        self.stack.append(Open(self.root, ""))
        with suppress(GiveUp):
            if re.compile(_MARKUP).match(self.text, start):
                message = "the file looks like a web page or XML, not like a config"
                self.fault(self.here(), message, "download the raw config file")
            else:
                self._run()
        if self.fatal is False and not self.as_meant:
            self._try_single_value(start)

    def _try_single_value(self, start: int) -> None:
        single = _Reading(self.text)
        single.pos = start
        frame = Open(Node("array", Span(start, start)), "]")
        single.stack.append(frame)
        try:
            single._value(frame)
        except GiveUp:
            return
        if single.problems or single.char() or frame.comma >= 0 or not frame.node.items:
            return
        self.root = frame.node.items[0]
        if self.root.kind == "string" and (":" in self.text or self.text[start] == "<"):
            self.no_object = self._clearest_problem()
        for departure in single.departures:
            departure.path = ()
        marks = [departure for departure in self.departures if departure.rule == "byte-order-mark"]
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
        self.skip()
        char, start = self.char(), self.pos
        if not char:
            return
        ended = f"line {self.line(self.last_end - 1)}"
        if re.compile(_NEXT_DOCUMENT).match(self.text, start):
            message = f"another document begins here, after the one that ends on {ended}"
            self.fault(self.here(), message, "keep one config in a file", rule="several-documents")
        elif char in "}]":
            self.fault(self.here(), f"this {char} closes nothing: the config ended on {ended}", "remove it")
        elif re.compile(_NEXT_PAIR).match(self.text, start):
            message = f"more keys follow, but the config ended with the bracket on {ended}"
            self.fault(self.here(), message, f"remove the bracket on {ended}, or open one that it closes")
        elif char == ",":
            self.fault(self.here(), "a comma after the end of the config", "remove the comma")
        else:
            message = f"text after the end of the config on {ended}"
            self.fault(self.here(), message, "remove it, or comment it out")

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
                self._item(frame, char)
            else:
                self._member(frame, char)

    def _open(self, opener: str, parent: Open | None = None) -> Node:
        """Step into a new object or list."""
        if len(self.stack) >= MAX_DEPTH:
            message = f"more than {MAX_DEPTH} brackets are open; DeepSpeed's recursive loader gives up on it"
            self.fault(self.here(), message, "nest less deeply", fatal=True, rule="nesting-too-deep")
            raise GiveUp
        kind, closer = ("object", "}") if opener == "{" else ("array", "]")
        node = Node(kind, self.here())
        if parent is not None:
            self._attach(parent, node)
        self.stack.append(Open(node, closer))
        self.last_end = self.pos + 1
        self.skip(1)
        return node

    def _close(self, frame: Open) -> None:
        if frame.comma >= 0:
            self.depart("trailing-comma", Span(frame.comma, frame.comma + 1))
        if frame.closer:
            self.pos += 1
            self.last_end = self.pos
        self.stack.pop()
        self._end(frame, self.last_end)
        if self.stack:
            self._after_value(self.stack[-1])

    def _end(self, frame: Open, end: int) -> None:
        frame.node.span = Span(frame.node.span.start, max(end, frame.node.span.start))
        if frame.duplicate and self.fatal is None:
            self.fatal = True  # the loader looks for duplicate keys when an object ends

    def _attach(self, frame: Open, node: Node) -> None:
        if frame.closer == "]":
            frame.node.items.append(node)
        elif frame.key is not None:
            frame.node.members.append(Member(frame.key, frame.key_span, node))

    def _after_value(self, frame: Open, comma: int = NO_COMMA) -> None:
        """Skip to what follows a value, over one comma; `comma` is what to assume where there is none."""
        frame.count += 1
        frame.key = None
        frame.comma = comma
        self.skip()
        if self.char() == ",":
            frame.comma = self.pos
            self.skip(1)

    def _check_comma(self, frame: Open) -> None:
        if frame.comma == NO_COMMA and frame.count:
            self.depart("missing-comma", Span(self.last_end, self.last_end))
        frame.comma = NO_COMMA

    # Brackets that do not match

    def _unclosed(self) -> None:
        """The text ends inside brackets: one problem about all that are open."""
        frames = [frame for frame in self.stack if frame.closer]
        outer, inner = frames[0].node.span.start, frames[-1].node.span.start
        closers = "".join(frame.closer for frame in reversed(frames))
        end = Span(self.last_end, self.last_end)
        suspect = self._misindented() if len(frames) == 1 else None
        if suspect is not None:
            message = f"{self._bracket(suspect)} is not closed, by the indentation of what follows"
            self.fault(end, message, f"write {'}' if self.text[suspect] == '{' else ']'} where it should end")
        elif len(frames) == 1:
            message = f"the file ends, but {self._bracket(outer)} is not closed"
            self.fault(end, message, f"write {closers} at the end")
        else:
            lines = f"lines {self.line(outer)} to {self.line(inner)}"
            message = f"the file ends inside {len(frames)} brackets, opened on {lines}"
            self.fault(end, message, f"write {shown(closers)} at the end; the file may be cut off")
        raise GiveUp

    def _bracket(self, offset: int) -> str:
        return f"the {self.text[offset]} opened on line {self.line(offset)}"

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
        return self.first_on_its_line(last) and self.indent(last) != self.indent(start)

    def _wrong_closer(self, frame: Open, char: str) -> None:
        """A closing bracket of the other kind: that of an outer bracket, a slip, or a stray one."""
        if any(outer.closer == char for outer in self.stack):
            opened = self._bracket(frame.node.span.start)
            self.fault(
                self.here(), f"this {char} comes before {opened} is closed", f"write {frame.closer} before it"
            )
            while self.stack[-1].closer != char:
                self._end(self.stack.pop(), self.last_end)
            self.stack[-1].comma = COMMA_EXCUSED
        elif not frame.closer:
            message = f"this {char} closes nothing: no bracket is open"
            self.fault(self.here(), message, "remove it, or open the file with {")
            self.skip(1)
        else:
            message = f"this {char} cannot close {self._bracket(frame.node.span.start)}"
            self.fault(self.here(), message, f"write {frame.closer} instead, or remove it")
            if self.text[self.pos + 1 :].lstrip().startswith(frame.closer):
                self.skip(1)
            else:
                frame.comma = NO_COMMA
                self._close(frame)

    # Pairs

    def _member(self, frame: Open, char: str) -> None:
        if char in "}],:{[":
            self._no_key(frame, char)
            return
        self._check_comma(frame)
        key = self._quoted_key() if char in "\"'" else self._unquoted_key(frame)
        if key is None:
            self._after_value(frame, COMMA_EXCUSED)
            return
        frame.key, frame.key_span = key
        first = frame.first_seen.setdefault(frame.key, frame.key_span.start)
        if first != frame.key_span.start:
            self._duplicate(frame, first)
        if self._colon(frame):
            self._value(frame)

    def _duplicate(self, frame: Open, first: int) -> None:
        frame.duplicate = True
        self.problem(set_twice(self.path(), frame.key_span, self.line(first)))

    def _quoted_key(self) -> tuple[str, Span] | None:
        match = _DOUBLE_QUOTED.match(self.text, self.pos)
        if match:
            self.pos = self.last_end = match.end()
            return match[1], Span(*match.span())
        token = read_string(self.text, self.pos)
        self.pos = self.last_end = token.next
        self.note(token)
        if token.faults and self.char() in ("", "\n"):
            return None  # never closed: the rest of its line is lost
        return str(token.value), token.span

    def _unquoted_key(self, frame: Open) -> tuple[str, Span] | None:
        start = self.pos
        match = _UNQUOTED_KEY.match(self.text, start)
        if match is None:
            return self._bad_key(frame)
        key, space = match.groups()
        key = key.rstrip() if space else key  # as the loader does, to the letter
        self.pos = match.end() - 1
        self.last_end = self.pos - len(space)
        span = Span(start, start + len(key))
        self.keep(judge_key(key, span))
        return key, span

    def _bad_key(self, frame: Open) -> tuple[str, Span] | None:
        """Text that is no key: find what its author left out, and where to read on."""
        text, start = self.text, self.pos
        if self.fatal is None:
            self.fatal = False  # whatever is found out below
        if re.compile(_MERGE_MARK).match(text, start):
            self.fault(self.here(7), "the mark of an unfinished merge", "resolve the merge conflict")
            raise GiveUp
        if text[start] == ";":
            self.fault(self.here(), "; instead of a comma", "write , instead of ;")
            self.pos += 1
            return None
        spaced = re.compile(_SPACED_KEY).match(text, start)
        if spaced:
            key = spaced[0].rstrip()
            span = Span(start, start + len(key))
            self.fault(span, f"a key with spaces and no quotes: {shown(key)}", f'write "{shown(key)}"')
            self.pos = self.last_end = spaced.end()
            return key, span
        groups = re.compile(_DIGIT_GROUPS).match(text, start)
        if groups and re.fullmatch(r"\d,", text[max(0, start - 2) : start]):
            self.fault(
                Span(start - 1, groups.end()), "a number with commas in it", "write the number without commas"
            )
            self.pos = self.last_end = groups.end()
            return None
        word = re.compile(_BARE_WORD).match(text, start)
        if word is None:  # only "=" can stand here
            self._key_alone(frame, self.here())
            self.pos = self.line_end(start)
            return None
        self.pos = self.last_end = word.end()
        span = Span(start, word.end())
        self.skip()
        if self.char() == ":":  # else what is missing is seen next
            message = f"a comment between {shown(word[0])} and its colon, which takes a key in quotes"
            self.fault(span, message, f'write "{shown(word[0])}"')
        return word[0], span

    def _no_key(self, frame: Open, char: str) -> None:
        """A bracket, comma or colon where a key should stand."""
        if char in "}]":
            self._wrong_closer(frame, char)
        elif char == ",":
            self.fault(self.here(), "a comma with no pair before it", "remove the comma")
            self.skip(1)
        elif char == ":":
            what = "a colon behind a value" if frame.count else "a colon with no key before it"
            self.fault(self.here(), what, 'write "key": value')
            self.skip(1)
            if self.char() not in ("", "}", "]", ",", ":"):
                self._value(frame)
        elif any(re.compile(_TEMPLATE).match(self.text, at) for at in (self.pos - 1, self.pos)):
            self.fault(self.here(), "a template that is not filled in yet", "fill in the template first")
            raise GiveUp
        else:
            self.fault(self.here(), f"a {char} where a key should stand", f'write "key": before the {char}')
            self._value(frame)

    def _colon(self, frame: Open) -> bool:
        """Skip over the colon behind a key; whether a value can be read now."""
        self.skip()
        if self.char() == ":":
            self.last_end = self.pos + 1
            self.skip(1)
            return True
        if self.char() in ("", ",", "}", "]"):
            self._key_alone(frame, frame.key_span)
            self._after_value(frame, COMMA_EXCUSED)
            return False
        instead = re.compile(_INSTEAD_OF_COLON).match(self.text, self.pos)
        key = shown(self.text[frame.key_span.start : frame.key_span.end])
        if instead:
            message = f"{instead[0]} instead of a colon after {key}"
            self.fault(Span(*instead.span()), message, f"write : instead of {instead[0]}")
            self.skip(len(instead[0]))
        else:
            end = frame.key_span.end
            self.fault(Span(end, end), f"no colon after the key {key}", f"write {key}: and the value")
            self._give_up_prose(frame)
        return True

    def _key_alone(self, frame: Open, span: Span) -> None:
        word = self.text[span.start : span.end]
        if re.search("[\"']", word[1:-1] if word[:1] in "\"'" else word):
            message = f"{shown(word)} follows the end of a string"
            self.fault(span, message, "write \\ before a quote that belongs to the string")
        else:
            self.fault(
                span, f"{shown(word)} has no value", "write a colon and a value after it, or remove it"
            )
        self._give_up_prose(frame)

    def _give_up_prose(self, frame: Open) -> None:
        """Without braces nothing tells a config with a fault in it from any other text."""
        if not frame.closer:
            raise GiveUp

    # Values

    def _item(self, frame: Open, char: str) -> None:
        if char == "}":
            self._wrong_closer(frame, char)
        elif char == ",":
            self.fault(self.here(), "a comma with no value before it", "remove the comma")
            self.skip(1)
        elif char == ":":
            self._pair_in_list(frame)
        else:
            self._check_comma(frame)
            self._value(frame)

    def _pair_in_list(self, frame: Open) -> None:
        """A colon behind an item: most likely the list should have ended before that key."""
        opened = self._bracket(frame.node.span.start)
        outer = self.stack[-2] if len(self.stack) > 1 else None
        key = frame.node.items[-1] if frame.node.items else None
        if outer is None or outer.closer == "]" or key is None or key.kind != "string":
            message = f"a colon in a list: {opened} holds values, no pairs"
            self.fault(self.here(), message, "write { } around pairs")
            frame.comma = COMMA_EXCUSED
            self.skip(1)
            return
        written = shown(self.text[key.span.start : key.span.end])
        self.fault(key.span, f"{opened} is not closed before the key {written}", "write ] before it")
        self._end(self.stack.pop(), key.span.start)
        frame.node.items.pop()
        outer.key, outer.key_span = str(key.value), key.span
        self.skip(1)
        self._value(outer)

    def _value(self, frame: Open) -> None:
        """Read a value, or open it."""
        char = self.char()
        if char == '"':
            match = _DOUBLE_QUOTED.match(self.text, self.pos)
            if match:
                span = Span(*match.span())
                self.pos = self.last_end = span.end
                self._attach(frame, Node("string", span, match[1]))
                self._after_value(frame)
            else:
                self._scalar(frame, read_string(self.text, self.pos))
        elif char in ("{", "["):
            self._open(char, frame)
        elif char == "'":
            if self.text.startswith("'''", self.pos):
                self._scalar(frame, read_multiline(self.text, self.pos, self.column()))
            else:
                self._scalar(frame, read_string(self.text, self.pos))
        elif char in ("", "}", "]", ",", ":"):
            self._no_value(frame)
        else:
            self._unquoted(frame)

    def _scalar(self, frame: Open, token: Token, comma: int = NO_COMMA) -> None:
        self.pos = token.next
        self.last_end = token.span.end
        self.note(token)
        self._attach(frame, Node(token.kind, token.span, token.value))
        if token.faults and token.next >= len(self.text):
            raise GiveUp  # what is open around an unclosed string is no news
        self._after_value(frame, COMMA_EXCUSED if token.faults else comma)

    def _unquoted(self, frame: Open) -> None:
        token = read_unquoted(self.text, self.pos)
        if token.kind != "string":
            self._scalar(frame, token)
            return
        parts = dissect(str(token.value))
        if parts.swallowed in ("pair", "bracket"):
            self.swallowed = True
            if self.as_meant:
                self._cut_short(token, parts)
                self._scalar(frame, meant_value(token.span.start, parts), COMMA_EXCUSED)
                return
        has_comma = parts.rest.endswith(",") or parts.rest.lstrip().startswith(",")
        self._scalar(frame, token, COMMA_EXCUSED if has_comma else NO_COMMA)

    def _cut_short(self, token: Token, parts: Dissection) -> None:
        """Make a problem of text that swallowed brackets or pairs."""
        start, end = token.span.start, token.span.start + len(parts.word)
        rest = shown(parts.rest.strip())
        if comma_missing(parts):
            message = (
                f"no comma after {shown(parts.word)}, so DeepSpeed reads on to the end of the line: {rest}"
            )
            self.fault(Span(end, end), message, comma_cure(parts))
        else:
            message = f"{what_is(parts.word)}, and DeepSpeed takes the rest of the line as part of it: {rest}"
            self.fault(Span(start, end), message, cure_of_word(parts.word))

    def _no_value(self, frame: Open) -> None:
        """A bracket, comma, colon or the end of the text where the value of a key should stand."""
        char = self.char()
        if not char and frame.closer:
            return  # reported as unclosed
        if char == ":":
            self.fault(self.here(), "a second colon", "remove one of the two")
            self.skip(1)
            self._value(frame)
            return
        key = shown(self.text[frame.key_span.start : frame.key_span.end])
        self.fault(Span(self.last_end, self.last_end), f"no value for {key}", f"write a value after {key}:")
        self._after_value(frame, COMMA_EXCUSED)
