"""Settings files: where they are looked for, what holds for which file, and how a mistake in one is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dslint.arguments import arguments
from dslint.cli import main
from dslint.settings import FILE_KEYS, KEYS, matches, nearest

CONFIG = {"train_batch_size": 6, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GITHUB_ACTIONS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    write("ds.json", json.dumps(CONFIG))
    return tmp_path


def write(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    return (code, *capsys.readouterr())


def file_report(capsys: pytest.CaptureFixture[str], *argv: str) -> dict:
    return json.loads(run(capsys, "--format", "json", *argv)[1])["files"][0]


def test_every_setting_is_named_like_its_flag() -> None:
    without_flag = {"severity", "exclude"}
    assert {f"--{key}" for key in KEYS if key not in without_flag} <= set(arguments().by_flag)
    assert not {f"--{key}" for key in without_flag} & set(arguments().by_flag)
    assert set(FILE_KEYS) < set(KEYS)


@pytest.mark.parametrize("name, head", [("pyproject.toml", "[tool.dslint]\n"), ("dslint.toml", "")])
def test_settings_are_read_like_flags(capsys: pytest.CaptureFixture[str], name: str, head: str) -> None:
    write(name, f'{head}deepspeed = "0.16.4"\ngpus = 3\ntrainer = "hf"\nignore = ["DS9"]\n')
    found = file_report(capsys, "ds.json")
    assert (found["deepspeed"], found["gpus"], found["trainer"]) == ("0.16.4", 3, "hf")
    assert "DS205" in str(found["findings"]) or "DS204" in str(found["findings"])
    assert file_report(capsys, "ds.json", "--isolated")["gpus"] is None


def test_a_flag_wins_over_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    write("dslint.toml", 'deepspeed = "0.16.4"\ngpus = 3\nselect = ["DS1"]\n')
    found = file_report(capsys, "ds.json", "--gpus", "6", "--deepspeed", "0.18.0", "--select", "ALL")
    assert (found["deepspeed"], found["gpus"], found["findings"]) == ("0.18.0", 6, [])


def test_dslint_toml_counts_before_pyproject(capsys: pytest.CaptureFixture[str]) -> None:
    write("dslint.toml", "gpus = 6\n")
    write("pyproject.toml", "[tool.dslint]\ngpus = 3\n")
    assert file_report(capsys, "ds.json")["gpus"] == 6


def test_each_file_has_the_settings_nearest_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    write("pyproject.toml", "[tool.dslint]\ngpus = 6\n")
    write("team/pyproject.toml", '[tool.dslint]\ndeepspeed = "0.17.0"\nfail-on = "never"\n')
    write("team/conf/ds.json", json.dumps({**CONFIG, "gradient_cliping": 1.0}))
    write("other/pyproject.toml", "[project]\nname = 'x'\n")
    write("other/ds.json", json.dumps(CONFIG))
    code, out, _ = run(capsys, "--format", "json", "ds.json", "team", "other")
    files = {file["path"]: (file["deepspeed"], file["gpus"]) for file in json.loads(out)["files"]}
    assert files["ds.json"][1] == 6 and files["other/ds.json"][1] == 6
    assert files["team/conf/ds.json"] == ("0.17.0", None)
    assert code == 0  # the only error is in a file that fails on nothing
    assert run(capsys, "team", "--fail-on", "error")[0] == 1


def test_the_search_ends_at_the_root_of_the_repository(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("dslint.toml", "gpus = 3\n")
    Path("inner/.git").mkdir(parents=True)
    write("inner/ds.json", json.dumps(CONFIG))
    assert file_report(capsys, "inner/ds.json")["gpus"] == 3  # those of the current directory
    monkeypatch.chdir("inner")
    assert file_report(capsys, "ds.json")["gpus"] is None


def test_sections_hold_for_the_files_they_match_and_the_later_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(
        "pyproject.toml",
        '[tool.dslint]\ngpus = 2\n[[tool.dslint.files]]\nmatch = "big"\ngpus = 64\ntrainer = "hf"\n'
        '[[tool.dslint.files]]\nmatch = ["big/*.json"]\ngpus = 128\n',
    )
    for name in ("big/ds.json", "big/deep/ds.json"):
        write(name, json.dumps(CONFIG))
    out = run(capsys, "--format", "json", "ds.json", "big")[1]
    found = {file["path"]: (file["gpus"], file["trainer"]) for file in json.loads(out)["files"]}
    assert found == {
        "ds.json": (2, "raw"),
        "big/ds.json": (128, "hf"),
        "big/deep/ds.json": (64, "hf"),
    }


@pytest.mark.parametrize(
    "glob, path, meant",
    [
        ("*.json", "a/b/c.json", True),
        ("big", "a/big/c.json", True),
        ("big/", "a/big/c.json", True),
        ("a/*.json", "a/b/c.json", False),
        ("a/*.json", "a/c.json", True),
        ("a/**/c.json", "a/c.json", True),
        ("a/**/c.json", "a/x/y/c.json", True),
        ("a/**", "a/x/y/c.json", True),
        ("**/y/*", "a/x/y/c.json", True),
        ("/c.json", "a/c.json", False),
        ("/c.json", "c.json", True),
        ("a", "ab/c.json", False),
        ("ds[0-9].json", "x/ds3.json", True),
        ("../x.json", "../x.json", True),
    ],
)
def test_globs(glob: str, path: str, meant: bool) -> None:
    assert matches([glob], path) is meant


def test_a_hostile_glob_ends() -> None:
    assert not matches(["a*" * 200 + "b", "**/" * 200 + "b"], "a" * 200 + "/" + "/".join("a" * 300))


def test_exclude_leaves_out_what_is_found_but_not_what_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    write("dslint.toml", 'exclude = ["vendor", "*.tmp.json"]\n')
    for name in ("vendor/ds.json", "a.tmp.json", "sub/b.json"):
        write(name, json.dumps({**CONFIG, "zero_optimization": {}}))
    found = json.loads(run(capsys, "--format", "json", "--gpus", "6")[1])["files"]
    assert {file["path"] for file in found} == {"ds.json", "sub/b.json"}
    listed = run(capsys, "--filter", "vendor/ds.json", "sub/b.json", "--format", "json")[1]
    assert [file["path"] for file in json.loads(listed)["files"]] == ["sub/b.json"]
    assert file_report(capsys, "vendor/ds.json")["path"] == "vendor/ds.json"


def test_severities_are_given_by_code_name_and_family(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", json.dumps({**CONFIG, "gradient_cliping": 1.0, "my_key": 1}))
    write("dslint.toml", '[severity]\nDS1 = "info"\nmisspelled-key = "warning"\n')
    found = {f["name"]: f["severity"] for f in file_report(capsys, "ds.json")["findings"]}
    assert found["misspelled-key"] == "warning" and found["unread-key"] == "info"
    assert run(capsys, "ds.json")[0] == 0
    assert "DS102  warning" in run(capsys, "--list-rules")[1]


def test_model_and_machine_come_from_settings(capsys: pytest.CaptureFixture[str]) -> None:
    write("dslint.toml", 'gpus = 8\nmodel = "llama-7b"\ngpu-type = "a100-80gb"\ntrainable-params = "40M"\n')
    assert "estimate" in file_report(capsys, "ds.json", "--estimate")


def test_a_model_file_is_found_beside_the_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 128, "vocab_size": 100}  # fmt: skip
    write("shapes/config.json", json.dumps(shape))
    write("dslint.toml", 'gpus = 8\nmodel = "shapes/config.json"\ngpu-memory = "24GB"\n')
    write("deep/ds.json", json.dumps(CONFIG))
    monkeypatch.chdir("deep")
    assert "estimate" in file_report(capsys, "ds.json", "--estimate")


def test_config_names_the_file_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    write("team/dslint.toml", "gpus = 3\n")
    write("team/ds.json", json.dumps(CONFIG))
    write("ci/strict.toml", 'gpus = 6\n[[files]]\nmatch = "team/*"\ntrainer = "hf"\n')
    found = file_report(capsys, "team/ds.json", "--config", "ci/strict.toml")
    assert (found["gpus"], found["trainer"]) == (6, "hf")  # globs start at the current directory


def test_show_settings_says_where_each_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "pyproject.toml",
        '[tool.dslint]\ngpus = 2\nseverity = {DS501 = "info"}\n'
        '[[tool.dslint.files]]\nmatch = "ds.json"\ntrainer = "hf"\n',
    )
    code, out, err = run(capsys, "--show-settings", "ds.json", "--select", "DS1,DS2")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "# ds.json"
    assert "gpus = 2  # pyproject.toml [tool.dslint]" in out
    assert 'trainer = "hf"  # pyproject.toml [tool.dslint] files, section 1 (ds.json)' in out
    assert 'select = ["DS1", "DS2"]  # --select' in out
    assert 'fail-on = "error"  # default' in out
    assert 'severity = {"DS501": "info"}  # pyproject.toml' in out
    assert run(capsys, "--show-settings")[1].startswith("# the run\n")


@pytest.mark.parametrize(
    "text, says",
    [
        ("gpu = 8", "unknown setting gpu; did you mean gpus?"),
        ("fail_on = 'warning'", "unknown setting fail_on; did you mean fail-on?"),
        ("colour = 'red'", "unknown setting colour; known: deepspeed, trainer"),
        ("gpus = 'eight'", "gpus takes a whole number"),
        ("gpus = true", "gpus takes a whole number"),
        ("gpus = 0", "gpus: '0' is not a whole number"),
        ("trainer = 'huggingface'", "trainer: 'huggingface' is not one of raw, hf"),
        ("trainer = 'acelerate'", "did you mean accelerate?"),
        ("fail-on = 'err'", "fail-on: 'err' is not one of error"),
        ("select = 'DS1'", "select takes a list of texts"),
        ("select = ['DS999']", "select: no rule is called DS999"),
        ("ignore = ['invalid-valu']", "did you mean invalid-value?"),
        ("severity = {DS101 = 'fatal'}", "severity takes a table of rules"),
        ("severity = {DS999 = 'info'}", "severity: no rule is called DS999"),
        ("jobs = 2", "unknown setting jobs; it is only a flag, --jobs"),
        ("deepspeed = 0.16", "deepspeed takes text"),
        ("deepspeed = 'latest'", "'latest' is not a DeepSpeed release"),
        ("gpu-type = 'a1000'", "gpu-type"),
        ("rules = ['no/such']", "No such file or directory"),
        ("files = 1", "files: a [[...files]] table"),
        ("[[files]]\ngpus = 1", "section 1: match: give the files"),
        ("[[files]]\nmatch = 'x'\nexclude = ['b']", "it holds for all files"),
        ("[[files]]\nmatch = 'x'\ngpuss = 1", "section 1: unknown setting gpuss; did you mean gpus?"),
        ("gpus = ", "not readable as TOML"),
        ("a = " + "[" * 5000, "not readable as TOML"),
        ("\x1b[31m = 1", "not readable as TOML"),
    ],
)
def test_a_mistake_in_settings_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    write("dslint.toml", text)
    code, out, err = run(capsys, "ds.json")
    assert (code, out) == (2, "")
    assert err.startswith("dslint: ") and ("dslint.toml" in err or "rules:" in err)
    assert says in err and err.count("\n") == 1 and err[:-1].isprintable()
    assert run(capsys, "ds.json", "--isolated")[0] != 2


def test_a_mistake_in_the_settings_of_one_folder_does_not_hide_behind_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("team/dslint.toml", "gpuss = 1")
    write("team/ds.json", json.dumps(CONFIG))
    code, _, err = run(capsys, "team/ds.json")
    assert code == 2 and "team/dslint.toml: unknown setting gpuss" in err


@pytest.mark.parametrize(
    "argv, says",
    [
        (["--config", "missing.toml", "ds.json"], "missing.toml: no settings file"),
        (["--config", "dslint.toml", "--isolated", "ds.json"], "give one of --config and --isolated"),
    ],
)
def test_flags_about_settings(capsys: pytest.CaptureFixture[str], argv: list[str], says: str) -> None:
    code, _, err = run(capsys, *argv)
    assert code == 2 and says in err and err.count("\n") == 1


def test_a_broken_pyproject_of_others_is_not_our_matter(capsys: pytest.CaptureFixture[str]) -> None:
    write("pyproject.toml", "[project\nname = ")
    assert run(capsys, "ds.json", "--gpus", "6")[0] == 0


def test_locks_count_where_no_setting_does(capsys: pytest.CaptureFixture[str]) -> None:
    write("uv.lock", '[[package]]\nname = "deepspeed"\nversion = "0.15.4"\n')
    assert file_report(capsys, "ds.json")["deepspeed"] == "0.15.4"
    write("dslint.toml", 'deepspeed = "0.16.9"\n')
    assert file_report(capsys, "ds.json")["deepspeed"] == "0.16.9"
    assert file_report(capsys, "ds.json", "--isolated")["deepspeed"] not in ("0.15.4", "0.16.9")


def test_toml_is_not_loaded_without_settings() -> None:
    script = (
        "import sys; from dslint.cli import main; main(['ds.json'])\n"
        "assert not {'tomllib', 'tomli', 'dslint.rulefile'} & set(sys.modules), sys.modules.keys()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert done.returncode == 0, done.stderr


def test_a_pipe_that_is_found_is_no_settings_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dslint.toml")
    assert nearest(str(tmp_path)) is None
