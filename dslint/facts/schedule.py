"""The learning-rate scheduler that DeepSpeed builds from the section `scheduler`, and what it takes.

`scheduler.params` are passed on as keyword arguments (runtime/engine.py, _scheduler_from_config), so
what is allowed is the signature of the class (runtime/lr_schedules.py, 0.19.8). The signatures come from
the schema of the release (`x-schedulers`, `x-torch-schedulers`).
"""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.document import Path
from dslint.expression import UNKNOWN
from dslint.facts.optimizer import (
    annotation,
    described,
    optimizer_cycles_momentum,
    optimizer_lr,
    stopped,
)
from dslint.facts.precision import precision
from dslint.facts.registry import Item, fact, once
from dslint.suggest import nearest

SECTION = ("scheduler",)
TYPE = ("scheduler", "type")
PARAMS = ("scheduler", "params")

WARMING_UP = ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR")
WARMUP_TYPES = ("log", "linear")
COSINE_CHECKS = (0, 19, 4)
"""The release in which WarmupCosineLR began to check its warmup_type; before, an unknown one crashes."""

WHOLE = {"warmup_num_steps": (0, 19, 3), "lr_range_test_step_size": (0, 19, 4)}
"""Parameters that must be whole numbers above zero, and the release that began to check it."""

NUMBERS = {"lr_range_test_step_rate": "step", "decay_lr_rate": "initialize", "decay_step_size": "initialize",
           "decay_mom_rate": "initialize", "cycle_first_stair_count": "step", "total_num_steps": "initialize",
           "warmup_min_ratio": "step", "cos_min_ratio": "step"}  # fmt: skip
"""Parameters that are calculated with, and where anything but a number crashes."""

PER_GROUP = {
    "warmup_min_lr": "initialize", "warmup_max_lr": "initialize", "lr_range_test_min_lr": "step",
    "cycle_min_lr": "step", "cycle_max_lr": "step", "cycle_min_mom": "step", "cycle_max_mom": "step",
}  # fmt: skip
"""Parameters that are a number, or a list of one for each group of parameters."""

MOMENTUM = ("cycle_min_mom", "cycle_max_mom", "decay_mom_rate")
"""Parameters of OneCycle that are read only where it cycles momentum."""


def parameters(config: Config) -> dict[str, Any]:
    """`scheduler.params` as the file gives it; {} where it gives none or no object."""
    params = config.written(PARAMS)
    return params if isinstance(params, dict) else {}


@fact
def scheduler_type(config: Config) -> Any:
    """scheduler.type where it is text; UNKNOWN where DeepSpeed builds no scheduler or nobody knows."""
    kind = config.value(TYPE)
    return kind if isinstance(kind, str) else UNKNOWN


@fact
def scheduler_unknown(config: Config) -> Any:
    """Whether neither DeepSpeed nor torch has a scheduler of this name, which counts upper and lower case."""
    own = annotation(config, SECTION, "x-schedulers")
    torch = annotation(config, SECTION, "x-torch-schedulers")
    if UNKNOWN in (own, torch) or not config.has(TYPE) or config.origin(TYPE).kind == "filled":
        return UNKNOWN
    kind = config.written(TYPE)
    if kind is None or stopped(config, kind):
        return False
    return not isinstance(kind, str) or (kind not in own and kind not in torch)


@fact
def scheduler_proposal(config: Config) -> Any:
    """What to write instead of a scheduler that nobody knows, in words."""
    kind = config.written(TYPE)
    own = list(annotation(config, SECTION, "x-schedulers"))
    torch = annotation(config, SECTION, "x-torch-schedulers")
    near = nearest(kind, [*own, *torch]) if isinstance(kind, str) else None
    if near:
        return f'did you mean "{near}"?'
    return "write one of " + ", ".join(own) + "; or remove the section and pass a scheduler in code"


@fact
def scheduler_params_missing(config: Config) -> Any:
    """Whether the section names a type and gives no object as params."""
    if not config.has(TYPE) or config.written(TYPE) is None or config.origin(PARAMS).kind == "filled":
        return False
    return not isinstance(config.written(PARAMS), dict)


@once
def _signature(config: Config) -> Any:
    """{"params": {name: default}, "required": [name]} of DeepSpeed's own scheduler; UNKNOWN for others."""
    kind, own = scheduler_type(config), annotation(config, SECTION, "x-schedulers")
    if kind is UNKNOWN or own is UNKNOWN or not isinstance(config.written(PARAMS), dict):
        return UNKNOWN
    return own.get(kind, UNKNOWN)


