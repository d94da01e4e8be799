"""What deepspeed.initialize and two optimizer steps do with a config, on CPU ranks over gloo.

    outcome({"train_batch_size": 4, "optimizer": {"type": "AdamW"}})
      -> {"verdict": "ok", "phase": "", "message": "", "client_optimizer": False, "machine": False}

    python -m tests.oracle.train [--jobs 2] [--timeout 60] < cases.jsonl > outcomes.jsonl

A case is {"config": object or text, "world_size": 1, "client_optimizer": null or "AdamW", "id": anything}.
client_optimizer names the torch optimizer that is passed where the config names none. An outcome has

    verdict           "ok", the exception class, "TIMEOUT", or the name of the signal that ended the rank
    phase             "config" (DeepSpeedConfig raised), "initialize", "step", or "" when it trained
    message           of the exception
    client_optimizer  whether one was passed
    machine           whether the failure is this machine's (no GPU, a package missing), not the config's
    reason            why, where machine is true (see MACHINE)
    forced            true where accumulation was cut short (see MICRO_STEPS)
    ranks             every rank's part, where world_size > 1; the outcome is the first failing rank's

DeepSpeed leaks global state between initialize calls, so every rank is a fresh process: a server process
imports torch and DeepSpeed once, builds their CPU operators once, and forks a child for each rank. A
child works in its own directory, which is removed afterwards, and may write nowhere else: a config's
absolute paths end in PermissionError, which counts as the machine's.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import copy
import ctypes
import gc
import importlib
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "DSLINT_ORACLE_PYTHON"  # names the interpreter that has DeepSpeed, where the tests' own has not
MICRO_STEPS = 64  # micro steps given to one optimizer step; after them the boundary is set by hand
STEPS = 2
# What a rank would import by itself, at some seconds of CPU each time (torch._dynamo, torch._inductor).
MODULES = (
    "deepspeed.runtime.zero.muon.muon_optimizer",
    "torch.distributed.fsdp",
    "torch.utils.tensorboard",
    "deepspeed.runtime.hybrid_engine",
    "deepspeed.monitor.monitor",
    "torch._dynamo",
    "deepspeed.comm.mori",
    "deepspeed.module_inject.auto_ep_layer",
    "deepspeed.runtime.superoffload.superoffload_stage3",
    "torch._subclasses.schema_check_mode",
    "deepspeed.profiling.flops_profiler.profiler",
)
# DeepSpeed's CPU operators, each with what a case's text has when it may need it. Building one takes a
# minute or two, once a machine; loading a built one a second, once a server. What NVMe needs is left out:
# without libaio it cannot load, and where it can, this machine's disk would be judged.
OPERATORS = {
    "FusedAdamBuilder": r"adam|muon",
    "CPUAdamBuilder": r"offload",
    "CPUAdagradBuilder": r"adagrad",
    "CPULionBuilder": r"lion",
}

# Failures that say nothing about the config: a pattern on "Class: message", and the reason. Not here, though
# the CPU operators raise it: "incompatible function arguments" from create_adam and multi_tensor_adam. Those
# are values of a wrong type ("lr": "auto"), and the CUDA operators have the same signatures.
MACHINE: list[tuple[str, str]] = [
    (r"not been implemented on CPU backend", "the operator exists for CUDA only"),
    (r"Unable to JIT load the \w+ op", "the operator's library or compiler is missing (async_io: libaio)"),
    (r"^ModuleNotFoundError: No module named", "an optional package is not installed"),
    (r"^ImportError: ", "an optional package is not installed"),
    (r"Please install DataStates", "an optional package is not installed"),
    (r"^UnboundLocalError: .*\bMu(Adam|AdamW|SGD)\b", "the package mup is not installed"),
    (r"^KeyError: '(CROSS_SIZE|CROSS_RANK|LOCAL_SIZE)'", "only DeepSpeed's launcher sets this variable"),
    (r"GDS currently only supported for CUDA", "no CUDA accelerator"),
    (r"must have the same dtype", "the stand-in model's inputs, not the config"),
    (r"not implemented for '(Half|BFloat16)'", "a CPU kernel lacks this dtype; CUDA has it"),
    (r"Torch not compiled with CUDA|No CUDA GPUs|NVIDIA driver|CUDA (error|is not available)", "no CUDA"),
    (
        r"can't allocate memory|not enough memory|Cannot allocate memory|^MemoryError",
        "memory of this machine",
    ),
    (r"^(PermissionError|FileNotFoundError|OSError|FileExistsError)", "a file of this machine"),
    (r"[Gg]loo", "the gloo backend cannot do what NCCL can"),
    (r"^SIGKILL|^TIMEOUT", "killed for time or memory"),
]
_MACHINE = [(re.compile(pattern), reason) for pattern, reason in MACHINE]


def machine_reason(verdict: str, message: str) -> str | None:
    """Why a failure is this machine's and not the config's, or None where it is the config's."""
    if verdict == "ok":
        return None
    text = f"{verdict}: {message}"
    return next((reason for pattern, reason in _MACHINE if pattern.search(text)), None)


