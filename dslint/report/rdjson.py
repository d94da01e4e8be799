"""Reviewdog's rdjson, which it turns into comments of many code hosts: `reviewdog -f=rdjson`.

Columns count bytes of UTF-8 from 1, as its protocol says (proto/rdf/reviewdog.proto).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dslint.links import SITE, rule_url
from dslint.report.escape import visible
from dslint.report.places import relative
from dslint.report.plain_json import dumps
from dslint.report.words import cure, said

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.finding import FileReport, Finding


def render(reports: Sequence[FileReport], *, color: bool = False) -> str:
    """One diagnostic result with a line for each finding."""
    found = [_diagnostic(report.document, finding) for report in reports for finding in report.findings]
    lines = ",".join(f"\n{dumps(diagnostic)}" for diagnostic in found)
    source = dumps({"name": "dslint", "url": SITE})
    return f'{{"source": {source}, "diagnostics": [{lines}\n]}}\n'


def _diagnostic(document: Document, finding: Finding) -> dict[str, Any]:
    help_ = cure(finding)
    code = {"value": finding.code}
    if url := rule_url(finding.code):
        code["url"] = url
    diagnostic: dict[str, Any] = {
        "message": visible(said(finding)) + (f"; {visible(help_)}" if help_ else ""),
        "location": {
            "path": visible(relative(document.name)),
            "range": _range(document, finding.start, finding.end),
        },
        "severity": finding.severity.upper(),
        "code": code,
    }
    if finding.fix is not None and len(finding.fix.edits) == 1:  # several would be offered one by one
        (edit,) = finding.fix.edits
        range_ = _range(document, edit.start, edit.end)
        diagnostic["suggestions"] = [{"range": range_, "text": edit.text}]
    return diagnostic


def _range(document: Document, start: int, end: int) -> dict[str, dict[str, int]]:
    return {"start": _position(document, start), "end": _position(document, max(start, end))}


def _position(document: Document, offset: int) -> dict[str, int]:
    line, column = document.position(offset)
    before = document.text[offset - column + 1 : offset]
    return {"line": line, "column": len(before.encode("utf-8", "surrogatepass")) + 1}
