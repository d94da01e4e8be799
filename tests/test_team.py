"""A team's own rules: that they fire, what --test-rules says, and that no rule file does harm."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslint import schema as schemas
from dslint.cli import main
from dslint.errors import UsageError
from dslint.examples import failure
from dslint.finding import FileReport
from dslint.links import OURS
from dslint.lint import Options, lint
from dslint.rulefile import MAX_BYTES, SOURCES, RuleFileError, compile_rule, data_of, read
from dslint.rules import Rule, load
from dslint.team import load as team_rules
from dslint.team import rule_of, unknown_names

OWN = load()
CONFIG = {"train_batch_size": 8, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}

RULE = """\
code: ACME001
name: stage-3-only
severity: warning
phase: run
summary: our cluster trains with ZeRO stage 3 only
at: zero_optimization.stage
when: zero_optimization.stage != 3
message: "stage {zero_optimization.stage} is not what the cluster is sized for"
cure: "set zero_optimization.stage to 3"
why: |
  The 40 GB cards do not hold our models below stage 3.
examples:
  - bad: {train_batch_size: 8, zero_optimization: {stage: 2}}
    at: zero_optimization.stage
  - good: {train_batch_size: 8, zero_optimization: {stage: 3}}
"""


@pytest.fixture(autouse=True)
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    Path("ds.json").write_text(json.dumps(CONFIG))


def rule_file(text: str, name: str = "ci/rules/rule.yaml") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    out, err = capsys.readouterr()
    return code, out, err


def judge(rules: list[Rule], config: Any) -> FileReport:
    return lint(json.dumps(config).encode(), "ds.json", Options(schemas.newest(), trainer="raw"), rules)


def made(raw: str | bytes) -> Rule:
    """The rule that a file with this text holds."""
    return rule_of(data_of(raw.encode() if isinstance(raw, str) else raw, "x.yaml"), "x.yaml", OWN, OWN)


def refusal(raw: str | bytes) -> str:
    """Why a rule file is refused, in one line that names the file; "" when it is not."""
    try:
        made(raw)
    except RuleFileError as error:
        said = str(error)
        return said if said.startswith("x.yaml: ") and "\n" not in said and len(said) < 420 else repr(said)
    return ""


def test_a_rule_of_the_team_fires_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    rule_file(RULE)
    code, out, _ = run(capsys, "--rules", "ci/rules", "--fail-on", "warning", "--format", "json", "ds.json")
    found = {f["code"]: f for f in json.loads(out)["files"][0]["findings"]}
    assert code == 1
    assert found["ACME001"]["message"] == "stage 2 is not what the cluster is sized for"
    assert found["ACME001"]["key"] == "zero_optimization.stage"
    assert found["ACME001"]["help"] == "set zero_optimization.stage to 3"
    assert any(rule_code.startswith(OURS) for rule_code in found)


@pytest.mark.parametrize(
    "flags, code",
    [
        (["--select", "ACME"], 1),
        (["--select", "stage-3-only"], 1),
        (["--ignore", "ACME001"], 0),
        (["--select", "DS"], 0),
    ],
)
def test_selectors_mean_rules_of_the_team(
    capsys: pytest.CaptureFixture[str], flags: list[str], code: int
) -> None:
    rule_file(RULE)
    assert run(capsys, "--rules", "ci/rules", "--fail-on", "warning", *flags, "ds.json")[0] == code


def test_rules_of_the_team_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    rule_file(RULE)
    assert "ACME001  warning" in run(capsys, "--rules", "ci/rules", "--list-rules")[1]
    page = run(capsys, "--rules", "ci/rules", "--explain", "stage-3-only")[1]
    assert "The 40 GB cards do not hold" in page and "fires on:" in page


def test_test_rules_tells_what_holds(capsys: pytest.CaptureFixture[str]) -> None:
    rule_file(RULE)
    assert run(capsys, "--test-rules", "ci/rules") == (0, "ok   ACME001 stage-3-only: 2 examples\n", "")


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("stage: 2}}", "stage: 3}}", "FAIL ACME001 stage-3-only: example 1 (bad) does not fire"),
        ("stage: 3}}", "stage: 1}}", "FAIL ACME001 stage-3-only: example 2 (good) ACME001 at zero_opt"),
        ("    at: zero_optimization.stage", "    at: fp16", "fires at zero_optimization.stage, not at fp16"),
        ("  - bad: {train_batch_size: 8, zero_optimization: {stage: 2}}\n    at: zero_optimization.stage\n", "",
         "no bad: example shows that it fires"),
        ("good: {train_batch_size: 8, zero_optimization: {stage: 3}}", "good: '{'", "DS001"),
        ("code: ACME001", "code: DS999", "begins with DS"),
        ("severity: warning", "severity: fatal", "severity: 'fatal' is not one of"),
        ("summary:", "sumary:", "did you mean summary?"),
    ],
)  # fmt: skip
def test_test_rules_tells_what_does_not_hold(
    capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    assert old in RULE
    rule_file(RULE.replace(old, new))
    rule_file(RULE.replace("ACME001", "ACME002").replace("stage-3-only", "other"), "ci/rules/z.yaml")
    code, out, err = run(capsys, "--test-rules", "ci/rules")
    first, *_, last = out.splitlines()
    assert code == 1 and err == "" and first.startswith("FAIL") and said in first
    assert last == "ok   ACME002 other: 2 examples"


@pytest.mark.parametrize(
    "fix, said",
    [
        ("{set: {zero_optimization.stage: 3}}", "ok   ACME001"),
        ("{set: {zero_optimization.stage: 1}}", "example 1 (bad) the fix leaves the finding"),
        ("{set: {optimizer: {path: '{args.optim}'}}}", "no bad: example is mended by the fix"),
    ],
)
def test_test_rules_tries_the_fix(capsys: pytest.CaptureFixture[str], fix: str, said: str) -> None:
    rule_file(f"{RULE}fix: {fix}\n")
    assert said in run(capsys, "--test-rules", "ci/rules")[1]


def test_names_in_the_values_of_a_fix_are_looked_at() -> None:
    text = RULE + "fix: {set: {optimizer: {const: {path: '{facts.batch_conflct}'}}}}\n"
    assert "did you mean batch_conflict?" in refusal(text)


@pytest.mark.parametrize(
    "old, new, near",
    [
        ("when: zero_optimization.stage != 3", "when: facts.batch_conflct", "batch_conflict"),
        ("{zero_optimization.stage}", "{facts.batch_equatoin}", "batch_equation"),
        ("at: zero_optimization.stage\nw", "each: [facts.nvme_keys_on_cup]\nw", "nvme_keys_on_cpu"),
        ("when: zero_optimization.stage != 3", "when: target.gpu > 8", "gpus"),
        ("when: zero_optimization.stage != 3", "when: zero_optimisation.stage", "zero_optimization.stage"),
        (
            "when: zero_optimization.stage != 3",
            "when: has(zero_optimization.stge)",
            "zero_optimization.stage",
        ),
        ("when: zero_optimization.stage != 3", "when: accelerate.num_proceses > 8", "num_processes"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(old: str, new: str, near: str) -> None:
    assert old in RULE
    assert f"did you mean {near}?" in refusal(RULE.replace(old, new))


def test_a_rule_of_the_team_mends(capsys: pytest.CaptureFixture[str]) -> None:
    rule_file(RULE + "fix: {set: {zero_optimization.stage: 3}}\n")
    out = run(capsys, "--rules", "ci/rules", "--select", "ACME", "--format", "json", "ds.json")[1]
    fix = json.loads(out)["files"][0]["findings"][0]["fix"]
    text = Path("ds.json").read_text()
    for edit in reversed(fix["edits"]):
        text = text[: edit["start"]] + edit["text"] + text[edit["end"] :]
    assert json.loads(text)["zero_optimization"] == {"stage": 3}


def test_rules_come_from_settings(capsys: pytest.CaptureFixture[str]) -> None:
    rule_file(RULE, "team/ci/rules/rule.yaml")
    Path("team/pyproject.toml").write_text('[tool.dslint]\nrules = ["ci/rules"]\nfail-on = "warning"\n')
    Path("ds.json").rename("team/ds.json")
    code, out, _ = run(capsys, "--format", "concise", "team/ds.json")
    assert code == 1 and "ACME001" in out
    assert "ACME001" not in run(capsys, "--format", "concise", "--isolated", "team/ds.json")[1]


def test_a_fact_without_places_cannot_be_looped_over() -> None:
    text = RULE.replace("at: zero_optimization.stage\nw", "each: [facts.batch_conflict]\nw")
    assert "no fact that finds places" in refusal(text)


def test_keys_that_only_other_releases_or_scripts_read_are_no_misspellings() -> None:
    for key in ("sparse_attention.num_local_blocks", "acme_owner", "optimizer.params.momentum_of_ours"):
        made(RULE.replace("zero_optimization.stage != 3", f"has({key})"))


def test_our_own_rules_name_nothing_unknown() -> None:
    for rule in OWN:
        assert list(unknown_names(rule, OWN)) == [], rule.name


def test_codes_and_names_are_taken_once(capsys: pytest.CaptureFixture[str]) -> None:
    rule_file(RULE, "one/a.yaml")
    rule_file(RULE.replace("stage-3-only", "other"), "two/b.yaml")
    code, _, err = run(capsys, "--rules", "one", "--rules", "two", "ds.json")
    assert (
        code == 2
        and err == "dslint: rules: two/b.yaml: ACME001 other: code or name is taken by ACME001 stage-3-only\n"
    )
    with pytest.raises(UsageError, match="taken by DS204 batch-equation"):
        team_rules([str(rule_file(RULE.replace("stage-3-only", "batch-equation"), "x/a.yaml").parent)], OWN)


@pytest.mark.parametrize(
    "folder, said", [("nowhere", "No such file"), ("empty", "no rule file"), ("ds.json", "Not a dir")]
)
def test_a_folder_without_rules_is_an_error(
    capsys: pytest.CaptureFixture[str], folder: str, said: str
) -> None:
    Path("empty").mkdir()
    for flag in ("--rules", "--test-rules"):
        code, out, err = run(capsys, flag, folder, "ds.json")
        assert (code, out) == (2, "") and said in err and err.count("\n") == 1


# Hostile rule files


def when(condition: str) -> str:
    return RULE.replace("zero_optimization.stage != 3", json.dumps(condition))


def chain(depth: int) -> str:
    return "1" if depth == 0 else f"0 < ({chain(depth - 1)}) < 2"


HOSTILE: dict[str, str] = {
    "import": when("__import__('os').system('touch pwned')"),
    "import in the message": RULE.replace("{zero_optimization.stage}", "{__import__('os').system('touch pwned')}"),
    "import in the cure": RULE.replace("zero_optimization.stage to", "{open('pwned', 'w')} to"),
    "eval": when("eval('1')"),
    "dunder": when("().__class__.__bases__[0].__subclasses__()"),
    "attribute of the target": when("target.__class__"),
    "attribute of a fact": when("facts.__class__.__init__"),
    "format string": RULE.replace("{zero_optimization.stage}", "{zero_optimization.stage.__class__!r}"),
    "lambda": when("(lambda: 1)()"),
    "comprehension": when("[x for x in range(10**9)]"),
    "walrus": when("(a := 1)"),
    "power": when("9**9**9"),
    "shift": when("1 << 999999999"),
    "long text": when("'a' * 1000000000 == b'x'"),
    "parentheses": when("(" * 900 + "1" + ")" * 900),
    "negations": when("not " * 400 + "true"),
    "minuses": when("-" * 1900 + "1"),
    "dots": when("a" + ".a" * 900 + "()"),
    "chain of chains": when(chain(30)),
    "long condition": when("1 == 1 and " * 1000 + "true"),
    "huge regex": when("matches(optimizer.type, '(a+)+$" + "a" * 1000 + "')"),
    "code by tag": RULE + "source: !!python/object/apply:os.system ['touch pwned']\n",
    "name by tag": RULE.replace("code: ", "code: !!python/name:os.system "),
    "anchor": RULE.replace("{stage: 2}", "&a {stage: 2}"),
    "billion laughs": "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefghij", "bcdefghijk", strict=True)),
    "merge": RULE + "<<: *x\n",
    "a million characters": RULE + "#" * 1_000_000,
    "one word": "x" * (MAX_BYTES - 10),
    "brackets": "[" * (MAX_BYTES - 10),
    "closed brackets": "a: " + "[" * 7000 + "]" * 7000,
    "braces": "{a: " * 3000,
    "dashes": "- " * 7000,
    "question marks": "? " * 7000,
    "steps": "".join(" " * i + "a:\n" for i in range(170)),
    "many keys": "".join(f"k{i}: 1\n" for i in range(1700)),
    "many items": RULE + "source: [" + "a," * 7000 + "]\n",
    "many examples": RULE + "".join("  - good: {a: 1}\n" for _ in range(200)),
    "many digits": RULE.replace("stage: 3}", "stage: " + "9" * 9000 + "}"),
    "a time": RULE.replace("stage: 3}", "stage: 2001-12-14t21:59:43.10-05:00}"),
    "bytes": RULE.replace("stage: 3}", "stage: !!binary aGVsbG8=}"),
    "a list as a key": RULE.replace("{stage: 3}", "{? [a, b] : 1}"),
    "same key twice": RULE + "code: ACME002\n",
    "two documents": RULE + "---\n" + RULE,
    "directive": "%YAML 9.9\n---\n" + RULE,
    "tabs": RULE.replace("  ", "\t"),
    "nothing": "",
    "a list": "- 1\n",
    "no text": RULE + "\x00",
    "terminal escapes": "\x1b[2J" + RULE,
    "escaped escapes": RULE.replace("severity: warning", 'severity: "\\x1b[2J"'),
    "single brace": RULE.replace("{zero_optimization.stage}", "{"),
    "braces in a message": RULE.replace("{zero_optimization.stage}", "{" * 1000),
    "long message": RULE.replace("is not what", "{zero_optimization}" * 200),
    "gpus": RULE + "    gpus: 1e9\n",
    "trainer": RULE + "    trainer: [raw]\n",
    "format": RULE + "    format: {a: b}\n",
    "release": RULE + "    deepspeed: " + "9" * 500 + "\n",
    "a fix that is no mapping": RULE + "fix: [set]\n",
    "code in a fix": RULE + "fix: {set: {zero_optimization.stage: \"{open('pwned')}\"}}\n",
    "long fix": RULE + "fix: {set: {zero_optimization.stage: '" + "{fp16}" * 400 + "'}}\n",
    "unknown name in a fix": RULE + "fix: {set: {zero_optimization.stage: '{facts.batch_conflct}'}}\n",
    "bound": RULE + "deepspeed: '" + ">= " * 3000 + "'\n",
    "name": RULE.replace("stage-3-only", "a-" * 3000 + "!"),
    "place": RULE.replace("at: zero_optimization.stage\nw", "at: " + "a." * 3000 + "\nw"),
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_rule_files_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    rule_file(text)
    assert refusal(text).startswith("x.yaml: ")
    code, out, err = run(capsys, "--rules", "ci/rules", "ds.json")
    assert (code, out) == (2, "") and err.count("\n") == 1 and err.rstrip("\n").isprintable()
    assert not Path("pwned").exists()


def seconds(task: Callable[[], object]) -> float:
    """The CPU time of a task, the least of three."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        task()
        spent.append(time.process_time() - start)
    return min(spent)


