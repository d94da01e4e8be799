"""The flags of `--verify`. Imported by every run, so it imports next to nothing."""

from __future__ import annotations

import argparse
import re

from dslint.errors import UsageError

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([kmgt]?)i?b?\Z", re.IGNORECASE | re.ASCII)


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the flags to the command line."""
    group = parser.add_argument_group(
        "running it for real (needs the extra: pip install 'deepspeed-lint[verify]')"
    )
    group.add_argument(
        "--verify",
        action="store_true",
        help="train a model of that shape with the config on --gpus processes for a step, and report memory, "
        "speed and what differed from the static verdict",
    )
    group.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        metavar="DEVICE",
        help="cuda (default where GPUs are) or cpu: over gloo, proof of function without a claim about GPUs",
    )
    group.add_argument(
        "--steps",
        type=_steps,
        metavar="N",
        help="steps measured after one of warm-up (default: 1; compared: 5)",
    )
    group.add_argument(
        "--hf-config", metavar="FILE", help="train transformers' model of this config.json, weights random"
    )
    group.add_argument(
        "--module",
        metavar="PKG.MOD:MAKE",
        help="train your own: MAKE() returns (torch module, iterator of batches)",
    )
    group.add_argument("--hostfile", metavar="FILE", help="several nodes, by DeepSpeed's own launcher")
    group.add_argument("--against", metavar="FILE", help="verify this config as well and give the ratios")
    group.add_argument(
        "--compare-stages", action="store_true", help="verify the config under ZeRO stages 0 to 3"
    )
    group.add_argument(
        "--max-memory", type=size, metavar="SIZE", help="fail when a rank's memory exceeds this, such as 70GB"
    )
    group.add_argument(
        "--min-throughput", type=_rate, metavar="RATE", help="fail below so many samples a second"
    )
    group.add_argument(
        "--memory-limit",
        type=size,
        metavar="SIZE",
        help="let each rank allocate no more than this: what a smaller card would do",
    )
    group.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="end a run after this (default: 900)",
    )
    group.add_argument("--force", action="store_true", help="run it in spite of errors found in the file")


def check(args: argparse.Namespace) -> None:
    """Raises UsageError for a flag that says nothing without `--verify`."""
    if args.verify:
        if args.method in ("lora", "qlora"):
            raise UsageError(f"--verify trains all weights; for {args.method} give your own model: --module")
        return
    given = ("device", "steps", "hf_config", "module", "hostfile", "against", "compare_stages", "max_memory",
             "min_throughput", "memory_limit", "timeout", "force")  # fmt: skip
    for name in given:
        if getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} needs --verify")


def size(text: str) -> int:
    """Bytes of a size such as 70GB or 1.5 TiB; both mean powers of 1024. Raises ArgumentTypeError."""
    match = _SIZE.match(text.strip())
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 70GB")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _steps(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:7]) <= 100_000 or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 100000")
    return int(text)


def _rate(text: str) -> float:
    return _above_zero(text, "a number of samples a second")


def _seconds(text: str) -> float:
    return _above_zero(text, "a number of seconds")


def _above_zero(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value
