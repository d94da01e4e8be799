"""Makes text that comes from a file or a file name harmless to terminals and CI logs.

A config is often someone else's: what it says must neither steer a terminal (escapes, overstriking,
text that runs backwards) nor be taken by a CI runner for one of its own commands. What is escaped
stays visible, in the notation config authors know from JSON.
"""

from __future__ import annotations

import re

LIMIT = 2000
"""How many characters of one message are shown; a key may be as long as its file."""

# GitHub's runner obeys "##[command]" anywhere in a line, Azure's "##vso[command]", TeamCity's
# "##teamcity[...]"; a second # spelled out is obeyed by none.
_LOG_COMMAND = re.compile(r"##(?=\w*\[)")

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def character(char: str) -> str:
    """A character that prints as itself, else its escape: controls, bidi marks, odd spaces, surrogates."""
    if char.isprintable():
        return char
    code = ord(char)
    return _SHORT.get(char) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def visible(text: str, limit: int = LIMIT) -> str:
    """`text` on one line, at most `limit` characters of it, with everything unprintable spelled out."""
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    if not text.isprintable():
        text = "".join(map(character, text))
    return _LOG_COMMAND.sub(r"#\\u0023", text) if "##" in text else text


def log_command_hashes(text: str) -> set[int]:
    """Offsets of the characters by whose escape `text` no longer holds a CI runner's "##[" command."""
    return {match.start() + 1 for match in _LOG_COMMAND.finditer(text)} if "##" in text else set()


def line_head(text: str) -> str:
    """`text` fit to open a line: GitHub's runner takes "::name" there, after any spaces, for a command."""
    return text.replace(":", "\\u003a", 1) if text.lstrip().startswith("::") else text
