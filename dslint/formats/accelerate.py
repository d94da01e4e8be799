"""accelerate's own config files, which `accelerate launch --config_file` reads, as DeepSpeed configs.

What stands under deepspeed_config is no DeepSpeed config: the launcher turns a few of its keys into
environment variables, of which DeepSpeedPlugin makes the config (accelerate 1.15, utils/launch.py,
prepare_deepspeed_cmd_env, and utils/dataclasses.py, DeepSpeedPlugin.__post_init__). The Document made
here has that config beside the file's own tree, and says where in the file each of its keys is set.
"""

from __future__ import annotations

from typing import Any

from ..document import Document, Node, Path, Span, plain

BLOCK = "deepspeed_config"

PLACES: dict[Path, Path] = {
    ("zero_optimization",): (BLOCK,),
    ("zero_optimization", "stage"): (BLOCK, "zero_stage"),
    ("zero_optimization", "offload_optimizer"): (BLOCK, "offload_optimizer_device"),
    ("zero_optimization", "offload_optimizer", "nvme_path"): (BLOCK, "offload_optimizer_nvme_path"),
    ("zero_optimization", "offload_param"): (BLOCK, "offload_param_device"),
    ("zero_optimization", "offload_param", "nvme_path"): (BLOCK, "offload_param_nvme_path"),
    ("zero_optimization", "stage3_gather_16bit_weights_on_model_save"): (BLOCK, "zero3_save_16bit_model"),
    ("gradient_accumulation_steps",): (BLOCK, "gradient_accumulation_steps"),
    ("gradient_clipping",): (BLOCK, "gradient_clipping"),
    ("fp16",): ("mixed_precision",),
    ("bf16",): ("mixed_precision",),
}
"""Path in the DeepSpeed config -> the key of accelerate's file that sets it."""


def is_accelerate(root: Node | None) -> bool:
    """Whether a file is one of accelerate's, by the keys that only those have."""
    if root is None or root.kind != "object":
        return False
    keys = {member.key for member in root.members}
    return BLOCK in keys or "distributed_type" in keys


def as_accelerate(document: Document) -> Document:
    """The document of a file that is accelerate's."""
    document.format = "accelerate"
    data = plain(document.root) if document.root is not None else {}
    block = data.get(BLOCK)
    document.config = _node(deepspeed_config(data, block) if isinstance(block, dict) else {})
    document.places = PLACES
    return document


def names_file(data: dict[str, Any]) -> str | None:
    """The DeepSpeed config file that an accelerate config names, if it names one."""
    block = data.get(BLOCK)
    path = block.get("deepspeed_config_file") if isinstance(block, dict) else None
    return str(path) if path not in (None, "none") and not isinstance(path, (dict, list)) else None


def deepspeed_config(data: dict[str, Any], block: dict[str, Any]) -> dict[str, Any]:
    """The DeepSpeed config that comes of an accelerate config, as far as its values can be used.

    {} where DeepSpeed is not used, or where a file of its own has the config.
    """
    if data.get("distributed_type") != "DEEPSPEED" or names_file(data) is not None:
        return {}
    zero: dict[str, Any] = {"stage": _stage(block.get("zero_stage"))}
    for section in ("offload_optimizer", "offload_param"):
        device = block.get(f"{section}_device")
        if device is not None:
            # the launcher passes no path on, and the plugin then takes this word for one
            zero[section] = {"device": str(device).lower(), "nvme_path": "none"}
    save = block.get("zero3_save_16bit_model")
    zero["stage3_gather_16bit_weights_on_model_save"] = str(save).lower() == "true"
    config: dict[str, Any] = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": _steps(block.get("gradient_accumulation_steps")),
        "zero_optimization": zero,
    }
    clipping = _clipping(block.get("gradient_clipping"))
    if clipping:
        config["gradient_clipping"] = clipping
    precision = str(data.get("mixed_precision", "fp16" if data.get("fp16") else "no")).lower()
    if precision in ("fp16", "bf16", "fp8"):
        config["fp16" if precision == "fp16" else "bf16"] = {"enabled": True}
    config.setdefault("fp16", {"enabled": False})
    config.setdefault("bf16", {"enabled": False})
    return config


def _stage(value: Any) -> Any:
    """zero_stage goes through a string to int(); what fails there is reported, and judged as absent."""
    try:
        return 2 if value is None else int(str(value))
    except ValueError:
        return 2


def _steps(value: Any) -> Any:
    return int(str(value)) if str(value).isdigit() else "auto"


def _clipping(value: Any) -> Any:
    text = str(value).lower()
    if value is None or text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        return "auto"


def _node(value: Any) -> Node:
    """A tree without places: where its keys are set is a matter of PLACES."""
    from ..document import Member

    nowhere = Span(0, 0)
    if isinstance(value, dict):
        return Node(
            "object", nowhere, None, [Member(key, nowhere, _node(below)) for key, below in value.items()]
        )
    kind = "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"
    return Node(kind, nowhere, value)
