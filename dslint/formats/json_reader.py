"""Reads a JSON config as DeepSpeed's loader does: at once where it is strict JSON, as nearly all are."""

from __future__ import annotations

import math
from typing import Final, NoReturn

from ..document import Document, Problem, Span
from .strict import read, scans

MAX_SIZE: Final = 1 << 18
"""Characters; a DeepSpeed config has a few thousand, and larger files are not read at all."""

MAX_SET_AGAIN: Final = 10
"""Keys set twice; the reader of hjson counts them among the problems after which it gives up."""


def read_json(text: str, name: str) -> Document:
    """Read a JSON config; see :func:`.hjson_reader.read_hjson` for what is found in it."""
    doc = Document(name, text, None)
    if len(text) > MAX_SIZE:
        size = f"more than {MAX_SIZE:,} characters, up to which dslint reads configs"
        doc.problems.append(Problem("file-too-large", Span(0, 0), size, cure="name a DeepSpeed config"))
        return doc
    again = read(doc, _SCANS)
    if again is None or len(again) > MAX_SET_AGAIN:
        from .hjson_reader import read_hjson

        read_hjson(doc)
    elif again:
        from .hjson_reader import set_twice

        doc.problems = [set_twice(*key) for key in again]
    return doc


def real_number(literal: str) -> int | float:
    """A number with a dot or an exponent; the loader makes integers of 5e8 and 1.0, below 1e10."""
    value = float(literal)
    return int(value) if abs(value) < 1e10 and value.is_integer() else value


def _finite(literal: str) -> int | float:
    value = real_number(literal)
    if not math.isfinite(value):
        raise ValueError(literal)
    return value


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


# What json would read otherwise than the loader raises ValueError here.
_SCANS = scans(_finite, _no_constant)
