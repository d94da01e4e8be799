"""What HF Trainer and accelerate do with a config before DeepSpeed sees it: "auto" left over, mismatches.

Source: transformers 5.24 integrations/deepspeed.py (fill_match, trainer_config_process,
trainer_config_finalize) and accelerate 1.15 utils/dataclasses.py (DeepSpeedPlugin.fill_match,
deepspeed_config_process) and accelerator.py (_prepare_deepspeed), read and run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dslint.config import Config
from dslint.document import Path, dotted
from dslint.expression import UNKNOWN
from dslint.facts.registry import Item, autos, fact, once
from dslint.trainers import HF_FILLS, HF_LIKE, NAMES, at, fills, looks_into

_WALKED = (
    "optimizer",
    "optimizer.params",
    "scheduler",
    "scheduler.params",
    "fp16",
    "bf16",
    "zero_optimization",
    "zero_optimization.offload_optimizer",
    "zero_optimization.offload_param",
)
"""Sections in which the trainer looks keys up, so that a string there is an AttributeError."""


@fact
def trainer_name(config: Config) -> Any:
    """What people call the trainer."""
    return NAMES[config.target.trainer]


@fact
def refused_by_accelerate(config: Config) -> Any:
    """ "accelerate raises", with the trainer above it where there is one."""
    above = config.target.trainer
    return "accelerate raises" if above == "accelerate" else f"accelerate, below {NAMES[above]}, raises"


@fact
def auto_left(config: Config) -> Any:
    """Every "auto" that nobody fills under HF Trainer or accelerate, with how the run ends (`this.end`)."""
    if config.target.trainer not in (*HF_LIKE, "accelerate") or config.document.config is not None:
        return []
    return [
        Item(path, {"key": dotted(path), "end": _end(path)}) for path in autos(config) if _left(config, path)
    ]


def _left(config: Config, path: Path) -> bool:
    trainer = config.target.trainer
    if path == ("zero_allow_untested_optimizer",):
        return config.has(("optimizer",))
    if trainer == "accelerate" and path == ("train_batch_size",):
        return not config.has(("train_micro_batch_size_per_gpu",))
    return fills(trainer, path) is None


def _end(path: Path) -> str:
    if dotted(path) in _WALKED:
        return "looking a key up in the string ends in an AttributeError"
    if path == ("tensor_parallel", "autotp_size"):
        return "accelerator.prepare compares it with 1 and raises a TypeError"
    return f"accelerator.prepare raises ValueError (`{dotted(path)}` not found in kwargs)"


@once
def compared(config: Config) -> list[tuple[Any, Any]]:
    """The keys that HF Trainer compares with its arguments and that the file gives: (what, value)."""
    from dslint.trainers.values import COMPARED

    found: list[tuple[Any, Any]] = []
    for what in COMPARED if config.target.trainer in HF_LIKE else ():
        value = at(config.data, what.path)
        if (
            value is None
            or value == "auto"
            or (config.document.config is not None and _asked(config, what.path))
        ):
            continue
        found.append((what, value))
    return found


def _asked(config: Config, path: Path) -> bool:
    """Whether the precision of an accelerate file gives way to what the run's arguments ask for."""
    launch = config.target.launch
    flags = [launch.likely(name) if launch is not None else UNKNOWN for name in ("fp16", "bf16")]
    return path[-1] == "enabled" and (config.value(path) is not True or flags != [False, False])


def _never(config: Config, path: Path, value: Any) -> bool:
    """Whether a value differs from whatever TrainingArguments may hold."""
    name = dotted(path)
    if name == "optimizer.params.betas":
        return not isinstance(value, list) or len(value) != 2 or any(map(_no_number, value))
    if _no_number(value):
        return True
    if name == "scheduler.params.warmup_num_steps":
        # 0 was let pass before transformers 5, and only by releases of DeepSpeed that took it
        return value != int(value) or (value < 1 and config.target.release_number >= (0, 19, 3))
    if name in (
        "scheduler.params.total_num_steps",
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
    ):
        return bool(value != int(value))
    return name in ("fp16.enabled", "bf16.enabled") and value not in (0, 1)


def _no_number(value: Any) -> bool:
    return not isinstance(value, (int, float)) or value != value or value in (float("inf"), float("-inf"))


@fact
def hf_never_equal(config: Config) -> Any:
    """Compared keys whose value no TrainingArguments can have: text, NaN, a warm-up of zero steps."""
    return [
        Item(
            what.path,
            {"value": _shown(value), "label": HF_FILLS[dotted(what.path)], "key": dotted(what.path)},
        )
        for what, value in compared(config)
        if _never(config, what.path, value)
    ]


