"""`--verify` for real: DeepSpeed trains, fails, hangs, is killed and interrupted on CPU ranks over gloo.

Nothing here waits for a number of seconds: what has to happen first is awaited, and time limits only end
what would never end. Every launch costs a few seconds of imports in each process, so a launch checks all
that it can.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dslint.cli import main
from dslint.verify import launch as launching
from dslint.verify.launch import visible_gpus
from tests.oracle.train import extensions
from tests.verifying import HF, left_behind

ROOT = Path(__file__).parent.parent
P = 172_352
"""Parameters of the built-in small model."""
FOREVER = 1800.0
"""Seconds that no step takes, however loaded the machine."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.live,
    pytest.mark.skipif(
        any(find_spec(name) is None for name in ("torch", "deepspeed")),
        reason="torch and DeepSpeed are not installed",
    ),
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to run in; afterwards nothing of a run may be left but logs."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", extensions())
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    segments: list[Path] = []
    sweep = launching.sweep

    def swept(folder: Path) -> None:
        for path in folder.glob("rank*.jsonl"):
            begin = json.loads(path.read_text().splitlines()[0])
            prefix = f"deepspeed_allreduce_buffer_{os.getuid()}_{begin['address']}_{begin['port']}"
            segments.append(Path("/dev/shm") / f"{prefix}_{begin['rank']}")
        sweep(folder)

    monkeypatch.setattr(launching, "sweep", swept)
    yield tmp_path
    assert left_behind(temporary) == []
    assert not any(path.exists() for path in segments)


@pytest.fixture(scope="session")
def cpu_adam() -> None:
    """DeepSpeed's operator for offloaded optimizers, built before a run needs it: building takes a minute
    or two once an environment, and is no part of what is tested."""
    code = "from deepspeed.ops.op_builder import CPUAdamBuilder; CPUAdamBuilder().load(verbose=False)"
    env = {**os.environ, "DS_ACCELERATOR": "cpu", "TORCH_EXTENSIONS_DIR": extensions()}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, capture_output=True, timeout=FOREVER)


def write(config: dict[str, Any], name: str = "ds.json") -> str:
    Path(name).write_text(json.dumps(config, indent=1))
    return name


