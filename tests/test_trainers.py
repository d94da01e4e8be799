"""What dslint says about a config under HF Trainer and accelerate, against what these do with it.

The table is tests/trainer_rows.py. Where transformers, accelerate and DeepSpeed are installed, the `live`
tests run every row again and compare with what was recorded.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dslint.finding import Finding
from dslint.formats import read_bytes
from dslint.launch import STABLE, Argument, Launch
from dslint.lint import Options, lint, prepare
from dslint.rules import load
from dslint.trainers import ACCELERATE_FILLS, HF_FILLS, HF_LIKE, fills, infer
from dslint.trainers.values import COMPARED
from tests.trainer_rows import AUTO, ROWS, Row, config

RULES = load()
RELEASE = "0.19.8"
PHASES = ("load", "trainer", "config", "initialize", "step", "save")
DEFAULTS = {**STABLE, "max_steps": 2, "per_device_train_batch_size": 2}
"""Arguments of the oracle's runs, whose class is TrainingArguments itself."""


def options_of(row: Row) -> Options:
    trainer = {"json": "hf", "hjson": "raw", "inline": "hf"}.get(row.loader, row.loader)
    if row.loader == "accelerate-yaml":
        trainer = "hf" if row.script == "hf" else "accelerate"
    launch = None
    if row.loader in ("hf", "inline") or (row.loader == "accelerate-yaml" and row.script == "hf"):
        given = {key: Argument(value, 1) for key, value in {**DEFAULTS, **row.args}.items()}
        launch = Launch("args.json", "hf", given)
    if row.loader == "accelerate":
        launcher = {key: Argument(value, 1) for key, value in row.args.items()}
        launch = Launch("script", "accelerate", {}, launcher, complete=False, accelerate=True)
    companion = read_bytes(row.files["ds.json"].encode(), "ds.json") if row.files else None
    return Options(RELEASE, trainer=trainer, gpus=1, launch=launch, companion=companion)


def text_of(row: Row) -> tuple[bytes, str]:
    text = row.config if isinstance(row.config, str) else json.dumps(row.config)
    yaml = row.loader in ("accelerate-yaml", "inline") and not row.suffix
    return text.encode(), "c.yaml" if yaml else "c.json"


def said(row: Row) -> list[Finding]:
    raw, name = text_of(row)
    return lint(raw, name, options_of(row), RULES).findings


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_verdict_is_that_of_the_library(row: Row) -> None:
    findings = said(row)
    told = [(f.code, f.severity, f.phase, f.key) for f in findings]
    if row.says:
        assert row.says in {f.code for f in findings}, told
    counted = PHASES[:1] if row.loader in ("json", "hjson") else PHASES
    phases = sorted(
        (f.phase for f in findings if f.severity == "error" and f.phase in counted), key=PHASES.index
    )
    expected = row.phase if row.verdict != "ok" and not (row.says or row.unseen) else None
    assert (phases[0] if phases else None) == expected, told


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.saw and row.loader == "hf"], ids=lambda row: row.id
)
def test_effective_value_is_that_of_the_engine(row: Row) -> None:
    raw, name = text_of(row)
    judged = prepare(raw, name, options_of(row))
    paths = {
        "stage": ("zero_optimization", "stage"),
        "micro": ("train_micro_batch_size_per_gpu",),
        "gas": ("gradient_accumulation_steps",),
        "clip": ("gradient_clipping",),
    }
    for key, path in paths.items():
        if key in row.saw:
            assert judged.value(path) == row.saw[key], key


def missing() -> list[str]:
    names = ("transformers", "accelerate", "deepspeed", "torch")
    return [name for name in names if importlib.util.find_spec(name) is None]


def part(rows: Sequence[Row], wanted: str) -> Sequence[Row]:
    """A part of the rows, such as "1/3" for every third from the second."""
    index, of = map(int, wanted.split("/"))
    return rows[index::of]


