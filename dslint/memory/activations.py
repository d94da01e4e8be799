"""What the forward pass keeps for the backward pass, in bytes.

Counted on transformers 5.24 with saved-tensor hooks, architecture by architecture
(tests/test_memory_activations.py repeats it); attention "flash" means any kernel that keeps no scores:
FlashAttention and PyTorch's scaled dot product attention.
"""

from __future__ import annotations

from dslint.memory.shapes import MLPS, NORMS, ROUTERS, SCORES, Block

FULL, LORA = "full", "lora"
"""How the weights of a block train: themselves, or through adapters beside frozen weights."""


def per_token(block: Block, size: int, seq_len: int, eager: bool, method: str = FULL) -> float:
    """Bytes one layer keeps for one token; without what adapters keep of their own.

    `size` is the bytes of an element of the training type.
    """
    full = method == FULL
    eager = eager or block.eager_only
    wide, narrow = NORMS[block.norm][0 if full else 1]
    norm = 4.0 * wide + size * narrow
    hidden = norm * block.norms
    if block.shared_input and block.norm == "layer":
        hidden = norm  # all of them keep the one tensor they read
    if full:  # what the first matrices of each attention and of the MLP read; together, if normalized once
        hidden += size * (1 if block.norms == 1 else block.attentions + 1)
    if block.top_k:
        wide, narrow = ROUTERS[block.router]
        hidden += size * block.top_k * (2 if full else 1) + size * narrow + (4 * wide if full else 0)
    hidden += block.dropouts
    attention = float(size * (2 * block.attention + 2 * block.kv))
    if block.head_norms:
        attention += norm * (block.attention + block.kv)
    attention += (norm + (size if full else 0)) * block.latent
    attention += _scores(block, size, seq_len, full) if eager else _kernel(block, size)
    inner, last = MLPS[block.mlp]
    return hidden * block.hidden + attention + size * (inner + (last if full else 0)) * block.ffn


def _kernel(block: Block, size: int) -> float:
    """Bytes of attention without scores besides queries, keys, values and output."""
    statistics = 4.0 * block.heads * block.attentions
    return statistics + (size * (block.attention + block.kv) if block.fused else 0)


def _scores(block: Block, size: int, seq_len: int, full: bool) -> float:
    """The same of attention that stores its scores: they, and copies of keys and values for every head.

    Of more than one sequence, whose queries, keys and values are copied to be multiplied: a product
    they are slices of does not stay alive.
    """
    wide, narrow, product = SCORES[block.scores]
    one = 4.0 * wide + size * narrow
    if block.score_dropout:
        one += 1 + (0 if wide else size)  # the mask; the dropped copy, which else is the converted one
    elif wide and size == 4:
        one -= size  # nothing to convert
    kept = one * block.heads * block.attentions * seq_len
    kept += size * 2.0 * max(0, block.attention - block.kv)
    if product:
        kept += (4 - size) * 2.0 * block.attention
    return kept - (0 if full else size * block.attention)  # the output is the input of a frozen matrix


def adapters(inputs: float, rank: float, matrices: float, size: int) -> float:
    """Bytes that LoRA adapters of one layer keep for one token.

    Each of `matrices` adapters keeps its input after dropout, the mask and its narrow product;
    `inputs` is the sum of the input widths, `size` the bytes of an element of an adapter.
    """
    return (size + 1) * inputs + size * rank * matrices


def checkpoint(block: Block, size: int) -> float:
    """Bytes one layer keeps for one token under activation checkpointing: its input."""
    return float(size * block.hidden)