def verify(config: dict[str, Any], *flags: str, gpus: int = 2) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the files of the JSON report of a verification on CPU ranks."""
    where = ["--device", "cpu", "--gpus", str(gpus), "--timeout", str(FOREVER)]
    argv = ["--verify", *where, write(config), "--format", "json", "--output", "report.json"]
    code = main([*argv, *flags])
    return code, json.loads(Path("report.json").read_text())["files"]


def background(name: str, *flags: str) -> subprocess.Popen[str]:
    """A verification in a process of its own, which hears Ctrl-C: what a shell starts in the background
    does not, nor do its children."""
    argv = [sys.executable, "-m", "dslint", "--verify", "--device", "cpu", "--gpus", "2", *flags, name]
    return subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def training(folder: Path, process: subprocess.Popen[str]) -> None:
    """Waits until rank 0 of the run whose temporary files are in `folder` trains."""
    deadline = time.monotonic() + FOREVER
    while not any('"warm-up"' in path.read_text() for path in folder.glob("*/rank0.jsonl")):
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.1)


def codes(file: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in file["findings"]}


def trained(file: dict[str, Any]) -> dict[str, Any]:
    """What --verify says of a config that trains as dslint said it would, on two ranks."""
    found = file["verify"]
    assert found["ok"], found
    assert not codes(file) & {"DS790", "DS793", "DS794", "DS795", "DS799"}, file["findings"]
    assert found["parameters_changed"] and found["loss"] > 0 and found["tokens_per_second"] > 0
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    compared = found["compared"]
    assert len(compared) >= 3
    assert [row for row in compared if row["error"] is None or abs(row["error"]) > 0.02] == []
    return dict(found)


def tensors(file: dict[str, Any], when: str) -> dict[str, int]:
    """Bytes by item of rank 0, checked to be the same in the others."""
    ranks = [rank["tensors_bytes"][when]["host"] for rank in file["verify"]["ranks"]]
    for item in ("weights", "master", "moments", "gradients"):
        sizes = [rank.get(item, 0) for rank in ranks]
        assert max(sizes) <= 1.02 * min(sizes) + 16, (item, sizes)
    return dict(ranks[0])


def close(sizes: dict[str, int], **expected: float) -> None:
    """Bytes are as counted by hand, within 2 %: predicted and measured could be wrong alike."""
    for item, size in expected.items():
        assert sizes.get(item, 0) == pytest.approx(size, rel=0.02, abs=64), (item, sizes)


# --- configs that train, with the bytes that each item must have (P parameters, 2 ranks) --------------------


def test_every_stage_in_bf16_with_accumulation() -> None:
    zero = {"stage": 3, "stage3_param_persistence_threshold": 100, "reduce_bucket_size": 100_000}
    config = {
        "train_batch_size": 8,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
    }
    code, (file,) = verify(config, "--compare-stages", "--steps", "1")
    assert code == 0
    rows = file["compared"]["configs"]
    assert [row["name"] for row in rows] == ["stage 0", "stage 1", "stage 2", "stage 3 (the file)"]
    for stage, row in enumerate(rows):
        one = {"verify": row["summary"], "findings": row["findings"]}
        found = trained(one)
        assert found["dtype"] == "bf16" and found["model"]["accumulation"] == 2 and found["memory_gib"] > 0
        steady = tensors(one, "steady")
        part = 2 if stage else 1
        close(steady, master=4 * P / part, moments=8 * P / part, weights=2 * P / (2 if stage == 3 else 1))
        if stage == 2:
            close(tensors(one, "backward"), gradients=2 * P / 2)
        if stage == 3:
            close(steady, gradients=2 * P / 2, buckets=2 * 100_000)


def test_fp32_against_another_config_with_a_gate() -> None:
    write({"train_batch_size": 4, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}, "other.json")
    config = {"train_batch_size": 4, "gradient_clipping": 1.0}
    flags = ["--against", "other.json", "--steps", "2", "--min-throughput", "1e8", "--max-memory", "1MB"]
    code, (mine, other) = verify(config, *flags)
    assert code == 1 and {"DS797", "DS798"} <= codes(mine)
    assert trained(mine)["dtype"] == "fp32" and mine["verify"]["steps"] == 2
    close(tensors(mine, "steady"), weights=4 * P, moments=8 * P, master=0)
    trained(other)
    close(tensors(other, "steady"), weights=4 * P, moments=8 * P / 2, master=4 * P / 2)
    names = [row["name"] for row in other["compared"]["configs"]]
    assert names == ["ds.json", "other.json"] and all(r["summary"] for r in other["compared"]["configs"])


def test_as_hf_trainer_fills_it_with_the_optimizer_offloaded(cpu_adam: None) -> None:
    zero = {**HF["zero_optimization"], "offload_optimizer": {"device": "cpu"}}
    code, (file,) = verify(
        {**HF, "zero_optimization": zero}, "--steps", "2"
    )  # the first has no learning rate
    found = trained(file)
    assert code == 0 and file["trainer"] == "hf" and found["filled"]["optimizer.params.lr"] == 5e-05
    assert found["optimizer"] == "DeepSpeedCPUAdam" and found["dtype"] == "bf16"
    close(tensors(file, "steady"), weights=2 * P, moments=8 * P / 2, master=4 * P / 2)


def test_stage_3_of_a_hugging_face_config() -> None:
    pytest.importorskip("transformers")
    shape = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    Path("config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 256, **shape}))
    zero = {"stage": 3, "stage3_param_persistence_threshold": 100, "reduce_bucket_size": 100_000}
    config = {
        "train_batch_size": 4,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
    }
    code, (file,) = verify(config, "--hf-config", "config.json", "--seq-len", "32")
    p = trained(file)["model"]["parameters"]
    assert code == 0 and p == 2 * 256 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 128) + 64
    close(
        tensors(file, "steady"),
        weights=2 * p / 2,
        master=4 * p / 2,
        moments=8 * p / 2,
        gradients=2 * p / 2,
        buckets=2 * 100_000,
    )


MODULE = """
import itertools, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 1)
    def forward(self, x):
        return self.inner(x).pow(2).mean()
