"""The expression language of rule files: a small, safe subset of Python expressions.

An expression is parsed once into a tree of lists (so that compiled rules are plain JSON) and
evaluated against a `Scope`. It can compare, calculate with numbers, combine with and/or/not, name a
value by its dotted path and call a whitelisted function; it cannot loop, reach an attribute of an
object, or build anything large, so it is safe on hostile input.

Logic is three-valued: a value nobody knows ("auto", the number of GPUs) makes a condition unknown
unless the known parts decide it. A rule fires only on a condition that is known to hold.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

MAX_LENGTH = 2_000
"""Characters in an expression."""

MAX_DEPTH = 40
"""Nested operators, calls and brackets in an expression."""

MAX_DIGITS = 40
"""Digits a calculated number may have; more makes it unknown."""

Tree = list[Any]


class ExpressionError(ValueError):
    """The text is not an expression of this language; the message says what is not."""


class _Unknown:
    """The value of what nobody can know from here."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        raise TypeError("UNKNOWN is neither true nor false")


UNKNOWN = _Unknown()


class Scope(Protocol):
    """Where an expression finds the values of its paths."""

    def lookup(self, path: tuple[str, ...]) -> Any:
        """The effective value at a dotted path, or UNKNOWN."""

    def call(self, name: str, path: tuple[str, ...]) -> Any:
        """What a function of PATH_FUNCTIONS says about a path."""


PATH_FUNCTIONS = {
    "has": "the file gives this key, whatever its value",
    "written": "the value exactly as the file gives it (null when absent)",
    "is_auto": "the file gives the literal string auto",
    "offloads": "the section's device is cpu or nvme",
    "at_default": "the file gives this key with the value it would have anyway",
}
"""Functions whose argument is a path and not its value."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> Any:
    """5e8 of "5e8"; a whole number as such, however it is written."""
    text = (
        value.strip() if isinstance(value, str) and len(value) <= MAX_DIGITS and "_" not in value else value
    )
    try:
        number = float(text) if isinstance(text, (str, int, float)) and not isinstance(text, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or number != number or abs(number) >= 1e15:
        return UNKNOWN
    return int(number) if number.is_integer() else number


VALUE_FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "is_number": ("an integer or a float, not a boolean", _is_number),
    "is_integer": ("an integer, not a boolean", _whole),
    "is_text": ("a string", lambda v: isinstance(v, str)),
    "is_boolean": ("true or false", lambda v: isinstance(v, bool)),
    "is_object": ("an object", lambda v: isinstance(v, dict)),
    "is_list": ("a list", lambda v: isinstance(v, list)),
    "lower": ("a string in lower case", lambda v: v.lower() if isinstance(v, str) else UNKNOWN),
    "number": ("the number that a text holds, such as 5e8", _number),
    "size": ("how many items or characters", lambda v: len(v) if hasattr(v, "__len__") else UNKNOWN),
}
"""Functions of one value; the text is their documentation."""

_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "==",
    ast.IsNot: "!=",
}
_CALCULATE = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
_WORDS = {"true": True, "false": False, "null": None}


def parse(text: str) -> Tree:
    """The tree of an expression.

    Raises ExpressionError for anything outside the language, in time linear in MAX_LENGTH.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters")
    depth = 0
    for char in text:  # the Python parser itself is not safe on deep nesting
        depth += (char in "([{") - (char in ")]}")
        if depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH}")
    try:
        with warnings.catch_warnings():  # about odd but valid Python, which is nobody's business here
            warnings.simplefilter("ignore")
            node = ast.parse(text.strip(), mode="eval").body
        return _tree(node, 0)
    except ExpressionError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"not an expression: {getattr(error, 'msg', error)}") from None