@fact
def scheduler_unknown_parameters(config: Config) -> Any:
    """Parameters that the constructor refuses, as Items with `key`, `kind` and `cure`."""
    signature = _signature(config)
    if signature is UNKNOWN:
        return []
    taken = [*signature["required"], *signature["params"]]
    kind = scheduler_type(config)
    found = []
    for key in parameters(config):
        if key not in taken:
            near = nearest(key, [name for name in taken if name not in parameters(config)])
            cure = f"did you mean {near}?" if near else f"remove it; {kind} takes {', '.join(taken)}"
            found.append(Item((*PARAMS, key), {"key": key, "kind": kind, "cure": cure, "near": near}))
    return found


@fact
def scheduler_missing_parameters(config: Config) -> Any:
    """Parameters without a default that the file does not give, each an Item at params."""
    signature = _signature(config)
    if signature is UNKNOWN:
        return []
    given = parameters(config)
    values = {"kind": scheduler_type(config)}
    return [Item(PARAMS, {"key": key, **values}) for key in signature["required"] if key not in given]


@fact
def scheduler_refused_values(config: Config) -> Any:
    """Parameters whose value the constructor cannot take, as Items with `key`, `got` and `expected`."""
    return [item for phase, item in _bad_values(config) if phase == "initialize"]


@fact
def scheduler_crashing_values(config: Config) -> Any:
    """Parameters whose value is stored and crashes when the schedule first calculates with it."""
    return [item for phase, item in _bad_values(config) if phase == "step"]


@once
def _bad_values(config: Config) -> list[tuple[str, Item]]:
    signature = _signature(config)
    if signature is UNKNOWN:
        return []
    taken = [*signature["required"], *signature["params"]]
    found = []
    for key, value in parameters(config).items():
        path = (*PARAMS, key)
        if key not in taken or config.origin(path).kind == "filled" or stopped(config, value):
            continue
        phase, expected = _judge(config, key, value)
        if expected:
            values = {"key": key, "kind": scheduler_type(config), "got": described(value)}
            values["expected"] = expected
            found.append((phase, Item(path, values)))
    return found


def _judge(config: Config, key: str, value: Any) -> tuple[str, str]:
    """When a value crashes and what it must be, in words; empty words where it is right."""
    number = isinstance(value, (int, float))
    if key in WHOLE:
        if config.target.release_number >= WHOLE[key]:
            if isinstance(value, float) or _has_fraction(config, (*PARAMS, key)):
                return "initialize", "a whole number above 0, written without a decimal point"
            return "initialize", "" if isinstance(value, int) and value > 0 else "a whole number above 0"
        if key == "warmup_num_steps":
            return "initialize", "" if number else "a number"
        return "step", "" if number and value != 0 else "a number above 0"
    if key in ("cycle_first_step_size", "cycle_second_step_size"):
        return "initialize", _step_size(config, key, value)
    if key == "warmup_type":
        if config.target.release_number < COSINE_CHECKS and scheduler_type(config) == "WarmupCosineLR":
            return "step", "" if value in WARMUP_TYPES else "log or linear"
        return "initialize", "log or linear" if isinstance(value, (list, dict)) else ""
    if key in MOMENTUM and not _cycles_momentum(config):
        return "step", ""
    if key in NUMBERS:
        unread = key == "cycle_first_stair_count" and config.target.release_number < (0, 19, 4)
        return NUMBERS[key], "" if number or unread else "a number"
    if key in PER_GROUP:
        if key == "warmup_max_lr" and value is None and config.target.release_number >= (0, 17, 2):
            return "initialize", ""
        if isinstance(value, list):
            fits = bool(value) and all(isinstance(item, (int, float)) for item in value)
            return "initialize" if not value else PER_GROUP[key], "" if fits else "a number"
        return PER_GROUP[key], "" if number else "a number"
    return "step", ""


def _cycles_momentum(config: Config) -> bool:
    """Whether OneCycle surely cycles momentum: not told otherwise, over an optimizer that has betas."""
    return optimizer_cycles_momentum(config) is True and bool(parameters(config).get("cycle_momentum", True))


def _has_fraction(config: Config, path: Path) -> bool:
    """Whether a strict JSON reader makes a float of a number as it is written: 10.0, 1e3.

    DeepSpeed's own reader turns such a float into an integer, the trainers' json.load does not.
    """
    return config.target.trainer != "raw" and _looks_like_float(config, path)


def _looks_like_float(config: Config, path: Path) -> bool:
    place = config.document.find(config.file_path(path))
    text = "" if place is None else config.document.text[place.node.span.start : place.node.span.end]
    return any(sign in text for sign in ".eE")


def _step_size(config: Config, key: str, value: Any) -> str:
    """OneCycle turns its step sizes into floats, text too, and checks their sign since 0.19.4."""
    if value is None and key == "cycle_second_step_size":
        return ""
    if isinstance(value, (list, dict, type(None))):
        return "a number"
    try:
        size = float(value)
    except ValueError:
        return "a number"
    if config.target.release_number < (0, 19, 4):
        return ""
    if key == "cycle_first_step_size":
        return "" if size > 0 else "a number above 0"
    return "" if size >= 0 else "a number of at least 0"


