"""Releases: which one is judged for, what the history of a key tells, and what an upgrade changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dslint.cli import main
from dslint.finding import Finding
from dslint.history import story
from dslint.lint import Options, lint
from dslint.repository import asked_release, demands
from dslint.rules import load
from dslint.schema import index
from dslint.upgrade import upgrade

NEWEST = list(index())[-1]
RULES = load()


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    code = main(args)
    out, err = capsys.readouterr()
    return code, out + err


# The release a repository asks for


@pytest.mark.parametrize(
    "line, expected",
    [
        ("deepspeed==0.16.4", "0.16.4"),
        ("deepspeed==0.16.4 \\\n    --hash=sha256:0f", "0.16.4"),
        ("deepspeed[autotuning,dev]==0.15.1; python_version > '3.8'", "0.15.1"),
        ("deepspeed==0.16.4+cu121", "0.16.4"),
        ("deepspeed>=0.15,<0.17", ">=0.15, <0.17"),
        ("deepspeed (>=0.14.4)", ">=0.14.4"),
        ("deepspeed~=0.16.3", ">=0.16.3, <0.17"),
        ("deepspeed==0.16.*", ">=0.16, <0.17"),
        ("deepspeed @ git+https://github.com/deepspeedai/DeepSpeed.git@v0.16.4", "0.16.4"),
        ("git+https://github.com/microsoft/DeepSpeed@v0.14.0#egg=deepspeed", "0.14.0"),
        ('dependencies = ["torch", "deepspeed==0.16.4", "deepspeed-kernels==0.0.1"]', "0.16.4"),
        ('deepspeed = "^0.15.4"', ">=0.15.4, <0.16"),
        ('deepspeed = {version = "0.16.4", extras = ["dev"]}', "0.16.4"),
        ("  - deepspeed=0.16.4", "0.16.4"),
        ("  - deepspeed=0.16", ">=0.16, <0.17"),
        ("  - conda-forge::deepspeed=0.15.4=py310_0", "0.15.4"),
        ("# deepspeed==0.16.4", None),
        ("deepspeed", None),
        ("my-deepspeed==2.0", None),
        ("deepspeed_kernels==1.0", None),
        ('keywords = ["deepspeed", "0.1.1"]', None),
        ("torch==2.7  # with deepspeed==0.16.4", None),
    ],
)
def test_demand_of_a_line(line: str, expected: str | None) -> None:
    assert next(demands(line), None) == expected


LOCK = '[[package]]\nname = "{}"\nversion = "{}"\n'


@pytest.mark.parametrize(
    "files, release, reason",
    [
        ({"requirements.txt": "deepspeed==0.14.4"}, "0.14.4", "pinned in requirements.txt"),
        ({"requirements/train.txt": "deepspeed==0.14.4"}, "0.14.4", "pinned in requirements/train.txt"),
        ({"environment.yml": "dependencies:\n  - deepspeed=0.15.4"}, "0.15.4", "pinned in environment.yml"),
        (
            {"uv.lock": LOCK.format("deepspeed", "0.17.2"), "pyproject.toml": '"deepspeed==0.14.4"'},
            "0.17.2",
            "locked in uv.lock",
        ),
        (
            {"poetry.lock": LOCK.format("deepspeed-kernels", "0.1"), "requirements.txt": "deepspeed>=0.15,<0.17"},
            "0.16.9",
            "the newest that requirements.txt allows",
        ),
        ({"Pipfile.lock": '{"deepspeed": {"hashes": [], "version": "==0.16.3"}}'}, "0.16.3", "locked in Pipfile.lock"),
        ({"requirements.txt": "torch==2.7"}, NEWEST, "newest known"),
    ],
)  # fmt: skip
def test_release_of_a_repository(
    files: dict[str, str], release: str, reason: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("dslint.settle.installed_release", lambda folders: None)
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "configs"
    inner.mkdir()
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (inner / "ds.json").write_text('{"train_batch_size": 8}', encoding="utf-8")
    monkeypatch.chdir(inner)
    said = json.loads(run(capsys, "--format", "json", "ds.json")[1])["files"][0]
    assert (said["deepspeed"], said["deepspeed_reason"]) == (release, reason)


def test_a_nearer_file_counts_and_the_search_ends_at_the_repository(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "a"
    inner.mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("deepspeed==0.10.0", encoding="utf-8")
    (tmp_path / "repo" / ".git").mkdir()
    assert asked_release(str(inner)) is None
    (tmp_path / "repo" / "requirements.txt").write_text("deepspeed==0.11.0", encoding="utf-8")
    (inner / "requirements.txt").write_text("deepspeed==0.12.0", encoding="utf-8")
    assert asked_release(str(inner)) == ("0.12.0", "pinned in requirements.txt")


# What is asked for on the command line


@pytest.mark.parametrize(
    "args, said",
    [
        (["--deepspeed", "0.19.8.."], "half a range"),
        (["--deepspeed", "0.16.4..0.14.4"], "write the older release first"),
        (["--deepspeed", "0.8.3"], "before 0.9.0 are not known"),
        (["--upgrade-from", "99.0", "--deepspeed", "0.19.8"], "99.0 is not older than 0.19.8"),
        (["--upgrade-from", "0.16.4", "--deepspeed", "0.16.4"], "0.16.4 is not older than 0.16.4"),
        (["--explain", ""], 'no rule and no key is called ""'),
        (["--explain", "zero_optimization.reduce_bucket_sise"], "did you mean zero_optimization.reduce_bucket_size?"),
    ],
)  # fmt: skip
def test_refused_in_one_line(
    args: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ds.json"
    path.write_text('{"train_batch_size": 8}', encoding="utf-8")
    code, text = run(capsys, *args, str(path))
    assert (code, text.count("\n")) == (2, 1) and said in text


def test_a_release_newer_than_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ds.json"
    config = {"train_batch_size": 8, "next_year": 1, "zero_optimization": {"stage": 1, "next_year": 1}}
    path.write_text(json.dumps(config), encoding="utf-8")
    code, text = run(capsys, "--deepspeed", "0.25.0", str(path))
    assert code == 0 and f"newer than {NEWEST}" in text and "next_year" not in text
    assert run(capsys, "--deepspeed", NEWEST, str(path))[0] == 1


# History


def test_findings_tell_the_history() -> None:
    config = b'{"train_batch_size": 8, "aio": {"intra_op_parallelism": 4}}'
    found = lint(config, "ds.json", Options("0.15.2", trainer="raw"), RULES).findings
    (finding,) = (f for f in found if f.name == "key-of-another-release")
    assert finding.message == (
        "aio.intra_op_parallelism exists since DeepSpeed 0.16.4; before that it is called aio.thread_count; "
        "DeepSpeed 0.15.2 drops it without a word"
    )
    assert finding.cure == "write it as aio.thread_count"


def test_a_key_of_another_release_is_as_if_absent() -> None:
    """Only that it is not read is said of it; rules about it are silent."""
    config = b'{"train_batch_size": 8, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}'
    codes = {
        release: {f.code for f in lint(config, "x", Options(release, trainer="raw"), RULES).findings}
        for release in ("0.16.9", NEWEST)
    }
    assert "DS191" in codes["0.16.9"] and "DS303" not in codes["0.16.9"]
    assert "DS303" in codes[NEWEST]


@pytest.mark.parametrize(
    "word, lines",
    [
        ("zero_optimization.pin_memory", ["default: true", "  0.19.5: default false became true", "  DS516 "]),
        ("aio.thread_count", ["does not read this key: it drops it", "  until 0.16.3, then aio.intra_op_parallelism"]),
        ("nebula", ["raises where this key is given", "  until 0.19.6"]),
        ("optimizer.params.lr", ["taken by: adagrad (default 0.01)"]),
        ("fp16.initial_scale_power", ["null is refused, array is refused", "(DeepSpeed <0.17.1)"]),
    ],
)  # fmt: skip
def test_page_of_a_key(word: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, page = run(capsys, "--deepspeed", "0.19.8", "--explain", word)
    assert code == 0
    for line in lines:
        assert line in page


def test_story_of_a_rename() -> None:
    old, new = story("aio.thread_count"), story("aio.intra_op_parallelism")
    assert old is not None and new is not None
    assert (old.instead("0.19.8"), new.instead("0.15.2")) == ("aio.intra_op_parallelism", "aio.thread_count")
    assert old.elsewhere("0.15.2") == "" == new.elsewhere("0.19.8")


# Upgrades


def changes(config: object, old: str, new: str) -> list[Finding]:
    raw = json.dumps(config).encode()
    return upgrade(raw, "ds.json", Options(new, trainer="raw"), RULES, old).findings


def moved(config: object, old: str, new: str) -> dict[str, str]:
    return {f.key: f.message.partition("changed ")[2] for f in changes(config, old, new) if f.code == "DS190"}


QUIET = {"train_batch_size": 8, "gradient_clipping": 1.0, "steps_per_print": 10}


def test_upgrade_tells_crashes_ignored_keys_and_moved_defaults() -> None:
    config = {
        "train_batch_size": 8,
        "aio": {"thread_count": 4},
        "fp16": {"enabled": True, "comment": "x"},
        "nebula": {"enabled": False},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}, "reduce_bucket_size": 0},
    }
    found = changes(config, "0.14.4", "0.19.8")
    assert {(f.code, f.key) for f in found} == {
        ("DS190", "gradient_clipping"),
        ("DS190", "steps_per_print"),
        ("DS190", "zero_optimization.offload_param.pin_memory"),
        ("DS191", "aio.thread_count"),
        ("DS106", "zero_optimization.reduce_bucket_size"),
        ("DS101", "fp16.comment"),
        ("DS108", "nebula"),
    }
    (clipping,) = (f for f in found if f.key == "gradient_clipping")
    assert clipping.cure == 'add "gradient_clipping": 0 to the top level to keep the old behaviour'


def test_upgrade_is_silent_where_nothing_changes() -> None:
    assert changes(QUIET, "0.14.4", "0.19.8") == []
    assert changes({"train_batch_size": 8}, "0.17.2", "0.19.2") == []


def test_moved_defaults_of_sections_in_use_only() -> None:
    for device, keys in (("none", set()), ("cpu", {"zero_optimization.offload_optimizer.pin_memory"})):
        zero = {"stage": 2, "offload_optimizer": {"device": device}}
        assert set(moved({**QUIET, "zero_optimization": zero}, "0.19.4", "0.19.5")) == keys


def test_moved_defaults_of_a_scheduler() -> None:
    config = {**QUIET, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}}
    assert moved(config, "0.17.1", "0.17.2") == {
        "scheduler.params.warmup_max_lr": "from 0.001 in 0.17.1 to null in 0.17.2"
    }
    config["scheduler"]["params"]["warmup_max_lr"] = 0.01
    assert moved(config, "0.17.1", "0.17.2") == {}


# Both sides of a change

BOUNDARIES = Path(__file__).with_name("boundaries.jsonl")
"""What DeepSpeedConfig did on one rank ("ok" or the exception), in the releases on both sides of a change."""


@pytest.mark.parametrize("line", BOUNDARIES.read_text(encoding="utf-8").splitlines())
def test_rules_hold_in_their_releases(line: str) -> None:
    case = json.loads(line)
    raw = json.dumps(case["config"]).encode()
    for release, verdict in case["verdicts"].items():
        found = lint(raw, "ds.json", Options(release, trainer="raw", gpus=1), RULES).findings
        errors = [f.message for f in found if f.severity == "error" and f.phase in ("load", "config")]
        assert bool(errors) == (verdict != "ok"), (release, verdict, errors)


TRAINED = Path(__file__).with_name("bounds.jsonl")
"""What deepspeed.initialize and two steps did with a dict on CPU ranks: "ok", or the phase and the exception,
in the releases on both sides of each change. DeepSpeed's compiled CPU operators were stand-ins."""


@pytest.mark.parametrize("line", TRAINED.read_text(encoding="utf-8").splitlines())
def test_errors_hold_in_their_releases(line: str) -> None:
    case = json.loads(line)
    raw = json.dumps(case["config"]).encode()
    for release, outcome in case["verdicts"].items():
        found = lint(raw, "ds.json", Options(release, trainer="raw", gpus=case.get("gpus", 1)), RULES).findings
        crashes = ("load", "config", "initialize", "step")
        errors = [f.message for f in found if f.severity == "error" and f.phase in crashes]
        assert bool(errors) == (outcome != "ok"), (release, outcome, errors)
