"""Files of arguments: TrainingArguments as JSON, the YAML of LLaMA-Factory, axolotl, TRL and accelerate."""

from __future__ import annotations

from typing import Any

from dslint.document import Document, Node, plain
from dslint.expression import UNKNOWN
from dslint.launch import Argument, Launch

AXOLOTL = {
    "micro_batch_size": "per_device_train_batch_size",
    "lr_scheduler": "lr_scheduler_type",
    "optimizer": "optim",
}
"""axolotl's name of an argument -> the name of TrainingArguments."""

_NUMBERS = {
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "max_grad_norm",
    "learning_rate",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "warmup_steps",
    "warmup_ratio",
    "max_steps",
}


def read(document: Document, trainer: str | None = None) -> Launch:
    """The run that a file of arguments describes. `trainer`: who reads it, where that is known."""
    root = document.root
    lines = {} if root is None else {m.key: document.position(m.key_span.start)[0] for m in root.members}
    data: dict[str, Any] = plain(root) if root is not None and root.kind == "object" else {}
    if trainer is None:
        trainer = reader(data)
    arguments = rename(
        trainer, {key: Argument(_argument(key, value), lines.get(key, 0)) for key, value in data.items()}
    )
    deepspeed = data.get("deepspeed")
    config = deepspeed if isinstance(deepspeed, str) else None
    return Launch(document.name, trainer, arguments, {}, True, config, lines.get("deepspeed", 0))


def launch_of(document: Document) -> Launch | None:
    """The run that a file with a config in it describes: an accelerate file, or arguments around a config."""
    if document.format == "accelerate":
        return accelerate_launch(document)
    return read(document) if document.base == ("deepspeed",) else None


def accelerate_launch(document: Document) -> Launch:
    """A run by `accelerate launch --config_file`; what its training script is given is unknown."""
    data = plain(document.root) if document.root is not None else {}
    settings = accelerate_settings(data)
    lines = (
        {}
        if document.root is None
        else {m.key: document.position(m.key_span.start)[0] for m in document.root.members}
    )
    count = data.get("num_processes")
    known = isinstance(count, int) and not isinstance(count, bool) and count > 0
    arguments = {key: Argument(value, lines.get(key, 0)) for key, value in settings.items()}
    config = settings.get("deepspeed_config_file")
    return Launch(
        document.name,
        "accelerate",
        {},
        {**arguments, "config_file": Argument(document.name)},
        False,
        str(config) if config not in (None, "none") else None,
        lines.get("deepspeed_config", 0),
        count if known else None,
        lines.get("num_processes", 0),
        True,
    )


def _argument(key: str, value: Any) -> Any:
    """A value as the class behind the file takes it: numbers written as text become numbers."""
    if key in _NUMBERS and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return UNKNOWN
    return value


def rename(trainer: str, arguments: dict[str, Argument]) -> dict[str, Argument]:
    """Arguments under the names of TrainingArguments, beside those they have in the file."""
    if trainer != "axolotl":
        return arguments
    renamed = dict(arguments)
    for old, new in AXOLOTL.items():
        if old in arguments:
            renamed[new] = arguments[old]
    for key in ("bf16", "fp16"):
        if key in renamed and renamed[key].value in ("auto", "full"):
            known = True if renamed[key].value == "full" else UNKNOWN
            renamed[key] = Argument(known, renamed[key].line)
    return renamed


def reader(data: dict[str, Any]) -> str:
    """Who reads a file of arguments, by the keys that only one of them has."""
    if "base_model" in data:
        return "axolotl"
    if "model_name_or_path" in data and {"finetuning_type", "template", "cutoff_len", "dataset_dir"} & set(
        data
    ):
        return "llamafactory"
    if {"tuner_type", "train_type"} & set(data) and "model" in data:
        return "ms-swift"
    return "hf"


def is_arguments(data: Any) -> bool:
    """Whether a mapping is a file of arguments for a run with DeepSpeed."""
    return (
        isinstance(data, dict)
        and "deepspeed" in data
        and bool(
            {"base_model", "model_name_or_path", "output_dir", "per_device_train_batch_size"} & set(data)
        )
    )


def load(raw: bytes, name: str) -> Node | None:
    """The root of a JSON or YAML file."""
    from dslint.formats import read_bytes

    return read_bytes(raw, name).root


def arguments_of(raw: bytes, name: str, trainer: str) -> dict[str, Argument]:
    """The arguments in a file, each with its place there; {} where it cannot be read."""
    from dslint.formats import read_bytes

    found = read(read_bytes(raw, name), trainer).arguments
    return {key: Argument(argument.value, argument.line, name) for key, argument in found.items()}


def settings_of(raw: bytes, name: str) -> dict[str, Any]:
    """A file of arguments as plain data; {} where it cannot be read."""
    root = load(raw, name)
    data = plain(root) if root is not None and root.kind == "object" else {}
    return {key: _argument(key, value) for key, value in data.items()}


def accelerate_settings(data: dict[str, Any]) -> dict[str, Any]:
    """The settings of an accelerate config file as `accelerate launch` takes them, one level."""
    block = data.get("deepspeed_config")
    flat = {key: value for key, value in data.items() if not isinstance(value, dict) and value is not None}
    used = isinstance(block, dict) and data.get("distributed_type") == "DEEPSPEED"
    return {**flat, **({k: v for k, v in block.items() if v is not None} if used and block else {})}
