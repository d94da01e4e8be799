"""What layers keep for the backward pass, against transformers on the CPU, by saved-tensor hooks."""

from __future__ import annotations

from typing import Any

import pytest

from dslint.memory import activations
from dslint.memory.families import shape_of
from dslint.memory.models import table

pytestmark = pytest.mark.slow

HIDDEN, FFN, HEADS, KV_HEADS, VOCAB, TOKENS = 256, 640, 4, 2, 512, 256
NARROW = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim"), HIDDEN),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "moe_intermediate_size"), FFN),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads"), HEADS),
    **dict.fromkeys(("num_local_experts", "num_experts"), 4),
    "num_key_value_heads": KV_HEADS,
    "num_experts_per_tok": 2,
    "head_dim": HIDDEN // HEADS,
    "vocab_size": VOCAB,
}

KINDS = ("llama", "qwen2", "qwen3", "gemma2", "mistral", "mixtral", "qwen3_moe", "phi", "gpt2", "gptj",
         "gpt_neox", "bloom", "opt", "starcoder2", "stablelm", "olmo2", "bert")  # fmt: skip


def narrow(kind: str, layers: int) -> dict[str, Any]:
    """A small config of an architecture."""
    entry = next(entry for entry in table() if entry["config"]["model_type"] == kind)
    config = {key: NARROW.get(key, value) for key, value in entry["config"].items()}
    for key in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
        if key in config:
            config[key] = layers
    return config


def kept(kind: str, layers: int, attention: str, train: str) -> int:
    """Bytes the forward pass of a model keeps for its backward pass, parameters left out."""
    import torch
    import transformers
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    class Kernel(torch.autograd.Function):
        """Stands for a kernel without scores: it keeps its inputs, its output and the softmax statistics."""

        @staticmethod
        def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
            out = torch.empty_like(q.transpose(1, 2).contiguous())
            ctx.save_for_backward(q, k, v, out, torch.empty(q.shape[:3], dtype=torch.float32))
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise NotImplementedError

    def kernel(module: Any, query: Any, key: Any, value: Any, mask: Any, **more: Any) -> Any:
        return Kernel.apply(query, key, value), None

    AttentionInterface.register("no_scores", kernel)
    for name in ("no_scores", "eager"):
        AttentionMaskInterface.register(name, lambda *a, **k: None)
    config = transformers.AutoConfig.for_model(**narrow(kind, layers))
    config.use_cache = False
    auto = transformers.AutoModelForMaskedLM if kind == "bert" else transformers.AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation="no_scores" if attention == "flash" else attention)
    model = model.to(torch.bfloat16).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # on the CPU dropout keeps twice what it keeps on a GPU
    if train == "none":
        for parameter in model.parameters():
            parameter.requires_grad = False
        model.get_input_embeddings().weight.requires_grad = True
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    seen: dict[int, tuple[int, Any]] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = (storage.nbytes(), storage)  # held, so that no address comes twice
        return tensor

    tokens = torch.zeros(1, TOKENS, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(input_ids=tokens, labels=tokens)
    return sum(size for size, _ in seen.values())


def off(kind: str, measured: int, predicted: int) -> Any:
    """An architecture whose prediction is known to be off, by how many bytes a token and layer."""
    reason = f"transformers 5.24 keeps {measured} bytes a token, predicted are {predicted}"
    return pytest.param(kind, marks=pytest.mark.xfail(reason=reason, strict=True))


OFF = {"gptj": (13844, 13328), "opt": (6424, 5392)}
OFF_WITH_SCORES = {"gpt2": (16392, 20480), "opt": (12552, 11520)}


def check(kind: str, attention: str, train: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    measured = (kept(kind, 4, attention, train) - kept(kind, 2, attention, train)) / 2 / TOKENS
    block = shape_of(narrow(kind, 2)).blocks[0]
    method = activations.FULL if train == "all" else activations.LORA
    predicted = activations.per_token(block, 2, TOKENS, attention == "eager", method)
    predicted -= block.dropouts * block.hidden
    assert predicted == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize("kind", [off(kind, *OFF[kind]) if kind in OFF else kind for kind in KINDS])
def test_a_layer_that_trains(kind: str) -> None:
    check(kind, "eager" if kind == "bloom" else "flash", "all")


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gemma2", "phi", "gpt_neox"])
def test_a_frozen_layer(kind: str) -> None:
    check(kind, "flash", "none")


@pytest.mark.parametrize(
    "kind", ["llama", "qwen2", "gpt_neox", *(off(kind, *known) for kind, known in OFF_WITH_SCORES.items())]
)
def test_a_layer_with_scores(kind: str) -> None:
    check(kind, "eager", "all")