@fact
def hf_mismatches(config: Config) -> Any:
    """Compared keys that differ from the arguments of the run.

    `this.certain` is False where an argument is not given and the training script may have another default.
    """
    launch = config.target.launch
    if launch is None or config.target.trainer not in HF_LIKE:
        return []
    return list(_mismatches(config, launch))


@fact
def batch_mismatched(config: Config) -> Any:
    """Whether HF Trainer refuses a batch size of the file, before DeepSpeed multiplies any."""
    keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    return any(item.values["certain"] and dotted(item.path) in keys for item in hf_mismatches(config))


def _mismatches(config: Config, launch: Any) -> Iterator[Item]:
    from dslint.trainers.values import computed

    finding_batch_size = launch.likely("auto_find_batch_size")
    for what, value in compared(config):
        if _never(config, what.path, value):
            continue
        if finding_batch_size is not False and dotted(what.path) in (
            "train_batch_size",
            "train_micro_batch_size_per_gpu",
        ):
            continue
        expected = computed(what.path, launch.value, config.target.gpus)
        certain = expected is not UNKNOWN
        if not certain:
            expected = computed(what.path, launch.likely, config.target.gpus)
        if expected is UNKNOWN or value == expected:
            continue
        given = [name for name in what.arguments if launch.given(name)]
        where = launch.where(given[0]) if given else f"the default, for {launch.name} does not give it"
        values = {
            "key": dotted(what.path),
            "value": _shown(value),
            "expected": _shown(expected),
            "label": HF_FILLS[dotted(what.path)],
            "where": where,
            "certain": certain,
        }
        yield Item(what.path, values)


@fact
def hf_fixed(config: Config) -> Any:
    """The first compared key with a value of its own, and all of them in words (`given`), while the
    arguments of the run are unknown.

    A value that the arguments have by default is left out, and a format that is off beside the one that
    is on: they agree until somebody asks for something else.
    """
    if config.target.launch is not None:
        return []
    from dslint.launch import STABLE
    from dslint.trainers.values import computed

    given = compared(config)
    on = any(what.path in (("fp16", "enabled"), ("bf16", "enabled")) and value == 1 for what, value in given)
    found = []
    for what, value in given:
        usual = computed(what.path, STABLE.__getitem__, None)
        agrees = on and value == 0 if what.path[-1] == "enabled" else value == usual
        if not agrees and not _never(config, what.path, value):
            key = dotted(what.path)
            found.append((what.path, f"{key} {_shown(value)} ({HF_FILLS[key]})"))
    return [Item(found[0][0], {"given": ", ".join(words for _, words in found)})] if found else []


def _shown(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value)


@fact
def adapter_run(config: Config) -> Any:
    """Whether the run is known to train adapters (LoRA and the like) only; False where nothing is known."""
    launch, load = config.target.launch, config.target.workload
    if load is not None and load.method in ("lora", "qlora"):
        return True
    if launch is None:
        return False
    kinds = [launch.value(name) for name in ("finetuning_type", "adapter", "tuner_type", "train_type")]
    flags = [launch.value(name) for name in ("use_peft", "use_lora", "lora_enable", "lora")]
    return any(isinstance(kind, str) and "lora" in kind.lower() for kind in kinds) or any(
        f is True for f in flags
    )


@fact
def hf_optimizer(config: Config) -> Any:
    """The run's optim where it is given and differs from the kind that stays AdamW under offload."""
    launch = config.target.launch
    if launch is None or not launch.given("optim"):
        return UNKNOWN
    name = launch.value("optim")
    return name if isinstance(name, str) else UNKNOWN


@fact
def scheduler_replaced(config: Config) -> Any:
    """The run's lr_scheduler_type where it is given and is not what the config's scheduler does."""
    launch = config.target.launch
    if launch is None or not launch.given("lr_scheduler_type"):
        return None
    wanted, kind = launch.value("lr_scheduler_type"), config.value(("scheduler", "type"))
    same = {
        "WarmupLR": ("constant_with_warmup",),
        "WarmupDecayLR": ("linear",),
        "WarmupCosineLR": ("cosine",),
    }
    if not isinstance(wanted, str) or wanted in same.get(kind, ()):
        return None
    return wanted


