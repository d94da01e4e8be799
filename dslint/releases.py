"""DeepSpeed releases: order them, and tell which of them a rule holds for."""

from __future__ import annotations

import re
from functools import cache

Spec = str
"""Comma-separated bounds, all of which must hold: ">=0.17.1, <0.19". Empty: every release."""

_RELEASE = re.compile(
    r"v?([0-9]{1,6}(?:\.[0-9]{1,6}){0,4})(?:(?:rc|a|b|\.dev|\.post)[0-9]+)?(?:\+[A-Za-z0-9.]+)?\Z"
)
_BOUND = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([0-9][0-9.]*)\s*\Z")


@cache
def number(release: str) -> tuple[int, ...]:
    """A release as numbers to compare: "0.19.8+abc" -> (0, 19, 8). Raises ValueError."""
    match = _RELEASE.match(release)
    if match is None:
        raise ValueError(f"{release!r} is not a DeepSpeed release, such as 0.16.4")
    parts = [int(part) for part in match.group(1).split(".")]
    return tuple(parts + [0] * (3 - len(parts)))


@cache
def bounds(spec: Spec) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The bounds of a spec. Raises ValueError."""
    found = []
    for part in spec.split(",") if spec.strip() else []:
        match = _BOUND.match(part)
        if match is None:
            raise ValueError(f"{part.strip()!r} is not a bound such as >=0.17.1")
        found.append((match.group(1), number(match.group(2))))
    return tuple(found)


@cache
def holds(spec: Spec, release: str) -> bool:
    """Whether a release is within a spec."""
    mine = number(release)
    verdicts = {
        ">=": mine.__ge__,
        "<=": mine.__le__,
        ">": mine.__gt__,
        "<": mine.__lt__,
        "==": mine.__eq__,
        "!=": mine.__ne__,
    }
    return all(verdicts[operator](bound) for operator, bound in bounds(spec))
