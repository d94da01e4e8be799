"""What a fix does to a config, as data: the value that is set, the key that goes, moves or is renamed."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, TypeAlias

from dslint.document import Path, dotted
from dslint.expression import show


class Set(NamedTuple):
    """Give `path` a value; objects that are missing on the way are made."""

    path: Path
    value: Any


class Remove(NamedTuple):
    """Take a key out of its object."""

    path: Path


class Drop(NamedTuple):
    """Take out the pair whose key stands at `start`, one of several with that key; the config stays."""

    start: int


class Rename(NamedTuple):
    """Give a key another name in the same object."""

    path: Path
    key: str


class Move(NamedTuple):
    """Put a value, as it is written, at another path; objects that are missing on the way are made."""

    path: Path
    to: Path


Change: TypeAlias = "Set | Remove | Drop | Rename | Move"


def homes(change: Change) -> tuple[Path, ...]:
    """The paths of the objects that a change is about."""
    if isinstance(change, Drop):
        return ((),)
    return (change.path[:-1], change.to[:-1]) if isinstance(change, Move) else (change.path[:-1],)


def below(change: Change, depth: int) -> Change:
    """The change as seen from an object that many keys down all the paths it names."""
    if isinstance(change, Drop) or not depth:
        return change
    if isinstance(change, Move):
        return Move(change.path[depth:], change.to[depth:])
    return change._replace(path=change.path[depth:])


def carried_out(changes: tuple[Change, ...], data: Any) -> Any:
    """The config after the changes, which are made in `data` itself.

    Raises LookupError or TypeError where one cannot be carried out.
    """
    for change in changes:
        if isinstance(change, Set):
            _put(data, change.path, copy.deepcopy(change.value))
        elif isinstance(change, Remove):
            del _object(data, change.path[:-1])[change.path[-1]]
        elif isinstance(change, Rename):
            parent = _object(data, change.path[:-1])
            if change.key in parent:
                raise LookupError(change.key)
            parent[change.key] = parent.pop(change.path[-1])
        elif isinstance(change, Move):
            value = _object(data, change.path[:-1]).pop(change.path[-1])
            if _put(data, change.to, value):
                raise LookupError(change.to[-1])
    return data


def _object(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    if not isinstance(data, dict):
        raise TypeError(path)
    return data


def _put(data: Any, path: Path, value: Any) -> bool:
    """Sets a value; whether there was one before."""
    for key in path[:-1]:
        data = data.setdefault(key, {}) if isinstance(data, dict) else data[key]
    if isinstance(data, list) and isinstance(path[-1], int):
        data[path[-1]] = value
        return True
    if not isinstance(data, dict):
        raise TypeError(path)
    there = path[-1] in data
    data[path[-1]] = value
    return there


def same(left: Any, right: Any) -> bool:
    """Whether two configs are equal to every reader: 1, 1.0 and true are three things, NaN is itself."""
    return repr(left) == repr(right) or _same(left, right)  # which is slower, and minds no order


def _same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right) or (left != left and right != right)


def in_words(changes: tuple[Change, ...]) -> str:
    """The title of a fix that has none of its own."""
    return " and ".join(_words(change) for change in changes)


def _words(change: Change) -> str:
    if isinstance(change, Set):
        value = f'"{change.value}"' if isinstance(change.value, str) else show(change.value)
        return f"set {dotted(change.path)} to {value}"
    if isinstance(change, Remove):
        return f"remove {dotted(change.path)}"
    if isinstance(change, Rename):
        return f"rename {dotted(change.path)} to {change.key}"
    if isinstance(change, Move):
        return f"move {dotted(change.path)} to {dotted(change.to)}"
    return "remove the second of two equal pairs"
