"""Why a verification failed: the first real error of the first rank that had one, in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from signal import Signals
from typing import Any

from dslint.verify.launch import Outcome

MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|Cannot allocate memory|std::bad_alloc|"
    r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|can't start new thread|"
    r"unable to (?:mmap|allocate|open shared memory)",
    re.IGNORECASE,
)
SECONDARY = re.compile(
    r"Connection (?:closed|reset)|closed by (?:the )?peer|Broken pipe|recvValue failed|failed to recv|"
    r"remote (?:process|peer|error)|NCCL.*(?:unhandled system|remote)|Timed out|timed out|SIGTERM|"
    r"Socket (?:Timeout|closed)|store.*(?:wait|get).*timeout|Application timeout",
    re.IGNORECASE | re.DOTALL,
)
"""What a rank says when another one has failed."""
MACHINE = (
    (r"Unable to JIT load|Error building extension|Ninja is required|No such file or directory: 'ninja'|"
     r"CUDA_HOME does not exist|Unable to find .*hipcc|g\+\+.*not found",
     "an operator of DeepSpeed cannot be built here: its compiler or library is missing"),
    (r"not been implemented on CPU backend", "this operator exists for CUDA only"),
    (r"^ModuleNotFoundError: No module named", "a package is not installed here"),
    (r"^ImportError: ", "a package cannot be imported here"),
    (r"GDS currently only supported for CUDA", "GPU direct storage exists for CUDA only"),
    (r"NVIDIA driver|No CUDA GPUs|Torch not compiled with CUDA|CUDA driver", "CUDA does not work here"),
    (r"address already in use|EADDRINUSE", "the port of the rendezvous is taken"),
    (r"not implemented for '(?:Half|BFloat16)'", "torch's CPU kernels lack this dtype; CUDA has it"),
)  # fmt: skip
"""Failures that say nothing about the config: pattern on "Class: message", and what to say."""
WAITING = "torch/distributed/distributed_c10d.py"
"""In the stack of a rank that waits for others."""
BUILDING = (
    ("torch/utils/file_baton.py",
     "it waited for another process to build an operator of DeepSpeed",
     "where no such process is left, remove the file lock in the operator's directory, below "
     "TORCH_EXTENSIONS_DIR or ~/.cache/torch_extensions"),
    ("torch/utils/cpp_extension.py",
     "it was still building an operator of DeepSpeed",
     "built once, it is there for every later run; give it time: --timeout"),
)  # fmt: skip
"""Frames of a run that is no hang but a compiler at work: a file, what the rank did, and what to do."""
_MACHINE = tuple((re.compile(pattern, re.MULTILINE), words) for pattern, words in MACHINE)

KILLED = "the kernel ends a process so when host memory runs out, a queue when a limit is passed"

DOING = {
    "": "before it began",
    "import": "while importing torch and DeepSpeed",
    "connect": "while the processes connected",
    "build": "while the model was built",
    "initialize": "in deepspeed.initialize",
    "warm-up": "in the first training step",
    "step": "in a training step",
    "report": "after the training steps",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result.

    `kind`: "crash" (DeepSpeed or torch raised), "memory", "killed" (by a signal), "hang" (the timeout), or
    "cannot" (nothing was learned about the config). `phase` is the worker's, `found` the finding's.
    """

    kind: str
    phase: str
    rank: int | None
    message: str
    found: str = "step"
    hint: str = ""

    @property
    def verdict(self) -> bool:
        """Whether this says something about the config."""
        return self.kind != "cannot"


def diagnose(outcome: Outcome, timeout: float) -> Failure:
    """The failure of a run that did not end well."""
    errors = outcome.errors()
    first = next((error for error in errors if not _secondary(error)), None)
    if first is None and outcome.dead:
        rank, code = next(iter(outcome.dead.items()))  # the others ended because it did
        return _dead(rank, code, outcome.phase(rank))
    if first is None and outcome.ending == "timeout":
        return _timeout(outcome, timeout)
    if first is None and errors:
        first = errors[0]
    if first is not None:
        return _error(first)
    told = outcome.lines
    if not told:
        last = outcome.tail.splitlines()[-1] if outcome.tail else "it said nothing"
        return Failure("cannot", "", None, f"the launcher started no process: {last}")
    rank = min(told)
    return Failure(
        "cannot", outcome.phase(rank), rank, f"the launcher ended {DOING.get(outcome.phase(rank), '')}"
    )


