"""From a config and a workload to a job: what is given, what follows, what has to be assumed."""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.errors import UsageError
from dslint.expression import UNKNOWN
from dslint.facts.batch import Batch, resolve
from dslint.memory.hardware import Link, link
from dslint.memory.job import CPU, MOMENTS, NONE, NVME, Job, loss_bytes
from dslint.memory.workload import LORA_RANK, QUANTIZED_BYTES, Workload, lora_words
from dslint.trainers import HF_LIKE

ZERO = "zero_optimization"
FUSED_LOGIT_BYTES = 0.5
"""A fused cross entropy (Liger, Cut Cross-Entropy) works on slices of the logits."""
LEAST_SEQUENCE = 1
_DTYPES = {"fp32": 4, "float32": 4, "float": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "half": 2, "float16": 2}


class Reader:
    """Reads effective values of a config and notes what had to be assumed."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.assumed: list[str] = []
        self.unknown: set[str] = set()

    def value(self, path: str, default: Any) -> Any:
        """The effective value at a dotted path, or the default where nobody knows it."""
        value = self.config.value(tuple(path.split(".")))
        if value is UNKNOWN or value is None:
            if value is UNKNOWN:
                self.unknown.add(path)
            return default
        return value

    def number(self, path: str, default: int) -> int:
        """A whole number of at least zero, or the default."""
        value = self.value(path, default)
        return int(value) if isinstance(value, (int, float)) and 0 <= value < 1e15 else default

    def assume(self, words: str) -> None:
        """Notes an assumption in words."""
        self.assumed.append(words)


def job_of(config: Config, load: Workload, *, gpus: int | None = None, least: bool = False) -> Job:
    """The job of a config under a workload.

    `least`: where something is not said, take what needs the least memory instead of what is usual, so
    that "cannot fit" holds whatever the user has in mind. Raises UsageError without a model.
    """
    if load.shape is None:
        raise UsageError("an estimate needs the model: --model NAME, a config.json, or a size such as 7B")
    shape, read = load.shape, Reader(config)
    target = config.target
    ranks = gpus or target.gpus
    if ranks is None:
        ranks = 1
        read.assume("one GPU (--gpus says how many)")
    hf = target.trainer in HF_LIKE or target.trainer == "accelerate"
    precision, autocast = _precision(read, load)
    stage = read.number(f"{ZERO}.stage", 2)
    if f"{ZERO}.stage" in read.unknown:
        read.assume("ZeRO stage 2, which accelerate fills in by default")
    micro, accumulation = _batch(config, read, load, ranks, least)
    split = _sequence_parallel(config, ranks)
    checkpointing = load.checkpointing
    if checkpointing is None:
        checkpointing = True
        read.assume("activation checkpointing on (--checkpointing off)")
    attention = load.attention
    if attention is None:
        attention = "flash"
        read.assume("attention without stored scores: FlashAttention or SDPA (--attention eager)")
    seq_len = load.seq_len
    if seq_len is None:
        seq_len = LEAST_SEQUENCE if least else min(2048, shape.positions or 2048)
        read.assume(f"sequences of {seq_len} tokens (--seq-len)")
    method = load.method or "full"
    if load.method is None:
        read.assume("all weights train (--method lora or qlora)")
    trainable = _trainable(read, load, method)
    h = shape.hidden
    hf_auto = {
        "reduce_bucket_size": h * h,
        "stage3_prefetch_bucket_size": int(0.9 * h * h),
        "stage3_param_persistence_threshold": 10 * h,
    }
    optimizer = str(read.value("optimizer.type", "adamw")).lower()
    if not config.has(("optimizer", "type")):
        read.assume("AdamW with two 32-bit moments")
    elif optimizer not in MOMENTS:
        read.assume(f"{optimizer} keeps two moments, as AdamW does")
    moments = MOMENTS.get(optimizer, 2.0)
    if optimizer == "sgd" and read.value("optimizer.params.momentum", 0):
        moments = 1.0
    logit_bytes = (
        FUSED_LOGIT_BYTES if load.fused_loss or least else loss_bytes(shape, precision, autocast, not hf)
    )
    if not load.fused_loss and not least:
        read.assume("an unfused cross entropy (--fused-loss)")
    half = "bf16" if precision == "bf16" else "fp16"
    master = 2 if read.value(f"{half}.{half}_master_weights_and_grads", False) is True else 4
    states = 2 if read.value("bf16.bf16_optimizer_states", False) is True else 4
    accumulate = _DTYPES.get(str(read.value("data_types.grad_accum_dtype", "")).lower(), 0)
    gpu = load.gpu
    intra = link(gpu.link) if gpu is not None and gpu.link else None
    inter = load.interconnect
    per_node = load.gpus_per_node or 8
    if load.gpus_per_node is None and ranks > 8:
        read.assume("8 GPUs a node (--gpus-per-node)")
    if inter is not None and not inter.network and load.gpus_per_node is None:
        intra, inter = inter, None
    if ranks > per_node and inter is None:
        inter = link("ib200x8")
        read.assume("eight ports of 200 Gbit/s InfiniBand a node (--interconnect)")
    notes = [*shape.notes, *read.assumed, *_not_modelled(config)]
    return Job(
        shape=shape,
        gpus=ranks,
        stage=stage,
        precision=precision,
        autocast=autocast,
        offload_optimizer=_device(read, "offload_optimizer"),
        offload_param=_device(read, "offload_param") if stage == 3 else NONE,
        pin_memory=bool(
            read.value(f"{ZERO}.offload_optimizer.pin_memory", False)
            or read.value(f"{ZERO}.offload_param.pin_memory", False)
        ),
        optimizer=optimizer,
        moments=moments,
        master_bytes=master,
        state_bytes=states,
        accumulate_bytes=master if master == 2 else accumulate,
        accumulation=accumulation,
        reduce_bucket=read.number(f"{ZERO}.reduce_bucket_size", hf_auto["reduce_bucket_size"]),
        overlap_comm=read.value(f"{ZERO}.overlap_comm", stage == 3) is True,
        prefetch_bucket=read.number(
            f"{ZERO}.stage3_prefetch_bucket_size", hf_auto["stage3_prefetch_bucket_size"]
        ),
        persistence=read.number(
            f"{ZERO}.stage3_param_persistence_threshold", hf_auto["stage3_param_persistence_threshold"]
        ),
        max_live=read.number(f"{ZERO}.stage3_max_live_parameters", 1_000_000_000),
        max_reuse=read.number(f"{ZERO}.stage3_max_reuse_distance", 1_000_000_000),
        sub_group=max(1, read.number(f"{ZERO}.sub_group_size", 1_000_000_000)),
        multi_rank_allreduce=read.value(
            f"{ZERO}.use_multi_rank_bucket_allreduce", target.release_number >= (0, 12, 4)
        )
        is True,
        hpz=max(1, read.number(f"{ZERO}.zero_hpz_partition_size", 1)),
        mics=max(0, int(read.value(f"{ZERO}.mics_shard_size", -1))) if stage == 3 else 0,
        quantized_weights=read.value(f"{ZERO}.zero_quantized_weights", False) is True,
        quantized_gradients=read.value(f"{ZERO}.zero_quantized_gradients", False) is True,
        nvme_buffers=read.number(f"{ZERO}.offload_optimizer.buffer_count", 4),
        nvme_param_buffers=read.number(f"{ZERO}.offload_param.buffer_count", 5),
        nvme_buffer_size=read.number(f"{ZERO}.offload_param.buffer_size", 100_000_000),
        nvme_max_in_cpu=read.number(f"{ZERO}.offload_param.max_in_cpu", 1_000_000_000),
        seq_len=max(1, seq_len // split),
        micro_batch=micro,
        checkpointing=checkpointing,
        eager=attention == "eager",
        logit_bytes=logit_bytes,
        method=method,
        trainable=trainable,
        frozen_bytes=QUANTIZED_BYTES
        if method == "qlora"
        else (2.0 if autocast else float(_bytes(precision))),
        zero_init=load.zero_init,
        gpu=gpu,
        gpus_per_node=per_node,
        host_memory=load.host_memory,
        intra=intra,
        inter=inter,
        trainer=target.trainer,
        release=target.release_number,
        assumptions=tuple(notes),
    )


def _bytes(precision: str) -> int:
    return 4 if precision == "fp32" else 2


def _precision(read: Reader, load: Workload) -> tuple[str, bool]:
    """The type the model computes in, and whether under torch_autocast."""
    fp16, bf16 = read.value("fp16.enabled", None), read.value("bf16.enabled", None)
    if fp16 is True or bf16 is True:
        return ("fp16" if fp16 is True else "bf16"), False
    if read.value("torch_autocast.enabled", False) is True:
        return "fp32", True
    if "fp16.enabled" in read.unknown or "bf16.enabled" in read.unknown:
        if load.gpu is not None and load.gpu.bf16 is False:
            read.assume("fp16, for the card has no bf16 (the trainer decides)")
            return "fp16", False
        read.assume("bf16 (the trainer decides)")
        return "bf16", False
    return "fp32", False


def _batch(config: Config, read: Reader, load: Workload, ranks: int, least: bool) -> tuple[int, int]:
    """Micro batch and accumulation: of the config, else of the flags, else 1."""
    values: list[int | None] = []
    for key in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"):
        found = config.value((key,)) if config.has((key,)) else None
        whole = isinstance(found, int) and not isinstance(found, bool) and 0 < found < 10**9
        values.append(found if whole else None)
    train, micro, steps = values
    if micro is None:
        micro = load.micro_batch
    if steps is None:
        steps = load.accumulation
    given = micro is not None
    resolved = resolve(Batch(train, micro, steps), ranks)
    micro = micro or (resolved.micro if train is not None and resolved.micro else None)
    if micro is None:
        micro = 1
        read.assume("a micro batch of 1 a GPU (--micro-batch)")
    elif not given and train is not None and steps is None and least:
        micro = 1
    steps = steps or (resolved.steps if resolved.steps else None)
    if not config.has(("gradient_accumulation_steps",)) and load.accumulation is None and train is None:
        read.assume("no gradient accumulation (--gradient-accumulation)")
    return max(1, int(micro)), max(1, int(steps or 1))


def _sequence_parallel(config: Config, ranks: int) -> int:
    """Over how many ranks each sequence is split."""
    size = config.written(("sequence_parallel_size",))
    return size if isinstance(size, int) and not isinstance(size, bool) and 1 < size <= ranks else 1


def _trainable(read: Reader, load: Workload, method: str) -> int:
    assert load.shape is not None
    if load.trainable is not None:
        return load.trainable
    if method == "full":
        return 0
    read.assume(lora_words(load.shape))
    return load.shape.adapters(LORA_RANK)


def _device(read: Reader, section: str) -> str:
    device = str(read.value(f"{ZERO}.{section}.device", NONE)).lower()
    return device if device in (CPU, NVME) else NONE


def _not_modelled(config: Config) -> list[str]:
    """What the config asks for and the prediction leaves out."""
    notes = []
    size = config.written(("tensor_parallel", "autotp_size"))
    if isinstance(size, int) and size > 1:
        notes.append("tensor parallelism (autotp_size) is not modelled: every rank counts as data-parallel")
    if isinstance(config.written(("compression_training",)), dict):
        notes.append("compression_training is not modelled")
    return notes


def default_link(job: Job) -> Link | None:
    """The link that the ranks of a job exchange data on: between nodes where there are several."""
    return job.inter if job.nodes > 1 else job.intra
