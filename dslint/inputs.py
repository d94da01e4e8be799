"""What is linted: the files named or found, and what the files around them tell of their runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator

from dslint.discover import SUFFIXES, YAML, below, is_config, tells_more
from dslint.errors import UsageError
from dslint.lint import Options
from dslint.settle import Settling

Input = tuple[str, bytes]
"""The name and the bytes of a file."""

Work = tuple[str, bytes, list[Options]]
"""A file with what it is judged for, once for each of its runs."""

MAX_BYTES = 2_000_000
"""Bytes read of a file: more than any config has that the reader does not refuse as too large."""

MAX_SCRIPT = 1 << 18
"""Bytes of a launch script that are read."""

_MOST = 1 << 16
"""Bytes that hardly any config has."""


def gather(args: argparse.Namespace, settling: Settling) -> tuple[list[Input], list[str]]:
    """The inputs, and a line about each that could not be had."""
    inputs: list[Input] = []
    cannot: list[str] = []
    once = {path if path == "-" else os.path.normpath(path): path for path in reversed(args.paths)}
    for path in list(reversed(once.values())) or ([] if args.hf_args else ["."]):
        try:
            if path == "-":
                if sys.stdin is None:
                    raise OSError("standard input is closed")
                raw = sys.stdin.buffer.read(MAX_BYTES + 1)
                if len(raw) > MAX_BYTES:  # it may have no end, and --fix would print a part of it
                    raise UsageError(f"standard input: more than {MAX_BYTES:,} bytes, which no config has")
                inputs.append((args.stdin_filename or "<stdin>", raw))
            elif os.path.isdir(path):
                paths = (p for p in below(path) if readable(p) and not settling.leaves_out(p))
                found = ((p, head_of(p)) for p in paths)
                configs = [(name, raw) for name, raw in found if is_config(name, raw)]
                if not configs and args.paths and not args.filter:
                    raise UsageError(nothing_found([path]))
                inputs += configs
            elif not (args.filter and settling.leaves_out(path)):
                raw = head_of(path)
                if not args.filter or is_config(path, raw):
                    inputs.append((path, raw))
        except UsageError as error:
            cannot.append(str(error))
        except (OSError, ValueError) as error:
            cannot.append(f"{path}: {getattr(error, 'strerror', None) or error}")
    return inputs, cannot


def related(args: argparse.Namespace, inputs: list[Input], settling: Settling) -> list[Work]:
    """Each file with what to judge it for: once for every run that is known to name it, else once.

    Files that an accelerate file or arguments of a run name are added.
    """
    folders = [path for path in args.paths or ["."] if os.path.isdir(path)]
    if not args.hf_args and not folders and not any(tells_more(name, raw) for name, raw in inputs):
        return [(name, raw, [settling.of(name).options]) for name, raw in inputs]
    from dslint.project import STARTING, asked, plan, runs_among, runs_of

    look = looking_below([".", *folders, *(os.path.dirname(name) or "." for name, _ in inputs)])
    if args.hf_args:
        try:
            jobs = asked(inputs, runs_of(args.hf_args, head_of(args.hf_args), look), look)
        except (OSError, ValueError) as error:
            raise UsageError(f"{args.hf_args}: {getattr(error, 'strerror', None) or error}") from None
    else:
        paths = (path for folder in folders if inputs for path in below(folder, STARTING))
        jobs = plan(inputs, runs_among(heads(paths), [name for name, _ in inputs], look), look)
    return [
        (
            job.name,
            job.raw,
            [
                settling.of(job.name).options._replace(launch=launch, companion=job.companion)
                for launch in (job.launches or (None,))
            ],
        )
        for job in jobs
    ]


def looking_below(folders: list[str]) -> Callable[[str], bytes | None]:
    """Reads files that other files name: configs and arguments, by their suffix, that lie below here."""
    roots = {os.path.realpath(folder) for folder in folders}

    def look(path: str) -> bytes | None:
        try:
            real = os.path.realpath(path)
            if not path.lower().endswith((*SUFFIXES, *YAML)) or not any(
                os.path.commonpath([root, real]) == root for root in roots
            ):
                return None
            return head_of(real) if os.path.isfile(real) else None
        except (OSError, ValueError):  # no file can have that name: it holds NUL or half a character
            return None

    return look


def head_of(path: str, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a file, of a huge one only as many as tell that it is no config."""
    with open(path, "rb") as file:
        head = file.read(_MOST)  # room for more takes longer to get than a config to read
        return head if len(head) < _MOST else head + file.read(limit - _MOST)


def heads(paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Names and beginnings of files that may start a run; one that is gone meanwhile starts none."""
    for path in filter(readable, paths):
        try:
            yield path, head_of(path, MAX_SCRIPT)
        except OSError:
            continue


def readable(path: str) -> bool:
    """Whether a file found in a directory can be read; a broken link or a device is passed over."""
    return os.path.isfile(path) and os.access(path, os.R_OK)


def nothing_found(paths: list[str]) -> str:
    """What to say when there is nothing to lint."""
    where = " or ".join(paths) if paths else "the current directory"
    return f"no DeepSpeed config found below {where}; name the file: dslint path/to/ds_config.json"