class Broken(Net):
    def forward(self, x):
        raise ValueError('no such luck')
def make():
    return Net(), itertools.repeat({'x': torch.ones(2, 8)})
def broken():
    return Broken(), itertools.repeat((torch.ones(2, 8),))
"""


def test_a_module_of_ones_own() -> None:
    Path("mine.py").write_text(MODULE)
    config = {"train_batch_size": 2, "zero_optimization": {"stage": 1}}
    code, (file,) = verify(config, "--module", "mine:make", gpus=1)
    assert code == 0 and file["verify"]["ok"] and file["verify"]["model"]["parameters"] == 9
    assert file["verify"]["parameters_changed"] and file["verify"]["tokens_per_second"] is None


# --- runs that do not end well; the fixture checks that nothing of them is left -----------------------------


def test_static_errors_start_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dslint.verify.command.launch", None)
    code, (file,) = verify({"train_batch_size": 4, "zero_optimization": {"stage": 7}})
    assert code == 1 and "verify" not in file


def test_a_crash_in_initialize_confirms_the_error() -> None:
    config = {
        "train_batch_size": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "beta": [0.9, 2], "torch_adam": True}},
    }
    code, (file,) = verify(config, "--force")
    failure = file["verify"]["failure"]
    assert code == 1 and not file["verify"]["ok"], file
    assert (failure["kind"], failure["phase"]) == ("crash", "initialize") and "beta" in failure["message"]
    assert failure["confirms"] in codes(file) and "DS790" not in codes(file)
    assert "Traceback" in Path(failure["log"]).read_text()


def test_a_crash_that_no_rule_foresaw() -> None:
    Path("mine.py").write_text(MODULE)
    code, (file,) = verify({"train_batch_size": 2}, "--module", "mine:broken", gpus=1)
    (finding,) = [f for f in file["findings"] if f["code"] == "DS790"]
    assert code == 1 and "ValueError: no such luck" in finding["message"] and finding["phase"] == "step"


def test_out_of_memory() -> None:
    config = {"train_batch_size": 4, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}
    code, (file,) = verify(config, "--memory-limit", "300MB")
    failure = file["verify"]["failure"]
    assert code == 1 and failure["kind"] == "memory" and "DS791" in codes(file), failure
    assert failure["phase"] == "initialize", "the gigabyte of reduce bucket is allocated there"
    assert "reduce_bucket_size" in file["verify"]["advice"][0]


def test_a_killed_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSLINT_VERIFY_FAULT", "kill 1 step")
    code, (file,) = verify({"train_batch_size": 4, "zero_optimization": {"stage": 1}})
    failure = file["verify"]["failure"]
    assert code == 1 and "DS792" in codes(file), failure
    assert (failure["kind"], failure["rank"], failure["phase"]) == ("killed", 1, "step")


def test_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout begins to count when rank 0, whose step needs nobody without clipping, is a step ahead."""
    monkeypatch.setenv("DSLINT_VERIFY_FAULT", "hang 1 warm-up")
    watch = launching.watch

    def patient(process: Any, folder: Path, *more: Any) -> Any:
        told = folder / "rank0.jsonl"
        while not told.exists() or '"phase": "step"' not in told.read_text():
            assert process.poll() is None
            time.sleep(0.1)
        return watch(process, folder, *more)

    monkeypatch.setattr(launching, "watch", patient)
    config = {"train_batch_size": 4, "gradient_clipping": 0.0}
    code, (file,) = verify(config, "--timeout", "2")
    failure = file["verify"]["failure"]
    assert code == 1 and "DS792" in codes(file), failure
    assert (failure["kind"], failure["rank"], failure["phase"]) == ("hang", 1, "warm-up")
    assert "not finished after 2 s" in failure["message"]


