"""Which DeepSpeed release a repository locks, pins or allows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from dslint.releases import Spec

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")
FILES = ("pyproject.toml", "requirements.txt", "environment.yml", "environment.yaml", "setup.cfg", "Pipfile")

# Patterns are compiled where they are first used: most files say nothing of deepspeed.
_LOCKED = (
    r'(?m)^name = "deepspeed"\r?\nversion = "([0-9][0-9.]*)'
    r'|"deepspeed": \{[^{}]*"version": "==([0-9][0-9.]*)'
)
_COMMENT = r"(?:^|\s)#.*"
_NAMED = r"(?i)(?:^|[\s\"'\[(,:])deepspeed\s*(?:\[[^\]]*\])?(?![A-Za-z0-9_.\-\]])"
_TAG = r"(?i)/deepspeed(?:\.git)?(?:@v?|-)([0-9]+\.[0-9]+\.[0-9]+)"
_DEMAND = r"(?:===?|~=|>=|<=|!=|>|<)\s*[0-9][0-9A-Za-z.*+]*"
_PIP = rf"\s*\(?({_DEMAND}(?:\s*,\s*{_DEMAND})*)"
_CONDA = r"\s*=\s*([0-9][0-9.*]*)"
_TABLE = r"""["']?\s*=\s*(?:\{.*?version\s*=\s*)?["']([^"']*)["']"""
_PART = r"\s*(===?|~=|>=|<=|!=|>|<|\^|~|)\s*([0-9]{1,6}(?:\.[0-9]{1,6}){0,3})(\.\*)?"


def asked_release(start: str) -> tuple[str, str] | None:
    """What the nearest repository file above `start` says of the release, and which file that is.

    A release where one is locked or pinned, a lock counting before a pin; else bounds such as
    ">=0.15, <0.17".
    """
    for folder in _upward(start):
        for name in LOCKS:
            text = _text(folder, name)
            if text and (match := re.search(_LOCKED, text)):
                return match.group(1) or match.group(2), f"locked in {name}"
        asked = [(spec, name) for name in _names(folder) for spec in demands(_text(folder, name))]
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
        line = re.sub(_COMMENT, "", line)
        tag = re.search(_TAG, line)
        for named in [] if tag else re.finditer(_NAMED, line):
            rest = line[named.end() :]
            form = re.match(_PIP, rest) or re.match(_CONDA, rest) or re.match(_TABLE, rest)
            demand = _bounds(form.group(1), form.re.pattern == _CONDA) if form else ""
            if demand:
                yield demand
        if tag:
            yield tag.group(1)


def _bounds(text: str, conda: bool) -> str | Spec:
    """A release or bounds for a version demand of pip, Poetry or conda; "" where it says nothing."""
    found: list[Spec] = []
    for part in text.split(","):
        match = re.match(_PART, part)
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


def _upward(start: str) -> Iterator[str]:
    """`start` and the folders above it, up to the root of its repository."""
    folder, below = start, ""
    while folder != below:
        yield folder
        if os.path.exists(os.path.join(folder, ".git")):
            return
        folder, below = os.path.dirname(folder), folder


def _names(folder: str) -> list[str]:
    """The files of a folder that may name a release."""
    found = [name for name in _listed(folder) if name.startswith("requirements")]
    found += [f"requirements/{name}" for name in _listed(os.path.join(folder, "requirements"))]
    return list(dict.fromkeys([*FILES, *sorted(name for name in found if name.endswith(".txt"))]))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
