"""The flags of fixing. Imported by every run, so it imports next to nothing."""

from __future__ import annotations

import argparse

from dslint.errors import UsageError


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the flags to the command line."""
    group = parser.add_argument_group("fixing")
    group.add_argument(
        "--fix",
        action="store_true",
        help="mend in the file what is safe to mend: DeepSpeed does the same as before, or a certain crash "
        "goes away; standard input is printed mended",
    )
    group.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help="with --fix or --diff: mend also what changes the run, such as a misspelled key",
    )
    group.add_argument(
        "--diff", action="store_true", help="print what --fix would change and write nothing; exit 1 if any"
    )


def check(args: argparse.Namespace) -> None:
    """Raises UsageError for flags that do not go together."""
    if args.unsafe_fixes and not (args.fix or args.diff):
        raise UsageError("--unsafe-fixes needs --fix or --diff")
