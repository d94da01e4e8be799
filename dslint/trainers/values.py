"""The values that HF Trainer and accelerate put where a config says "auto", from a run's arguments.

Source: transformers 5.24 integrations/deepspeed.py, HfTrainerDeepSpeedConfig.trainer_config_process and
trainer_config_finalize; accelerate 1.15 utils/dataclasses.py, DeepSpeedPlugin.__post_init__.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dslint.document import Path, dotted
from dslint.expression import UNKNOWN
from dslint.launch import Launch
from dslint.settings import Target
from dslint.trainers import HF_LIKE, STABLE_PLUGIN


@dataclass(frozen=True, slots=True)
class Compared:
    """A key that HF Trainer compares with its arguments where the config gives a value.

    `arguments` are those that the other side is made of, first the one that people change first.
    """

    path: Path
    arguments: tuple[str, ...]


COMPARED = tuple(
    Compared(tuple(path.split(".")), arguments)
    for path, arguments in {
        "train_micro_batch_size_per_gpu": ("per_device_train_batch_size",),
        "gradient_accumulation_steps": ("gradient_accumulation_steps",),
        "train_batch_size": ("per_device_train_batch_size", "gradient_accumulation_steps"),
        "gradient_clipping": ("max_grad_norm",),
        "optimizer.params.lr": ("learning_rate",),
        "optimizer.params.betas": ("adam_beta1", "adam_beta2"),
        "optimizer.params.eps": ("adam_epsilon",),
        "optimizer.params.weight_decay": ("weight_decay",),
        "scheduler.params.warmup_max_lr": ("learning_rate",),
        "scheduler.params.total_num_steps": ("max_steps",),
        "scheduler.params.warmup_num_steps": ("warmup_steps", "warmup_ratio", "max_steps"),
        "fp16.enabled": ("fp16", "fp16_full_eval"),
        "bf16.enabled": ("bf16", "bf16_full_eval"),
    }.items()
)
"""All thirteen, in the order in which they are compared."""

Get = Callable[[str], Any]


def computed(path: Path, get: Get, processes: int | None) -> Any:
    """What HF Trainer computes for one of the compared keys from its arguments; UNKNOWN where one is unknown.

    `get` gives an argument by its name, `processes` is the world size.
    """
    name = dotted(path)
    plain = {
        "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
        "gradient_accumulation_steps": "gradient_accumulation_steps",
        "gradient_clipping": "max_grad_norm",
        "optimizer.params.lr": "learning_rate",
        "optimizer.params.eps": "adam_epsilon",
        "optimizer.params.weight_decay": "weight_decay",
        "scheduler.params.warmup_max_lr": "learning_rate",
    }
    if name in plain:
        return get(plain[name])
    if name == "train_batch_size":
        micro, steps = get("per_device_train_batch_size"), get("gradient_accumulation_steps")
        if processes is None or not _whole(micro) or not _whole(steps):
            return UNKNOWN
        return processes * micro * steps
    if name == "optimizer.params.betas":
        betas = [get("adam_beta1"), get("adam_beta2")]
        return UNKNOWN if UNKNOWN in betas else betas
    if name in ("fp16.enabled", "bf16.enabled"):
        return _either(get(path[0]), get(f"{path[0]}_full_eval"))  # type: ignore[arg-type]
    if name == "scheduler.params.total_num_steps":
        steps = get("max_steps")
        return steps if _whole(steps) and steps > 0 else UNKNOWN
    if name == "scheduler.params.warmup_num_steps":
        return _warmup_steps(get)
    return UNKNOWN


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _either(one: Any, other: Any) -> Any:
    if one is True or other is True:
        return True
    return UNKNOWN if one is UNKNOWN or other is UNKNOWN else bool(one or other)


def _warmup_steps(get: Get) -> Any:
    steps, ratio, total = get("warmup_steps"), get("warmup_ratio"), get("max_steps")
    if isinstance(steps, (int, float)) and not isinstance(steps, bool) and steps >= 1:
        return int(steps)
    share = steps if steps not in (0, None) else ratio
    if UNKNOWN in (steps, share):
        return UNKNOWN
    if share in (0, None):
        return 1
    if _whole(total) and total > 0 and isinstance(share, float):
        return max(1, math.ceil(total * share))
    return UNKNOWN


def filled(path: Path, target: Target) -> Any:
    """The value that ends up where the file says "auto", as far as the run is known; else UNKNOWN.

    The same for fp16.enabled and bf16.enabled where the file has no such section.
    """
    launch, load, name = target.launch, target.workload, dotted(path)
    if load is not None and load.shape is not None and name in HIDDEN:
        return HIDDEN[name](load.shape.hidden)
    if launch is not None and name in STABLE_PLUGIN:
        return _plugin(STABLE_PLUGIN[name], launch)
    if target.trainer in HF_LIKE:
        return computed(path, lambda argument: _argument(argument, target), target.gpus)
    if launch is not None and path in (("fp16", "enabled"), ("bf16", "enabled")):
        return precision(str(path[0]), launch)
    return UNKNOWN


HIDDEN: dict[str, Callable[[int], int]] = {
    "zero_optimization.reduce_bucket_size": lambda hidden: hidden * hidden,
    "zero_optimization.stage3_prefetch_bucket_size": lambda hidden: int(0.9 * hidden * hidden),
    "zero_optimization.stage3_param_persistence_threshold": lambda hidden: 10 * hidden,
}
"""Keys that HF Trainer and accelerate fill from the model's hidden size -> the formula."""


def _argument(name: str, target: Target) -> Any:
    """An argument of the run: as the launch gives it, else as the user says."""
    value = target.launch.value(name) if target.launch is not None else UNKNOWN
    if value is UNKNOWN and target.workload is not None:
        said = {
            "per_device_train_batch_size": target.workload.micro_batch,
            "gradient_accumulation_steps": target.workload.accumulation,
        }
        if said.get(name) is not None:
            return said[name]
    return value


def _plugin(setting: tuple[str, Any], launch: Launch) -> Any:
    """A setting of accelerate's DeepSpeedPlugin: of the launcher, else its default.

    Under accelerate launch without a config file at hand the default one in the home directory may set it.
    """
    option, default = setting
    if option in launch.launcher:
        value = launch.launcher[option].value
        return (str(value).lower() == "true") if option == "zero3_save_16bit_model" else value
    return UNKNOWN if launch.accelerate and "config_file" not in launch.launcher else default


def precision(section: str, launch: Launch) -> Any:
    """Whether accelerate's mixed_precision turns fp16 or bf16 on."""
    chosen = launch.launcher.get("mixed_precision")
    if chosen is None or not isinstance(chosen.value, str):
        return UNKNOWN
    return chosen.value.lower() in (("fp16",) if section == "fp16" else ("bf16", "fp8"))
