"""How far the memory predictor is from published measurements, beside DeepSpeed's own estimator.

    python benchmarks/memory_accuracy.py MEASUREMENTS.tsv [--details]

The table has one measurement a row: model, params_b, gpus, gpu, stage, offload_opt, offload_param,
precision, optimizer, micro_batch, seq_len, ckpt (0/1), attn (flash/eager), trainable (empty: full
fine-tuning), metric (peak_alloc, steady_alloc, reserved, smi, fits), measured, unit (GiB or GB), use
(1: scored; 2: feasibility) and cfg, a JSON object with what else is known: gas, overlap_comm,
reduce_bucket, persist_thr, hf_auto (HF Trainer filled the bucket sizes), kept_logits (bytes a logit
alive between steps), logit_bytes, fused (loss), seq_eff (mean length), zero_init, bf16_master,
bf16_states, trainable_fp32, lora_fp32, base_bytes (a frozen parameter).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import sys
from itertools import compress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dslint.errors import UsageError
from dslint.memory.hardware import GIB, gpu
from dslint.memory.job import Job, loss_bytes
from dslint.memory.models import ModelError, inferred, model
from dslint.memory.predict import Estimate, predict
from dslint.memory.shapes import Shape

Row = dict[str, str]


def shape(row: Row) -> Shape:
    """The model of a row; one that is not in the table is inferred from its size."""
    name = row["model"].strip().lower().lstrip("~")
    parameters = float(row["params_b"]) * 1e9
    for word in (name, name.replace("llama2", "llama-2"), name.replace("llama3", "llama-3")):
        try:
            found = model(word)
        except ModelError:
            continue
        if abs(found.parameters - parameters) < 0.05 * parameters:
            return found
    return inferred(parameters, name)


def job(row: Row) -> Job:
    """The run of a row."""
    cfg: dict[str, Any] = json.loads(row["cfg"] or "{}")
    made = shape(row)
    trainable = int(float(row["trainable"])) if row["trainable"] else 0
    precision = row["precision"]
    kwargs: dict[str, Any] = {
        "gpus": max(1, int(row["gpus"])),
        "stage": int(row["stage"]),
        "precision": precision if precision in ("fp32", "fp16") else "bf16",
        "plain": precision == "pure",
        "offload_optimizer": row["offload_opt"].replace("?", "none"),
        "offload_param": row["offload_param"].replace("?", "none"),
        "micro_batch": int(row["micro_batch"]),
        "seq_len": int(cfg.get("seq_eff", row["seq_len"]) or 2048),
        "checkpointing": row["ckpt"] == "1",
        "eager": row["attn"] == "eager",
        "accumulation": int(cfg.get("gas", 1)),
        "optimizer": row["optimizer"],
        "moments": {"lion": 1.0, "adagrad": 1.0, "muon": 1.0, "sgd": 0.0}.get(row["optimizer"], 2.0),
        "overlap_comm": bool(cfg.get("overlap_comm", int(row["stage"]) == 3)),
        "zero_init": bool(cfg.get("zero_init", True)),
        "kept_logits": float(cfg.get("kept_logits", 0)),
        "logit_bytes": logit_bytes(cfg, made, row),
        "variable_lengths": "variable-length" in row["note"],
    }
    if cfg.get("hf_auto"):
        h = made.hidden
        kwargs.update(reduce_bucket=h * h, prefetch_bucket=int(0.9 * h * h), persistence=10 * h)
    if "reduce_bucket" in cfg:
        kwargs["reduce_bucket"] = int(cfg["reduce_bucket"])
    if "persist_thr" in cfg:
        kwargs["persistence"] = int(cfg["persist_thr"])
    if cfg.get("bf16_master"):
        kwargs["master_bytes"] = 2
    if cfg.get("bf16_states"):
        kwargs["state_bytes"] = 2
    if trainable:
        kwargs.update(trainable=trainable, method="lora", frozen_bytes=float(cfg.get("base_bytes", 2)))
    if cfg.get("lora_fp32"):
        kwargs["adapter_bytes"] = 4
    if cfg.get("trainable_fp32"):
        kwargs["trainable_bytes"] = 4
    with contextlib.suppress(UsageError):
        kwargs["gpu"] = gpu({"A100": "a100-80gb", "A100-80": "a100-80gb"}.get(row["gpu"], row["gpu"]))
    return Job(made, **kwargs)


def logit_bytes(cfg: dict[str, Any], made: Shape, row: Row) -> float:
    """Bytes a logit needs at the peak of the loss."""
    if "logit_bytes" in cfg:
        return float(cfg["logit_bytes"])
    if cfg.get("fused"):
        return 0.5
    plain = row["precision"] == "pure"  # HF Trainer without DeepSpeed runs under autocast
    if cfg.get("hf_auto") or plain:
        return loss_bytes(made, "bf16", plain, outputs_kept=False)
    return 16.0 if made.upcast_logits else 8.0  # transformers before 4.45 kept the 32-bit logits


def predicted(estimate: Estimate, metric: str) -> float:
    """Bytes of a metric."""
    return {
        "peak_alloc": estimate.peak,
        "steady_alloc": estimate.steady,
        "reserved": estimate.reserved,
        "smi": estimate.device,
    }[metric]


def deepspeed_estimator(run: Job) -> float:
    """What DeepSpeed's estimate_zero{2,3}_model_states_mem_needs say a GPU needs (0.19.8): model states.

    The formulas of runtime/zero/stage_1_and_2.py and stage3.py; stage 0 and 1 have none, and get the
    textbook 16 bytes a parameter, with optimizer states divided at stage 1.
    """
    p, n = run.shape.parameters, run.gpus
    largest = run.shape.largest
    if run.stage == 3:
        if run.offload_optimizer != "none":
            return 4.0 * largest + (0 if run.offload_param != "none" else 2 * p / n)
        return 4.0 * largest + 18 * p / n
    if run.stage == 2:
        return 2.0 * p if run.offload_optimizer != "none" else 4.0 * p + 16 * p / n
    return 4.0 * p + 12 * p / n if run.stage == 1 else 16.0 * p


def median(values: list[float]) -> float:
    """The middle value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of the values lies (linear between neighbours)."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def score(pairs: list[tuple[float, float]]) -> str:
    """Median and 90th percentile of the error, and the share measured above predicted x 1.15."""
    errors = [abs(p - m) / m for p, m in pairs]
    above = sum(m > 1.15 * p for p, m in pairs) / len(pairs)
    return (
        f"median {median(errors):6.1%}   p90 {percentile(errors, 0.9):6.1%}   "
        f"measured above predicted x 1.15: {above:5.1%}   rows {len(pairs)}"
    )


