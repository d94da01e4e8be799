"""Guards only leave out rules that would be silent."""

from __future__ import annotations

import json

import pytest

from dslint.guards import Bench
from dslint.lint import Options, prepare
from dslint.rules import Rule, judge, load
from tests.oracle.generate import generate

RULES = [rule for rule in load() if rule.when is not None and not rule.about_accelerate]


@pytest.mark.parametrize("release", ["0.9.5", "0.16.9", "0.19.8"])
@pytest.mark.parametrize("trainer, gpus", [("raw", 8), ("raw", None), ("hf", 2), ("accelerate", None)])
def test_no_finding_is_lost(release: str, trainer: str, gpus: int | None) -> None:
    options = Options(release, trainer=trainer, gpus=gpus)
    texts = [json.dumps(case["config"]) for case in generate(11, 40)]
    configs = [prepare(text.encode(), "ds.json", options) for text in texts]
    configs = [config for config in configs if config.document.format == "json"]
    called = Bench(RULES, configs[0].target)
    left_out = 0
    for config in configs:
        rules = called.called(config)
        all_of_them = Bench(RULES, config.target).called(config)
        left_out += len(all_of_them) - len(rules)
        assert list(judge(rules, config)) == list(judge(all_of_them, config)), config.document.text
    assert left_out > 50 * len(configs)


def test_a_fact_that_reads_everything_is_not_guarded() -> None:
    two = next(rule for rule in RULES if rule.name == "two-spellings")
    config = prepare(b"{}", "ds.json", Options("0.19.8", trainer="raw"))
    bench = Bench([two], config.target)
    assert all([rule.rule.name for rule in bench.called(config)] == ["two-spellings"] for _ in range(20))


def test_a_rule_about_one_key_is_called_where_it_is_given() -> None:
    options = Options("0.19.8", trainer="raw")
    rule = Rule(
        "X1", "x", "info", "run", "", when=["==", ["path", ["wall_clock_breakdown"]], ["const", True]],
        at="wall_clock_breakdown", message=["x"],
    )  # fmt: skip
    without, has = (prepare(t, "ds.json", options) for t in (b"{}", b'{"wall_clock_breakdown": true}'))
    bench = Bench([rule], without.target)
    calls = [len(bench.called(without)) for _ in range(20)]
    assert calls[0] == 1 and calls[-1] == 0 and len(bench.called(has)) == 1
