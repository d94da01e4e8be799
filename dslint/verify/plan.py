"""What a worker is told to do, and the lines it answers with. Shared by both sides; imports neither torch
nor anything of the linter."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

INLINE = "inline:"
MARK = "@dslint-verify@"
"""Begins a line that a worker prints where it shares no folder with who started it."""

PHASES = ("import", "connect", "build", "initialize", "warm-up", "step", "report")
"""What a rank does, in this order; a failure is reported in one of them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder-only transformer. The default is small on purpose: it proves function, not size."""

    name: str = "a small decoder (2 layers, hidden size 64)"
    hidden: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 4
    head_dim: int = 16
    ffn: int = 192
    vocab: int = 512
    gated: bool = True
    """SwiGLU, three matrices; else GELU, two."""
    rms: bool = True
    """RMSNorm; else LayerNorm, which has biases."""
    bias: bool = False
    tied: bool = False
    """Input and output embeddings are one matrix."""
    positions: int = 0
    """Rows of a learned position embedding; 0: rotary positions, which have no parameters."""
    embedding: int = 0
    """Columns of the embedding where they are not `hidden`; 0: they are."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a worker needs. `config` is the DeepSpeed config with what a trainer fills filled in."""

    config: dict[str, Any]
    device: str = "cuda"
    shape: Shape = field(default_factory=Shape)
    hf_config: str = ""
    module: str = ""
    sequence: int = 128
    steps: int = 1
    trainer: str = "raw"
    checkpointing: bool = False
    attention: str = "flash"
    zero_init: bool = True
    fill_hidden: tuple[str, ...] = ()
    """Keys of the config that hold "auto" and that a trainer fills from the model's hidden size."""
    memory_limit: int = 0
    """Bytes each rank may allocate (0: as many as there are): a smaller card, or less host memory."""
    folder: str = ""
    """Where each rank writes its lines; empty: it prints them."""
    parent: int = 0
    """Process whose end ends the ranks; 0: none that they could see."""
    fault: str = ""
    """For tests: what goes wrong in which rank and when, such as "kill 1 step"."""

    def encode(self) -> str:
        """The plan as one command-line argument."""
        data = json.dumps(asdict(self)).encode()
        return INLINE + base64.urlsafe_b64encode(zlib.compress(data)).decode()

    def write(self, path: Path) -> None:
        """The plan as a file."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(argument: str) -> Plan:
    """The plan that a worker's argument is or names."""
    if argument.startswith(INLINE):
        text = zlib.decompress(base64.urlsafe_b64decode(argument[len(INLINE) :])).decode()
    else:
        text = Path(argument).read_text(encoding="utf-8")
    data = json.loads(text)
    data["shape"] = Shape(**data["shape"])
    data["fill_hidden"] = tuple(data["fill_hidden"])
    return Plan(**data)
