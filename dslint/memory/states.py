"""Model states: weights, gradients, master weights and optimizer states a rank holds, in bytes.

Counted on live tensors of DeepSpeed 0.19.8 on CPU ranks (tests/test_memory_live.py). Letters: P
parameters, T trainable ones, F frozen ones, N ranks, e bytes of the training type.
"""

from __future__ import annotations

from dataclasses import dataclass

from dslint.memory.job import CPU, NONE, NVME, Job


@dataclass(frozen=True, slots=True)
class States:
    """Bytes of one rank. Each: on the GPU; `host_*`: in host memory; `nvme`: on its disk.

    `accumulated`: gradients kept from one micro step to the next; `fresh`: gradients that the last
    backward pass adds; `copies`: what the optimizer step needs besides.
    """

    weights: float
    persistent: float
    master: float
    moments: float
    accumulated: float
    fresh: float
    copies: float
    step_gradients: float
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
    return _stage_0(job) if job.stage == 0 else _stages_1_2(job)


def _frozen(job: Job) -> float:
    return job.frozen * job.frozen_bytes


def _plain(job: Job) -> States:
    """No DeepSpeed optimizer: weights, gradients and moments in the type the parameters have."""
    t, size = job.trained, job.trainable_bytes or job.size
    state = job.moments * size * t
    temporary = size * t  # torch's foreach AdamW holds the square roots of all second moments at once
    many = job.accumulation > 1
    grads = size * t
    return States(_frozen(job) + size * t, 0, 0, state, grads if many else 0, 0 if many else grads, temporary, grads)


def _stage_0(job: Job) -> States:
    t, e = job.trained, job.size
    weights = _frozen(job) + e * t
    grads = e * t
    many = job.accumulation > 1
    if job.precision == "fp32":
        return States(weights, 0, 0, 4 * job.moments * t, grads if many else 0, 0 if many else grads, 0, grads)
    return States(weights, 0, 4 * t, 4 * job.moments * t, grads if many else 0, 0 if many else grads, 4 * t, grads)


def _stages_1_2(job: Job) -> States:
    t, e, n = job.trained, job.size, job.gpus
    share = t / n
    weights = _frozen(job) + e * t
    master, moments = job.master_bytes * share, job.state_bytes * job.moments * share
    many = job.accumulation > 1
    ga = job.gradient_bytes
    if job.bf16_optimizer:
        return States(weights, 0, master, moments, 4 * t, e * t, 0, 4 * t)
    offloaded = job.offload_optimizer != NONE
    if offloaded:
        staging = e * job.shape.largest
        host = {
            "host_master": master,
            "host_moments": moments,
            "host_gradients": 4 * share,
            "host_buffers": e * share + staging + (ga * share if many else 0),
        }
        full = e * t if job.stage == 1 else 0.0
        return States(weights, 0, 0, 0, full if many else 0, 0 if many else full, staging, full, **host)
    if job.stage == 1:
        full = e * t
        return States(weights, 0, master, moments, full if many else 0, (0 if many else full) + ga * share,
                      (4 if ga != 4 else 0) * share + e * share, ga * share)  # fmt: skip
    kept = ga * share
    copies = (4 if ga != 4 else 0) * share + ga * share
    return States(weights, 0, master, moments, kept if many else 0, kept, copies, kept)


def _stage_3(job: Job) -> States:
    t, e, n = job.trained, job.size, job.gpus
    share = t / n
    ga = job.gradient_bytes
    cloned = 4 * share if job.precision == "fp32" else 0.0
    weights = e * share + _frozen(job) / n
    master, moments = job.master_bytes * share, job.state_bytes * job.moments * share
    persistent = e * job.shape.small(job.persistence) * (1 - 1 / n) if n > 1 else 0.0
    chunk = min(job.sub_group, share)
    host: dict[str, float] = {}
    if job.offload_param != NONE:
        where = "host_weights" if job.offload_param == CPU else "nvme"
        host[where] = weights
        if job.offload_param == NVME:
            host["host_buffers"] = e * (job.nvme_buffers * job.nvme_buffer_size + job.nvme_max_in_cpu)
        weights = 0.0
    if job.offload_optimizer != NONE:
        grads = ga * share
        host["host_gradients"] = grads + 4 * share
        if job.offload_optimizer == CPU:
            host.update(host_master=master, host_moments=moments)
        else:
            host["host_gradients"] = grads
            host["nvme"] = host.get("nvme", 0.0) + master + moments + 4 * share
            host["host_buffers"] = host.get("host_buffers", 0.0) + 4 * job.nvme_buffers * chunk
        return States(weights, persistent, 0, 0, 0, 0, 0, 0, **host)
    copies = (ga + (job.master_bytes if ga != job.master_bytes else 0)) * chunk
    grads = ga * share
    return States(weights + cloned, persistent, master, moments, grads, 0, copies, grads, **host)
