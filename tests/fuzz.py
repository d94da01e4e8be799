"""Mutated configs through lint, --fix and every format: no exception, no call over 2 s, every output valid.

    python -m tests.fuzz [FOLDER] [-n N] [--seed S] [--start I] [--fix K] [--formats K]

Configs come from the generator of the oracle, with FOLDER half of them from its files; each is written in
some style and mutated as bytes, as tokens or as a structure. All are linted, reported as JSON and, one in K,
fixed and put through all formats. An input depends on seed, index and FOLDER alone: --start I -n 1 makes one
again. One process; share a large run with --start. The exit code is 1 when something failed.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

import yaml

from dslint import schema as schemas
from dslint.finding import FileReport
from dslint.fixing.loop import Judge
from dslint.lint import _BOOKS, Options, lint, prepare
from dslint.report import FORMATS, renderer
from dslint.rules import load
from dslint.settings import TRAINERS
from dslint.show import show_config
from tests.fix_properties import broken
from tests.oracle.generate import generate
from tests.test_formats import DANGEROUS, sarif_schema

SLOW = 2.0
"""Seconds of CPU time that no single call may take; the machine may have other work."""

SARIF_SHARE = 25
"""One SARIF log in so many is held against the schema, which takes longer than all the rest."""

SAME = 500
"""So many inputs in a row are for one release or the newest: what is made ready for a release is kept."""

SHOWN = 10
"""Failures that are told in full."""

T = TypeVar("T")

TOKENS = [
    *"{}[]:,\"'#\n\t\r -\\",
    "true", "false", "null", "auto", "None", "True", "NaN", "Infinity", "-Infinity", "1e999", "-0", "0x1F", "1_000",
    "5e8", "+1", ".5", "1.", "00", "9e99", "/*", "*/", "//", '"""', "'''", "{{", "}}", "${X}", "<<:", "&a", "*a",
    "!!python/name:os.system", "!!binary", "---", "...", "|", ">", "?", "%", "@",
    "dslint", "// dslint: ignore[DS101] why\n", "# dslint: ignore\n", '"dslint": {"ignore": {"ALL": "x"}},',
    "zero_optimization", '"train_batch_size"', '"deepspeed":', '"deepspeed_config":', '"output_dir": "x",',
    "\x00", "\x1b[31m", "\u202e", "\ufeff", "\u2028", "é", "😀", "\\ud800", "\\u0000", "\r\n", "]]>", "::error::x",
    "9" * 400, "[" * 60, '{"a":' * 60, "x" * 3000,
]  # fmt: skip

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 8, 1.5, 1e300, 10**40, -(10**400), 5e8, "", "auto", "5e8", "true", "cpu", "nvme", "AdamW",
    "\x00", "\ud800", "]]>", "\n::error::x", "x" * 500, [], [[]], [1, "auto"], {}, {"a": {"b": []}},
    {"device": "cpu"}, {"enabled": True}, {"type": "AdamW", "params": {"lr": "auto"}},
]  # fmt: skip

SPLIT = re.compile(rb'\s+|"(?:[^"\\\n]|\\.)*"|[\w.+-]+|.', re.DOTALL)


