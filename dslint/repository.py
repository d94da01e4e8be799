"""Which DeepSpeed release a repository locks or pins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_PIN = re.compile(
    r"""^[\s"'\-,]*deepspeed\s*(?:\[[^\]]*\])?\s*(?:={1,3}\s*["']?|["']?\s*=\s*["'](?:==)?)([0-9][0-9.]*[0-9])(?:["',;\s#]|$)""",
    re.MULTILINE,
)
_LOCKED = re.compile(r'^name = "deepspeed"\r?\nversion = "([0-9][0-9.]*)', re.MULTILINE)

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock")
PINS = ("pyproject.toml", "requirements.txt", "environment.yml", "environment.yaml", "setup.cfg")


def asked_release(start: Path) -> tuple[str, str] | None:
    """The release that the nearest repository file above `start` names, and which file.

    A lock file counts before a pin.
    """
    for folder in _upward(start):
        for names, pattern, word in ((LOCKS, _LOCKED, "locked in"), (_pin_files(folder), _PIN, "pinned in")):
            for name in names:
                match = pattern.search(_text(folder / name))
                if match:
                    return match.group(1), f"{word} {name}"
    return None


def _upward(start: Path) -> Iterator[Path]:
    """`start` and the folders above it, up to the root of its repository."""
    for folder in (start, *start.parents):
        yield folder
        if (folder / ".git").exists():
            return


def _pin_files(folder: Path) -> list[str]:
    try:
        others = sorted(p.name for p in folder.glob("requirements*.txt"))
    except OSError:
        others = []
    return [*PINS, *(name for name in others if name not in PINS)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""
