"""Findings: what the linter says, how bad it is, when it would bite, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.settings import Target

SEVERITIES = ("error", "warning", "info")
"""From worst to mildest.

error: what the file asks for will not happen: this release refuses it, crashes, or nobody reads the
key because it is misspelled or misplaced. warning: it runs, but something written has no effect or
costs memory, time or accuracy nobody meant to spend. info: advice worth reading once.
"""

PHASES = ("load", "trainer", "config", "initialize", "step", "save", "run")
"""When the user would have met it.

load: the loader cannot read the file. trainer: HF Trainer, accelerate or a framework refuses before
DeepSpeed sees it. config: DeepSpeedConfig raises. initialize: deepspeed.initialize raises. step: the
first training steps crash. save: a checkpoint or export fails or is useless. run: it runs, but not
as meant.
"""


class Edit(NamedTuple):
    """Replace the characters from `start` to `end` (offsets) by `text`."""

    start: int
    end: int
    text: str


class Fix(NamedTuple):
    """Edits that mend a finding. Safe: DeepSpeed's behaviour stays, or a certain crash goes away."""

    title: str
    safe: bool
    edits: tuple[Edit, ...]


class Finding(NamedTuple):
    """One thing to say about one place. `start` and `end` are character offsets."""

    code: str
    name: str
    severity: str
    phase: str
    message: str
    key: str
    start: int
    end: int
    cure: str = ""
    fix: Fix | None = None
    releases: str = ""


def at_least(severity: str, threshold: str) -> bool:
    """Whether `severity` is at or above `threshold` ("never" is above all)."""
    return threshold != "never" and SEVERITIES.index(severity) <= SEVERITIES.index(threshold)


class Section(NamedTuple):
    """What was found out about a file besides findings: an estimate, a verification.

    `data` stands under `name` in the JSON report; `lines` are the same for people, unescaped.
    """

    name: str
    data: dict[str, Any]
    lines: tuple[str, ...]


class Suppressed(NamedTuple):
    """A finding that is not reported, and why: the file says so, or a baseline knows it."""

    finding: Finding
    reason: str = ""
    by: str = "file"  # or "baseline"


@dataclass(slots=True)
class FileReport:
    """The findings in one file, in the order of the text, and what it was judged for.

    `others`: what else it was judged for, where several runs name it.
    """

    document: Document
    target: Target
    findings: list[Finding]
    sections: list[Section] = field(default_factory=list)
    others: list[Target] = field(default_factory=list)
    suppressed: list[Suppressed] = field(default_factory=list)
