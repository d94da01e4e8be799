"""The optimizer that DeepSpeed builds from the section `optimizer`, and what its constructor takes.

DeepSpeed passes `optimizer.params` on as keyword arguments, so what is allowed is the signature of the
class it picks (runtime/engine.py, _configure_basic_optimizer, 0.19.8). The signatures come from the
schema of the release (`x-optimizers`, `x-torch-optimizers`, `x-zero-tested-optimizers`).
"""

from __future__ import annotations

import json
import math
from typing import Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts.registry import Item, fact, once
from dslint.suggest import nearest

SECTION = ("optimizer",)
TYPE = ("optimizer", "type")
PARAMS = ("optimizer", "params")
OFFLOAD = ("zero_optimization", "offload_optimizer")

NAMES = {
    "adagrad": "Adagrad", "adam": "Adam", "adamw": "AdamW", "lamb": "Lamb", "lion": "Lion", "muon": "Muon",
    "muadam": "MuAdam", "muadamw": "MuAdamW", "musgd": "MuSGD",
    "onebitadam": "OneBitAdam", "onebitlamb": "OneBitLamb", "zerooneadam": "ZeroOneAdam",
}  # fmt: skip
"""DeepSpeed's own optimizers, which it knows in any case, as its documentation writes them."""

ONE_BIT = {"onebitadam": "AdamW", "onebitlamb": "Lamb", "zerooneadam": "AdamW"}
"""Optimizers removed in 0.19.7, and which one does the same without compressed communication."""

CLASSES = {"fusedadam": "AdamW", "deepspeedcpuadam": "AdamW", "cpuadam": "AdamW", "fusedlamb": "Lamb",
           "fusedlion": "Lion", "deepspeedcpulion": "Lion", "deepspeedcpuadagrad": "Adagrad"}  # fmt: skip
"""Class names that people write as a type, and the name under which DeepSpeed builds that class."""

ONE_BIT_CLASSES = ("OnebitAdam", "OnebitLamb", "ZeroOneAdam")
AT_STEP = ("FusedAdam", "FusedLamb", "FusedLion", "MuonWithAuxAdam", *ONE_BIT_CLASSES)
"""Classes that store what they are given and first use it in step()."""

LIMITS = {
    "lr": (0, math.inf), "eps": (0, math.inf), "weight_decay": (0, math.inf), "momentum": (0, math.inf),
    "lr_decay": (0, math.inf), "alpha": (0, math.inf), "initial_accumulator_value": (0, math.inf),
    "momentum_decay": (0, math.inf), "rho": (0, 1), "d": (1, math.inf), "beta2_decay": (-math.inf, 0),
}  # fmt: skip
"""Parameters that are calculated with, and the range that torch's own optimizers insist on."""

NUMBERS = {*LIMITS, "muon_lr", "adam_lr", "max_coeff", "min_coeff", "lambd", "t0"}
"""Parameters that are calculated with: anything but a number or a boolean ends in a TypeError."""

ASGD_AT_STEP = ("alpha", "lambd", "t0")
"""Parameters that torch's ASGD takes as they are and first uses in step()."""

RATES = {"lr", "muon_lr", "adam_lr"}

NS_METHODS = ["gram", "standard"]
"""Newton-Schulz iterations that Muon knows (runtime/zero/muon/original_muon.py, 0.19.8)."""

HINTS = {
    "fused": 'remove it; "torch_adam": true would build torch.optim.AdamW, which takes it',
    "foreach": 'remove it; "torch_adam": true would build torch.optim.AdamW, which takes it',
    "capturable": 'remove it; "torch_adam": true would build torch.optim.AdamW, which takes it',
    "maximize": 'remove it; "torch_adam": true would build torch.optim.AdamW, which takes it',
    "correct_bias": "write bias_correction",
    "epsilon": "write eps",
    "learning_rate": "write lr",
    "adam_epsilon": "write eps",
    "adam_beta1": "write betas as a list of two",
    "adam_beta2": "write betas as a list of two",
    "beta1": "write betas as a list of two",
    "beta2": "write betas as a list of two",
    "gradient_clipping": "move it to the top level",
    "freeze_step": "remove it: it belonged to the 1-bit optimizers",
    "cuda_aware": "remove it: it belonged to the 1-bit optimizers",
    "comm_backend_name": "remove it: it belonged to the 1-bit optimizers",
    "coeff_beta": "remove it: it belonged to the 1-bit optimizers",
    "factor_max": "remove it: it belonged to the 1-bit optimizers",
    "factor_min": "remove it: it belonged to the 1-bit optimizers",
    "factor_threshold": "remove it: it belonged to the 1-bit optimizers",
    "var_freeze_step": "remove it: it belonged to the 1-bit optimizers",
    "var_update_scaler": "remove it: it belonged to the 1-bit optimizers",
    "local_step_scaler": "remove it: it belonged to the 1-bit optimizers",
    "local_step_clipper": "remove it: it belonged to the 1-bit optimizers",
}
"""What to do about parameters of other optimizers, where the nearest name says nothing."""


