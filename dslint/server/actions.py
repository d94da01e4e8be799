"""What the editor offers to do about findings: their fixes, and suppressing them."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol.types import (
    CodeAction,
    CodeActionKind,
    OptionalVersionedTextDocumentIdentifier,
    Range,
    TextDocumentEdit,
    TextEdit,
    WorkspaceEdit,
)

from dslint.document import Document
from dslint.finding import Edit, Finding
from dslint.fixing.loop import apart, edits_of
from dslint.server.diagnostics import diagnostic
from dslint.server.judging import Verdict
from dslint.server.places import offset, range_of
from dslint.trainers import STRICT

REASON = "TODO: say why"
"""What a suppression gives as its reason until its author does."""

FIX_ALL = f"{CodeActionKind.SourceFixAll.value}.dslint"


def actions(verdict: Verdict, uri: str, version: int | None, asked: Range, encoding: str) -> list[CodeAction]:
    """What can be done about the findings that touch a range: fixes first, those that are safe before."""
    document = verdict.report.document
    low, high = offset(document, asked.start, encoding), offset(document, asked.end, encoding)
    touched = [f for f in verdict.report.findings if f.start <= high and max(f.start, f.end) >= low]
    offered = []
    for finding in sorted(touched, key=lambda f: f.fix is None or not f.fix.safe):
        if finding.fix is not None:
            title = finding.fix.title + ("" if finding.fix.safe else " (changes what the config does)")
            edit = _edit(document, uri, version, finding.fix.edits, encoding)
            offered.append(_action(title, verdict, finding, edit, encoding, finding.fix.safe))
    for finding in touched:
        edits = suppression(verdict, finding) if finding.phase != "load" else ()
        if edits:
            edit = _edit(document, uri, version, edits, encoding)
            title = f"Suppress {finding.code} {finding.name} here"
            offered.append(_action(title, verdict, finding, edit, encoding, False))
    return offered


def fix_all(verdict: Verdict, uri: str, version: int | None, encoding: str) -> list[CodeAction]:
    """The action that applies all safe fixes that can be made together, as editors run on save."""
    safe = (f for f in verdict.report.findings if f.fix is not None and f.fix.safe)
    edits = edits_of(apart(safe))
    if not edits:
        return []
    edit = _edit(verdict.report.document, uri, version, edits, encoding)
    return [CodeAction(title="dslint: apply all safe fixes", kind=FIX_ALL, edit=edit)]


def _action(
    title: str, verdict: Verdict, finding: Finding, edit: WorkspaceEdit, encoding: str, preferred: bool
) -> CodeAction:
    shown = [diagnostic(verdict, finding, encoding)]
    return CodeAction(
        title=title,
        kind=CodeActionKind.QuickFix,
        diagnostics=shown,
        is_preferred=preferred or None,
        edit=edit,
    )


def _edit(
    document: Document, uri: str, version: int | None, edits: Sequence[Edit], encoding: str
) -> WorkspaceEdit:
    texts = [TextEdit(range_of(document, e.start, e.end, encoding), e.text) for e in edits]
    identifier = OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
    return WorkspaceEdit(document_changes=[TextDocumentEdit(text_document=identifier, edits=list(texts))])


def suppression(verdict: Verdict, finding: Finding) -> tuple[Edit, ...]:
    """The edits that suppress a finding where it stands; none where the file can hold no suppression.

    A comment above its line, or, in strict JSON, an entry in the "dslint" object of the config.
    """
    document = verdict.report.document
    comment = _comment_sign(verdict)
    if comment:
        line = document.position(finding.start)[0]
        start, text = document.start_of(line), document.line(line)
        indent = text[: len(text) - len(text.lstrip())]
        end = "\r\n" if "\r\n" in document.text else "\n"
        return (Edit(start, start, f"{indent}{comment} dslint: ignore[{finding.code}] {REASON}{end}"),)
    if document.root is None or document.config is not None:
        return ()
    from dslint.fixing.build import fix_of
    from dslint.fixing.changes import Set

    word = finding.code + (f"@{finding.key}" if finding.key else "")
    fix = fix_of(document, [Set((*document.base, "dslint", "ignore", word), REASON)], safe=True)
    return fix.edits if fix is not None else ()


def _comment_sign(verdict: Verdict) -> str:
    """What begins a comment in this document; "" where whoever loads it takes none."""
    document = verdict.report.document
    name = document.name.lower()
    if name.endswith((".yaml", ".yml")):
        return "#"
    has_comments = any(departure.rule == "comment" for departure in document.departures)
    loads_comments = verdict.config.target.trainer not in STRICT
    return "//" if loads_comments and (has_comments or name.endswith((".hjson", ".jsonc"))) else ""
