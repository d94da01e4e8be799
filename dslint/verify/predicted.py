"""What the memory model foretold of a run, beside what the run showed. Pure; the memory model is imported
only where a shape is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dslint.config import Config
from dslint.verify.plan import Plan

if TYPE_CHECKING:
    from dslint.memory.job import Job
    from dslint.memory.predict import Estimate
    from dslint.memory.shapes import Shape as MemoryShape

STEADY, BEFORE = "between steps", "before the step"
ITEMS = (
    ("weights", "weights"),
    ("gathered", "persistent parameters"),
    ("master", "master weights"),
    ("moments", "optimizer states"),
    ("gradients", "gradients"),
    ("buckets", "buffers"),
)
"""Item as measured -> what people read."""


@dataclass(slots=True)
class Forecast:
    """A prediction for a run on `device`."""

    job: Job
    estimate: Estimate
    device: str

    @property
    def data(self) -> dict[str, Any]:
        """The prediction as the JSON report has it, in the names of --estimate."""
        from dslint.memory.show import data

        return data(self.estimate)

    def tensors(self) -> dict[str, dict[str, float]]:
        """Bytes by measured item between steps and just before the optimizer's step. On the CPU the host's
        part is in them, for there everything is."""
        from dslint.memory.states import states

        job, s = self.job, states(self.job)
        host = 1.0 if self.device == "cpu" else 0.0
        lasting = s.accumulated if job.stage == 3 or job.bf16_optimizer else 0.0
        buffers = float(job.size * job.reduce_bucket) if job.stage == 3 else 0.0
        if job.stage in (1, 2) and job.offload_optimizer != "none":
            buffers = s.copies
        steady = {
            "weights": s.weights + host * s.host_weights,
            "gathered": s.persistent,
            "master": s.master + host * s.host_master,
            "moments": s.moments + host * s.host_moments,
            "gradients": lasting + host * s.host_gradients,
            "buckets": buffers + host * s.host_buffers,
        }
        return {STEADY: steady, BEFORE: {"gradients": s.step_gradients + host * s.host_gradients}}

    def peaks(self) -> dict[str, tuple[str, float]]:
        """On a GPU: what people read, the figure's name in a rank's summary, and the bytes predicted."""
        estimate = self.estimate
        return {
            "allocated at most": ("allocated_peak_gib", estimate.peak),
            "allocated between steps": ("allocated_steady_gib", estimate.steady),
            "reserved at most": ("reserved_peak_gib", estimate.reserved),
            "on the device": ("device_total_gib", estimate.device),
        }

    def advice(self) -> list[str]:
        """Changes that would save memory at the peak, the largest predicted saving first."""
        from dslint.memory.predict import predict

        peak = self.estimate.peak
        saved = [(peak - predict(job).peak, words) for job, words in alternatives(self.job)]
        return [
            f"{words}: {gib(size):.2f} GiB less"
            if gib(size) >= 0.01
            else f"{words}: {size / 2**20:.2f} MiB less"
            for size, words in sorted(saved, key=lambda pair: -pair[0])
            if size > 0.01 * peak
        ]


def alternatives(job: Job) -> Iterable[tuple[Job, str]]:
    """Runs that differ in one thing that people change when memory runs out."""
    if job.micro_batch > 1:
        half = job.micro_batch // 2
        yield replace(job, micro_batch=half), f"train_micro_batch_size_per_gpu {half}"
    if not job.checkpointing:
        yield replace(job, checkpointing=True), "activation checkpointing in the model"
    for stage in range(job.stage + 1, 4):
        yield replace(job, stage=stage), f"zero_optimization.stage {stage}"
    if job.stage and job.offload_optimizer == "none":
        yield replace(job, offload_optimizer="cpu"), "offload_optimizer to cpu"
    if job.stage == 3 and job.offload_param == "none":
        yield replace(job, offload_param="cpu"), "offload_param to cpu"
    if job.precision == "fp32" and not job.autocast:
        yield replace(job, precision="bf16"), "bf16.enabled"
    if job.stage and job.reduce_bucket > 50_000_000:
        yield replace(job, reduce_bucket=50_000_000), "reduce_bucket_size 5e7"


def rows(forecast: Forecast | None, ranks: Iterable[Mapping[str, Any]], device: str) -> list[dict[str, Any]]:
    """Measured against predicted, an item a row, of the rank that has most. Sizes in bytes; `error` is
    relative to what was measured. `ranks`: as in the summary."""
    from dslint.verify.compare import GIB

    ranks = list(ranks)
    foreseen = forecast.tensors() if forecast is not None else {}
    out = []
    for when, key in ((STEADY, "steady"), (BEFORE, "backward")):
        for item, words in ITEMS:
            if when == BEFORE and item != "gradients":
                continue
            measured = max(of_item(rank["tensors_bytes"][key], item, device) for rank in ranks)
            predicted = foreseen.get(when, {}).get(item)
            if measured or predicted:
                out.append(row(words if when == STEADY else f"{words} {when}", measured, predicted))
    if device == "cuda":
        for words, (name, predicted) in (forecast.peaks() if forecast is not None else {}).items():
            out.append(row(words, max(float(rank[name]) for rank in ranks) * GIB, predicted))
    return out


def row(what: str, measured: float, predicted: float | None) -> dict[str, Any]:
    """One row."""
    error = None if predicted is None or not measured else round((predicted - measured) / measured, 4)
    whole = None if predicted is None else round(predicted)
    return {"what": what, "measured_bytes": round(measured), "predicted_bytes": whole, "error": error}


def of_item(kinds: Mapping[str, Mapping[str, int]], item: str, device: str) -> int:
    """Bytes of an item: on the GPU, or on the CPU wherever they are."""
    if device == "cuda":
        return kinds.get("device", {}).get(item, 0)
    return sum(kinds.get(where, {}).get(item, 0) for where in ("device", "host"))


def gib(size: float) -> float:
    """Bytes as GiB."""
    return round(size / (1 << 30), 6)


def forecast(config: Config, shape: MemoryShape | None, plan: Plan, ranks: int) -> Forecast | None:
    """The prediction for a run, or None where the shape is not known."""
    if shape is None:
        return None
    from dslint.memory.plan import job_of
    from dslint.memory.predict import predict
    from dslint.memory.workload import Workload

    load = Workload(
        shape=shape,
        seq_len=plan.sequence,
        method="full",
        checkpointing=plan.checkpointing,
        attention=plan.attention,
        zero_init=plan.zero_init,
    )
    job = job_of(config, load, gpus=ranks)
    return Forecast(job, predict(job), plan.device)
