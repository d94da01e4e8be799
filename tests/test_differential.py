"""dslint against DeepSpeed: the same configs, both verdicts. `python -m tests.test_differential` prints the table.

Recorded verdicts are always compared; live ones where DeepSpeed is installed, on configs drawn from a
seed of their own. `aio.use_gds` refuses machines without CUDA: such cases are the machine's.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import pytest

from dslint.finding import FileReport
from dslint.lint import Options, lint
from dslint.rulefile import SOURCES, compile_folder
from dslint.rules import from_data, load
from tests.oracle import generate, parse, record, train

RULES = load()
RULES_WITH_EXAMPLES = [from_data(data) for data in compile_folder(SOURCES)]
BAR = 0.995
"""Least share of configs on which both must agree whether DeepSpeedConfig accepts them."""

LIVE = pytest.mark.skipif(find_spec("deepspeed") is None, reason="DeepSpeed is not installed")


def report(config: Any, release: str, gpus: int) -> FileReport:
    text = config if isinstance(config, str) else json.dumps(config)
    return lint(text.encode(), "ds.json", Options(release, trainer="raw", gpus=gpus), RULES)


def errors(config: Any, release: str, gpus: int, phases: tuple[str, ...]) -> list[str]:
    """Messages of our errors of some phases."""
    found = report(config, release, gpus).findings
    return [f"{f.code} {f.key}: {f.message}" for f in found if f.severity == "error" and f.phase in phases]


class Confusion:
    """Counts of both verdicts, and the cases in which they differ."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[bool, bool]] = Counter()
        self.differences: list[str] = []

    def add(self, name: str, ours: list[str], verdict: str, message: str) -> None:
        key = (bool(ours), verdict != "ok")
        self.counts[key] += 1
        if key[0] != key[1]:
            self.differences.append(
                f"{name}: dslint {ours or 'finds nothing'}; DeepSpeed {verdict} {message[:150]}"
            )

    @property
    def agreement(self) -> float:
        total = sum(self.counts.values())
        return (self.counts[True, True] + self.counts[False, False]) / total if total else 0.0

    def table(self) -> str:
        rows = [
            f"{'':24}{'DeepSpeed refuses':>20}{'DeepSpeed accepts':>20}",
            f"{'dslint has an error':24}{self.counts[True, True]:>20}{self.counts[True, False]:>20}",
            f"{'dslint has none':24}{self.counts[False, True]:>20}{self.counts[False, False]:>20}",
            f"agreement {self.agreement:.4f} on {sum(self.counts.values())}",
        ]
        return "\n".join([*rows, *self.differences])


def parsing(cases: Iterable[dict[str, Any]], release: str) -> Confusion:
    """DeepSpeedConfig's verdicts, each at some world sizes, beside our errors of phases load and config."""
    confusion = Confusion()
    for case in cases:
        for ranks, (verdict, message) in case["verdicts"].items():
            if train.machine_reason(verdict, message) is None:
                ours = errors(case["config"], release, int(ranks), ("load", "config"))
                confusion.add(f"{case['id']} on {ranks}", ours, verdict, message)
    return confusion


def training(cases: Iterable[dict[str, Any]], release: str) -> Confusion:
    """What initialize and two steps did on one rank, beside our errors of those phases."""
    confusion = Confusion()
    for case in cases:
        if case.get("machine") or case["phase"] == "config":
            continue
        ours = errors(case["config"], release, 1, ("initialize", "step"))
        confusion.add(str(case["id"]), ours, case["verdict"], f"{case['phase']} {case['message']}")
    return confusion


def fresh(seed: int, n: int, world_sizes: tuple[int, ...] = (1, 8), **where: Any) -> list[dict[str, Any]]:
    """Generated configs with the live verdicts of the installed DeepSpeed, or of one elsewhere (see parse)."""
    cases = list(generate.generate(seed, n))
    asked = [{"config": case["config"], "world_size": ranks} for case in cases for ranks in world_sizes]
    answers = iter(parse.verdicts(asked, **where))
    for case in cases:
        case["verdicts"] = {
            str(ranks): (lambda a: (a["verdict"], a["message"]))(next(answers)) for ranks in world_sizes
        }
    return cases


