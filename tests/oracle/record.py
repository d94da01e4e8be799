"""Record what the installed DeepSpeed does with generated configs, for tests that run without it.

    python -m tests.oracle.record [--parse] [--train] [--jobs 2]

writes beside this file, one JSON object a line:

recorded.jsonl         {"id", "config", "verdicts": {"1": [verdict, message], "8": [...]}}
                       what DeepSpeedConfig does with it at world sizes 1 and 8
recorded-train.jsonl   {"id", "config", "verdict", "phase", "message", "client_optimizer", "machine"}
                       what training does with it on one rank (see train.py)

The first line of each is {"deepspeed": release, "python": version, "torch": version, "seed": seed}.
`verdict` is "ok" or the exception class; messages are cut to their head. The configs are those of
generate(SEED, ...) whose text is not longer than LONGEST, so ids have gaps; train cases are ones that
DeepSpeedConfig accepts, chosen so that no outcome fills the file.
"""

from __future__ import annotations

import argparse
import collections
import json
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import generate, parse, train

HERE = Path(__file__).resolve().parent
SEED = 20
LONGEST = 470
CASES = 1500
TRAIN_SEED = 21
TRAIN_CASES = 150
SAME_OUTCOME = 3  # train cases with one failure; the rest of the file is cases that train


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _short(seed: int) -> Iterator[dict[str, Any]]:
    """The generated cases of a seed that are short enough, without end."""
    start = 0
    while True:
        for case in generate.generate(seed, start + 100, start):
            if len(_text(case["config"])) <= LONGEST:
                yield case
        start += 100


def _header(seed: int) -> dict[str, Any]:
    import torch

    return {
        "deepspeed": parse.release(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "seed": seed,
    }


def _write(name: str, seed: int, lines: list[dict[str, Any]]) -> None:
    path = HERE / name
    path.write_text("".join(_text(line) + "\n" for line in [_header(seed), *lines]), encoding="utf-8")
    print(f"{path.name}: {len(lines)} cases, {path.stat().st_size // 1000} kB", file=sys.stderr)


def record_parse() -> None:
    """Write recorded.jsonl."""
    lines: list[dict[str, Any]] = []
    for case in _short(SEED):
        verdicts = {}
        for world_size in (1, 8):
            name, message = parse.verdict(case["config"], world_size)
            verdicts[str(world_size)] = [name, parse.head(message, 80)]
        lines.append({"id": case["id"], "config": case["config"], "verdicts": verdicts})
        if len(lines) == CASES:
            break
    _write("recorded.jsonl", SEED, lines)


def record_train(jobs: int) -> None:
    """Write recorded-train.jsonl."""
    accepted = (case for case in _short(TRAIN_SEED) if parse.verdict(case["config"])[0] == "ok")
    sent: collections.deque[dict[str, Any]] = collections.deque()
    lines: list[dict[str, Any]] = []
    seen: collections.Counter[str] = collections.Counter()

    def cases() -> Iterator[dict[str, Any]]:
        for case in accepted:
            sent.append(case)
            yield {"config": case["config"], "client_optimizer": "AdamW", "id": case["id"]}

    with train.Trainer(jobs=jobs) as trainer:
        for outcome in trainer.run(cases()):
            case = sent.popleft()
            assert case["id"] == outcome["id"]
            outcome["message"] = parse.head(outcome["message"])
            sort = (
                "ok"
                if outcome["verdict"] == "ok"
                else re.sub(
                    r"['\d].*",
                    "",
                    _text(
                        [
                            outcome["phase"],
                            outcome["verdict"],
                            outcome["message"][:60],
                        ]
                    ),
                )
            )
            seen[sort] += 1
            if seen[sort] > (TRAIN_CASES // 2 if sort == "ok" else SAME_OUTCOME):
                continue
            keys = ("verdict", "phase", "message", "client_optimizer", "machine")
            lines.append({"id": case["id"], "config": case["config"]} | {key: outcome[key] for key in keys})
            if len(lines) == TRAIN_CASES:
                break
    _write("recorded-train.jsonl", TRAIN_SEED, lines)


def read(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the cases of a recorded file."""
    header, *cases = [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]
    return header, cases


def main(arguments: list[str] | None = None) -> int:
    """Write the recorded files anew (both, unless one is asked for)."""
    options = argparse.ArgumentParser(prog="python -m tests.oracle.record", description=main.__doc__)
    options.add_argument("--parse", action="store_true", help="recorded.jsonl only")
    options.add_argument("--train", action="store_true", help="recorded-train.jsonl only")
    options.add_argument("--jobs", type=int, default=1, help="train cases at a time")
    chosen = options.parse_args(arguments)
    if chosen.parse or not chosen.train:
        record_parse()
    if chosen.train or not chosen.parse:
        record_train(chosen.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
