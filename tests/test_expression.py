"""The expression language: what it means, and that nothing hostile gets through."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslint.expression import MAX_LENGTH, UNKNOWN, ExpressionError, evaluate, parse


class Values:
    def __init__(self, **values: Any) -> None:
        self.values = values

    def lookup(self, path: tuple[str, ...]) -> Any:
        return self.values.get(".".join(path).replace(".", "_"), UNKNOWN)

    def call(self, name: str, path: tuple[str, ...]) -> Any:
        return "_".join(path) in self.values


def value(text: str, **values: Any) -> Any:
    return evaluate(parse(text), Values(**values))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a.b == 3", True),
        ("a.b in [1, 2]", False),
        ("a.b not in [1, 2] and not a.b < 3", True),
        ("1 < a.b <= 3", True),
        ("a.b % 2 == 1 and a.b // 2 == 1", True),
        ("-a.b", -3),
        ("has(a.b)", True),
        ("has(a.c)", False),
        ("flag == 1", False),  # as in JSON, true is not 1
        ("flag == true", True),
        ("is_number(flag)", False),
        ("lower(name) == 'adam'", True),
        ("a.b + 1 if flag else 2", ExpressionError),
        ("a.b ** 2", ExpressionError),
        ("a['b']", ExpressionError),
        ("(lambda: 1)()", ExpressionError),
        ("__import__('os')", ExpressionError),
        ("has(a.b, a.c)", ExpressionError),
        ("has(1)", ExpressionError),
        ("[x for x in a]", ExpressionError),
        ("f'{a}'", ExpressionError),
        ("b'x'", ExpressionError),
        ("a := 1", ExpressionError),
        ("", ExpressionError),
        ("\x00", ExpressionError),
        ("not " * 200 + "a", ExpressionError),
        ("(" * 100 + "a" + ")" * 100, ExpressionError),
        ("a" * (MAX_LENGTH + 1), ExpressionError),
    ],
)
def test_meaning(text: str, expected: Any) -> None:
    values = {"a_b": 3, "flag": True, "name": "Adam"}
    if expected is ExpressionError:
        with pytest.raises(ExpressionError):
            parse(text)
    else:
        result = value(text, **values)
        assert result == expected and type(result) is type(expected)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("unknown", UNKNOWN),
        ("not unknown", UNKNOWN),
        ("unknown and false", False),
        ("unknown and true", UNKNOWN),
        ("unknown or true", True),
        ("unknown or false", UNKNOWN),
        ("unknown < 3", UNKNOWN),
        ("3 < 'text'", UNKNOWN),
        ("1 / 0", UNKNOWN),
        ("1 // 0 == 1", UNKNOWN),
        ("'a' * 1000000000 == 'a'", UNKNOWN),
        ("3 in 3", UNKNOWN),
        ("lower(3)", UNKNOWN),
        ("size(3)", UNKNOWN),
    ],
)
def test_what_nobody_knows_stays_unknown(text: str, expected: Any) -> None:
    assert value(text) is expected


def test_numbers_stay_small() -> None:
    assert value("*".join(["9999999999"] * 30)) is UNKNOWN


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        tree = parse(text)
    except ExpressionError:
        return
    evaluate(tree, Values())


FRAGMENTS = ["a", "a.b", "3", "'x'", "(", ")", "and", "or", "not", "<", "==", "in", "[", "]", ",", "+", "%",
             "has(a)", "lower(a)", "null", "**", "lambda", ".", "1e9", "-"]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(" ".join))
def test_any_tokens_evaluate_or_are_refused(text: str) -> None:
    try:
        tree = parse(text)
    except ExpressionError:
        return
    evaluate(tree, Values(a=1, a_b="x"))
