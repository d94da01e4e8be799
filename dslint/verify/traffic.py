"""Communication: what the collectives move and how long they hold up a step. Runs in the worker only.

Every collective of torch.distributed is wrapped before DeepSpeed is imported, so that it is counted whoever
calls it. On the CPU the time it blocks is taken on the way; on a GPU collectives run beside the computation,
and only the profiler sees them: see :func:`profiled`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dslint.verify.spans import shares

COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "all_gather_single": "all_gather",
    "_all_gather_base": "all_gather",
    "all_gather": "all_gather",
    "all_gather_coalesced": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_to_all_single": "all_to_all",
    "all_to_all": "all_to_all",
    "send": "point_to_point",
    "recv": "point_to_point",
    "isend": "point_to_point",
    "irecv": "point_to_point",
    "barrier": "barrier",
}
"""Function of torch.distributed -> what it counts as."""


class Traffic:
    """Counts of collectives since :meth:`start`: bytes of their largest tensor, calls, seconds blocked."""

    def __init__(self) -> None:
        self.running = False
        self.depth = 0
        self.blocked = 0.0
        self.bytes: dict[str, int] = {}
        self.calls: dict[str, int] = {}

    def start(self) -> None:
        """Begin at zero."""
        self.running, self.blocked, self.bytes, self.calls = True, 0.0, {}, {}

    def stop(self) -> None:
        """Count no further."""
        self.running = False

    def install(self) -> None:
        """Wrap torch.distributed."""
        for name, kind in COLLECTIVES.items():
            function = getattr(dist, name, None)
            if function is not None:
                setattr(dist, name, self._wrapped(function, kind))

    def _wrapped(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.running or self.depth:
                return function(*args, **kwargs)
            self.calls[kind] = self.calls.get(kind, 0) + 1
            size = max((payload(x) for x in (*args, *kwargs.values())), default=0)
            self.bytes[kind] = self.bytes.get(kind, 0) + size
            self.depth += 1
            began = time.perf_counter()
            try:
                work = function(*args, **kwargs)
            finally:
                self.depth -= 1
                self.blocked += time.perf_counter() - began
            return work if work is None else Handle(work, self)

        return call


class Handle:
    """A collective under way; passes everything on and counts how long it is waited for."""

    def __init__(self, work: Any, traffic: Traffic) -> None:
        self._work, self._traffic = work, traffic

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Waits as the collective's own handle does."""
        began = time.perf_counter()
        try:
            return self._work.wait(*args, **kwargs)
        finally:
            if self._traffic.running:
                self._traffic.blocked += time.perf_counter() - began

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def payload(argument: Any) -> int:
    """Bytes of a tensor or of a list of tensors; 0 for anything else."""
    if isinstance(argument, torch.Tensor):
        return int(argument.numel() * argument.element_size())
    if isinstance(argument, (list, tuple)):
        return sum(payload(x) for x in argument)
    return 0


def profiled(step: Callable[[], Any]) -> dict[str, float] | None:
    """Shares of one step on a GPU: communication, and the part of it beside which nothing was computed.

    None where the profiler cannot see the kernels (no CUPTI, another profiler at work).
    """
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            began = time.perf_counter()
            step()
            torch.cuda.synchronize()
            whole = time.perf_counter() - began
        communication: list[tuple[float, float]] = []
        computation: list[tuple[float, float]] = []
        for event in profile.events():
            if event.device_type != torch.autograd.DeviceType.CUDA:
                continue
            span = (event.time_range.start, event.time_range.end)
            (communication if "nccl" in event.name.lower() else computation).append(span)
    except (RuntimeError, AttributeError, AssertionError):
        return None
    if not communication and not computation:
        return None
    return shares(communication, computation, whole * 1e6)
