"""JUnit XML, which every CI shows: a suite for each file, a failed test for each error and warning.

JUnit knows no severities; advice (info) is a passed test that tells it. A file without findings is one passed
test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from dslint.report.escape import visible
from dslint.report.words import bites, cure, said

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.finding import FileReport, Finding


def render(reports: Sequence[FileReport], *, color: bool = False) -> str:
    """One document; nothing in it but printable text, so that it is XML whatever the files hold."""
    suites = "".join(_suite(report) for report in reports)
    tests = sum(max(1, len(report.findings)) for report in reports)
    failed = sum(_fails(finding) for report in reports for finding in report.findings)
    head = f'<testsuites name="dslint" tests="{tests}" failures="{failed}" errors="0">'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n{suites}</testsuites>\n'


def _fails(finding: Finding) -> bool:
    return finding.severity != "info"


def _suite(report: FileReport) -> str:
    name = quoteattr(visible(report.document.name))
    failed = sum(map(_fails, report.findings))
    cases = [_case(report.document, finding, name) for finding in report.findings]
    cases = cases or [f"  <testcase classname={name} name={quoteattr('no findings')}/>\n"]
    head = f'<testsuite name={name} tests="{len(cases)}" failures="{failed}" errors="0">'
    return f"{head}\n{''.join(cases)}</testsuite>\n"


def _case(document: Document, finding: Finding, suite: str) -> str:
    line, column = document.position(finding.start)
    name = quoteattr(f"{finding.code} {finding.name} {visible(finding.key)}".rstrip())
    message = visible(said(finding))
    text = [f"{visible(document.name)}:{line}:{column}: {message}", bites(finding)]
    if help_ := cure(finding):
        text.append(f"help: {visible(help_)}")
    body = escape("\n".join(text))
    if _fails(finding):
        kind = f"type={quoteattr(finding.severity)} message={quoteattr(message)}"
        body = f"<failure {kind}>{body}</failure>"
    else:
        body = f"<system-out>{body}</system-out>"
    return f'  <testcase classname={suite} name={name} line="{line}">{body}</testcase>\n'
