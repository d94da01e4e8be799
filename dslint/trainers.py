"""What the trainers in front of DeepSpeed do to a config: which "auto" they fill, which keys they add.

Source: transformers 5.24 integrations/deepspeed.py (trainer_config_process, trainer_config_finalize)
and accelerate 1.15 utils/dataclasses.py and accelerator.py (_prepare_deepspeed), read and run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dslint.document import Document, Path, dotted

HF_FILLS = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "train_batch_size": "world size x per_device_train_batch_size x gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.betas": "[adam_beta1, adam_beta2]",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_min_lr": "0",
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
    "zero_allow_untested_optimizer": "always overwritten when the trainer makes the optimizer",
    "steps_per_print": "always overwritten with infinity",
}
"""Key path -> where HF Trainer (and accelerate below it) takes the value of its "auto" from."""

ACCELERATE_FILLS = {
    **HF_FILLS,
    "train_micro_batch_size_per_gpu": "the batch size of the data loader",
    "gradient_accumulation_steps": "Accelerator(gradient_accumulation_steps)",
    "gradient_clipping": "accelerate's gradient_clipping, 1.0 by default",
}
for _key in ("optimizer.params.betas", "optimizer.params.eps"):
    del ACCELERATE_FILLS[_key]

_HF_LIKE = ("hf", "llamafactory", "axolotl", "ms-swift")


def fills(trainer: str, path: Path) -> str | None:
    """Where a trainer takes the value from when the file says "auto" there; None: it does not."""
    if trainer in _HF_LIKE:
        return HF_FILLS.get(dotted(path))
    if trainer == "accelerate":
        return ACCELERATE_FILLS.get(dotted(path))
    return None


def adds(trainer: str, path: Path, has: Callable[[Path], bool]) -> str | None:
    """What decides a value the file does not give at all, because the trainer adds the key."""
    if trainer not in _HF_LIKE and trainer != "accelerate":
        return None
    if path in (("fp16", "enabled"), ("bf16", "enabled")) and not has(path[:1]):
        return "the trainer's mixed precision setting"
    if path[0] == "optimizer" and not has(("optimizer",)):
        return "the trainer's own optimizer"
    if path[0] == "scheduler" and not has(("scheduler",)):
        return "the trainer's own scheduler"
    return None


def infer(document: Document, data: dict[str, Any]) -> tuple[str, str]:
    """The trainer a config is most likely written for, and why: an "auto" that only HF fills says hf."""
    if document.format == "accelerate":
        return "accelerate", "an accelerate config file"
    for key in HF_FILLS:
        if at(data, key) == "auto":
            return "hf", f'{key} is "auto"'
    return "raw", "no value is left to a trainer"


def at(data: Any, path: str) -> Any:
    """The value of plain data at a dotted path, None where there is none."""
    for key in path.split("."):
        data = data.get(key) if isinstance(data, dict) else None
    return data
