"""Which DeepSpeed release a repository asks for: its settings, its lock files, its pins."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_PIN = re.compile(
    r"""^[\s"'\-,]*deepspeed\s*(?:\[[^\]]*\])?\s*(?:={1,3}\s*["']?|["']?\s*=\s*["'](?:==)?)([0-9][0-9.]*[0-9])(?:["',;\s#]|$)""",
    re.MULTILINE,
)
_LOCKED = re.compile(r'^name = "deepspeed"\r?\nversion = "([0-9][0-9.]*)', re.MULTILINE)
_SETTING = re.compile(r"^\[tool\.dslint\]", re.MULTILINE)

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock")
PINS = ("pyproject.toml", "requirements.txt", "environment.yml", "environment.yaml", "setup.cfg")


def asked_release(start: Path) -> tuple[str, str] | None:
    """The release (or range A..B) that the nearest repository file above `start` names, and which file.

    [tool.dslint] deepspeed counts before a lock file, a lock file before a pin. Raises ValueError for
    a setting that is not text.
    """
    for folder in _upward(start):
        setting = _from_settings(folder / "pyproject.toml")
        if setting is not None:
            return setting, "pyproject.toml [tool.dslint]"
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


def _from_settings(path: Path) -> str | None:
    text = _text(path)
    if not _SETTING.search(text):
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        table = tomllib.loads(text).get("tool", {}).get("dslint", {})
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from None
    value = table.get("deepspeed") if isinstance(table, dict) else None
    if value is not None and not isinstance(value, str):
        raise ValueError(f'{path}: [tool.dslint] deepspeed is text, such as "0.16.4"')
    return value
