"""Whether edits of a YAML text do what they mean, told by the entries that they lie in alone.

ruamel.yaml takes some 3 µs for a character, so that reading a whole file again for every fix of it takes a
second where a file has many. An entry of a block mapping, or a flow mapping, means by itself what it means
in its file, unless something in the file reaches further: anchors, tags, merges, several documents.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from dslint.document import Document, Member, Node, Span, plain
from dslint.finding import Edit
from dslint.fixing import style
from dslint.fixing.build import spend
from dslint.fixing.changes import Remove, Rename, Set, below, carried_out, same
from dslint.fixing.edits import edited
from dslint.formats.yaml_reader import read_yaml

_FAR = re.compile(r"[&*!%\t\ufeff\x85\u2028\u2029]|<<|^(?:---|\.\.\.)", re.MULTILINE)


def holds(document: Document, change: Set | Remove | Rename, edits: tuple[Edit, ...]) -> bool | None:
    """Whether edits make a change and nothing else; None where only the whole text can tell."""
    if document.problems or document.departures or _FAR.search(document.text):
        return None
    above = change.path[:-1]
    while above and document.find(above) is None:
        above = above[:-1]
    place = document.find(above)
    if place is None or place.node.kind != "object":
        return None
    flow = document.text.startswith("{", place.node.span.start)
    touched = Span(min(edit.start for edit in edits), max(edit.end for edit in edits))
    found = (_between_commas if flow else _lines)(document.text, place.node, touched)
    if found is None:
        return None
    (start, end), members = found
    try:
        here = below(change, len(above))
        expected = carried_out((here,), {member.key: plain(member.node) for member in members})
    except (LookupError, TypeError):
        return False
    before = document.text[start:end]
    after = edited(before, [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits])
    if _last(before, flow) != _last(after, flow) and after:
        return None
    if not spend(document, len(after)):
        return False
    if not flow and not expected:
        return all(line.lstrip()[:1] in ("", "#") for line in after.splitlines())
    again = read_yaml(f"{{{after}}}" if flow else after, document.name)
    if again.root is None or again.problems or again.departures or not same(plain(again.root), expected):
        return False
    if flow:
        return again.root.span == (0, len(after) + 2)
    key = again.root.members[0].key_span.start
    indents = style.indent(after, key), style.indent(document.text, members[0].key_span.start)
    return style.first_on_line(after, key) and indents[0] == indents[1]


def _last(text: str, flow: bool) -> bool:
    """Whether the next entry can follow a text."""
    return text.rstrip().endswith(",") if flow else text.endswith(("\n", "\r"))


def _between_commas(text: str, node: Node, touched: Span) -> tuple[Span, list[Member]] | None:
    """The entries of a flow mapping that a stretch of the text lies in, up to where the next begins."""
    found = _around(node, touched, lambda member: member.key_span.start, node.span.end - 1)
    first = found is not None and text[: found[0].start].rstrip()[-1:] in ("{", ",")
    return found if first else None


def _lines(text: str, node: Node, touched: Span) -> tuple[Span, list[Member]] | None:
    """The entries of a block mapping that a stretch of the text lies in, in whole lines."""
    end = node.span.end
    end = end if text[end - 1] in "\r\n" else style.next_line(text, end)
    found = _around(node, touched, lambda member: style.line_start(text, member.key_span.start), end)
    whole = found and all(style.first_on_line(text, member.key_span.start) for member in found[1])
    return found if whole else None


def _around(
    node: Node, touched: Span, start: Callable[[Member], int], end: int
) -> tuple[Span, list[Member]] | None:
    """The members of a mapping that are touched, and from where to where they go, each up to the next."""
    members = node.members
    first, last = (bisect_right(members, at, key=start) for at in touched)
    end = start(members[last]) if last < len(members) else end
    if not first or touched.end > end:
        return None
    return Span(start(members[first - 1]), end), members[first - 1 : last]
