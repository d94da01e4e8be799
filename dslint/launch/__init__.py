"""How a run is started: the TrainingArguments, the number of processes, the config it names.

Read from a JSON or YAML file of arguments (:mod:`dslint.launch.files`) or from the commands of a shell
script (:mod:`dslint.launch.script`). What neither says is unknown: a script may define its own defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dslint.expression import UNKNOWN

Look = Callable[[str], "bytes | None"]
"""Gives the bytes of a file by its path, or None where it cannot be had."""

STABLE = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "max_grad_norm": 1.0,
    "learning_rate": 5e-5,
    "weight_decay": 0.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "warmup_steps": 0,
    "warmup_ratio": 0.0,
    "max_steps": -1,
    "fp16": False,
    "bf16": False,
    "fp16_full_eval": False,
    "bf16_full_eval": False,
    "lr_scheduler_type": "linear",
    "optim": "adamw_torch_fused",
    "auto_find_batch_size": False,
    "save_only_model": False,
    "load_best_model_at_end": False,
    "do_train": False,
    "do_eval": False,
    "do_predict": False,
    "save_on_each_node": False,
    "fsdp": None,
}
"""Defaults of TrainingArguments in transformers 5.24 (those of 4.x differ in optim: adamw_torch)."""

SWIFT = {
    **STABLE,
    "per_device_train_batch_size": 1,
    "adam_beta2": 0.95,
    "weight_decay": 0.1,
    "lr_scheduler_type": "cosine",
    "max_grad_norm": 1.0,
}
"""ms-swift's defaults where they differ and do not depend on anything else."""

ALWAYS: dict[str, Any] = {"fp16_full_eval": False, "bf16_full_eval": False}
"""Defaults that no class is known to change."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "llamafactory": STABLE,
    "axolotl": {"gradient_accumulation_steps": 1, "per_device_train_batch_size": 1},
}
"""Defaults that count as known: the class that reads the arguments is the framework's, not the user's."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A value and the line it stands on, from 1; UNKNOWN where it depends on the environment.

    `file` is the file it stands in where that is not the one that describes the run.
    """

    value: Any
    line: int = 0
    file: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """One run, as far as a file tells.

    `arguments` have the names that TrainingArguments gives them, whoever reads them; `launcher` holds
    what `accelerate launch` was given on its command line or in its config file (under `given` the names of
    those on the command line, where there is a file). `complete` is False
    where something unresolved, such as "$@", may give more. `config` is the DeepSpeed config that the
    run names, as written; None where it names none. `via` is the file of arguments that a framework's
    command is given.
    """

    name: str
    trainer: str
    arguments: dict[str, Argument] = field(default_factory=dict)
    launcher: dict[str, Argument] = field(default_factory=dict)
    complete: bool = True
    config: str | None = None
    config_line: int = 0
    processes: int | None = None
    processes_line: int = 0
    accelerate: bool = False
    via: str = ""

    def given(self, name: str) -> bool:
        """Whether the file gives an argument."""
        return name in self.arguments

    def value(self, name: str) -> Any:
        """The value of an argument: as given, or the default of a class that is known; else UNKNOWN."""
        if name in self.arguments:
            return self.arguments[name].value
        if not self.complete:
            return UNKNOWN
        return {**ALWAYS, **DEFAULTS.get(self.trainer, {})}.get(name, UNKNOWN)

    def likely(self, name: str) -> Any:
        """The value, or what it is unless the training script has a default of its own."""
        value = self.value(name)
        if value is UNKNOWN and self.complete and name not in self.arguments:
            return (SWIFT if self.trainer == "ms-swift" else STABLE).get(name, UNKNOWN)
        return value

    def where(self, name: str) -> str:
        """Where an argument stands, in words: "train.sh:12"."""
        argument = self.arguments.get(name)
        return place(argument.file or self.name, argument.line) if argument is not None else "by default"


def place(name: str, line: int) -> str:
    """A place in a file as people write it."""
    return f"{name}:{line}" if line else name
