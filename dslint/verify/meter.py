"""Memory of a rank: by phase as the allocator and the kernel count it, by item as live tensors show it.

Runs in the worker only. All figures are bytes.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from typing import Any

import torch

MASTER = (
    "fp32_partitioned_groups_flat",  # ZeRO stage 3
    "single_partition_of_fp32_groups",  # stages 1 and 2
    "fp32_groups_flat_partition",  # the bf16 optimizer of stages 0 and 1
    "fp32_groups_flat",  # the fp16 optimizer without ZeRO
    "fp32_groups",  # the same for optimizers that are not fused
)
"""Attributes of DeepSpeed's optimizers that hold the master weights."""

GRADIENTS = (
    "averaged_gradients",
    "all_grad_tensors",
    "accumulated_grads_in_cpu",
    "grad_partitions_flat_buffer",
    "_IPG__grad_partitions_flat_buffer",
    "_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition",
    "fp32_groups_gradients",
    "fp32_groups_gradients_flat",
    "fp32_groups_actual_gradients_flat",
    "fp32_groups_gradient_flat_partition",
    "grads_in_partition",
)
"""Attributes that hold gradients between their reduction and the step."""

BUCKETS = (
    "ipg_buckets",
    "extra_large_param_to_reduce",
    "temp_grad_buffer_for_cpu_offload",
    "temp_grad_buffer_for_gpu_offload",
    "param_buffer_of_bit16_for_cpu_offload_groups",
)
"""Attributes that hold buffers for reducing and staging."""

ITEMS = ("moments", "weights", "gathered", "master", "gradients", "buckets", "other")
"""What a tensor can be. One that is two things counts as the first. Gathered: whole parameters of stage 3,
between steps those below stage3_param_persistence_threshold."""


class Meter:
    """Peaks by phase: since the last :meth:`begin` until :meth:`end`, the highest of all its runs."""

    def __init__(self, cuda: bool) -> None:
        self.cuda = cuda
        self.phases: dict[str, dict[str, int]] = {}

    def begin(self) -> None:
        """Forget earlier peaks."""
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        else:
            with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
                file.write("5")

    def end(self, phase: str) -> None:
        """Take the peaks as those of a phase."""
        figures = host()
        if self.cuda:
            free, total = torch.cuda.mem_get_info()
            figures |= {
                "allocated_peak": torch.cuda.max_memory_allocated(),
                "reserved_peak": torch.cuda.max_memory_reserved(),
                "device_used": total - free,
            }
        known = self.phases.setdefault(phase, {})
        for name, value in figures.items():
            known[name] = max(known.get(name, 0), value)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A block as one run of a phase."""
        self.begin()
        yield
        self.end(name)


def host() -> dict[str, int]:
    """Memory of this process as the kernel counts it: now, and at most since the peak was forgotten."""
    found = status()
    return {"host_rss": found.get("VmRSS", 0), "host_rss_peak": found.get("VmHWM", 0)}


def status() -> dict[str, int]:
    """The sizes in /proc/self/status, in bytes; empty where there is none."""
    sizes: dict[str, int] = {}
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            key, _, rest = line.partition(":")
            fields = rest.split()
            if len(fields) == 2 and fields[1] == "kB":
                sizes[key] = int(fields[0]) * 1024
    return sizes


def storages(value: Any, depth: int = 0) -> Iterator[tuple[int, Any]]:
    """The storages of the tensors in a value, with their addresses: a tensor, and what lists, dicts and
    DeepSpeed's bucket objects hold; a tensor's gradient and stage 3's partition are not followed."""
    if isinstance(value, torch.Tensor):
        with contextlib.suppress(RuntimeError, NotImplementedError):  # meta and functional tensors
            storage = value.untyped_storage()
            if storage.nbytes() and storage.device.type != "meta":
                yield storage.data_ptr(), storage
    elif depth < 4:
        if isinstance(value, dict):
            value = list(value.values())
        elif hasattr(value, "__dict__") and type(value).__module__.startswith("deepspeed"):
            value = list(vars(value).values())
        if isinstance(value, (list, tuple, set)):
            for item in value:
                yield from storages(item, depth + 1)


def live() -> dict[int, Any]:
    """Every storage that some Python object holds, by address."""
    found: dict[int, Any] = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):
            found.update(storages(thing))
    return found


def items(engine: Any, ignore: Iterable[int] = ()) -> dict[str, dict[str, int]]:
    """Bytes of live tensors by item, on the device and on the host; a storage counts once.

    `ignore`: addresses of storages that were there before the model. Where training runs on the CPU
    everything is on the host.
    """
    optimizer = engine.optimizer
    base = getattr(engine, "basic_optimizer", None) or optimizer
    parameters = list(engine.module.parameters())
    named: dict[str, Any] = {
        "moments": list(getattr(base, "state", {}).values()),
        "weights": [*engine.module.buffers(), *(getattr(p, "ds_tensor", p) for p in parameters)],
        "gathered": [p for p in parameters if hasattr(p, "ds_tensor")],
        "master": [*attributes(optimizer, MASTER), *grouped(base, parameters)],
        "gradients": [*(p.grad for p in parameters), *attributes(optimizer, GRADIENTS)],
        "buckets": attributes(optimizer, BUCKETS),
    }
    named["gradients"] += [getattr(t, "grad", None) for t in flat(named["master"])]
    kind: dict[int, str] = {}
    for name in ITEMS[:-1]:
        for address, _ in storages(named[name]):
            kind.setdefault(address, name)
    ignored = set(ignore)
    sums: dict[str, dict[str, int]] = {"device": {}, "host": {}, "pinned": {}}
    for address, storage in live().items():
        if address in ignored and address not in kind:
            continue
        item = kind.get(address, "other")
        where = "host" if storage.device.type == "cpu" else "device"
        sums[where][item] = sums[where].get(item, 0) + storage.nbytes()
        if where == "host" and torch.cuda.is_available() and storage.is_pinned():
            sums["pinned"][item] = sums["pinned"].get(item, 0) + storage.nbytes()
    return sums


def attributes(optimizer: Any, names: Iterable[str]) -> list[Any]:
    """The attributes an optimizer has of some names, mangled ones by their ends."""
    known = getattr(optimizer, "__dict__", {})
    return [known[name] for name in names if name in known]


def grouped(base: Any, parameters: list[Any]) -> list[Any]:
    """What the base optimizer steps on, where that is not the model's own parameters: master weights."""
    own = {id(p) for p in parameters}
    groups = getattr(base, "param_groups", [])
    return [p for group in groups for p in group["params"] if id(p) not in own]


def flat(value: Any) -> Iterator[Any]:
    """The tensors in nested lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)


def checksum(engine: Any) -> int:
    """A number that changes when any weight that this rank steps on does.

    Taken from the master weights: a step may be too small to show in 16 bits.
    """
    optimizer = engine.optimizer
    base = getattr(engine, "basic_optimizer", None) or optimizer
    parameters = list(engine.module.parameters())
    tensors = list(flat([*attributes(optimizer, MASTER), *grouped(base, parameters)]))
    total, seen = 0, set()
    for tensor in tensors or [p for p in parameters if p.requires_grad]:
        data = tensor.detach()
        if data.numel() == 0 or data.data_ptr() in seen:
            continue
        seen.add(data.data_ptr())
        total += sum_of_bits(data)
    return total


def sum_of_bits(tensor: Any) -> int:
    """The sum of a tensor's elements read as whole numbers."""
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return int(tensor.contiguous().view(width).sum(dtype=torch.int64))