def test_recorded_parsing() -> None:
    header, cases = record.read("recorded.jsonl")
    confusion = parsing(cases, header["deepspeed"])
    assert confusion.agreement >= BAR, confusion.table()
    assert confusion.counts[True, True] > 500 and confusion.counts[False, False] > 500


def test_recorded_training() -> None:
    header, cases = record.read("recorded-train.jsonl")
    confusion = training(cases, header["deepspeed"])
    assert confusion.agreement >= 0.95 and confusion.counts[True, False] == 0, confusion.table()
    assert confusion.counts[True, True] > 20


@LIVE
@pytest.mark.live
def test_live_parsing() -> None:
    confusion = parsing(fresh(seed=7001, n=1500), parse.release())
    assert confusion.agreement >= BAR, confusion.table()


@LIVE
@pytest.mark.live
@pytest.mark.slow
def test_live_examples_of_the_rules() -> None:
    """Each example of an error that DeepSpeedConfig raises is refused by it, and each good one accepted."""
    cases = []
    for rule in RULES_WITH_EXAMPLES:
        for i, example in enumerate(rule.examples):
            if example.get("trainer", "raw") != "raw" or "deepspeed" in example:
                continue
            if rule.severity == "error" and rule.phase in ("load", "config"):
                config = example.get("bad", example.get("good"))
                cases.append(
                    {
                        "id": f"{rule.name} {i}",
                        "config": config,
                        "world_size": example.get("gpus", 1),
                        "bad": "bad" in example,
                    }
                )
    answers = parse.verdicts(cases)
    wrong = [
        f"{case['id']}: {answer['verdict']} {answer['message'][:150]}"
        for case, answer in zip(cases, answers, strict=True)
        if case["bad"] != (answer["verdict"] != "ok")
        and not train.machine_reason(answer["verdict"], answer["message"])
    ]
    assert wrong == []


TORCH_ADAM = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}  # builds no operator
TRAINED = [
    {"train_batch_size": 2, "optimizer": TORCH_ADAM, "zero_optimization": {"stage": 1}},
    {
        "train_batch_size": 2,
        "optimizer": TORCH_ADAM,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 2},
    },
    {
        "train_batch_size": 2,
        "optimizer": {"type": "AdamW", "params": {"torch_adam": True, "beta": [0.9, 0.95]}},
    },
    {"train_batch_size": 2, "optimizer": TORCH_ADAM, "gradient_clipping": "1.0"},
    {"train_batch_size": 2, "optimizer": TORCH_ADAM, "scheduler": {"type": "WarmupDecayLR", "params": {}}},
]


@LIVE
@pytest.mark.live
def test_live_training() -> None:
    """Real steps on the CPU: two configs that train and three that crash, as dslint says."""
    with train.Trainer(jobs=1, timeout=120) as trainer:
        answers = list(trainer.run([{"config": config} for config in TRAINED]))
    confusion = training(
        (
            {"id": i, "config": config, **answer}
            for i, (config, answer) in enumerate(zip(TRAINED, answers, strict=True))
        ),
        parse.release(),
    )
    assert confusion.counts == {(False, False): 2, (True, True): 3}, confusion.table()


def main() -> None:
    """Prints the confusion table of fresh configs against the installed DeepSpeed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-n", type=int, default=2000)
    parser.add_argument("--pythonpath", default="", help="folder of another DeepSpeed release")
    parser.add_argument("--release", help="which release that is")
    parser.add_argument("--legacy", action="store_true", help="a release before 0.14.4")
    args = parser.parse_args()
    where = {"pythonpath": args.pythonpath, "legacy": args.legacy} if args.pythonpath else {}
    print(parsing(fresh(args.seed, args.n, **where), args.release or parse.release()).table())


if __name__ == "__main__":
    main()
