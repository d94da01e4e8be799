"""`--show-config`: every value DeepSpeed will use and where it comes from."""

from __future__ import annotations

from dslint.config import Config
from dslint.document import Path, dotted
from dslint.expression import UNKNOWN, show
from dslint.releases import number
from dslint.report.escape import line_head, visible
from dslint.schema import newest, walked
from dslint.trainers import NAMES

_ORIGIN = {
    "file": "the file",
    "default": "default",
    "dropped": 'default, for DeepSpeed drops "auto" here',
    "derived": "derived",
    "deprecated": "deprecated key",
}


def show_config(config: Config) -> str:
    """One line a value: path = value, then its origin. Not given and without a default: left out."""
    target = config.target
    lines = [
        f"# {config.document.name}: DeepSpeed {target.release} ({target.release_reason}), "
        f"trainer {target.trainer} ({target.trainer_reason})"
    ]
    known = number(target.release) <= number(newest())  # a later one may read other keys
    unread = set(walked(config.data, config.schema).unread) if known else set()
    for path in config.leaves():
        value, origin = config.value(path), config.origin(path)
        if path[0] == "dslint" or (value is None and origin.kind == "default"):
            continue
        text, source = effective(config, path)
        if any(path[:depth] in unread for depth in range(1, len(path) + 1)):
            source += "; DeepSpeed does not read it"
        lines.append(f"{dotted(path)} = {text}  # {source}")
    return "".join(f"{line_head(visible(line, 4000))}\n" for line in lines)


def effective(config: Config, path: Path) -> tuple[str, str]:
    """What DeepSpeed will use at a path ("?" where nobody can know), and where that comes from."""
    value, origin = config.value(path), config.origin(path)
    text = "?" if value is UNKNOWN else f'"{value}"' if isinstance(value, str) else show(value)
    if origin.kind == "filled":
        return text, f"filled by {NAMES[config.target.trainer]} from {origin.detail}"
    return text, _ORIGIN[origin.kind] + (f": {origin.detail}" if origin.detail else "")
