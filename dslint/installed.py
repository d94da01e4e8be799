"""Which DeepSpeed is installed, read from metadata folders without importing anything of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_FOLDER = re.compile(r"deepspeed-([0-9][0-9A-Za-z.+]*)\.(dist|egg)-info\Z")


def installed_release(folders: Iterable[str]) -> str | None:
    """The release of the first deepspeed found on an import path, or None."""
    for folder in folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            match = _FOLDER.match(name)
            if match:
                return match.group(1).split("+")[0]
    return None
