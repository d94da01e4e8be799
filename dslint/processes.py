"""`--jobs`: files judged by several processes, with the results of one process in the order of one.

Imported only where more than one process is asked for.
"""

from __future__ import annotations

import argparse
import copyreg
import gc
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from dslint.errors import UsageError
from dslint.finding import FileReport
from dslint.judge import lean
from dslint.settle import Settling

if TYPE_CHECKING:
    from dslint.fixing.loop import Outcome
    from dslint.inputs import Work

R = TypeVar("R", FileReport, "Outcome")

Step = Callable[[Settling, "Work"], R]
"""What is done with one file; a function of a module, so that other processes find it by its name."""

WORTH = 250
"""Judgments (files times releases) that pay for a process: each takes about 0.5 ms, a process 70 more."""

START = "fork" if sys.platform == "linux" else "spawn"
"""How a process begins. Afresh it costs the imports again, but macOS has no safe fork and Windows none."""

MOST = 61
"""Processes that Windows can wait for."""

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Where Linux says how much CPU time a container has in a period, in microseconds."""


def spread(step: Step[R], work: list[Work], settling: Settling) -> Iterator[R]:
    """The results of a step for each file, in their order. What a step raises is raised here.

    A file of which a launch or another file tells more stays in this process: what these hold may be
    nested deeper than can be sent.
    """
    alone = [all(target.launch is None and target.companion is None for target in one[2]) for one in work]
    sent = [(name, raw) for (name, raw, _), is_alone in zip(work, alone, strict=True) if is_alone]
    releases = len(settling.of(sent[0][0]).releases) if sent else 0
    processes = settling.flags.jobs or min(cpus(), len(sent) * releases // WORTH)
    processes = min(processes, len(sent), MOST)
    if processes < 2:
        yield from (step(settling, one) for one in work)
        return
    pool = ProcessPoolExecutor(processes, get_context(START), _begin, (settling,))
    try:
        chunk = max(1, min(32, len(sent) // (4 * processes)))
        results = pool.map(partial(_carried_out, step), sent, chunksize=chunk)
        for one, is_alone in zip(work, alone, strict=True):
            yield next(results) if is_alone else step(settling, one)
    except BrokenProcessPool:
        raise UsageError("a process of --jobs was killed; with fewer it takes less memory") from None
    finally:
        pool.shutdown(cancel_futures=True)


def cpus() -> int:
    """The CPUs that this process may use: its affinity, and on Linux the quota of its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text(encoding="ascii").split()
        return min(count, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):  # no cgroup v2, or its quota is "max"
        return count


_settling: Settling


def _begin(settling: Settling) -> None:
    """In a new process: keeps what all its files are judged by."""
    global _settling
    _settling = settling
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends all; the first process speaks of it
    Thread(target=_end_with_first, daemon=True).start()


def _end_with_first() -> None:
    """Ends this process when the first one was killed: it would wait for work, its pipes open, for ever."""
    first = parent_process()
    assert first is not None
    first.join()
    os._exit(1)


def _carried_out(step: Step[R], one: tuple[str, bytes]) -> R:
    """In another process: a step, its report without what nobody reads any more."""
    name, raw = one
    result = step(_settling, (name, raw, [_settling.of(name).options]))
    report = lean(result if isinstance(result, FileReport) else result.report)
    report.target = report.target._replace(launch=None, companion=None, workload=None)
    return result


def _again(flags: argparse.Namespace) -> Settling:
    from dslint.arguments import arguments

    return Settling(flags, arguments().by_flag)


copyreg.pickle(Settling, lambda settling: (_again, (settling.flags,)))  # its actions hold all of argparse