def test_a_request_that_cannot_be_met(capsys: pytest.CaptureFixture[str]) -> None:
    code, (file,) = verify({"train_batch_size": 4}, "--module", "nowhere:make", gpus=1)
    assert code == 2 and file["verify"]["failure"]["kind"] == "cannot"
    assert "could not verify: --module nowhere:make: No module named 'nowhere'" in capsys.readouterr().err
    if not visible_gpus(os.environ):
        assert main(["--verify", "--device", "cuda", "--gpus", "4", "ds.json"]) == 2
        assert "4 GPUs asked, 0 visible" in capsys.readouterr().err


def test_two_at_the_same_time_and_one_is_interrupted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends one of two verifications, with all that it started; the other trains on."""
    (place / "u").mkdir()
    monkeypatch.setenv("TMPDIR", str(place / "u"))
    ends = background(write({"train_batch_size": 4, "zero_optimization": {"stage": 1}}, "1.json"))
    monkeypatch.setenv("TMPDIR", str(place / "t"))
    endless = background(write({"train_batch_size": 4}), "--steps", "100000")
    training(place / "t", endless)
    endless.send_signal(signal.SIGINT)
    _, err = endless.communicate(timeout=FOREVER)
    assert endless.returncode == 2 and err == "dslint: interrupted\n"
    assert left_behind(place / "t") == []
    out, err = ends.communicate(timeout=FOREVER)
    assert ends.returncode == 0 and "it trains on 2 CPU processes" in out, err
    assert left_behind(place / "u") == []


def test_the_end_of_dslint_itself_ends_its_ranks(place: Path) -> None:
    """Killed, it has no chance to clean up: the ranks notice, and only its temporary files stay."""
    process = background(write({"train_batch_size": 4}), "--steps", "100000")
    training(place / "t", process)
    process.kill()
    process.communicate(timeout=FOREVER)
    deadline = time.monotonic() + FOREVER
    while running(place / "t"):
        assert time.monotonic() < deadline, running(place / "t")
        time.sleep(0.1)
    for folder in (place / "t").iterdir():
        shutil.rmtree(folder)


def running(folder: Path) -> list[str]:
    """What of a run is left besides files."""
    return [left for left in left_behind(folder) if not (folder / left).exists()]


# --- ranks that somebody else has started, and DeepSpeed's launcher for several nodes -----------------------


def test_inside_torchrun(place: Path) -> None:
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    argv += ["--log-dir", str(place / "logs"), "-m", "dslint", "--verify", "--device", "cpu"]
    argv += ["--format", "json", write({"train_batch_size": 4})]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=FOREVER)
    assert done.returncode == 0, done.stderr
    report = done.stdout[done.stdout.index('{"dslint"') :]
    file = json.JSONDecoder().raw_decode(report)[0]["files"][0]
    assert file["gpus"] == 2 and [rank["rank"] for rank in file["verify"]["ranks"]] == [0, 1]


def test_two_nodes_of_a_hostfile(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pdsh and ssh are stand-ins that run on this machine; everything else is DeepSpeed's launcher."""
    programs = place / "bin"
    programs.mkdir()
    (programs / "ssh").write_text("#!/bin/sh\necho localhost\n")
    (programs / "pdsh").write_text(PDSH.replace("PYTHON", sys.executable))
    for path in programs.iterdir():
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    Path("hosts").write_text("127.0.0.1 slots=1\nlocalhost slots=1\n")
    code, (file,) = verify({"train_batch_size": 4}, "--hostfile", "hosts")
    assert code == 0, file
    assert [rank["rank"] for rank in file["verify"]["ranks"]] == [0, 1]


PDSH = """#!PYTHON
import os, subprocess, sys
hosts = sys.argv[sys.argv.index("-w") + 1].split(",")
command = " ".join(sys.argv[sys.argv.index("-w") + 2:])
running = [subprocess.Popen(["sh", "-c", command.replace("%n", str(i))]) for i, _ in enumerate(hosts)]
sys.exit(max(process.wait() for process in running))
"""