def _number(value: Any) -> bool:
    """Whether Python calculates with a value as JSON gives it: numbers, and booleans as 0 and 1."""
    return isinstance(value, (int, float))


def described(value: Any) -> str:
    """A value as a message names it."""
    if value == "auto":
        return '"auto", which nobody fills here'
    if value is None:
        return "null"
    if isinstance(value, str):
        return f'the string "{value if len(value) <= 40 else value[:37] + "..."}"'
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"a list of {len(value)}" if isinstance(value, list) else text[:40]


def stopped(config: Config, value: Any) -> bool:
    """Whether a value is an "auto" at which accelerate, below most trainers, stops before DeepSpeed."""
    return value == "auto" and config.target.trainer not in ("raw", "lightning")


def annotation(config: Config, section: tuple[str, ...], name: str) -> Any:
    """An annotation of a section's schema, or UNKNOWN where the release has none."""
    return config.values.keys_of[section].schema.get(name, UNKNOWN)


def parameters(config: Config) -> dict[str, Any]:
    """`optimizer.params` as the file gives it; {} where it gives none or no object."""
    params = config.written(PARAMS)
    return params if isinstance(params, dict) else {}


@fact
def optimizer_type(config: Config) -> Any:
    """optimizer.type where it is text; UNKNOWN where DeepSpeed builds no optimizer or nobody knows."""
    kind = config.value(TYPE)
    return kind if isinstance(kind, str) else UNKNOWN


@fact
def optimizer_name(config: Config) -> Any:
    """The optimizer as DeepSpeed finds it: its own in lower case ("adamw"), else a name of torch.optim,
    else None; UNKNOWN where there is no type or the release is not known."""
    kind, own = optimizer_type(config), annotation(config, SECTION, "x-optimizers")
    torch = annotation(config, SECTION, "x-torch-optimizers")
    if UNKNOWN in (kind, own, torch):
        return UNKNOWN
    if kind.lower() in own:
        return kind.lower()
    return kind if kind in torch else None


@fact
def optimizer_unknown(config: Config) -> Any:
    """Whether neither DeepSpeed nor torch.optim knows the type (removed 1-bit optimizers apart)."""
    name = optimizer_name(config)
    if name is UNKNOWN:
        return UNKNOWN
    kind = optimizer_type(config)
    return name is None and kind.lower() not in ONE_BIT and not stopped(config, kind)


@fact
def optimizer_removed(config: Config) -> Any:
    """Whether the type is a 1-bit optimizer that this release no longer has."""
    name = optimizer_name(config)
    if name is UNKNOWN:
        return UNKNOWN
    return name is None and optimizer_type(config).lower() in ONE_BIT


@fact
def optimizer_proposal(config: Config) -> Any:
    """What to write instead of a type that nobody knows, in words."""
    kind = optimizer_type(config)
    if kind is UNKNOWN:
        return UNKNOWN
    plain = kind.strip().lower().replace("_", "").replace("-", "")
    own = [NAMES.get(name, name) for name in annotation(config, SECTION, "x-optimizers")]
    if plain in ONE_BIT:
        return f'write "{ONE_BIT[plain]}", and remove what only the 1-bit optimizer took from params'
    if plain in CLASSES:
        return f'write "{CLASSES[plain]}": DeepSpeed picks the class itself, the CPU one when it offloads'
    near = nearest(kind, [*own, *annotation(config, SECTION, "x-torch-optimizers")])
    if near:
        return f'did you mean "{near}"?'
    return "write one of " + ", ".join(sorted(own)) + "; or remove the section and pass the optimizer in code"


@fact
def optimizer_class(config: Config) -> Any:
    """The class DeepSpeed builds: FusedAdam, DeepSpeedCPUAdam with offload, AdamW with torch_adam, ..."""
    name = optimizer_name(config)
    if name is UNKNOWN or name is None:
        return UNKNOWN
    return _variant(config, name)[0]


