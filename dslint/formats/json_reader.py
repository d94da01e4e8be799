"""Reads a JSON config as DeepSpeed's loader does: at once where it is strict JSON, as nearly all are."""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

from ..document import Document, Problem, Span
from .strict import tree

MAX_SIZE: Final = 1 << 18
"""Characters; a DeepSpeed config has a few thousand, and larger files are not read at all."""


def read_json(text: str, name: str) -> Document:
    """Read a JSON config; see :func:`.hjson_reader.read_hjson` for what is found in it."""
    doc = Document(name, text, None)
    if len(text) > MAX_SIZE:
        size = f"more than {MAX_SIZE:,} characters, up to which dslint reads configs"
        doc.problems.append(Problem("file-too-large", Span(0, 0), size, cure="name a DeepSpeed config"))
        return doc
    doc.root = tree(text, _SCAN)
    if doc.root is None:
        from .hjson_reader import read_hjson

        read_hjson(doc)
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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is set twice")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


# What json would read otherwise than the loader raises ValueError here.
_SCAN = json.JSONDecoder(object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_constant).raw_decode
