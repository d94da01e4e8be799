"""CPU time of programs, measured in turn so that a busy machine slows all of them alike."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
DSLINT = (PYTHON, "-m", "dslint")


def newest_schema() -> Path:
    """The schema of the newest release, for both linters."""
    found = (ROOT / "schemas").glob("deepspeed-*.json")
    return max(found, key=lambda path: [int(n) for n in path.stem.partition("-")[2].split(".")])


def check_jsonschema(schema: Path) -> tuple[str, ...]:
    """check-jsonschema's command without the files; ends the program where it is not installed."""
    if find_spec("check_jsonschema") is None:
        sys.exit("check-jsonschema is not installed: pip install '.[bench]'")
    return (PYTHON, "-m", "check_jsonschema", "--schemafile", str(schema))


def cpu_seconds(command: Sequence[str], allowed: Sequence[int]) -> float:
    """User and system time of one run. Ends the program on an exit code that is not allowed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # From the root: what `python -m dslint` means must not depend on where the benchmark is called.
    env = {k: v for k, v in os.environ.items() if k != "GITHUB_ACTIONS"}
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in allowed:
        said = done.stdout.decode(errors="replace")[-2000:]
        sys.exit(f"{' '.join(command[:6])} exited with {done.returncode}:\n{said}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def medians(
    commands: Mapping[str, Sequence[str]], rounds: int, allowed: Sequence[int] = (0,)
) -> dict[str, float]:
    """Median CPU seconds of each command over interleaved rounds, after one that only warms the caches."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            seconds = cpu_seconds(command, allowed)
            if turn:
                taken[name].append(seconds)
    return {name: statistics.median(values) for name, values in taken.items()}


def show(times: Mapping[str, float], rounds: int) -> None:
    """Every time, and how many times dslint's it is."""
    print(f"median CPU time of {rounds} runs each, and as a multiple of dslint's")
    for name, seconds in times.items():
        print(f"  {name:<34} {seconds * 1000:9.1f} ms {seconds / times['dslint']:8.2f} x")