def _tree(node: ast.expr, depth: int) -> Tree:
    if depth > MAX_DEPTH:
        raise ExpressionError(f"nested deeper than {MAX_DEPTH}")
    down = depth + 1
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str, type(None))):
        return ["const", node.value]
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return ["const", _WORDS[node.id]]
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ["path", list(_path(node))]
    if isinstance(node, ast.BoolOp):
        name = "and" if isinstance(node.op, ast.And) else "or"
        return [name, *(_tree(value, down) for value in node.values)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ["not", _tree(node.operand, down)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return ["-", ["const", 0], _tree(node.operand, down)]
    if isinstance(node, ast.Compare):
        return _comparison(node, down)
    if isinstance(node, ast.BinOp) and type(node.op) in _CALCULATE:
        return [_CALCULATE[type(node.op)], _tree(node.left, down), _tree(node.right, down)]
    if isinstance(node, (ast.List, ast.Tuple)):
        return ["list", *(_tree(item, down) for item in node.elts)]
    if isinstance(node, ast.Call):
        return _call(node, down)
    raise ExpressionError(f"{type(node).__name__} is not part of the language")


def _path(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        return (*_path(node.value), node.attr)
    raise ExpressionError("a path is names joined with dots")


def _comparison(node: ast.Compare, down: int) -> Tree:
    for middle in node.comparators[:-1]:  # stands in two pairs, so nesting would double at every level
        if any(isinstance(part, ast.Compare) for part in ast.walk(middle)):
            raise ExpressionError("a comparison inside a chain of comparisons; join them with and")
    terms = [_tree(term, down) for term in (node.left, *node.comparators)]
    names = []
    for operator in node.ops:
        if type(operator) not in _COMPARE:
            raise ExpressionError(f"{type(operator).__name__} is not part of the language")
        names.append(_COMPARE[type(operator)])
    pairs = [[name, terms[i], terms[i + 1]] for i, name in enumerate(names)]
    return pairs[0] if len(pairs) == 1 else ["and", *pairs]


def _call(node: ast.Call, down: int) -> Tree:
    if not isinstance(node.func, ast.Name) or node.keywords or len(node.args) != 1:
        raise ExpressionError("a call is name(argument)")
    name = node.func.id
    if name in PATH_FUNCTIONS:
        return ["call", name, list(_path(node.args[0]))]
    if name in VALUE_FUNCTIONS:
        return ["apply", name, _tree(node.args[0], down)]
    known = ", ".join(sorted({**PATH_FUNCTIONS, **VALUE_FUNCTIONS}))
    raise ExpressionError(f"no function {name!r}; there are {known}")


def paths(tree: Tree) -> list[tuple[str, ...]]:
    """Every path an expression names, in order."""
    if tree[0] == "path":
        return [tuple(tree[1])]
    if tree[0] == "call":
        return [tuple(tree[2])]
    if tree[0] == "const":
        return []
    if tree[0] == "object":
        return [path for _, below in tree[1:] for path in paths(below)]
    return [path for part in tree[1:] if isinstance(part, list) for path in paths(part)]


Condition: TypeAlias = "Callable[[Scope], Any]"
"""An expression ready to be evaluated in a scope."""


def evaluate(tree: Tree, scope: Scope) -> Any:
    """The value of a tree in a scope; UNKNOWN when it depends on something unknown. Never raises."""
    known = _READY.get(id(tree))
    if known is None or known[0] is not tree:
        if len(_READY) >= _MANY:
            _READY.clear()
        known = _READY[id(tree)] = (tree, ready(tree))
    return known[1](scope)


_MANY = 4096
_READY: dict[int, tuple[Tree, Condition]] = {}
"""By identity of a tree, which is kept beside its function so that no other takes its place."""


def ready(tree: Tree) -> Condition:
    """The tree as a function of its scope, made once for many evaluations."""
    kind = tree[0]
    if kind == "const":
        constant = tree[1]
        return lambda _: constant
    if kind == "path":
        path = tuple(tree[1])
        return lambda scope: scope.lookup(path)
    if kind == "call":
        name, path = tree[1], tuple(tree[2])
        return lambda scope: scope.call(name, path)
    if kind == "apply":
        return _applied(UNARY[tree[1]], ready(tree[2]))
    parts = [ready(part) for part in tree[1:]]
    if kind in ("and", "or"):
        return _logic(parts, decisive=kind == "or")
    if kind == "not":
        return _applied(_not, parts[0])
    if kind == "list":
        return lambda scope: listed(*[part(scope) for part in parts])
    left, right = parts
    operation = BINARY[kind]
    return lambda scope: operation(left(scope), right(scope))


def _applied(operation: Callable[[Any], Any], part: Condition) -> Condition:
    return lambda scope: operation(part(scope))


def listed(*values: Any) -> Any:
    """A list of values, unknown when one of them is."""
    return UNKNOWN if any(value is UNKNOWN for value in values) else list(values)


def _logic(parts: list[Condition], decisive: bool) -> Condition:
    def run(scope: Scope) -> Any:
        unknown = False
        for part in parts:
            value = part(scope)
            if value is UNKNOWN:
                unknown = True
            elif bool(value) is decisive:
                return decisive
        return UNKNOWN if unknown else not decisive

    return run


def _same(left: Any, right: Any) -> bool:
    """Equality as JSON has it: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": _same,
    "!=": lambda a, b: not _same(a, b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: any(_same(a, item) for item in b) if isinstance(b, list) else a in b,
    "not in": lambda a, b: not _OPERATORS["in"](a, b),
}


def _calculate(kind: str, left: Any, right: Any) -> Any:
    if not (_is_number(left) and _is_number(right)):
        return UNKNOWN
    try:
        if kind == "+":
            value = left + right
        elif kind == "-":
            value = left - right
        elif kind == "*":
            value = left * right
        elif kind == "/":
            value = left / right
        elif kind == "//":
            value = left // right
        else:
            value = left % right
    except (ZeroDivisionError, OverflowError):
        return UNKNOWN
    return UNKNOWN if abs(value) >= 10**MAX_DIGITS else value


def _unary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: UNKNOWN if value is UNKNOWN else function(value)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        try:
            return function(left, right)
        except TypeError:
            return UNKNOWN  # a value of the wrong type has a finding of its own

    return run


_not = _unary(lambda value: not value)

UNARY = {name: _unary(function) for name, (_, function) in VALUE_FUNCTIONS.items()}
"""Functions of one value, for values that may be unknown."""

BINARY = {kind: _binary(function) for kind, function in _OPERATORS.items()} | {
    kind: _binary(partial(_calculate, kind)) for kind in _CALCULATE.values()
}
"""Comparisons and calculations, for values that may be unknown or of the wrong type."""


def show(value: Any) -> str:
    """A value as a person would write it in a config."""
    if value is UNKNOWN:
        return "an unknown value"
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, default=str)
