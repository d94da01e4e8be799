"""Spans of time: how much of a step communication takes, and how much of it nothing hides. Pure."""

from __future__ import annotations

Span = tuple[float, float]


def shares(communication: list[Span], computation: list[Span], whole: float) -> dict[str, float]:
    """What part of a step the spans of communication fill, and what part of it without any computation.

    Spans and `whole` are in the same unit of time.
    """
    busy = merged(communication)
    total = sum(end - start for start, end in busy)
    hidden, rest = 0.0, merged(computation)
    i = 0
    for start, end in busy:
        while i < len(rest) and rest[i][1] <= start:
            i += 1
        k = i
        while k < len(rest) and rest[k][0] < end:
            hidden += min(end, rest[k][1]) - max(start, rest[k][0])
            k += 1
    whole = whole or 1.0
    return {"communication": min(1.0, total / whole), "exposed": min(1.0, (total - hidden) / whole)}


def merged(spans: list[Span]) -> list[Span]:
    """Spans of time in order, overlapping ones joined."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out
