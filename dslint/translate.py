"""Conditions of rules as Python, for those that dslint brings along: `python -m dslint.rulefile` writes them
into dslint/conditions.py, where judging costs a tenth of what walking the trees does.

A rule fires on a condition that is known to hold, so a condition becomes a plain Python expression for just
that: `certain` says when a tree surely holds, `refuted` when it surely does not. What a tree means is
defined by :mod:`dslint.expression`, against which tests hold this. Rules of a team are never translated:
they come from files that nobody has looked at, and nothing of those may execute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dslint.config import OFFLOADING
from dslint.expression import Tree

ARGUMENTS = "v, f, g, i, s"
"""What a translated condition takes: values and facts by path or name, what the file gives, Item, Scope."""

_TYPES = {"is_text": "str", "is_object": "dict", "is_list": "list", "is_boolean": "bool"}

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
    if kind in _NEGATED:
        return refuted(_NEGATED[kind](tree))
    if sure := _sure(tree):
        return sure
    value, test = _test(tree)
    return test(value) if test is not None else _known(value, "a")


def refuted(tree: Tree) -> str:
    """A Python expression that is true where the tree is known not to hold."""
    kind = tree[0]
    if kind == "const":
        return str(not tree[1])
    if kind in ("and", "or"):
        word = "or" if kind == "and" else "and"
        return f"({f' {word} '.join(map(refuted, tree[1:]))})"
    if kind in _NEGATED:
        return certain(_NEGATED[kind](tree))
    if sure := _sure(tree):
        return f"not {sure}"
    value, test = _test(tree)
    return _known(value, f"not {test('a') if test is not None else 'a'}")


_NEGATED: dict[str, Callable[[Tree], Tree]] = {
    "not": lambda tree: tree[1],
    "not in": lambda tree: ["in", *tree[1:]],
    "!=": lambda tree: ["==", *tree[1:]],
}
"""What is known to hold where the other is known not to."""


def _sure(tree: Tree) -> str:
    """A Python expression for what is never unknown: what the file gives; "" for every other tree."""
    if tree[:2] == ["call", "has"] and not _asks_scope(tree):
        return f"({_path(tree[2])} in g)"
    if tree[:2] == ["call", "is_auto"] and not _asks_scope(tree):
        return f'(g.get({_path(tree[2])}) == "auto")'
    return ""


def _test(tree: Tree) -> tuple[str, Callable[[str], str] | None]:
    """A value, and the test of it that is false of U; None: the value itself says whether the tree holds."""
    kind = tree[0]
    if tree[:2] == ["call", "offloads"] and not _asks_scope(tree):
        return f"v[{_device(tree[2])}]", lambda value: f"({value} in {OFFLOADING})"
    if kind == "apply" and tree[1] in _TYPES:
        return _value(tree[2]), lambda value: f"isinstance({value}, {_TYPES[tree[1]]})"
    if kind == "in" and (choices := _texts(tree[2])):
        return _value(tree[1]), lambda value: f"({value} in {choices})"
    if kind == "==" and tree[2][0] == "const":
        return _value(tree[1]), lambda value: _equals(value, tree[2][1])
    return _value(tree), None


def _known(value: str, verdict: str) -> str:
    """That a value is known, and a verdict about it under the name a."""
    return f"((a := {value}) is not U and {verdict})"


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
