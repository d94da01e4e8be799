"""SARIF 2.1.0, for GitHub code scanning and other dashboards.

Paths are relative to %SRCROOT%, columns count characters, and a result's fingerprint does not hold its line,
so that an alert outlives edits elsewhere in the file. What a file or a baseline suppresses is there as a
suppressed result.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dslint import __version__
from dslint.links import SITE, rule_url
from dslint.report.escape import visible
from dslint.report.places import fingerprints, relative
from dslint.report.plain_json import dumps
from dslint.report.words import PHASES, cure, said

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.finding import FileReport, Finding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
FINGERPRINT = "dslint/v1"

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_KINDS = {"file": "inSource", "baseline": "external"}


def render(reports: Sequence[FileReport], *, color: bool = False) -> str:
    """One run with every finding, a line each."""
    rules: dict[str, dict[str, Any]] = {}
    results = [result for report in reports for result in _results(report, rules)]
    driver = {
        "name": "dslint",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": SITE,
        "rules": list(rules.values()),
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "the directory that dslint ran in"}}},
        "invocations": [{"executionSuccessful": True}],
    }
    lines = ",\n".join(dumps(result) for result in results)
    head = dumps({"$schema": SCHEMA, "version": "2.1.0"})[:-1]
    return f'{head}, "runs": [\n{dumps(run)[:-1]}, "results": [\n{lines}\n]}}\n]}}\n'


def _results(report: FileReport, rules: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    hidden = {id(suppressed.finding): suppressed for suppressed in report.suppressed}
    every = [*report.findings, *(suppressed.finding for suppressed in report.suppressed)]
    path = relative(report.document.name)
    found = []
    for finding, fingerprint in fingerprints(path, every):
        rules.setdefault(finding.code, _rule(finding))
        result = {
            "ruleId": finding.code,
            "ruleIndex": list(rules).index(finding.code),
            "level": _LEVELS[finding.severity],
            "message": {"text": _text(finding)},
            "locations": [_location(report.document, path, finding)],
            "partialFingerprints": {FINGERPRINT: fingerprint},
            "properties": {
                "phase": finding.phase,
                "deepspeed": report.target.release,
                "trainer": report.target.trainer,
                "gpus": report.target.gpus,
            },
        }
        if finding.fix is not None and finding.fix.edits:
            result["fixes"] = [_fix(report.document, path, finding)]
        if id(finding) in hidden:
            suppressed = hidden[id(finding)]
            suppression = {"kind": _KINDS[suppressed.by]}
            if suppressed.reason:
                suppression["justification"] = visible(suppressed.reason)
            result["suppressions"] = [suppression]
        found.append(result)
    return found


def _text(finding: Finding) -> str:
    """The message and the cure. A viewer makes links of [text](target), so such brackets are escaped."""
    text = visible(said(finding))
    if help_ := cure(finding):
        text += f"; {visible(help_)}"
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]") if "](" in text else text


def _location(document: Document, path: str, finding: Finding) -> dict[str, Any]:
    physical = {"artifactLocation": _artifact(path), "region": _region(document, finding.start, finding.end)}
    if not finding.key:
        return {"physicalLocation": physical}
    logical = {"fullyQualifiedName": visible(finding.key), "kind": "member"}
    return {"physicalLocation": physical, "logicalLocations": [logical]}


def _artifact(path: str) -> dict[str, str]:
    uri = quote(path.encode("utf-8", "surrogateescape" if _encodable(path) else "backslashreplace"))
    return {"uri": f"file://{uri}"} if uri.startswith("/") else {"uri": uri, "uriBaseId": ROOT}


def _encodable(path: str) -> bool:
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _region(document: Document, start: int, end: int) -> dict[str, int]:
    line, column = document.position(start)
    end_line, end_column = document.position(max(start, end))
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def _fix(document: Document, path: str, finding: Finding) -> dict[str, Any]:
    assert finding.fix is not None
    safe = "" if finding.fix.safe else " (changes what DeepSpeed does)"
    replacements = [
        {"deletedRegion": _region(document, edit.start, edit.end), "insertedContent": {"text": edit.text}}
        for edit in finding.fix.edits
    ]
    return {
        "description": {"text": visible(finding.fix.title) + safe},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": replacements}],
    }


def _rule(finding: Finding) -> dict[str, Any]:
    """What a rule is called and means, from the rule files; of a team's rule what the finding tells."""
    known = _rules().get(finding.code, {})
    rule: dict[str, Any] = {
        "id": finding.code,
        "name": finding.name,
        "shortDescription": {"text": known.get("summary", finding.name)},
        "defaultConfiguration": {"level": _LEVELS[known.get("severity", finding.severity)]},
        "properties": {"phase": known.get("phase", finding.phase), "tags": ["deepspeed", finding.phase]},
    }
    why = known.get("why") or PHASES[finding.phase]
    rule["fullDescription"] = {"text": why}
    if url := rule_url(finding.code):
        rule["helpUri"] = url
        rule["help"] = {"text": f"{why}\n{url}", "markdown": f"{why}\n\n[{finding.code}]({url})"}
    return rule


@cache
def _rules() -> dict[str, dict[str, Any]]:
    here = Path(__file__).parent.parent
    rules = {rule["code"]: rule for rule in json.loads((here / "rules.json").read_text(encoding="utf-8"))}
    docs = json.loads((here / "rule_docs.json").read_text(encoding="utf-8"))
    return {code: {**rule, "why": docs.get(code, {}).get("why", "").strip()} for code, rule in rules.items()}
