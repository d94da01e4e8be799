"""The command line as a user meets it: exit codes, streams, inputs, bad input."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from dslint.arguments import MODES, TOGETHER
from dslint.cli import main
from dslint.document import line_starts

GOOD = {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
BAD = {"train_batch_size": 8, "zero_optimization": {"stage": 7}}


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GITHUB_ACTIONS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def write(name: str, content: Any) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8")
    return name


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    "config, flags, code",
    [
        (GOOD, [], 0),
        (BAD, [], 1),
        (BAD, ["--fail-on", "never"], 0),
        (BAD, ["--ignore", "DS107"], 0),
        (BAD, ["--ignore", "invalid-value"], 0),
        (BAD, ["--ignore", "DS1"], 0),
        (BAD, ["--select", "DS2"], 0),
        (BAD, ["--select", "ALL"], 1),
        ({**GOOD, "my_key": 1}, [], 0),
        ({**GOOD, "my_key": 1}, ["--fail-on", "warning"], 1),
        ({**GOOD, "train_micro_batch_size_per_gpu": 3}, [], 1),
        ({**GOOD, "train_micro_batch_size_per_gpu": 2}, ["--gpus", "3"], 1),
        ({**GOOD, "train_micro_batch_size_per_gpu": 2}, ["--gpus", "4"], 0),
        ("{", [], 1),
        ("", [], 1),
        ("[1]", [], 1),
        ("[" * 100_000, [], 1),
        ('{"train_batch_size": 8, "a": ' * 100_000, [], 1),
    ],
    ids=lambda value: str(value)[:50],
)
def test_exit_codes(capsys: pytest.CaptureFixture[str], config: Any, flags: list[str], code: int) -> None:
    got, out, err = run(capsys, write("ds.json", config), *flags)
    assert (got, err) == (code, ""), out


@pytest.mark.parametrize(
    "argv, says",
    [
        (["missing.json"], "missing.json: No such file or directory"),
        (["empty-folder"], "no DeepSpeed config found below empty-folder"),
        ([], "no DeepSpeed config found below the current directory"),
        (["ds.json", "--gpus", "many"], "'many' is not a whole number"),
        (["ds.json", "--gpus", "0"], "'0' is not a whole number"),
        (["ds.json", "--select", "DS999"], "no rule is called DS999"),
        (["ds.json", "--ignore", "invalid-valu"], "did you mean invalid-value?"),
        (["ds.json", "--format", "xml"], "invalid choice: 'xml'"),
        (["ds.json", "--formt", "json"], "did you mean --format?"),
        (["ds.json", "--trainer", "megatron"], "invalid choice: 'megatron'"),
        (["ds.json", "--deepspeed", "latest"], "'latest' is not a DeepSpeed release"),
        (["ds.json", "--deepspeed", "0.1.0"], "releases before"),
        (["--explain", "DS10"], "DS10, it is a family; dslint --list-rules --select DS10 lists it"),
        (["ds.json", "--trainer", "HF"], "did you mean hf?"),
        (["ds.json", "--fail-on", "Eror"], "did you mean error?"),
        (
            ["ds.json", "--stdin-filename", "x.json"],
            "--stdin-filename names standard input, which - stands for",
        ),
        (["ds.json", "--hf-args", "ds.json"], "ds.json: it is a DeepSpeed config; give what starts the run"),
        (["ds.json", "--timeout", "5"], "--timeout needs --verify"),
        (["ds.json", "--show-config", "--upgrade-from", "0.16.9"], "--upgrade-from is for reports"),
        (["--recommend", "--model", "7B", "--format", "concise"], "--recommend takes --format text or json"),
        (["ds.json", "--select", "all"], "no rule is called all; did you mean ALL?"),
        (["ds.json", "--select", "ds5"], "no rule is called ds5; did you mean DS5?"),
        (["ds.json", "--ignore", "ds204"], "no rule is called ds204; did you mean DS204?"),
        (["ds.json", "--ignore", "none"], "no rule is called none; to name no rule leave it out"),
        (["ds.json", "--select", ""], "argument --select: it names no rule"),
        (["ds.json", "--gpu-memory", "much"], "--gpu-memory: 'much' is not an amount of memory"),
        (["ds.json", "--host-memory", "much"], "--host-memory: 'much' is not an amount of memory"),
        (["ds.json", "--gpu-type", "b9000x"], "--gpu-type: no GPU is called 'b9000x'"),
        (
            ["ds.json", "--show-config", "--format", "json"],
            "--format is for reports, and --show-config makes none",
        ),
        (
            ["--list-rules", "--output", "json=x"],
            "--output json=x is for reports, and --list-rules makes none",
        ),
        (["ds.json", "--output", "no/such/folder/report.txt"], "no/such/folder/report.txt"),
        (["ds.json", "--output", "ds.json"], "would replace the config"),
        (["ds.json", "--deepspeed", "0.19.8 foo"], "'0.19.8 foo' is not a DeepSpeed release"),
        (["missing.json", "--show-config"], "missing.json: No such file or directory"),
        (["a\x1b[31m\n::error::b.json"], "a\\u001b[31m\\n::error::b.json"),
        (["a\x00b.json"], "null"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    Path("empty-folder").mkdir()
    if argv and argv[0] == "ds.json":
        write("ds.json", GOOD)
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert says in err and err.count("\n") == 1 and err.startswith("dslint: ")


VALUES = {"test_rules": "rules", "explain": "DS204", "write_baseline": "base.json"}


@pytest.mark.parametrize("one, other", [*combinations(MODES, 2)], ids="-".join)
def test_of_two_modes_none_is_ignored(capsys: pytest.CaptureFixture[str], one: str, other: str) -> None:
    flags = [f"--{mode.replace('_', '-')}" for mode in (one, other)]
    argv = [
        part
        for mode, flag in zip((one, other), flags, strict=True)
        for part in (flag, VALUES.get(mode))
        if part
    ]
    if {one, other} in TOGETHER:
        assert run(capsys, *argv, "--model", "7B", write("ds.json", GOOD))[0] == 0
    else:
        assert run(capsys, *argv, write("ds.json", GOOD)) == (
            2,
            "",
            f"dslint: give one of {' and '.join(flags)}\n",
        )


@pytest.mark.parametrize(
    "argv",
    [
        ["--list-rules"],
        ["--explain", "DS204"],
        ["--print-schema"],
        ["--show-config", "ds.json"],
        ["--show-settings"],
    ],
    ids=" ".join,
)
def test_what_is_no_report_goes_to_a_file_too(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    write("ds.json", GOOD)
    _, printed, _ = run(capsys, *argv)
    assert run(capsys, *argv, "--output", "out.txt") == (0, "", "")
    assert printed and Path("out.txt").read_text(encoding="utf-8") == printed


def test_rules_are_listed_as_they_are_selected(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--list-rules", "--select", "DS2", "--ignore", "DS204")
    codes = [line.split()[0] for line in out.splitlines()]
    assert "DS206" in codes and "DS204" not in codes and all(code.startswith("DS2") for code in codes)


def test_one_missing_file_does_not_hide_the_findings_in_another(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "missing.json", write("ds.json", BAD))
    assert code == 2 and "DS107" in out and "missing.json" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(capsys: pytest.CaptureFixture[str]) -> None:
    os.chmod(write("ds.json", GOOD), 0)
    code, _, err = run(capsys, "ds.json")
    os.chmod("ds.json", stat.S_IRUSR | stat.S_IWUSR)
    assert code == 2 and "Permission denied" in err


@pytest.mark.parametrize("flags", [[], ["--fix"], ["--diff"], ["--filter"]], ids=" ".join)
def test_standard_input_without_an_end_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    with open("/dev/zero", encoding="utf-8") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        said = run(capsys, "-", *flags)
    assert said == (2, "", "dslint: standard input: more than 2,000,000 bytes, which no config has\n")


def test_a_text_of_many_lines_is_read_in_linear_time() -> None:
    assert line_starts("a\r\nb\nc\rd\r\n\n\r\r") == [0, 3, 5, 7, 10, 11, 12, 13]
    seconds = {}
    for many in (20_000, 200_000):
        begun = time.process_time()
        line_starts('{"train_batch_size": 8,\n' * many)
        seconds[many] = time.process_time() - begun
    assert seconds[200_000] < 40 * max(seconds[20_000], 0.001)


def test_directories_are_searched_by_name_and_content(capsys: pytest.CaptureFixture[str]) -> None:
    write("configs/ds_config.json", BAD)
    write("configs/deep/train.json", BAD)
    write("configs/package.json", {"name": "x", "version": "1"})
    write(
        "configs/schema.json",
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "zero_optimization": {}},
    )
    write("configs/node_modules/ds_config.json", BAD)
    write("configs/.hidden/ds_config.json", BAD)
    for argv in (["configs"], []):
        code, out, _ = run(capsys, *argv, "--format", "json")
        paths = [f["path"] for f in json.loads(out)["files"]]
        assert code == 1
        assert sorted(path.removeprefix("./") for path in paths) == [
            "configs/deep/train.json",
            "configs/ds_config.json",
        ]


def test_filter_skips_what_is_no_config_and_is_content_with_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("package.json", {"name": "x"})
    write("ds_config.json", BAD)
    write("notes.txt", "zero_optimization: 1")
    assert run(capsys, "--filter", "package.json", "notes.txt")[0] == 0
    code, out, _ = run(capsys, "--filter", "package.json", "ds_config.json", "notes.txt", "--format", "json")
    assert code == 1 and [f["path"] for f in json.loads(out)["files"]] == ["ds_config.json"]


def test_all_behind_two_dashes_is_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    text = '{"train_batch_size": 8,}'
    write("ds_config.json", text)
    write("--fix", text)
    code, out, err = run(capsys, "--format", "concise", "--", "--fix")
    assert code in (0, 1) and out.startswith("--fix:1:") and "ds_config" not in out and err == ""
    assert Path("ds_config.json").read_text() == Path("--fix").read_text() == text
    assert run(capsys, "--", "--nope") == (2, "", "dslint: --nope: No such file or directory\n")


def test_a_named_file_is_always_linted(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, write("package.json", {"name": "x"}))
    assert code == 1 and "DS201" in out


def test_standard_input(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dslint", "-", "--stdin-filename", "editor.json", "--format", "concise"],
        input=json.dumps(BAD),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert done.returncode == 1 and done.stdout.startswith("editor.json:1:")


def test_json_report_follows_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", BAD)
    report = json.loads(run(capsys, "ds.json", "--format", "json", "--gpus", "8", "--deepspeed", "0.19.8")[1])
    file = report["files"][0]
    assert {k: v for k, v in file.items() if k != "findings"} == {
        "path": "ds.json",
        "deepspeed": "0.19.8",
        "trainer": "raw",
        "gpus": 8,
        "deepspeed_reason": "given",
    }
    finding = next(f for f in file["findings"] if f["code"] == "DS107")
    assert {k: finding[k] for k in ("code", "name", "severity", "phase", "key", "line", "column")} == {
        "code": "DS107",
        "name": "invalid-value",
        "severity": "error",
        "phase": "config",
        "key": "zero_optimization.stage",
        "line": 4,
        "column": 5,
    }
    assert (finding["end_line"], finding["end_column"], finding["fix"]) == (4, 12, None)


def test_the_same_input_gives_the_same_report(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", {**BAD, "b": 1, "a": 2, "gradient_cliping": 3})
    assert len({run(capsys, "ds.json", "--format", "json")[1] for _ in range(3)}) == 1


def test_github_format_is_chosen_in_actions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    write("ds.json", BAD)
    assert "\n::error file=ds.json,line=4," in "\n" + run(capsys, "ds.json")[1]
    assert "::error" not in run(capsys, "ds.json", "--format", "text")[1]


def test_colour_only_when_asked_or_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("ds.json", BAD)
    assert "\x1b" not in run(capsys, "ds.json")[1]
    assert "\x1b" in run(capsys, "ds.json", "--color", "always")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in run(capsys, "ds.json")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(capsys, "ds.json")[1]


def test_output_goes_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", BAD)
    code, out, _ = run(capsys, "ds.json", "--output", "report.txt")
    assert (code, out) == (1, "") and "DS107" in Path("report.txt").read_text()


def test_explain_list_and_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert "batch-equation" in run(capsys, "--explain", "DS204")[1]
    assert run(capsys, "--explain", "ds204")[1] == run(capsys, "--explain", "batch-equation")[1]
    assert len(run(capsys, "--list-rules")[1].splitlines()) >= 60
    assert json.loads(run(capsys, "--print-schema")[1])["properties"]["zero_optimization"]


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("train_batch_size", "DS204"),
        ("scheduler.params.warmup_num_steps", "DS844"),
        ("optimizer.params.betas", "DS803"),
    ],
)
def test_a_key_names_the_rules_whose_places_a_fact_finds(
    capsys: pytest.CaptureFixture[str], key: str, rule: str
) -> None:
    assert f"  {rule} " in run(capsys, "--explain", key)[1]


def test_show_config_tells_what_nobody_reads(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "ds.json",
        '{"train_batch_size": 8, "gradient_cliping": 0.5, "mine": {"a": [1]}, "gradient_clipping": 1}',
    )
    out = run(capsys, "ds.json", "--show-config")[1]
    assert "gradient_cliping = 0.5  # the file; DeepSpeed does not read it\n" in out
    assert "mine.a = [1]  # the file; DeepSpeed does not read it\n" in out
    assert "gradient_clipping = 1  # the file\n" in out and out.count("does not read") == 2
    assert "does not read" not in run(capsys, "ds.json", "--show-config", "--deepspeed", "9.0.0")[1]


def test_show_config_names_the_origin_of_every_value(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", {**GOOD, "fp16": {"enabled": "auto"}, "bfloat16": {"enabled": True}})
    out = run(capsys, "ds.json", "--show-config", "--trainer", "raw")[1]
    assert "train_batch_size = 8  # the file" in out
    assert "zero_optimization.overlap_comm = false  # derived" in out
    assert 'fp16.enabled = false  # default, for DeepSpeed drops "auto" here' in out
    assert "bf16.enabled = true  # the file" in out


def test_ten_megabytes_end_in_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", '{"train_batch_size": 8, "x": [' + "1, " * 3_400_000 + "1]}")
    code, out, err = run(capsys, "ds.json", "--format", "concise")
    assert code == 1 and "DS0" in out and err == ""