def text_of(error: dict[str, Any]) -> str:
    """An error as Python prints it."""
    return f"{error['type']}: {error['message']}"


def _secondary(error: dict[str, Any]) -> bool:
    text = text_of(error)
    return bool(SECONDARY.search(text)) and not MEMORY.search(text)


def _error(error: dict[str, Any]) -> Failure:
    phase, rank, text = error["phase"], error["rank"], text_of(error)
    short = shortened(error["message"]) or error["type"]
    named = short if error["type"] in ("Unusable", "DistBackendError") else f"{error['type']}: {short}"
    found = finding_phase(phase, error.get("frames", ()))
    if error.get("cannot"):
        return Failure("cannot", phase, rank, named, found)
    if error["type"] in ("OutOfMemoryError", "MemoryError") or MEMORY.search(text):
        return Failure("memory", phase, rank, short, found)
    for pattern, words in _MACHINE:
        if pattern.search(text):
            return Failure("cannot", phase, rank, f"{words}: {named}", found)
    if phase in ("import", "connect"):
        return Failure("cannot", phase, rank, f"{named} {DOING[phase]}", found)
    return Failure("crash", phase, rank, named, found)


def _dead(rank: int, code: int, phase: str) -> Failure:
    if code < 0:
        try:
            name = Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = KILLED if name == "SIGKILL" else ""
        return Failure("killed", phase, rank, f"ended by {name}", finding_phase(phase), hint)
    if phase in ("", "import"):
        return Failure("cannot", phase, rank, f"ended with exit code {code} {DOING[phase]}")
    return Failure(
        "crash", phase, rank, f"ended with exit code {code} and said nothing", finding_phase(phase)
    )


def _timeout(outcome: Outcome, timeout: float) -> Failure:
    """A hang: the rank that is behind the others is the one to look at, and among equals one that does not
    wait for them in a collective."""
    order = {phase: i for i, phase in enumerate(("", *DOING))}

    def place(rank: int) -> tuple[int, bool, int]:
        return order.get(outcome.phase(rank), 0), WAITING in outcome.stacks.get(rank, ""), rank

    ranks = sorted(outcome.lines, key=place)
    if not ranks:
        return Failure("cannot", "", None, f"no process began within {timeout:g} s")
    rank = ranks[0]
    phase = outcome.phase(rank)
    stack = outcome.stacks.get(rank, "")
    for frame, words, hint in BUILDING:
        if frame in stack:
            return Failure("cannot", phase, rank, f"not finished after {timeout:g} s: {words}", hint=hint)
    where = innermost(stack)
    at = f", last seen at {where}" if where else ""
    message = f"not finished after {timeout:g} s{at}"
    if phase in ("", "import", "connect"):
        return Failure("cannot", phase, rank, f"{message} ({DOING[phase]})")
    return Failure("hang", phase, rank, message, finding_phase(phase))


def innermost(stack: str) -> str:
    """The innermost frame of a stack that faulthandler wrote, without this package's own frames."""
    frames = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', stack)
    for name, line, function in frames:
        if "/dslint/verify/" not in name and "<frozen" not in name:
            return f"{'/'.join(name.split('/')[-2:])}:{line} in {function}"
    return f"{'/'.join(frames[0][0].split('/')[-2:])}:{frames[0][1]} in {frames[0][2]}" if frames else ""


def finding_phase(phase: str, frames: Iterable[str] = ()) -> str:
    """The phase of a finding (dslint.finding.PHASES) that a worker's phase is."""
    inner = list(frames)
    if any(frame.endswith("runtime/config.py:__init__") for frame in inner):
        return "config"
    return "initialize" if phase in ("build", "initialize", "import", "connect") else "step"


def shortened(message: str, limit: int = 300) -> str:
    """The first line of a message that says something."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines:
        return ""
    first = lines[0]
    if first.endswith(":") and len(lines) > 1:
        first = f"{first} {lines[1]}"
    if re.match(r"\d+ validation errors? for", first) and len(lines) > 2:
        first = f"{first}: {lines[1]}: {lines[2]}"
    return first if len(first) <= limit else first[: limit - 3] + "..."
