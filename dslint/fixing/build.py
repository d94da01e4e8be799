"""Fixes from changes: edits that were tried on the text and read back as meant, or no fix at all."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence

from dslint.document import Document, plain
from dslint.finding import Edit, Fix
from dslint.fixing.changes import Change, Move, Remove, Rename, Set, below, carried_out, homes, in_words, same
from dslint.fixing.edits import Pieces, edited, touch
from dslint.fixing.json_edits import Edits, JsonEditor
from dslint.formats.strict import each_once

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
    strict = not (document.problems or document.departures or is_yaml(document))
    if strict or _but_for_keys_set_twice(document):
        if not spend(document, len(text) // 10):  # json is quick
            return None
        at_once = _at_once(document, changes)
        if at_once and _holds(document, changes, at_once):
            return Fix(title or in_words(changes), safe, at_once)
        if strict and len(changes) == 1 and not isinstance(changes[0], Move):
            return None
    try:
        expected = carried_out(changes, copy.deepcopy(plain(document.root)))
    except (LookupError, TypeError):
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
    if not same(plain(now.root), expected):
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


def _holds(document: Document, changes: tuple[Change, ...], edits: tuple[Edit, ...]) -> bool:
    """Whether edits of strict JSON do what the changes say and nothing else.

    Looked at in the innermost object that they all are in, for the rest of the text stays as it is. False
    where a key is set twice in there.
    """
    assert document.root is not None
    first, last = min(edit.start for edit in edits), max(edit.end for edit in edits)
    paths = [home for change in changes for home in homes(change)]
    node, depth = document.root, 0
    for key, *others in zip(*paths, strict=False):
        same_way = isinstance(key, str) and all(other == key for other in others)
        member = node.member(key) if same_way else None
        if member is None or member.node.kind != "object":
            break
        if not member.node.span.start < first <= last < member.node.span.end:
            break
        node, depth = member.node, depth + 1
    start, end = node.span
    old = document.text[start:end]
    new = edited(old, [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits])
    # One change of JSON without such a key makes none: the editor sees the key that is there.
    quick = len(changes) == 1 and not (document.problems or document.departures)
    read = json.loads if quick else _each_once
    try:
        expected = carried_out(tuple([below(change, depth) for change in changes]), read(old))
        return new != old and same(read(new), expected)
    except (LookupError, TypeError, ValueError, RecursionError):
        return False


def _but_for_keys_set_twice(document: Document) -> bool:
    """Whether that is all that keeps a document from being strict JSON."""
    met = (*document.problems, *document.departures)
    return not is_yaml(document) and all(problem.rule in _TWICE for problem in met)


_each_once = json.JSONDecoder(object_pairs_hook=each_once).decode
"""Reads JSON, but for an object in which a key is set twice: ValueError."""


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
