"""Suppressions: what they cover, what is said about them, and that DeepSpeed minds none."""

# ruff: noqa: UP031 (the braces are JSON)
from __future__ import annotations

import json
import time
from importlib.util import find_spec
from typing import Any

import pytest

from dslint import schema as schemas
from dslint.finding import FileReport
from dslint.lint import Options, lint, lint_releases, prepare, settled
from dslint.rules import load
from dslint.show import show_config

RULES = load()
NEWEST = schemas.newest()


def report(text: str | dict[str, Any], name: str = "ds.json", **options: Any) -> FileReport:
    raw = text if isinstance(text, str) else json.dumps(text)
    return lint(raw.encode(), name, Options(NEWEST, **{"trainer": "raw", **options}), RULES)


def codes(found: FileReport) -> list[str]:
    return [finding.code for finding in found.findings]


BASE = '"train_batch_size": 8, "gradient_clipping": 1.0'
TYPOS = '"train_batch_size": 8,\n"gradient_clipping": 1.0,\n"steps_per_prnt": 1.0'


@pytest.mark.parametrize(
    "text",
    [
        "{%s // dslint: ignore[DS102] on purpose\n}" % TYPOS,
        "{%s # dslint: ignore[DS102] on purpose\n}" % TYPOS,
        "{%s /* dslint: ignore[DS102] on purpose */\n}" % TYPOS,
        "{%s // dslint:ignore[misspelled-key]: on purpose\n}" % TYPOS,
        "{%s // dslint: ignore[DS101, DS102] on purpose\n}" % TYPOS,
        "{%s\n}" % TYPOS.replace('"steps_per_prnt"', '// dslint: ignore[DS102] on purpose\n"steps_per_prnt"'),
        "{%s\n}" % TYPOS.replace('"steps_per_prnt"', '/* dslint: ignore[DS102] on purpose */ "steps_per_prnt"'),
        "{%s\n}"
        % TYPOS.replace('"steps_per_prnt"', '# dslint: ignore[DS102] on purpose\n\n# more\n"steps_per_prnt"'),
        "{%s\n}" % TYPOS.replace('"steps_per_prnt"', '/*\n * dslint: ignore[DS102] on purpose\n */\n"steps_per_prnt"'),
        "// dslint: ignore-file[DS102] on purpose\n{%s}" % TYPOS,
        "{%s}\n// dslint: ignore-file[DS102] on purpose" % TYPOS,
        "{%s}\n# dslint: ignore-file[DS102] on purpose" % TYPOS.replace("\n", "\r\n"),
        '{%s, "dslint": {"ignore": {"DS102": "on purpose"}}}' % TYPOS,
        '{%s, "dslint": {"ignore": {"misspelled-key@steps_per_prnt": "on purpose"}}}' % TYPOS,
    ],
)  # fmt: skip
def test_what_silences(text: str) -> None:
    found = report(text)
    assert set(codes(found)) <= {"DS015"}
    (suppressed,) = found.suppressed
    assert (suppressed.finding.code, suppressed.reason, suppressed.by) == ("DS102", "on purpose", "file")
    if "DS101" not in text:
        assert codes(found) == []


@pytest.mark.parametrize(
    "text",
    [
        "{// dslint: ignore[DS102] too far away\n%s\n}" % TYPOS,
        "{%s\n// dslint: ignore[DS102] behind it\n}" % TYPOS,
        '{%s, "note": "// dslint: ignore[DS102] no comment"}' % TYPOS,
        "{%s // ignore[DS102] no mark\n}" % TYPOS,
        '{%s, "dslint": {"ignore": {"DS102@steps_per": "not this key"}}}' % TYPOS,
        '{%s, "dslint": {"ignore": {"DS102@zero_optimization": "not this section"}}}' % TYPOS,
        '{%s, "zero_optimization": {"dslint": {"ignore": {"DS102": "not here"}}}}' % TYPOS,
    ],
)
def test_what_does_not(text: str) -> None:
    found = report(text)
    assert "DS102" in codes(found) and found.suppressed == []


def test_a_key_is_silenced_with_all_that_stands_in_it() -> None:
    section = '"zero_optimization": {%s\n"stage": 2,\n"offload_optimizer": {"device": "cpu", "bogus": 1}}'
    for text in (
        "{%s, %s}" % (BASE, section % "// dslint: ignore[DS101] why"),
        "{%s,\n// dslint: ignore[DS101] why\n%s}" % (BASE, section % ""),
        '{%s, %s, "dslint": {"ignore": {"DS101@zero_optimization": "why"}}}' % (BASE, section % ""),
    ):
        found = report(text)
        assert "DS101" not in codes(found) and [s.finding.code for s in found.suppressed] == ["DS101"], text
    outside = '{%s, %s, "dslint": {"ignore": {"DS101@zero_optimization.stage": "why"}}}' % (
        BASE,
        section % "",
    )
    assert "DS101" in codes(report(outside))


