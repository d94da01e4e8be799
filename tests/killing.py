"""Ends a piece of work at any of its system calls, as a lost machine or an impatient user may.

Linux only: the work runs in a forked child that is traced, and killed as it enters or leaves a call.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

TRACEME, SYSCALL = 0, 24
"""Requests of ptrace(2)."""


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Runs some work until it enters or leaves its system calls for the step-th time; False where it ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if libc.ptrace(TRACEME, 0, None, None) == 0:
                os.kill(os.getpid(), signal.SIGSTOP)
                work()
                status = 0
        finally:
            os._exit(status)
    ended = _waited(child)
    for _ in range(step):
        if ended is None:
            assert libc.ptrace(SYSCALL, child, None, None) == 0, os.strerror(ctypes.get_errno())
            ended = _waited(child)
    if ended is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return True
    assert ended == 0, f"the work ended with {ended}"
    return False


def _waited(child: int) -> int | None:
    """Waits for the next stop of a child: None, or its exit code."""
    _, status = os.waitpid(child, 0)
    return None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
