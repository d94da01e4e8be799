"""Baselines: only new findings count, lines do not matter, and what is stale is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dslint.cli import main

BASE: dict[str, Any] = {"train_batch_size": 8, "gradient_clipping": 1.0, "bf16": {"enabled": True}}
BAD = {**BASE, "steps_per_prnt": 5, "zero_optimization": {"stage": 2, "bogus": 1}}


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)


def write(name: str, content: Any) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return name


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main([*argv, "--trainer", "raw"])
    return (code, *capsys.readouterr())


def test_only_new_findings_count(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/ds.json", BAD)
    code, out, err = run(capsys, "conf/ds.json", "--write-baseline", "dslint-baseline.json")
    assert (code, out) == (0, "") and "2 findings are known from now on" in err
    known = json.loads(Path("dslint-baseline.json").read_text())
    assert known == {
        "dslint-baseline": 1,
        "files": {"conf/ds.json": {"DS101 zero_optimization.bogus": 1, "DS102 steps_per_prnt": 1}},
    }
    baseline = ("--baseline", "dslint-baseline.json")
    code, out, err = run(capsys, "conf/ds.json", *baseline)
    assert (code, err) == (0, "") and "No findings, 2 suppressed, in 1 file" in out
    write("conf/ds.json", "\n\n\n" + json.dumps({"comment": "moved", **BAD}, indent=8))
    assert run(capsys, "conf/ds.json", *baseline)[0] == 0
    write("conf/ds.json", {**BAD, "zero_optimization": {"stage": 2, "bogus": 1, "more": 1}})
    code, out, _ = run(capsys, "conf/ds.json", *baseline, "--format", "json")
    (file,) = json.loads(out)["files"]
    assert code == 1 and [f["key"] for f in file["findings"]] == ["zero_optimization.more"]
    assert {(f["code"], f["by"]) for f in file["suppressed"]} == {
        ("DS101", "baseline"),
        ("DS102", "baseline"),
    }


def test_a_second_finding_of_the_same_kind_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", '{"train_batch_size": 8, "train_batch_size": 8, "gradient_clipping": 1.0}')
    run(capsys, "ds.json", "--write-baseline", "b.json")
    assert run(capsys, "ds.json", "--baseline", "b.json")[0] == 0
    write(
        "ds.json",
        '{"train_batch_size": 8, "train_batch_size": 8, "train_batch_size": 8, "gradient_clipping": 1.0}',
    )
    assert run(capsys, "ds.json", "--baseline", "b.json")[0] == 1


def test_paths_are_from_the_folder_of_the_baseline(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("conf/ds.json", BAD)
    write("ci/keep", "")
    run(capsys, "conf/ds.json", "--write-baseline", "ci/b.json")
    assert list(json.loads(Path("ci/b.json").read_text())["files"]) == ["../conf/ds.json"]
    monkeypatch.chdir("conf")
    for name in ("ds.json", "./ds.json", "../conf/ds.json", str(tmp_path / "conf/ds.json")):
        assert run(capsys, name, "--baseline", "../ci/b.json")[0] == 0


def test_the_settings_can_name_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("conf/ds.json", BAD)
    write("ci/keep", "")
    write("dslint.toml", 'baseline = "ci/b.json"\n')
    code, _, err = run(capsys, "conf/ds.json")
    assert code == 2 and "b.json: no such baseline; make one with --write-baseline" in err
    assert run(capsys, "conf/ds.json", "--write-baseline", "ci/b.json")[0] == 0
    monkeypatch.chdir("conf")
    assert run(capsys, "ds.json")[0] == 0


def test_stale_entries_are_told_and_dropped_when_written_anew(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ds.json", "gone.json", "other.json"):
        write(name, BAD)
    run(capsys, "ds.json", "gone.json", "other.json", "--write-baseline", "b.json")
    write("ds.json", BASE)
    Path("gone.json").unlink()
    code, _, err = run(capsys, "ds.json", "--baseline", "b.json")
    assert code == 0 and err.count("\n") == 1
    assert "b.json: 3 entries are stale (ds.json DS101 zero_optimization.bogus, ds.json DS102" in err
    assert "gone.json" in err and "other.json" not in err
    assert "DS101" not in run(capsys, "ds.json", "--baseline", "b.json", "--select", "DS102")[2]
    run(capsys, "ds.json", "--write-baseline", "b.json")
    assert list(json.loads(Path("b.json").read_text())["files"]) == ["other.json"]  # not linted, still there
    write("other.json", "{")
    assert run(capsys, "other.json", "--baseline", "b.json")[2] == ""  # half a file says nothing


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"dslint-baseline": 2, "files": {}}', "[" * 100_000,
                                  '{"dslint-baseline": 1, "files": {"a": {"DS101": "x"}}}', "\udcff"])  # fmt: skip
def test_what_is_no_baseline(capsys: pytest.CaptureFixture[str], text: str) -> None:
    Path("b.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    write("ds.json", BAD)
    for flag in ("--baseline", "--write-baseline"):
        code, _, err = run(capsys, "ds.json", flag, "b.json")
        assert code == 2 and err.startswith("dslint: b.json: no baseline of dslint") and err.count("\n") == 1


def test_nothing_of_value_is_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", BAD)
    assert run(capsys, "ds.json", "--write-baseline", "ds.json")[0] == 2
    assert json.loads(Path("ds.json").read_text()) == BAD
    code, _, err = run(capsys, "ds.json", "--write-baseline", "no/such/b.json")
    assert code == 2 and "no/such/b.json" in err
    assert "give one of" in run(capsys, "ds.json", "--write-baseline", "b.json", "--baseline", "b.json")[2]
