"""Safe fixes against DeepSpeed itself: it does the same as before, or it refused the config before."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from dslint.finding import Finding
from dslint.fixing.edits import edited
from dslint.lint import Options, lint
from dslint.rules import load
from tests.oracle.generate import generate

pytest.importorskip("deepspeed", reason="DeepSpeed judges the fixes")

from tests.oracle.parse import Parser, parser

pytestmark = pytest.mark.live
RULES = load()


class Effective:
    """What DeepSpeedConfig makes of a text: an error's class, or every value that it holds."""

    def __init__(self, oracle: Parser) -> None:
        self.oracle = oracle
        self.made: Any = None
        self._class = oracle._config_class

    def __call__(self, text: str, world_size: int) -> tuple[str, Any]:
        verdict, message, value = self.oracle.load(text)
        if verdict != "ok":
            return verdict, message
        self.oracle._config_class = self._keep
        try:
            verdict, message = self.oracle(value, world_size)
        finally:
            self.oracle._config_class = self._class
        return verdict, message if verdict != "ok" else values(self.made)

    def _keep(self, argument: Any) -> Any:
        self.made = self._class(argument)
        return self.made


UNREAD = ("_param_dict", "monitor_config_present")
"""Attributes that hold the file itself."""


def values(thing: Any, depth: int = 0) -> Any:
    """Plain data of a config object, deep enough for every section."""
    if hasattr(thing, "model_dump"):
        return values(thing.model_dump(), depth)
    if isinstance(thing, dict):
        return {str(key): values(value, depth + 1) for key, value in thing.items() if key not in UNREAD}
    if isinstance(thing, (list, tuple)):
        return [values(item, depth + 1) for item in thing]
    if hasattr(thing, "__dict__") and depth < 6 and type(thing).__module__.startswith("deepspeed"):
        return values(vars(thing), depth + 1)
    return thing if isinstance(thing, (str, int, float, bool, type(None))) else repr(type(thing))


def without(data: Any, key: str) -> Any:
    """The data without a key, wherever it stands."""
    if isinstance(data, dict):
        return {name: without(value, key) for name, value in data.items() if name != key}
    return [without(item, key) for item in data] if isinstance(data, list) else data


def findings(text: str, release: str, world_size: int) -> Iterator[Finding]:
    report = lint(text.encode(), "ds.json", Options(release, trainer="raw", gpus=world_size), RULES)
    yield from (f for f in report.findings if f.fix is not None and f.fix.safe)


def judged(text: str, finding: Finding, effective: Effective, world_size: int) -> str:
    """ "" when a safe fix is safe to DeepSpeedConfig, else what differs.

    Of an error in a later phase than DeepSpeedConfig nothing is said here.
    """
    assert finding.fix is not None
    before, after = effective(text, world_size), effective(edited(text, finding.fix.edits), world_size)
    if finding.severity == "error":
        at_config = finding.phase in ("config", "load")
        return f"no crash before: {finding.name}" if at_config and before[0] == "ok" else ""
    if before[0] != "ok":
        return ""  # it crashed and may go on to the next crash
    if after[0] != "ok":
        return f"crashes now: {after}"
    key = finding.key.split(".")[-1]  # a key that nobody reads is kept by the object all the same
    was, now = without(before[1], key), without(after[1], key)
    differing = [key for key in was if was[key] != now.get(key)]
    return f"{finding.name} ({finding.fix.title}) changes {differing}" if differing else ""


@pytest.fixture(scope="module")
def effective() -> Effective:
    return Effective(parser())


def test_safe_fixes_of_generated_configs(effective: Effective) -> None:
    release = effective.oracle.release
    tried: Counter[str] = Counter()
    wrong = []
    for case in generate(seed=31, n=600):
        text = json.dumps(case["config"], indent=2)
        for finding in findings(text, release, 8):
            tried[finding.name] += 1
            said = judged(text, finding, effective, 8)
            if said:
                wrong.append((case["id"], said))
    assert wrong == []
    assert len(tried) > 8 and sum(tried.values()) > 100, tried


TEXTS = [
    '{"train_batch_size": 8, "zero_optimization": {"stage": 1, "stage": 1}}',
    '{\n  "train_batch_size": 8,\n  "zero_optimization": {\n    "stage": 2,\n    "overlap_comm": True\n  }\n}',
    "{\n  train_batch_size: 8\n  dump_state: True\n}",
    '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "cpu_offload": true}}',
    '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "cpu_offload": false}}',
    '{"train_batch_size": 8, "zero_optimization": {"stage": 3, "cpu_offload": true, "cpu_offload_param": true,'
    ' "cpu_offload_use_pin_memory": true, "stage3_gather_fp16_weights_on_model_save": true}}',
    '{"train_batch_size": 8, "bfloat16": {"enabled": true}}',
    '{"train_batch_size": 8, "zero_optimization": true}',
    '{"train_batch_size": 8, "zero_optimization": {"stage": true}}',
    '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": "5e8"}}',
    '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_com": true}}',
    '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": null}}',
    '{"train_batch_size": 8, "bf16": {"enabled": true, "loss_scale": 0}}',
    '{"train_batch_size": 8, "amp": {"enabled": false}}',
    '{"train_batch_size": 8, "steps_per_print": 0}',
    '{"train_batch_size": 8, "disable_allgather": true, "zero_optimization": {"stage": 2, "allgather_partitions": false}}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_safe_fixes_of_what_people_write(text: str, effective: Effective) -> None:
    found = list(findings(text, effective.oracle.release, 8))
    assert [judged(text, finding, effective, 8) for finding in found] == [""] * len(found)