LIVE = part(ROWS, os.environ.get("DSLINT_LIVE_ROWS", "0/1"))
"""The rows that are run. All take some minutes: .ci/run takes another third at every commit."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """What every row does now, from the installed libraries."""
    if missing():
        pytest.skip(f"not installed: {', '.join(missing())}")
    cases = "".join(json.dumps(row.case()) + "\n" for row in LIVE)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "tests.oracle.trainers"],
        cwd=Path(__file__).parent.parent,
        input=cases,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(LIVE), done.stderr[-2000:]
    return dict(zip((row.id for row in LIVE), answers, strict=True))


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("row", LIVE, ids=lambda row: row.id)
def test_recorded_outcome_is_what_the_library_does(row: Row, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[row.id]
    assert (outcome["verdict"], outcome["phase"]) == (row.verdict, row.phase), outcome["message"]
    for key, value in row.saw.items():
        assert outcome["saw"][key] == value, key


def test_thirteen_keys_are_compared_and_all_are_filled() -> None:
    assert len(COMPARED) == 13
    assert all(fills("hf", what.path) for what in COMPARED)


@pytest.mark.parametrize("path", HF_FILLS)
def test_a_filled_auto_is_silent_under_hf(path: str) -> None:
    text = json.dumps(nested(path, "auto"))
    findings = lint(text.encode(), "c.json", Options(RELEASE, trainer="hf"), RULES).findings
    assert [f.message for f in findings if f.code in ("DS901", "DS902")] == []


def nested(path: str, value: Any) -> dict[str, Any]:
    """A config with one value at a path."""
    keys = path.split(".")
    found: dict[str, Any] = config()
    section = found
    for key in keys[:-1]:
        section[key] = dict(section.get(key, {}))
        section = section[key]
    section[keys[-1]] = value
    if keys[0] in ("optimizer", "scheduler"):
        found[keys[0]].setdefault("type", {"optimizer": "AdamW", "scheduler": "WarmupDecayLR"}[keys[0]])
    return found


@pytest.mark.parametrize("trainer", [*HF_LIKE, "accelerate"])
@pytest.mark.parametrize(
    "path",
    [
        "zero_optimization.sub_group_size",
        "zero_optimization.allgather_bucket_size",
        "fp16.hysteresis",
        "wall_clock_breakdown",
        "activation_checkpointing.cpu_checkpointing",
        "compile.deepcompile",
        "optimizer.params.torch_adam",
        "a_key_of_no_one",
    ],
)
def test_an_auto_that_stays_is_an_error(trainer: str, path: str) -> None:
    text = json.dumps(nested(path, "auto"))
    findings = lint(text.encode(), "c.json", Options(RELEASE, trainer=trainer), RULES).findings
    assert [(f.key, f.phase) for f in findings if f.code == "DS901"] == [(path, "trainer")]


def test_lists_are_not_searched_for_auto() -> None:
    text = json.dumps(config(zero_optimization={"stage": 2, "leaf_module": {"classes": ["auto"]}}))
    findings = lint(text.encode(), "c.json", Options(RELEASE, trainer="hf"), RULES).findings
    assert [f for f in findings if f.code == "DS901"] == []


def test_accelerate_fills_no_betas() -> None:
    assert "optimizer.params.betas" in HF_FILLS and "optimizer.params.betas" not in ACCELERATE_FILLS


@pytest.mark.parametrize(
    "text, trainer, rival",
    [
        (json.dumps(AUTO), "hf", ""),
        ('{"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": "auto"}}', "hf", "raw"),
        ('{"train_batch_size": 8, "bf16": {"enabled": "auto"}}', "hf", "raw"),
        ('{"train_batch_size": 8, "fp16": {"loss_scale": "auto"}}', "raw", "hf"),
        ('{"train_batch_size": 8}', "raw", "hf"),
    ],
)
def test_the_trainer_is_inferred_from_what_it_fills(text: str, trainer: str, rival: str) -> None:
    document = read_bytes(text.encode(), "c.json")
    found, _, other = infer(document, json.loads(text))
    assert (found, other) == (trainer, rival)


LEFT = '"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "sub_group_size": "auto"}'
TWICE = '"zero_optimization": {"stage": 1, "stage": 2}'


@pytest.mark.parametrize(
    "text, trainer, code, severity",
    [
        ('{"train_batch_size": 8, ' + LEFT + "}", None, "DS901", "warning"),
        ('{"train_batch_size": 8, ' + LEFT + "}", "hf", "DS901", "error"),
        ('{"train_batch_size": "auto", ' + LEFT + "}", None, "DS901", "error"),
        ('{"train_batch_size": 8, ' + TWICE + "}", None, "DS004", "warning"),
        ('{"train_batch_size": 8, ' + TWICE + "}", "raw", "DS004", "error"),
        # HF Trainer does not take these either
        ('{"train_batch_size": 8, "train_batch_size": 4}', None, "DS004", "error"),
        ('{"train_batch_size": 8, "zero_optimization": {"stage": 7}}', None, "DS107", "error"),
        ('{"train_batch_size": 8} // for four GPUs', None, "DS020", "info"),
        ('{"train_batch_size": "auto"} // for four GPUs', None, "DS020", "error"),
        ('{"train_batch_size": 8} // for four GPUs', "raw", "DS020", None),
    ],
)
def test_where_nothing_tells_the_trainer_an_error_holds_for_both(
    text: str, trainer: str | None, code: str, severity: str | None
) -> None:
    findings = lint(text.encode(), "c.json", Options(RELEASE, trainer=trainer), RULES).findings
    found = [f for f in findings if f.code == code]
    assert [f.severity for f in found] == ([] if severity is None else [severity])
    assert [f for f in found if f.severity == "warning" and "HF Trainer" not in f.message] == []


def test_a_run_tells_the_trainer() -> None:
    text = '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}'
    options = Options(RELEASE, launch=Launch("train.yaml", "llamafactory"))
    assert prepare(text.encode(), "c.json", options).target.trainer == "llamafactory"


def test_betas_auto_under_accelerate_launch_means_hf_trainer() -> None:
    text = json.dumps(config(optimizer={"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}}))
    options = Options(RELEASE, launch=Launch("a.yaml", "accelerate", accelerate=True))
    assert prepare(text.encode(), "c.json", options).target.trainer == "hf"


def test_an_uncertain_default_is_a_warning_and_fills_nothing() -> None:
    options = Options(
        RELEASE, trainer="hf", launch=Launch("train.sh", "hf", {"learning_rate": Argument(1e-5, 3)})
    )
    raw = json.dumps(config(gradient_clipping=0.5)).encode()
    findings = lint(raw, "c.json", options, RULES).findings
    assert [(f.code, f.severity) for f in findings if f.key == "gradient_clipping"] == [("DS904", "warning")]
    assert repr(prepare(raw, "c.json", options).value(("train_micro_batch_size_per_gpu",))) == "UNKNOWN"


def test_arguments_that_may_be_added_to_decide_nothing() -> None:
    options = Options(RELEASE, trainer="hf", launch=Launch("train.sh", "hf", complete=False))
    findings = lint(json.dumps(config(gradient_clipping=0.5)).encode(), "c.json", options, RULES).findings
    assert [f.code for f in findings if f.key == "gradient_clipping"] == []


def test_the_model_fills_what_depends_on_its_hidden_size() -> None:
    from dslint.memory.workload import workload

    keys = ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold")
    raw = json.dumps(config(zero_optimization={"stage": 3, **dict.fromkeys(keys, "auto")})).encode()
    load_ = workload({"model": "llama-7b", "micro_batch": 3})
    judged = prepare(raw, "c.json", Options(RELEASE, trainer="hf", gpus=2, workload=load_))
    assert [judged.value(("zero_optimization", key)) for key in keys] == [4096**2, int(0.9 * 4096**2), 40960]
    assert judged.value(("train_micro_batch_size_per_gpu",)) == 3
