"""What the user says about the run beside the config: the model, its batches, the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dslint.errors import UsageError
from dslint.memory.arguments import KEYS
from dslint.memory.hardware import Gpu, Link, card, gpu, link, size
from dslint.memory.models import model
from dslint.memory.shapes import EXPERT, Shape

T = TypeVar("T")

METHODS = ("full", "lora", "qlora")
ATTENTION = ("flash", "eager")
LORA_RANK = 16
QUANTIZED_BYTES = 0.52
"""Bytes of a parameter in 4-bit NormalFloat with double quantization: 4.127 bits."""


def lora_words(shape: Shape) -> str:
    """What is assumed of LoRA where nothing says which parameters train."""
    but = " but the experts" if any(t.role == EXPERT for t in shape.tensors) else ""
    return f"LoRA of rank {LORA_RANK} on every linear layer of the blocks{but} (--trainable-params)"


@dataclass(frozen=True, slots=True)
class Workload:
    """What is known of a run; None: not said. Memory in bytes."""

    shape: Shape | None = None
    seq_len: int | None = None
    micro_batch: int | None = None
    accumulation: int | None = None
    method: str | None = None
    trainable: int | None = None
    gpu: Gpu | None = None
    gpus_per_node: int | None = None
    interconnect: Link | None = None
    host_memory: float | None = None
    checkpointing: bool | None = None
    attention: str | None = None
    fused_loss: bool = False
    zero_init: bool = True

    @property
    def judged(self) -> bool:
        """Whether enough is said for rules about memory: the model and the card."""
        return self.shape is not None and self.gpu is not None


def workload(said: Mapping[str, Any]) -> Workload | None:
    """The workload of settings or flags by their names in KEYS; None when they say nothing about it.

    Raises UsageError for a name or an amount that means nothing.
    """
    given = {key: said.get(key) for key in KEYS if said.get(key) not in (None, False)}
    if not given:
        return None
    card_said = given.get("gpu_type"), given.get("gpu_memory")
    found: Gpu | None = None
    if card_said[0] is not None:
        found = _made(given, "gpu_type", gpu)
        if card_said[1] is not None:
            found = replace(found, usable=_made(given, "gpu_memory", card).usable)
    elif card_said[1] is not None:
        found = _made(given, "gpu_memory", card)
    checkpointing = given.get("checkpointing")
    return Workload(
        shape=_made(given, "model", model) if "model" in given else None,
        seq_len=_whole(given, "seq_len"),
        micro_batch=_whole(given, "micro_batch"),
        accumulation=_whole(given, "gradient_accumulation"),
        method=_one_of(given, "method", METHODS),
        trainable=_whole(given, "trainable_params", 10**13),
        gpu=found,
        gpus_per_node=_whole(given, "gpus_per_node"),
        interconnect=_made(given, "interconnect", link) if "interconnect" in given else None,
        host_memory=_made(given, "host_memory", size) if "host_memory" in given else None,
        checkpointing=None if checkpointing is None else checkpointing in ("on", True),
        attention=_one_of(given, "attention", ATTENTION),
        fused_loss=bool(given.get("fused_loss")),
        zero_init=not given.get("no_zero_init"),
    )


def _made(said: Mapping[str, Any], key: str, make: Callable[[str], T]) -> T:
    """What a flag means; an error names the flag."""
    try:
        return make(str(said[key]))
    except UsageError as error:
        raise UsageError(f"{_flag(key)}: {error}") from None


def _whole(said: Mapping[str, Any], key: str, most: int = 10**9) -> int | None:
    value = said.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        raise UsageError(f"{_flag(key)}: {value!r} is not a whole number above zero")
    return value


def _one_of(said: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str | None:
    value = said.get(key)
    if value is not None and value not in choices:
        raise UsageError(f"{_flag(key)}: {value!r} is not one of {', '.join(choices)}")
    return value


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")
