"""Number formats: what the model trains in and what gradients accumulate in."""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts.registry import fact

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}


@fact
def precision(config: Config) -> Any:
    """The dtype DeepSpeed casts the model to: "fp16", "bf16" or "fp32"."""
    half, brain = config.value(("fp16", "enabled")), config.value(("bf16", "enabled"))
    if half is True:
        return "fp16"
    if brain is True:
        return "bf16" if half is not UNKNOWN else UNKNOWN
    return UNKNOWN if half is UNKNOWN or brain is UNKNOWN else "fp32"


@fact
def dtype_bytes(config: Config) -> Any:
    """Bytes of one parameter or gradient element of the model."""
    kind = precision(config)
    return UNKNOWN if kind is UNKNOWN else BYTES[kind]
