"""The predictor: GPU memory of one rank by phase and item, host memory of a node, the verdict.

Bytes throughout. Phases follow a training step: init (deepspeed.initialize), forward, loss (its own
backward pass included, where the logits are largest), backward, step. Allocated is what
torch.cuda.max_memory_allocated reports, reserved what the caching allocator holds, device what
nvidia-smi shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dslint.memory import activations
from dslint.memory.hardware import GIB
from dslint.memory.job import NONE, Job
from dslint.memory.shapes import ATTENTION, EXPERT, MLP
from dslint.memory.states import States, bucket, states

PHASES = ("init", "forward", "loss", "backward", "step")

CONTEXT = 0.55 * GIB
"""What a CUDA context and its libraries take outside PyTorch's allocator (0.4 to 0.7 GiB by driver)."""
COLLECTIVES = 0.45 * GIB
"""What NCCL's buffers take on more than one GPU."""
SLACK_FIXED = 0.2 * GIB
SLACK = {"still": 1.04, "moving": 1.3, "moving, lengths vary": 2.3, "partitioned": 1.14}
"""What the caching allocator reserves for what is allocated: of what stays where it is, of what comes and
goes in every step (a simulation of the allocator over training steps gives 1.2 to 1.4 at equal lengths and
3 and more at varying ones, which it need not hold on to), and of stage 3's states, whose step copies and
buffers find the gaps of the gathering taken."""
RECOMPUTE = "recomputed layer"
MOVING = ("activations", RECOMPUTE, "logits", "gathered parameters")

FITS, TIGHT, CANNOT = "fits", "tight", "cannot-fit"
ROOM = 0.95
"""Up to this share of the card a run counts as fitting; above it, it may run out with unlucky batches."""
COMFORT = 0.9
"""Up to this share of the card a run is sure enough to fit that speed is not paid for a safer one."""
CERTAIN = 0.9
"""That a run cannot fit is certain when this share of the predicted need is more than there is."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run needs. `items`: phase -> item -> bytes on the GPU of one rank.

    `host` and `nvme` are bytes of one node; `pinned` is the part of `host` that cannot be paged out.
    """

    job: Job
    items: dict[str, dict[str, float]]
    steady: float
    host: float
    pinned: float
    nvme: float
    host_init: float
    notes: tuple[str, ...] = field(default=())

    def allocated(self, phase: str) -> float:
        """Bytes allocated at the peak of a phase."""
        return sum(self.items[phase].values())

    @property
    def peak_phase(self) -> str:
        """The phase that needs most."""
        return max(PHASES, key=self.allocated)

    @property
    def peak(self) -> float:
        """Bytes allocated at the peak."""
        return self.allocated(self.peak_phase)

    @property
    def reserved(self) -> float:
        """Bytes the caching allocator holds at the peak."""
        slack = SLACK["moving, lengths vary" if self.job.variable_lengths else "moving"]
        still = SLACK["partitioned" if self.job.stage == 3 else "still"]
        found = 0.0
        for items in self.items.values():
            moving = sum(size for item, size in items.items() if item in MOVING)
            found = max(found, (sum(items.values()) - moving) * still + moving * slack)
        return found + SLACK_FIXED

    @property
    def outside(self) -> float:
        """Bytes on the card outside the allocator."""
        return CONTEXT + (COLLECTIVES if self.job.gpus > 1 else 0.0)

    @property
    def device(self) -> float:
        """Bytes that nvidia-smi shows at the peak."""
        return self.reserved + self.outside

    @property
    def least(self) -> float:
        """Bytes below which the run certainly fails, the error of the prediction allowed for."""
        return CERTAIN * (self.peak + self.outside)

    @property
    def verdict(self) -> str | None:
        """fits, tight or cannot-fit on the card; None without a card.

        The allocator gives its fragments back before it fails, so what cannot fit is judged without them.
        """
        if self.job.gpu is None:
            return None
        usable = self.job.gpu.usable
        if self.peak + self.outside > usable or self.host_verdict == CANNOT:
            return CANNOT
        return FITS if self.device <= ROOM * usable and self.host_verdict != TIGHT else TIGHT

    @property
    def comfortable(self) -> bool:
        """Whether the run fits with room to spare."""
        return (
            self.job.gpu is not None and self.verdict == FITS and self.device <= COMFORT * self.job.gpu.usable
        )

    @property
    def host_verdict(self) -> str | None:
        """The same for the memory of a node; None where that is unknown."""
        if self.job.host_memory is None:
            return None
        if CERTAIN * self.host > self.job.host_memory:
            return CANNOT
        return FITS if self.host <= ROOM * self.job.host_memory else TIGHT

    @property
    def margin(self) -> float | None:
        """Bytes of the card left over at the peak (negative: missing); None without a card."""
        return None if self.job.gpu is None else self.job.gpu.usable - self.device


def live_parameters(job: Job) -> float:
    """Bytes of gathered parameters alive at the end of the forward pass of stage 3.

    A parameter stays gathered when it is used again within `max_reuse` elements of the trace: the
    tail of the forward pass, which the backward pass needs first, and once more when recomputed.
    """
    if job.stage != 3 or (job.gpus == 1 and job.offload_param == NONE):
        return 0.0
    shape = job.shape
    packed = min(1.0, job.frozen_bytes / 2) if job.method != "full" else 1.0  # quantized weights, as stored
    total = (shape.parameters - shape.small(job.persistence)) * packed
    tail = job.max_reuse / (3 if job.checkpointing else 2)
    ahead = min(job.prefetch_bucket, job.max_live) + shape.largest
    return float(job.size * min(total, tail + ahead))


