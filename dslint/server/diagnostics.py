"""Findings as diagnostics: what the editor underlines."""

from __future__ import annotations

from lsprotocol.types import CodeDescription, Diagnostic, DiagnosticSeverity, DiagnosticTag, Position, Range

from dslint.finding import Finding
from dslint.links import rule_url
from dslint.report.words import bites, cure, said
from dslint.server.judging import Verdict
from dslint.server.places import range_of

SOURCE = "dslint"
SEVERITIES = {
    "error": DiagnosticSeverity.Error,
    "warning": DiagnosticSeverity.Warning,
    "info": DiagnosticSeverity.Information,
}
TAGS = {
    "unread-key": DiagnosticTag.Unnecessary,
    "deprecated-key": DiagnosticTag.Deprecated,
    "removed-key": DiagnosticTag.Deprecated,
}
"""Rules whose findings an editor may show by fading or striking out the key."""


def diagnostics(verdict: Verdict, encoding: str) -> list[Diagnostic]:
    """All there is to show for a document."""
    found = [diagnostic(verdict, finding, encoding) for finding in verdict.report.findings]
    if verdict.problem:
        nowhere = Range(Position(0, 0), Position(0, 0))
        message = f"{verdict.problem}\nJudged without these settings."
        found.insert(
            0,
            Diagnostic(
                range=nowhere,
                message=message,
                severity=DiagnosticSeverity.Error,
                code="settings",
                source=SOURCE,
            ),
        )
    return found


def diagnostic(verdict: Verdict, finding: Finding, encoding: str) -> Diagnostic:
    """One finding: what is wrong, when it bites, what to write instead."""
    lines = [said(finding)]
    if finding.severity != "info":
        lines.append(bites(finding))
    if cure(finding):
        lines.append(f"help: {cure(finding)}")
    url = rule_url(finding.code)
    return Diagnostic(
        range=range_of(verdict.report.document, finding.start, finding.end, encoding),
        message="\n".join(lines),
        severity=SEVERITIES[finding.severity],
        code=finding.code,
        code_description=CodeDescription(url) if url else None,
        source=SOURCE,
        tags=[TAGS[finding.name]] if finding.name in TAGS else None,
    )
