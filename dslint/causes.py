"""One cause, one finding: what gives way where a finding at the same key says it better."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dslint.finding import Finding

GIVES_WAY = {
    "auto-not-filled": ("misplaced-key",),  # in its right place it is filled, or named again
    "deprecated-key": ("two-spellings", "bfloat16-section-shadowed"),
    "zero-stage-missing": ("stage-missing-at-save",),
}
"""Rule -> rules at the same key whose cure is the one to follow."""

LITERALS = ("python-literal", "swallowed-comma")
"""How a value came to be a text. Where that text is an error, the error tells it."""


def one_each(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without those that say again, or against it, what another says of the same key."""
    names: dict[str, set[str]] = {}
    errors: dict[str, Finding] = {}
    for finding in findings:
        names.setdefault(finding.key, set()).add(finding.name)
        if finding.severity == "error" and finding.phase != "load" and finding.key:
            errors.setdefault(finding.key, finding)
    better: dict[Finding, Finding] = {}
    kept = []
    for finding in findings:
        if finding.name in LITERALS and finding.key in errors:
            error = errors[finding.key]
            better[error] = _explained(error, finding)
        elif names[finding.key].isdisjoint(GIVES_WAY.get(finding.name, ())):
            kept.append(finding)
    return [better.get(finding, finding) for finding in kept]


def _explained(error: Finding, literal: Finding) -> Finding:
    """The error, with the cure and the fix of the literal where that is a value the key takes.

    A placeholder in double quotes is as wrong as one without them.
    """
    meant = literal.cure.removeprefix("write ").strip('"')
    if meant not in re.findall(r"\w+", error.cure):
        return error
    return replace(error, cure=literal.cure, fix=literal.fix)
