"""Starting the processes of a verification, watching them, and leaving nothing behind.

The launch is torch's elastic launcher on one node, DeepSpeed's with a hostfile, and none inside a job whose
launcher (torchrun, Slurm, MPI) has already made this process one of its ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dslint.verify.plan import MARK, Plan

POLL = 0.05
GRACE = 5.0
"""Seconds that the launcher has to end its processes before they are killed."""
AFTER_ERROR = 8.0
"""Seconds that the other ranks have to say what they saw, once one rank failed."""
AFTER_DEATH = 60.0
"""The same where a rank ended without a word: only the launcher knows how, and it says so once the others
have ended, to which it gives 30 s."""
RUN_ID = "DSLINT_VERIFY_RUN"
"""Environment variable by which every process of a run, compilers included, is found again."""

_EXIT = re.compile(r"(?:time\s*:\s*(\S+)[^\[\]]*?)?exitcode\s*:\s*(-?\d+)\s*\(pid:\s*(\d+)\)")
_SEGMENT = "deepspeed_allreduce_buffer"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the ranks run.

    `ranks`: how many there are. `rank`: this process's own where it is one of them (inside a job), else
    None. `environment`: what a worker needs besides this process's environment.
    """

    ranks: int
    rank: int | None = None
    hostfile: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """How a run ended: every rank's lines, and what the parent saw.

    `ending`: "done" (every rank told a result), "failed", "timeout". `dead`: exit codes of ranks that ended
    without a word, negative for signals, the first to end first. `log`: the chatter, kept only where the run
    failed.
    """

    ending: str
    lines: dict[int, list[dict[str, Any]]]
    dead: dict[int, int]
    seconds: float
    log: str = ""
    tail: str = ""
    stacks: dict[int, str] = field(default_factory=dict)

    def results(self) -> dict[int, dict[str, Any]]:
        """The result of every rank that told one."""
        told = [x for _, lines in sorted(self.lines.items()) for x in lines if x["event"] == "result"]
        gathered = next((line["results"] for line in told if line.get("results")), None)
        if gathered is not None:
            return dict(enumerate(gathered))
        return {line["rank"]: line for line in told}

    def errors(self) -> list[dict[str, Any]]:
        """The errors that ranks told, the earliest first."""
        told = [line for lines in self.lines.values() for line in lines if line["event"] == "error"]
        return sorted(told, key=lambda line: float(line["time"]))

    def phase(self, rank: int) -> str:
        """The phase that a rank entered last."""
        entered = [line["phase"] for line in self.lines.get(rank, ()) if line["event"] == "phase"]
        return entered[-1] if entered else ""


Progress = Callable[[str], None]


