"""Edits of a text: applying them, and several rounds of them as one round."""

from __future__ import annotations

from collections.abc import Iterable

from dslint.finding import Edit


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap."""
    out, at = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < at:
            raise ValueError(f"edits overlap at {edit.start}")
        out += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, text[at:]])


def touch(left: Edit, right: Edit) -> bool:
    """Whether two edits overlap or meet, so that the order of applying them could matter."""
    return left.start <= right.end and right.start <= left.end


class Pieces:
    """A text as it is edited, round by round: stretches of the original, and new text between them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._length = len(text)
        self._pieces: list[tuple[int, int, str]] = [(0, len(text), text)]  # start, end; -1, -1: new

    def edit(self, edits: tuple[Edit, ...]) -> None:
        """One round of edits of the text as it is now."""
        for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
            self._replace(edit)
        self.text = "".join(piece[2] for piece in self._pieces)

    def _replace(self, edit: Edit) -> None:
        out: list[tuple[int, int, str]] = []
        at, placed = 0, False
        for start, end, text in self._pieces:
            left = max(0, min(len(text), edit.start - at))
            right = max(0, min(len(text), edit.end - at))
            head, tail = text[:left], text[right:]
            if head:
                out.append((start, start + left, head) if start >= 0 else (-1, -1, head))
            if not placed and edit.start <= at + len(text):
                out.append((-1, -1, edit.text))
                placed = True
            if tail:
                out.append((end - len(tail), end, tail) if start >= 0 else (-1, -1, tail))
            at += len(text)
        self._pieces = out if placed else [*out, (-1, -1, edit.text)]

    def edits(self) -> tuple[Edit, ...]:
        """All rounds as one round of edits of the original."""
        found: list[Edit] = []
        at, new = 0, ""
        for start, end, text in [*self._pieces, (self._length, self._length, "")]:
            if start < 0:
                new += text
                continue
            if start > at or new:
                found.append(Edit(at, start, new))
            at, new = end, ""
        return tuple(found)