# --- a rank: runs in a forked child --------------------------------------------------------------------


def _names_optimizer(config: Any) -> bool:
    """Whether DeepSpeed would make the optimizer from the config (get_optimizer_name is not None)."""
    section = config.get("optimizer") if isinstance(config, dict) else None
    return isinstance(section, dict) and section.get("type") is not None


def _confine(directory: str) -> None:
    """Let this process create and open for writing only below some directories."""
    roots = [directory, "/dev/", "/proc/self/"]
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def check(path: Any) -> None:
        if isinstance(path, int) or path is None:
            return
        full = os.path.abspath(os.fsdecode(path))
        if not any(full.startswith(root) for root in roots):
            raise PermissionError(13, "outside the oracle's directory", full)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            flags = arguments[2]
            if isinstance(flags, int) and flags & writing:
                check(arguments[0])
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.truncate"):
            check(arguments[0])
        elif event in ("os.rename", "os.link", "os.symlink"):
            check(arguments[1])

    def makedirs(path: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        # As if made: what is written below it fails later, if it comes to that.
        with contextlib.suppress(PermissionError):
            real_makedirs(path, mode, exist_ok)

    real_makedirs = os.makedirs
    os.makedirs = makedirs  # type: ignore[assignment]
    sys.addaudithook(hook)


def _refuse_builds(name: str, *args: Any, **kwargs: Any) -> None:
    raise RuntimeError(f"Unable to JIT load the {name} op: the oracle builds operators before it forks")


def _model() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))


def _client(name: str, model: Any) -> Any:
    import torch

    return getattr(torch.optim, name)(model.parameters(), lr=1e-3)


def _steps(engine: Any) -> bool:
    """Two optimizer steps; whether the accumulation boundary had to be set by hand."""
    import torch

    forced = False
    parameter = next(p for p in engine.module.parameters() if p.is_floating_point())
    dtype = parameter.dtype
    for _ in range(STEPS):
        before = engine.global_steps
        for micro in range(2 * MICRO_STEPS):
            loss = engine(torch.randn(4, 16).to(dtype)).float().pow(2).mean()
            engine.backward(loss)
            engine.step()
            if engine.global_steps > before:
                break
            if micro + 2 >= MICRO_STEPS and not forced:
                forced = True
                engine.set_gradient_accumulation_boundary(True)
    return forced


def _train(case: dict[str, Any], rank: int, directory: str, tell: Any) -> dict[str, Any]:
    """Everything a training script would do; `tell` records the phase before each part."""
    import deepspeed
    import torch
    import torch.utils.cpp_extension

    world_size = case["world_size"]
    torch.utils.cpp_extension.load = _refuse_builds
    config = case["config"]
    torch.manual_seed(1234)
    deepspeed.init_distributed(
        dist_backend="gloo",
        auto_mpi_discovery=False,
        verbose=False,
        rank=rank,
        world_size=world_size,
        init_method="file://" + os.path.join(os.path.dirname(directory), "store"),
    )
    tell("config")
    argument: Any = copy.deepcopy(config)
    if isinstance(config, str):
        argument = os.path.join(directory, "ds_config.json")
        with open(argument, "wb") as file:
            file.write(config.encode("utf-8", "surrogatepass"))
    try:  # what deepspeed.initialize does with a path
        from deepspeed.runtime.tensor_parallel.init_utils import load_ds_config
    except ImportError:
        read = copy.deepcopy(argument)
    else:
        read = load_ds_config(copy.deepcopy(argument))
    deepspeed.DeepSpeedConfig(copy.deepcopy(read))
    tell("initialize")
    model = _model()
    name = case.get("client_optimizer")
    client = _client(name, model) if name and not _names_optimizer(read) else None
    tell("initialize", client_optimizer=client is not None)
    engine = deepspeed.initialize(
        model=model,
        model_parameters=list(model.parameters()),
        config=argument,
        optimizer=client,
    )[0]
    tell("step")
    forced = _steps(engine)
    return {
        "verdict": "ok",
        "phase": "",
        "message": "",
        "client_optimizer": client is not None,
        "forced": forced,
    }


