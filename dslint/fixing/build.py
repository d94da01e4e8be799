"""Fixes from changes: edits that were tried on the text and read back as meant, or no fix at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dslint.document import Document, plain
from dslint.finding import Edit, Fix
from dslint.fixing.changes import Change, Move, Remove, Rename, Set, carried_out, in_words, same
from dslint.fixing.edits import Pieces, edited, touch
from dslint.fixing.json_edits import Edits, JsonEditor

MAX_TEXT = 100_000
"""Characters of a file that fixes are made for: configs are short."""

_TWICE = ("duplicate-key", "shadowed-key")


def fix_of(document: Document, changes: Sequence[Change], safe: bool, title: str = "") -> Fix | None:
    """The fix that makes some changes, or None where the text does not let them be made surely."""
    changes = tuple(changes)
    text = document.text
    if document.root is None or not changes:
        return None
    if any(problem.rule not in _TWICE for problem in document.problems):
        return None
    if is_yaml(document) and len(changes) == 1 and isinstance(changes[0], (Set, Remove, Rename)):
        from dslint.fixing.yaml_parts import holds

        edits = editor(document).edits(changes[0])
        held = holds(document, changes[0], edits) if edits and spend(document, 0) else False
        if edits and held is not None:
            return Fix(title or in_words(changes), safe, edits) if held else None
    strict = _as_json(document, text)
    try:
        expected = carried_out(changes, plain(document.root) if strict is None else strict)
    except (LookupError, TypeError):
        return None
    if strict is not None:
        if not spend(document, len(text) // 10):  # json is quick
            return None
        at_once = _at_once(document, changes)
        if at_once and (new := edited(text, at_once)) != text and same(_as_json(document, new), expected):
            return Fix(title or in_words(changes), safe, at_once)
        if len(changes) == 1 and not isinstance(changes[0], Move):
            return None
    pieces, now = Pieces(text), document
    for change in changes:
        if isinstance(change, Move):
            now = _round(pieces, document, editor(now).put(change)) or now
            edits = editor(now).edits(Remove(change.path)) if now.text != text else None
        else:
            edits = editor(now).edits(change)
        after = _round(pieces, document, edits)
        if after is None:
            return None
        now = after
    if now.root is None or len(now.problems) > len(document.problems):
        return None
    after = plain(now.root) if strict is None else _as_json(document, pieces.text)
    if not same(after, expected):
        return None
    if pieces.text == text:
        return None
    return Fix(title or in_words(changes), safe, pieces.edits())


def _at_once(document: Document, changes: Sequence[Change]) -> tuple[Edit, ...]:
    """The edits of all changes in the text as it is; none where one would be in the way of another."""
    found: list[Edit] = []
    editing = editor(document)
    for change in changes:
        steps = (
            (editing.put(change), editing.edits(Remove(change.path)))
            if isinstance(change, Move)
            else (editing.edits(change),)
        )
        for edits in steps:
            if not edits or any(touch(one, other) for one in edits for other in found):
                return ()
            found += edits
    return tuple(sorted(found, key=lambda edit: (edit.start, edit.end)))


def _as_json(document: Document, text: str) -> Any:
    """A text read by json, which is quick, where the document is strict JSON; else None."""
    if document.problems or document.departures or is_yaml(document):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def spend(document: Document, size: int | None = None) -> bool:
    """Whether so many characters (all by default) may be read once more: a fix is tried on the text."""
    length = len(document.text)
    if length > MAX_TEXT or document.patience <= 0:
        return False
    read = length if size is None else size
    document.patience -= read * (10 if is_yaml(document) else 1) + length // 20 + 100
    return True


def _round(pieces: Pieces, document: Document, edits: Edits | None) -> Document | None:
    if not edits or not spend(document):
        return None
    pieces.edit(edits)
    after = reread(pieces.text, document)
    return after if after.root is not None else None


def is_yaml(document: Document) -> bool:
    """Whether a document was read as YAML; accelerate's files may be either."""
    return document.format == "yaml" or document.name.lower().endswith((".yaml", ".yml"))


def editor(document: Document) -> JsonEditor:
    """What finds edits in a document."""
    if is_yaml(document):
        from dslint.fixing.yaml_edits import YamlEditor

        return YamlEditor(document)
    return JsonEditor(document)


def reread(text: str, like: Document) -> Document:
    """Another text as the reader of a document reads it."""
    if is_yaml(like):
        from dslint.formats.yaml_reader import read_yaml

        return read_yaml(text, like.name)
    from dslint.formats.json_reader import read_json

    document = read_json(text, like.name)
    if document.problems and len(document.problems) > len(like.problems):
        from dslint.formats.strict import strictly

        document = strictly(document) or document
    return document
