"""The fix of a rule mends what the rule finds, in the examples of its own file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dslint import examples
from dslint.finding import FileReport, Finding
from dslint.fixing.edits import edited
from dslint.fixing.loop import fix_text, worse
from dslint.rules import Rule
from tests.test_rules import RULES

FIXED = [
    pytest.param(rule, example, id=f"{rule.name}-{i}")
    for rule in RULES
    for i, example in enumerate(rule.examples)
    if "bad" in example
]


def text_of(example: dict[str, Any]) -> str:
    bad = example["bad"]
    return bad if isinstance(bad, str) else json.dumps(bad, indent=2)


def judged(example: dict[str, Any], text: str) -> FileReport:
    return examples.judged({**example, "bad": text}, RULES)


def about(rule: Rule, example: dict[str, Any], report: FileReport) -> list[Finding]:
    return [f for f in report.findings if f.code == rule.code and f.key == example["at"]]


@pytest.mark.parametrize("rule, example", FIXED)
def test_the_fix_of_a_finding_mends_it(rule: Rule, example: dict[str, Any]) -> None:
    before = judged(example, text_of(example))
    for finding in about(rule, example, before):
        if finding.fix is None:
            continue
        after = judged(example, edited(before.document.text, finding.fix.edits))
        assert about(rule, example, after) == [], finding.fix
        if finding.fix.safe:  # others may wait for the loop, which leaves them where they uncover an error
            assert not worse(before, after), [(f.code, f.key, f.message) for f in after.findings]


@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
@pytest.mark.parametrize("rule, example", FIXED)
def test_fixing_twice_is_fixing_once(rule: Rule, example: dict[str, Any], unsafe: bool) -> None:
    def judge(raw: bytes) -> FileReport:
        return judged(example, raw.decode())

    text = text_of(example)
    once = fix_text(text.encode(), judge, unsafe)
    assert not once.fixed or not worse(judge(text.encode()), once.report)
    assert fix_text(once.raw, judge, unsafe).raw == once.raw


@pytest.mark.parametrize("rule", [r for r in RULES if r.fix is not None], ids=lambda rule: rule.name)
def test_the_fix_of_a_rule_has_an_example(rule: Rule) -> None:
    made = [
        finding.fix
        for example in rule.examples
        if "bad" in example
        for finding in about(rule, example, judged(example, text_of(example)))
    ]
    assert any(made), "no bad example is mended: is the path right, the value known?"
