"""Where the cursor is: positions of the protocol to offsets and back, and what stands at an offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lsprotocol.types import Position, PositionEncodingKind, Range

from dslint.document import Document, Path, Place, walk
from dslint.formats import read_bytes

UTF8: Final[str] = PositionEncodingKind.Utf8.value
UTF16: Final[str] = PositionEncodingKind.Utf16.value


def units(text: str, encoding: str) -> int:
    """The length of a text as the client counts: in UTF-16 code units unless another unit was agreed."""
    if encoding == UTF8:
        return len(text.encode("utf-8", "surrogatepass"))
    if encoding == UTF16:
        return len(text) + sum(char > "\uffff" for char in text)
    return len(text)


def position(document: Document, offset: int, encoding: str) -> Position:
    """The position of a character offset; lines and characters count from 0."""
    line, column = document.position(min(offset, len(document.text)))
    return Position(line - 1, units(document.text[offset - column + 1 : offset], encoding))


def range_of(document: Document, start: int, end: int, encoding: str) -> Range:
    """The range of a span."""
    return Range(position(document, start, encoding), position(document, max(start, end), encoding))


def offset(document: Document, at: Position, encoding: str) -> int:
    """The character offset of a position; beyond the end of a line or of the text: that end."""
    if at.line >= document.lines:
        return len(document.text)
    line = document.line(at.line + 1)
    start = document.start_of(at.line + 1)
    count = 0
    for index, char in enumerate(line):
        if count >= at.character:
            return start + index
        count += units(char, encoding)
    return start + len(line)


def place_at(document: Document, where: int) -> Place | None:
    """The key (with its value) that an offset is in or at the end of; the innermost."""
    found = None
    for place in walk(document.root) if document.root is not None else ():
        spans = [place.member.key_span] if place.member is not None else []
        if place.node.kind not in ("object", "array"):
            spans.append(place.node.span)
        if any(start <= where <= end for start, end in spans):
            found = place
    return found


MARK = "dslint_cursor_"


@dataclass(frozen=True, slots=True)
class Cursor:
    """What can be written at a place: a key of the section `path`, or the value of the key `path`.

    `start` to `end` is the word that is there now, its quotes included; `before` the text so far as read,
    which tells what kind of file this is where the whole cannot be read.
    """

    before: Document
    path: Path
    is_key: bool
    start: int
    end: int


def cursor(document: Document, where: int) -> Cursor | None:
    """What the text before an offset asks for; None in a comment, or where nothing can stand.

    The reader decides: it is given the text so far with a mark for the word, first as a key, then as a value.
    """
    text = document.text
    start, end = where, where
    while start > 0 and _in_word(text[start - 1]):
        start -= 1
    while end < len(text) and _in_word(text[end]):
        end += 1
    if start > 0 and text[start - 1] in "\"'":
        quote = text[start - 1]
        start -= 1
        if text[end : end + 1] == quote:
            end += 1
    as_value = _marked(document.name, text[:start] + f'"{MARK}"')
    if as_value is not None and isinstance(as_value[1].path[-1], int):
        return None
    as_key = _marked(document.name, text[:start] + f'"{MARK}": 0')
    if as_key is not None and as_key[1].member is not None and as_key[1].member.key == MARK:
        return Cursor(as_key[0], as_key[1].path[:-1], True, start, end)
    return Cursor(as_value[0], as_value[1].path, False, start, end) if as_value is not None else None


def _marked(name: str, text: str) -> tuple[Document, Place] | None:
    """A text as read, and the place in it that is marked."""
    document = read_bytes(text.encode("utf-8", "surrogatepass"), name)
    for place in walk(document.root) if document.root is not None else ():
        if place.path and (place.node.value == MARK or place.path[-1] == MARK):
            return document, place
    return None


def _in_word(char: str) -> bool:
    return char.isalnum() or char in "_-.+"
