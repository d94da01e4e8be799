"""The quick schema check agrees with jsonschema, the validator of record."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dslint import schema as schemas
from dslint.schema import _told, _validated, certainly_valid, violations, walked

NEWEST = schemas.load(schemas.newest())
VALIDATOR = Draft202012Validator(NEWEST)

SCALARS: list[Any] = [
    None, True, False, 0, 1, 2, 3, 4, -1, 0.5, 1.0, 5e8, 1e20, -0.5, 2**70, "", "auto", "true", "OFF", "1", "-1",
    "5e8", "500000000", " 2 ", "2\n", "cpu", "nvme", "CPU", "fp16", "abc", [], [1], ["a"], {}, {"a": 1},
    float("inf"), float("nan"),
]  # fmt: skip
SECTIONS = sorted(key for key, sub in NEWEST["properties"].items() if "properties" in sub)


def mutant(rng: random.Random) -> dict[str, Any]:
    """A config of a few sections with a few keys each, most values plausible for none of them."""
    config: dict[str, Any] = {"train_batch_size": 8}
    for section in rng.sample(SECTIONS, rng.randint(0, 3)):
        known = NEWEST["properties"][section]["properties"]
        keys = [
            *rng.sample(sorted(known), min(len(known), rng.randint(1, 4))),
            rng.choice(["unknown", "Stage"]),
        ]
        config[section] = {
            key: rng.choice([copy.deepcopy(rng.choice(SCALARS)), known.get(key, {}).get("default", "auto")])
            for key in keys[: rng.randint(1, len(keys))]
        }
    for key in rng.sample(sorted(NEWEST["properties"]), rng.randint(0, 3)):
        config[key] = copy.deepcopy(rng.choice(SCALARS))
    return config


@pytest.mark.parametrize("seed", range(20))
def test_quick_check_and_jsonschema_agree_on_configs(seed: int) -> None:
    rng = random.Random(seed)
    verdicts = set()
    for _ in range(40):
        config = mutant(rng)
        valid = VALIDATOR.is_valid(config)
        verdicts.add(valid)
        assert certainly_valid(config, NEWEST) == valid, config
        assert bool(violations(walked(config, NEWEST).suspects)) != valid, config
    assert verdicts == {True, False}


KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["integer", "number", "string", ["boolean", "null"], "object", ["array", "string"]]
        ),
        "enum": st.lists(st.sampled_from([0, 1, "1", True, None, 1.5]), max_size=3),
        "const": st.sampled_from([0, 1, "auto", True, None]),
        "pattern": st.sampled_from(["^a", "1$", "^[0-9]+$"]),
        "minimum": st.integers(-1, 2),
        "exclusiveMaximum": st.integers(-1, 3),
        "maximum": st.integers(0, 3),
        "exclusiveMinimum": st.integers(-2, 1),
        "minLength": st.integers(0, 2),
        "required": st.just(["a"]),
        "not": st.sampled_from([{"const": 1}, {"type": "string"}, {}]),
        "description": st.just("words"),
        "x-type": st.just("integer"),
    },
)
SCHEMAS = st.recursive(
    KEYWORDS,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2, -1, 1.0, 1.5, "", "a", "1", "auto"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(SCHEMAS, VALUES)
def test_what_is_certainly_valid_is_valid(schema: dict[str, Any], value: Any) -> None:
    if certainly_valid(value, schema):
        assert Draft202012Validator(schema).is_valid(value)


@given(SCHEMAS, VALUES)
def test_what_no_walk_suspects_is_valid(schema: dict[str, Any], value: Any) -> None:
    whole = {"properties": {"x": schema}}
    for _ in range(2):  # the second walk knows what the first one found
        if not walked({"x": value}, whole).suspects:
            assert Draft202012Validator(whole).is_valid({"x": value})


@given(SCHEMAS, VALUES)
def test_what_is_told_is_what_jsonschema_reports(schema: dict[str, Any], value: Any) -> None:
    told = _told(value, schema)
    assert told is None or told == _validated(value, schema)


def test_what_is_told_of_every_key_is_what_jsonschema_reports() -> None:
    values = [None, True, 0, 1, 5, -1, 1.0, 0.5, 1e30, float("inf"), "", "auto", "1", "true", "x\n", [], ["x"], {}, {"a": 1}]
    told_of, stack = 0, [schemas.load("0.9.5"), schemas.load("0.14.4"), NEWEST]
    while stack:
        schema = stack.pop()
        stack += [*schema.get("properties", {}).values(), *filter(None, [schema.get("additionalProperties")])]
        for value in values if schema is not True else []:
            told = _told(value, schema)
            told_of += told is not None
            assert told is None or told == _validated(value, schema), (schema, value)
        stack = [schema for schema in stack if isinstance(schema, dict)]
    assert told_of > 20_000


def test_an_unknown_keyword_is_never_certain() -> None:
    assert not certainly_valid(1, {"multipleOf": 1})


def test_one_violation_a_place_and_the_type_counts_first() -> None:
    config = {"zero_optimization": {"reduce_bucket_size": None, "stage": 9, "x": 1}}
    found = violations(walked(config, NEWEST).suspects)
    assert sorted((".".join(map(str, v.path)), v.keyword) for v in found) == [
        ("zero_optimization.reduce_bucket_size", "type"),
        ("zero_optimization.stage", found[[v.path[-1] for v in found].index("stage")].keyword),
        ("zero_optimization.x", "additionalProperties"),
    ]
