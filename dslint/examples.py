"""The examples in rule files: configs that a rule must fire on and configs it must leave alone.

They are the tests of our own rules and, with `--test-rules`, of a team's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dslint.errors import UsageError
from dslint.finding import FileReport
from dslint.launch import Argument, Launch
from dslint.lint import Options, lint
from dslint.releases import number
from dslint.rules import Rule
from dslint.schema import newest
from dslint.settings import TRAINERS
from dslint.suggest import nearest

KINDS = ("bad", "good")
FORMATS = ("json", "yaml", "accelerate")
KEYS = (*KINDS, "at", "deepspeed", "trainer", "gpus", "format", "args", "launcher", "workload")
"""Of an example. `bad` or `good` is the config, as data or as the text of a file; `at` the key a finding
stands at; `format`, `deepspeed`, `trainer` and `gpus` what it is judged as and for; `args` the arguments
of the run and `launcher` those of accelerate's launcher; `workload` the settings for rules about memory."""


def fault(example: Any) -> str:
    """What is wrong with an example as it is written; "" when it can be tried."""
    if not isinstance(example, dict):
        return "is a mapping with bad: or good:"
    for key in example:
        if key not in KEYS:
            near = nearest(str(key)[:40], KEYS)
            return f"has {str(key)[:40]!r}; " + (
                f"did you mean {near}?" if near else f"known: {', '.join(KEYS)}"
            )
    if ("bad" in example) == ("good" in example):
        return "has either bad: or good:"
    if "bad" in example and not isinstance(example.get("at"), str):
        return "says with at: which key the finding stands at"
    if not isinstance(example.get("bad", example.get("good")), (dict, str)):
        return "has a mapping or the text of a file after bad: or good:"
    gpus = example.get("gpus", 1)
    if isinstance(gpus, bool) or not isinstance(gpus, int) or not 0 < gpus <= 10**6:
        return "has gpus: that is no whole number above zero"
    if example.get("trainer", TRAINERS[0]) not in TRAINERS:
        return f"has a trainer: that is not one of {', '.join(TRAINERS)}"
    if example.get("format", FORMATS[0]) not in FORMATS:
        return f"has a format: that is not one of {', '.join(FORMATS)}"
    for key in ("args", "launcher", "workload"):
        if not isinstance(example.get(key, {}), dict):
            return f"has {key}: that is no mapping"
    if "deepspeed" in example:
        try:
            number(str(example["deepspeed"]))
        except ValueError as error:
            return f"has deepspeed: {error}"
    return ""


def judged(example: dict[str, Any], rules: list[Rule]) -> FileReport:
    """The report of an example under rules. Raises UsageError for a workload that means nothing."""
    body = example.get("bad", example.get("good"))
    text = body if isinstance(body, str) else json.dumps(body, indent=2)
    trainer = example.get("trainer", "raw")
    launch, work = None, None
    if "args" in example or "launcher" in example:
        given = {key: Argument(value, 1) for key, value in example.get("args", {}).items()}
        launcher = {key: Argument(value, 1) for key, value in example.get("launcher", {}).items()}
        launch = Launch("run.sh", trainer, given, launcher, accelerate=bool(launcher))
    if "workload" in example:
        from dslint.memory.workload import workload

        work = workload(example["workload"])
    release = str(example.get("deepspeed", newest()))
    options = Options(release, trainer=trainer, gpus=example.get("gpus"), launch=launch, workload=work)
    suffix = "yaml" if example.get("format") in ("yaml", "accelerate") else "json"
    return lint(text.encode("utf-8", "surrogatepass"), f"example.{suffix}", options, rules)


def failure(rule: Rule, example: dict[str, Any], rules: Sequence[Rule], alone: bool = False) -> str:
    """Why an example does not hold; "" when it does.

    A bad example must have the rule's finding at the key it names. A good one must be clean: of all rules
    but for advice, or, `alone`, of this rule, where others do not matter but the file can be read.
    """
    try:
        report = judged(example, list(rules))
    except UsageError as error:
        return str(error)
    findings = report.findings
    if "bad" in example:
        keys = [finding.key for finding in findings if finding.code == rule.code]
        if example["at"] in keys:
            return ""
        if keys:
            return f"fires at {' and '.join(keys)}, not at {example['at'] or 'the root'}"
        others = ", ".join(dict.fromkeys(finding.code for finding in findings))
        return "does not fire" + (f"; what does: {others}" if others else "")
    if alone:
        problems = {problem.rule for problem in report.document.problems}
        found = [f for f in findings if f.code == rule.code or f.name in problems]
    else:
        found = [f for f in findings if f.severity != "info"]
    return "; ".join(f"{f.code} at {f.key or 'the root'}: {f.message}" for f in found)


def mended(rule: Rule, example: dict[str, Any], rules: Sequence[Rule]) -> bool | None:
    """Whether the fix of the finding in a bad example makes it go away; None where there is no fix."""
    report = judged(example, list(rules))
    found = [f for f in report.findings if f.code == rule.code and f.key == example["at"]]
    fix = next((finding.fix for finding in found if finding.fix is not None), None)
    if fix is None:
        return None
    from dslint.fixing.edits import edited

    after = judged({**example, "bad": edited(report.document.text, fix.edits)}, list(rules))
    return not any(f.code == rule.code and f.key == example["at"] for f in after.findings)
