"""The JSON report, a contract other tools rely on; one line a file and a finding, for grep and diff.

    {"dslint": "0.1.0", "files": [
    {"path": "ds.json", "deepspeed": "0.19.8", "trainer": "raw", "gpus": null, "findings": [
    {"code": "DS401", "name": ..., "severity": ..., "phase": ..., "message": ..., "key": ...,
     "line": 4, "column": 5, "end_line": 4, "end_column": 20, "fix": null, "help": ..., "releases": ...,
     "url": ...}], "deepspeed_reason": "locked in uv.lock"}
    ]}

A file of which something is suppressed also has "suppressed": the same of each such finding, with its
"reason" and "by": "file" (a comment or the object in it) or "baseline".

Lines and columns count from 1, columns in characters, the end exclusive; `key` is a dotted path,
list items as [0]; the edits of a fix are character offsets. `help`, `releases` and `url` may be "": a team's
own rules have no page. A key may be added at an object's end; none is renamed, removed or moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dslint import __version__
from dslint.links import rule_url
from dslint.report.plain_json import dumps

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.finding import FileReport, Finding


def render(reports: Sequence[FileReport], *, color: bool = False) -> str:
    """The whole report. It prints as itself on any terminal: what does not print is spelled \\uXXXX."""
    files = ",\n".join(_file(report) for report in reports)
    return f'{{"dslint": {dumps(__version__)}, "files": [{_lines(files)}]}}\n'


def _file(report: FileReport) -> str:
    target = report.target
    head = {
        "path": report.document.name,
        "deepspeed": target.release,
        "trainer": target.trainer,
        "gpus": target.gpus,
    }
    findings = ",\n".join(dumps(_finding(report.document, finding)) for finding in report.findings)
    hidden = ",\n".join(
        dumps({**_finding(report.document, s.finding), "reason": s.reason, "by": s.by})
        for s in report.suppressed
    )
    suppressed = f',\n"suppressed": [{_lines(hidden)}]' if hidden else ""
    sections = "".join(f",\n{dumps(s.name)}: {dumps(s.data)}" for s in report.sections)
    reason = f', "deepspeed_reason": {dumps(target.release_reason)}'
    return f'{dumps(head)[:-1]}, "findings": [{_lines(findings)}]{suppressed}{sections}{reason}}}'


def _finding(document: Document, finding: Finding) -> dict[str, Any]:
    line, column = document.position(finding.start)
    end_line, end_column = document.position(max(finding.start, finding.end))
    fix = finding.fix and {
        "title": finding.fix.title,
        "safe": finding.fix.safe,
        "edits": [{"start": edit.start, "end": edit.end, "text": edit.text} for edit in finding.fix.edits],
    }
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "phase": finding.phase,
        "message": finding.message,
        "key": finding.key,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "fix": fix,
        "help": finding.cure,
        "releases": finding.releases,
        "url": rule_url(finding.code),
    }


def _lines(items: str) -> str:
    return f"\n{items}\n" if items else ""
