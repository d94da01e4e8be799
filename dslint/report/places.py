"""Where a file lies and what tells a finding from others, for formats that machines keep."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dslint.finding import Finding


def relative(name: str) -> str:
    """A path with slashes, from the current directory where it lies below it, else as it was given."""
    if os.path.isabs(name):
        try:
            inside = os.path.relpath(name)
        except (OSError, ValueError):
            inside = name
        name = name if inside.startswith("..") else inside
    return os.path.normpath(name).replace(os.sep, "/") if name else name


def fingerprints(path: str, findings: Iterable[Finding]) -> Iterator[tuple[Finding, str]]:
    """Each finding with a text that stays the same when lines move: of path, code and key.

    The second finding of a code at one key differs from the first, and so on.
    """
    seen: dict[tuple[str, str], int] = {}
    for finding in findings:
        which = seen[finding.code, finding.key] = seen.get((finding.code, finding.key), 0) + 1
        parts = (path, finding.code, finding.key, *((str(which),) if which > 1 else ()))
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        yield finding, sha256(text).hexdigest()
