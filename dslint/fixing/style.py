"""How a text is written, so that what is added looks like what is there: line ends, indents, comments."""

from __future__ import annotations

import re

from dslint.document import Document

_INDENT = re.compile(r"[ \t]*")


def line_end(text: str) -> str:
    r"""The line end of a text: that of its first line, "\n" where it has none."""
    at = text.find("\n")
    if at < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if text[at - 1 : at] == "\r" else "\n"


def line_start(text: str, offset: int) -> int:
    """Where the line of an offset begins."""
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def line_stop(text: str, offset: int) -> int:
    """Where the line of an offset ends, before its line end."""
    ends = [at for at in (text.find("\n", offset), text.find("\r", offset)) if at >= 0]
    return min(ends, default=len(text))


def next_line(text: str, offset: int) -> int:
    """Where the line after that of an offset begins, or the end of the text."""
    stop = line_stop(text, offset)
    return stop + 2 if text.startswith("\r\n", stop) else min(stop + 1, len(text))


def indent(text: str, offset: int) -> str:
    """The blanks at the start of the line of an offset; a byte order mark does not count."""
    start = line_start(text, offset)
    if text.startswith("\ufeff", start):
        start += 1
    found = _INDENT.match(text, start)
    return found[0] if found else ""


def first_on_line(text: str, offset: int) -> bool:
    """Whether only blanks stand before an offset on its line."""
    return not text[line_start(text, offset) : offset].strip(" \t\ufeff")


def unit(document: Document) -> str:
    """One step of indentation, as the file has it."""
    root = document.root
    text = document.text
    stack = [] if root is None else [root]
    while stack:
        node = stack.pop(0)
        outer = indent(text, node.span.start)
        for member in node.members[:1]:
            inner = indent(text, member.key_span.start)
            if first_on_line(text, member.key_span.start) and len(inner) > len(outer):
                return inner[len(outer) :]
        stack += [m.node for m in node.members if m.node.kind == "object"]
    return "  "


def shifted(raw: str, before: str, after: str) -> str:
    """Text of several lines that moves from one indentation to another; its first line stays."""
    head, *rest = re.split(r"(\r\n|\r|\n)", raw)
    out = [head]
    for part in rest:
        if part in ("\r\n", "\r", "\n"):
            out.append(part)
        elif part.startswith(before):
            out.append(after + part[len(before) :])
        else:
            out.append(part if not part.strip() else after + part.lstrip(" \t"))
    return "".join(out)
