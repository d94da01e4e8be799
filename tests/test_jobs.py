"""--jobs: several processes say and write what one does, lose no error and end when told to."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from dslint import processes
from dslint.arguments import arguments, jobs
from dslint.cli import main
from dslint.errors import UsageError
from dslint.finding import FileReport
from dslint.inputs import Work
from dslint.publish import settle
from dslint.settle import Settling

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "tests" / "samples" / "ds_config.json"
BAD = '{"train_batch_size": 8, "zero_optimization": {"stage": %d, "cpu_offload": true}}'


@pytest.fixture(autouse=True)
def configs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository: many configs, one that cannot be read, two whose run is known, suppressions, settings."""
    for name in ("GITHUB_ACTIONS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "configs"
    folder.mkdir()
    for i in range(12):
        (folder / f"ds_{i:02}.json").write_text(BAD % (i % 5), encoding="utf-8")
    shutil.copy(SAMPLE, folder / "ds_config.json")
    (folder / "ds_deep.json").write_text('{"zero_optimization": ' + '{"a": ' * 900 + "1" + "}" * 901)
    (folder / "ds_cut.json").write_text('{"zero_optimization": ')
    (folder / "ds_quiet.json").write_text(
        '{"train_batch_size": 8, "my_key": 1, "dslint": {"ignore": {"DS104": "ours"}}}'
    )
    (folder / "accelerate.yaml").write_text(
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds_01.json\nnum_processes: 4\n"
    )
    (folder / "train.sh").write_text(
        "deepspeed --num_gpus 8 train.py --deepspeed ds_02.json --fp16 $OPTIONS\n"
    )
    (tmp_path / "dslint.toml").write_text('[[files]]\nmatch = ["ds_03.json"]\ngpus = 3\nignore = ["DS107"]\n')
    return folder


def said(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    out, err = capfd.readouterr()
    return code, out, err


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FLAGS = [
    [],
    ["--format", "json"],
    ["--format", "sarif", "--output", "junit=junit.xml"],
    ["--diff"],
    ["--deepspeed", "0.19.7..0.19.8"],
    ["--upgrade-from", "0.16.9"],
    ["--baseline", "base.json"],
    ["--write-baseline", "new.json"],
    ["--model", "llama-7b", "--gpus", "8", "--gpu-type", "a100-80gb", "--estimate"],
    ["configs/ds_00.json", "nowhere.json"],
    ["--upgrade-from", "0.19.8", "--deepspeed", "0.16.9"],
]


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_several_processes_say_what_one_says(
    capfd: pytest.CaptureFixture[str], configs: Path, flags: list[str]
) -> None:
    main(["configs/ds_00.json", "configs/ds_quiet.json", "--write-baseline", "base.json"])
    capfd.readouterr()
    kept = [(said(capfd, "configs", *flags, "--jobs", count), files_below(Path())) for count in ("1", "3")]
    assert kept[0] == kept[1]
    assert kept[0][0][0] in (1, 2) or "--write-baseline" in flags


def test_processes_that_begin_afresh_say_the_same(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = said(capfd, "configs", "--gpus", "2", "--format", "json")
    monkeypatch.setattr(processes, "START", "spawn")
    assert said(capfd, "configs", "--gpus", "2", "--format", "json", "-j", "2") == one


@pytest.mark.parametrize("flags", [[], ["--unsafe-fixes"], ["--select", "DS1"]], ids=" ".join)
def test_several_processes_fix_what_one_fixes(
    capfd: pytest.CaptureFixture[str], configs: Path, flags: list[str]
) -> None:
    before = files_below(configs)
    kept = []
    for count in ("1", "3"):
        for path, raw in before.items():
            path.write_bytes(raw)
        kept.append((said(capfd, "configs", "--fix", *flags, f"-j{count}"), files_below(configs)))
    assert kept[0] == kept[1]
    assert kept[0][1] != before


def settling(*argv: str) -> Settling:
    parser = arguments()
    args = parser.parsed(argv)
    settle(args)
    return Settling(args, parser.by_flag)


def killed(settled: Settling, one: Work) -> FileReport:
    os._exit(9)


def broken(settled: Settling, one: Work) -> FileReport:
    raise LookupError(one[0])


def work_of(settled: Settling, names: Iterable[str]) -> list[Work]:
    return [(name, b"{}", [settled.of(name).options]) for name in names]


def test_a_process_that_is_killed_is_told_about() -> None:
    settled = settling("-j2")
    with pytest.raises(UsageError, match="a process of --jobs was killed"):
        list(processes.spread(killed, work_of(settled, "abc"), settled))


def test_what_another_process_raises_is_raised_here() -> None:
    settled = settling("-j2")
    with pytest.raises(LookupError, match="a"):
        list(processes.spread(broken, work_of(settled, "abc"), settled))


@pytest.mark.parametrize("text, count", [("1", 1), ("0", 0), ("auto", 0), ("16", 16)])
def test_what_jobs_takes(text: str, count: int) -> None:
    assert jobs(text) == count


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "", "99999", "²"])
def test_what_jobs_does_not_take(capfd: pytest.CaptureFixture[str], text: str) -> None:
    code, _, err = said(capfd, f"--jobs={text}")
    assert code == 2
    assert err == f"dslint: argument -j/--jobs: {text!r} is not a number of processes (0 to 9999) or auto\n"


@pytest.mark.parametrize(
    "quota, most", [("max 100000\n", 10**6), ("150000 100000\n", 2), ("10000 100000\n", 1), ("", 10**6)]
)
def test_auto_minds_the_quota_of_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quota: str, most: int
) -> None:
    file = tmp_path / "cpu.max"
    if quota:
        file.write_text(quota)
    monkeypatch.setattr(processes, "QUOTA", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert processes.cpus() == min(64, most)


def test_auto_starts_no_process_for_a_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cpus", lambda: 64)
    monkeypatch.setattr(processes, "ProcessPoolExecutor", None)
    assert main(["configs", "--jobs", "auto"]) == 1


def test_one_process_imports_nothing_of_several() -> None:
    told = "import sys, dslint.cli as cli; cli.main(['configs']); print('multiprocessing' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_in_one_line(configs: Path) -> None:
    run = two_processes(configs)
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (2, "", "dslint: interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_when_the_first_process_is_killed_the_others_end(configs: Path, sent: signal.Signals) -> None:
    run = two_processes(configs)
    run.send_signal(sent)
    try:
        run.communicate(timeout=20)  # until nobody holds its pipes
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == -sent


def two_processes(configs: Path) -> subprocess.Popen[str]:
    """A run whose processes are at work."""
    for i in range(12, 300):
        shutil.copy(configs / "ds_01.json", configs / f"ds_{i}.json")
    command = [sys.executable, "-m", "dslint", "configs", "--deepspeed", "0.9.0..0.19.8", "-j2"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
    deadline = time.monotonic() + 60
    while len(list(children(run.pid))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    return run


def children(pid: int) -> Iterable[str]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return done.stdout.split()
