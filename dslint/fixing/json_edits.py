"""Edits of a JSON or HJSON text that carry out one change of the config.

Commas, line ends, indents and quotes follow the neighbours. Comments stay, but for one on the line of a
pair that goes. None: the text has no place for the change that is sure.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from dslint.document import Document, Member, Node, Path
from dslint.finding import Edit
from dslint.fixing import style
from dslint.fixing.changes import Change, Drop, Move, Remove, Rename, Set

Edits = tuple[Edit, ...]

_COLON = re.compile(r"[ \t]*:[ \t]*\Z")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class JsonEditor:
    """Finds the edits of one change in one document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.text = document.text

    def edits(self, change: Change) -> Edits | None:
        """The edits of a change, or None."""
        if isinstance(change, Set):
            return self._set(change.path, change.value)
        if isinstance(change, Rename):
            return self._rename(change)
        if isinstance(change, Remove):
            found = self._member(change.path)
            return self._remove(*found) if found else None
        if isinstance(change, Drop):
            found = self._standing_at(change.start)
            return self._remove(*found) if found else None
        return None  # a Move is a Put and a Remove, which build does one after the other

    def put(self, move: Move) -> Edits | None:
        """The first half of a move: the value, as it is written, at its new place too."""
        place = self.document.find(move.path)
        if place is None or place.member is None or self.document.find(move.to) is not None:
            return None
        span = place.node.span
        raw = self.text[span.start : span.end]
        return self._add(move.to, raw, style.indent(self.text, place.member.key_span.start))

    # Where things stand

    def _member(self, path: Path) -> tuple[Node, int] | None:
        """The object of a key and the number of its pair; of a duplicate key the last."""
        if not path:
            return None
        parent = self.document.find(path[:-1])
        if parent is None or parent.node.kind != "object":
            return None
        keys: list[str | int] = [member.key for member in parent.node.members]
        return (parent.node, keys.index(path[-1])) if keys.count(path[-1]) == 1 else None

    def _standing_at(self, start: int) -> tuple[Node, int] | None:
        stack = [self.document.root] if self.document.root else []
        while stack:
            node = stack.pop()
            for i, member in enumerate(node.members):
                if member.key_span.start == start:
                    return node, i
                stack.append(member.node)
            stack += node.items
        return None

    def _closing(self, node: Node) -> int:
        """Where the closing bracket of an object stands; of one without, where it ends."""
        return node.span.end - 1 if self.text[node.span.start : node.span.start + 1] == "{" else node.span.end

    def _comma(self, start: int, end: int) -> int | None:
        """Where the comma between two things stands, comments passed over."""
        if not self._commented(start, end):
            at = self.text.find(",", start, end)
            return None if at < 0 else at
        for at, char in self._code(start, end):
            if char == ",":
                return at
        return None

    def _code(self, start: int, end: int) -> list[tuple[int, str]]:
        """The characters of a gap that belong to no comment."""
        found = []
        at = start
        while at < end:
            if self.text.startswith("/*", at):
                close = self.text.find("*/", at + 2)
                at = end if close < 0 else close + 2
            elif self.text[at] == "#" or self.text.startswith("//", at):
                at = style.line_stop(self.text, at)
            else:
                found.append((at, self.text[at]))
                at += 1
        return found

    def _commented(self, start: int, end: int) -> bool:
        """Whether there may be a comment in a gap."""
        gap = self.text[start:end]
        return "/" in gap or "#" in gap

    def _breaks(self, start: int, end: int) -> int | None:
        """Where the first line end in a gap stands, comments passed over."""
        return next((at for at, char in self._code(start, end) if char in "\r\n"), None)

    def _plain(self, start: int, end: int) -> bool:
        """Whether a gap holds no comment."""
        return not self.text[start:end].strip(" \t\r\n,")

    # Setting and adding

    def _set(self, path: Path, value: Any) -> Edits | None:
        place = self.document.find(path)
        if place is None:
            home = self._home(path)
            written = None if home is None else self.write(value, "", self._lines(home[0]))
            return None if written is None else self._add(path, written, "")
        if place.member is None and place.path == ():
            return None
        span = place.node.span
        lines = place.node.kind == "object" and "\n" in self.text[span.start : span.end]
        written = self.write(value, style.indent(self.text, span.start), lines)
        return None if written is None else (Edit(span.start, span.end, written),)

    def write(self, value: Any, indent: str, lines: bool) -> str | None:
        """A value as JSON, objects over several lines where `lines`."""
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
            value = int(value) if abs(value) >= 1e6 else value
        if not lines or not isinstance(value, dict) or not value:
            return json.dumps(value, ensure_ascii=False)
        end, deeper = style.line_end(self.text), indent + style.unit(self.document)
        pairs = []
        for key, below in value.items():
            written = self.write(below, deeper, True)
            if written is None:
                return None
            pairs.append(f"{deeper}{json.dumps(key, ensure_ascii=False)}: {written}")
        return "{" + end + f",{end}".join(pairs) + end + indent + "}"

    def _home(self, path: Path) -> tuple[Node, list[str]] | None:
        """The innermost object there is above a path, and the keys that are missing below it."""
        depth = len(path) - 1
        while depth and self.document.find(path[:depth]) is None:
            depth -= 1
        home = self.document.find(path[:depth])
        if home is None or home.node.kind != "object" or not all(isinstance(k, str) for k in path[depth:]):
            return None
        return home.node, [str(key) for key in path[depth:]]

    def _add(self, path: Path, raw: str, raw_indent: str) -> Edits | None:
        """A new pair, in new objects where its own is missing. `raw` is the value's text."""
        home = self._home(path)
        if home is None:
            return None
        node, keys = home
        if not node.members:
            return self._fill(node, keys, raw, raw_indent)
        last = node.members[-1]
        end, close = last.node.span.end, self._closing(node)
        comma = self._comma(end, close)
        unquoted = self._unquoted(last)
        start = last.key_span.start
        if self._lines(node):
            indent = style.indent(self.text, start)
            pair = self._pair(last, keys, raw, raw_indent, indent, True)
            stop = self._after_comments(end if comma is None else comma + 1, close)
            new = style.line_end(self.text) + indent + pair + ("" if comma is None else ",")
            bare = unquoted or self._without_commas(node)
            first = () if comma is not None or bare else (Edit(end, end, ","),)
            if first and stop == end:
                return (Edit(end, end, "," + new),)
            return (*first, Edit(stop, stop, new))
        if unquoted:
            return None
        pair = self._pair(last, keys, raw, raw_indent, style.indent(self.text, start), False)
        at = end if comma is None else comma + 1
        return (Edit(at, at, (", " if comma is None else " ") + pair),)

    def _lines(self, node: Node) -> bool:
        """Whether a new pair of an object gets a line of its own, as its last pair has."""
        if not node.members:
            text = self.text.strip()
            return "\n" in text or "\r" in text
        last = node.members[-1]
        end, close = last.node.span.end, self._closing(node)
        broken = self._breaks(end, close) is not None or close == len(self.text)
        return style.first_on_line(self.text, last.key_span.start) and broken

    def _after_comments(self, start: int, close: int) -> int:
        """Where the line of the last value ends, comments behind it passed over."""
        at = self._breaks(start, close)
        return close if at is None else at

    def _unquoted(self, member: Member) -> bool:
        """Whether a value is text that runs to the end of its line."""
        node = member.node
        return node.kind == "string" and self.text[node.span.start : node.span.start + 1] not in ('"', "'")

    def _without_commas(self, node: Node) -> bool:
        if len(node.members) < 2:
            return False
        one, other = node.members[-2:]
        return self._comma(one.node.span.end, other.key_span.start) is None

    def _fill(self, node: Node, keys: list[str], raw: str, raw_indent: str) -> Edits | None:
        """The first pair of an object."""
        if self.text[node.span.start : node.span.start + 1] != "{":
            return None
        start, close = node.span.start + 1, self._closing(node)
        outer = style.indent(self.text, node.span.start)
        inner = outer + style.unit(self.document)
        if not self._lines(node):
            pair = self._pair(None, keys, raw, raw_indent, inner, False)
            return (Edit(start, close, pair),) if self._plain(start, close) else None
        end = style.line_end(self.text)
        pair = self._pair(None, keys, raw, raw_indent, inner, True)
        if self._plain(start, close):
            return (Edit(start, close, end + inner + pair + end + outer),)
        if not style.first_on_line(self.text, close):
            return None
        at = style.line_start(self.text, close)
        return (Edit(at, at, inner + pair + end),)

    def _pair(
        self, like: Member | None, keys: list[str], raw: str, raw_indent: str, indent: str, lines: bool
    ) -> str:
        """The text of a pair in the style of another one."""
        colon, bare = ": ", False
        if like is not None:
            between = self.text[like.key_span.end : like.node.span.start]
            colon = between if _COLON.match(between) and "\n" not in between else ": "
            bare = self.text[like.key_span.start : like.key_span.start + 1] not in ('"', "'")
        name = keys[0] if bare and _BARE.match(keys[0]) else json.dumps(keys[0], ensure_ascii=False)
        if len(keys) == 1:
            return name + colon + style.shifted(raw, raw_indent, indent)
        deeper = indent + style.unit(self.document) if lines else indent
        inner = self._pair(like, keys[1:], raw, raw_indent, deeper, lines)
        if not lines:
            return f"{name}{colon}{{{inner}}}"
        end = style.line_end(self.text)
        return f"{name}{colon}{{{end}{deeper}{inner}{end}{indent}}}"

    # Renaming and removing

    def _rename(self, change: Rename) -> Edits | None:
        found = self._member(change.path)
        if found is None or any(member.key == change.key for member in found[0].members):
            return None
        span = found[0].members[found[1]].key_span
        quote = self.text[span.start]
        plain = _BARE.match(change.key)
        if plain and quote == "'":
            return (Edit(span.start, span.end, f"'{change.key}'"),)
        bare = plain and quote != '"'
        name = change.key if bare else json.dumps(change.key, ensure_ascii=False)
        return (Edit(span.start, span.end, name),)

    def _remove(self, node: Node, number: int) -> Edits | None:
        """Takes a pair out, its comma and, where it has one to itself, its line."""
        members = node.members
        start, end = members[number].key_span.start, members[number].node.span.end
        close = self._closing(node)
        last = number == len(members) - 1
        behind = close if last else members[number + 1].key_span.start
        opening = node.span.start + (self.text[node.span.start : node.span.start + 1] == "{")
        before = members[number - 1].node.span.end if number else opening
        comma = self._comma(end, behind)
        stop = end if comma is None else comma + 1
        ahead = self._comma(before, start) if number else None
        spare = [ahead] if last and comma is None and ahead is not None else []
        if len(members) == 1 and self._plain(opening, start) and self._plain(end, close):
            return (Edit(opening, close, ""),) if opening > node.span.start else None
        rest = self._after_comments(stop, behind)
        if style.first_on_line(self.text, start) and (rest < behind or rest == len(self.text)):
            begin = style.line_start(self.text, start)
            cut = Edit(begin, style.next_line(self.text, rest), "")
            return (*(Edit(at, at + 1, "") for at in spare), cut)
        if not last and self._plain(stop, behind):
            return (Edit(start, behind, ""),)
        if last and number and self._plain(before, start):
            return (Edit(before if spare else start, end if spare else stop, ""),)
        return (*(Edit(at, at + 1, "") for at in spare), Edit(start, stop, ""))