def test_refusing_costs_little() -> None:
    """No hostile file takes longer than reading a dozen of the longest of our own rules."""
    longest = max(SOURCES.glob("*.yaml"), key=lambda path: path.stat().st_size)
    bar = 12 * seconds(lambda: compile_rule(read(longest), "x"))
    slow = {
        name: f"{cost / bar:.1f}"
        for name, text in HOSTILE.items()
        if (cost := seconds(lambda text=text: refusal(text))) > bar  # type: ignore[misc]
    }
    assert slow == {}


def test_what_is_no_file_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd").mkdir()
    os.mkfifo("odd/pipe.yaml")
    assert run(capsys, "--test-rules", "odd")[1] == "FAIL odd/pipe.yaml: not a file\n"
    Path("odd/pipe.yaml").unlink()
    os.symlink("/dev/zero", "odd/zero.yaml")
    assert run(capsys, "--test-rules", "odd")[1] == "FAIL odd/zero.yaml: not a file\n"


def test_a_value_in_a_message_stays_short() -> None:
    rule = made(RULE.replace("{zero_optimization.stage}", "{optimizer.type}" * 100))
    config = {**CONFIG, "optimizer": {"type": "x" * 20_000}}
    found = [f for f in judge([*OWN, rule], config).findings if f.code == "ACME001"]
    assert len(found) == 1 and len(found[0].message) < 60_000


