"""Conditions of rules as Python, for those that dslint brings along: `python -m dslint.rulefile` writes them
into dslint/conditions.py, where judging costs a tenth of what walking the trees does.

A rule fires on a condition that is known to hold, so a condition becomes a plain Python expression for just
that: `certain` says when a tree surely holds, `refuted` when it surely does not. What a tree means is
defined by :mod:`dslint.expression`, against which tests hold this. Rules of a team are never translated:
they come from files that nobody has looked at, and nothing of those may execute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dslint.expression import Tree

ARGUMENTS = "v, f, g, i, s"
"""What a translated condition takes: values and facts by path or name, what the file gives, Item, Scope."""

_TYPES = {"is_text": "str", "is_object": "dict", "is_list": "list", "is_boolean": "bool"}
_OFFLOADING = '("cpu", "nvme")'

HEAD = f'''"""The conditions of rules/ as Python, by code: whether each is known to hold.

Written by `python -m dslint.rulefile` from the rule files (see :mod:`dslint.translate`); do not edit.
Arguments: {ARGUMENTS} are the effective values by path, the facts by name, what the file gives by path,
the place (Item) and the Scope.
"""

from collections.abc import Callable
from typing import Any

from dslint.expression import BINARY as B
from dslint.expression import UNARY as A
from dslint.expression import UNKNOWN as U
from dslint.expression import listed as L

'''


def module(rules: Iterable[tuple[str, Tree]]) -> str:
    """The text of dslint/conditions.py for rules, each a code and its condition."""
    lines = (f'    "{code}": lambda {ARGUMENTS}: {certain(tree)},\n' for code, tree in rules)
    return f"{HEAD}HOLDS: dict[str, Callable[[Any, Any, Any, Any, Any], Any]] = {{\n{''.join(lines)}}}\n"


def certain(tree: Tree) -> str:
    """A Python expression that is true where the tree is known to hold."""
    kind = tree[0]
    if kind == "const":
        return str(bool(tree[1]))
    if kind in ("and", "or"):
        return f"({f' {kind} '.join(map(certain, tree[1:]))})"
    if kind == "not":
        return refuted(tree[1])
    if kind == "call" and not _asks_scope(tree):
        name, path = tree[1], _path(tree[2])
        if name == "has":
            return f"{path} in g"
        if name == "is_auto":
            return f'g.get({path}) == "auto"'
        if name == "offloads":
            return f"v[{_device(tree[2])}] in {_OFFLOADING}"
    if kind == "apply" and tree[1] in _TYPES:
        return f"isinstance({_value(tree[2])}, {_TYPES[tree[1]]})"
    if kind == "in" and (choices := _texts(tree[2])):
        return f"{_value(tree[1])} in {choices}"
    if kind == "not in" and _texts(tree[2]):
        return refuted(["in", *tree[1:]])
    if kind == "==" and tree[2][0] == "const":
        return _equals(_value(tree[1]), tree[2][1])
    if kind == "!=":
        return refuted(["==", *tree[1:]])
    return _known(tree, "a")


def refuted(tree: Tree) -> str:
    """A Python expression that is true where the tree is known not to hold."""
    kind = tree[0]
    if kind == "const":
        return str(not tree[1])
    if kind in ("and", "or"):
        word = "or" if kind == "and" else "and"
        return f"({f' {word} '.join(map(refuted, tree[1:]))})"
    if kind == "not":
        return certain(tree[1])
    if kind == "call" and tree[1] in ("has", "is_auto") and not _asks_scope(tree):
        path = _path(tree[2])
        return f"{path} not in g" if tree[1] == "has" else f'g.get({path}) != "auto"'
    if kind == "call" and tree[1] == "offloads" and not _asks_scope(tree):
        return f"((a := v[{_device(tree[2])}]) is not U and a not in {_OFFLOADING})"
    if kind == "apply" and tree[1] in _TYPES:
        return f"((a := {_value(tree[2])}) is not U and not isinstance(a, {_TYPES[tree[1]]}))"
    if kind == "in" and (choices := _texts(tree[2])):
        return f"((a := {_value(tree[1])}) is not U and a not in {choices})"
    if kind == "not in" and _texts(tree[2]):
        return certain(["in", *tree[1:]])
    if kind == "==" and tree[2][0] == "const":
        return f"((a := {_value(tree[1])}) is not U and not {_equals('a', tree[2][1])})"
    if kind == "!=":
        return certain(["==", *tree[1:]])
    return _known(tree, "not a")


def _known(tree: Tree, verdict: str) -> str:
    return f"((a := {_value(tree)}) is not U and {verdict})"


def _equals(value: str, constant: Any) -> str:
    """Equality as JSON has it, where UNKNOWN equals nothing: true is not 1."""
    if constant is None or isinstance(constant, bool):
        return f"({value} is {constant})"
    if constant in (0, 1):
        return f"((b := {value}) == {constant!r} and b is not {bool(constant)})"
    return f"({value} == {constant!r})"


def _value(tree: Tree) -> str:
    """A Python expression for the value of a tree, U where it is unknown."""
    kind = tree[0]
    if kind == "const":
        return repr(tree[1])
    if kind == "path":
        return _value_at(tree[1])
    if kind == "call":
        name, path = tree[1], _path(tree[2])
        if _asks_scope(tree):
            return f"s.call({name!r}, {path})"
        if name == "written":
            return f"g.get({path})"
    if kind == "apply":
        return f"A[{tree[1]!r}]({_value(tree[2])})"
    if kind == "list":
        return f"L({', '.join(map(_value, tree[1:]))})"
    if kind in ("and", "or", "not", "call"):
        return f"(True if {certain(tree)} else False if {refuted(tree)} else U)"
    return f"B[{kind!r}]({_value(tree[1])}, {_value(tree[2])})"


def _value_at(path: list[str]) -> str:
    head = path[0]
    if head == "facts" and len(path) == 2:
        return f"f[{path[1]!r}]"
    if path == ["this"]:
        return "v[i.path]"
    if head == "this":
        return f"i.values.get({path[1]!r})"
    if head in ("target", "args", "where"):
        return f"s.lookup({tuple(path)!r})"
    return f"v[{tuple(path)!r}]"


def _asks_scope(call: Tree) -> bool:
    """Whether only the Scope can answer: accelerate's keys are unknown in every other file."""
    return bool(call[1] == "at_default" or call[2][0] == "accelerate")


def _path(path: list[str]) -> str:
    return "i.path" if path == ["this"] else repr(tuple(path))


def _device(section: list[str]) -> str:
    return 'i.path + ("device",)' if section == ["this"] else repr((*section, "device"))


def _texts(tree: Tree) -> str:
    """The choices of a list that holds nothing but texts; "" for every other tree."""
    if tree[0] != "list" or not all(item[0] == "const" and isinstance(item[1], str) for item in tree[1:]):
        return ""
    return repr(tuple(item[1] for item in tree[1:]))
