"""Values that DeepSpeed reads without checking them: "auto" that stays, booleans in quotes, wrong types."""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.document import Path, dotted
from dslint.expression import UNKNOWN
from dslint.facts.optimizer import described, stopped
from dslint.facts.registry import Item, autos, fact, once, texts
from dslint.values import schema_at

FALSE_WORDS = ("false", "no", "off", "0", "none", "null", "f", "n")

EFFECTS = {
    "fp16.enabled": ", so nothing is cast to fp16",
    "bf16.enabled": ", so nothing is cast to bf16",
    "zero_optimization.stage": ", so nothing is partitioned",
}
"""What the default means, where it is not what the key suggests."""


@fact
def clipping_not_a_number(config: Config) -> Any:
    """Whether gradient_clipping is given as what Python cannot compare with a number."""
    path = ("gradient_clipping",)
    if not config.has(path) or config.origin(path).kind == "filled":
        return False
    value = config.written(path)
    return not isinstance(value, (int, float)) and not stopped(config, value)


@fact
def clipping_written(config: Config) -> Any:
    """gradient_clipping as the file has it, in words."""
    return described(config.written(("gradient_clipping",)))


@fact
def predivide_crashes(config: Config) -> Any:
    """Whether gradients get divided by a gradient_predivide_factor that is no number, or zero.

    Stages 2 and 3 with reduce_scatter refuse the key earlier, stage 1 with it does not read it.
    """
    path, zero = ("gradient_predivide_factor",), ("zero_optimization",)
    if not config.has(path) or config.value(("gradient_allreduce_op",)) not in ("mean", None):
        return False
    stage, scatters = config.value((*zero, "stage")), config.value((*zero, "reduce_scatter"))
    if stage is UNKNOWN or (stage != 0 and scatters is not False):
        return False
    value = config.written(path)
    if stopped(config, value):
        return False
    return not isinstance(value, (int, float)) or (value == 0 and stage != 3)


PROFILER = {
    "profile_step": ((int, float), "a number"),
    "module_depth": ((int,), "a whole number"),
    "top_modules": ((int, float), "a number"),
    "recompute_fwd_factor": ((int, float), "a number"),
}
"""Keys of flops_profiler that are calculated with: what Python takes, and how to say it."""


@fact
def profiler_crashing_values(config: Config) -> Any:
    """Keys of flops_profiler that the profiler cannot calculate with, as Items."""
    found = []
    step = config.value(("flops_profiler", "profile_step"))
    for key, (types, expected) in PROFILER.items():
        path = ("flops_profiler", key)
        value = config.written(path)
        reached = key == "profile_step" or (isinstance(step, int) and step >= 1)
        if config.has(path) and reached and not isinstance(value, types) and not stopped(config, value):
            values = {"key": key, "got": described(value), "expected": expected}
            found.append(Item(path, values))
    return found


@fact
def scaler_texts(config: Config) -> Any:
    """Numbers of an enabled fp16 section given as text, which loss scaling calculates with, as Items.

    Run at stages 0, 2 and 3 in 0.9.5, 0.14.4, 0.17.0 and 0.17.1, which reads them as numbers.
    """
    if config.value(("fp16", "enabled")) is not True:
        return []
    if _is_text(config, ("fp16", "loss_scale")):
        return [Item(("fp16", "loss_scale"), {"key": "loss_scale", "when": "the first step"})]
    if config.value(("fp16", "loss_scale")) != 0:
        return []
    overflow = "the first overflow, for most runs the first step,"
    keys = {"loss_scale_window": "the first step without overflow", "min_loss_scale": overflow}
    if config.value(("zero_optimization", "stage")) in (1, 2, 3):
        keys["hysteresis"] = overflow
    return [
        Item(("fp16", key), {"key": key, "when": when})
        for key, when in keys.items()
        if _is_text(config, ("fp16", key))
    ]


