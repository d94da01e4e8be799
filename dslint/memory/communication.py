"""What a run moves and how long a step takes, as ranges.

Wire elements were counted on the payloads of DeepSpeed 0.19.8's collectives, which differ from the ZeRO
paper: by default stages 1 and 2 all-reduce each bucket (twice the volume of a reduce-scatter) before
they gather the updated weights. P parameters, T trainable ones, N ranks, g accumulation steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslint.memory.job import CPU, NONE, NVME, Job

MFU = (0.28, 0.5)
"""Share of the dense 16-bit peak that training reaches when nothing else holds it up (0.30 to 0.45 on the
published runs with checkpointing, up to 0.6 on long batches)."""
FEW_TOKENS = 1024
"""Below about so many tokens a forward pass a large card is not filled, and compute time stops shrinking."""
GATHERING = (1.01, 1.06)
"""Computing time of stage 3 relative to the others: hooks around every module, gathers that share the
card's memory and units. A 14B model on 8 A800 took 2 percent longer a step than at stage 2."""
LINK_SHARE = (0.7, 1.0)
"""Share of a link's rate that collectives of bucket size reach."""
CPU_STEP = (0.5, 3.0)
"""Seconds an optimizer step in host memory takes for 10^9 parameters of a node. Memory traffic alone
(28 bytes a parameter at 60 to 150 GB/s) is the low end; a 7B model on 8 A800 lost 17 to 20 s a step."""
NVME_RATE = (1.5e9, 6e9)
"""Bytes a second that a node's NVMe reads or writes."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one optimizer step. `wire`: sent by one GPU over its link; `across`: of these, between
    nodes; `host`: over one GPU's host link; `disk`: read and written by a node's NVMe."""

    wire: float
    across: float
    host: float
    disk: float


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of one optimizer step, (low, high). `exposed`: the part of communication and offload that
    computing cannot hide, as a share of the step; `tokens`: tokens a second of the whole run."""

    step: tuple[float, float]
    compute: tuple[float, float]
    communication: tuple[float, float]
    offload: tuple[float, float]
    exposed: tuple[float, float]
    tokens: tuple[float, float]


def traffic(job: Job) -> Traffic:
    """What one optimizer step moves."""
    n, e, g, t = job.gpus, job.size, job.accumulation, job.trained
    p = job.shape.parameters if job.method == "full" else job.shape.parameters * job.frozen_bytes / e + t
    share = (n - 1) / n
    spread = 1.0 if job.multi_rank_allreduce else 0.0
    gathers = 0.0
    if job.stage == 0:
        reduce = 2.0 * t
    elif job.stage == 1:
        reduce = (2.0 + spread) * t  # all-reduce of whole buckets, or reduction to the owner; then a gather
    elif job.stage == 2:
        reduce = ((1.0 + spread) * g + 1.0) * t
    else:
        reduce = t * g * (0.25 if job.quantized_gradients else 1.0)
        gathers = 2.0 * p * g * (0.5 if job.quantized_weights else 1.0)
    wire = e * (reduce + gathers) * share
    inner = job.ranks_per_node
    across = 0.0
    if job.nodes > 1:
        outer = wire
        if job.hpz > 1 and job.stage == 3:
            outer -= e * gathers / 2 * share  # the backward pass gathers from the secondary partition
        across = outer
    host, disk = _offload(job)
    return Traffic(wire, across, host, disk * inner)


def _offload(job: Job) -> tuple[float, float]:
    """Bytes over one GPU's host link and bytes of one rank's NVMe traffic."""
    n, e, g, t = job.shards, job.size, job.accumulation, job.trained
    host = disk = 0.0
    if job.offload_optimizer != NONE and job.stage:
        host += e * ((2 * g - 1) * t / n + t / n)
        if job.offload_optimizer == NVME:
            disk += 2 * (job.master_bytes + job.state_per_parameter + 4) * t / n
    if job.offload_param != NONE:
        weights = e * job.shape.parameters / n
        host += 2 * g * weights
        if job.offload_param == NVME:
            disk += 2 * g * weights
    return host, disk


def flops(job: Job) -> float:
    """Floating point operations of one GPU in one optimizer step."""
    active = job.shape.computing
    full = job.method == "full"
    per_weight = (6 if full else 4) + (2 if job.checkpointing else 0)
    scores = sum(b.layers * b.attention for b in job.shape.blocks) * job.seq_len
    per_token = per_weight * active + (per_weight + 2) * scores
    return float(per_token * job.tokens * job.accumulation)


def _seconds(size: float, rate: float, share: tuple[float, float]) -> tuple[float, float]:
    return (size / rate / share[1], size / rate / share[0])


def speed(job: Job) -> Speed | None:
    """How long a step takes; None where the card's speed or a link that matters is unknown."""
    if job.gpu is None or not job.gpu.tflops:
        return None
    moved = traffic(job)
    few = max(1.0, FEW_TOKENS / max(1, job.tokens))
    work = flops(job) / (job.gpu.tflops * 1e12)
    slower = GATHERING if job.stage == 3 else (1.0, 1.0)
    compute = (work / MFU[1] * slower[0], work * few / MFU[0] * slower[1])
    low = high = 0.0
    for size, joint in ((moved.wire, job.intra), (moved.across, job.inter)):
        if not size or (joint is job.intra and job.ranks_per_node == 1):
            continue
        if joint is None:
            return None
        fast, slow = _seconds(size, joint.rate, LINK_SHARE)
        low, high = max(low, fast), max(high, slow)
    communication = (low, high)
    offload = _offload_seconds(job, moved)
    hidden = _hidden(job, compute, communication)
    exposed_low = max(0.0, low - hidden[1]) + offload[0]
    exposed_high = max(0.0, high - hidden[0]) + offload[1]
    step = (compute[0] + exposed_low, compute[1] + exposed_high)
    tokens = job.tokens * job.accumulation * job.gpus
    shares = sorted((exposed_low / (compute[1] + exposed_low), exposed_high / (compute[0] + exposed_high)))
    return Speed(
        step, compute, communication, offload, (shares[0], shares[1]), (tokens / step[1], tokens / step[0])
    )


