"""No config makes dslint fail: generated configs, values of every wrong type, and bytes that are no config."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslint import schema as schemas
from dslint.formats import read_bytes
from dslint.lint import Options, configure, lint
from dslint.report import FORMATS, renderer
from dslint.rules import load
from dslint.settings import TRAINERS
from dslint.show import show_config
from tests.oracle.generate import generate

RULES = load()
WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    1e300,
    10**40,
    "",
    "auto",
    "x",
    [],
    [[]],
    [{"a": 1}],
    {},
    {"a": {"b": []}},
]


def exercise(raw: bytes, trainer: str | None = None, gpus: int | None = None) -> None:
    """Lints, renders in every format and shows the effective config."""
    options = Options(schemas.newest(), trainer=trainer, gpus=gpus)
    report = lint(raw, "ds.json", options, RULES)
    for name in FORMATS:
        renderer(name)([report])
    show_config(configure(read_bytes(raw, "ds.json"), options))


@pytest.mark.parametrize("trainer", [None, *TRAINERS])
def test_generated_configs(trainer: str | None) -> None:
    for i, case in enumerate(generate(seed=11, n=120)):
        exercise(json.dumps(case["config"]).encode(), trainer, gpus=(None, 1, 8)[i % 3])


def test_every_key_with_values_of_every_wrong_type() -> None:
    """Each key of the newest schema once, its value drawn from the wrong ones, sections and scalars alike."""
    rng = random.Random(5)

    def configs(schema: dict[str, Any], path: tuple[str, ...]) -> Any:
        for key, sub in schema.get("properties", {}).items():
            for value in rng.sample(WRONG, 4):
                config: Any = {key: value}
                for part in reversed(path):
                    config = {part: config}
                yield {"train_batch_size": 8, **config}
            yield from configs(sub, (*path, key))

    for config in configs(schemas.load(schemas.newest()), ()):
        options = Options(schemas.newest(), trainer="raw", gpus=8)
        lint(json.dumps(config).encode(), "ds.json", options, RULES)


@pytest.mark.parametrize(
    "section", ["optimizer", "scheduler", "zero_optimization", "fp16", "bf16", "data_types"]
)
@pytest.mark.parametrize("trainer", ["raw", "hf", "accelerate"])
def test_sections_of_several_wrong_values(section: str, trainer: str) -> None:
    rng = random.Random(section)
    known = sorted(schemas.load(schemas.newest())["properties"][section]["properties"])
    names = ["lr", "betas", "warmup_num_steps", "total_num_steps", "type", "params"]
    for _ in range(60):
        inner = {key: rng.choice(WRONG) for key in rng.sample(names, 3)}
        config = {key: rng.choice([*WRONG, inner]) for key in rng.sample(known, min(len(known), 4))}
        config["type"] = rng.choice(["Adam", "Lion", "SGD", "WarmupLR", "OneCycle", *WRONG])
        config = {
            "train_batch_size": 8,
            "zero_optimization": {"stage": rng.choice([0, 1, 2, 3])},
            section: config,
        }
        exercise(json.dumps(config).encode(), trainer, gpus=rng.choice([None, 1, 8]))


@given(st.binary(max_size=200))
def test_bytes(raw: bytes) -> None:
    exercise(raw)


@given(st.text(alphabet="{}[]:,\"'#/*\\ntrue0123e.-_ \n\t\r\u202e\x1b\x00\ufeff", max_size=80))
def test_text(text: str) -> None:
    exercise(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("size", [10**400, -(10**400), 3 * 10**308])
def test_batch_sizes_that_no_float_holds(size: int) -> None:
    other: dict[str, int]
    for other in ({}, {"train_micro_batch_size_per_gpu": 3}, {"gradient_accumulation_steps": size}):
        for config in ({"train_batch_size": size, **other}, {**other, "train_micro_batch_size_per_gpu": size}):
            for gpus in (None, 8):
                exercise(json.dumps(config).encode(), None, gpus)
