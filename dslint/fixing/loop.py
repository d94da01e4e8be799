"""Applying fixes to a text until none is left, and never a step that leaves it worse.

After each round the text is judged again: a round in which an error appears that was not there, or a
finding stays that should have gone, is not taken. Safe fixes go together, and so do those of keys; other
unsafe ones go one by one, for each may change what the next should do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dslint.finding import Edit, FileReport, Finding
from dslint.fixing.edits import edited, touch

MAX_ROUNDS = 100
"""Rounds of one file; a config has a handful of findings."""

MAX_JUDGMENTS = 400
"""How often one file is judged, tries that are not taken included."""

Judge = Callable[[bytes], FileReport]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file: its text, what was fixed, and what is left that only unsafe fixes mend."""

    raw: bytes
    report: FileReport
    fixed: tuple[Finding, ...]
    unsafe_left: int


def fix_text(raw: bytes, judge: Judge, unsafe: bool, guard: Judge | None = None) -> Outcome:
    """Fixes a file. `guard` judges by all rules where `judge` hears only some."""
    fixing = _Fixing(raw, judge, guard or judge, unsafe)
    fixing.run()
    left = sum(f.fix is not None and not f.fix.safe for f in fixing.report.findings)
    return Outcome(fixing.raw, fixing.report, tuple(fixing.fixed), 0 if unsafe else left)


class _Fixing:
    """One file on its way."""

    def __init__(self, raw: bytes, judge: Judge, guard: Judge, unsafe: bool) -> None:
        self.raw, self.judge, self.guard, self.unsafe = raw, judge, guard, unsafe
        self.judged = 0
        self.refused: set[tuple[str, str, str]] = set()
        self.fixed: list[Finding] = []
        self.report = judge(raw)
        self.standing = self.report if guard is judge else guard(raw)

    def run(self) -> None:
        seen = {self.raw}
        for _ in range(MAX_ROUNDS):
            if not self._round() or self.raw in seen:
                return
            seen.add(self.raw)

    def _round(self) -> bool:
        """Takes what can be taken at once; False where nothing can. What was refused before comes last."""
        offered = [f for f in self.report.findings if f.fix is not None and (f.fix.safe or self.unsafe)]
        fresh = [f for f in offered if _offer(f) not in self.refused]
        together = apart(fresh)
        alone = [f for f in fresh if f not in together] + [f for f in offered if f not in fresh]
        return any(some and self._take(some) for some in (together, *([f] for f in alone)))

    def _take(self, findings: list[Finding]) -> bool:
        """Makes those of some fixes that can be made together; False where none can."""
        step = self._step(findings)
        if step is not None:
            self.raw, self.report, self.standing = step.raw, step.report, step.standing
            self.fixed += step.findings
        return step is not None

    def _step(self, findings: list[Finding]) -> _Step | None:
        """The file with as many of some fixes made as can be; which are in the way is found by halving."""
        step = self._worth(findings)
        if step is not None or len(findings) == 1:
            self.refused |= set() if step else {_offer(findings[0])}
            return step
        middle = len(findings) // 2
        left, right = self._step(findings[:middle]), self._step(findings[middle:])
        if left is None or right is None:
            return left or right
        return self._worth([*left.findings, *right.findings]) or left

    def _worth(self, findings: list[Finding]) -> _Step | None:
        """The file with some fixes made; None where it is not better."""
        if self.judged >= MAX_JUDGMENTS:
            return None
        self.judged += 1
        text = edited(self.report.document.text, edits_of(findings))
        raw = text.encode("utf-8", "surrogatepass")
        report = self.judge(raw)
        standing = report if self.guard is self.judge else self.guard(raw)
        if not gone(findings, self.report, report) or worse(self.standing, standing):
            return None
        return _Step(findings, raw, report, standing)


@dataclass(frozen=True, slots=True)
class _Step:
    """Fixes that can be made together, the file after them, and what is said about it."""

    findings: list[Finding]
    raw: bytes
    report: FileReport
    standing: FileReport


def _offer(finding: Finding) -> tuple[str, str, str]:
    return finding.code, finding.key, finding.fix.title if finding.fix else ""


def edits_of(findings: Iterable[Finding]) -> list[Edit]:
    """The edits of some fixes, each once."""
    return list(dict.fromkeys(edit for f in findings if f.fix is not None for edit in f.fix.edits))


def apart(findings: Iterable[Finding]) -> list[Finding]:
    """Findings whose fixes can be made together: they do not touch each other or change each other's use.

    Safe fixes change nothing, those of reading only the text, and those of keys only what they name; but two
    keys of a section may be given one name. Of equal fixes all are taken.
    """
    taken: list[Finding] = []
    edits: list[Edit] = []
    written: set[tuple[str, str]] = set()
    for finding in findings:
        assert finding.fix is not None
        if not finding.fix.safe and finding.code > "DS2":
            continue
        mine = finding.fix.edits
        section = finding.key.rpartition(".")[0]
        new = {(section, edit.text) for edit in mine if edit.text and finding.code > "DS1"}
        clash = new & written or any(touch(a, b) for a in mine for b in edits)
        if not clash or any(f.fix.edits == mine for f in taken if f.fix):
            taken.append(finding)
            edits += mine
            written |= new
    return taken


def _identity(finding: Finding) -> tuple[str, str]:
    return finding.code, finding.key


def gone(fixed: Iterable[Finding], before: FileReport, after: FileReport) -> bool:
    """Whether what was fixed is no longer found."""
    was = Counter(map(_identity, before.findings))
    now = Counter(map(_identity, after.findings))
    return all(now[key] <= was[key] - count for key, count in Counter(map(_identity, fixed)).items())


def worse(before: FileReport, after: FileReport) -> bool:
    """Whether an error appears that was not there; one that an unreadable text hid does not count."""
    was, now = (Counter(_identity(f) for f in r.findings if f.severity == "error") for r in (before, after))
    hidden, hides = (sum(_unreadable(f) for f in r.findings) for r in (before, after))
    if hidden:
        return hides >= hidden
    return bool(now - was)


def _unreadable(finding: Finding) -> bool:
    return finding.phase == "load" and finding.severity == "error"
