"""The effective config: spellings, deprecated keys, "auto", coercion, defaults, and what trainers fill."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dslint.config import Config
from dslint.document import dotted
from dslint.expression import UNKNOWN
from dslint.formats import read_json
from dslint.lint import Options, configure


def effective(config: dict[str, Any], **options: Any) -> Config:
    return configure(
        read_json(json.dumps(config), "ds.json"), Options("0.19.8", **{"trainer": "raw", **options})
    )


def path(text: str) -> tuple[str, ...]:
    return tuple(text.split("."))


STAGE = "zero_optimization.stage"
PREFETCH = "zero_optimization.stage3_prefetch_bucket_size"
DEVICE = "zero_optimization.offload_optimizer.device"
OVERLAP = "zero_optimization.overlap_comm"


@pytest.mark.parametrize(
    "config, key, value, origin",
    [
        ({}, STAGE, 0, "default"),
        ({"zero_optimization": {"stage": 2}}, STAGE, 2, "file"),
        ({"zero_optimization": {"stage": "2"}}, STAGE, 2, "file"),
        ({"zero_optimization": {"stage": 2.0}}, STAGE, 2, "file"),
        ({"zero_optimization": {"stage": "two"}}, STAGE, UNKNOWN, "file"),
        ({"zero_optimization": {"stage": "auto"}}, STAGE, 0, "dropped"),
        ({"zero_optimization": True}, STAGE, 1, "deprecated"),
        ({"zero_optimization": False}, STAGE, 0, "deprecated"),
        ({"zero_optimization": {"prefetch_bucket_size": 7}}, PREFETCH, 7, "file"),
        ({"zero_optimization": {"stage3_prefetch_bucket_size": "1_000"}}, PREFETCH, 1000, "file"),
        ({"zero_optimization": {"stage3_prefetch_bucket_size": 5e8}}, PREFETCH, 500_000_000, "file"),
        ({}, PREFETCH, 50_000_000, "default"),
        ({}, OVERLAP, False, "derived"),
        ({"zero_optimization": {"stage": 3}}, OVERLAP, True, "derived"),
        ({"zero_optimization": {"stage": 3, "overlap_comm": None}}, OVERLAP, True, "derived"),
        ({"zero_optimization": {"stage": 3, "overlap_comm": "off"}}, OVERLAP, False, "file"),
        ({}, DEVICE, "none", "default"),
        ({"zero_optimization": {"cpu_offload": True}}, DEVICE, "cpu", "deprecated"),
        ({"zero_optimization": {"cpu_offload": False}}, DEVICE, "none", "deprecated"),
        ({"zero_optimization": {"offload_optimizer": {}}}, DEVICE, "none", "default"),
        ({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}}, DEVICE, "cpu", "file"),
        ({"fp16": {"enabled": "True"}}, "fp16.enabled", True, "file"),
        ({"fp16": {"enabled": 1}}, "fp16.enabled", True, "file"),
        ({"fp16": {"enabled": "auto"}}, "fp16.enabled", False, "dropped"),
        ({"bfloat16": {"enabled": True}}, "bf16.enabled", True, "file"),
        ({"bfloat16": {"enabled": True}, "bf16": {"enabled": False}}, "bf16.enabled", False, "file"),
        ({"bfloat16": {"enabled": True}, "bf16": None}, "bf16.enabled", True, "file"),
        ({"gradient_clipping": "auto"}, "gradient_clipping", UNKNOWN, "file"),
        ({}, "gradient_clipping", 1.0, "default"),
        ({"prescale_gradients": "false"}, "prescale_gradients", True, "file"),  # text is true to Python
    ],
)
def test_value_and_origin(config: dict[str, Any], key: str, value: Any, origin: str) -> None:
    found = effective(config)
    assert found.value(path(key)) == value or found.value(path(key)) is value
    assert found.origin(path(key)).kind == origin


@pytest.mark.parametrize(
    "trainer, config, key, value, origin",
    [
        ("hf", {"train_batch_size": "auto"}, "train_batch_size", UNKNOWN, "filled"),
        ("hf", {"fp16": {"enabled": "auto"}}, "fp16.enabled", UNKNOWN, "filled"),
        ("hf", {}, "bf16.enabled", UNKNOWN, "filled"),
        ("hf", {"bf16": {}}, "bf16.enabled", False, "default"),
        ("raw", {"optimizer": {"params": {"lr": "auto"}}}, "optimizer.params.lr", "auto", "file"),
    ],
)
def test_what_a_trainer_fills_is_unknown(
    trainer: str, config: dict[str, Any], key: str, value: Any, origin: str
) -> None:
    found = effective(config, trainer=trainer)
    assert (found.value(path(key)), found.origin(path(key)).kind) == (value, origin)


def test_a_finding_points_at_the_spelling_of_the_file() -> None:
    found = effective({"zero_optimization": {"prefetch_bucket_size": 7}})
    assert dotted(found.file_path(path(PREFETCH))) == "zero_optimization.prefetch_bucket_size"
    assert found.has(path(PREFETCH)) and not found.has(path(STAGE))


def test_leaves_hold_what_the_file_gives_beside_what_the_schema_knows() -> None:
    found = effective(
        {
            "optimizer": {"type": "Adam", "params": {"lr": 0.1}},
            "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
            "zero_optimization": {"stage": 1},
        }
    )
    leaves = [dotted(leaf) for leaf in found.leaves()]
    assert "optimizer.params.lr" in leaves and STAGE in leaves and len(leaves) == len(set(leaves))
    assert "scheduler.params.warmup_num_steps" in leaves and "scheduler.params" not in leaves
