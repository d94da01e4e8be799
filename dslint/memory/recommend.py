"""The cheapest configuration that fits, the alternatives, and why the others were rejected.

Cheapest means most tokens a second, by the estimate of :mod:`dslint.memory.communication`; where the
card's speed is unknown, least traffic. Among equals the simpler one: a lower stage, no offload.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product
from math import sqrt
from typing import Any

from dslint.facts.buckets import race_mended
from dslint.memory.communication import Speed, speed, traffic
from dslint.memory.hardware import GIB
from dslint.memory.job import BF16_WITHOUT_ZERO, CPU, NONE, NVME, Job
from dslint.memory.predict import CANNOT, FITS, TIGHT, Estimate, predict
from dslint.memory.shapes import Shape
from dslint.trainers import HF_LIKE

SEQUENCES_A_STEP = 64
"""Sequences an optimizer step of fine-tuning usually has; decides the accumulation where it is not said."""
MICRO_BATCHES = (32, 16, 8, 4, 2, 1)
PLANS = (
    (0, NONE, NONE),
    (1, NONE, NONE),
    (2, NONE, NONE),
    (3, NONE, NONE),
    (2, CPU, NONE),
    (3, CPU, NONE),
    (3, CPU, CPU),
)
"""Stage, offload of the optimizer and of the parameters. Stage 1 with offload is left out: stage 2 holds
fewer gradients for it."""
EQUAL = 0.92
"""Estimated speeds closer than this count as equal: the estimate is no better."""
LEARNING_RATES = {"full": 1e-5, "lora": 2e-4, "qlora": 2e-4}
"""Learning rates to start from, for a config whose optimizer is DeepSpeed's."""
BUCKETS = (50_000_000, 500_000_000)
"""Least and most elements of a recommended bucket: below, latency shows; above, only memory grows."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A configuration that was considered. `why` says in words why it is not the first."""

    job: Job
    estimate: Estimate
    speed: Speed | None
    why: str = ""

    @property
    def verdict(self) -> str | None:
        """fits, tight or cannot-fit."""
        return self.estimate.verdict

    @property
    def pace(self) -> float:
        """Tokens a second, in the middle of the range; 0 where unknown."""
        return 0.0 if self.speed is None else sqrt(self.speed.tokens[0] * self.speed.tokens[1])

    @property
    def order(self) -> tuple[int, ...]:
        """How involved it is: the simpler first."""
        job = self.job
        return (
            (NONE, CPU, NVME).index(job.offload_param),
            (NONE, CPU, NVME).index(job.offload_optimizer),
            job.stage,
            int(job.checkpointing),
        )


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Choices that fit, the best first; those that do not, with the reason; None fits: `chosen` None."""

    chosen: Choice | None
    alternatives: tuple[Choice, ...]
    rejected: tuple[Choice, ...]


def name(job: Job) -> str:
    """A configuration in words: "ZeRO-2, optimizer on CPU, checkpointing"."""
    parts = [f"ZeRO-{job.stage}"]
    if job.offload_optimizer != NONE and job.offload_param == job.offload_optimizer:
        parts.append(f"optimizer and parameters on {_where(job.offload_param)}")
    elif job.offload_optimizer != NONE:
        parts.append(f"optimizer on {_where(job.offload_optimizer)}")
    if job.offload_param not in (NONE, job.offload_optimizer):
        parts.append(f"parameters on {_where(job.offload_param)}")
    if job.checkpointing:
        parts.append("checkpointing")
    return ", ".join(parts)


def _where(device: str) -> str:
    return "NVMe" if device == NVME else "CPU"


def buckets(shape: Shape, trained: int) -> tuple[int, int, int]:
    """Reduce bucket, prefetch bucket and persistence threshold for a shape, in elements.

    A bucket holds about a layer, so that no gradient travels alone and no memory is spent on room for
    more than trains; prefetching half a layer ahead hides its gather; what is small stays gathered.
    """
    layer = max(1, (shape.parameters - shape.embeddings) // max(1, shape.layers))
    bucket = min(max(BUCKETS[0], min(layer, BUCKETS[1])), max(trained, 1_000_000))
    return _round(bucket), _round(max(bucket // 2, 1)), min(10 * shape.hidden, 100_000)


def _round(value: int) -> int:
    """A number with two significant digits, as people write it."""
    digits = max(0, len(str(value)) - 2)
    unit = int(10**digits)
    return max(1, value // unit) * unit


def candidates(base: Job, checkpointing: bool | None, micro_batch: int | None) -> list[Job]:
    """The configurations to consider. None: free to choose."""
    agains = (False, True) if checkpointing is None else (checkpointing,)
    micros = MICRO_BATCHES if micro_batch is None else (micro_batch,)
    wide = base.precision == "bf16" and base.release < BF16_WITHOUT_ZERO
    return [
        replace(
            base,
            stage=stage,
            offload_optimizer=optimizer,
            offload_param=param,
            checkpointing=again,
            micro_batch=micro,
            overlap_comm=stage > 0 and race_mended(stage, base.release) is None,
            pin_memory=optimizer != NONE,
            accumulate_bytes=4 if wide and stage == 0 else 0,
        )
        for stage, optimizer, param in PLANS
        if base.gpus > 1 or not stage or optimizer != NONE  # one GPU has nothing to shard over
        for again in agains
        for micro in micros
    ]


def recommend(
    base: Job,
    *,
    checkpointing: bool | None = None,
    micro_batch: int | None = None,
    accumulation: int | None = None,
) -> Recommendation:
    """The recommendation for a job of which stage, offload, buckets and what is None are free."""
    reduce_bucket, prefetch, persistence = buckets(base.shape, base.trained)
    base = replace(
        base,
        reduce_bucket=reduce_bucket,
        prefetch_bucket=prefetch,
        persistence=persistence,
        sub_group=1_000_000_000,
    )
    groups: dict[tuple[int, str, str], list[Choice]] = {}
    for job in candidates(base, checkpointing, micro_batch):
        if micro_batch is None and accumulation is None and 1 < job.micro_batch > SEQUENCES_A_STEP / job.gpus:
            continue
        steps = accumulation or max(1, round(SEQUENCES_A_STEP / (job.micro_batch * job.gpus)))
        job = replace(job, accumulation=steps)
        choice = Choice(job, predict(job), speed(job))
        groups.setdefault((job.stage, job.offload_optimizer, job.offload_param), []).append(choice)
    fitting, rejected = [], []
    for choices in groups.values():
        fits = [c for c in choices if c.verdict == FITS]
        good = [c for c in fits if c.estimate.comfortable] or fits
        if good:
            fitting.append(_best(good))
        else:
            least = min(choices, key=lambda c: c.estimate.device)
            rejected.append(replace(least, why=reason(least.estimate)))
    if not fitting:
        return Recommendation(None, (), tuple(rejected))
    best = _best(fitting)
    rest = sorted((c for c in fitting if c is not best), key=lambda c: (-c.pace, _bytes(c), c.order))
    return Recommendation(best, tuple(replace(c, why=_behind(c, best)) for c in rest), tuple(rejected))


def _bytes(choice: Choice) -> float:
    """Traffic a token, the order where speeds are unknown."""
    moved = traffic(choice.job)
    return (moved.wire + 2 * moved.host) / (choice.job.tokens * choice.job.accumulation)


def _best(choices: list[Choice]) -> Choice:
    """The fastest, the simplest of those about as fast."""
    if any(c.speed is None for c in choices):
        least = min(_bytes(c) for c in choices)
        near = [c for c in choices if _bytes(c) <= least / EQUAL or not least]
        return min(near, key=lambda c: (c.order, -c.job.micro_batch))
    top = max(c.pace for c in choices)
    near = [c for c in choices if c.pace >= EQUAL * top]
    return min(near, key=lambda c: (c.order, c.estimate.device))


def _behind(choice: Choice, best: Choice) -> str:
    """Why a configuration that fits is not the one recommended."""
    if choice.pace and best.pace:
        ratio = choice.pace / best.pace
        if ratio >= EQUAL:
            return "about as fast, and more involved"
        return f"about {ratio:.2f} x the speed"
    return f"moves {_bytes(choice) / max(_bytes(best), 1e-9):.1f} x the bytes a token"


def reason(estimate: Estimate) -> str:
    """Why a run does not fit, in words."""
    job = estimate.job
    if estimate.host_verdict in (CANNOT, TIGHT) and job.host_memory is not None:
        return f"needs {estimate.host / GIB:.0f} GiB of host memory a node, of {job.host_memory / GIB:.0f}"
    if job.gpu is None:
        return "the card is not known"
    items = estimate.items[estimate.peak_phase]
    heaviest = max(items, key=lambda item: items[item])
    word = "tight" if estimate.verdict == TIGHT else "does not fit"
    return (
        f"{word}: {estimate.device / GIB:.1f} GiB of {job.gpu.usable / GIB:.1f} in {estimate.peak_phase}, "
        f"{items[heaviest] / GIB:.1f} of them {heaviest}"
    )


# The smallest change that makes a given config fit


@dataclass(frozen=True, slots=True)
class Change:
    """What changes in a run, in words, and what it needs afterwards."""

    words: str
    estimate: Estimate
    speed: Speed | None


Step = tuple[str, dict[str, Any]]
"""A change in words, and the fields of the job that it sets."""


def changes(job: Job) -> tuple[list[Step], list[Step], list[Step]]:
    """Changes worth trying, the least intrusive first: settings of which any may go together, then micro
    batches, then stages and offloads, of which one each."""
    settings: list[Step] = []
    reduce_bucket, prefetch, _ = buckets(job.shape, job.trained)
    if job.reduce_bucket > reduce_bucket:
        settings.append((f"reduce_bucket_size {reduce_bucket:,}", {"reduce_bucket": reduce_bucket}))
    if job.logit_bytes > 1:
        settings.append(("a fused cross entropy (Liger, Cut Cross-Entropy)", {"logit_bytes": 0.5}))
    if job.eager:
        settings.append(("FlashAttention or SDPA", {"eager": False}))
    if job.accumulate_bytes == 4 and job.precision != "fp32":
        settings.append(("data_types.grad_accum_dtype of 16 bits", {"accumulate_bytes": 0}))
    if not job.checkpointing:
        settings.append(("activation checkpointing", {"checkpointing": True}))
    batches: list[Step] = []
    micro = job.micro_batch
    while micro > 1:
        micro //= 2
        more = job.accumulation * job.micro_batch // micro
        words = f"micro batch {micro} with {more} accumulation steps"
        batches.append((words, {"micro_batch": micro, "accumulation": more}))
    plans: list[Step] = []
    if job.gpus > 1:
        plans += [(f"ZeRO stage {n}", _staged(job, n, prefetch)) for n in range(job.stage + 1, 4)]
    if job.offload_optimizer == NONE:
        for stage in range(max(job.stage, 2), 4):
            words = _offloading(job, stage, "offload_optimizer")
            plans.append((words, {**_staged(job, stage, prefetch), "offload_optimizer": CPU}))
    if job.offload_param == NONE:
        offload = {"offload_param": CPU}
        if job.offload_optimizer == NONE:
            offload["offload_optimizer"] = CPU
        words = _offloading(job, 3, " and ".join(sorted(offload)))
        plans.append((words, {**_staged(job, 3, prefetch), **offload}))
    return settings, batches, plans


def _staged(job: Job, stage: int, prefetch: int) -> dict[str, Any]:
    if stage == job.stage:
        return {}
    if stage == 3:
        return {"stage": 3, "overlap_comm": True, "prefetch_bucket": prefetch}
    return {"stage": stage}


def _offloading(job: Job, stage: int, sections: str) -> str:
    return f"{'' if stage == job.stage else f'ZeRO stage {stage} with '}{sections} to cpu"


def smallest_change(job: Job) -> Change | None:
    """The fewest changes after which the run fits, of as many the least intrusive; None: all do not help."""
    settings, batches, plans = changes(job)
    order = {words: n for n, (words, _) in enumerate((*settings, *batches, *plans))}
    some = [part for size in range(len(settings) + 1) for part in combinations(settings, size)]
    one = ([(), *((step,) for step in group)] for group in (batches, plans))
    found = [(*part, *batch, *plan) for part, batch, plan in product(some, *one)]
    found.sort(key=lambda steps: (len(steps), [order[words] for words, _ in reversed(steps)]))
    for steps in found[1:]:
        fields = {key: value for _, sets in steps for key, value in sets.items()}
        changed = replace(job, **fields)
        estimate = predict(changed)
        if estimate.verdict == FITS:
            return Change(" and ".join(words for words, _ in steps), estimate, speed(changed))
    return None


# The config file


def config_of(job: Job) -> dict[str, Any]:
    """A DeepSpeed config for a job, as its trainer wants it."""
    filled = job.trainer in HF_LIKE or job.trainer == "accelerate"
    config: dict[str, Any] = {}
    if job.trainer == "lightning":
        config["train_micro_batch_size_per_gpu"] = job.micro_batch  # Lightning sets the rest
    elif filled:
        config["train_micro_batch_size_per_gpu"] = "auto"
        config["gradient_accumulation_steps"] = "auto"
        config["gradient_clipping"] = "auto"
    else:
        config["train_micro_batch_size_per_gpu"] = job.micro_batch
        config["gradient_accumulation_steps"] = job.accumulation
        config["gradient_clipping"] = 1.0
    if job.trainer == "raw":
        rate = LEARNING_RATES[job.method]
        config["optimizer"] = {"type": "AdamW", "params": {"lr": rate, "weight_decay": 0.0}}
    if job.precision != "fp32":
        config[job.precision] = {"enabled": True}
    if job.accumulate_bytes == 4 and job.precision != "fp32":
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    zero: dict[str, Any] = {"stage": job.stage}
    if job.stage:
        zero["reduce_bucket_size"] = job.reduce_bucket
    if job.stage in (1, 2) and job.gpus > 1 and job.overlap_comm:
        zero["overlap_comm"] = True
    if job.stage == 3:
        zero["stage3_prefetch_bucket_size"] = job.prefetch_bucket
        zero["stage3_param_persistence_threshold"] = job.persistence
    if job.stage == 3 and filled:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    if job.offload_optimizer != NONE:
        zero["offload_optimizer"] = {"device": job.offload_optimizer, "pin_memory": True}
    if job.offload_param != NONE:
        zero["offload_param"] = {"device": job.offload_param, "pin_memory": True}
    config["zero_optimization"] = zero
    return config


def outside(job: Job) -> str:
    """What belongs to the recommendation and stands in no DeepSpeed config, as its trainer spells it."""
    again = "on" if job.checkpointing else "off"
    if job.trainer in HF_LIKE:
        flags = [
            f"per_device_train_batch_size {job.micro_batch}",
            f"gradient_accumulation_steps {job.accumulation}",
            f"gradient_checkpointing {str(job.checkpointing).lower()}",
        ]
        return ", ".join([*flags, f"{job.precision} true"] if job.precision != "fp32" else flags)
    if job.trainer == "accelerate":
        return (
            f"a data loader of batch size {job.micro_batch}, gradient_accumulation_steps {job.accumulation}, "
            f"mixed_precision {job.precision}, the model's activation checkpointing {again}"
        )
    if job.trainer == "lightning":
        return f"accumulate_grad_batches {job.accumulation}, the model's activation checkpointing {again}"
    return f"the model's activation checkpointing {again}"
