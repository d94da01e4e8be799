"""What LLaMA-Factory, axolotl and ms-swift refuse, as far as their arguments are known.

Source: LLaMA-Factory src/llamafactory/hparams/parser.py (get_train_args) and model/model_utils/
quantization.py, 0.9.5; axolotl src/axolotl/utils/schemas/validation.py, 0.19; ms-swift
swift/arguments/sft_args.py, 4.6; these functions were called, without the rest of the frameworks.
"""

from __future__ import annotations

import re
from typing import Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts.registry import Item, fact
from dslint.launch import place

STAGE = ("zero_optimization", "stage")

NOT_AT_STAGE_3 = {
    "predict_with_generate": "generation needs whole weights; evaluate without it, or use stage 2",
    "pissa_init": "run scripts/pissa_init.py first, or use stage 2",
    "pure_bf16": "remove it, or use stage 2",
    "use_unsloth": "remove it, or use stage 2",
    "use_kt": "remove it, or use stage 2",
}
"""Arguments of LLaMA-Factory that it refuses with ZeRO-3 -> what to do."""


def _on(config: Config, name: str) -> bool:
    launch = config.target.launch
    value = launch.value(name) if launch is not None else UNKNOWN
    return value is True or (value is not UNKNOWN and isinstance(value, (str, list, dict)) and bool(value))


def _where(config: Config, name: str) -> str:
    launch = config.target.launch
    return launch.where(name) if launch is not None else ""


@fact
def llamafactory_not_at_stage_3(config: Config) -> Any:
    """Arguments that LLaMA-Factory refuses with ZeRO-3, each at the stage."""
    if config.value(STAGE) != 3:
        return []
    return [
        Item(STAGE, {"argument": name, "where": _where(config, name), "advice": advice})
        for name, advice in NOT_AT_STAGE_3.items()
        if _on(config, name)
    ]


@fact
def llamafactory_quantization(config: Config) -> Any:
    """What is wrong with quantizing while loading under ZeRO-3, in words; None where nothing is."""
    launch = config.target.launch
    bits = launch.value("quantization_bit") if launch is not None else None
    if launch is None or config.value(STAGE) != 3 or not isinstance(bits, int):
        return None
    method = launch.value("quantization_method") if launch.given("quantization_method") else "bnb"
    if method in ("hqq", "eetq"):
        return f"{method} quantization"
    return f"{bits}-bit quantization" if method in ("bnb", "bitsandbytes") and bits != 4 else None


@fact
def llamafactory_low_rank_gradients(config: Config) -> Any:
    """use_galore or use_apollo, whichever is on; None where neither is."""
    return next((name for name in ("use_galore", "use_apollo") if _on(config, name)), None)


@fact
def axolotl_refused_optimizer(config: Config) -> Any:
    """An optimizer of axolotl's that it refuses with DeepSpeed; None where it is another."""
    launch = config.target.launch
    name = launch.value("optimizer") if launch is not None else None
    if not isinstance(name, str):
        return None
    return name if name in ("muon", "polora", "q_galore_adamw8bit") or name.startswith("flash_") else None


@fact
def axolotl_relora(config: Config) -> Any:
    """Whether axolotl is to train with ReLoRA."""
    return _on(config, "relora")


@fact
def tensor_parallel_argument(config: Config) -> Any:
    """The argument by which axolotl or ms-swift turns AutoTP on; None where it does not."""
    launch = config.target.launch
    name = {"axolotl": "tensor_parallel_size", "ms-swift": "deepspeed_autotp_size"}.get(config.target.trainer)
    size = launch.value(name) if launch is not None and name is not None else None
    return name if isinstance(size, int) and size > (1 if name == "tensor_parallel_size" else 0) else None


@fact
def tensor_parallel_collides(config: Config) -> Any:
    """Whether the framework adds a second spelling of a key that the file has."""
    section = config.data.get("zero_optimization")
    key = "stage3_gather_16bit_weights_on_model_save"
    return tensor_parallel_argument(config) is not None and isinstance(section, dict) and key in section


@fact
def swift_devices(config: Config) -> Any:
    """GPUs that ms-swift sees and processes it starts, where it takes those to spare for a device map.

    `this.processes` 0: NPROC_PER_NODE is not set where the run is started; `this.end`: how it ends. [] where
    nothing is known wrong.
    """
    launch = config.target.launch
    devices = launch.launcher.get("devices") if launch is not None else None
    if launch is None or devices is None or _on(config, "use_ray"):
        return []
    each = launch.launcher["processes_each"].value
    if each is UNKNOWN or (each != "" and not isinstance(each, int)):
        return []
    share, rest = divmod(devices.value, each or 1)
    if not share or (share == 1 and not rest):
        return []
    values = {
        "devices": devices.value,
        "processes": each or 0,
        "where": place(launch.name, devices.line),
        "end": "asserts that the one divides by the other" if rest else "takes that for a device map",
    }
    return [Item((), values)]


_MOE = (
    r"mixtral|qwen[0-9.]*-?moe|qwen3-[0-9]+b-a[0-9]+b|deepseek-?(moe|v[23]|coder-v2|r1$)|olmoe|jetmoe|dbrx"
    r"|phi-?3\.5-moe|granite[0-9.-]*moe|gpt-oss|glm-4\.[56]|hunyuan-large|ernie-4\.5.*a[0-9]+b"
)
"""Names of mixture-of-experts models, as a pattern."""

_KNOWN = r"mixtral|qwen1\.5-moe|qwen2-[0-9]+b-a|qwen2[0-9.]*-?moe|qwen3-[0-9]+b-a|qwen3-?moe"
"""Those whose expert blocks DeepSpeed treats as leaf modules by default, since 0.18."""


@fact
def moe_model(config: Config) -> Any:
    """The model of the run where it is known to be a mixture of experts; UNKNOWN otherwise."""
    launch, load = config.target.launch, config.target.workload
    for argument in ("model_name_or_path", "base_model", "model") if launch is not None else ():
        name = launch.value(argument) if launch is not None else UNKNOWN
        if isinstance(name, str) and re.search(_MOE, name.rstrip("/").rsplit("/", 1)[-1], re.IGNORECASE):
            return name
    shape = load.shape if load is not None else None
    return shape.name if shape is not None and any(block.experts for block in shape.blocks) else UNKNOWN


@fact
def moe_without_leaf_modules(config: Config) -> Any:
    """Whether a mixture-of-experts model is to be trained and nothing makes its blocks leaf modules."""
    name = moe_model(config)
    launch = config.target.launch
    if name is UNKNOWN or config.has(("zero_optimization", "leaf_module")):
        return False
    if launch is not None and launch.launcher.get("deepspeed_moe_layer_cls_names") is not None:
        return False
    return config.target.release_number < (0, 18) or not re.search(_KNOWN, name, re.IGNORECASE)
