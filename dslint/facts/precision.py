"""Number formats: what the model trains in, what gradients accumulate in, and how fp16 is scaled."""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts.optimizer import optimizer_class, stopped
from dslint.facts.registry import Item, fact
from dslint.values import schema_at

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}

SPELLINGS = {
    "fp16": "fp16", "float16": "fp16", "half": "fp16", "torch.float16": "fp16",
    "bf16": "bf16", "bfloat16": "bf16", "torch.bfloat16": "bf16",
    "fp32": "fp32", "float32": "fp32", "float": "fp32", "torch.float32": "fp32",
    "int8": "int8", "torch.int8": "int8",
}  # fmt: skip
"""The names that data_types takes, which count upper and lower case (runtime/config.py, DtypeEnum)."""

STAGE = ("zero_optimization", "stage")
OFFLOAD = ("zero_optimization", "offload_optimizer")
DYNAMIC = (
    "initial_scale_power",
    "loss_scale_window",
    "hysteresis",
    "consecutive_hysteresis",
    "min_loss_scale",
)
"""Keys of fp16 that only dynamic loss scaling reads."""


@fact
def precision(config: Config) -> Any:
    """The dtype DeepSpeed casts the model to: "fp16", "bf16" or "fp32"."""
    half, brain = config.value(("fp16", "enabled")), bf16_value(config, "enabled")
    if half is True:
        return "fp16"
    if brain is True:
        return "bf16" if half is not UNKNOWN else UNKNOWN
    return UNKNOWN if half is UNKNOWN or brain is UNKNOWN else "fp32"


def bf16_value(config: Config, key: str) -> Any:
    """A value of bf16, or of its old spelling bfloat16, which counts only where bf16 is absent."""
    if bf16_section(config) == "bf16":
        return config.value(("bf16", key))
    added = config.origin(("bf16", "enabled")).kind == "filled"  # the trainer adds bf16, which wins
    return UNKNOWN if added else config.value(("bfloat16", key))


@fact
def dtype_bytes(config: Config) -> Any:
    """Bytes of one parameter or gradient element of the model."""
    kind = precision(config)
    return UNKNOWN if kind is UNKNOWN else BYTES[kind]


@fact
def dtypes_unknown(config: Config) -> Any:
    """Names of data_types that are none of the formats DeepSpeed knows, where it looks at them."""
    found = []
    for key in ("grad_accum_dtype", "param_dtype", "buffer_dtype"):
        path = ("data_types", key)
        value = config.written(path)
        if value is None or not schema_at(config.schema, path) or stopped(config, value):
            continue
        if key == "buffer_dtype" and precision(config) not in ("fp16", "bf16"):
            continue
        if not isinstance(value, str) or value not in SPELLINGS:
            lowered = value.lower() if isinstance(value, str) else ""
            found.append(Item(path, {"key": key, "cure": SPELLINGS.get(lowered, "fp32")}))
    return found


@fact
def accumulates_in(config: Config) -> Any:
    """The dtype gradients accumulate in: data_types.grad_accum_dtype, else that of the model.

    Before 0.17.6 bf16 without ZeRO accumulates in fp32 where nothing is said (runtime/engine.py,
    get_data_types; run in 0.17.5).
    """
    value = config.written(("data_types", "grad_accum_dtype"))
    if value is None:
        model, stage = precision(config), config.value(STAGE)
        if model != "bf16" or config.target.release_number >= (0, 17, 6):
            return model
        return UNKNOWN if stage is UNKNOWN else "fp32" if stage == 0 else model
    return SPELLINGS.get(value, UNKNOWN) if isinstance(value, str) else UNKNOWN


@fact
def bf16_wrapped(config: Config) -> Any:
    """Whether bf16 without ZeRO runs in BF16_Optimizer, as before 0.17.6 (run in 0.17.5 and 0.17.6)."""
    model = precision(config)
    if config.target.release_number >= (0, 17, 6):
        return False
    return UNKNOWN if model is UNKNOWN else model == "bf16"


