"""Every rule is tested by the examples in its own file; this runs them, and checks what all rules share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dslint import schema as schemas
from dslint.examples import failure
from dslint.expression import paths
from dslint.facts import REGISTRY
from dslint.lint import Options, lint
from dslint.releases import holds
from dslint.rulefile import HERE, SOURCES, compile_folder, outputs
from dslint.rules import Rule, from_data, load
from dslint.trainers.accelerate import BLOCK, TOP
from dslint.values import schema_at

RULES = [from_data(data) for data in compile_folder(SOURCES)]
EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.name}-{'bad' if 'bad' in example else 'good'}-{i}")
    for rule in RULES
    for i, example in enumerate(rule.examples)
]


@pytest.mark.parametrize("rule, example", EXAMPLES)
def test_example(rule: Rule, example: dict[str, Any]) -> None:
    assert failure(rule, example, RULES) == ""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_speaks_of_keys_that_exist(rule: Rule) -> None:
    """Every path a rule names exists in the schema of some release the rule holds for."""
    trees = [
        rule.when or ["const", True],
        *(p for t in (rule.message, rule.cure) for p in t if isinstance(p, list)),
    ]
    named = [path for tree in trees for path in paths(tree)]
    named += [tuple(place.split(".")) for place in (*rule.each, rule.at) if place]
    releases = [release for release in schemas.index() if holds(rule.deepspeed, release)]
    assert releases, f"no release is {rule.deepspeed}"
    known = [
        schemas.load(release)
        for release in dict.fromkeys((releases[0], releases[len(releases) // 2], releases[-1]))
    ]
    for path in named:
        if path[0] == "facts":
            assert path[1] in REGISTRY
        elif path[0] == "accelerate":
            known_keys = TOP if len(path) == 2 else BLOCK
            assert path[-1] in known_keys and path[1:-1] in ((), ("deepspeed_config",)), ".".join(path)
        elif path[0] not in ("target", "this", "args", "where"):
            free = path[:2] in (("optimizer", "params"), ("scheduler", "params"))
            assert free or any(schema_at(schema, path) for schema in known), ".".join(path)


def test_every_finding_of_a_rule_has_an_example() -> None:
    without = [r.name for r in RULES if r.when is not None and not any("bad" in e for e in r.examples)]
    assert without == []


def test_compiled_rules_are_in_step_with_the_rule_files() -> None:
    for name, text in outputs(compile_folder(SOURCES)).items():
        assert (HERE / name).read_text(encoding="utf-8") == text, "run: python -m dslint.rulefile"


def test_file_names_are_rule_names() -> None:
    assert sorted(path.stem for path in Path(SOURCES).glob("*.yaml")) == sorted(rule.name for rule in RULES)


def test_loading_needs_no_rule_file() -> None:
    assert [rule.code for rule in load()] == [rule.code for rule in RULES]


PLAIN: list[dict[str, Any]] = [
    {"train_batch_size": 8},
    {"train_batch_size": 8, "zero_optimization": {"stage": 0}},
    {"train_batch_size": 8, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}},
    {"train_batch_size": 8, "fp16": {"enabled": True}, "zero_optimization": {"stage": 1}},
    {
        "train_batch_size": 8,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-4, "warmup_num_steps": 10}},
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "cpu"},
            "offload_param": {"device": "cpu"},
            "stage3_gather_16bit_weights_on_model_save": True,
        },
    },
]


@pytest.mark.parametrize("release", schemas.index())
def test_plain_configs_are_clean_in_every_release(release: str) -> None:
    """What everybody writes deserves no error and no warning, whatever the release's defaults are."""
    for config in PLAIN:
        found = lint(
            json.dumps(config).encode(), "ds.json", Options(release, trainer="raw", gpus=8), RULES
        ).findings
        assert [(f.code, f.key, f.message) for f in found if f.severity != "info"] == []
