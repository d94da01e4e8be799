"""What the trainers in front of DeepSpeed do to a config: which "auto" they fill, which keys they add.

Source: transformers 5.24 integrations/deepspeed.py (trainer_config_process, trainer_config_finalize)
and accelerate 1.15 utils/dataclasses.py and accelerator.py (_prepare_deepspeed), read and run
(tests/test_trainers.py). Values are worked out in :mod:`dslint.trainers.values`, and only where the
arguments of the run are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dslint.document import Document, Path, dotted

if TYPE_CHECKING:
    from dslint.launch import Launch

HF_LIKE = ("hf", "llamafactory", "axolotl", "ms-swift")
"""Trainers that hand the config to transformers.Trainer."""

STRICT = (*HF_LIKE, "accelerate", "lightning")
"""Trainers that read a config with Python's json module; raw DeepSpeed reads it with hjson."""

NAMES = {
    "raw": "DeepSpeed", "hf": "HF Trainer", "accelerate": "accelerate", "lightning": "Lightning",
    "llamafactory": "LLaMA-Factory", "axolotl": "axolotl", "ms-swift": "ms-swift",
}  # fmt: skip
"""What people call the trainers."""

HF_FILLS = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "train_batch_size": "world size x per_device_train_batch_size x gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.betas": "[adam_beta1, adam_beta2]",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_min_lr": "the constant 0",
    "scheduler.params.warmup_max_lr": "learning_rate",
    "scheduler.params.warmup_num_steps": "max(1, warmup steps)",
    "scheduler.params.total_num_steps": "the number of training steps",
    "fp16.enabled": "fp16 or fp16_full_eval",
    "bf16.enabled": "bf16 or bf16_full_eval",
    "zero_optimization.reduce_bucket_size": "hidden size squared",
    "zero_optimization.stage3_prefetch_bucket_size": "0.9 x hidden size squared",
    "zero_optimization.stage3_param_persistence_threshold": "10 x hidden size",
    "zero_optimization.stage": "accelerate's zero_stage, 2 by default",
    "zero_optimization.offload_optimizer.device": "accelerate's offload_optimizer_device, none by default",
    "zero_optimization.offload_param.device": "accelerate's offload_param_device, none by default",
    "zero_optimization.offload_optimizer.nvme_path": "accelerate's offload_optimizer_nvme_path",
    "zero_optimization.offload_param.nvme_path": "accelerate's offload_param_nvme_path",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save": "accelerate's zero3_save_16bit_model",
    "zero_allow_untested_optimizer": "its own optimizer, which it always allows",
    "steps_per_print": "accelerate, which always writes infinity",
}
"""Key path -> where HF Trainer (and accelerate below it) takes the value of its "auto" from."""

ACCELERATE_FILLS = {
    **HF_FILLS,
    "train_micro_batch_size_per_gpu": "the batch size of the data loader",
    "train_batch_size": "micro batch x gradient_accumulation_steps x processes",
    "gradient_accumulation_steps": "Accelerator(gradient_accumulation_steps)",
    "gradient_clipping": "accelerate's gradient_clipping, 1.0 by default",
    "optimizer.params.lr": "DummyOptim(lr)",
    "optimizer.params.weight_decay": "DummyOptim(weight_decay)",
    "scheduler.params.warmup_max_lr": "DummyOptim(lr)",
    "scheduler.params.warmup_num_steps": "DummyScheduler(warmup_num_steps), at least 1",
    "scheduler.params.total_num_steps": "DummyScheduler(total_num_steps)",
    "fp16.enabled": "mixed_precision fp16",
    "bf16.enabled": "mixed_precision bf16 or fp8",
}
for _key in ("optimizer.params.betas", "optimizer.params.eps"):
    del ACCELERATE_FILLS[_key]


LIGHTNING_ADDS: dict[Path, str] = {
    ("gradient_accumulation_steps",): "accumulate_grad_batches",
    ("train_micro_batch_size_per_gpu",): "the batch size of the data loader",
    ("gradient_clipping",): "gradient_clip_val, 0 without it",
}
"""Keys that Lightning adds where the file does not give them -> where it takes the value from."""