YAML = (
    "deepspeed:\n  train_batch_size: 8\n  zero_optimization:\n    stage: 2\n    bogus: 1{}\nbase_model: m\n"
)


def test_yaml_comments() -> None:
    for text in (
        YAML.format("  # dslint: ignore[DS101] why"),
        YAML.replace("    bogus", "    # dslint: ignore[DS101] why\n    bogus").format(""),
        "# dslint: ignore-file[DS101] why\n" + YAML.format(""),
        YAML.format("\n  dslint:\n    ignore: {DS101@zero_optimization: why}"),
    ):
        found = report(text, "axolotl.yaml", trainer="axolotl")
        assert [s.reason for s in found.suppressed if s.finding.code == "DS101"] == ["why"], text
        assert not {"DS101", "DS015", "DS112"} & set(codes(found))
    for text in (
        YAML.format('\n    note: "x # dslint: ignore-file[DS101] why"'),
        YAML.format("\n    note: |\n      # dslint: ignore-file[DS101] why"),
    ):
        assert "DS101" in codes(report(text, "axolotl.yaml", trainer="axolotl"))


def test_accelerates_own_file_is_suppressed_by_comment_only() -> None:
    text = "distributed_type: DEEPSPEED\nnum_processes: 2\nbogus: 1{}\ndeepspeed_config:\n  zero_stage: 2\n"
    plain = [f for f in report(text.format(""), "a.yaml", trainer=None).findings if f.key == "bogus"]
    (finding,) = plain
    silent = report(text.format(f"  # dslint: ignore[{finding.code}] why"), "a.yaml", trainer=None)
    assert [f for f in silent.findings if f.key == "bogus"] == [] and silent.suppressed
    section = report(text.format(f"\ndslint: {{ignore: {{{finding.code}: why}}}}"), "a.yaml", trainer=None)
    cures = {f.key: f.cure for f in section.findings}  # accelerate refuses the key itself
    assert "bogus" in cures and cures["dslint"].startswith("suppress in a comment")


def test_a_section_in_the_wrong_place_is_told_where_it_belongs() -> None:
    text = '{"train_batch_size": 8, "zero_optimization": {"dslint": {"ignore": {"DS102": "why"}}}}'
    (finding,) = [f for f in report(text).findings if f.key == "zero_optimization.dslint"]
    assert finding.code == "DS101" and finding.cure == "move it to the top of the config"


def test_a_strict_reader_still_refuses_the_comment() -> None:
    text = "{%s // dslint: ignore[DS102] why\n}" % TYPOS
    (refused,) = [f for f in report(text, trainer="hf").findings if f.code == "DS020"]
    assert refused.cure == 'write it into a "dslint" object at the top of the config'
    assert "DS015" in codes(report(text.replace("DS102", "DS101"), trainer="hf"))
    clean = report('{%s, "dslint": {"ignore": {"DS102": "why"}}}' % TYPOS, trainer="hf")
    assert "DS102" not in codes(clean) and "DS020" not in codes(clean)


@pytest.mark.parametrize(
    "comment, code, says",
    [
        ("dslint: ignore[DS102] mended long ago", "DS015", "DS102 (misspelled-key) does not speak here"),
        ("dslint: ignore-file[DS102] mended", "DS015", "does not speak in this file"),
        ("dslint: ignore[DS1O2] a letter", "DS016", "no rule is called DS1O2"),
        ("dslint: ignore[mispelled-key] x", "DS016", "no rule is called mispelled-key"),
        ("dslint: ignore[DS1] families are not enough", "DS016", "no rule is called DS1,"),
        ("dslint: ignroe[DS102] x", "DS017", "ignroe means nothing"),
        ("dslint: ignore DS102 x", "DS017", "names no rule"),
        ("dslint: ignore[] x", "DS017", "names no rule"),
        ("dslint: ignore[DS102 x", "DS017", "names no rule"),
    ],
)
def test_a_suppression_that_does_nothing_is_a_finding(comment: str, code: str, says: str) -> None:
    text = f'{{"train_batch_size": 8, // {comment}\n"gradient_clipping": 1.0}}'
    (finding,) = report(text).findings
    assert (finding.code, finding.severity) == (code, "warning") and says in finding.message
    assert text[finding.start : finding.end].strip() and finding.start > text.index("dslint")


@pytest.mark.parametrize(
    "section, key, code",
    [
        ({"ignore": {"DS102": "x"}}, "dslint.ignore.DS102", "DS015"),
        ({"ignore": {"DS999": "x"}}, "dslint.ignore.DS999", "DS016"),
        ({"ignore": {"DS102": True}}, "dslint.ignore.DS102", "DS017"),
        ({"ignore": ["DS102"]}, "dslint.ignore", "DS017"),
        ({"ignored": {}}, "dslint.ignored", "DS017"),
        ("off", "dslint", "DS017"),
        (None, "dslint", "DS017"),
    ],
)
def test_faults_of_the_object(section: Any, key: str, code: str) -> None:
    found = report({"train_batch_size": 8, "gradient_clipping": 1.0, "dslint": section})
    assert [(f.code, f.key) for f in found.findings] == [(code, key)]