@fact
def clipping_lost(config: Config) -> Any:
    """Whether the run asks for another clipping than DeepSpeed's default, and there is no key for it."""
    launch = config.target.launch
    asked = UNKNOWN if launch is None else launch.value("max_grad_norm")
    return (
        not config.has(("gradient_clipping",))
        and asked is not UNKNOWN
        and asked != config.default(("gradient_clipping",))
    )


@fact
def accumulation_unknown(config: Config) -> Any:
    """Whether the accumulation steps that the run asks for are unknown."""
    launch = config.target.launch
    return launch is None or launch.value("gradient_accumulation_steps") is UNKNOWN


@fact
def precision_without_enabled(config: Config) -> Any:
    """bf16 and fp16 sections that have no enabled, while the other one is not on."""
    found = []
    for section, other in (("fp16", "bf16"), ("bf16", "fp16")):
        keys = config.data.get(section)
        if isinstance(keys, dict) and "enabled" not in keys and config.value((other, "enabled")) is not True:
            if config.target.launch is None or config.target.launch.likely(section) is not False:
                found.append(Item((section,), {"key": section}))
    return found


@fact
def bfloat16_shadowed(config: Config) -> Any:
    """Whether the file has the old section bfloat16 and no bf16."""
    return "bfloat16" in config.data and "bf16" not in config.data


@fact
def optim_replaced(config: Config) -> Any:
    """Whether the run's optim is given and accelerate makes another kind of optimizer of it under offload."""
    name = hf_optimizer(config)
    offloads = config.offloads(("zero_optimization", "offload_optimizer"))
    if name is UNKNOWN or offloads is UNKNOWN:
        return UNKNOWN
    forced = config.value(("zero_force_ds_cpu_optimizer",))
    kept = name.startswith(("adamw_torch", "adamw_hf", "adamw_apex", "adagrad", "adafactor")) or name in (
        "lion_32bit",
        "paged_lion_32bit",
        "paged_adamw_32bit",
    )
    return offloads and forced is True and not config.has(("optimizer",)) and not kept


@fact
def evaluates_only(config: Config) -> Any:
    """Whether the arguments ask for evaluation or prediction and, as far as they tell, not for training."""
    launch = config.target.launch
    if launch is None or not launch.complete:
        return UNKNOWN
    asked = any(launch.given(name) and launch.value(name) is True for name in ("do_eval", "do_predict"))
    return asked and launch.likely("do_train") is False


@fact
def fsdp_asked(config: Config) -> Any:
    """Whether the run is given a value for fsdp that turns it on."""
    launch = config.target.launch
    return (
        launch is not None
        and launch.given("fsdp")
        and launch.value("fsdp") not in (UNKNOWN, None, "", [], False)
    )


def _asked_precision(config: Config) -> tuple[str, str] | None:
    """What the launcher's mixed_precision asks for, as fp16 or bf16, and where."""
    launch = config.target.launch
    if launch is None or config.document.config is not None:
        return None
    chosen = launch.launcher.get("mixed_precision")
    if chosen is None or chosen.value not in ("fp16", "bf16", "fp8"):
        return None
    from dslint.launch import place

    return str(chosen.value), place(launch.name, chosen.line)


@fact
def precision_contradictions(config: Config) -> Any:
    """fp16.enabled or bf16.enabled where it is on and the launcher asks for the other format."""
    asked = _asked_precision(config)
    if asked is None:
        return []
    other = "bf16" if asked[0] == "fp16" else "fp16"
    value = at(config.data, (other, "enabled"))
    if str(value).lower() != "true":
        return []
    return [Item((other, "enabled"), {"key": f"{other}.enabled", "asked": asked[0], "where": asked[1]})]


@fact
def precision_denials(config: Config) -> Any:
    """fp16.enabled or bf16.enabled where it is false and the launcher asks for this format."""
    asked = _asked_precision(config)
    if asked is None:
        return []
    section = "fp16" if asked[0] == "fp16" else "bf16"
    if at(config.data, (section, "enabled")) is not False:
        return []
    return [Item((section, "enabled"), {"key": f"{section}.enabled", "asked": asked[0], "where": asked[1]})]


@fact
def nulls_refused(config: Config) -> Any:
    """Sections that are null where the trainer looks keys up in them."""
    sections: tuple[Path, ...] = (
        ("fp16",),
        ("bf16",),
        ("zero_optimization",),
        ("zero_optimization", "offload_optimizer"),
    )
    return [
        Item(path, {"key": dotted(path)})
        for path in sections
        if looks_into(config.target.trainer, path, config.has)
        and config.has(path)
        and config.written(path) is None
    ]
