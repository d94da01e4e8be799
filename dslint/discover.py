"""Which files are DeepSpeed configs: by name, by content, and the search below a directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

SUFFIXES = (".json", ".hjson", ".jsonc")
YAML = (".yaml", ".yml")

# Patterns are compiled where they are first used: files that are named need none of them.
_NAME = r"(?i)(^|[_.-])(ds|deepspeed|zero[0-3]?)([_.-]|[0-9]|config|conf|$)"
_KEYS = (
    rb"""["']?\b(zero_optimization|train_micro_batch_size_per_gpu|zero_allow_untested_optimizer"""
    rb"""|zero_force_ds_cpu_optimizer|stage3_gather_16bit_weights_on_model_save|fp16_master_weights_and_grads"""
    rb"""|bf16_master_weights_and_grads)["']?\s*:"""
)
_PAIR = rb"""["']?\btrain_batch_size["']?\s*:"""
_SECTION = rb"""["']?\b(fp16|bf16|optimizer|gradient_accumulation_steps|steps_per_print)["']?\s*:"""
_FOREIGN = rb'^\s*\{\s*"(\$schema|\$id)"\s*:\s*"[^"]*json-schema\.org'
_ACCELERATE = rb"""(?m)^(distributed_type\s*:\s*["']?DEEPSPEED\b|deepspeed_config\s*:)"""
_ACCELERATE_JSON = rb'"(distributed_type"\s*:\s*"DEEPSPEED"|deepspeed_config"\s*:\s*\{)'
_INLINE = rb"(?m)^deepspeed\s*:\s*(#.*)?\r?\n[ \t]+\S"
_SKIPPED = {"node_modules", "__pycache__", "site-packages", "build", "dist"}


def named_like_config(path: str) -> bool:
    """Whether a file name says DeepSpeed config: ds_config.json, deepspeed_zero2.json, zero3.hjson."""
    name = os.path.basename(path)
    stem, suffix = os.path.splitext(name)
    return suffix.lower() in SUFFIXES and re.search(_NAME, stem) is not None


def looks_like_config(raw: bytes) -> bool:
    """Whether a text mentions keys that only a DeepSpeed config has, as keys."""
    if re.match(_FOREIGN, raw):
        return False
    return bool(re.search(_KEYS, raw) or (re.search(_PAIR, raw) and re.search(_SECTION, raw)))


def is_config(path: str, raw: bytes) -> bool:
    """Whether a file found by machine (a directory, a pre-commit file list) is to be linted.

    Of YAML files only accelerate's and those with a DeepSpeed config under `deepspeed`: other tools have
    keys of the same names.
    """
    if path.lower().endswith(YAML):
        return bool(re.search(_ACCELERATE, raw) or (re.search(_INLINE, raw) and looks_like_config(raw)))
    if not path.lower().endswith(SUFFIXES):
        return False
    if looks_like_config(raw) or (named_like_config(path) and _bare(raw)):
        return True
    return bool(re.search(_ACCELERATE_JSON, raw))


def tells_more(path: str, raw: bytes) -> bool:
    """Whether a file may name another one that belongs to it, as YAML files and accelerate's do."""
    return path.lower().endswith(YAML) or b'"deepspeed' in raw


def _bare(raw: bytes) -> bool:
    """A config by name that has none of the telling keys: linted when it is empty or mentions a section."""
    return not raw.strip() or bool(re.search(_PAIR, raw) or re.search(_SECTION, raw))


def below(folder: str, suffixes: tuple[str, ...] = (*SUFFIXES, *YAML)) -> Iterator[str]:
    """Files below a folder that may be configs by suffix, sorted; not in hidden or build folders."""
    from pathlib import Path  # shortens ./a//b to a/b; files that are named need none of it

    for root, folders, names in os.walk(Path(folder)):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED)
        for name in sorted(names):
            if name.lower().endswith(suffixes):
                yield str(Path(root, name))
