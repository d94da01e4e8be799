"""Model states as predicted against the tensors of real DeepSpeed runs on CPU ranks, within one percent.

Every stage and offload that the CPU supports; the runs are in live_memory.py, in one process for all.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dslint import schema as schemas
from dslint.lint import Options, prepare
from dslint.memory.job import NONE
from dslint.memory.plan import job_of
from dslint.memory.shapes import ATTENTION, EMBEDDING, VECTOR, Block, Shape, Tensor
from dslint.memory.states import bucket, states
from dslint.memory.workload import Workload

pytestmark = [pytest.mark.live, pytest.mark.slow]

WORKER = Path(__file__).with_name("live_memory.py")
TORCH_ADAM = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}
TO_CPU = {"offload_optimizer": {"device": "cpu"}}
BOTH_TO_CPU = {**TO_CPU, "offload_param": {"device": "cpu"}}
IN_FP32 = {"data_types": {"grad_accum_dtype": "fp32"}}
AUTOCAST = {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}, "bf16": {"enabled": False}}
SMALL = {"reduce_bucket_size": 20_000}
SMALL_3 = {
    **SMALL,
    "stage3_prefetch_bucket_size": 10_000,
    "stage3_param_persistence_threshold": 100,
    "stage3_max_reuse_distance": 0,
    "stage3_max_live_parameters": 10_000,
}


def config(stage: int, more: dict[str, Any] | None = None, steps: int = 1, **zero: Any) -> dict[str, Any]:
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": steps,
        "bf16": {"enabled": True},
        "optimizer": TORCH_ADAM,
        "zero_force_ds_cpu_optimizer": False,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage, **(SMALL_3 if stage == 3 else SMALL), **zero},
        **(more or {}),
    }


def bf16(master: bool, moments: bool) -> dict[str, Any]:
    section = {"enabled": True, "bf16_master_weights_and_grads": master, "bf16_optimizer_states": moments}
    return {"bf16": section}


FP32 = {"bf16": {"enabled": False}}
SGD: dict[str, Any] = {"optimizer": {"type": "SGD", "params": {"lr": 1e-3, "momentum": 0.9}}}
PLAIN_SGD: dict[str, Any] = {"optimizer": {"type": "SGD", "params": {"lr": 1e-3}}}

CASES: dict[str, dict[str, Any]] = {
    "stage 0": {"config": config(0)},
    "stage 0, fp32": {"config": config(0, FP32)},
    "stage 1": {"config": config(1)},
    "stage 1, accumulation": {"config": config(1, steps=2)},
    "stage 1, fp32 accumulation": {"config": config(1, IN_FP32)},
    "stage 1, optimizer on CPU, accumulation": {"config": config(1, steps=2, **TO_CPU)},
    "stage 1, bf16 master and states": {"config": config(1, bf16(True, True))},
    "stage 2": {"config": config(2)},
    "stage 2, one rank": {"config": config(2), "ranks": 1},
    "stage 2, accumulation": {"config": config(2, steps=2)},
    "stage 2, fp32": {"config": config(2, FP32)},
    "stage 2, fp32 accumulation": {"config": config(2, IN_FP32)},
    "stage 2, autocast": {"config": config(2, AUTOCAST)},
    "stage 2, overlap": {"config": config(2, overlap_comm=True)},
    "stage 2, part frozen": {"config": config(2), "train": "down"},
    "stage 2, optimizer on CPU": {"config": config(2, **TO_CPU)},
    "stage 2, optimizer on CPU, accumulation": {"config": config(2, steps=2, **TO_CPU)},
    "stage 2, optimizer on CPU, fp32": {"config": config(2, FP32, **TO_CPU)},
    "stage 2, momentum": {"config": config(2, SGD)},
    "stage 2, plain SGD": {"config": config(2, PLAIN_SGD)},
    "stage 3": {"config": config(3)},
    "stage 3, one rank": {"config": config(3), "ranks": 1},
    "stage 3, without zero.Init": {"config": config(3), "zero_init": False},
    "stage 3, accumulation": {"config": config(3, steps=2)},
    "stage 3, fp32": {"config": config(3, FP32)},
    "stage 3, fp32 accumulation": {"config": config(3, IN_FP32)},
    "stage 3, autocast": {"config": config(3, AUTOCAST)},
    "stage 3, bf16 master and states": {"config": config(3, bf16(True, True))},
    "stage 3, persistent parameters": {"config": config(3, stage3_param_persistence_threshold=5_000)},
    "stage 3, part frozen": {"config": config(3), "train": "down"},
    "stage 3, optimizer on CPU": {"config": config(3, **TO_CPU)},
    "stage 3, optimizer on CPU, fp32": {"config": config(3, FP32, **TO_CPU)},
    "stage 3, parameters on CPU": {"config": config(3, offload_param={"device": "cpu"})},
    "stage 3, both on CPU, accumulation": {"config": config(3, steps=2, **BOTH_TO_CPU)},
    "stage 3, momentum": {"config": config(3, SGD)},
}


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, Any]]:
    """What the runs hold, by case."""
    if importlib.util.find_spec("deepspeed") is None or importlib.util.find_spec("torch") is None:
        pytest.skip("needs deepspeed and torch")
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    lines = "".join(json.dumps(case) + "\n" for case in CASES.values())
    done = subprocess.run(
        [sys.executable, str(WORKER)], input=lines, capture_output=True, text=True, check=False
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(CASES), done.stderr or f"the worker ended with {done.returncode}"
    return dict(zip(CASES, results, strict=True))


def predicted(case: dict[str, Any], result: dict[str, Any]) -> dict[str, float]:
    """Bytes after the backward pass and after the step; on the CPU the host's part is in them."""
    shapes = [tuple(shape) for shape in result["weights"]]
    roles = [VECTOR if len(s) == 1 else EMBEDDING if s[0] == max(shapes)[0] else ATTENTION for s in shapes]
    tensors = tuple(Tensor(role, shape) for role, shape in zip(roles, shapes, strict=True))
    hidden = shapes[0][1]
    shape = Shape("live", tensors, (Block(4, hidden, 1, hidden, hidden, 176),), vocab=shapes[0][0])
    trains = result["trainable"]
    load = Workload(
        shape=shape,
        seq_len=8,
        trainable=None if trains == shape.parameters else trains,
        zero_init=case.get("zero_init", True),
    )
    text = json.dumps(case["config"]).encode()
    ranks = case.get("ranks", 2)
    job = job_of(prepare(text, "live.json", Options(schemas.newest(), trainer="raw", gpus=ranks)), load)
    s = states(job)
    offloaded = job.stage in (1, 2) and job.offload_optimizer != NONE
    base = s.weights + s.persistent + s.master + s.moments
    base += s.host_weights + s.host_master + s.host_moments + s.host_gradients + s.host_buffers
    base += (bucket(job) if job.stage == 3 else 0.0) + (s.copies if offloaded else 0.0)
    lasting = s.accumulated if job.stage == 3 or job.bf16_optimizer else 0.0
    return {"backward": base + s.step_gradients, "step": base + lasting}


@pytest.mark.parametrize("name", CASES)
def test_states_are_predicted_to_a_percent(name: str, measured: dict[str, dict[str, Any]]) -> None:
    result = measured[name]
    assert "error" not in result, result.get("trace")
    expected = predicted(CASES[name], result)
    for moment in ("backward", "step"):
        assert expected[moment] == pytest.approx(result[moment], rel=0.01), (
            moment,
            {m: (round(expected[m]), result[m]) for m in expected},
        )