class Input:
    """One input: the bytes, the name of their file, and what they are judged for."""

    def __init__(self, seed: int, index: int, files: list[Path]) -> None:
        draw = self.draw = random.Random(f"{seed}-{index}")
        suffix = draw.choice([".json", ".json", ".json", ".hjson", ".yaml"])
        if files and draw.random() < 0.5:
            path = draw.choice(files)
            self.raw, suffix = path.read_bytes(), path.suffix
            try:
                config = json.loads(self.raw)
            except (ValueError, RecursionError):
                config = None
        else:
            config = next(generate(seed, index + 1, start=index))["config"]
            self.raw = b""
        if config is not None and (not self.raw or draw.random() < 0.6):
            for _ in range(draw.choice([0, 1, 1, 2, 4])):
                config = self.restructured(config)
            self.raw = self.written(config, suffix)
        for _ in range(draw.choice([0, 1, 1, 1, 2, 5])):
            self.raw = draw.choice([self.bitten, self.retokened])(self.raw)
        self.name, releases = f"conf/ds{suffix}", list(schemas.index())
        self.options = Options(
            draw.choice([schemas.newest(), releases[index // SAME % len(releases)]]),
            trainer=draw.choice([None, None, "raw", "hf", *TRAINERS]),
            gpus=draw.choice([None, 8]),
        )

    def written(self, config: Any, suffix: str) -> bytes:
        """A config as text: of its suffix's kind, with one of the usual layouts."""
        if suffix in (".yaml", ".yml"):
            try:
                text = yaml.safe_dump(config, sort_keys=False, default_flow_style=self.draw.choice([True, False]))
            except yaml.YAMLError:
                text = json.dumps(config)
        else:
            text = json.dumps(config, indent=self.draw.choice([2, 4, None, "\t"]), ensure_ascii=self.draw.random() < 0.5)
            if suffix == ".hjson" and self.draw.random() < 0.7:
                text = re.sub(r'"(\w+)":', r"\1:", text)
        if self.draw.random() < 0.1:
            text = text.replace("\n", "\r\n")
        return text.encode("utf-8", "surrogatepass")

    def value(self) -> Any:
        """One of VALUES, not shared with another place or input that changes it later."""
        return json.loads(json.dumps(self.draw.choice(VALUES)))

    def restructured(self, config: Any) -> Any:
        """A config with a value, a key or a section of it changed, moved or dropped."""
        draw, objects = self.draw, []
        waiting = [config]
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict):
                objects.append(node)
                waiting += node.values()
        objects = [node for node in objects if node]
        if not objects:
            return self.value()
        node = draw.choice(objects)
        key = draw.choice(list(node))
        what = draw.randrange(6)
        if what == 0:
            node[key] = self.value()
        elif what == 1:
            node[draw.choice([key.upper(), key[:-1], key + "s", key.replace("_", "-"), "x" * 300, "\ud800", ""])] = node.pop(key)
        elif what == 2:
            del node[key]
        elif what == 3:
            moved = node.pop(key)
            draw.choice(objects).update({key: json.loads(json.dumps(moved))})
        elif what == 4:
            node[key] = draw.choice([{key: node[key]}, [node[key]], str(node[key])])
        else:
            return draw.choice([{"deepspeed": config}, {"deepspeed_config": config}, [config], {**config, "dslint": self.value()}]) if isinstance(config, dict) else [config]  # fmt: skip
        return config

    def bitten(self, raw: bytes) -> bytes:
        """Bytes changed, cut, put in or doubled."""
        draw = self.draw
        at = draw.randrange(len(raw) + 1)
        end = min(len(raw), at + draw.choice([1, 1, 2, 8, 100]))
        return draw.choice([
            raw[:at] + bytes([draw.randrange(256)]) + raw[at + 1 :],
            raw[:at] + raw[end:],
            raw[:at] + draw.randbytes(draw.choice([1, 3])) + raw[at:],
            raw[:at] + raw[at:end] * 3 + raw[end:],
            raw[:at],
        ])  # fmt: skip

    def retokened(self, raw: bytes) -> bytes:
        """A token replaced, dropped, doubled, put in, or two exchanged."""
        draw, tokens = self.draw, SPLIT.findall(raw) or [b"{}"]
        i, j = draw.randrange(len(tokens)), draw.randrange(len(tokens))
        new = draw.choice(TOKENS).encode("utf-8", "surrogatepass")
        what = draw.randrange(5)
        if what == 0:
            tokens[i] = new
        elif what == 1:
            del tokens[i]
        elif what == 2:
            tokens.insert(i, tokens[j])
        elif what == 3:
            tokens.insert(i, new)
        else:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        return b"".join(tokens)


def valid(name: str, output: str, reports: list[FileReport], schema: bool) -> None:
    """Fails unless an output is printable, no command to a CI runner, and what its format says."""
    output.encode("utf-8")
    assert all(line.isprintable() for line in output.split("\n")), "unprintable"
    assert not DANGEROUS.search(output), "a command to a CI runner"
    assert not output or output.endswith("\n"), "no line end"
    findings = [finding for report in reports for finding in report.findings]
    if name in ("json", "sarif", "gitlab", "rdjson"):
        data = json.loads(output)
        if name == "json":
            assert len(data["files"][0]["findings"]) == len(findings), "findings lost"
        if name == "gitlab":
            assert len({issue["fingerprint"] for issue in data}) == len(data) == len(findings), "fingerprints"
        if name == "rdjson":
            assert len(data["diagnostics"]) == len(findings), "diagnostics lost"
        if name == "sarif":
            results = [result for result in data["runs"][0]["results"] if "suppressions" not in result]
            assert len(results) == len(findings), "results lost"
            assert not schema or not list(sarif_schema().iter_errors(data)), "against the schema"
    if name == "junit":
        ElementTree.fromstring(output)
    if name == "concise":
        assert output.count("\n") == len(findings), "one line a finding"
    if name == "github":
        assert len(re.findall(r"^::(?:error|warning|notice) file=", output, re.MULTILINE)) == len(findings)


def fixed(raw: bytes, judge: Judge, unsafe: bool) -> int:
    """Fails unless fixing holds what it promises; how many findings were fixed."""
    count, said = broken(raw, judge, unsafe)
    assert not said, "; ".join(said)
    return count


def shown(made: Input) -> str:
    """What --show-config says."""
    return "".join(show_config(prepare(made.raw, made.name, made.options)))


class Run:
    """Counts, worst times and failures of one run."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.worst: dict[str, tuple[float, int]] = {}
        self.failures: list[str] = []
        self.kinds: Counter[str] = Counter()

    def call(self, what: str, index: int, function: Callable[..., T], *args: Any) -> T | None:
        """Calls a function; an exception or a slow call is a failure."""
        start = time.process_time()
        result = None
        try:
            result = function(*args)
        except Exception:
            lines = traceback.format_exc().splitlines()
            places = [line.strip() for line in lines if line.lstrip().startswith("File")]
            self.fail(what, index, "\n    ".join([lines[-1][:300], *places[-3:]]))
        took = time.process_time() - start
        self.counts[what] += 1
        if took > self.worst.get(what, (0.0, 0))[0]:
            self.worst[what] = (took, index)
        if took > SLOW:
            self.fail(what, index, f"took {took:.1f} s")
        return result

    def fail(self, what: str, index: int, why: str) -> None:
        """Counts a failure by its kind, and keeps the first of each kind."""
        kind = f"{what}: {why.splitlines()[0][:80]}"
        self.kinds[kind] += 1
        if len(self.failures) < SHOWN and self.kinds[kind] <= 3:
            self.failures.append(f"input {index}, {what}: {why}")


def main(argv: list[str] | None = None) -> int:
    """Fuzzes and tells what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=main.__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="real files to mutate, too")
    parser.add_argument("-n", type=int, default=2000, help="inputs (default: 2000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="index of the first input")
    parser.add_argument("--fix", type=int, default=1, metavar="K", help="fix one input in K (0: none)")
    parser.add_argument("--formats", type=int, default=1, metavar="K", help="all formats for one in K (0: json)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    args = parser.parse_args(argv)
    kinds = (".json", ".hjson", ".yaml", ".yml")
    files = sorted(p for p in args.folder.rglob("*") if p.suffix in kinds) if args.folder else []
    gc.disable()  # as the command does
    rules, run, began = load(), Run(), time.perf_counter()
    for index in range(args.start, args.start + args.n):
        if time.perf_counter() - began > args.seconds:
            break
        if index % SAME == 0:
            _BOOKS.clear()
            gc.collect()
        made = Input(args.seed, index, files)

        judge = partial(lint, name=made.name, options=made.options, rules=rules)
        report = run.call("lint", index, judge, made.raw)
        if report is None:
            continue
        run.counts["findings"] += len(report.findings)
        every = args.formats and index % args.formats == 0
        for name in FORMATS if every else ("json",):
            output = run.call(name, index, renderer(name), [report])
            if output is not None:
                run.call(f"{name} valid", index, valid, name, output, [report], index % SARIF_SHARE == 0)
        if every:
            run.call("show-config", index, shown, made)
        if args.fix and index % args.fix == 0:
            unsafe = index // args.fix % 2 == 1
            run.counts["fixed"] += run.call("fix", index, fixed, made.raw, judge, unsafe) or 0
    print(f"{run.counts['lint']} inputs in {time.perf_counter() - began:.0f} s")
    for what, (took, index) in run.worst.items():
        print(f"  {what:14} {run.counts[what]:7} calls, the slowest {took * 1000:6.0f} ms (input {index})")
    print(f"  {run.counts['findings']} findings, {run.counts['fixed']} fixed")
    for kind, count in run.kinds.most_common():
        print(f"FAILED {count} times: {kind}")
    print("\n".join(run.failures))
    return 1 if run.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
