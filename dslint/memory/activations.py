"""What the forward pass keeps for the backward pass, in bytes.

Counted on transformers 5.24 with saved-tensor hooks, architecture by architecture
(tests/test_memory_activations.py repeats it); attention "flash" means any kernel that keeps no scores:
FlashAttention and PyTorch's scaled dot product attention.
"""

from __future__ import annotations

from dslint.memory.shapes import MLPS, NORMS, Block

FULL, LORA = "full", "lora"
"""How the weights of a block train: themselves, or through adapters beside frozen weights."""


def per_token(block: Block, size: int, seq_len: int, eager: bool, method: str = FULL) -> float:
    """Bytes one layer keeps for one token; without what adapters keep of their own.

    `size` is the bytes of an element of the training type.
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
    if full:
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
    inner, last = MLPS[block.mlp]
    return hidden * block.hidden + attention + size * (inner + (last if full else 0)) * block.ffn


def adapters(inputs: float, rank: float, matrices: float, size: int) -> float:
    """Bytes that LoRA adapters of one layer keep for one token.

    Each of `matrices` adapters keeps its input after dropout, the mask and its narrow product;
    `inputs` is the sum of the input widths, `size` the bytes of an element of an adapter.
    """
    return (size + 1) * inputs + size * rank * matrices


def checkpoint(block: Block, size: int) -> float:
    """Bytes one layer keeps for one token under activation checkpointing: its input."""
    return float(size * block.hidden)