def test_a_reason_is_asked_for() -> None:
    found = report("{%s // dslint: ignore[DS102]\n}" % TYPOS)
    assert [(f.code, f.severity) for f in found.findings] == [("DS018", "info")]


def test_unused_is_said_only_where_it_is_known() -> None:
    text = '{%s, "dslint": {"ignore": {"%s": "why"}}}'
    batch = BASE + ', "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1'
    assert codes(report(text % (batch, "DS204"))) == []  # needs the number of GPUs
    assert codes(report(text % (batch, "DS204"), gpus=4)) == ["DS015"]
    assert codes(report(text % (BASE, "DS903"))) == []  # needs the arguments of a run
    assert codes(report(text % (BASE, "DS792"))) == []  # found by --verify only
    assert codes(report(text % (BASE, "DS102"), ignore=("DS102",))) == []  # not asked for
    assert codes(report(text % (BASE, "DS102"), select=("DS2",))) == []
    assert codes(report(text % (BASE, "DS102"))) == ["DS015"]
    assert "DS015" not in codes(report(text[:-1] % (BASE, "DS102")))  # half a file


def test_a_range_of_releases_uses_a_suppression_in_any_of_them() -> None:
    text = '{%s, "zero_optimization": {"stage": 2, "cpu_offload": true}, "dslint": {"ignore": {"%s": "why"}}}'
    options = Options(NEWEST, trainer="raw")
    releases = [r for r in schemas.index() if r.startswith("0.1")][::20]

    def of(code: str) -> list[str]:
        raw = (text % (BASE, code)).encode()
        targets = [Options(release, trainer="raw") for release in releases]
        return codes(settled(lint_releases(raw, "ds.json", options, RULES, releases), raw, targets, RULES))

    seen = of("DS102")
    assert "DS015" in seen
    for code in {c for c in seen if c != "DS015"}:
        assert code not in of(code) and "DS015" not in of(code)


def test_ours_is_no_unknown_key_and_no_value_of_deepspeed() -> None:
    raw = json.dumps({"train_batch_size": 8, "dslint": {"ignore": {"DS102": "x"}}}).encode()
    for release in schemas.index():
        found = lint(raw, "ds.json", Options(release, trainer="raw", ignore=("DS015",)), RULES)
        assert [f for f in found.findings if f.severity != "info"] == []
    assert "dslint" not in show_config(prepare(raw, "ds.json", Options(NEWEST))).split("\n", 1)[1]


@pytest.mark.parametrize(
    "text",
    [
        "{%s}" % "".join(f"// dslint: ignore[{'DS102,' * 40}] x\n\"k{i}\": 1,\n" for i in range(900)),
        "{%s}" % "".join(f"// dslint: ignore[no-rule-of-name-{i}] x\n\"k{i}\": 1,\n" for i in range(5000)),
        '{"dslint": {"ignore": {%s}}}' % ",".join(f'"offload-not-pined-{i}": "x"' for i in range(8000)),
        "/* dslint: ignore[" + "[" * 200_000 + "*/ {}",
        "/*" + " dslint:" * 30_000 + "*/ {}",
        "{" + "// dslint: ignore[DS102] x\n" * 900 + "/*" * 50_000 + "}",
    ],
)  # fmt: skip
def test_hostile_suppressions_end_soon(text: str) -> None:
    begin = time.process_time()
    report(text)
    assert time.process_time() - begin < 10  # a hang, not a matter of speed


@pytest.mark.live
def test_deepspeed_minds_no_suppression() -> None:
    pytest.importorskip("deepspeed")
    from tests.oracle.parse import verdict

    config = {"train_batch_size": 8, "dslint": {"ignore": {"DS501@zero_optimization": "host has 2 TB"}}}
    for form in (config, json.dumps(config)):
        assert verdict(form, world_size=8) == ("ok", "")


@pytest.mark.live
@pytest.mark.skipif(
    not (find_spec("transformers") and find_spec("accelerate")), reason="needs the extra trainers"
)
def test_trainers_mind_no_suppression() -> None:
    from tests.oracle.trainers import run

    config = {
        "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": True},
        "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "dslint": {"ignore": {"DS501": "host has 2 TB"}},
    }  # fmt: skip
    numbers = {"train_batch_size": 1, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}
    cases = [
        {"loader": "hf", "config": config, "args": {"bf16": True, "learning_rate": 1e-4}},
        {"loader": "accelerate", "config": {**config, **numbers}, "script": "dummy"},
    ]
    assert [outcome["verdict"] for outcome in run(cases)] == ["ok", "ok"]
