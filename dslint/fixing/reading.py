"""Fixes of what a reader met: text that strict JSON refuses, Python literals, equal keys.

`strict`: the trainer's own reader refuses the file, so that whatever mends it changes no run. A fix of a
problem stands only if reading the text again finds less wrong than before, and the same values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise

from dslint.document import Document, Node, Problem, Span, plain, walk
from dslint.finding import Edit, Fix
from dslint.fixing.build import fix_of, reread, spend
from dslint.fixing.changes import Drop, same
from dslint.fixing.edits import edited

_WORDS = {"True": "true", "False": "false", "None": "null"}
_SEMICOLON = (";", "write , instead of ;")
_KEPT = {
    "trailing-comma": "remove the comma",
    "missing-comma": "add the comma",
    "byte-order-mark": "remove the byte order mark",
    "single-quoted-string": "write it in double quotes",
    "unquoted-key": "write the key in double quotes",
    "unquoted-string": "write it in double quotes",
    "swallowed-comment": "write it in double quotes",
    "multi-line-string": "write it in double quotes",
    "escape-sequence": "write the character itself",
    "odd-whitespace": "write a plain space",
    "number-format": "write the digits 0 to 9",
    "comment": "remove the comment",
}
"""Departures whose fix changes no value, and what it does."""


def fix_for(document: Document, problem: Problem, strict: bool) -> Fix | None:
    """The fix of a problem or departure, or None where there is not one right answer."""
    if document.root is None or not spend(document):
        return None
    if problem.rule in ("duplicate-key", "shadowed-key"):
        return _one_of_two(document, problem)
    if document.format == "yaml":
        return None
    if problem.rule in ("python-literal", "swallowed-comma"):
        return _literal(document, problem, strict)
    if problem.rule in _KEPT and not any(p.rule == "syntax-error" for p in document.problems):
        edits = _spelled(document, problem)
        safe = problem.rule != "comment"  # what a comment says is lost
        return _checked(document, edits, safe, _KEPT[problem.rule], True)
    if problem.rule == "syntax-error":
        return _mended(document, problem)
    return None


def fix_of_all(document: Document, departures: Sequence[Problem]) -> Fix | None:
    """The fix of several departures as one, after which none of them is left."""
    if document.root is None or document.problems or any(d.rule not in _KEPT for d in departures):
        return None
    found = [_spelled(document, departure) or () for departure in departures]
    edits = tuple(sorted({edit for some in found for edit in some}, key=lambda edit: edit[:2]))
    if () in found or any(after.start < edit.end for edit, after in pairwise(edits)):
        return None
    safe = all(departure.rule != "comment" for departure in departures)
    fix = _checked(document, edits, safe, "write it as strict JSON", True)
    left = len(document.departures) - len(departures)
    return fix if fix and len(reread(edited(document.text, edits), document).departures) == left else None


def _checked(
    document: Document, edits: tuple[Edit, ...] | None, safe: bool, title: str, same_values: bool
) -> Fix | None:
    """A fix of edits after which the reader finds less to say."""
    if not edits or not spend(document) or not spend(document):
        return None
    after = reread(edited(document.text, edits), document)
    before = reread(document.text, document)
    found = (len(before.problems), len(before.departures))
    if after.root is None or (len(after.problems), len(after.departures)) >= found:
        return None
    if same_values and not (before.root and same(plain(after.root), plain(before.root))):
        return None
    return Fix(title, safe, edits)


def _one_of_two(document: Document, problem: Problem) -> Fix | None:
    """Of two pairs with one key the second goes where they agree; else the first, if nobody reads it."""
    start = problem.span.start
    nodes = [place.node for place in walk(document.root)] if document.root else []
    owner = next((node for node in nodes if any(m.key_span.start == start for m in node.members)), None)
    if owner is None:
        return None
    second = next(m for m in owner.members if m.key_span.start == start)
    twins = [m for m in owner.members if m.key == second.key]
    if all(same(plain(twin.node), plain(second.node)) for twin in twins):
        return fix_of(document, [Drop(start)], True, "remove the second of two equal pairs")
    if problem.rule == "shadowed-key" and twins[-1] is second:
        first = twins[-2].key_span.start
        return fix_of(document, [Drop(first)], True, "remove the first, which nobody reads")
    return None


def _spelled(document: Document, problem: Problem) -> tuple[Edit, ...] | None:
    """The edits that write what was read in strict JSON."""
    start, end = problem.span
    text = document.text
    rule = problem.rule
    if rule in ("trailing-comma", "byte-order-mark"):
        return (Edit(start, end, ""),)
    if rule == "missing-comma":
        return (Edit(start, end, ","),) if start == end else None
    if rule == "odd-whitespace":
        return (Edit(start, end, " "),)
    if rule == "comment":
        return (_comment(text, problem.span),)
    if rule == "unquoted-key":
        key = text[start:end]
        if '"' in key or "'" in key or re.search("[\u201c\u201d\u2018\u2019]", key):
            return None
        return (Edit(start, end, json.dumps(key, ensure_ascii=False)),)
    node = _scalar_at(document, start)
    if node is None:
        return _quoted_key(document, problem.span) if rule == "single-quoted-string" else None
    if rule == "number-format" and node.kind != "number":
        return None
    return (Edit(node.span.start, node.span.end, json.dumps(node.value, ensure_ascii=False)),)


def _quoted_key(document: Document, span: Span) -> tuple[Edit, ...] | None:
    for place in walk(document.root) if document.root else ():
        if place.member is not None and place.member.key_span == span:
            return (Edit(span.start, span.end, json.dumps(place.member.key, ensure_ascii=False)),)
    return None


def _comment(text: str, span: Span) -> Edit:
    """Takes a comment out, and the blanks before it; a line of its own goes whole."""
    from dslint.fixing import style

    start, end = span
    if style.first_on_line(text, start) and not text[end : style.line_stop(text, end)].strip():
        return Edit(style.line_start(text, start), style.next_line(text, end), "")
    while start and text[start - 1] in " \t":
        start -= 1
    return Edit(start, end, "")


def _scalar_at(document: Document, offset: int) -> Node | None:
    """The scalar that an offset lies in."""
    if document.root is None:
        return None
    for place in walk(document.root):
        node = place.node
        if node.kind not in ("object", "array") and node.span.start <= offset < node.span.end:
            return node
    return None


def _literal(document: Document, problem: Problem, strict: bool) -> Fix | None:
    """A Python literal, or a value that took the comma behind it."""
    start, end = problem.span
    found = re.match(r"(True|False|None|true|false|null|-?\d[\d.eE+-]*)[ \t]*(,?)$", document.text[start:end])
    if found is None or "'" in found[0]:
        return None
    word, comma = _WORDS.get(found[1], found[1]), found[2]
    try:
        json.loads(word)
    except ValueError:
        return None
    return _checked(document, (Edit(start, end, word + comma),), strict, f"write {word}", False)


def _mended(document: Document, problem: Problem) -> Fix | None:
    """A mistake of syntax with one right answer."""
    start, end = problem.span
    text = document.text
    written = text[start:end]
    if (not written and problem.cure.startswith("put a comma")) or (written, problem.cure) == _SEMICOLON:
        new = ","
    elif problem.cure == f"write : instead of {written}":
        new = ":"
    elif written in _WORDS:
        new = _WORDS[written]
    elif problem.cure == "remove the comma":
        new = ""
    else:
        return None
    return _checked(document, (Edit(start, end, new),), True, problem.cure, False)
