"""What DeepSpeed calls a key it does not know: former names, and names taken from other tools.

Only names that no spelling rule finds: the nearest known name and the same name elsewhere are looked up
in the schema (see :mod:`dslint.suggest`).
"""

from __future__ import annotations

from dslint.document import Path, dotted
from dslint.values import Schema, schema_at

RENAMED: dict[str, tuple[str, str]] = {
    "aio.thread_count": ("aio.intra_op_parallelism", "its name since 0.16.4"),
    "gradient_accumulation_dtype": ("data_types.grad_accum_dtype", ""),
    "zero3_save_16bit_model": (
        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        "this is accelerate's name for it",
    ),
    "zero_stage": ("zero_optimization.stage", "this is accelerate's name for it"),
    "tensor_parallel_size": ("tensor_parallel.autotp_size", ""),
    "tensor_parallel.enabled": ("tensor_parallel.autotp_size", "above 1 turns it on"),
    "tensor_parallel.tensor_parallel_degree": ("tensor_parallel.autotp_size", ""),
    "micro_batch_per_gpu": ("train_micro_batch_size_per_gpu", ""),
    "micro_batch_size": ("train_micro_batch_size_per_gpu", ""),
    "checkpoint.tag_validation_mode": ("checkpoint.tag_validation", "with Ignore, Warn or Fail"),
    "checkpoint.tag_validation_enabled": ("checkpoint.tag_validation", "with Ignore, Warn or Fail"),
    "fp16.dynamic_loss_scale": ("fp16.loss_scale", "0 makes it dynamic"),
    "fp16.loss_scale_power": ("fp16.initial_scale_power", ""),
    "zero_optimization.cpu_offload_params": ("zero_optimization.offload_param", "with device cpu"),
    "zero_optimization.cpu_offload_pin_memory": ("zero_optimization.offload_optimizer.pin_memory", ""),
    "zero_optimization.infinity_offload_params": ("zero_optimization.offload_param", ""),
    "zero_optimization.infinity_offload_optimizer": ("zero_optimization.offload_optimizer", ""),
    "zero_optimization.find_unused_parameters": (
        "zero_optimization.ignore_unused_parameters",
        "which has the opposite sense",
    ),
}
"""Path as people write it -> path in DeepSpeed, and what more there is to say."""

PARAMS = ("parameters", "param", "args", "kwargs", "arguments", "config", "hyperparameters", "settings")
"""What people call `params` of optimizer and scheduler."""

FLAGS = {
    "cpu_offload": '"offload_optimizer": {"device": "cpu"}',
    "cpu_offload_param": '"offload_param": {"device": "cpu"}',
    "cpu_offload_use_pin_memory": '"pin_memory": true within offload_optimizer or offload_param',
}
"""Deprecated switches whose replacement is a section -> what to write where they are on."""


def new_name(path: Path, schema: Schema, moved: str | None = None) -> Path | None:
    """Where DeepSpeed reads an unknown key: `moved`, or what RENAMED says, if the release knows it."""
    target = moved or RENAMED.get(dotted(path), ("", ""))[0]
    keys = tuple(target.split("."))
    return keys if target and schema_at(schema, keys) else None


def renamed(path: Path, schema: Schema) -> str | None:
    """How to write a key instead, in words; None where the release of `schema` knows nothing better."""
    target, note = RENAMED.get(dotted(path), ("", ""))
    if not target or not schema_at(schema, tuple(target.split("."))):
        return None
    return f"write it as {target}" + (f" ({note})" if note else "")
