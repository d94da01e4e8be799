"""`--fix` and `--diff` for the files of one run of dslint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dslint.finding import FileReport, Section
from dslint.fixing.loop import Outcome, fix_text
from dslint.fixing.writing import WriteError
from dslint.fixing.writing import replace as replace_file
from dslint.formats import decode
from dslint.judge import report_of
from dslint.lint import Options
from dslint.report.escape import visible
from dslint.report.words import counted

if TYPE_CHECKING:
    from dslint.settle import Settling

Work = tuple[str, bytes, list[Options]]


@dataclass(slots=True)
class Fixed:
    """What came of all files. `work` has the texts as they are now; `cannot` says what was not written."""

    work: list[Work] = field(default_factory=list)
    reports: list[FileReport] = field(default_factory=list)
    changed: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)
    count: int = 0
    unsafe_left: int = 0

    @property
    def summary(self) -> str:
        """What was not written, but would be, in words."""
        return in_words(self.count, self.unsafe_left, "would fix")


def in_words(count: int, unsafe_left: int, verb: str = "fixed") -> str:
    """Such as: fixed 3 findings (2 more with --unsafe-fixes)."""
    more = f" ({unsafe_left} more with --unsafe-fixes)" if unsafe_left else ""
    return f"{verb} {counted(count, 'finding')}{more}"


def fix_all(
    work: Iterable[Work],
    settling: Settling,
    names: set[str],
    outcomes: Iterator[Outcome],
    stdin: str | None = None,
    write: bool = True,
) -> Fixed:
    """Fixes the files in `names`, with what came of each; the others are only judged.

    Nothing is written to the one that is called `stdin`, and without `write` to none.
    """
    done = Fixed()
    for name, raw, targets in work:
        if name not in names:
            done.work.append((name, raw, targets))
            done.reports.append(report_of(settling, (name, raw, targets)))
            continue
        outcome = next(outcomes)
        report, new = outcome.report, outcome.raw
        count = len(outcome.fixed)
        if new != raw and write and name != stdin:
            try:
                replace_file(name, raw, new)
            except WriteError as error:
                done.cannot.append(str(error))
                report, new, count = report_of(settling, (name, raw, targets)), raw, 0
        if new != raw:
            done.changed.append((name, raw, new))
        if count or outcome.unsafe_left:
            said = f"{name}: {in_words(count, outcome.unsafe_left)}"
            data = {"findings": count, "more_with_unsafe_fixes": outcome.unsafe_left}
            report.sections.append(Section("fixed", data, (said,)))
        done.work.append((name, new, targets))
        done.reports.append(report)
        done.count += count
        done.unsafe_left += outcome.unsafe_left
    return done


def fixed(settling: Settling, one: Work) -> Outcome:
    """One file fixed. Errors of rules that are not heard count, too: no fix may bring one."""
    name, raw, targets = one
    silent = any(target.select or target.ignore for target in targets)
    every = [target._replace(select=(), ignore=()) for target in targets]
    return fix_text(
        raw,
        lambda text: report_of(settling, (name, text, targets)),
        settling.flags.unsafe_fixes,
        (lambda text: report_of(settling, (name, text, every))) if silent else None,
    )


def diff(name: str, old: bytes, new: bytes) -> str:
    """A unified diff, what a terminal would obey in it escaped."""
    lines = [decode(raw)[0].split("\n") for raw in (old, new)]
    was, now = ([f"{line}\n" for line in part[:-1]] + [p for p in part[-1:] if p] for part in lines)
    out = []
    for line in difflib.unified_diff(was, now, visible(name), visible(name)):
        bare = line.rstrip("\r\n")
        out.append("\t".join(visible(part, len(bare) + 1) for part in bare.split("\t")) + "\n")
        if not line.endswith("\n"):
            out.append("\\ No newline at end of file\n")
    return "".join(out)