def main() -> int:
    """Prints the table; exit code 1 below the bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--details", action="store_true", help="every row")
    chosen = parser.parse_args()
    with chosen.table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    full: list[bool] = []
    feasible: list[bool] = []
    for row in rows:
        if row["use"] not in ("1", "2") or not row["measured"]:
            continue
        run = job(row)
        estimate = predict(run)
        if row["metric"] == "fits":
            verdict = estimate.verdict
            feasible.append((verdict != "cannot-fit") == (row["measured"] == "1"))
            if chosen.details:
                print(
                    f"{row['model']:14} z{row['stage']} n{row['gpus']} {row['gpu']}: fits {row['measured']}, "
                    f"{verdict}, {estimate.device / GIB:.1f} GiB"
                )
            continue
        measured = float(row["measured"]) * (1e9 if row["unit"] == "GB" else GIB)
        value = predicted(estimate, row["metric"])
        ours.append((value, measured))
        theirs.append((deepspeed_estimator(run), measured))
        full.append(run.method == "full")
        if chosen.details:
            print(
                f"{row['model']:14} z{row['stage']} n{row['gpus']:>2} b{row['micro_batch']:>2} "
                f"s{row['seq_len']:>5} "
                f"ckpt{row['ckpt']} {row['attn']:5} {'lora' if row['trainable'] else 'full':4} "
                f"{row['metric']:12} "
                f"measured {measured / GIB:6.2f} predicted {value / GIB:6.2f} GiB  "
                f"{value / measured - 1:+7.1%}  "
                f"peak {estimate.peak_phase}"
            )
    print(f"dslint               {score(ours)}")
    print(f"DeepSpeed estimator  {score(theirs)}")
    if any(full) and not all(full):  # DeepSpeed's estimator knows no frozen weights
        print("of these, full fine-tuning:")
        print(f"dslint               {score(list(compress(ours, full)))}")
        print(f"DeepSpeed estimator  {score(list(compress(theirs, full)))}")
    if feasible:
        print(f"fits or not, right: {sum(feasible)} of {len(feasible)}")
    errors = [abs(p - m) / m for p, m in ours]
    above = sum(m > 1.15 * p for p, m in ours) / len(ours)
    return 0 if median(errors) <= 0.06 and percentile(errors, 0.9) <= 0.15 and above <= 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