STEP = ("schedule_config", "difficulty_step")
DEGREE = ("schedule_config", "root_degree")
CURRICULUM = (
    ("min_difficulty",),
    ("max_difficulty",),
    ("schedule_config", "total_curriculum_step"),
    STEP,
    DEGREE,
)
ELASTIC = (
    "max_train_batch_size",
    "min_gpus",
    "max_gpus",
    "min_time",
    "num_gpus_per_node",
    "model_parallel_size",
)
"""Keys of sections that DeepSpeed reads as a dict and calculates with."""


@fact
def curriculum_texts(config: Config) -> Any:
    """Numbers of the legacy curriculum_learning section given as text and calculated with, as Items.

    difficulty_step is at the start, all others while the difficulty is below max_difficulty: with both as
    text "8" is not below "1024", and the model is handed "8" (curriculum_scheduler.py, update_difficulty;
    run in 0.14.4 and 0.19.7).
    """
    section = "curriculum_learning"
    kind = config.written((section, "schedule_type"))
    if kind not in ("fixed_linear", "fixed_root"):
        return []
    low, high = (config.written((section, *path)) for path in CURRICULUM[:2])
    try:
        grows = low < high
    except TypeError:
        grows = True
    read = CURRICULUM if grows else (STEP,)
    return [
        Item((section, *path), {"key": dotted(path)})
        for path in read
        if (path != DEGREE or kind == "fixed_root") and _is_text(config, (section, *path))
    ]


@fact
def elastic_texts(config: Config) -> Any:
    """Numbers of the elasticity section given as text, as Items."""
    paths = [("elasticity", key) for key in ELASTIC]
    found = [Item(path, {"key": path[-1]}) for path in paths if _is_text(config, path)]
    sizes = config.written(("elasticity", "micro_batch_sizes"))
    if isinstance(sizes, list) and any(isinstance(size, str) for size in sizes):
        found.append(Item(("elasticity", "micro_batch_sizes"), {"key": "micro_batch_sizes"}))
    return found


def _is_text(config: Config, path: Path) -> bool:
    value = config.written(path)
    return isinstance(value, str) and not stopped(config, value) and config.origin(path).kind != "filled"


@fact
def dropped_autos(config: Config) -> Any:
    """Keys with "auto" that nobody fills and DeepSpeed drops, as Items with `key`, `used` and `effect`."""
    found = []
    for path in autos(config):
        if config.written(path) != "auto" or not schema_at(config.schema, path):
            continue  # another spelling beside it counts
        default = config.value(path)
        if config.origin(path).kind == "dropped" and default != "auto":
            used = "null" if default is None else default
            values = {"key": dotted(path), "used": used, "effect": EFFECTS.get(dotted(path), "")}
            found.append(Item(path, values))
    return found


@fact
def quoted_switches(config: Config) -> Any:
    """Switches of unchecked sections given as text that says no, which counts as true."""
    found = [(path, value) for path, value in _switches(config) if value.strip().lower() in FALSE_WORDS]
    told = {problem.path for problem in config.document.departures} if found else set()
    return [
        Item(path, {"key": dotted(path), "text": value})
        for path, value in found
        if (*config.base, *path) not in told
    ]


@fact
def autos_kept(config: Config) -> Any:
    """Switches of unchecked sections given as "auto", which nobody fills and which counts as true."""
    return [Item(path, {"key": dotted(path)}) for path, value in _switches(config) if value == "auto"]


@once
def _switches(config: Config) -> list[tuple[Path, str]]:
    """Texts where a section that converts nothing has a switch."""
    found = []
    for path, value in texts(config):
        key = config.values.keys_of[path]
        if key.converted or key.schema.get("x-type") != "boolean" or "x-removed" in key.schema:
            continue
        if _reaches(key.schema) and config.origin(path).kind != "filled":
            found.append((path, value))
    return found


def _reaches(known: Any) -> bool:
    """Whether the schema lets text pass, so that DeepSpeedConfig does not refuse it first."""
    types = known.get("type")
    return types is None or "string" in ([types] if isinstance(types, str) else types)
