"""One finding a line, for editors and grep: path:line:column: CODE severity message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dslint.report.escape import line_head, visible
from dslint.report.words import said

if TYPE_CHECKING:
    from dslint.finding import FileReport


def render(reports: Sequence[FileReport], *, color: bool = False) -> str:
    """Nothing but findings; never coloured, since the lines are for programs to split."""
    lines = []
    for report in reports:
        path = line_head(visible(report.document.name))
        for finding in report.findings:
            line, column = report.document.position(finding.start)
            message = visible(said(finding))
            lines.append(f"{path}:{line}:{column}: {finding.code} {finding.severity} {message}\n")
    return "".join(lines)
