"""From the file to what is trained: what a trainer fills in, and what the CPU cannot do. Pure.

The values are HF Trainer's defaults (transformers 5.24, TrainingArguments) where nothing says otherwise;
every one that was filled or replaced is named in the output.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dslint.document import Path, dotted
from dslint.expression import UNKNOWN
from dslint.trainers import adds, fills

HIDDEN: dict[str, Callable[[int], int]] = {
    "zero_optimization.reduce_bucket_size": lambda hidden: hidden * hidden,
    "zero_optimization.stage3_prefetch_bucket_size": lambda hidden: int(0.9 * hidden * hidden),
    "zero_optimization.stage3_param_persistence_threshold": lambda hidden: 10 * hidden,
}
"""What HF fills from the hidden size (integrations/deepspeed.py, trainer_config_finalize)."""

TRAINING_STEPS = 1000
"""Steps of the training that the verified ones would begin, where nothing says how many."""

ADDABLE: dict[Path, Any] = {
    ("train_micro_batch_size_per_gpu",): 1,
    ("gradient_accumulation_steps",): 1,
    ("gradient_clipping",): 0.0,
    ("bf16", "enabled"): None,
    ("fp16", "enabled"): None,
}
"""What trainers add where the file does not give it, with the value where the run does not say it (None:
then nothing is added)."""

MONITORS = ("tensorboard", "wandb", "comet", "csv_monitor")
ONE_BIT = ("onebitadam", "onebitlamb", "zerooneadam")
"""Optimizers whose compressed communication exists for CUDA only; removed in 0.19.7."""


@dataclass(frozen=True, slots=True)
class Change:
    """A value that is not the file's: a dotted path, the value (None: removed) and why; whether a trainer
    fills it, else it is replaced for this run."""

    path: str
    value: Any
    why: str
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Filled:
    """A config to train with, what was changed in it, and what waits for the model's hidden size."""

    config: dict[str, Any]
    changes: tuple[Change, ...]
    hidden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a trainer would be called with. None: its default."""

    ranks: int = 1
    micro_batch: int | None = None
    accumulation: int | None = None


def fill(
    data: dict[str, Any],
    trainer: str,
    arguments: Arguments,
    known: Callable[[Path], Any] = lambda _: UNKNOWN,
) -> Filled:
    """The config with every "auto" that this trainer fills filled.

    `known` gives the value at a path where the run's own arguments say it, else UNKNOWN.
    """
    config = copy.deepcopy(data)
    changes: list[Change] = []
    hidden: list[str] = []
    micro, steps = _batch(config, arguments, known)
    values: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
        "train_batch_size": micro * steps * arguments.ranks,
        "gradient_clipping": 1.0,
        "optimizer.params.lr": 5e-5,
        "optimizer.params.betas": [0.9, 0.999],
        "optimizer.params.eps": 1e-8,
        "optimizer.params.weight_decay": 0.0,
        "scheduler.params.warmup_min_lr": 0,
        "scheduler.params.warmup_max_lr": 5e-5,
        "scheduler.params.warmup_num_steps": 1,
        "scheduler.params.total_num_steps": TRAINING_STEPS,
        "fp16.enabled": get(config, ("bf16", "enabled")) is False,
        "bf16.enabled": get(config, ("fp16", "enabled")) is not True,
        "zero_optimization.stage": 2,
        "zero_optimization.offload_optimizer.device": "none",
        "zero_optimization.offload_param.device": "none",
        "zero_optimization.offload_optimizer.nvme_path": "none",
        "zero_optimization.offload_param.nvme_path": "none",
        "zero_optimization.stage3_gather_16bit_weights_on_model_save": False,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": float("inf"),
    }
    for path in leaves(config):
        if get(config, path) != "auto":
            continue
        source = fills(trainer, path)
        name = dotted(path)
        if source is None:
            continue
        value = known(path)
        if value is UNKNOWN and name in HIDDEN:
            hidden.append(name)
        elif value is not UNKNOWN or name in values:
            put(config, path, values[name] if value is UNKNOWN else value)
            changes.append(Change(name, get(config, path), source, filled=True))
    for path, usual in ADDABLE.items():
        source = adds(trainer, path, lambda place: get(config, place) is not None)
        if source is None or get(config, path) is not None:
            continue
        said = known(path)
        value = usual if said is UNKNOWN else said
        if value is not None and value is not False:
            if len(path) > 1:
                config[str(path[0])] = {}
            put(config, path, value)
            changes.append(Change(dotted(path), value, source, filled=True))
    return Filled(config, tuple(changes), tuple(hidden))


def _batch(config: dict[str, Any], arguments: Arguments, known: Callable[[Path], Any]) -> tuple[int, int]:
    """Micro batch and accumulation of the trainer's arguments. They have to agree with what the file says
    itself, train_batch_size included."""
    train, micro, steps = (
        next((v for v in (config.get(key), known((key,))) if _counts(v)), None)
        for key in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    )
    if train is not None and steps is None and micro is not None:
        steps = train // (micro * arguments.ranks)
    steps = steps or arguments.accumulation or 1
    if train is not None and micro is None:
        micro = train // (steps * arguments.ranks)
    return micro or arguments.micro_batch or 1, steps


def _counts(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def fill_hidden(config: dict[str, Any], names: tuple[str, ...], hidden: int, trainer: str) -> None:
    """Fills, in place, what waits for the hidden size. HF leaves the keys of stage 3 alone below it."""
    zero = config.get("zero_optimization")
    stage = zero.get("stage", 0) if isinstance(zero, dict) else 0
    for name in names:
        if stage == 3 or "stage3_" not in name or trainer == "accelerate":
            put(config, tuple(name.split(".")), HIDDEN[name](hidden))


def quiet(config: dict[str, Any]) -> tuple[dict[str, Any], list[Change]]:
    """The config without what would write into the user's dashboards."""
    out = copy.deepcopy(config)
    changes = []
    for name in MONITORS:
        if isinstance(out.get(name), dict) and out[name].get("enabled", False) is not False:
            del out[name]
            changes.append(Change(name, None, "left out: a verification is not an experiment to log"))
    return out, changes


