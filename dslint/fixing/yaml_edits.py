"""Edits of a YAML text that carry out one change of the config. Flow collections are edited as JSON is."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from dslint.document import Member, Node, Path
from dslint.finding import Edit
from dslint.fixing import style
from dslint.fixing.changes import Rename
from dslint.fixing.json_edits import Edits, JsonEditor
from dslint.formats.yaml_reader import resolve

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")


class YamlEditor(JsonEditor):
    """Finds the edits of one change in one YAML document."""

    def _code(self, start: int, end: int) -> list[tuple[int, str]]:
        found = []
        at = start
        while at < end:
            if self.text[at] == "#":
                at = style.line_stop(self.text, at)
            else:
                found.append((at, self.text[at]))
                at += 1
        return found

    def _flow(self, node: Node) -> bool:
        return self.text[node.span.start : node.span.start + 1] == "{"

    def _own(self, node: Node) -> list[Member]:
        """The pairs that stand in the object itself, in order; those merged by << stand elsewhere."""
        inside = [m for m in node.members if node.span.start <= m.key_span.start < node.span.end]
        return sorted(inside, key=lambda member: member.key_span.start)

    def _set(self, path: Path, value: Any) -> Edits | None:
        place = self.document.find(path)
        if place is None:
            return self._add(path, "", "", value)
        if place.member is None:
            return None
        written = scalar(value)
        span = place.node.span
        old = self.text[span.start : span.end]
        if place.node.kind == "object" and isinstance(value, (dict, list)):
            return None
        if place.node.kind in ("object", "array") and not old.startswith(("{", "[")):
            return None
        if written is None or old[:1] in ("&", "*", "!", "|", ">") or "\n" in old:
            return None
        before = "" if self.text[span.start - 1 : span.start].isspace() else " "
        return (Edit(span.start, span.end, before + written),)

    def _add(self, path: Path, raw: str, raw_indent: str, value: Any = None) -> Edits | None:
        home = self._home(path)
        if home is None:
            return None
        node, keys = home
        own = self._own(node)
        if self._flow(node):
            flat = raw or json.dumps(value, ensure_ascii=False)
            one_line = "\n" not in flat and not (isinstance(value, float) and "e" in flat)
            return super()._add(path, flat, raw_indent) if one_line else None
        if not own or not style.first_on_line(self.text, own[0].key_span.start):
            return None
        indent = style.indent(self.text, own[0].key_span.start)
        end, step = style.line_end(self.text), style.unit(self.document)
        lines = []
        for key in keys[:-1]:
            lines.append(f"{indent}{key}:")
            indent += step
        if raw:
            lines.append(f"{indent}{keys[-1]}:{self._carried(raw, raw_indent, indent + step)}")
        else:
            below = pairs(keys[-1], value, indent, step)
            if below is None:
                return None
            lines += below
        last = own[-1].node.span.end
        if self.text[last - 1 : last] in ("\n", "\r"):  # a block scalar ends with its line
            return (Edit(last, last, end.join(lines) + end),)
        stop = style.line_stop(self.text, last)
        return (Edit(stop, stop, end + end.join(lines)),)

    def _carried(self, raw: str, before: str, after: str) -> str:
        """A value that moves, as it is written."""
        if "\n" not in raw and not _block(raw):
            return f" {raw}"
        end = style.line_end(self.text)
        return end + after + style.shifted(raw, before, after)

    def put(self, move: Any) -> Edits | None:
        place = self.document.find(move.path)
        if place is None or place.member is None or self.document.find(move.to) is not None:
            return None
        span = place.node.span
        raw = self.text[span.start : span.end].rstrip()
        return self._add(move.to, raw, style.indent(self.text, span.start)) if raw else None

    def _rename(self, change: Rename) -> Edits | None:
        found = self._member(change.path)
        if found is None or any(member.key == change.key for member in found[0].members):
            return None
        span = found[0].members[found[1]].key_span
        plain = _PLAIN.match(change.key) and resolve(change.key)[0] == "string"
        name = change.key if plain else json.dumps(change.key, ensure_ascii=False)
        quote = self.text[span.start]
        return (Edit(span.start, span.end, f"{quote}{name}{quote}" if plain and quote in "\"'" else name),)

    def _remove(self, node: Node, number: int) -> Edits | None:
        if self._flow(node):
            return super()._remove(node, number)
        member = node.members[number]
        start, end = member.key_span.start, member.node.span.end
        if len(self._own(node)) < 2 or not style.first_on_line(self.text, start):
            return None
        if self.text[end - 1 : end] in ("\n", "\r"):
            return (Edit(style.line_start(self.text, start), end, ""),)
        return (Edit(style.line_start(self.text, start), style.next_line(self.text, end), ""),)


def _block(raw: str) -> bool:
    return bool(re.match(r"[\w.-]+:(?: |$)|- ", raw))


def pairs(key: str, value: Any, indent: str, step: str) -> list[str] | None:
    """The lines of a pair in block style; None where the value cannot be written."""
    if not isinstance(value, dict) or not value:
        written = scalar(value)
        return None if written is None else [f"{indent}{key}: {written}"]
    lines = [f"{indent}{key}:"]
    for name, below in value.items():
        found = pairs(name, below, indent + step, step)
        if found is None:
            return None
        lines += found
    return lines


def scalar(value: Any) -> str | None:
    """A value on one line, as PyYAML reads it back: its floats need a point and a signed exponent."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    if isinstance(value, str):
        plain = _PLAIN.match(value) and resolve(value)[0] == "string"
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)
