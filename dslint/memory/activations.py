"""What the forward pass keeps for the backward pass, in bytes.

Counted on transformers 5.24 with saved-tensor hooks, architecture by architecture
(tests/test_memory_live.py repeats it); attention "flash" means any kernel that keeps no scores:
FlashAttention and PyTorch's scaled dot product attention.
"""

from __future__ import annotations

from dslint.memory.shapes import MLPS, NORMS, Block

FULL, LORA = "full", "lora"
"""How the weights of a block train: themselves, or through adapters beside frozen weights."""


def per_token(block: Block, size: int, seq_len: int, eager: bool, method: str = FULL, rank: int = 16) -> float:
    """Bytes one layer keeps for one token.

    `size` is the bytes of an element of the training type, `rank` that of the adapters.
    """
    full = method == FULL
    wide, narrow, only_full = NORMS[block.norm]
    hidden = 4.0 * block.norms * (wide - (0 if full else only_full))
    inputs = 1 if block.norms == 1 else 2  # attention and MLP read a normalized stream each, or one together
    if block.norm == "layer":
        kept = 1 if block.shared_input else block.norms
        hidden += size * narrow * kept
    elif full:
        hidden += size * narrow * block.norms
    hidden += size * inputs  # what the first matrices of attention and of the MLP read
    if block.top_k:
        hidden += size * 2 * block.top_k if full else size * block.top_k
    hidden += block.dropouts
    attention = size * (2.0 * block.attention + 2.0 * block.kv)
    if block.fused:
        attention += size * (block.attention + block.kv)
    attention += 4.0 * block.heads  # the softmax statistics a kernel without scores keeps
    if block.head_norms:
        attention += (4.0 * wide + size * narrow) * (block.attention + block.kv)
    if eager or block.eager_only:
        attention += 6.0 * size / 2 * block.heads * seq_len
        attention += size * 2.0 * (block.attention - block.kv) - 4.0 * block.heads
    total = hidden * block.hidden + attention + size * sum(MLPS[block.mlp]) * block.ffn
    if method == LORA:
        total += size * rank * 7
    return total


def checkpoint(block: Block, size: int) -> float:
    """Bytes one layer keeps for one token under activation checkpointing: its input."""
    return float(size * block.hidden)