def for_cpu(config: dict[str, Any], release: tuple[int, ...]) -> tuple[dict[str, Any], list[Change]]:
    """The config without what exists for CUDA only, and what stands in for it in this release. What stands
    in fails where the original does: RAdam has Lamb's states, and ZeRO has tested neither."""
    stand_ins = {"lamb": "RAdam", **(dict.fromkeys(ONE_BIT, "AdamW") if release < (0, 19, 7) else {})}
    if get(config, ("zero_optimization", "offload_optimizer", "device")) not in ("cpu", "nvme"):
        stand_ins["lion"] = "AdamW"  # offloaded it is DeepSpeedCPULion
    elif config.get("zero_allow_untested_optimizer") is True:
        del stand_ins["lamb"]  # for the CPU there is none: it has to fail
    out = copy.deepcopy(config)
    changes: list[Change] = []
    optimizer = out.get("optimizer")
    other = stand_ins.get(str(optimizer.get("type", "")).lower()) if isinstance(optimizer, dict) else None
    if isinstance(optimizer, dict) and other is not None:
        params = optimizer.get("params")
        kept = {k: v for k, v in (params if isinstance(params, dict) else {}).items()
                if k in ("lr", "betas", "eps", "weight_decay")}  # fmt: skip
        changes.append(Change("optimizer.type", other, f"{optimizer['type']} exists for CUDA only"))
        out["optimizer"] = {**optimizer, "type": other, "params": kept}
    zero = out.get("zero_optimization")
    if isinstance(zero, dict):
        for section in ("offload_optimizer", "offload_param"):
            part = zero.get(section)
            if not isinstance(part, dict) or part.get("device") != "nvme":
                continue
            if zero.get("stage") == 3 and not part.get("nvme_path"):
                continue  # it has to fail
            zero[section] = {**{k: v for k, v in part.items() if k != "nvme_path"}, "device": "cpu"}
            why = "NVMe offload needs async_io, libaio"
            changes.append(Change(f"zero_optimization.{section}.device", "cpu", why))
        for key in (
            "zero_quantized_weights",
            "zero_quantized_gradients",
            "zero_quantized_nontrainable_weights",
        ):
            if zero.get(key) is True:
                zero[key] = False
                changes.append(
                    Change(f"zero_optimization.{key}", False, "the quantizer exists for CUDA only")
                )
    compile_ = out.get("compile")
    if isinstance(compile_, dict) and compile_.get("deepcompile") is True:
        compile_["deepcompile"] = False
        changes.append(Change("compile.deepcompile", False, "DeepCompile exists for CUDA only"))
    return out, changes


def leaves(value: Any, path: Path = ()) -> list[Path]:
    """The paths of everything that is not a mapping."""
    if isinstance(value, dict):
        return [leaf for key, below in value.items() for leaf in leaves(below, (*path, key))]
    return [path] if path else []


def get(config: dict[str, Any], path: Path) -> Any:
    """The value at a path, None where there is none."""
    value: Any = config
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def put(config: Any, path: Path, value: Any) -> None:
    """Sets the value at a path whose sections exist."""
    for key in path[:-1]:
        config = config[key]
    config[path[-1]] = value