def find_job(environment: Mapping[str, str]) -> Place | None:
    """The job that this process is a rank of, or None: torchrun's variables, Slurm's, or an MPI's.

    A Slurm step of one task is not a job of ranks: `srun -n1 --gpus 4 dslint --verify` launches its own.
    """
    env = environment
    if all(name in env for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")):
        return Place(int(env["WORLD_SIZE"]), int(env["RANK"]))
    if "SLURM_PROCID" in env and int(env.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        ranks = env["SLURM_STEP_NUM_TASKS"]
        nodes = env.get("SLURM_STEP_NODELIST", env.get("SLURM_JOB_NODELIST", ""))
        job = int(env.get("SLURM_JOB_ID", "0")) * 7 + int(env.get("SLURM_STEP_ID", "0"))
        return Place(
            int(ranks),
            int(env["SLURM_PROCID"]),
            environment={
                "RANK": env["SLURM_PROCID"],
                "WORLD_SIZE": ranks,
                "LOCAL_RANK": env.get("SLURM_LOCALID", "0"),
                "MASTER_ADDR": env.get("MASTER_ADDR") or first_node(nodes) or "localhost",
                "MASTER_PORT": env.get("MASTER_PORT") or str(20000 + job % 20000),
            },
        )
    for rank, size, local in (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ):
        if rank in env and int(env.get(size, "1")) > 1:
            found = {"RANK": env[rank], "WORLD_SIZE": env[size], "LOCAL_RANK": env.get(local, env[rank])}
            alone = env.get("OMPI_COMM_WORLD_LOCAL_SIZE") == env[size]
            if alone:
                found |= {"MASTER_ADDR": "localhost", "MASTER_PORT": env.get("MASTER_PORT", "29511")}
            elif "MASTER_ADDR" not in env:
                return Place(int(env[size]), int(env[rank]))  # DeepSpeed asks MPI itself, through mpi4py
            return Place(int(env[size]), int(env[rank]), environment=found)
    return None


def first_node(nodes: str) -> str:
    """The first host of a Slurm list such as gpu[003-005,9],login2."""
    match = re.match(r"([^\[,]*)(?:\[([^\],-]+)[^\]]*\]([^,]*))?", nodes)
    if match is None:
        return ""
    return f"{match[1]}{match[2] or ''}{match[3] or ''}"


def visible_gpus(environment: Mapping[str, str], devices: Path = Path("/dev")) -> int:
    """How many GPUs this process may use, found without importing torch."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if name in environment:
            listed = [word for word in environment[name].split(",") if word.strip()]
            return 0 if listed[:1] == ["-1"] else len(listed)
    if not devices.is_dir():
        return 0
    cards = [path for path in devices.iterdir() if re.fullmatch(r"nvidia\d+", path.name)]
    if cards or not (devices / "kfd").exists():
        return len(cards)
    return len(list((devices / "dri").glob("renderD*")))


def launch(plan: Plan, place: Place, timeout: float, progress: Progress) -> Outcome:
    """Runs a plan to its end and cleans up after it, whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="dslint-verify-"))
    run = uuid.uuid4().hex
    began = time.monotonic()
    log = folder / "log"
    process: subprocess.Popen[bytes] | None = None
    outcome = None
    with interruptions():
        try:
            plan = replace(plan, parent=os.getpid(), folder="" if place.hostfile else str(folder))
            if place.hostfile:
                plan = replace(plan, parent=0)
            else:
                plan.write(folder / "plan.json")
            with open(log, "wb") as out:
                process = subprocess.Popen(
                    command(plan, place, folder),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=environment(place, run, folder),
                    start_new_session=True,
                )
                outcome = watch(process, folder, place, timeout, progress)
        finally:
            with uninterrupted():
                if process is not None:
                    end(process, run)
                if process is not None and outcome is not None:
                    outcome.seconds = time.monotonic() - began
                    complete(outcome, folder, place, process.returncode)
                sweep(folder)
                if outcome is not None and outcome.ending != "done" and log.exists():
                    outcome.log = keep(log)
                shutil.rmtree(folder, ignore_errors=True)
    return outcome


def command(plan: Plan, place: Place, folder: Path) -> list[str]:
    """The command that starts the ranks."""
    worker = "dslint.verify.worker"
    if place.hostfile:
        head = [sys.executable, "-m", "deepspeed.launcher.runner", "--hostfile", place.hostfile]
        return [*head, "--no_local_rank", "--module", worker, plan.encode()]
    argument = str(folder / "plan.json")
    if place.rank is not None:
        return [sys.executable, "-m", worker, argument]
    head = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "0"]
    return [*head, "--nproc-per-node", str(place.ranks), "-m", worker, argument]