def _variant(config: Config, name: str) -> tuple[Any, Any]:
    """The class behind a name and the parameters it takes, each UNKNOWN where nobody knows."""
    own = annotation(config, SECTION, "x-optimizers")
    if name not in own:
        return name, annotation(config, SECTION, "x-torch-optimizers")[name]
    entry = own[name]
    if "gpu" not in entry:
        return UNKNOWN, UNKNOWN
    variant = "gpu"
    if parameters(config).get("torch_adam") and "torch_adam" in entry:
        variant = "torch_adam"
    else:
        offloads = config.offloads(OFFLOAD)
        if offloads is UNKNOWN:
            return UNKNOWN, UNKNOWN
        variant = "cpu_offload" if offloads and "cpu_offload" in entry else "gpu"
    return entry.get("classes", {}).get(variant, UNKNOWN), entry[variant]


@once
def _strange(config: Config) -> Any:
    """Parameters the class does not take, as Items with `key`, `kind` and `cure`."""
    name = optimizer_name(config)
    if name is UNKNOWN or name is None:
        return []
    kind, taken = _variant(config, name)
    if kind is UNKNOWN:
        return []
    found = []
    for key in parameters(config):
        if key in taken or key == "max_grad_norm":
            continue
        near = nearest(key, taken)
        advice = HINTS.get(key, f"remove it; {kind} takes {', '.join(taken)}")
        cure = f"did you mean {near}?" if near else advice
        found.append(Item((*PARAMS, key), {"key": key, "kind": kind, "cure": cure, "near": near}))
    return found


@fact
def optimizer_unknown_parameters(config: Config) -> Any:
    """Parameters that the constructor refuses (Muon, which drops what it does not know, apart)."""
    return [] if optimizer_name(config) == "muon" else _strange(config)


@fact
def muon_dropped_parameters(config: Config) -> Any:
    """Parameters that Muon does not know and drops without a word."""
    return _strange(config) if optimizer_name(config) == "muon" else []


@fact
def optimizer_refused_values(config: Config) -> Any:
    """Parameters whose value the constructor cannot take: TypeError or ValueError in initialize."""
    return [item for phase, item in _bad_values(config) if phase == "initialize"]


@fact
def optimizer_crashing_values(config: Config) -> Any:
    """Parameters whose value is stored and ends in a TypeError in the first optimizer step."""
    return [item for phase, item in _bad_values(config) if phase == "step"]


@once
def _bad_values(config: Config) -> list[tuple[str, Item]]:
    name = optimizer_name(config)
    if name is UNKNOWN or name is None:
        return []
    kind, taken = _variant(config, name)
    if kind is UNKNOWN:
        return []
    late = kind in AT_STEP
    found = []
    for key, value in parameters(config).items():
        path = (*PARAMS, key)
        if key not in taken or config.origin(path).kind == "filled" or stopped(config, value):
            continue
        phase = "step" if late and key != "ns_method" else "initialize"
        if kind == "ASGD" and key in ASGD_AT_STEP:
            phase = "step"
        if late and (key in RATES or key == "betas"):
            phase = _use(config, key)
            if phase == "overwritten":
                continue
        expected = _expected(key, value, kind, late)
        if expected and key == "betas" and _numbers(value) and len(value) > 2:
            phase = "step"  # the third is in the way only where step() unpacks them
        if key == "nesterov" and kind == "SGD" and value and not _nesterov(parameters(config)):
            expected = "false unless momentum is above 0 and dampening is 0"
        if kind == "DeepSpeedCPUAdam" and not _fits_switch(key, value, name):
            phase = "step" if key == "bias_correction" else "initialize"
            expected = "true or false"
        if expected:
            values = {"key": key, "kind": kind, "got": described(value), "expected": expected}
            found.append((phase, Item(path, values)))
    return found


def _expected(key: str, value: Any, kind: str, late: bool) -> str:
    """What a parameter must be, in words; empty where the value is."""
    if key == "ns_method":
        return "" if value in NS_METHODS else "one of gram, standard"
    built_by_torch = not late and not kind.startswith("DeepSpeed")
    if key == "betas":
        return "" if _fits_pair(value, built_by_torch) else "two numbers from 0 to below 1"
    if key == "eps" and kind == "Adafactor":
        fits = isinstance(value, list) and len(value) >= 2 and (value[0] is None or _number(value[0]))
        return "" if fits and _number(value[1]) else "two numbers, of which the first may be null"
    if key not in NUMBERS:
        return ""
    if not _number(value):
        return "a number"
    low, high = LIMITS.get(key, (-math.inf, math.inf))
    if low <= value <= high or not built_by_torch or (kind == "ASGD" and key == "alpha"):
        return ""
    if math.isinf(high):
        return f"a number of at least {low}"
    return f"a number of at most {high}" if math.isinf(low) else f"a number from {low} to {high}"


