"""GPUs and links: what a card holds and computes, what a link carries. Data in hardware.json.

GB are 10^9 bytes, GiB 2^30. A link's rate is what collectives reach on it a GPU (NCCL's bus bandwidth),
well below what the datasheet adds up.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dslint.errors import UsageError

GIB = 1 << 30
TABLE = Path(__file__).with_name("hardware.json")
SHARE_USABLE = 0.985
"""Of the memory a card is sold with (in GiB of its GB name), the share a process can have, where unknown."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A card. `usable` is in bytes; `tflops` dense 16-bit matrix products; `link` joins the cards of a
    node, `host_rate` (bytes a second, one direction) the card with host memory. None: unknown."""

    name: str
    usable: float
    bf16: bool | None = None
    tflops: float | None = None
    link: str | None = None
    host_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A link. `rate` in bytes a second: of one GPU inside a node, of all ports of a node on a network.

    NCCL runs a ring through every port, so what one GPU sends crosses each node's ports once.
    """

    name: str
    rate: float
    network: bool = False


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return data


def gpus() -> tuple[str, ...]:
    """The names of the cards of the table."""
    return tuple(entry["name"] for entry in _table()["gpus"])


def links() -> tuple[str, ...]:
    """The names of the links of the table."""
    return tuple(entry["name"] for entry in _table()["links"])


def _entry(kind: str, word: str) -> dict[str, Any] | None:
    wanted = word.strip().lower().replace(" ", "-").replace("_", "-")
    for entry in _table()[kind]:
        if wanted in (entry["name"], *entry["aliases"]):
            found: dict[str, Any] = entry
            return found
    return None


def gpu(word: str) -> Gpu:
    """The card of a name. Raises UsageError with the nearest name."""
    entry = _entry("gpus", word)
    if entry is None:
        near = _near(word, "gpus")
        raise UsageError(f"no GPU is called {word[:60]!r}; {near or 'give --gpu-memory instead'}")
    rate = _table()["host_gb_per_s"][entry["host"]] * 1e9
    return Gpu(entry["name"], entry["usable_gib"] * GIB, entry["bf16"], entry["tflops"], entry["link"], rate)


_PORTS = re.compile(r"(.*[a-z0-9])x([1-9][0-9]?)\Z", re.ASCII)


def link(word: str) -> Link:
    """The link of a name; "ib200x8" is eight ports a node. Raises UsageError with the nearest name."""
    entry, ports = _entry("links", word), 1
    several = _PORTS.match(word.strip().lower())
    if entry is None and several is not None:
        entry, ports = _entry("links", several.group(1)), int(several.group(2))
        if entry is not None and not entry.get("network"):
            entry = None
    if entry is None:
        near = _near(word, "links")
        raise UsageError(f"no link is called {word[:60]!r}; {near or 'known are ' + ', '.join(links())}")
    name = entry["name"] if ports == 1 else f"{entry['name']}x{ports}"
    return Link(name, entry["gb_per_s"] * 1e9 * ports, bool(entry.get("network")))


def _near(word: str, kind: str) -> str:
    from dslint.suggest import nearest

    names = [name for entry in _table()[kind] for name in (entry["name"], *entry["aliases"])]
    near = nearest(word.lower(), names)
    return f"did you mean {near}?" if near else ""


_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([kmgt]?i?b?)\Z", re.I | re.ASCII)
_UNITS = {
    "": 1e9,
    "k": 1e3,
    "m": 1e6,
    "g": 1e9,
    "t": 1e12,
    "ki": 2.0**10,
    "mi": 2.0**20,
    "gi": 2.0**30,
    "ti": 2.0**40,
}


def size(text: str) -> float:
    """Bytes of "80GB", "79.2GiB", "1TB"; a bare number counts as GB. Raises UsageError."""
    match = _SIZE.match(text.strip())
    unit = match.group(2).lower().rstrip("b") if match else ""
    if match is None or unit not in _UNITS or (match.group(2).lower() == "b"):
        raise UsageError(f"{text[:60]!r} is not an amount of memory, such as 80GB or 1TB")
    value = float(match.group(1)) * _UNITS[unit]
    if not 0 < value < 1e17:
        raise UsageError(f"{text[:60]!r} is not an amount of memory, such as 80GB or 1TB")
    return value


def card(memory: str) -> Gpu:
    """A card of which only the memory is known, as sold ("80GB" means 80 GiB less what the driver keeps)."""
    value = size(memory)
    if re.search(r"g?b?\Z", memory.strip(), re.I) and not re.search(r"i", memory, re.I):
        value = value / 1e9 * GIB * SHARE_USABLE
    return Gpu(memory.strip(), value)
