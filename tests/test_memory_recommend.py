"""Recommended configs: 500 runs drawn at random lint without a warning, and 30 of them start in DeepSpeed."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from dslint import schema as schemas
from dslint.lint import Options, lint
from dslint.memory.command import base_job, config_text, recommendation
from dslint.memory.hardware import gpus, links
from dslint.memory.models import table
from dslint.memory.predict import FITS, predict
from dslint.memory.recommend import Recommendation, recommend, smallest_change
from dslint.memory.workload import workload
from dslint.rules import load
from dslint.verify.fill import Arguments, fill

GRID, SAMPLE, CHUNK = 500, 30, 50
TRAINERS = ("raw", "hf", "accelerate", "lightning", "llamafactory", "axolotl", "ms-swift")
RELEASES = ("0.12.6", "0.14.4", "0.16.4", "0.18.0", schemas.newest())


def drawn(seed: int) -> tuple[dict[str, Any], int, str, str]:
    """What a user would say: model, machine and method; GPUs, trainer, release."""
    rng = random.Random(seed)
    node = rng.choice([None, 4, 8])
    said = {
        "model": rng.choice([*(entry["name"] for entry in table()), "3B", "7B", "13B", "34B"]),
        "gpu_type": rng.choice(gpus()),
        "seq_len": rng.choice([512, 2048, 8192]),
        "method": rng.choice(["full", "full", "lora", "qlora"]),
        "interconnect": rng.choice([None, *links(), "ib200x8"]),
        "gpus_per_node": node,
        "host_memory": rng.choice([None, "256GB", "1TB"]),
        "fused_loss": rng.random() < 0.3,
        "attention": rng.choice([None, "eager"]),
        "no_zero_init": rng.random() < 0.2,
    }
    given = {key: value for key, value in said.items() if value}
    return given, rng.choice([1, 2, 4, 8, 16, 64]), rng.choice(TRAINERS), rng.choice(RELEASES)


@lru_cache(maxsize=2 * GRID)
def recommended(seed: int, newest: bool = False) -> Recommendation:
    given, count, trainer, release = drawn(seed)
    options = Options(
        schemas.newest() if newest else release, trainer=trainer, gpus=count, workload=workload(given)
    )
    return recommendation(options, trainer)


@pytest.mark.parametrize("first", range(0, GRID, CHUNK))
def test_recommended_configs_lint_without_warning(first: int) -> None:
    for seed in range(first, first + CHUNK):
        given, count, trainer, release = drawn(seed)
        found = recommended(seed)
        if found.chosen is None:
            assert found.rejected and all(choice.why for choice in found.rejected)
            continue
        job = found.chosen.job
        assert found.chosen.verdict == FITS
        full = {
            **given,
            "micro_batch": job.micro_batch,
            "gradient_accumulation": job.accumulation,
            "gpus_per_node": job.gpus_per_node,
            "checkpointing": "on" if job.checkpointing else "off",
        }
        options = Options(release, trainer=trainer, gpus=count, workload=workload(full))
        report = lint(config_text(found).encode(), "ds.json", options, load())
        bad = [(f.code, f.message) for f in report.findings if f.severity != "info"]
        assert not bad, (seed, given, count, trainer, release, config_text(found), bad)


def test_whatever_can_be_recommended_a_config_can_be_changed_to() -> None:
    """No run is told that no setting makes it fit while `--recommend` has a config for it."""
    for seed in range(200):
        rng = random.Random(seed)
        said = workload(
            {
                "model": rng.choice(["qwen2.5-0.5b", "llama-7b", "llama-2-13b", "llama-2-70b", "3B"]),
                "gpu_memory": rng.choice(["6GB", "12GB", "24GB", "40GB", "80GB"]),
                "seq_len": rng.choice([512, 2048, 8192]),
            }
        )
        base = base_job(said, rng.choice([1, 2, 8, 16]), "raw", schemas.newest())
        job = replace(
            base,
            stage=rng.randrange(4),
            micro_batch=rng.choice([1, 4, 16]),
            checkpointing=rng.random() < 0.5,
            eager=rng.random() < 0.2,
        )
        if predict(job).verdict != FITS and recommend(base).chosen is not None:
            change = smallest_change(job)
            assert change is not None and change.estimate.verdict == FITS, seed


@pytest.mark.parametrize(
    ("stage", "micro_batch", "card", "words"),
    [
        (2, 8, "l4", "ZeRO stage 3 with offload_optimizer to cpu"),
        (3, 8, "l4", "offload_optimizer to cpu"),
        (
            2,
            8,
            "6GB",
            "reduce_bucket_size 200,000,000 and micro batch 1 with 8 accumulation steps"
            " and ZeRO stage 3 with offload_optimizer and offload_param to cpu",
        ),
    ],
)
def test_the_smallest_change_has_nothing_to_spare(
    stage: int, micro_batch: int, card: str, words: str
) -> None:
    said = {"model": "llama-7b", ("gpu_memory" if card.endswith("GB") else "gpu_type"): card}
    job = replace(base_job(workload(said), 8, "raw", schemas.newest()), stage=stage, micro_batch=micro_batch)
    change = smallest_change(job)
    assert change is not None and change.words == words


def test_the_grid_recommends_most_of_the_time_and_every_stage() -> None:
    chosen = [found.chosen.job for found in map(recommended, range(GRID)) if found.chosen is not None]
    assert len(chosen) > 0.7 * GRID
    assert {job.stage for job in chosen} == {0, 1, 2, 3}
    assert {job.offload_param for job in chosen} == {"none", "cpu"}


@pytest.mark.slow
@pytest.mark.live
def test_a_sample_starts_in_deepspeed() -> None:
    """The config of the newest release as its trainer fills it, a shrunken model, two CPU ranks: initialize,
    and an optimizer step where it does not take long."""
    if importlib.util.find_spec("deepspeed") is None or importlib.util.find_spec("torch") is None:
        pytest.skip("needs deepspeed and torch")
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    jobs = [(seed, found.chosen.job) for seed in range(GRID) if (found := recommended(seed, True)).chosen]
    kinds = {(job.stage, job.offload_optimizer, job.offload_param, job.method): seed for seed, job in jobs}
    rng = random.Random(0)
    rest = [seed for seed, _ in jobs if seed not in kinds.values()]
    sample = [*kinds.values(), *rng.sample(rest, SAMPLE)][:SAMPLE]  # every kind once, then what comes
    cases = []
    for seed in sample:
        found, (_, count, trainer, _) = recommended(seed, True), drawn(seed)
        assert found.chosen is not None
        job, ranks = found.chosen.job, min(2, count)
        arguments = Arguments(ranks=ranks, micro_batch=job.micro_batch, accumulation=job.accumulation)
        filled = fill(json.loads(config_text(found)), trainer, arguments)
        if "optimizer" in filled.config:  # DeepSpeed's kernels would have to be compiled first
            filled.config["optimizer"]["params"]["torch_adam"] = True
        filled.config["zero_force_ds_cpu_optimizer"] = False
        assert not filled.hidden and '"auto"' not in json.dumps(filled.config)
        steps = job.accumulation if job.accumulation <= 4 else 1
        train = "" if job.method == "full" else "down"
        cases.append({"config": filled.config, "ranks": ranks, "train": train, "micro_steps": steps})
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("live_memory.py"))],
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True,
        text=True,
        check=False,
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == SAMPLE, done.stderr or f"the worker ended with {done.returncode}"
    failed = [
        (seed, case["config"], result["error"], result.get("trace"))
        for seed, case, result in zip(sample, cases, results, strict=True)
        if "error" in result
    ]
    assert not failed, failed[0]