ADDED: dict[Path, Any] = {("gradient_accumulation_steps",): 1}
"""Values that accelerate adds, whatever the run, where a config file does not give the key."""

DROPPED = frozenset({
    "zero_optimization.reduce_bucket_size", "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_param_persistence_threshold", "zero_optimization.stage",
    "zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device",
    "zero_optimization.offload_optimizer.nvme_path", "zero_optimization.offload_param.nvme_path",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save", "fp16.enabled", "bf16.enabled",
    "zero_allow_untested_optimizer",
})  # fmt: skip
"""Those of HF_FILLS whose "auto" DeepSpeed itself lets pass: a script may leave it there on purpose."""

STABLE_PLUGIN: dict[str, tuple[str, Any]] = {
    "zero_optimization.stage": ("zero_stage", 2),
    "zero_optimization.offload_optimizer.device": ("offload_optimizer_device", "none"),
    "zero_optimization.offload_param.device": ("offload_param_device", "none"),
    "zero_optimization.stage3_gather_16bit_weights_on_model_save": ("zero3_save_16bit_model", False),
}
"""Key path -> the setting of accelerate's DeepSpeedPlugin that fills its "auto", and that one's default."""


def fills(trainer: str, path: Path) -> str | None:
    """Where a trainer takes the value from when the file says "auto" there; None: it does not."""
    if trainer in HF_LIKE:
        return HF_FILLS.get(dotted(path))
    if trainer == "accelerate":
        return ACCELERATE_FILLS.get(dotted(path))
    return None


def adds(trainer: str, path: Path, has: Callable[[Path], bool]) -> str | None:
    """What decides a value the file does not give at all, because the trainer adds the key."""
    if trainer == "raw":
        return None
    if path in (("fp16", "enabled"), ("bf16", "enabled")) and not has(path[:1]):
        return "the trainer's mixed precision setting"
    if trainer == "lightning":
        return LIGHTNING_ADDS.get(path)
    if path == ("gradient_accumulation_steps",):
        return "accelerate, which adds 1 where the key is absent"
    if path[0] == "optimizer" and not has(("optimizer",)):
        return "the trainer's own optimizer"
    if path[0] == "scheduler" and not has(("scheduler",)):
        return "the trainer's own scheduler"
    return None


def looks_into(trainer: str, path: Path, has: Callable[[Path], bool]) -> bool:
    """Whether the trainer looks keys up in a section that is there, so that null fails before DeepSpeed."""
    if trainer not in HF_LIKE and trainer != "accelerate":
        return False
    if path in (("fp16",), ("bf16",)):
        return True
    zero = ("zero_optimization",), ("zero_optimization", "offload_optimizer")
    return path in zero and not has(("optimizer",))


def infer(document: Document, data: dict[str, Any], launch: Launch | None = None) -> tuple[str, str, str]:
    """The trainer a config is most likely written for, why, and who else may well load it ("": nobody).

    An accelerate file, or a run that names the config, says it; else an "auto" that only HF fills does. One
    that DeepSpeed lets pass leaves it open, and so does a file without any.
    """
    if document.format == "accelerate":
        if launch is not None and launch.trainer in HF_LIKE:
            return launch.trainer, f"as {launch.name} starts it", ""
        return "accelerate", "an accelerate config file", ""
    filled = (
        [key for key, path in _FILLED.items() if at(data, path) == "auto"] if "auto" in document.text else []
    )
    telling = next((key for key in filled if key not in DROPPED), None)
    if launch is not None:
        only = next((key for key in filled if key not in ACCELERATE_FILLS), None)
        if launch.trainer == "accelerate" and only is not None:
            return "hf", f'{only} is "auto", which only HF Trainer fills', ""
        if launch.trainer != "raw" or telling is None:
            return launch.trainer, f"as {launch.name} starts it", ""
    if telling is not None:
        return "hf", f'{telling} is "auto"', ""
    if filled:
        return "hf", f'{filled[0]} is "auto"', "raw"
    return "raw", "no value is left to a trainer", "hf"


_FILLED: dict[str, Path] = {key: tuple(key.split(".")) for key in HF_FILLS}


def at(data: Any, path: Path) -> Any:
    """The value of plain data at a path, None where there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data
