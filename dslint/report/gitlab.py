"""A GitLab Code Quality report: what a merge request shows beside the lines.

See "Code Quality report format" in GitLab's documentation: description, check_name, fingerprint (unique in
the report), severity, and location.path without ./ in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dslint.report.escape import visible
from dslint.report.places import fingerprints, relative
from dslint.report.plain_json import dumps
from dslint.report.words import cure, said

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.finding import FileReport, Finding

_SEVERITIES = {"error": "critical", "warning": "major", "info": "info"}


def render(reports: Sequence[FileReport], *, color: bool = False) -> str:
    """An array with a line for each finding."""
    issues = []
    for report in reports:
        path = relative(report.document.name)
        issues += [_issue(report.document, path, *pair) for pair in fingerprints(path, report.findings)]
    return "[" + ",".join(f"\n{dumps(issue)}" for issue in issues) + "\n]\n"


def _issue(document: Document, path: str, finding: Finding, fingerprint: str) -> dict[str, Any]:
    begin, end = document.position(finding.start)[0], document.position(max(finding.start, finding.end))[0]
    help_ = cure(finding)
    return {
        "description": f"{finding.code} {visible(said(finding))}" + (f"; {visible(help_)}" if help_ else ""),
        "check_name": finding.name,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": visible(path), "lines": {"begin": begin, "end": end}},
    }