TOKENS = ["facts.batch_conflict", "facts.nvme_keys_on_cpu", "target.gpus", "this", "this.key", "args.bf16", "accelerate.x",
          "zero_optimization", "zero_optimization.stage", "optimizer.params", "has(this)", "written(optimizer)", "==", "<", "in",
          "not in", "and", "or", "not", "+", "/", "%", "3", "'x'", "[1, 'a']", "null", "(", ")", "size(fp16)", "lower(optimizer.type)",
          "is_auto(a.b)", "**", "{", "}", ":", "- ", "&", "*", "\n", '"', "[", "]"]  # fmt: skip


@given(
    st.lists(st.sampled_from(TOKENS), min_size=1, max_size=8).map(" ".join),
    st.sampled_from(["at: zero_optimization.stage", "each: [facts.nvme_keys_on_cpu, optimizer]", "at: facts.x", "each: [this]"]),
    st.sampled_from([{}, CONFIG, {"optimizer": {"type": "Adam", "params": {"lr": "auto"}}, "zero_optimization": True}, {"a": [1]}]),
)  # fmt: skip
def test_any_condition_is_refused_or_judged(condition: str, place: str, config: Any) -> None:
    text = RULE.replace("at: zero_optimization.stage\nw", f"{place}\nw")
    text = text.replace("{zero_optimization.stage}", "{" + condition + "}")
    text = text.replace("zero_optimization.stage != 3", json.dumps(condition))
    if not refusal(text):
        judge([*OWN, made(text)], config)


@given(st.data())
def test_any_mutation_is_refused_or_tried(data: st.DataObject) -> None:
    """Bytes put into a rule file anywhere: an error of one line, or a rule whose examples can be tried."""
    raw = RULE.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        end = at + data.draw(st.integers(0, 12))
        raw = (
            raw[:at]
            + data.draw(st.one_of(st.binary(max_size=4), st.sampled_from(TOKENS).map(str.encode)))
            + raw[end:]
        )
    said = refusal(raw)
    assert said == "" or said.startswith("x.yaml: ")
    if not said:
        rule = made(raw)
        for example in rule.examples:
            failure(rule, example, [*OWN, rule], alone=True)
