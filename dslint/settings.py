"""What the user says about the run: which release, which trainer, how many GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dslint.releases import number

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.launch import Launch
    from dslint.memory.workload import Workload

TRAINERS = ("raw", "hf", "accelerate", "lightning", "llamafactory", "axolotl", "ms-swift")
"""Who hands the config to DeepSpeed; raw: the user's own script does."""


class UsageError(Exception):
    """A request that cannot be carried out; the message is one line with the cure."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a config is judged for.

    `gpus` counts processes, one GPU each; None: unknown, and rules that need it stay silent.
    `release_reason` and `trainer_reason` say in words why these were chosen. `launch` is the run that
    names the config, where it is known; `companion` the file that belongs to it: the accelerate config
    that names this DeepSpeed config, or the DeepSpeed config that this accelerate config names.
    `workload` is the model and the machine, for rules about memory; None: nothing is said about them.
    """

    release: str
    trainer: str = "raw"
    gpus: int | None = None
    release_reason: str = "given"
    trainer_reason: str = "given"
    launch: Launch | None = None
    companion: Document | None = None
    workload: Workload | None = None

    @property
    def release_number(self) -> tuple[int, ...]:
        """The release as numbers to compare."""
        return number(self.release)