def environment(place: Place, run: str, folder: Path) -> dict[str, str]:
    """The environment of the ranks. This package can be imported in it as it was here, and temporary files
    (torchrun's logs, inductor's cache) go where they are removed."""
    env = {**os.environ, **place.environment, RUN_ID: run, "TMPDIR": str(folder)}
    here = str(Path(__file__).resolve().parents[2])
    env["PYTHONPATH"] = os.pathsep.join(p for p in (env.get("PYTHONPATH", ""), here) if p)
    env.setdefault("OMP_NUM_THREADS", "1")  # what torchrun sets, without its page of warnings
    env.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded
    env.setdefault("TOKENIZERS_PARALLELISM", "false")
    env["PYTHONUNBUFFERED"] = "1"
    if place.rank is not None:
        env["DSLINT_VERIFY_GATHER"] = "1"
    return env


def watch(
    process: subprocess.Popen[bytes], folder: Path, place: Place, timeout: float, progress: Progress
) -> Outcome:
    """Waits for the ranks to end, tells their progress, and stops at the timeout."""
    reader = Reader(folder, place)
    began = time.monotonic()
    failed_at: float | None = None
    progress("launching")
    while True:
        code = process.poll()
        reader.read()
        progress(reader.progress)
        now = time.monotonic()
        if code is not None:
            return Outcome("done" if code == 0 and reader.complete() else "failed", reader.lines, {}, 0.0)
        if reader.failed and failed_at is None:
            failed_at = now
        if failed_at is not None and now - failed_at > (AFTER_DEATH if reader.silent() else AFTER_ERROR):
            return Outcome("failed", reader.lines, {}, 0.0)
        if now - began > timeout:
            return Outcome("timeout", reader.lines, {}, 0.0, stacks=stacks(reader, folder))
        time.sleep(POLL)


class Reader:
    """The lines of the ranks as they appear, in their files or in the log."""

    def __init__(self, folder: Path, place: Place) -> None:
        self.folder, self.place = folder, place
        self.lines: dict[int, list[dict[str, Any]]] = {}
        self.offsets: dict[Path, int] = {}
        self.progress = "launching"
        self.failed = False

    def read(self) -> None:
        """Takes in what was written since the last time."""
        if self.place.hostfile:
            self._take(self.folder / "log", marked=True)
            return
        for path in self.folder.glob("rank*.jsonl"):
            self._take(path, marked=False)

    def _take(self, path: Path, marked: bool) -> None:
        try:
            with open(path, "rb") as file:
                file.seek(self.offsets.get(path, 0))
                data = file.read()
        except OSError:
            return
        end = data.rfind(b"\n") + 1
        self.offsets[path] = self.offsets.get(path, 0) + end
        for raw in data[:end].splitlines():
            text = raw.decode("utf-8", "replace")
            if marked:
                _, mark, text = text.partition(MARK)
                if not mark:
                    continue
            with contextlib.suppress(ValueError, KeyError):
                self._line(json.loads(text))

    def _line(self, line: dict[str, Any]) -> None:
        rank = int(line["rank"])
        self.lines.setdefault(rank, []).append(line)
        if line["event"] == "error":
            self.failed = True
        if line["event"] == "phase" and rank == min(self.lines):
            self.progress = line.get("detail") or WORDS.get(line["phase"], line["phase"])

    def silent(self) -> bool:
        """Whether a rank of this machine ended without a word."""
        last = {rank: lines[-1]["event"] for rank, lines in self.lines.items()}
        return any(ended(pid) for rank, pid in pids(self.lines).items()
                   if last[rank] not in ("error", "result")) and not self.place.hostfile  # fmt: skip

    def complete(self) -> bool:
        """Whether every rank told its result; inside a job, this process's own."""
        told = {rank for rank, lines in self.lines.items() if any(x["event"] == "result" for x in lines)}
        return self.place.rank in told if self.place.rank is not None else len(told) >= self.place.ranks


WORDS = {
    "import": "importing torch and DeepSpeed",
    "connect": "connecting the processes",
    "build": "building the model",
    "initialize": "deepspeed.initialize",
    "warm-up": "warm-up step",
    "report": "collecting",
}


