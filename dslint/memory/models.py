"""Names of models to shapes: a table of checked ones, a config.json, or a size such as "7B"."""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from dslint.errors import UsageError
from dslint.memory.families import KNOWN, ShapeError, shape_of
from dslint.memory.shapes import Shape

TABLE = Path(__file__).with_name("models.json")
MAX_BYTES = 1_000_000
_SIZE = re.compile(r"(?:gpt[-_])?([0-9]{1,5}(?:\.[0-9]{1,3})?)([bm])\Z", re.ASCII)

LADDER = (
    (0.06e9, 512, 8),
    (0.2e9, 768, 12),
    (0.5e9, 1024, 24),
    (1.0e9, 1536, 24),
    (1.8e9, 2048, 24),
    (4.5e9, 2560, 32),
    (10e9, 4096, 32),
    (20e9, 5120, 40),
    (45e9, 6656, 60),
    (100e9, 8192, 80),
    (300e9, 12288, 96),
    (float("inf"), 16384, 126),
)
"""Sizes up to which a model usually has this hidden width and this many layers (GPT-3 and Llama tables)."""


class ModelError(UsageError):
    """A model that is not known; the message is one line with the cure."""


@lru_cache(maxsize=1)
def table() -> list[dict[str, Any]]:
    """The checked models: name, aliases, source (the repository whose config.json was taken),
    parameters (of the published weights) and the config."""
    data: list[dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return data


@lru_cache(maxsize=1)
def _names() -> dict[str, dict[str, Any]]:
    return {name: entry for entry in table() for name in (entry["name"], *entry["aliases"])}


class _Models:
    """The names of the table, read when first asked for."""

    def __contains__(self, name: object) -> bool:
        return name in _names()


MODELS = _Models()


@lru_cache(maxsize=64)
def model(word: str) -> Shape:
    """The shape that a name, a path of a config.json (or of its directory) or a size means.

    Raises ModelError.
    """
    entry = _names().get(word.strip().lower())
    if entry is not None:
        return shape_of(entry["config"], entry["name"])
    if word.endswith(".json") or os.sep in word or os.path.isdir(word) or os.path.isfile(word):
        return _from_file(word)
    size = _SIZE.match(word.strip().lower())
    if size is not None:
        count = float(size.group(1)) * (1e9 if size.group(2) == "b" else 1e6)
        if 1e6 <= count <= 1e13:
            return inferred(count, word.strip())
    from dslint.suggest import nearest

    near = nearest(word.lower(), list(_names()))
    hint = f"did you mean {near}?" if near else "name one of the table, a config.json or a size such as 7B"
    raise ModelError(f"no model is called {_quoted(word)}; {hint}")


def _from_file(word: str) -> Shape:
    try:
        path = Path(word)
        if path.is_dir():
            path = path / "config.json"
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ModelError(
            f"model {_quoted(word)}: {reason}; a path names a Hugging Face config.json"
        ) from None
    if len(raw) > MAX_BYTES:
        raise ModelError(f"model {_quoted(word)}: too large for a model config")
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        raise ModelError(f"model {_quoted(word)}: not JSON") from None
    if not isinstance(data, dict):
        raise ModelError(f"model {_quoted(word)}: not a Hugging Face config.json (an object with model_type)")
    place = path.resolve().parent.name if path.name == "config.json" else path.stem
    try:
        return shape_of(data, str(data.get("_name_or_path") or place))
    except ShapeError as error:
        raise ModelError(f"model {_quoted(word)}: {error}") from None


def inferred(parameters: float, name: str) -> Shape:
    """A shape of about so many parameters: a Llama of the usual proportions, vocabulary 32,000."""
    hidden, layers = next((h, n) for limit, h, n in LADDER if parameters <= limit)
    vocab = 32000
    if parameters < 2e9:
        vocab = int(min(vocab, parameters * 0.2 / hidden) // 64 * 64) or 64
    layers = max(1, round((parameters - 2 * vocab * hidden) / (12 * hidden * hidden)))
    left = (parameters - 2 * vocab * hidden) / layers - 4 * hidden * hidden
    ffn = max(64, round(left / (3 * hidden) / 64) * 64)
    heads = max(1, hidden // 128)
    config = {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "head_dim": hidden // heads,
    }
    shape = shape_of(config, name)
    note = (
        f"the shape of {name} is inferred from its size: Llama-like, hidden {hidden}, {layers} layers, "
        f"vocabulary {vocab}; name a model or a config.json for an exact one"
    )
    return Shape(name, shape.tensors, shape.blocks, vocab, notes=(note,), family="llama")


def _quoted(word: str) -> str:
    shown = word if len(word) <= 60 else word[:57] + "..."
    return repr(shown)


def known_families() -> tuple[str, ...]:
    """Every model_type that a config.json may have."""
    return KNOWN
