"""What the `fix:` of a rule file means for one config."""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.document import Path
from dslint.expression import UNKNOWN, Tree, evaluate, show
from dslint.finding import Fix
from dslint.fixing.build import fix_of
from dslint.fixing.changes import Change, Move, Remove, Rename, Set
from dslint.rules import MAX_SHOWN, Scope, render, split
from dslint.values import ACCELERATE

KINDS = ("move", "rename", "set", "remove")
"""In this order the changes of a rule are made."""


def fix_by(compiled: dict[str, Any], config: Config, scope: Scope) -> Fix | None:
    """The fix of a finding; None where a value is unknown or the text does not let it be made."""
    entries = [(kind, entry) for kind in KINDS for entry in compiled.get(kind, ())]
    changes = [_change(kind, entry, config, scope) for kind, entry in entries]
    known = [change for change in changes if change is not None]
    if len(known) < len(changes):
        return None
    title = render(compiled["title"], scope) if "title" in compiled else ""
    return fix_of(config.document, known, compiled["safe"], title)


def _change(kind: str, entry: Any, config: Config, scope: Scope) -> Change | None:
    path = _path(entry if kind == "remove" else entry[0], config, scope)
    if path is None:
        return None
    if kind == "remove":
        return Remove(path)
    value = _value(entry[1], scope)
    if value is UNKNOWN or (value is None and kind != "set"):
        return None
    if kind == "set":
        return Set(path, value)
    if kind == "rename":
        return Rename(path, str(value)) if path else None
    to = _path(str(value), config, scope)
    return Move(path, to) if to else None


def _path(dotted: str, config: Config, scope: Scope) -> Path | None:
    """Where a path of a rule stands in the file; None where the file has no such place."""
    path: Path = split(dotted)
    if path[0] == "this":
        if scope.item is None:
            return None
        path = (*scope.item.path, *path[1:])
    if config.document.config is not None and path[:1] != ACCELERATE:
        return config.document.places.get(path)
    return config.file_path(path)


def _value(tree: Tree, scope: Scope) -> Any:
    if tree[0] == "object":
        found = {key: _value(below, scope) for key, below in tree[1:]}
        return UNKNOWN if any(value is UNKNOWN for value in found.values()) else found
    if tree[0] != "text":
        return evaluate(tree, scope)
    parts = [part if isinstance(part, str) else evaluate(part, scope) for part in tree[1:]]
    if any(part is UNKNOWN or len(show(part)) > MAX_SHOWN for part in parts):
        return UNKNOWN
    return "".join(map(show, parts))