@fact
def accumulation_refused(config: Config) -> Any:
    """Whether deepspeed.initialize refuses gradients in another format than the model's.

    Stage 0 has no wrapper for it (bf16 with fp32 had one before 0.18.5); until 0.10.1 the ZeRO stages
    had none either, except stage 1 in bf16 with fp32.
    """
    model, sums, stage = precision(config), accumulates_in(config), config.value(STAGE)
    if UNKNOWN in (model, sums, stage):
        return UNKNOWN
    release, common = config.target.release_number, (model, sums) == ("bf16", "fp32")
    if model == sums:
        return False
    if stage == 0:
        return not (common and release < (0, 18, 5))
    return release < (0, 10, 1) and not (common and stage == 1)


@fact
def param_dtype_conflicts(config: Config) -> Any:
    """Whether data_types.param_dtype is another format than the one fp16 and bf16 choose."""
    value = config.written(("data_types", "param_dtype"))
    if value is None or not schema_at(config.schema, ("data_types", "param_dtype")):
        return False
    wanted = SPELLINGS.get(value, UNKNOWN) if isinstance(value, str) else UNKNOWN
    kind = precision(config)
    return UNKNOWN if UNKNOWN in (wanted, kind) else wanted != kind


@fact
def sections_without_enabled(config: Config) -> Any:
    """Precision sections that give other keys and leave out `enabled`, which is false by default."""
    found = []
    for name in ("fp16", "bf16", "bfloat16", "torch_autocast"):
        section = config.written((name,))
        if not isinstance(section, dict) or "enabled" in section:
            continue
        if name == "bfloat16" and config.data.get("bf16") is not None:
            continue
        if any(not str(key).startswith(("_", "//")) for key in section) or not section:
            found.append(Item((name,), {"key": name}))
    return found


@fact
def unread_scale_keys(config: Config) -> Any:
    """In words, the keys of dynamic loss scaling that the file gives; null where there are none."""
    return ", ".join(key for key in DYNAMIC if config.has(("fp16", key))) or None


@fact
def changed_hysteresis(config: Config) -> Any:
    """Changed hysteresis keys, each an Item."""
    names = _changed(config, ("hysteresis", "consecutive_hysteresis"))
    return [Item(("fp16", key), {"key": key}) for key in names]


def _changed(config: Config, names: tuple[str, ...]) -> list[str]:
    return [
        key
        for key in names
        if config.has(("fp16", key))
        and config.value(("fp16", key)) is not UNKNOWN
        and config.value(("fp16", key)) != config.default(("fp16", key))
    ]


@fact
def fp16_master_refused(config: Config) -> Any:
    """Whether fp16_master_weights_and_grads has no offloaded CPU Adam below it."""
    if fp16_master_weights(config) is not True:
        return False
    return _needs_cpu_adam(config, since_at_stage_3=(0, 18, 3))


@fact
def bf16_master_refused(config: Config) -> Any:
    """Whether bf16_master_weights_and_grads has neither 16-bit optimizer states nor CPU Adam below it."""
    if bf16_value(config, "bf16_master_weights_and_grads") is not True:
        return False
    states, offloads = bf16_value(config, "bf16_optimizer_states"), config.offloads(OFFLOAD)
    if states is True and (offloads is not True or config.target.release_number < (0, 19, 1)):
        return False
    return UNKNOWN if states is UNKNOWN else _needs_cpu_adam(config, since_at_stage_3=(0, 18, 3))


def _needs_cpu_adam(config: Config, since_at_stage_3: tuple[int, ...]) -> Any:
    """Whether the ZeRO optimizer does not get the offloaded DeepSpeedCPUAdam that it would insist on."""
    stage, offloads = config.value(STAGE), config.offloads(OFFLOAD)
    if UNKNOWN in (stage, offloads):
        return UNKNOWN
    if stage not in (1, 2, 3) or (stage == 3 and config.target.release_number < since_at_stage_3):
        return False
    if stage == 1 and not offloads and accumulates_in(config) != precision(config):
        return UNKNOWN  # in bf16 with fp32 accumulation BF16_Optimizer runs, which looks at none of this
    if not offloads:
        return True
    kind = optimizer_class(config)
    return UNKNOWN if kind is UNKNOWN else kind != "DeepSpeedCPUAdam"


