"""Which DeepSpeed release a repository locks, pins or allows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dslint.releases import Spec

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")
FILES = ("pyproject.toml", "requirements.txt", "environment.yml", "environment.yaml", "setup.cfg", "Pipfile")

_LOCKED = re.compile(
    r'^name = "deepspeed"\r?\nversion = "([0-9][0-9.]*)|"deepspeed": \{[^{}]*"version": "==([0-9][0-9.]*)',
    re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|\s)#.*")
_NAMED = re.compile(r"(?:^|[\s\"'\[(,:])deepspeed\s*(?:\[[^\]]*\])?(?![A-Za-z0-9_.\-\]])", re.IGNORECASE)
_TAG = re.compile(r"/deepspeed(?:\.git)?(?:@v?|-)([0-9]+\.[0-9]+\.[0-9]+)", re.IGNORECASE)
_DEMAND = r"(?:===?|~=|>=|<=|!=|>|<)\s*[0-9][0-9A-Za-z.*+]*"
_PIP = re.compile(rf"\s*\(?({_DEMAND}(?:\s*,\s*{_DEMAND})*)")
_CONDA = re.compile(r"\s*=\s*([0-9][0-9.*]*)")
_TABLE = re.compile(r"""["']?\s*=\s*(?:\{.*?version\s*=\s*)?["']([^"']*)["']""")
_PART = re.compile(r"\s*(===?|~=|>=|<=|!=|>|<|\^|~|)\s*([0-9]{1,6}(?:\.[0-9]{1,6}){0,3})(\.\*)?")


def asked_release(start: Path) -> tuple[str, str] | None:
    """What the nearest repository file above `start` says of the release, and which file that is.

    A release where one is locked or pinned, a lock counting before a pin; else bounds such as
    ">=0.15, <0.17".
    """
    for folder in _upward(start):
        for name in LOCKS:
            match = _LOCKED.search(_text(folder / name))
            if match:
                return match.group(1) or match.group(2), f"locked in {name}"
        asked = [(spec, name) for name in _names(folder) for spec in demands(_text(folder / name))]
        pinned = next(((spec, f"pinned in {name}") for spec, name in asked if spec[0].isdigit()), None)
        if pinned is not None or asked:
            return pinned or asked[0]
    return None


def demands(text: str) -> Iterator[str | Spec]:
    """What the lines of a requirements, project or environment file demand of deepspeed.

    Releases where they are exact, a tag or an archive at an address included; else bounds.
    """
    if "deepspeed" not in text.lower():
        return
    for line in text.splitlines():
        line = _COMMENT.sub("", line)
        tag = _TAG.search(line)
        for named in [] if tag else _NAMED.finditer(line):
            rest = line[named.end() :]
            form = _PIP.match(rest) or _CONDA.match(rest) or _TABLE.match(rest)
            demand = _bounds(form.group(1), form.re is _CONDA) if form else ""
            if demand:
                yield demand
        if tag:
            yield tag.group(1)


def _bounds(text: str, conda: bool) -> str | Spec:
    """A release or bounds for a version demand of pip, Poetry or conda; "" where it says nothing."""
    found: list[Spec] = []
    for part in text.split(","):
        match = _PART.match(part)
        if match is None:
            continue
        operator, release, star = match.groups()
        parts = release.split(".")
        if star or (conda and len(parts) < 3):
            found += [_within(release, len(parts))] if operator != "!=" else []
        elif operator in ("", "==", "==="):
            return release
        elif operator == "~=":
            found.append(_within(release, max(1, len(parts) - 1)))
        elif operator == "~":
            found.append(_within(release, min(2, len(parts))))
        elif operator == "^":
            first = next((i for i, n in enumerate(parts) if int(n)), len(parts) - 1)
            found.append(_within(release, first + 1))
        else:
            found.append(operator + release)
    return ", ".join(found)


def _within(release: str, kept: int) -> Spec:
    """Bounds for a release and what follows it with the same first `kept` numbers."""
    parts = release.split(".")[:kept]
    return f">={release}, <{'.'.join([*parts[:-1], str(int(parts[-1]) + 1)])}"


def _upward(start: Path) -> Iterator[Path]:
    """`start` and the folders above it, up to the root of its repository."""
    for folder in (start, *start.parents):
        yield folder
        if (folder / ".git").exists():
            return


def _names(folder: Path) -> list[str]:
    """The files of a folder that may name a release."""
    found = [path for pattern in ("requirements*.txt", "requirements/*.txt") for path in folder.glob(pattern)]
    others = sorted(path.relative_to(folder).as_posix() for path in found)
    return list(dict.fromkeys([*FILES, *others]))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""
