"""What every format for people says alike: when a finding bites, how to mend it, and the closing line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dslint.finding import SEVERITIES
from dslint.report.escape import line_head, visible

if TYPE_CHECKING:
    from dslint.finding import FileReport, Finding

PHASES = {
    "load": "the file cannot be loaded",
    "trainer": "the trainer refuses it before DeepSpeed sees it",
    "config": "DeepSpeedConfig raises",
    "initialize": "deepspeed.initialize raises",
    "step": "crashes in the first training steps",
    "save": "a checkpoint or export fails or is useless",
    "run": "runs, but not as meant",
}
"""When it bites, as said to a person; the keys are those of dslint.finding.PHASES."""


def bites(finding: Finding) -> str:
    """What comes of it, in a few words."""
    return "still read, for now" if finding.name == "deprecated-key" else PHASES[finding.phase]


def said(finding: Finding) -> str:
    """The message, and of a range of releases those in which it holds."""
    return finding.message + (f" (in DeepSpeed {finding.releases})" if finding.releases else "")


def cure(finding: Finding) -> str:
    """What to write instead; where the rule has no words for it, what its fix does. May be empty."""
    return finding.cure or (finding.fix.title if finding.fix else "")


def counted(number: int, noun: str) -> str:
    """1 error, 2 errors."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sections(reports: Sequence[FileReport]) -> list[str]:
    """What was found out besides findings, a block a section, each ending with a line end."""
    return [
        "".join(f"{line_head(visible(line))}\n" for line in section.lines)
        for report in reports
        for section in report.sections
    ]


def summary(reports: Sequence[FileReport]) -> str:
    """One line such as: 2 errors, 1 warning in 1 of 3 files (DeepSpeed 0.19.8; trainer raw; 8 GPUs)."""
    tally = dict.fromkeys(SEVERITIES, 0)
    for report in reports:
        for finding in report.findings:
            tally[finding.severity] += 1
    found = ", ".join(counted(number, severity) for severity, number in tally.items() if number)
    hit = sum(bool(report.findings) for report in reports)
    files = counted(len(reports), "file")
    where = files if hit in (0, len(reports)) else f"{hit} of {files}"
    hidden = sum(len(report.suppressed) for report in reports)
    left_out = f", {hidden} suppressed," if hidden else ""
    return f"{found or 'No findings'}{left_out} in {where} ({judged_for(reports)})"


def fixable(reports: Sequence[FileReport]) -> str:
    """A line such as "[*] 2 fixable with --fix (1 more with --unsafe-fixes)"; empty where nothing is."""
    fixes = [finding.fix for report in reports for finding in report.findings if finding.fix]
    safe = sum(fix.safe for fix in fixes)
    more = len(fixes) - safe
    if not safe:
        return f"{more} fixable with --fix --unsafe-fixes\n" if more else ""
    return f"[*] {safe} fixable with --fix" + (f" ({more} more with --unsafe-fixes)" if more else "") + "\n"


def judged_for(reports: Sequence[FileReport]) -> str:
    """The release, trainer and GPUs assumed; of files judged differently, each value once."""
    targets = [target for report in reports for target in (report.target, *report.others)]
    releases = _distinct((t.release, t.release_reason) for t in targets)
    trainers = _distinct((t.trainer, t.trainer_reason) for t in targets)
    gpus = _distinct(("GPUs unknown" if t.gpus is None else counted(t.gpus, "GPU"), "") for t in targets)
    return f"DeepSpeed {releases}; trainer {trainers}; {gpus}"


def _distinct(reasoned: Iterable[tuple[str, str]]) -> str:
    """Values, each once, with why they were chosen where that is one reason; "given" needs none."""
    found = list(dict.fromkeys(reasoned))
    values = " or ".join(visible(value, 200) for value in dict.fromkeys(value for value, _ in found))
    reasons = {reason for _, reason in found}
    return (
        values if len(reasons) > 1 or reasons <= {"", "given"} else f"{values}: {visible(reasons.pop(), 200)}"
    )