def _fits_pair(value: Any, ranged: bool) -> bool:
    """Whether betas are what a constructor or step takes; torch's own check the range, too."""
    return _numbers(value) and len(value) == 2 and (not ranged or all(0 <= item < 1 for item in value))


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(_number(item) for item in value)


def _nesterov(params: dict[str, Any]) -> bool:
    """Whether SGD's momentum and dampening allow Nesterov momentum, as far as they are numbers."""
    momentum, dampening = params.get("momentum", 0), params.get("dampening", 0)
    return not _number(momentum) or not _number(dampening) or (momentum > 0 and dampening == 0)


def _fits_switch(key: str, value: Any, name: str) -> bool:
    """Whether a switch is one that DeepSpeedCPUAdam's C++ part takes: it converts no text and no list."""
    if key == "bias_correction" or (key == "adam_w_mode" and name == "adam"):
        return value is None or _number(value)
    return True


def _use(config: Config, key: str) -> str:
    """What a DeepSpeed scheduler does with a wrong learning rate or betas before the first step.

    "overwritten": they are replaced and harm nothing; "initialize": the scheduler calculates with them
    and fails; "step": nobody touches them before the optimizer does.
    """
    scheduler = config.written(("scheduler", "type"))
    params = config.written(("scheduler", "params"))
    params = params if isinstance(params, dict) else {}
    if key == "betas":
        return "overwritten" if scheduler == "OneCycle" and params.get("cycle_momentum", True) else "step"
    if scheduler in ("LRRangeTest", "OneCycle"):
        return "overwritten"
    if scheduler == "WarmupDecayLR" and params.get("warmup_max_lr", 0) is not None:
        return "overwritten"
    if scheduler == "WarmupLR" and (
        params.get("warmup_max_lr") is not None or config.target.release_number < (0, 17, 2)
    ):
        return "overwritten"
    return "step" if scheduler is None or scheduler == "WarmupCosineLR" else "initialize"


@fact
def amsgrad_refused(config: Config) -> Any:
    """Whether the class knows amsgrad only to refuse it; DeepSpeedCPUAdam ignored it before 0.19.8."""
    kind = optimizer_class(config)
    if kind is UNKNOWN or not parameters(config).get("amsgrad"):
        return False
    return kind in ("FusedAdam", "FusedLamb", *ONE_BIT_CLASSES) or (
        kind == "DeepSpeedCPUAdam" and config.target.release_number >= (0, 19, 8)
    )


@fact
def optimizer_untested(config: Config) -> Any:
    """Whether the class is none of those ZeRO was tested with (1-bit ones, refused anyway, apart).

    Muon is on the list only since 0.18.5: before, the list imported it from where it was not.
    """
    kind, tested = optimizer_class(config), annotation(config, SECTION, "x-zero-tested-optimizers")
    if kind is UNKNOWN or tested is UNKNOWN:
        return UNKNOWN
    if kind == "MuonWithAuxAdam":
        return config.target.release_number < (0, 18, 5)
    return kind not in tested and kind not in ONE_BIT_CLASSES


@fact
def optimizer_cycles_momentum(config: Config) -> Any:
    """Whether the optimizer has betas, whose first OneCycle can cycle as momentum."""
    name = optimizer_name(config)
    if name is UNKNOWN or name is None:
        return UNKNOWN
    kind, taken = _variant(config, name)
    if kind is UNKNOWN:
        return UNKNOWN
    return "betas" in taken and name != "muon"


@fact
def optimizer_lr(config: Config) -> Any:
    """The learning rate in optimizer.params, the default of the class where none is given."""
    name = optimizer_name(config)
    if name is UNKNOWN or name is None:
        return UNKNOWN
    path = (*PARAMS, "lr")
    if config.has(path):
        value = config.value(path)
        fits = _number(value) and not isinstance(value, bool) and math.isfinite(value)
        return value if fits else UNKNOWN
    own = annotation(config, SECTION, "x-optimizers").get(name, {})
    return own.get("defaults", {}).get("lr", UNKNOWN)
