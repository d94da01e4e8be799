"""Fixes of what :mod:`dslint.keys` finds: unknown, removed and deprecated keys, values of a wrong type.

Safe is what lets DeepSpeed do the same as before, or what it refused before and whose meaning is beyond
doubt. A key that was dropped without a word starts to count when it is renamed or moved: that is unsafe.
"""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.document import Path, dotted
from dslint.expression import UNKNOWN
from dslint.finding import Fix
from dslint.fixing.build import fix_of
from dslint.fixing.changes import Change, Move, Remove, Rename, Set
from dslint.kinds import meant
from dslint.schema import Schema
from dslint.suggest import distance
from dslint.values import coerce, schema_at

_CONVERTED = {
    "tensor_parallel.enabled",
    "checkpoint.tag_validation_mode",
    "checkpoint.tag_validation_enabled",
    "fp16.dynamic_loss_scale",
    "zero_optimization.cpu_offload_params",
    "zero_optimization.infinity_offload_params",
    "zero_optimization.infinity_offload_optimizer",
    "zero_optimization.find_unused_parameters",
}
"""Names in dslint.renames whose value means something else under the new name."""


def _file(config: Config, path: Path) -> Path | None:
    """A path of the config in the file; None in a file of accelerate's, which spells its own keys."""
    return None if config.document.config is not None else config.file_path(path)


def respelled(config: Config, path: Path, target: Path, refused: bool) -> Fix | None:
    """The fix that gives an unknown key the name and place that DeepSpeed reads."""
    start, end = _file(config, path), _file(config, target)
    if start is None or end is None or start == end or dotted(path) in _CONVERTED:
        return None
    there = config.has(target[:-1])
    if not there and schema_at(config.schema, (*target[:-1], "enabled")):
        return None  # a new section that nothing turns on would read the key as little as before
    change: Change = Rename(start, str(end[-1])) if start[:-1] == end[:-1] else Move(start, end)
    return fix_of(config.document, [change], refused and there and _beyond_doubt(path, target))


def _beyond_doubt(path: Path, target: Path) -> bool:
    """Whether an unknown key can only mean this one: the same name elsewhere, or one slip of the finger."""
    old, new = (str(p[-1]).lower().replace("-", "").replace("_", "") for p in (path, target))
    return old == new or (len(old) > 5 and path[:-1] == target[:-1] and distance(old, new, 1) <= 1)


def removed(config: Config, path: Path, value: Any, advice: str) -> Fix | None:
    """The fix of a key that a release refuses by name: it goes, unless it asked for what has a successor."""
    start = _file(config, path)
    if start is None:
        return None
    off = value in (False, None, -1, 0) or value == {} or _is_off(value)
    if not off and "Remove the" not in advice:
        return None
    return fix_of(config.document, [Remove(start)], off)


def _is_off(value: Any) -> bool:
    return isinstance(value, dict) and value.get("enabled") in (False, 0)


def without(config: Config, path: Path, safe: bool) -> Fix | None:
    """The fix that takes a key out."""
    start = _file(config, path)
    return None if start is None else fix_of(config.document, [Remove(start)], safe)


def deprecated(config: Config, path: Path, new: str | None) -> Fix | None:
    """The fix that writes the replacement of a deprecated key, as DeepSpeed itself would."""
    start = _file(config, path)
    if start is None or not new:
        return None
    section = path[:-1]
    if not schema_at(config.schema, (*section, new)) or config.has((*section, new)):
        # What DeepSpeed sets nothing by can go.
        unread = path[-1] == "cpu_offload_use_pin_memory"
        return fix_of(config.document, [Remove(start)], True) if unread else None
    value = config.written(path)
    if path[-1] in ("cpu_offload", "cpu_offload_param"):
        on = coerce(value, schema_at(config.schema, path), lax=True)
        if value is not None and not isinstance(on, bool):
            return None
        if not on:
            return fix_of(config.document, [Remove(start)], True)
        title = f"rename {dotted(path)} to {new}, with device cpu"
        changes: list[Change] = [Set(start, {"device": "cpu"}), Rename(start, new)]
        return fix_of(config.document, changes, True, title)
    # A trainer that adds a bf16 section of its own hides the one that is called bfloat16.
    safe = path != ("bfloat16",) or config.target.trainer == "raw"
    return fix_of(config.document, [Rename(start, new)], safe)


def retyped(config: Config, path: Path, value: Any, schema: Schema, near: str | None) -> Fix | None:
    """The fix of a value of the wrong type: a number or a switch in quotes, a misspelled choice."""
    start = _file(config, path)
    if start is None:
        return None
    if near is not None:
        sure = isinstance(value, str) and near.lower() == value.lower().strip()
        return fix_of(config.document, [Set(start, near)], sure)
    types = meant(schema)
    if isinstance(value, str) and value != "auto":
        read = _literal(value.strip().rstrip(",").strip(), types)
    elif isinstance(value, float) and value.is_integer() and "integer" in types and abs(value) < 1e15:
        read = int(value)
    else:
        read = UNKNOWN
    return None if read is UNKNOWN else fix_of(config.document, [Set(start, read)], True)


def _literal(text: str, types: list[str]) -> Any:
    """What text in quotes means where a number or a switch should stand, or UNKNOWN."""
    word = text.strip("'\"").lower()
    if "boolean" in types and word in ("true", "false"):
        return word == "true"
    if "null" in types and word in ("none", "null"):
        return None
    if not ("integer" in types or "number" in types) or "_" in text:
        return UNKNOWN
    try:
        number = float(text)
    except ValueError:
        return UNKNOWN
    if number != number or abs(number) > 1e15:
        return UNKNOWN
    if number.is_integer():
        return int(number)
    return number if "number" in types else UNKNOWN