@fact
def schedule_steps_as_float(config: Config) -> Any:
    """Whole numbers above zero that must be integers and are written as floats: 10.0, 1e3."""
    signature = _signature(config)
    found = []
    for key in WHOLE:
        value, path = parameters(config).get(key), (*PARAMS, key)
        if signature is UNKNOWN or key not in signature["params"] or not isinstance(value, int) or value <= 0:
            continue
        if config.target.release_number >= WHOLE[key] and _looks_like_float(config, path):
            found.append(Item(path, {"key": key, "kind": scheduler_type(config)}))
    return found


@fact
def scheduler_wraps(config: Config) -> Any:
    """Whether the optimizer is wrapped (ZeRO, fp16, bf16), so that a torch scheduler cannot take it."""
    stage, kind = config.value(("zero_optimization", "stage")), precision(config)
    if stage is not UNKNOWN and stage >= 1:
        return True
    if kind in ("fp16", "bf16"):
        return True
    return UNKNOWN if stage is UNKNOWN or kind is UNKNOWN else False


@fact
def scheduler_is_torch(config: Config) -> Any:
    """Whether the scheduler is one of torch.optim.lr_scheduler."""
    kind, torch = scheduler_type(config), annotation(config, SECTION, "x-torch-schedulers")
    own = annotation(config, SECTION, "x-schedulers")
    if UNKNOWN in (kind, torch, own):
        return UNKNOWN
    return kind in torch and kind not in own


@fact
def warmup_peak(config: Config) -> Any:
    """The learning rate that WarmupLR or WarmupDecayLR warms up to; None where the schedule sets none."""
    kind = scheduler_type(config)
    if kind is UNKNOWN or kind not in ("WarmupLR", "WarmupDecayLR") or _signature(config) is UNKNOWN:
        return UNKNOWN
    path = (*PARAMS, "warmup_max_lr")
    value = config.value(path) if config.has(path) else _signature(config)["params"].get("warmup_max_lr")
    return value if value is None or _rate(value) else UNKNOWN


def _rate(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@fact
def warmup_peak_is_default(config: Config) -> Any:
    """Whether the peak is the scheduler's own default, although the optimizer's rate was given."""
    peak = warmup_peak(config)
    if peak is UNKNOWN or peak is None or config.has((*PARAMS, "warmup_max_lr")):
        return False
    rate = config.written(("optimizer", "params", "lr"))
    return rate == "auto" or (_rate(rate) and rate != peak)


@fact
def warmup_peak_overrides(config: Config) -> Any:
    """Whether a written peak differs from the optimizer's written learning rate, which it replaces."""
    peak, rate = warmup_peak(config), optimizer_lr(config)
    if UNKNOWN in (peak, rate) or peak is None:
        return UNKNOWN
    if not config.has(("optimizer", "params", "lr")) or not config.has((*PARAMS, "warmup_max_lr")):
        return False
    return bool(peak != rate)


@fact
def warmup_steps(config: Config) -> Any:
    """Optimizer steps of warm-up, by default 1000."""
    return _steps(config, "warmup_num_steps")


@fact
def schedule_steps(config: Config) -> Any:
    """total_num_steps: optimizer steps after which WarmupDecayLR and WarmupCosineLR have come down."""
    return _steps(config, "total_num_steps")


def _steps(config: Config, key: str) -> Any:
    signature = _signature(config)
    if signature is UNKNOWN or scheduler_type(config) not in WARMING_UP:
        return UNKNOWN
    path = (*PARAMS, key)
    value = config.value(path) if config.has(path) else signature["params"].get(key, UNKNOWN)
    return value if _rate(value) else UNKNOWN


@fact
def warmup_type_unknown(config: Config) -> Any:
    """Whether a written warmup_type is neither log nor linear, so that log is used."""
    if _signature(config) is UNKNOWN or scheduler_type(config) not in WARMING_UP:
        return UNKNOWN
    if scheduler_type(config) == "WarmupCosineLR" and config.target.release_number < COSINE_CHECKS:
        return False
    value = parameters(config).get("warmup_type", "log")
    return value not in WARMUP_TYPES and not isinstance(value, (list, dict))


@fact
def momentum_keys(config: Config) -> Any:
    """Parameters of OneCycle's momentum that the file gives although the optimizer has none to cycle."""
    if scheduler_type(config) != "OneCycle" or optimizer_cycles_momentum(config) is not False:
        return []
    return [Item((*PARAMS, key), {"key": key}) for key in MOMENTUM if key in parameters(config)]


@fact
def onecycle_replaces_betas(config: Config) -> Any:
    """Whether OneCycle, which cycles momentum unless told not to, replaces betas that the file gives."""
    given = config.has(("optimizer", "params", "betas"))
    return scheduler_type(config) == "OneCycle" and given and _cycles_momentum(config)
