"""Offload: which keys of the two sections the chosen device reads, and what NVMe swapping needs.

Source: deepspeed/runtime/zero/offload_config.py and runtime/swap_tensor/, 0.19.8.
"""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts.registry import Item, fact
from dslint.facts.zero import ZERO

SECTIONS = ("offload_optimizer", "offload_param")
NVME_ONLY = {
    "offload_optimizer": ("nvme_path", "buffer_count", "pipeline_read", "pipeline_write", "fast_init"),
    "offload_param": ("nvme_path", "buffer_count", "buffer_size", "max_in_cpu"),
}
"""Keys that only the NVMe swappers read."""

SWAPPED_TENSORS = {"adam": 4, "adamw": 4, "lion": 3, "adagrad": 3}
"""Tensors an optimizer swaps for each parameter: the parameter, its gradient and the states."""


@fact
def nvme_keys_on_cpu(config: Config) -> Any:
    """Keys for NVMe swapping in a section that offloads to the CPU, with another value than the default."""
    found = []
    for section in SECTIONS:
        if config.value((ZERO, section, "device")) != "cpu":
            continue
        for key in NVME_ONLY[section]:
            path = (ZERO, section, key)
            # "none": what accelerate puts for a path that its file does not name
            idle = config.written(path) in (None, "auto", "none")
            if not idle and config.value(path) != config.default(path):
                found.append(Item(path, {"key": key, "section": section}))
    return found


@fact
def offload_without_device(config: Config) -> Any:
    """Offload sections that name no device, so that the default, none, holds."""
    return [
        Item((ZERO, section), {"section": section, "empty": not config.written((ZERO, section))})
        for section in SECTIONS
        if isinstance(config.written((ZERO, section)), dict) and not config.has((ZERO, section, "device"))
    ]


@fact
def nvme_without_path(config: Config) -> Any:
    """Offload sections with device nvme and no nvme_path."""
    found = []
    for section in SECTIONS:
        path = (ZERO, section, "nvme_path")
        if config.value((ZERO, section, "device")) == "nvme" and config.value(path) is None:
            found.append(Item((ZERO, section, "device"), {"section": section}))
    return found


@fact
def swapped_tensors(config: Config) -> Any:
    """Buffers that swapping one parameter of the config's optimizer needs; UNKNOWN for other optimizers."""
    kind = config.value(("optimizer", "type"))
    return SWAPPED_TENSORS.get(kind.lower(), UNKNOWN) if isinstance(kind, str) else UNKNOWN


@fact
def cpu_adam(config: Config) -> Any:
    """Whether an offloaded optimizer of the config is DeepSpeedCPUAdam: Adam or AdamW, and not torch's."""
    kind = config.value(("optimizer", "type"))
    if not isinstance(kind, str):
        return UNKNOWN
    torch_adam = config.written(("optimizer", "params", "torch_adam"))
    return kind.lower() in ("adam", "adamw") and not torch_adam


@fact
def deepcompile_offloads(config: Config) -> Any:
    """Offload passes of DeepCompile at stage 3 that engine.compile() refuses beside the other offload.

    The engine turns offload_parameters on where both offload sections say cpu (runtime/engine.py,
    get_deepcompile_backend; compile/init_z3.py, init_z3, 0.19.4 to 0.19.8; run on both sides of 0.19.4
    and 0.19.6 with a stand-in for the CUDA operators).
    """
    if config.value(("compile", "deepcompile")) is not True or config.value((ZERO, "stage")) != 3:
        return []
    devices = [config.value((ZERO, section, "device")) for section in SECTIONS]
    states, activation, parameters = (
        config.value(("compile", key)) is True
        for key in ("offload_opt_states", "offload_activation", "offload_parameters")
    )
    release = config.target.release_number
    found = []
    if release >= (0, 19, 4) and states and (devices[0] in ("cpu", "nvme") or parameters):
        found.append(Item(("compile", "offload_opt_states"), {"key": "offload_opt_states"}))
    if release >= (0, 19, 6) and activation and (states or parameters or devices == ["cpu", "cpu"]):
        found.append(Item(("compile", "offload_activation"), {"key": "offload_activation"}))
    return found
