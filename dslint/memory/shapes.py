"""Model shapes: every parameter tensor of a model, and what its layers keep for the backward pass.

Counts are elements, not bytes, unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

ATTENTION, MLP, EXPERT = "attention", "mlp", "expert"
"""Roles of the matrices inside a block; LoRA puts adapters on those of attention and mlp."""
EMBEDDING, HEAD, ROUTER, VECTOR, VISION = "embedding", "head", "router", "vector", "vision"


@dataclass(frozen=True, slots=True)
class Tensor:
    """Parameters of one size: `count` tensors of `shape` that play the same role."""

    role: str
    shape: tuple[int, ...]
    count: int = 1

    @property
    def numel(self) -> int:
        """Elements of one of them."""
        return prod(self.shape)

    @property
    def total(self) -> int:
        """Elements of all of them."""
        return self.numel * self.count


@dataclass(frozen=True, slots=True)
class Block:
    """A stack of equal layers, described by what a token leaves behind in each for the backward pass.

    `attention` is the width of queries, `kv` that of keys (and of values), `ffn` the width one token
    passes through in the MLP: the intermediate size, or those of the experts it is sent to; where a layer
    has several `attentions` (a decoder that looks at an encoder), the widths are their sums. `fused`:
    queries, keys and values are slices of one product, which stays alive beside the rotated copies.
    `latent`: the width of normalized vectors that queries, keys or values are unpacked from.
    `shared_input`: all normalizations read one tensor. `dropouts` are those of the hidden state;
    `score_dropout` says whether attention has one. What `norm`, `mlp`, `scores` and `router` keep a
    token: NORMS, MLPS, SCORES, ROUTERS.
    """

    layers: int
    hidden: int
    heads: int
    attention: int
    kv: int
    ffn: int
    norm: str = "rms"
    norms: int = 2
    mlp: str = "gated"
    fused: bool = False
    shared_input: bool = False
    head_norms: bool = False
    experts: int = 0
    top_k: int = 0
    dropouts: int = 0
    eager_only: bool = False
    attentions: int = 1
    latent: int = 0
    scores: str = "wide"
    score_dropout: bool = False
    router: str = "plain"

    @property
    def gated(self) -> bool:
        """Whether the MLP has three matrices, two of which read the same input."""
        return self.mlp.startswith("gated")

    @property
    def rms(self) -> bool:
        """Whether normalization only scales; else it has a bias."""
        return not self.norm.startswith("layer")


NORMS = {
    "rms": ((1, 1), (1, 0)),
    "rms-t5": ((1, 2), (1, 1)),
    "gemma": ((2, 0), (1, 0)),
    "layer": ((0, 1), (0, 1)),
    "layer-wide": ((1, 0), (1, 0)),
    "layer-python": ((3, 0), (2, 0)),
}
"""Kind -> elements a normalization keeps a token and hidden unit, when its weight trains and when it is
frozen: 32-bit ones and ones of the training type. Its output, which a linear layer keeps as its input,
counts apart. This table and those below: counted with saved-tensor hooks on transformers 5.24."""

MLPS = {
    "gated": (3.0, 1),
    "gated-clamped": (6.0, 1),
    "gelu": (1.0, 1),
    "gelu-python": (4.0, 1),
    "relu": (1.0, 0),
    "relu-dropout": (1.5, 1),
    "gated-dropout": (3.5, 1),
    "gated-gelu-python-dropout": (6.5, 1),
}
"""Kind -> elements an MLP keeps a token and unit of its width, without and as the last matrix's input."""

SCORES = {
    "wide": (1, 1, False),
    "wide-product": (1, 1, True),
    "wide-capped": (1, 2, False),
    "narrow": (0, 1, False),
}
"""Kind -> elements that attention which stores its scores keeps a query, key and head, dropout left out:
32-bit ones and ones of the training type; and whether it multiplies queries and keys in 32 bits."""

ROUTERS = {"plain": (0, 0), "wide": (1, 0), "gated-shared": (0, 1)}
"""Kind -> elements a layer of experts keeps a token and hidden unit besides what its MLP reads: 32-bit
ones while the router trains (its 32-bit input), ones of the training type (the output of the shared
expert, which a gate scales)."""


@dataclass(frozen=True)
class Shape:
    """A model as the predictor sees it.

    `notes` say in words what was assumed; `upcast_logits`: the loss is computed on a 32-bit copy of
    the logits, as Hugging Face's causal language models do. `published`: the type of the weights as the
    config gives it, such as bfloat16.
    """

    name: str
    tensors: tuple[Tensor, ...]
    blocks: tuple[Block, ...]
    vocab: int
    positions: int = 0
    upcast_logits: bool = True
    notes: tuple[str, ...] = ()
    family: str = ""
    published: str = ""

    @cached_property
    def parameters(self) -> int:
        """All parameters."""
        return sum(t.total for t in self.tensors)

    @cached_property
    def hidden(self) -> int:
        """The width that HF Trainer takes its automatic bucket sizes from: the largest hidden size."""
        return max((block.hidden for block in self.blocks), default=0)

    @cached_property
    def layers(self) -> int:
        """Layers of all stacks."""
        return sum(block.layers for block in self.blocks)

    @cached_property
    def largest(self) -> int:
        """Elements of the largest single tensor."""
        return max((t.numel for t in self.tensors), default=0)

    @cached_property
    def matrices(self) -> int:
        """Elements of two-dimensional weights inside the blocks, which Muon treats apart."""
        return sum(t.total for t in self.tensors if t.role in (ATTENTION, MLP, EXPERT, ROUTER))

    @cached_property
    def embeddings(self) -> int:
        """Elements of embedding tables and of an untied head."""
        return sum(t.total for t in self.tensors if t.role in (EMBEDDING, HEAD))

    @cached_property
    def computing(self) -> int:
        """Parameters that multiply each token: without embedding tables and experts it is not sent to."""
        total = self.parameters - sum(t.total for t in self.tensors if t.role == EMBEDDING)
        if not any(t.role == HEAD for t in self.tensors):
            total += self.vocab * self.hidden  # a tied embedding multiplies as the head
        experts = sum(t.total for t in self.tensors if t.role == EXPERT)
        of = max((b.experts for b in self.blocks), default=0)
        used = max((b.top_k for b in self.blocks), default=0)
        return total - (experts * (of - used) // of if of else 0)

    def small(self, threshold: int) -> int:
        """Elements of all tensors of at most `threshold` elements."""
        return sum(t.total for t in self.tensors if t.numel <= threshold)

    def adapted(self, attention_only: bool = False) -> tuple[float, float, float]:
        """What LoRA on the linear layers of the blocks (not on experts) meets in an average layer: the sum
        of input widths, of input and output widths, and the number of matrices."""
        roles = (ATTENTION,) if attention_only else (ATTENTION, MLP)
        linear = [t for t in self.tensors if t.role in roles and len(t.shape) == 2]
        layers = max(1, self.layers)
        inputs = sum(t.shape[1] * t.count for t in linear) / layers
        widths = sum(sum(t.shape) * t.count for t in linear) / layers
        return inputs, widths, sum(t.count for t in linear) / layers

    def adapters(self, rank: int) -> int:
        """Elements of LoRA adapters of a rank on every linear layer of the blocks but experts."""
        return round(rank * self.adapted()[1] * self.layers)
