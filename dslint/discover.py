"""Which files are DeepSpeed configs: by name, by content, and the search below a directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = (".json", ".hjson", ".jsonc")
YAML = (".yaml", ".yml")

_NAME = re.compile(r"(^|[_.-])(ds|deepspeed|zero[0-3]?)([_.-]|[0-9]|config|conf|$)", re.IGNORECASE)
_KEYS = re.compile(
    rb"""["']?\b(zero_optimization|train_micro_batch_size_per_gpu|zero_allow_untested_optimizer"""
    rb"""|zero_force_ds_cpu_optimizer|stage3_gather_16bit_weights_on_model_save|fp16_master_weights_and_grads"""
    rb"""|bf16_master_weights_and_grads)["']?\s*:"""
)
_PAIR = re.compile(rb"""["']?\btrain_batch_size["']?\s*:""")
_SECTION = re.compile(
    rb"""["']?\b(fp16|bf16|optimizer|gradient_accumulation_steps|steps_per_print)["']?\s*:"""
)
_FOREIGN = re.compile(rb'^\s*\{\s*"(\$schema|\$id)"\s*:\s*"[^"]*json-schema\.org')
_ACCELERATE = re.compile(
    rb"""^(distributed_type\s*:\s*["']?DEEPSPEED\b|deepspeed_config\s*:)""", re.MULTILINE
)
_ACCELERATE_JSON = re.compile(rb'"(distributed_type"\s*:\s*"DEEPSPEED"|deepspeed_config"\s*:\s*\{)')
_INLINE = re.compile(rb"^deepspeed\s*:\s*(#.*)?\r?\n[ \t]+\S", re.MULTILINE)
_SKIPPED = {"node_modules", "__pycache__", "site-packages", "build", "dist"}


def named_like_config(path: str) -> bool:
    """Whether a file name says DeepSpeed config: ds_config.json, deepspeed_zero2.json, zero3.hjson."""
    name = os.path.basename(path)
    stem, suffix = os.path.splitext(name)
    return suffix.lower() in SUFFIXES and _NAME.search(stem) is not None


def looks_like_config(raw: bytes) -> bool:
    """Whether a text mentions keys that only a DeepSpeed config has, as keys."""
    if _FOREIGN.match(raw):
        return False
    return bool(_KEYS.search(raw) or (_PAIR.search(raw) and _SECTION.search(raw)))


def is_config(path: str, raw: bytes) -> bool:
    """Whether a file found by machine (a directory, a pre-commit file list) is to be linted.

    Of YAML files only accelerate's and those with a DeepSpeed config under `deepspeed`: other tools have
    keys of the same names.
    """
    if path.lower().endswith(YAML):
        return bool(_ACCELERATE.search(raw) or (_INLINE.search(raw) and looks_like_config(raw)))
    if not path.lower().endswith(SUFFIXES):
        return False
    if looks_like_config(raw) or (named_like_config(path) and _bare(raw)):
        return True
    return bool(_ACCELERATE_JSON.search(raw))


def tells_more(path: str, raw: bytes) -> bool:
    """Whether a file may name another one that belongs to it, as YAML files and accelerate's do."""
    return path.lower().endswith(YAML) or b'"deepspeed' in raw


def _bare(raw: bytes) -> bool:
    """A config by name that has none of the telling keys: linted when it is empty or mentions a section."""
    return not raw.strip() or bool(_PAIR.search(raw) or _SECTION.search(raw))


def below(folder: Path, suffixes: tuple[str, ...] = (*SUFFIXES, *YAML)) -> Iterator[Path]:
    """Files below a folder that may be configs by suffix, sorted; not in hidden or build folders."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED)
        for name in sorted(names):
            if name.lower().endswith(suffixes):
                yield Path(root, name)
