"""JSON that prints as itself on any terminal and in any CI log."""

from __future__ import annotations

import json
import re

from dslint.report.escape import log_command_hashes

_NOT_ASCII = re.compile(r"[^\x20-\x7e]")


def dumps(value: object) -> str:
    """Valid JSON in which letters of any script stand as themselves and everything unprintable is escaped.

    Escapes are needed beyond JSON's own: a lone surrogate (from an undecodable file name) cannot be
    written as UTF-8, U+2028 ends a line in JavaScript, and bidi marks turn the text round on a terminal.
    """
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = _NOT_ASCII.sub(lambda match: _escape(match[0]), text)
    hashes = log_command_hashes(text)  # a CI runner reads this report too when it is printed in a log
    return "".join("\\u0023" if i in hashes else c for i, c in enumerate(text)) if hashes else text


def _escape(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"
