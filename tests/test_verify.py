"""`--verify`: what is asked, filled, started and said, without DeepSpeed; test_verify_runs.py has real runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from argparse import ArgumentTypeError
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslint.cli import main
from dslint.lint import Options, configure
from dslint.rules import load
from dslint.schema import newest
from dslint.verify import launch as launching
from dslint.verify import text
from dslint.verify.arguments import size
from dslint.verify.command import finite, hostfile_slots, with_stage
from dslint.verify.compare import GIB, Gates, Judge, differences, summarize
from dslint.verify.diagnose import Failure, diagnose, innermost, shortened
from dslint.verify.fill import Arguments, fill, fill_hidden, for_cpu, quiet
from dslint.verify.launch import Outcome, Place, find_job, first_node, launch, visible_gpus
from dslint.verify.plan import MARK, Plan, Shape, read
from dslint.verify.spans import merged, shares
from tests.verifying import AUTO, HF, left_behind

ROOT = Path(__file__).parent.parent
LIVE = all(find_spec(name) is not None for name in ("torch", "deepspeed"))


# --- what is asked ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text_, bytes_",
    [
        ("70GB", 70 << 30),
        ("1.5 TiB", 3 << 39),
        ("300mb", 300 << 20),
        ("4096", 4096),
        ("8k", 8192),
        ("2G", 2 << 30),
    ],
)
def test_sizes(text_: str, bytes_: int) -> None:
    assert size(text_) == bytes_


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_refused(text_: str) -> None:
    with contextlib.suppress(ArgumentTypeError):
        assert size(text_) > 0


@pytest.mark.parametrize(
    "argv, says",
    [
        (["--steps", "3"], "--steps needs --verify"),
        (["--hf-config", "x"], "--hf-config needs --verify"),
        (["--verify", "--steps", "0"], "not a whole number"),
        (["--verify", "--timeout", "-1"], "not a number of seconds"),
        (["--verify", "--max-memory", "much"], "not a size such as 70GB"),
        (["--verify", "--device", "tpu"], "invalid choice: 'tpu'"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], argv: list[str], says: str) -> None:
    assert main([*argv, "ds.json"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1


@pytest.mark.skipif(LIVE, reason="torch and DeepSpeed are installed")
def test_without_the_extra_one_line_says_how_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--verify", str(ROOT / "tests/samples/ds_config.json")]) == 2
    assert "pip install 'deepspeed-lint[verify]'" in capsys.readouterr().err


def test_the_install_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dslint.verify.command.find_spec", lambda name: None)
    assert main(["--verify", str(ROOT / "tests/samples/ds_config.json")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "torch is not installed: pip install 'deepspeed-lint[verify]'" in err


def test_lint_imports_nothing_that_only_verify_needs() -> None:
    code = (
        "import sys; from dslint.cli import main;"
        "main(['tests/samples/ds_config.json', '--output', '/dev/null']);"
        "print(sorted(m for m in sys.modules if m.startswith(('dslint.verify', 'torch', 'subprocess'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "['dslint.verify', 'dslint.verify.arguments']"


# --- where it runs ------------------------------------------------------------------------------------------


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
SLURM = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "8", "SLURM_JOB_ID": "77"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}


def test_a_job_is_found_by_its_launchers_variables() -> None:
    assert find_job({}) is None
    assert find_job({"RANK": "1"}) is None
    assert find_job(TORCHRUN) == Place(4, 1)
    slurm = find_job({**SLURM, "SLURM_STEP_NODELIST": "gpu[003-004],x"})
    assert slurm is not None and (slurm.ranks, slurm.rank) == (8, 3)
    assert slurm.environment["MASTER_ADDR"] == "gpu003" and slurm.environment["LOCAL_RANK"] == "1"
    assert 20000 <= int(slurm.environment["MASTER_PORT"]) < 40000
    assert find_job({**SLURM, "SLURM_STEP_NUM_TASKS": "1"}) is None, "one task launches ranks of its own"
    mpi = find_job({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert mpi is not None and mpi.environment["MASTER_ADDR"] == "localhost"
    spread = find_job({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"})
    assert spread is not None and spread.environment == {}, "DeepSpeed asks MPI for the address"


def test_two_slurm_jobs_on_one_node_do_not_meet() -> None:
    first, second = (find_job({**SLURM, "SLURM_JOB_ID": job}) for job in ("77", "78"))
    assert first is not None and second is not None
    assert first.environment["MASTER_PORT"] != second.environment["MASTER_PORT"]


@pytest.mark.parametrize(
    "nodes, first",
    [("", ""), ("n1", "n1"), ("n1,n2", "n1"), ("n[01-04,7]", "n01"), ("a[3]b,c", "a3b"), ("x-[9,10]", "x-9")],
)
def test_first_node(nodes: str, first: str) -> None:
    assert first_node(nodes) == first


def test_visible_gpus(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "null"):
        (tmp_path / name).touch()
    assert visible_gpus({}, tmp_path) == 2
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1"}, tmp_path) == 1
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == 0
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "-1"}, tmp_path) == 0
    assert visible_gpus({}, tmp_path / "missing") == 0


def test_hostfile(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# two nodes\nn1 slots=4\n\nn2 slots=4 # slow\n")
    assert hostfile_slots(path) == 8
    for content, says in (
        ("", "names no host"),
        ("n1\n", "has no slots=N"),
        ("n1 slots=x\n", "has no slots=N"),
    ):
        path.write_text(content)
        with pytest.raises(Exception, match=says):
            hostfile_slots(path)


def test_a_plan_reaches_the_worker_whole(tmp_path: Path) -> None:
    plan = Plan(config={"a": [1, "\u2028"]}, shape=Shape(hidden=8), fill_hidden=("x",), steps=3)
    plan.write(tmp_path / "plan.json")
    assert read(str(tmp_path / "plan.json")) == plan
    assert read(plan.encode()) == plan


# --- what is trained ----------------------------------------------------------------------------------------


def test_auto_is_filled_as_hf_trainer_fills_it() -> None:
    filled = fill(HF, "hf", Arguments(ranks=2, micro_batch=3, accumulation=4))
    config = filled.config
    assert config["train_batch_size"] == 24 and config["train_micro_batch_size_per_gpu"] == 3
    assert config["optimizer"]["params"] == {
        "lr": 5e-5,
        "betas": [0.9, 0.999],
        "eps": 1e-8,
        "weight_decay": 0.0,
    }
    assert config["bf16"] == {"enabled": True} and config["fp16"] == {"enabled": False}
    assert config["scheduler"]["params"]["warmup_num_steps"] == 1
    assert set(filled.hidden) == {
        "zero_optimization.reduce_bucket_size",
        "zero_optimization.stage3_prefetch_bucket_size",
        "zero_optimization.stage3_param_persistence_threshold",
    }
    assert all(change.filled and change.why for change in filled.changes)
    assert HF["train_batch_size"] == AUTO, "the file's data is left alone"


@pytest.mark.parametrize(
    "train, micro, steps, expected",
    [
        (AUTO, AUTO, AUTO, (2, 1, 1)),
        (AUTO, AUTO, 4, (8, 1, 4)),
        (AUTO, 3, AUTO, (6, 3, 1)),
        (16, AUTO, AUTO, (16, 8, 1)),
        (16, AUTO, 2, (16, 4, 2)),
        (16, 2, AUTO, (16, 2, 4)),
    ],
)
def test_filled_batches_agree_with_what_the_file_says(
    train: Any, micro: Any, steps: Any, expected: Any
) -> None:
    keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    config = dict(zip(keys, (train, micro, steps), strict=True))
    filled = fill(config, "hf", Arguments(ranks=2)).config
    assert tuple(filled[key] for key in keys) == expected


def test_hidden_size_fills_the_keys_of_stage_3_only_there() -> None:
    names = fill(HF, "hf", Arguments()).hidden
    for stage, prefetch in ((2, AUTO), (3, 90)):
        config = {"zero_optimization": {**HF["zero_optimization"], "stage": stage}}  # type: ignore[dict-item]
        fill_hidden(config, names, 10, "hf")
        assert config["zero_optimization"]["reduce_bucket_size"] == 100
        assert config["zero_optimization"]["stage3_prefetch_bucket_size"] == prefetch


def test_raw_deepspeed_fills_nothing() -> None:
    filled = fill(HF, "raw", Arguments())
    assert filled.config == HF and not filled.changes and not filled.hidden


def test_what_the_run_is_known_to_pass_wins() -> None:
    filled = fill(HF, "hf", Arguments(), known=lambda path: 3e-4 if path[-1] == "lr" else _unknown())
    assert filled.config["optimizer"]["params"]["lr"] == 3e-4
    assert filled.config["gradient_clipping"] == 1.0


def test_what_a_trainer_adds_is_added_where_it_is_known() -> None:
    known = {("bf16", "enabled"): True, ("fp16", "enabled"): False}
    config = {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    filled = fill(config, "accelerate", Arguments(), known=lambda path: known.get(path, _unknown()))
    assert filled.config == {**config, "gradient_accumulation_steps": 1, "bf16": {"enabled": True}}
    assert "bf16" not in fill(config, "accelerate", Arguments()).config, "the run does not say its precision"
    lightning = fill({"zero_optimization": {"stage": 2}}, "lightning", Arguments()).config
    assert lightning["train_micro_batch_size_per_gpu"] == 1 and lightning["gradient_clipping"] == 0.0


def _unknown() -> Any:
    from dslint.expression import UNKNOWN

    return UNKNOWN


def test_cpu_replaces_what_only_cuda_has() -> None:
    config = {
        "optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-3, "freeze_step": 9}},
        "zero_optimization": {
            "stage": 3,
            "offload_param": {"device": "nvme", "nvme_path": "/n", "pin_memory": True},
            "zero_quantized_weights": True,
        },
        "fp16": {"enabled": True},
    }
    out, changes = for_cpu(config, (0, 16, 4))
    assert out["optimizer"] == {"type": "AdamW", "params": {"lr": 1e-3}}
    assert out["zero_optimization"]["offload_param"] == {"device": "cpu", "pin_memory": True}
    assert out["zero_optimization"]["zero_quantized_weights"] is False
    assert out["fp16"] == {"enabled": True}, "fp16 runs on the CPU as fp16"
    assert [c.path for c in changes] == [
        "optimizer.type",
        "zero_optimization.offload_param.device",
        "zero_optimization.zero_quantized_weights",
    ]
    assert for_cpu(config, (0, 19, 8))[0]["optimizer"] == config["optimizer"], "removed there: it must fail"
    lion: dict[str, Any] = {"optimizer": {"type": "Lion"}}
    assert for_cpu(lion, (0, 19, 8))[0]["optimizer"]["type"] == "AdamW"
    lion["zero_optimization"] = {"stage": 2, "offload_optimizer": {"device": "cpu"}}
    assert for_cpu(lion, (0, 19, 8))[0] == lion, "DeepSpeed has Lion for the CPU"
    lamb: dict[str, Any] = {"optimizer": {"type": "Lamb", "params": {"lr": 1e-3, "max_coeff": 5}}}
    assert for_cpu(lamb, (0, 19, 8))[0]["optimizer"] == {"type": "RAdam", "params": {"lr": 1e-3}}
    lamb |= {"zero_optimization": lion["zero_optimization"], "zero_allow_untested_optimizer": True}
    assert for_cpu(lamb, (0, 19, 8))[0] == lamb, "no Lamb exists for the CPU: it has to fail"
    homeless = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}}
    assert for_cpu(homeless, (0, 19, 8))[0] == homeless, "without nvme_path it has to fail"
    assert for_cpu({"optimizer": {"type": "AdamW"}}, (0, 19, 8)) == ({"optimizer": {"type": "AdamW"}}, [])


def test_a_verification_writes_into_nobodys_dashboard() -> None:
    out, changes = quiet(
        {"wandb": {"enabled": True}, "tensorboard": {"enabled": False}, "train_batch_size": 1}
    )
    assert out == {"tensorboard": {"enabled": False}, "train_batch_size": 1}
    assert [c.path for c in changes] == ["wandb"]


def test_another_stage_drops_the_offloads_it_does_not_have() -> None:
    config = {
        "zero_optimization": {
            "stage": 3,
            "offload_param": {"device": "cpu"},
            "offload_optimizer": {"device": "cpu"},
        }
    }
    assert with_stage(config, 2)["zero_optimization"] == {"stage": 2, "offload_optimizer": {"device": "cpu"}}
    assert with_stage(config, 0)["zero_optimization"] == {"stage": 0}
    assert with_stage({}, 1) == {"zero_optimization": {"stage": 1}}
    assert finite({"steps_per_print": float("inf"), "a": [float("nan"), 1]}) == {"a": [None, 1]}


# --- why it failed ------------------------------------------------------------------------------------------


def line(event: str, rank: int = 0, at: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"event": event, "rank": rank, "time": at, **more}


def error(
    kind: str, message: str, rank: int = 0, at: float = 0.0, phase: str = "step", **more: Any
) -> dict[str, Any]:
    return line("error", rank, at, type=kind, message=message, phase=phase, frames=[], where="", **more)


def failed(*lines: dict[str, Any], ending: str = "failed", **more: Any) -> Failure:
    ranks: dict[int, list[dict[str, Any]]] = {}
    for told in lines:
        ranks.setdefault(told["rank"], []).append(told)
    return diagnose(Outcome(ending, ranks, more.pop("dead", {}), 1.0, **more), 60.0)


def test_the_first_real_error_counts_not_what_it_caused() -> None:
    failure = failed(
        error("RuntimeError", "[gloo] Connection closed by peer [127.0.0.1]:1", rank=0, at=1.0),
        error("ValueError", "bad betas\nmore", rank=1, at=2.0, phase="initialize"),
    )
    assert failure == Failure("crash", "initialize", 1, "ValueError: bad betas", "initialize")


@pytest.mark.parametrize(
    "kind, message, expected",
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB", "memory"),
        ("RuntimeError", "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried", "memory"),
        ("RuntimeError", "CUDA error: out of memory", "memory"),
        ("MemoryError", "", "memory"),
        ("RuntimeError", "Unable to JIT load the async_io op", "cannot"),
        ("ModuleNotFoundError", "No module named 'apex'", "cannot"),
        ("AssertionError", "Check batch related parameters", "crash"),
        ("TypeError", "FusedAdam.__init__() got an unexpected keyword argument 'lrr'", "crash"),
    ],
)
def test_kinds_of_errors(kind: str, message: str, expected: str) -> None:
    assert failed(error(kind, message)).kind == expected


def test_what_says_nothing_about_the_config_is_no_verdict() -> None:
    assert failed(error("Unusable", "4 GPUs asked on this node, 1 visible", cannot=True)).verdict is False
    assert failed(error("RuntimeError", "NCCL has no socket", phase="connect")).verdict is False
    nothing = failed(tail="Traceback\nOSError: no space left")
    assert nothing.kind == "cannot" and "no space left" in nothing.message


def test_a_killed_rank_is_named_although_another_complained() -> None:
    failure = failed(
        line("phase", 1, phase="step"),
        error("RuntimeError", "Connection reset by peer", rank=0, at=3.0),
        dead={1: -signal.SIGKILL},
    )
    assert (failure.kind, failure.rank, failure.phase) == ("killed", 1, "step")
    assert "ended by SIGKILL" in failure.message


def test_a_hang_shows_the_rank_that_is_behind() -> None:
    failure = failed(
        line("phase", 0, phase="step"),
        line("phase", 1, phase="warm-up"),
        ending="timeout",
        stacks={
            1: 'Stack (most recent call first):\n  File "/x/torch/nn/modules/linear.py", line 9 in forward\n'
        },
    )
    assert (failure.kind, failure.rank) == ("hang", 1)
    assert failure.message == "not finished after 60 s, last seen at modules/linear.py:9 in forward"
    waiting = '  File "/x/torch/distributed/distributed_c10d.py", line 9 in all_reduce\n'
    both = (line("phase", 0, phase="step"), line("phase", 1, phase="step"))
    assert failed(*both, ending="timeout", stacks={0: waiting}).rank == 1, "rank 0 waits for it"
    early = failed(line("phase", 0, phase="import"), ending="timeout")
    assert early.kind == "cannot", "nothing was learned about the config"


@pytest.mark.parametrize(
    "frame, words",
    [
        ("torch/utils/file_baton.py", "waited for another process to build an operator"),
        ("torch/utils/cpp_extension.py", "still building an operator"),
    ],
)
def test_a_compiler_at_work_is_no_verdict(frame: str, words: str) -> None:
    stack = f'  File "/p/subprocess.py", line 1 in communicate\n  File "/v/{frame}", line 9 in load\n'
    failure = failed(line("phase", 0, phase="initialize"), ending="timeout", stacks={0: stack})
    assert failure.kind == "cannot" and words in failure.message and failure.hint


def test_innermost_frame_is_not_our_own() -> None:
    stack = '  File "/a/dslint/verify/worker.py", line 1 in faults\n  File "/b/torch/x.py", line 2 in wait\n'
    assert innermost(stack) == "torch/x.py:2 in wait"
    assert innermost("") == ""


@pytest.mark.parametrize(
    "message, short",
    [
        ("", ""),
        ("one\ntwo", "one"),
        ("The batch is wrong:\n  8 != 4", "The batch is wrong: 8 != 4"),
        (
            "1 validation error for DeepSpeedZeroConfig\nstage\n  Input should be",
            "DeepSpeedZeroConfig: stage: Input",
        ),
        ("x" * 400, "..."),
    ],
)
def test_messages_are_cut_to_what_says_something(message: str, short: str) -> None:
    assert short in shortened(message) and len(shortened(message)) <= 300


# --- starting and ending, with a stand-in for the launcher --------------------------------------------------


STAND_IN = """
import json, os, signal, sys, time
from pathlib import Path
folder = Path(sys.argv[1]).parent
def tell(event, rank=0, **more):
    with open(folder / f"rank{rank}.jsonl", "a") as file:
        file.write(json.dumps({"event": event, "rank": rank, "time": time.time(), **more}) + "\\n")
