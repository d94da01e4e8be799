"""One cause, one finding: what gives way where a finding at the same key says it better."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dslint.finding import PHASES, Finding

COMPARED = "never-equals-argument"
"""A value that a trainer compares in vain. Where DeepSpeed refuses it, too, "auto" is a second cure."""

GIVES_WAY = {
    "auto-not-filled": ("misplaced-key",),  # in its right place it is filled, or named again
    "deprecated-key": ("two-spellings", "bfloat16-section-shadowed"),
    "zero-stage-missing": ("stage-missing-at-save",),
    COMPARED: (
        "wrong-type",
        "out-of-range",
        "invalid-value",
        "gradient-clipping-not-a-number",
        "optimizer-value-refused",
        "optimizer-value-crashes",
        "scheduler-value-refused",
        "scheduler-value-crashes",
    ),
}
"""Rule -> rules at the same key whose cure is the one to follow."""

LITERALS = ("python-literal", "swallowed-comma")
"""How a value came to be a text. Where that text is an error, the error tells it."""


_GIVING_WAY = frozenset({*GIVES_WAY, *LITERALS})


def one_each(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without those that say again, or against it, what another says of the same key."""
    if _GIVING_WAY.isdisjoint([finding.name for finding in findings]):
        return _once(_not_misspelled(findings))
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
        told = better.get(other, other)
        if PHASES.index(finding.phase) < PHASES.index(told.phase):  # it bites before that
            told = told._replace(phase=finding.phase)
        if finding.name == COMPARED:
            told = told._replace(cure=f'{told.cure}, or "auto"', fix=told.fix or finding.fix)
        better[other] = told
    return [better.get(finding, finding) for finding in _once(_not_misspelled(kept))]


def _not_misspelled(findings: Sequence[Finding]) -> Sequence[Finding]:
    """The findings; advice about a key that is not there gives way where it is there, misspelled."""
    meant = {(_parts(f.key)[0], f.cure) for f in findings if f.name == "misspelled-key"}
    if not meant:
        return findings

    def told(finding: Finding) -> bool:
        section, key = _parts(finding.key)
        return finding.severity == "info" and (section, f"did you mean {key}?") in meant

    return [finding for finding in findings if not told(finding)]


def _parts(key: str) -> tuple[str, str]:
    section, _, last = key.rpartition(".")
    return section, last


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; advice that would be given in the same words at several places only at the first."""
    first: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        words = finding.code, finding.message
        if finding.severity == "info" and finding.start < first.setdefault(words, finding).start:
            first[words] = finding
    return [f for f in findings if f.severity != "info" or first[f.code, f.message] is f]


def _explained(error: Finding, literal: Finding) -> Finding:
    """The error, with the cure and the fix of the literal where that is a value the key takes.

    A placeholder in double quotes is as wrong as one without them.
    """
    meant = literal.cure.removeprefix("write ").strip('"')
    if meant not in re.findall(r"\w+", error.cure):
        return error
    return error._replace(cure=literal.cure, fix=literal.fix)
