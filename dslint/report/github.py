"""Workflow commands that GitHub Actions shows as annotations on the lines of a pull request.

The runner takes the command out of the log and shows its message there, so the message repeats the
place, the code and the cure. See "Workflow commands for GitHub Actions" in GitHub's documentation;
the escapes and the rules for columns are those of the runner's ActionCommand and IssueCommand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dslint.report.escape import visible
from dslint.report.words import bites, cure, said, sections, summary

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.finding import FileReport, Finding

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(reports: Sequence[FileReport], *, color: bool = False) -> str:
    """A command a finding, then the closing line for who reads the log; nothing for no files."""
    if not reports:
        return ""
    commands = [_command(r.document, finding) for r in reports for finding in r.findings]
    return "\n".join([*commands, *sections(reports), summary(reports)]) + "\n"


def _command(document: Document, finding: Finding) -> str:
    line, column = document.position(finding.start)
    end_line, end_column = document.position(max(finding.start, finding.end))
    path = visible(document.name.removeprefix("./"))  # with ./ GitHub finds no file of that name
    properties: dict[str, object] = {"file": path, "line": line}
    if line == end_line:
        properties |= {"col": column, "endLine": end_line, "endColumn": end_column}
    else:  # the runner refuses columns of a span over several lines
        properties["endLine"] = end_line
    properties["title"] = f"{finding.code} {visible(finding.name)}"
    message = [f"{path}:{line}:{column}: {finding.code} {visible(said(finding))}"]
    if finding.severity != "info" and bites(finding) not in message[0]:
        message.append(bites(finding))
    if help_ := cure(finding):
        message.append(f"help: {visible(help_)}")
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {listed}::{_data(chr(10).join(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
