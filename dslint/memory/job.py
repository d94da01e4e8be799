"""What the predictor needs to know of a run: the config's part, the workload and the hardware."""

from __future__ import annotations

from dataclasses import dataclass

from dslint.memory.hardware import Gpu, Link
from dslint.memory.shapes import Shape

NONE, CPU, NVME = "none", "cpu", "nvme"
BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}

BF16_WITHOUT_ZERO = (0, 17, 6)
"""From this release on bf16 without ZeRO accumulates gradients in bf16."""

MOMENTS = {
    "adam": 2.0,
    "adamw": 2.0,
    "fusedadam": 2.0,
    "lamb": 2.0,
    "onebitadam": 3.0,
    "onebitlamb": 3.0,
    "zerooneadam": 3.0,
    "muadam": 2.0,
    "muadamw": 2.0,
    "lion": 1.0,
    "adagrad": 1.0,
    "muon": 1.0,
    "sgd": 0.0,
    "musgd": 0.0,
}
"""Optimizer type of a config, in lower case -> copies of the parameters its state holds."""


def loss_bytes(shape: Shape, precision: str, autocast: bool, outputs_kept: bool) -> float:
    """Bytes a logit needs at the peak of an unfused cross entropy.

    The loss keeps the log-probabilities; its backward pass makes two gradients of their type beside
    them: 3 x 4 bytes where they are 32-bit (Hugging Face's causal models upcast, autocast does), else
    3 x 2. A loop that holds on to the model's outputs, as one's own scripts do and HF Trainer does not,
    keeps the logits themselves as well. Measured with transformers 5.24.
    """
    own = BYTES[precision]
    wide = 4 if shape.upcast_logits or autocast or precision == "fp32" else own
    return float(3 * wide + (own if outputs_kept else 0))


@dataclass(frozen=True, slots=True)
class Job:
    """A training run. Sizes in bytes, bucket and threshold sizes in elements, as in a config.

    `trainable` counts parameters that train; `frozen_bytes` are bytes a frozen parameter takes (below
    2 for a quantized base). `accumulate_bytes`: of an accumulated gradient; `master_bytes`: of a
    master weight; `state_bytes`: of one element of optimizer state; `moments`: elements of optimizer
    state a trainable parameter. `plain`: no DeepSpeed optimizer around the user's (pure 16 bit).
    `logit_bytes`: bytes a logit needs at the peak of the loss. `seq_len` and `micro_batch` are what one
    GPU sees in one forward pass.
    """

    shape: Shape
    gpus: int
    stage: int
    precision: str = "bf16"
    autocast: bool = False
    offload_optimizer: str = NONE
    offload_param: str = NONE
    pin_memory: bool = True
    optimizer: str = "adamw"
    moments: float = 2.0
    master_bytes: int = 4
    state_bytes: int = 4
    accumulate_bytes: int = 0
    accumulation: int = 1
    reduce_bucket: int = 500_000_000
    overlap_comm: bool = False
    prefetch_bucket: int = 50_000_000
    persistence: int = 100_000
    max_live: int = 1_000_000_000
    max_reuse: int = 1_000_000_000
    sub_group: int = 1_000_000_000
    multi_rank_allreduce: bool = True
    hpz: int = 1
    quantized_weights: bool = False
    quantized_gradients: bool = False
    mics: int = 0
    nvme_buffers: int = 4
    nvme_param_buffers: int = 5
    nvme_buffer_size: int = 100_000_000
    nvme_max_in_cpu: int = 1_000_000_000
    seq_len: int = 2048
    micro_batch: int = 1
    checkpointing: bool = True
    eager: bool = False
    logit_bytes: float = 14.0
    kept_logits: float = 0.0
    method: str = "full"
    trainable: int = 0
    frozen_bytes: float = 2.0
    zero_init: bool = True
    plain: bool = False
    trainable_bytes: int = 0
    adapter_bytes: int = 2
    variable_lengths: bool = False
    gpu: Gpu | None = None
    gpus_per_node: int = 8
    host_memory: float | None = None
    intra: Link | None = None
    inter: Link | None = None
    trainer: str = "raw"
    release: tuple[int, ...] = (0, 19, 8)
    assumptions: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of an element of the type the model computes in."""
        return BYTES[self.precision]

    @property
    def activation_size(self) -> int:
        """Bytes of an element of an activation."""
        return 2 if self.autocast else self.size

    @property
    def trained(self) -> int:
        """Parameters that train."""
        return self.trainable or self.shape.parameters

    @property
    def frozen(self) -> int:
        """Parameters of the model that do not train; adapters come on top of the model."""
        if self.method in ("lora", "qlora"):
            return self.shape.parameters
        return max(0, self.shape.parameters - self.trained)

    @property
    def largest_trained(self) -> int:
        """Elements of the largest tensor that trains; of adapters, an average one."""
        if self.method == "full":
            return self.shape.largest
        matrices = 2 * self.shape.adapted()[2] * self.shape.layers
        return min(self.shape.largest, round(self.trained / max(1.0, matrices)))

    @property
    def gradient_bytes(self) -> int:
        """Bytes of an accumulated gradient."""
        return self.accumulate_bytes or self.size

    @property
    def state_per_parameter(self) -> float:
        """Bytes of optimizer state a trainable parameter.

        Muon keeps one momentum of a matrix, in the type of its gradient where it does not wait on the
        host or without ZeRO, and Adam's two 32-bit moments of embeddings, head and vectors.
        """
        if self.optimizer != "muon":
            return self.state_bytes * self.moments
        matrices = self.shape.matrices / self.shape.parameters if self.method == "full" else 1.0
        wide = self.stage == 0 or (self.stage < 3 and self.offload_optimizer != NONE)
        return matrices * (4 if wide else self.gradient_bytes) + (1 - matrices) * 8

    @property
    def shards(self) -> int:
        """Ranks that stage 3 splits states over: all, or a MiCS group."""
        return min(self.mics, self.gpus) if self.stage == 3 and self.mics > 0 else self.gpus

    @property
    def tokens(self) -> int:
        """Tokens one GPU sees in one forward pass."""
        return self.seq_len * self.micro_batch

    @property
    def nodes(self) -> int:
        """Nodes of the run."""
        return -(-self.gpus // self.gpus_per_node)

    @property
    def ranks_per_node(self) -> int:
        """GPUs of a node in use."""
        return min(self.gpus, self.gpus_per_node)

    @property
    def bf16_optimizer(self) -> bool:
        """Whether DeepSpeed wraps its BF16_Optimizer, which keeps whole fp32 gradients, around the user's:
        at stage 1, and without ZeRO in releases that knew no other wrapper for bf16."""
        return (
            (self.stage == 1 or (self.stage == 0 and self.release < BF16_WITHOUT_ZERO))
            and self.precision == "bf16"
            and self.gradient_bytes == 4
            and self.offload_optimizer == NONE
        )