for rank in (0, 1):
    tell("begin", rank, pid=os.getpid(), host="h", address="localhost", port="123")
"""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs a script in the launcher's place; temporary files go to tmp_path/tmp."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    stages: list[str] = []

    def run(script: str, timeout: float = 900.0, progress: Any = None) -> tuple[Outcome, list[str]]:
        path = tmp_path / "stand_in.py"
        path.write_text(STAND_IN + script)
        monkeypatch.setattr(
            launching,
            "command",
            lambda plan, place, folder: [sys.executable, str(path), str(folder / "plan.json")],
        )
        return launch(Plan(config={}), Place(2), timeout, progress or stages.append), stages

    return run


def test_results_of_every_rank_come_back_and_nothing_stays(stand_in: Any, tmp_path: Path) -> None:
    outcome, stages = stand_in(
        "tell('phase', phase='build', detail='')\ntime.sleep(0.3)\n"
        "for rank in (0, 1): tell('result', rank, value=rank)\n"
    )
    assert outcome.ending == "done" and [r["value"] for r in outcome.results().values()] == [0, 1]
    assert "building the model" in stages and outcome.log == ""
    assert left_behind(tmp_path / "tmp") == [] and list((tmp_path / "tmp").iterdir()) == []


def test_a_rank_without_a_result_is_a_failure(stand_in: Any) -> None:
    outcome, _ = stand_in("tell('result', 0)\nprint('some chatter')\n")
    assert outcome.ending == "failed" and outcome.tail == "some chatter"
    assert "some chatter" in Path(outcome.log).read_text()


def test_the_launchers_summary_names_the_dead(stand_in: Any) -> None:
    outcome, _ = stand_in("print(f'exitcode  : -9 (pid: {os.getpid()})')\nsys.exit(1)\n")
    assert outcome.dead and set(outcome.dead.values()) == {-9}


def test_the_timeout_ends_everything(stand_in: Any, tmp_path: Path) -> None:
    outcome, _ = stand_in(
        "import subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'], start_new_session=True)\n"
        "tell('phase', phase='step', detail='')\ntime.sleep(3600)\n",
        timeout=1.0,
    )
    assert outcome.ending == "timeout"
    assert left_behind(tmp_path / "tmp") == []


def test_an_interruption_ends_everything(stand_in: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        stand_in("time.sleep(3600)\n", progress=lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert left_behind(tmp_path / "tmp") == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "handlers are put back"


def test_ranks_that_hang_after_one_failed_are_not_waited_for(stand_in: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(launching, "AFTER_ERROR", 0.5)
    outcome, _ = stand_in(
        "tell('error', 1, phase='step', type='ValueError', message='x')\ntime.sleep(3600)\n"
    )
    assert outcome.ending == "failed"


def test_the_launcher_is_waited_for_where_a_rank_ended_without_a_word(
    stand_in: Any, monkeypatch: Any
) -> None:
    """Only its summary says how: the other rank saw no more than a closed connection."""
    monkeypatch.setattr(launching, "AFTER_ERROR", 0.1)
    outcome, _ = stand_in(
        "child = os.fork()\n"
        "if not child: os._exit(1)\n"
        "tell('begin', 1, pid=child, host='h', address='localhost', port='123')\n"
        "tell('error', 0, phase='step', type='RuntimeError', message='Connection closed by peer')\n"
        "time.sleep(2)\nprint(f'exitcode  : -9 (pid: {child})')\nsys.exit(1)\n"
    )
    assert outcome.dead == {1: -9}


def test_of_several_dead_ranks_the_first_counts(stand_in: Any) -> None:
    """torchrun kills those that do not end when it asks them to, and lists the root cause last."""
    outcome, _ = stand_in(
        "child = os.fork()\n"
        "if not child: os._exit(1)\n"
        "tell('begin', 1, pid=child, host='h', address='localhost', port='123')\n"
        "for n, (at, pid) in enumerate([(38, os.getpid()), (9, child)]):\n"
        "    print(f'[{n}]:\\n  time      : 2026-11-29_23:04:{at:02}\\n  host      : localhost')\n"
        "    print(f'  rank      : {n} (local_rank: {n})\\n  exitcode  : -9 (pid: {pid})')\n"
        "sys.exit(1)\n"
    )
    assert list(outcome.dead) == [1, 0]
    assert diagnose(outcome, 60.0).rank == 1


def test_lines_in_a_shared_log_are_told_from_chatter(tmp_path: Path) -> None:
    told = json.dumps(line("phase", 1, phase="build", detail=""))
    (tmp_path / "log").write_text(f"node1: noise\nnode1: {MARK}{told}\nnode2: {MARK}{{broken\n{MARK}{told}")
    reader = launching.Reader(tmp_path, Place(2, hostfile="h"))
    reader.read()
    assert reader.lines == {1: [json.loads(told)]}, "an unfinished line waits"


def test_segments_in_shared_memory_are_swept(tmp_path: Path) -> None:
    shared = tmp_path / "shm"
    shared.mkdir()
    mine = shared / f"deepspeed_allreduce_buffer_{os.getuid()}_localhost_123_1"
    others = shared / f"deepspeed_allreduce_buffer_{os.getuid()}_localhost_124_1"
    mine.touch()
    others.touch()
    begin = line("begin", 1, address="localhost", port="123", pid=1)
    (tmp_path / "rank1.jsonl").write_text(json.dumps(begin) + "\n")
    launching.sweep(tmp_path, shared)
    assert list(shared.iterdir()) == [others], "another run's segments stay"


# --- what it means ------------------------------------------------------------------------------------------


def step(**more: Any) -> dict[str, Any]:
    return {
        "seconds": 2.0,
        "forward": 0.5,
        "backward": 1.0,
        "step": 0.5,
        "loss": 3.0,
        "gradient_norm": 1.0,
        "skipped": False,
        "lr": 1e-4,
        "blocked": 0.5,
        "collectives": {"all_reduce": {"calls": 2, "bytes": 2048}},
        **more,
    }


def measured(device: str = "cuda", **more: Any) -> dict[str, Any]:
    """What a rank tells."""
    gpu = {"name": "H", "total": 80 * GIB, "outside": GIB} if device == "cuda" else None
    phase = {"allocated_peak": 10 * GIB, "reserved_peak": 12 * GIB, "device_used": 13 * GIB} if gpu else {}
    return {
        "phases": {"forward": {**phase, "host_rss_peak": 2 * GIB, "host_rss": GIB}},
        "items": {
            when: {"device": {"weights": GIB}, "host": {}, "pinned": {}}
            for when in ("init", "backward", "steady")
        },
        **({"allocated_steady": 8 * GIB} if gpu else {}),
        "warm_up_seconds": 3.0,
        "steps": [step()],
        "share": {"communication": 0.5, "exposed": 0.2, "how": "profiler"},
        "samples_per_step": 8,
        "tokens_per_step": 1024,
        "changed": True,
        "skipped_steps": 0,
        "engine": {"optimizer": "FusedAdam", "dtype": "bf16"},
        "model": {
            "parameters": 10**9,
            "layers": 2,
            "hidden": 8,
            "sequence": 128,
            "micro_batch": 4,
            "accumulation": 1,
        },
        "versions": {"torch": "2", "deepspeed": "0.19.8"},
        "gpu": gpu,
        **more,
    }


def findings(summary: dict[str, Any], gates: Gates | None = None, static: Any = ()) -> list[str]:
    config = configure_text({"train_batch_size": 4})
    judge = Judge(load(), config)
    judge.trained(summary, static, gates or Gates())
    return [f.name for f in judge.findings]


def configure_text(data: dict[str, Any]) -> Any:
    from dslint.formats import read_bytes

    return configure(
        read_bytes(json.dumps(data).encode(), "ds.json"), Options(newest(), trainer="raw", gpus=2)
    )


def test_the_summary_takes_the_slowest_rank_and_the_median_step() -> None:
    fast, slow = ([step(seconds=s) for s in times] for times in ((1.0, 1.0, 9.0), (2.0, 4.0, 2.0)))
    summary = summarize({0: measured(steps=fast), 1: measured(steps=slow)}, "cuda")
    assert summary["step_seconds"] == 4.0 and summary["samples_per_second"] == 2.0
    assert summary["ranks"][0]["device_total_gib"] == 13.0, "reserved at most, and what lies outside"
    assert summary["tflops_per_gpu"] == pytest.approx(1024 * (6e9 + 6 * 2 * 8 * 128) / 4 / 2 / 1e12, rel=1e-3)
    json.dumps(summary, allow_nan=False)


def test_gates() -> None:
    summary = summarize({0: measured()}, "cuda")
    assert findings(summary) == []
    assert findings(summary, Gates(memory=13 * GIB, throughput=4.0)) == []
    assert findings(summary, Gates(memory=13 * GIB - 1, throughput=4.1)) == ["memory-gate", "throughput-gate"]
    on_cpu = summarize({0: measured("cpu")}, "cpu")
    assert findings(on_cpu, Gates(memory=GIB)) == ["memory-gate"], "on the CPU the resident memory counts"


def test_communication_above_30_percent_is_a_finding_on_gpus_only() -> None:
    bound = {"communication": 0.6, "exposed": 0.31, "how": "profiler"}
    assert findings(summarize({0: measured(share=bound), 1: measured()}, "cuda")) == ["communication-bound"]
    assert findings(summarize({0: measured("cpu", share=bound)}, "cpu")) == []


FIXED = {"optimizer": "Adam", "dtype": "fp16", "fp16": {"loss_scale": 65536.0}}


@pytest.mark.parametrize(
    "more, names",
    [
        ({"steps": [step(loss=float("nan"))]}, ["nothing-learned"]),
        ({"changed": False}, ["nothing-learned"]),
        ({"changed": False, "skipped_steps": 2}, []),
        ({"changed": False, "skipped_steps": 2, "engine": FIXED}, ["nothing-learned"]),
        ({"changed": False, "steps": [step(lr=0.0)]}, []),
        ({"skipped_steps": 1}, []),
    ],
)
def test_steps_that_teach_nothing(more: dict[str, Any], names: list[str]) -> None:
    assert findings(summarize({0: measured(**more)}, "cuda")) == names


def test_an_error_that_did_not_happen_is_owned_up_to() -> None:
    report = lint_text({"train_batch_size": 4, "zero_optimization": {"stage": 7}})
    assert findings(summarize({0: measured()}, "cuda"), static=report.findings) == ["error-not-confirmed"]
    judge = Judge(load(), configure_text({}))
    crash = Failure("crash", "initialize", 0, "boom", "initialize")
    assert judge.failure(crash, report.findings, ()) == "DS107" and judge.findings == []
    assert judge.failure(crash, (), ()) == "" and [f.code for f in judge.findings] == ["DS790"]


def lint_text(data: dict[str, Any]) -> Any:
    from dslint.lint import lint

    return lint(json.dumps(data).encode(), "ds.json", Options(newest(), trainer="raw", gpus=2), load())


def test_a_value_the_engine_does_not_use_is_a_broken_promise() -> None:
    config = configure_text(
        {"train_batch_size": 4, "zero_optimization": {"stage": 2, "reduce_bucket_size": 100}}
    )
    used = {"zero_optimization": {"stage": 2, "reduce_bucket_size": 100, "overlap_comm": False}}
    assert list(differences(used, config)) == []
    used["zero_optimization"]["overlap_comm"] = True
    assert list(differences({**used, "optimizer.reduce_bucket_size": 50}, config)) == [
        "zero_optimization.overlap_comm: promised false, used true",
        "the optimizer's reduce bucket: promised 100, used 50",
    ]
    adam = {"optimizer": {"type": "AdamW"}, "bf16": {"enabled": True}, "train_batch_size": 4}
    right = {"optimizer": "FusedAdam", "dtype": "bf16", "train_batch_size": 4}
    assert list(differences(right, configure_text(adam))) == []
    wrong = {"optimizer": "AdamW", "dtype": "fp32", "train_batch_size": 8}
    assert list(differences(wrong, configure_text(adam))) == [
        "train_batch_size: promised 4, used 8",
        "optimizer: promised FusedAdam, used AdamW",
        "dtype: promised bf16, used fp32",
    ]


def test_the_report_has_a_row_for_everything() -> None:
    summary = {
        **summarize({0: measured(), 1: measured()}, "cuda"),
        "model_name": "m",
        "spare_gib": 67.0,
        "filled": {"bf16.enabled": True},
        "changes": [{"key": "optimizer.type", "value": "AdamW", "why": "because"}],
        "notes": ["a note"],
        "compared": [{"what": "weights", "measured_bytes": GIB, "predicted_bytes": GIB // 2, "error": -0.5}],
    }
    said = "\n".join(text.lines(summary))
    for words in (
        "it trains on 2 H processes, fits with 67.0 GiB to spare",
        "bf16.enabled true",
        "optimizer.type = AdamW: because",
        "a note",
        "2 s (forward 0.5, backward 1, optimizer 0.5; 1 step; warm-up 3)",
        "4 samples/s, 512 tokens/s, 1.536 TFLOP/s a GPU",
        "all_reduce 2 x, 2 KiB; 50% of a step, 20% not hidden",
        "loss 3, gradient norm 1, weights changed, FusedAdam, bf16",
        "allocated 10.00 GiB at most, 8.00 between steps; reserved 12.00; on the device 13.00 of 80.00",
        "1 GiB    512 MiB  -50.0%",
    ):
        assert words in said, said


def test_the_table_gives_ratios() -> None:
    first = summarize({0: measured()}, "cuda")
    second = summarize({0: measured(steps=[step(seconds=1.0)])}, "cuda")
    rows = text.table(
        [
            {"name": "a", "summary": first, "why": ""},
            {"name": "b", "summary": second, "why": ""},
            {"name": "c", "summary": None, "why": "not run: DS401"},
        ]
    )
    assert rows[2].split() == ["a", "2", "1.00", "4", "10", "1.00"]
    assert rows[3].split() == ["b", "1", "0.50", "8", "10", "1.00"]
    assert rows[4].strip() == "c                         not run: DS401"


spans_of_time = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda t: (t[0], t[0] + t[1])))


@given(spans_of_time, spans_of_time)
def test_shares_of_time_agree_with_counting(communication: Any, computation: Any) -> None:
    busy = {i for start, end in communication for i in range(start, end)}
    other = {i for start, end in computation for i in range(start, end)}
    found = shares(communication, computation, 50.0)
    assert found["communication"] == pytest.approx(len(busy) / 50)
    assert found["exposed"] == pytest.approx(len(busy - other) / 50)
    joined = merged(communication)
    assert all(joined[i][1] < joined[i + 1][0] for i in range(len(joined) - 1))