@fact
def two_master_formats(config: Config) -> Any:
    """Whether both fp16 and bf16 ask for master weights in their format."""
    half = config.value(("fp16", "fp16_master_weights_and_grads"))
    return half is True and bf16_value(config, "bf16_master_weights_and_grads") is True


@fact
def bf16_section(config: Config) -> Any:
    """The name of the section that DeepSpeed reads bf16 from."""
    return "bfloat16" if config.data.get("bf16") is None and config.has(("bfloat16",)) else "bf16"


@fact
def masters_without_bf16(config: Config) -> Any:
    """Keys that keep weights or states in bf16 while bf16 itself is off."""
    section = bf16_section(config)
    if config.value((section, "enabled")) is not False:
        return []
    names = ("bf16_master_weights_and_grads", "bf16_optimizer_states")
    return [Item((section, key), {"key": key}) for key in names if config.value((section, key)) is True]


@fact
def immediate_update_unread(config: Config) -> Any:
    """immediate_grad_update true where no BF16_Optimizer runs, the only one that reads it."""
    section = bf16_section(config)
    path, stage = (section, "immediate_grad_update"), config.value(STAGE)
    if (
        not config.has(path)
        or config.value(path) is not True
        or stage is UNKNOWN
        or precision(config) is UNKNOWN
    ):
        return []
    runs = stage == 1 and precision(config) == "bf16" and accumulates_in(config) == "fp32"
    return [] if runs or stage == 0 else [Item(path)]


@fact
def overflow_check_unread(config: Config) -> Any:
    """check_grad_overflow false where nothing but the optimizer of stages 1 and 2 would read it."""
    path, stage = (bf16_section(config), "check_grad_overflow"), config.value(STAGE)
    if not config.has(path) or config.value(path) is not False or precision(config) != "bf16":
        return []
    return [Item(path)] if stage in (0, 3) else []


@fact
def fp16_master_weights(config: Config) -> Any:
    """Whether fp16_master_weights_and_grads counts: before 0.17.1 only in an fp16 that is enabled."""
    asked, half = config.value(("fp16", "fp16_master_weights_and_grads")), config.value(("fp16", "enabled"))
    if asked is not True or config.target.release_number >= (0, 17, 1):
        return asked
    return half


@fact
def initial_scale_refused(config: Config) -> Any:
    """Whether 2 cannot be raised to initial_scale_power, as written, in an fp16 that is enabled."""
    path = ("fp16", "initial_scale_power")
    power = config.written(path)
    if not config.has(path) or (power == "auto" and config.target.trainer != "raw"):
        return False
    if config.value(("fp16", "enabled")) is not True:
        return False
    return power >= 1024 if isinstance(power, float) else not isinstance(power, int)


@fact
def initial_scale_overflows(config: Config) -> Any:
    """Whether 2 to the initial_scale_power is more than the loss can be multiplied by.

    The ZeRO optimizers multiply a tensor by the integer, which takes 64 bits; stage 0 by a float.
    """
    power, stage = config.value(("fp16", "initial_scale_power")), config.value(STAGE)
    if precision(config) != "fp16" or config.value(("fp16", "loss_scale")) != 0 or stage is UNKNOWN:
        return False
    return isinstance(power, int) and power >= (64 if stage >= 1 else 1024)


@fact
def autocast(config: Config) -> Any:
    """Whether torch_autocast is on, in a release that has it."""
    if not schema_at(config.schema, ("torch_autocast", "enabled")):
        return False
    return config.value(("torch_autocast", "enabled"))


@fact
def autocast_without_path(config: Config) -> Any:
    """Whether an entry of lower_precision_safe_modules names no module: it has no dot, or is no list."""
    names = config.written(("torch_autocast", "lower_precision_safe_modules"))
    if autocast(config) is not True or not isinstance(names, (list, str, dict)):
        return False
    if isinstance(names, list) and not all(isinstance(name, str) for name in names):
        return False  # DeepSpeedConfig refuses it
    return any("." not in name for name in names)


@fact
def both_bf16_sections(config: Config) -> Any:
    """Whether the file gives bf16 and its old spelling bfloat16, of which then only bf16 is read."""
    return "bfloat16" in config.data and config.data.get("bf16") is not None
