"""Model states: weights, gradients, master weights and optimizer states a rank holds, in bytes.

Counted on live tensors of DeepSpeed 0.19.8 on CPU ranks (tests/test_memory_live.py). Letters: P
parameters, T trainable ones, F frozen ones, N ranks, e bytes of the training type.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslint.memory.job import CPU, NONE, NVME, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Bytes of one rank. Each: on the GPU; `host_*`: in host memory; `nvme`: on its disk.

    `persistent`: parameters that stage 3 keeps gathered besides their partitions; `secondary`: hpZ's
    second partition; `accumulated`: gradients kept from one micro step to the next; `fresh`: gradients
    that the last backward pass adds; `step_gradients`: those left when the step begins; `copies`: what the
    step needs besides, under offload of stages 1 and 2 a staging buffer that stays.
    """

    weights: float
    persistent: float = 0.0
    secondary: float = 0.0
    master: float = 0.0
    moments: float = 0.0
    accumulated: float = 0.0
    fresh: float = 0.0
    step_gradients: float = 0.0
    copies: float = 0.0
    host_weights: float = 0.0
    host_master: float = 0.0
    host_moments: float = 0.0
    host_gradients: float = 0.0
    host_buffers: float = 0.0
    nvme: float = 0.0


def states(job: Job) -> States:
    """The model states of a rank."""
    if job.plain:
        return _plain(job)
    if job.stage == 3:
        return _stage_3(job)
    return _stage_0(job) if job.stage == 0 and not job.bf16_optimizer else _stages_1_2(job)


def frozen(job: Job) -> float:
    """Bytes of frozen weights. Quantization takes the matrices of the blocks and leaves embeddings, head and
    norms in 16 bits."""
    if job.frozen_bytes >= 2 or not job.frozen:
        return job.frozen * job.frozen_bytes
    matrices = job.shape.matrices
    return matrices * job.frozen_bytes + (job.frozen - matrices) * 2.0


def _whole(job: Job, size: float) -> dict[str, float]:
    """Gradients that every rank keeps whole: from the first micro step on, or of the last alone."""
    many = job.accumulation > 1
    return {"accumulated": size if many else 0.0, "fresh": 0.0 if many else size}


def _plain(job: Job) -> States:
    """No DeepSpeed optimizer: weights, gradients and moments in the type the parameters have."""
    t, size = job.trained, job.trainable_bytes or job.size
    return States(
        weights=frozen(job) + size * t,
        moments=job.moments * size * t,
        step_gradients=size * t,
        copies=size * t,  # torch's foreach AdamW holds the square roots of all second moments at once
        **_whole(job, size * t),
    )


def _stage_0(job: Job) -> States:
    t, e = job.trained, job.size
    wide = 0.0 if job.precision == "fp32" else 4.0 * t
    return States(
        weights=frozen(job) + e * t,
        master=wide,
        moments=job.state_per_parameter * t,
        step_gradients=e * t,
        copies=wide,
        **_whole(job, e * t),
    )


def _stages_1_2(job: Job) -> States:
    t, e, ga = job.trained, job.size, job.gradient_bytes
    share = t / job.gpus
    many = job.accumulation > 1
    weights = frozen(job) + e * t
    master, moments = job.master_bytes * share, job.state_per_parameter * share
    if job.bf16_optimizer:
        return States(
            weights=weights, master=master, moments=moments, accumulated=4 * t, fresh=e * t,
            step_gradients=(4 + e) * t,
        )  # fmt: skip
    if job.offload_optimizer != NONE:
        staging = e * job.largest_trained
        whole = _whole(job, e * t) if job.stage == 1 else {}
        return States(
            weights=weights,
            copies=staging,
            host_master=master,
            host_moments=moments,
            host_gradients=4 * share,
            host_buffers=e * share + staging + (ga * share if many and job.stage == 2 else 0),
            **whole,
        )
    copies = (job.master_bytes if ga != job.master_bytes else 0) * share + ga * share
    if job.stage == 1:
        whole = _whole(job, e * t)
        whole["fresh"] += ga * share
        return States(
            weights=weights, master=master, moments=moments, step_gradients=ga * share, copies=copies, **whole
        )
    kept = ga * share
    return States(
        weights=weights,
        master=master,
        moments=moments,
        accumulated=kept if many else 0.0,
        fresh=kept,
        step_gradients=kept,
        copies=copies,
    )


def _stage_3(job: Job) -> States:
    t, e, n, ga = job.trained, job.size, job.shards, job.gradient_bytes
    share = t / n
    weights = e * share + frozen(job) / n
    master, moments = job.master_bytes * share, job.state_per_parameter * share
    grads = ga * share
    chunk = min(job.sub_group, share)
    placed = {
        "weights": weights,
        "persistent": float(e * job.shape.small(job.persistence)) if n > 1 else 0.0,
        "secondary": e * job.shape.parameters / job.hpz if job.hpz > 1 else 0.0,
    }
    if job.offload_param != NONE:
        placed["weights"] = 0.0
        placed["host_weights" if job.offload_param == CPU else "nvme"] = weights
        if job.offload_param == NVME:
            buffers = job.nvme_param_buffers * job.nvme_buffer_size + job.nvme_max_in_cpu
            placed["host_buffers"] = float(e * buffers)
    if job.offload_optimizer == CPU:
        placed.update(host_master=master, host_moments=moments, host_gradients=grads + 4 * share)
    elif job.offload_optimizer == NVME:
        placed["host_gradients"] = grads
        placed["host_buffers"] = placed.get("host_buffers", 0.0) + 4 * job.nvme_buffers * chunk
        placed["nvme"] = placed.get("nvme", 0.0) + master + moments + 4 * share
    else:
        wide = job.master_bytes if ga != job.master_bytes else 0
        placed.update(
            master=master,
            moments=moments,
            accumulated=grads,
            step_gradients=grads,
            copies=(ga + wide) * chunk,
        )
    return States(**placed)


def bucket(job: Job) -> float:
    """Bytes of the reduction buckets that stage 3 allocates for good: one for each type it reduces in."""
    sizes = (4 + 2) if job.autocast else job.size
    return float(sizes * job.reduce_bucket)
