"""Carries out a documentation page as a reader would: writes its files, runs its commands, compares output.

A block with title="PATH" is a file; of a console block the lines that begin with $ are commands, and what
follows each is what it prints, standard error included. A line of the expected output may have `...` in it
for what differs, and be `...` alone for any number of lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str
    text: str


def blocks(page: str, heading: str = "") -> list[Block]:
    """The fenced blocks of a page, or of the section under one of its headings."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if heading:
        assert f"\n## {heading}\n" in text, f"{page} has no heading {heading}"
        text = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [Block(language, title or "", body) for language, title, body in _FENCE.findall(text)]


def follow(steps: list[Block], folder: Path) -> int:
    """Does what the blocks say in a folder; returns how many commands ran. Fails where a page is not true."""
    ran = 0
    for block in steps:
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, expected = step.partition("\n")
                printed = shell(command, folder)
                assert matches(expected.rstrip("\n"), printed.rstrip("\n")), f"$ {command}\n{printed}"
                ran += 1
    return ran


def shell(command: str, folder: Path) -> str:
    """What a command prints, in an environment where `dslint` and `python` are those under test."""
    bin_ = folder / ".bin"
    if not bin_.exists():
        bin_.mkdir()
        for name, target in (("dslint", '"-m" "dslint"'), ("python", "")):
            script = bin_ / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {target} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
    drop = ("GITHUB_ACTIONS", "FORCE_COLOR", "PYTEST_ADDOPTS")
    environment = {key: value for key, value in os.environ.items() if key not in drop}
    environment["PATH"] = f"{bin_}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = str(folder if (folder / "dslint").is_dir() else ROOT)
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, text=True, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip
    return done.stdout


def matches(expected: str, printed: str) -> bool:
    """Whether a text is the expected one, whose `...` stand for anything."""
    pattern = ""
    for line in expected.split("\n"):
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(map(re.escape, line.split("..."))) + r"\n"
    return re.fullmatch(pattern, printed + "\n") is not None
