"""The shape of a named model, as the worker's decoder takes it. Pure."""

from __future__ import annotations

from typing import Any

from dslint.errors import UsageError
from dslint.verify.plan import Shape


def named(word: str) -> tuple[Any, Shape, list[str]]:
    """The model that `--model` means: as the predictor knows it, as the decoder takes it, and what is to be
    said about it. Raises UsageError where it is no decoder of equal layers."""
    from dslint.memory.models import model

    known = model(word)
    return known, decoder(known), list(known.notes)


def of_file(path: str) -> Any:
    """The shape of a config.json as the memory model knows it, None where it does not."""
    from dslint.memory.models import model

    try:
        return model(path)
    except UsageError:
        return None


def of_decoder(shape: Shape) -> Any:
    """The built-in decoder's shape as the memory model knows shapes."""
    from dslint.memory.families import shape_of

    return shape_of(
        {
            "model_type": "llama",
            "hidden_size": shape.hidden,
            "intermediate_size": shape.ffn,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "vocab_size": shape.vocab,
            "tie_word_embeddings": shape.tied,
        },
        shape.name,
    )


def decoder(known: Any) -> Shape:
    """The decoder of a known shape."""
    from dslint.memory.shapes import EMBEDDING, HEAD

    block = known.blocks[0] if len(known.blocks) == 1 else None
    if block is None or block.experts:
        kind = "a mixture of experts" if block is not None else "more than one stack of layers"
        raise UsageError(
            f"{known.name} has {kind}, which the built-in decoder cannot stand for; "
            "give its config.json: --hf-config"
        )
    tables = [t for t in known.tensors if t.role == EMBEDDING]
    words = next((t for t in tables if t.shape[0] == known.vocab), None)
    rows = sum(t.shape[0] * t.count for t in tables if t is not words and t.shape[-1] == block.hidden)
    width = words.shape[-1] if words is not None else block.hidden
    return Shape(
        name=known.name,
        hidden=block.hidden,
        layers=block.layers,
        heads=block.heads,
        kv_heads=max(1, block.heads * block.kv // block.attention),
        head_dim=block.attention // block.heads,
        ffn=block.ffn,
        vocab=known.vocab,
        gated=block.gated,
        rms=block.rms,
        bias=not block.rms,
        tied=not any(t.role == HEAD for t in known.tensors),
        positions=rows,
        embedding=0 if width == block.hidden else width,
    )