def buckets(job: Job) -> float:
    """Bytes of reduction buffers during the backward pass."""
    e = job.size
    if job.bf16_optimizer:
        return float(4 * min(500_000_000, job.trained))
    if job.stage == 0:
        return float(e * min(500_000_000, job.trained)) if job.gpus > 1 else 0.0
    if job.stage == 3:
        return bucket(job) + e * min(job.reduce_bucket, job.trained)
    copies = 2 if job.overlap_comm else 1
    return float(e * job.reduce_bucket * copies + e * min(job.reduce_bucket, job.trained))


def layer_work(job: Job) -> float:
    """Bytes that the backward pass of the widest layer needs besides what was kept: gradients of its
    activations."""
    e = job.activation_size
    most = 0.0
    for block in job.shape.blocks:
        wide = 3 if block.mlp.startswith("gated") else 2
        work = e * (wide * block.ffn + 3 * block.hidden)
        if job.eager or block.eager_only:
            work += 6 * block.heads * job.seq_len
        most = max(most, float(work))
    unpacked = 0
    if job.method != "full" and job.frozen_bytes < 2:  # a quantized matrix is unpacked to be multiplied
        unpacked = max(t.numel for t in job.shape.tensors if t.role in (ATTENTION, MLP, EXPERT))
    return most * job.tokens + 2.0 * unpacked


def kept(job: Job) -> tuple[float, float]:
    """Bytes kept by the forward pass of all layers, and bytes of the widest layer when recomputed."""
    e = job.activation_size
    method = activations.FULL if job.method == "full" else activations.LORA
    extra = 0.0
    if method == activations.LORA:
        attention_only = job.trained < job.shape.adapters(4)
        inputs, widths, matrices = job.shape.adapted(attention_only)
        rank = job.trained / max(1.0, widths * job.shape.layers)
        extra = activations.adapters(inputs, rank, matrices, job.adapter_bytes)
    total = widest = 0.0
    for block in job.shape.blocks:
        whole = activations.per_token(block, e, job.seq_len, job.eager, method) + extra
        one = activations.checkpoint(block, e) if job.checkpointing else whole
        total += one * block.layers * job.tokens
        widest = max(widest, whole * job.tokens)
    return total, widest


def predict(job: Job) -> Estimate:
    """What a run needs."""
    s = states(job)
    offloaded = job.stage in (1, 2) and job.offload_optimizer != NONE
    fixed = {
        "weights": s.weights,
        "persistent parameters": s.persistent,
        "secondary partition": s.secondary,
        "master weights": s.master,
        "optimizer states": s.moments,
        "gradients": s.accumulated,
    }
    if job.stage == 3:
        fixed["reduce buckets"] = bucket(job)
    if offloaded:
        fixed["buffers"] = s.copies
    if job.kept_logits:
        fixed["kept logits"] = job.kept_logits * job.tokens * job.shape.vocab
    live = live_parameters(job)
    acts, widest = kept(job)
    logits = job.tokens * job.shape.vocab
    end = 2 * job.activation_size * job.shape.hidden * job.tokens  # embedding output, final norm
    items: dict[str, dict[str, float]] = {"init": _init(job, s)}
    items["forward"] = {
        **fixed,
        "gathered parameters": live,
        "activations": acts + end,
        RECOMPUTE: widest if job.checkpointing else 0.0,
    }
    items["loss"] = {
        **fixed,
        "gathered parameters": live,
        "activations": acts + end,
        "logits": job.logit_bytes * logits,
    }
    first = acts + end
    fresh_start = float(job.size * job.shape.largest) if job.method == "full" else 0.0
    start, finish = first + fresh_start, s.fresh
    grads = fresh_start if start >= finish else s.fresh
    items["backward"] = {
        **fixed,
        "gradients": s.accumulated + grads,
        "gathered parameters": live,
        "activations": first if start >= finish else 0.0,
        RECOMPUTE: (widest if job.checkpointing else 0.0) + layer_work(job),
        "reduce buckets": buckets(job),
    }
    items["step"] = {
        **fixed,
        "gradients": s.step_gradients,
        "step copies": 0.0 if offloaded else s.copies,
    }
    steady = sum(fixed.values()) - (s.accumulated if job.stage != 3 and not job.bf16_optimizer else 0.0)
    ranks = job.ranks_per_node
    host = ranks * (s.host_weights + s.host_master + s.host_moments + s.host_gradients + s.host_buffers)
    pinned = 0.0
    if job.pin_memory:
        pinned = ranks * (s.host_weights + s.host_gradients + s.host_buffers)
        if job.stage != 3:
            pinned += ranks * s.host_master
    whole = 0.0 if job.zero_init and job.stage == 3 else float(job.size * job.shape.parameters * ranks)
    return Estimate(job, items, steady, host, pinned, ranks * s.nvme, whole)


def _init(job: Job, s: States) -> dict[str, float]:
    """While deepspeed.initialize runs: weights, then the master weights beside them."""
    items = {"weights": s.weights, "persistent parameters": s.persistent, "master weights": s.master}
    if job.stage == 3:
        items["gradients"] = s.accumulated
        whole = float(job.size * job.shape.parameters)
        if not job.zero_init and job.gpus > 1 and whole + s.weights > sum(items.values()):
            return {"weights": s.weights, "whole model before partitioning": whole}
    return items
