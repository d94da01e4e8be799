"""The flags that describe the run and the machine, and those of `--estimate` and `--recommend`.

Imported by every run, so it imports next to nothing.
"""

from __future__ import annotations

import argparse

from dslint.errors import UsageError

FORMATS = ("html",)
"""Formats that only estimates have."""

_ON_OFF = ("on", "off")


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the flags to the command line."""
    group = parser.add_argument_group("the model and the machine (for memory and speed)")
    group.add_argument(
        "--model", metavar="MODEL", help="a name such as llama-7b, a Hugging Face config.json, or a size: 7B"
    )
    group.add_argument("--seq-len", type=_whole, metavar="N", help="tokens of a sequence (default: 2048)")
    group.add_argument(
        "--method",
        choices=("full", "lora", "qlora"),
        metavar="METHOD",
        help="full (default), lora or qlora",
    )
    group.add_argument(
        "--trainable-params", type=_count, metavar="N", help="parameters that train, such as 40M"
    )
    group.add_argument("--gpu-type", metavar="GPU", help="such as a100-80gb, h100, rtx-4090, mi300x")
    group.add_argument("--gpu-memory", metavar="SIZE", help="memory of a card that is not in the table: 80GB")
    group.add_argument("--gpus-per-node", type=_whole, metavar="N", help="default: 8")
    group.add_argument(
        "--interconnect",
        metavar="LINK",
        help="between nodes: ib400, ib200, ib200x8 (eight ports a node), ib100, eth25, eth10, eth1; "
        "or inside one: nvlink4, pcie4",
    )
    group.add_argument("--host-memory", metavar="SIZE", help="memory of a node: 1TB")
    group.add_argument(
        "--micro-batch", type=_whole, metavar="N", help='where the config leaves it out or says "auto"'
    )
    group.add_argument(
        "--gradient-accumulation",
        type=_whole,
        metavar="N",
        help='where the config leaves it out or says "auto"',
    )
    group.add_argument(
        "--checkpointing", choices=_ON_OFF, metavar="on|off", help="activation checkpointing (default: on)"
    )
    group.add_argument(
        "--attention",
        choices=("flash", "eager"),
        metavar="KIND",
        help="flash: no scores kept, SDPA too (default); eager",
    )
    group.add_argument(
        "--fused-loss", action="store_true", help="a cross entropy that never holds all logits"
    )
    group.add_argument(
        "--no-zero-init",
        action="store_true",
        help="the model is built whole on each rank before stage 3 splits it",
    )
    asks = parser.add_argument_group("will it fit")
    asks.add_argument(
        "--estimate",
        action="store_true",
        help="memory by phase and item, host memory, traffic, step time; with --gpus 1,2,4,8 or --stages "
        "side by side; --format html for a page",
    )
    asks.add_argument("--stages", action="store_true", help="with --estimate: every ZeRO stage and offload")
    asks.add_argument(
        "--recommend",
        action="store_true",
        help="the fastest configuration that fits, with the config file; --output FILE writes it",
    )


KEYS = (
    "model",
    "seq_len",
    "method",
    "trainable_params",
    "gpu_type",
    "gpu_memory",
    "gpus_per_node",
    "interconnect",
    "host_memory",
    "micro_batch",
    "gradient_accumulation",
    "checkpointing",
    "attention",
    "fused_loss",
    "no_zero_init",
)
"""What is said of a run beside its config: names of flags and settings, as Python spells them."""


def said(args: argparse.Namespace) -> bool:
    """Whether the flags say anything about the model or the machine."""
    return any(getattr(args, name) for name in KEYS)


def settle(args: argparse.Namespace) -> None:
    """`args.gpu_counts` becomes all numbers of GPUs, `args.gpus` the one to lint for: None where several
    stand side by side, of which none is the run's."""
    counts = args.gpus if isinstance(args.gpus, tuple) else (args.gpus,) if args.gpus else ()
    args.gpu_counts = counts
    args.gpus = counts[0] if len(counts) == 1 else None


def check(args: argparse.Namespace) -> None:
    """Raises UsageError for settled flags that do not go together."""
    if len(args.gpu_counts) > 1 and not args.estimate:
        raise UsageError("--gpus takes one number; a list needs --estimate")
    if args.stages and not args.estimate:
        raise UsageError("--stages needs --estimate")
    if (args.estimate or args.recommend) and not args.model:
        asked = "--estimate" if args.estimate else "--recommend"
        raise UsageError(f"{asked} needs the model: --model NAME, a config.json, or a size such as 7B")
    if args.recommend:
        if args.format not in (None, "text", "json"):
            raise UsageError("--recommend takes --format text or json")
        if not args.gpus:
            raise UsageError("--recommend needs --gpus")
        if not (args.gpu_type or args.gpu_memory):
            raise UsageError("--recommend needs the card: --gpu-type a100-80gb or --gpu-memory 80GB")
    if args.format in FORMATS and not args.estimate:
        raise UsageError("--format html needs --estimate")


def counts(text: str) -> int | tuple[int, ...]:
    """A number of GPUs, or a comma-separated list of them. Raises ArgumentTypeError."""
    found = tuple(_whole(word.strip()) for word in text.split(","))
    if len(found) > 16:
        raise argparse.ArgumentTypeError("more than 16 numbers of GPUs")
    return found[0] if len(found) == 1 else tuple(dict.fromkeys(found))


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 999999999")
    return int(text)


def _count(text: str) -> int:
    scale = {"k": 1e3, "m": 1e6, "b": 1e9}.get(text[-1:].lower(), 1.0)
    digits = text[:-1] if scale != 1.0 else text
    try:
        value = float(digits) * scale if len(digits) < 20 else 0.0
    except ValueError:
        value = 0.0
    if not 1 <= value < 1e13:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of parameters, such as 40M")
    return int(value)
