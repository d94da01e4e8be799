"""What --fix promises, held over configs.

    python -m tests.fix_properties PATH ... [--share I/N]

PATH is a config, a folder of them, or a .jsonl whose lines hold a "config" or a "config_text". A file is
fixed for every trainer and for an old release, a line in one layout, for one trainer and one release, which
change from line to line; all both safely and unsafely. --share takes every Nth input, from the Ith on. The
exit code is 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from dslint import schema as schemas
from dslint.finding import FileReport
from dslint.fixing.loop import Judge, fix_text
from dslint.lint import _BOOKS, Options, lint
from dslint.rules import load

SUFFIXES = (".json", ".hjson", ".yaml", ".yml")

Input = tuple[str, str, bytes, Options]
"""Where it comes from, the name of the file it is to be, what is in it, and what it is judged for."""


def _identities(report: FileReport) -> Counter[tuple[str, str]]:
    return Counter((finding.code, finding.key) for finding in report.findings)


def _errors(report: FileReport) -> set[tuple[str, str]]:
    return {(finding.code, finding.key) for finding in report.findings if finding.severity == "error"}


def _unreadable(report: FileReport) -> int:
    return sum(f.severity == "error" and f.phase == "load" for f in report.findings)


def _ends(raw: bytes) -> set[bytes]:
    return set(re.findall(rb"\r\n|\n", raw))


def broken(raw: bytes, judge: Judge, unsafe: bool) -> tuple[int, list[str]]:
    """How many findings fixing a text fixed, and what it promises that does not hold."""
    before, outcome = judge(raw), fix_text(raw, judge, unsafe)
    count = len(outcome.fixed)
    if outcome.raw == raw:
        return count, ["fixed without a change"] if count else []
    said = []
    again, after = fix_text(outcome.raw, judge, unsafe), judge(outcome.raw)
    if again.raw != outcome.raw:
        said.append(f"fixing twice is not fixing once: {[f.name for f in again.fixed]}")
    if after.findings != outcome.report.findings:
        said.append("what is reported is not what is found")
    if ends := _ends(outcome.raw) - (_ends(raw) or {b"\n"}):
        said.append(f"new line ends: {ends}")
    was, now = _identities(before), _identities(after)
    if _unreadable(before):  # and so hid the rest
        if _unreadable(after) >= _unreadable(before):
            said.append("no easier to read")
        return count, said
    if _unreadable(after):
        said.append("cannot be read any more")
    if new := _errors(after) - _errors(before):
        said.append(f"new errors: {sorted(new)}")
    if stay := [f.name for f in outcome.fixed if now[f.code, f.key] >= was[f.code, f.key] > 0]:
        said.append(f"fixed, and still found: {stay}")
    return count, said


def layout(config: Any, number: int) -> tuple[str, bytes]:
    """A config in one of the ways people write it: the file's name, and what is in it."""
    style = number % 7
    if style == 5 and isinstance(config, dict):
        return "ds.yaml", yaml.safe_dump(config, sort_keys=False).encode()
    if style == 6 and isinstance(config, dict):
        whole = {"distributed_type": "DEEPSPEED", "deepspeed_config": config, "num_processes": 8}
        return "accelerate.yaml", yaml.safe_dump(whole, sort_keys=False, default_flow_style=None).encode()
    text = json.dumps(config, indent=[2, 4, None, "\t", 2][style])
    if style == 4:
        text = text.replace(",\n", ",  // and\n").replace("\n", "\r\n")
    return "ds.json", text.encode()


def inputs(path: Path) -> Iterator[Input]:
    """The inputs of one path."""
    newest, releases = schemas.newest(), list(schemas.index())
    if path.suffix == ".jsonl":
        for number, line in enumerate(path.read_text().splitlines()):
            case = json.loads(line)
            if "config" in case:
                name, raw = layout(case["config"], number)
            else:
                name, raw = "ds.json", case["config_text"].encode()
            release = newest if number % 2 else releases[number // 2 % len(releases)]
            trainer = (None, "raw", "hf")[number % 3] if name == "ds.json" else None
            yield f"{path.name}:{number + 1}", name, raw, Options(release, trainer=trainer, gpus=8)
        return
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES):
        raw = file.read_bytes()
        for trainer in (None, "raw", "hf"):
            yield file.name, file.name, raw, Options(newest, trainer=trainer, gpus=8)
        yield file.name, file.name, raw, Options(releases[len(raw) % len(releases)], gpus=8)


def main(argv: list[str] | None = None) -> int:
    """Fixes everything and tells what does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.fix_properties", description=main.__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--share", default="0/1", metavar="I/N", help="every Nth input, from the Ith on")
    args = parser.parse_args(argv)
    first, step = map(int, args.share.split("/"))
    rules, began, slowest = load(), time.process_time(), (0.0, "")
    tried = changed = fixed = wrong = 0
    every = (one for path in args.paths for one in inputs(path))
    gc.disable()  # as the command does
    for number, (label, name, raw, options) in enumerate(every):
        if number % 500 == 0:
            _BOOKS.clear()  # what is made ready for a release is kept
            gc.collect()
        if number % step != first:
            continue
        for unsafe in (False, True):
            start = time.process_time()
            where = f"{label}, {options.release}, {options.trainer}, {'unsafe' if unsafe else 'safe'}"
            count, said = broken(raw, partial(lint, name=name, options=options, rules=rules), unsafe)
            slowest = max(slowest, (time.process_time() - start, where))
            tried, changed, fixed, wrong = tried + 1, changed + bool(count), fixed + count, wrong + bool(said)
            for what in said:
                print(f"{where}: {what}")
    print(
        f"{tried} texts in {time.process_time() - began:.0f} s of CPU, the slowest {slowest[0]:.2f} s ({slowest[1]}):"
        f" {changed} changed, {fixed} findings fixed, {wrong} broken"
    )
    return 1 if wrong or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