def _rank(case: dict[str, Any], rank: int, directory: str, pipe: int) -> None:
    """The child's whole life; never returns."""
    state: dict[str, Any] = {"phase": "config", "client_optimizer": False}

    def tell(phase: str, **more: Any) -> None:
        state.update(more, phase=phase)
        os.write(pipe, json.dumps(state).encode() + b"\n")

    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the server
        os.mkdir(directory)
        os.chdir(directory)
        null, log = os.open(os.devnull, os.O_RDONLY), os.open(directory + ".log", os.O_CREAT | os.O_WRONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        os.environ.update(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(case["world_size"]),
            TMPDIR=directory,
            LOCAL_WORLD_SIZE=str(case["world_size"]),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT="29500",
        )
        tempfile.tempdir = directory
        _confine(os.path.dirname(directory))
        answer = _train(case, rank, directory, tell)
    except BaseException as error:
        answer = {"verdict": type(error).__name__, "message": str(error), **state}
    try:
        os.write(pipe, json.dumps(answer | {"done": True}).encode() + b"\n")
    finally:
        os._exit(0)


# --- the server: imports once, forks for each case ------------------------------------------------------


class _Child:
    """One rank as the server sees it."""

    def __init__(self, pid: int, pipe: int, log: str) -> None:
        self.pid, self.pipe, self.log = pid, pipe, log
        self.buffer = b""
        self.answer: dict[str, Any] = {"phase": "config", "client_optimizer": False}
        self.ended = False

    def take(self, data: bytes) -> None:
        self.buffer += data
        while b"\n" in self.buffer:
            line, self.buffer = self.buffer.split(b"\n", 1)
            self.answer = json.loads(line)

    @property
    def failed(self) -> bool:
        return self.ended and self.answer.get("verdict") != "ok"

    def end(self, timed_out: bool = False) -> None:
        """Kill what is left of the child and settle its answer."""
        if self.ended:
            return
        self.ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        if self.answer.pop("done", False):
            return
        if timed_out:
            self.answer |= {"verdict": "TIMEOUT", "message": "no end in the time given"}
        elif os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            self.answer |= {"verdict": name, "message": self._last_words()}
        else:
            code = os.waitstatus_to_exitcode(status)
            self.answer |= {"verdict": "SystemExit", "message": str(code)}

    def _last_words(self) -> str:
        with contextlib.suppress(OSError), open(self.log, errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
            return lines[-1][:500] if lines else ""
        return ""


class _Run:
    """One case: its ranks, its directory, its end."""

    def __init__(self, case: dict[str, Any], timeout: float) -> None:
        self.case = case
        self.deadline = time.monotonic() + timeout
        self.directory = tempfile.mkdtemp(prefix="oracle-train-")
        self.children: list[_Child] = []
        for rank in range(case["world_size"]):
            reading, writing = os.pipe()
            directory = os.path.join(self.directory, f"rank{rank}")
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                _rank(case, rank, directory, writing)
            os.close(writing)
            self.children.append(_Child(pid, reading, directory + ".log"))

    def read(self, child: _Child) -> None:
        data = os.read(child.pipe, 1 << 16)
        child.take(data)
        if not data or child.answer.get("done"):
            child.end()
            if child.failed:  # its peers wait for it in a collective
                self.deadline = min(self.deadline, time.monotonic() + 3)

    def finish(self) -> dict[str, Any]:
        """The outcome, when every child has ended or the time is up."""
        first = next((child for child in self.children if child.failed), None)
        for child in self.children:
            child.end(timed_out=True)
        first = first or next((child for child in self.children if child.failed), self.children[0])
        shutil.rmtree(self.directory, ignore_errors=True)
        outcome = {key: first.answer.get(key) for key in ("verdict", "phase", "message", "client_optimizer")}
        reason = machine_reason(str(outcome["verdict"]), str(outcome["message"]))
        outcome["machine"] = reason is not None
        if reason:
            outcome["reason"] = reason
        if first.answer.get("forced"):
            outcome["forced"] = True
        if len(self.children) > 1:
            outcome["ranks"] = [child.answer for child in self.children]
        if "id" in self.case:
            outcome["id"] = self.case["id"]
        return outcome


def _prepare() -> None:
    """Import what a rank needs, once, and make it run without a GPU. No tensor work: forks follow."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of compilers, so no threads
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # Muon's compiled kernel would cost 15 s a case
    import torch

    torch.set_num_threads(1)
    from deepspeed.accelerator import get_accelerator

    os.environ["TORCH_EXTENSIONS_DIR"] = extensions()
    accelerator = get_accelerator()
    type(accelerator).is_fp16_supported = lambda self: True
    for name in MODULES:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    # All-reduce through /dev/shm is for inference on CPUs; without it no segment outlives a killed rank.
    backend = importlib.import_module("deepspeed.comm.torch")  # the attribute of that name is torch itself
    vars(backend)["build_shm_op"] = lambda: None
    gc.collect()
    gc.freeze()  # ZeRO 3 collects garbage in initialize; without this, all that was imported is walked


def extensions() -> str:
    """The directory in which DeepSpeed's operators are built, once for each environment: their commands name
    its sources, and two environments that share a directory build each other's operators anew every time."""
    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    if given:
        return given
    root = sys.prefix
    if sys.prefix == sys.base_prefix or not os.access(root, os.W_OK):
        root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(root, "deepspeed-oracle", f"deepspeed-{version('deepspeed')}-torch-{version('torch')}")
    os.makedirs(folder, exist_ok=True)
    return folder


def drop_stale_locks() -> None:
    """Takes away the locks of builds that were killed, at which every later build would wait for ever."""
    for lock in Path(os.environ["TORCH_EXTENSIONS_DIR"]).glob("*/lock"):
        with contextlib.suppress(OSError):
            if time.time() - lock.stat().st_mtime > 1200:
                lock.unlink()


def _load_operators(case: dict[str, Any], loaded: set[str]) -> None:
    """Build or load the operators a case may need, in the server, so that its forks inherit them. Built in
    a child, each would be loaded again for every case, and a child killed meanwhile would leave a lock."""
    from deepspeed.accelerator import get_accelerator

    text = json.dumps(case["config"]).lower()
    for name, pattern in OPERATORS.items():
        if name not in loaded and re.search(pattern, text):
            loaded.add(name)
            drop_stale_locks()
            with contextlib.suppress(Exception):
                get_accelerator().create_op_builder(name).load(verbose=False)


class _Server:
    """Runs the cases that come in on stdin, `jobs` at a time; answers in the order of the cases."""

    def __init__(self, jobs: int, timeout: float, answers_to: Any) -> None:
        self.jobs, self.timeout, self.answers_to = jobs, timeout, answers_to
        self.selector = selectors.PollSelector()  # unlike epoll it takes a regular file as stdin
        self.waiting: list[tuple[int, dict[str, Any]]] = []
        self.running: dict[int, _Run] = {}
        self.finished: dict[int, dict[str, Any]] = {}
        self.operators: set[str] = set()
        self.received = self.written = 0
        self.buffer, self.open = b"", True

    def serve(self) -> None:
        """Until stdin ends and every case has its answer. Nothing is left behind, however it ends."""
        self.selector.register(0, selectors.EVENT_READ, None)
        try:
            while self.open or self.waiting or self.running:
                self._start()
                self._listen()
                self._settle()
        finally:
            for run in self.running.values():
                run.finish()

    def _start(self) -> None:
        while self.waiting and len(self.running) < self.jobs:
            number, case = self.waiting.pop(0)
            _load_operators(case, self.operators)
            self.running[number] = run = _Run(case, self.timeout)
            for child in run.children:
                self.selector.register(child.pipe, selectors.EVENT_READ, (run, child))

    def _listen(self) -> None:
        now = time.monotonic()
        limit = min((run.deadline for run in self.running.values()), default=now + 3600)
        for key, _ in self.selector.select(max(0.0, limit - now)):
            if key.data is None:
                self._take(os.read(0, 1 << 16))
            else:
                run, child = key.data
                pipe = child.pipe
                run.read(child)
                if child.ended:
                    self.selector.unregister(pipe)

    def _take(self, data: bytes) -> None:
        self.buffer += data
        if not data:
            self.open = False
            self.selector.unregister(0)
            self.buffer += b"\n"
        while b"\n" in self.buffer:
            line, self.buffer = self.buffer.split(b"\n", 1)
            if line.strip():
                case = json.loads(line)
                case["world_size"] = case.get("world_size") or 1
                self.waiting.append((self.received, case))
                self.received += 1

    def _settle(self) -> None:
        now = time.monotonic()
        for number, run in list(self.running.items()):
            if now >= run.deadline or all(child.ended for child in run.children):
                for child in run.children:
                    if not child.ended:
                        self.selector.unregister(child.pipe)
                self.finished[number] = run.finish()
                del self.running[number]
        while self.written in self.finished:
            self.answers_to.write(json.dumps(self.finished.pop(self.written)) + "\n")
            self.answers_to.flush()
            self.written += 1


# --- the client: what tests call --------------------------------------------------------------------------


class Trainer:
    """A server process, kept for as long as this object is open (also a context manager)."""

    def __init__(
        self,
        *,
        python: str | None = None,
        pythonpath: str | None = None,
        jobs: int = 1,
        timeout: float = 60,
    ) -> None:
        environment = dict(os.environ)
        parts = [pythonpath or "", str(ROOT), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(part for part in parts if part)
        command = [python or os.environ.get(PYTHON) or sys.executable, "-m", "tests.oracle.train"]
        command += ["--jobs", str(jobs), "--timeout", str(timeout)]
        self.jobs = jobs
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env=environment,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server."""
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def run(self, cases: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The outcomes of cases, in order, with a few cases in flight."""
        assert self._process.stdin and self._process.stdout
        pending = iter(cases)
        flying = 0
        try:
            while True:
                while flying < 2 * self.jobs and (case := next(pending, None)) is not None:
                    self._process.stdin.write(json.dumps(case) + "\n")
                    self._process.stdin.flush()
                    flying += 1
                if not flying:
                    return
                line = self._process.stdout.readline()
                if not line:
                    flying = 0
                    self._errors.seek(0)
                    last = self._errors.read()[-2000:].decode(errors="replace")
                    raise RuntimeError("oracle server ended: " + last)
                flying -= 1
                yield json.loads(line)
        finally:  # the caller may stop early; the next run must not read this one's answers
            for _ in range(flying):
                self._process.stdout.readline()


_trainer: Trainer | None = None


def outcome(
    config: dict[str, Any] | str, world_size: int = 1, client_optimizer: str | None = None
) -> dict[str, Any]:
    """What deepspeed.initialize and two optimizer steps do with a config (see the module's head). The
    first call starts a server in this interpreter (seconds; more when operators must be built)."""
    global _trainer
    if _trainer is None:
        _trainer = Trainer()
        atexit.register(_trainer.close)
    case = {"config": config, "world_size": world_size, "client_optimizer": client_optimizer}
    [answer] = _trainer.run([case])
    return answer


def main(arguments: list[str] | None = None) -> int:
    """JSON lines in, JSON lines out; nothing else reaches stdout."""
    options = argparse.ArgumentParser(prog="python -m tests.oracle.train", description=main.__doc__)
    options.add_argument("--jobs", type=int, default=1, help="cases at a time")
    options.add_argument("--timeout", type=float, default=60, help="seconds a case may take")
    chosen = options.parse_args(arguments)
    answers_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _prepare()
    _Server(chosen.jobs, chosen.timeout, answers_to).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