def _hidden(
    job: Job, compute: tuple[float, float], communication: tuple[float, float]
) -> tuple[float, float]:
    """Seconds of communication that computing may hide, (pessimist's, optimist's).

    Without overlap_comm reductions run on the computing stream, and stage 0 reduces after the backward
    pass; the gather of updated weights after the step of stages 1 and 2 is never hidden, and stage 1 can
    hide its reduction behind the last backward pass only.
    """
    if job.stage == 0 or not job.overlap_comm:
        return 0.0, 0.0
    if job.stage == 3:
        return 0.4 * compute[0], 0.8 * compute[1]
    backward = 2 / 3 / (job.accumulation if job.stage == 1 else 1)
    reduces = 1.0 - 1.0 / (3.0 if job.stage == 1 else 2.0 * job.accumulation + 1.0)
    return (
        min(0.4 * compute[0] * backward, communication[0] * reduces),
        min(0.8 * compute[1] * backward, communication[1] * reduces),
    )


def _offload_seconds(job: Job, moved: Traffic) -> tuple[float, float]:
    """Seconds that offloading adds: transfers over the host link, the optimizer on the CPU, the NVMe."""
    low = high = 0.0
    if moved.host:
        rate = (job.gpu.host_rate if job.gpu is not None else None) or 24e9
        low, high = moved.host / rate * 0.3, moved.host / rate * 2.0  # hidden in part; host links are shared
    if job.offload_optimizer in (CPU, NVME) and job.stage:
        share = job.trained / job.nodes / 1e9
        low, high = low + CPU_STEP[0] * share, high + CPU_STEP[1] * share
    if moved.disk:
        low, high = low + moved.disk / NVME_RATE[1], high + moved.disk / NVME_RATE[0]
    return low, high