def stacks(reader: Reader, folder: Path) -> dict[int, str]:
    """Where each rank is just now: asks its process to write its stack."""
    for rank, pid in pids(reader.lines).items():
        if not (folder / f"rank{rank}.stacks").exists():
            continue
        with contextlib.suppress(OSError, AttributeError):
            os.kill(pid, signal.SIGUSR1)
    time.sleep(0.3)
    found = {}
    for rank in reader.lines:
        with contextlib.suppress(OSError):
            text = (folder / f"rank{rank}.stacks").read_text(encoding="utf-8", errors="replace")
            found[rank] = text
    return found


def pids(lines: dict[int, list[dict[str, Any]]]) -> dict[int, int]:
    """The process of each rank."""
    return {rank: x["pid"] for rank, told in lines.items() for x in told if x["event"] == "begin"}


def ended(pid: int) -> bool:
    """Whether a process is gone, or waits only for its parent to ask how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def complete(outcome: Outcome, folder: Path, place: Place, code: int) -> None:
    """Adds what only the launcher knows: ranks that ended without a word, and the log's last lines. `code`
    is the exit code of the process started, which inside a job is the rank itself."""
    text = ""
    with contextlib.suppress(OSError):
        text = (folder / "log").read_text(encoding="utf-8", errors="replace")
    chatter = [line for line in text.splitlines() if MARK not in line and line.strip()]
    outcome.tail = "\n".join(chatter[-20:])
    if outcome.ending == "done":
        return
    by_pid = {pid: rank for rank, pid in pids(outcome.lines).items()}
    spoken = {line["rank"] for line in outcome.errors()} | set(outcome.results())
    if place.rank is not None and outcome.ending == "failed" and code and place.rank not in spoken:
        outcome.dead[place.rank] = code
    for _, number, pid in sorted(_EXIT.findall(text), key=lambda entry: str(entry[0])):
        rank = by_pid.get(int(pid))
        if rank is not None and rank not in spoken:
            outcome.dead[rank] = int(number)


def end(process: subprocess.Popen[bytes], run: str) -> None:
    """Ends every process of a run: the launcher is asked first, then whatever is left is killed."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    for pid in belonging(run):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    if process.poll() is None:
        process.kill()
    process.wait()
    deadline = time.monotonic() + GRACE
    while any(belonging(run)) and time.monotonic() < deadline:
        time.sleep(POLL)


def belonging(run: str) -> Iterator[int]:
    """The processes whose environment carries the id of a run."""
    mark = f"{RUN_ID}={run}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def sweep(folder: Path, shared: Path = Path("/dev/shm")) -> None:
    """Removes what killed ranks leave in shared memory: DeepSpeed's segments, by this run's rendezvous."""
    for path in folder.glob("rank*.jsonl"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            with open(path, encoding="utf-8") as file:
                begin = json.loads(file.readline())
            name = f"{_SEGMENT}_{os.getuid()}_{begin['address']}_{begin['port']}_{int(begin['rank'])}"
            (shared / name).unlink(missing_ok=True)


def keep(log: Path) -> str:
    """The log's place after the run's folder is gone."""
    handle, name = tempfile.mkstemp(prefix="dslint-verify-", suffix=".log")
    os.close(handle)
    try:
        shutil.copyfile(log, name)
    except OSError:
        return ""
    return name


class Interrupted(KeyboardInterrupt):
    """A signal asked this process to end."""


@contextlib.contextmanager
def interruptions() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP end a run as Ctrl-C does, with everything cleaned up."""

    def stop(number: int, _: object) -> None:
        raise Interrupted(signal.Signals(number).name)

    before: list[tuple[int, Any]] = []
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None:
            with contextlib.suppress(ValueError):  # not in the main thread
                before.append((number, signal.signal(number, stop)))
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds signals off for the few seconds of cleaning up."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before: list[tuple[int, Any]] = []
    for number in numbers:
        with contextlib.suppress(ValueError):
            before.append((number, signal.signal(number, signal.SIG_IGN)))
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
