"""The JSON report, a contract other tools rely on; one line a file and a finding, for grep and diff.

    {"dslint": "0.1.0", "files": [
    {"path": "ds.json", "deepspeed": "0.19.8", "trainer": "raw", "gpus": null, "findings": [
    {"code": "DS401", "name": ..., "severity": ..., "phase": ..., "message": ..., "key": ...,
     "line": 4, "column": 5, "end_line": 4, "end_column": 20, "fix": null, "help": ..., "releases": ...,
     "url": ...}]}
    ]}

Lines and columns count from 1, columns in characters, the end exclusive; `key` is a dotted path,
list items as [0]; the edits of a fix are character offsets. A key may be added at an object's end;
none is renamed, removed or moved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dslint import __version__
from dslint.links import rule_url
from dslint.report.escape import log_command_hashes

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.finding import FileReport, Finding

_NOT_ASCII = re.compile(r"[^\x20-\x7e]")


def render(reports: Sequence[FileReport], *, color: bool = False) -> str:
    """The whole report. It prints as itself on any terminal: what does not print is spelled \\uXXXX."""
    files = ",\n".join(_file(report) for report in reports)
    return f'{{"dslint": {_dumps(__version__)}, "files": [{_lines(files)}]}}\n'


def _file(report: FileReport) -> str:
    target = report.target
    head = {
        "path": report.document.name,
        "deepspeed": target.release,
        "trainer": target.trainer,
        "gpus": target.gpus,
    }
    findings = ",\n".join(_dumps(_finding(report.document, finding)) for finding in report.findings)
    sections = "".join(f",\n{_dumps(s.name)}: {_dumps(s.data)}" for s in report.sections)
    return f'{_dumps(head)[:-1]}, "findings": [{_lines(findings)}]{sections}}}'


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


def _dumps(value: object) -> str:
    """Valid JSON in which letters of any script stand as themselves and everything unprintable is escaped.

    Escapes are needed beyond JSON's own: a lone surrogate (from an undecodable file name) cannot be
    written as UTF-8, U+2028 ends a line in JavaScript, and bidi marks turn the text round on a terminal.
    """
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = _NOT_ASCII.sub(lambda match: _escape(match[0]), text)
    hashes = log_command_hashes(text)  # a CI runner reads this report too when it is printed in a log
    return "".join("\\u0023" if i in hashes else c for i, c in enumerate(text)) if hashes else text


def _escape(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"
