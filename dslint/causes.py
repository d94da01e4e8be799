"""One cause, one finding: what gives way where a finding at the same key says it better."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dslint.finding import PHASES, Finding

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
    by_key: dict[str, dict[str, Finding]] = {}
    errors: dict[str, Finding] = {}
    for finding in findings:
        by_key.setdefault(finding.key, {})[finding.name] = finding
        if finding.severity == "error" and finding.phase != "load" and finding.key:
            errors.setdefault(finding.key, finding)
    better: dict[Finding, Finding] = {}
    kept = []
    for finding in findings:
        if finding.name in LITERALS and finding.key in errors:
            error = errors[finding.key]
            better[error] = _explained(error, finding)
            continue
        stays = next((n for n in GIVES_WAY.get(finding.name, ()) if n in by_key[finding.key]), None)
        if stays is None:
            kept.append(finding)
            continue
        other = by_key[finding.key][stays]
        if PHASES.index(finding.phase) < PHASES.index(other.phase):  # it bites before that
            better[other] = replace(other, phase=finding.phase)
    return [better.get(finding, finding) for finding in kept]


def _explained(error: Finding, literal: Finding) -> Finding:
    """The error, with the cure and the fix of the literal where that is a value the key takes.

    A placeholder in double quotes is as wrong as one without them.
    """
    meant = literal.cure.removeprefix("write ").strip('"')
    if meant not in re.findall(r"\w+", error.cure):
        return error
    return replace(error, cure=literal.cure, fix=literal.fix)
