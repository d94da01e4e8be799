"""ZeRO: which optimizer DeepSpeed wraps around the one of the config, and which keys it then reads.

Source: deepspeed/runtime/engine.py, DeepSpeedEngine._do_optimizer_sanity_check and
_configure_zero_optimizer, 0.19.8.
"""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts.precision import precision
from dslint.facts.registry import Item, fact

ZERO = "zero_optimization"
FP32_NAMES = ("fp32", "float32", "float", "torch.float32")
"""How data_types.grad_accum_dtype spells 32 bits (runtime/config.py, DtypeEnum)."""

UNREAD_AT_STAGE_0 = (
    "reduce_bucket_size",
    "allgather_bucket_size",
    "overlap_comm",
    "contiguous_gradients",
    "reduce_scatter",
    "round_robin_gradients",
    "ignore_unused_parameters",
    "use_multi_rank_bucket_allreduce",
    "parameter_alignment",
)
"""Keys of stages 1 to 3 that stage 0 leaves unread; its own reduction has a fixed bucket."""


def every(*parts: Any) -> Any:
    """Whether all parts hold: False as soon as one is known not to, UNKNOWN when one is not known."""
    if any(part is False for part in parts):
        return False
    return UNKNOWN if any(part is UNKNOWN for part in parts) else True


def equals(value: Any, wanted: Any) -> Any:
    """Comparison that keeps UNKNOWN."""
    return UNKNOWN if value is UNKNOWN else bool(value == wanted)


@fact
def bf16_optimizer(config: Config) -> Any:
    """Whether the run ends up in BF16_Optimizer: stage 1, bf16, gradients summed up in fp32, no CPU offload.

    It keeps a full fp32 gradient on every rank (4 bytes a parameter, not divided by the ranks) and
    reads none of the bucket and overlap keys of zero_optimization.
    """
    accumulates = config.value(("data_types", "grad_accum_dtype"))
    device = config.value((ZERO, "offload_optimizer", "device"))
    return every(
        equals(config.value((ZERO, "stage")), 1),
        equals(precision(config), "bf16"),
        UNKNOWN if accumulates is UNKNOWN else str(accumulates) in FP32_NAMES,
        UNKNOWN if device is UNKNOWN else device != "cpu",
    )


def _changed(config: Config, names: tuple[str, ...]) -> list[str]:
    """Those of some keys of zero_optimization that the file gives with another value than the default's."""
    found = []
    for name in names:
        path = (ZERO, name)
        if config.has(path) and config.written(path) != "auto" and config.value(path) != config.default(path):
            found.append(name)
    return found


@fact
def unread_zero_keys(config: Config) -> Any:
    """In words, the changed bucket and overlap keys, which stage 0 does not read; null for none."""
    return ", ".join(_changed(config, UNREAD_AT_STAGE_0)) or None


@fact
def gradient_scaling(config: Config) -> Any:
    """Keys that scale gradients before or after their reduction, given with a value that does something."""
    found = []
    if config.value(("prescale_gradients",)) is True:
        found.append(Item(("prescale_gradients",), {"key": "prescale_gradients"}))
    factor = ("gradient_predivide_factor",)
    written = config.written(factor)
    if config.has(factor) and (isinstance(written, bool) or written != 1):
        found.append(Item(factor, {"key": "gradient_predivide_factor"}))
    return found
