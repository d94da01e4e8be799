"""From findings to text: one module a format, each with one pure function `render`.

A format is imported only when it is asked for, since start-up time is paid on every commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dslint.finding import FileReport

FORMATS = ("text", "concise", "json", "github", "sarif", "gitlab", "junit", "rdjson")
"""Names that `--format` takes; each is a module of this package."""


class Renderer(Protocol):
    """What every format offers. The text returned is empty or ends with a line end.

    `color` asks for ANSI colours; formats that machines read take it and leave it.
    """

    def __call__(self, reports: Sequence[FileReport], *, color: bool = False) -> str: ...


def renderer(name: str) -> Renderer:
    """The render function of a format in FORMATS."""
    if name not in FORMATS:
        raise ValueError(f"unknown format {name!r}; known: {', '.join(FORMATS)}")
    render: Renderer = import_module(f"{__name__}.{name}").render
    return render
