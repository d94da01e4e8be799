"""Baselines: the findings that were there before, so that only new ones count.

    {"dslint-baseline": 1, "files": {"conf/ds.json": {"DS101 zero_optimization.bogus": 1}}}

Entries are keyed by file (from the folder of the baseline, with slashes), code and key path, with how many
there are; never by line, so that edits elsewhere in a file leave them valid.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dslint.errors import UsageError
from dslint.finding import FileReport, Finding, Suppressed
from dslint.settings import relative

VERSION = 1
MAX_BYTES = 50_000_000

Entries = dict[str, Counter[str]]
"""By file: how often each "CODE key" is known."""


def read(path: str) -> Entries:
    """The entries of a baseline file. Raises UsageError, which names it."""
    try:
        with open(path, "rb") as file:  # a device has no size to ask for
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise UsageError(f"{path}: too large for a baseline")
        data = json.loads(raw)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such baseline; make one with --write-baseline {path}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: no baseline of dslint; make one with --write-baseline FILE") from None
    files = data.get("files") if isinstance(data, dict) else None
    if (
        not isinstance(files, dict)
        or data.get("dslint-baseline") != VERSION
        or not all(map(_good, files.values()))
    ):
        raise UsageError(f"{path}: no baseline of dslint; make one with --write-baseline FILE")
    return {file: Counter(entries) for file, entries in files.items()}


def _good(entries: object) -> bool:
    return isinstance(entries, dict) and all(
        isinstance(count, int) and not isinstance(count, bool) and count > 0 for count in entries.values()
    )


def entry(finding: Finding) -> str:
    """What a finding is known by in its file."""
    return f"{finding.code} {finding.key}".rstrip()


@dataclass(slots=True)
class Baseline:
    """One baseline file in use. `stale` collects entries that nothing was found for."""

    path: str
    entries: Entries
    stale: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def apply(self, report: FileReport, heard: Iterable[str]) -> None:
        """Moves what the baseline knows to the suppressed findings; `heard` are the codes asked for."""
        name = relative(os.path.abspath(report.document.name), _folder(self.path))
        self.seen.add(name)
        left = self.entries.get(name, Counter()).copy()
        new = []
        for finding in report.findings:
            if left[entry(finding)] > 0:
                left[entry(finding)] -= 1
                report.suppressed.append(Suppressed(finding, "known to the baseline", "baseline"))
            else:
                new.append(finding)
        report.findings = new
        codes = set(heard)
        if report.document.root is not None and not any(f.phase == "load" for f in new):
            self.stale += [
                f"{name} {known}"
                for known, count in left.items()
                if count > 0 and known.split(" ")[0] in codes
            ]

    def gone(self) -> list[str]:
        """Files that the baseline knows and that are no more."""
        folder = _folder(self.path)
        return [
            name
            for name in self.entries
            if name not in self.seen and not os.path.exists(os.path.join(folder, name))
        ]

    def complaint(self) -> str:
        """What is stale in it, in one line; "" where nothing is."""
        stale = self.stale + self.gone()
        if not stale:
            return ""
        shown = ", ".join(stale[:3]) + (f" and {len(stale) - 3} more" if len(stale) > 3 else "")
        many = "1 entry is" if len(stale) == 1 else f"{len(stale)} entries are"
        return f"{self.path}: {many} stale ({shown}); --write-baseline {self.path} drops what was mended"


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def text(path: str, reports: Sequence[FileReport], known: Mapping[str, Counter[str]]) -> str:
    """A baseline of all findings. What `known` has of files that were not linted, but exist, stays."""
    folder = _folder(path)
    files: dict[str, dict[str, int]] = {}
    for report in reports:
        name = relative(os.path.abspath(report.document.name), folder)
        files[name] = dict(sorted(Counter(map(entry, report.findings)).items()))
    for name, entries in known.items():
        if name not in files and os.path.exists(os.path.join(folder, name)):
            files[name] = dict(sorted(entries.items()))
    kept = {name: entries for name, entries in sorted(files.items()) if entries}
    return json.dumps({"dslint-baseline": VERSION, "files": kept}, indent=2) + "\n"
