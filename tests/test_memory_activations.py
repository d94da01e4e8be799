"""What layers keep for the backward pass, against transformers on the CPU, by saved-tensor hooks."""

from __future__ import annotations

from typing import Any

import pytest

from dslint.memory import activations
from dslint.memory.families import shape_of
from dslint.memory.models import table

pytestmark = pytest.mark.slow

HIDDEN, FFN, HEADS, KV_HEADS, VOCAB, BATCH, TOKENS = 256, 640, 8, 4, 512, 2, 192
"""Different widths, so that no count can stand for another; more than one sequence, see `_scores`."""
DIM = HIDDEN // HEADS
NARROW = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim"), HIDDEN),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "moe_intermediate_size", "d_ff"), FFN),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads"), HEADS),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("head_dim", "d_kv"), DIM),
    "num_key_value_heads": KV_HEADS,
    "num_experts_per_tok": 2,
    "shared_expert_intermediate_size": FFN + 64,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 8,
    "v_head_dim": 24,
    "kv_lora_rank": 40,
    "vocab_size": VOCAB,
}
ALSO = {
    "gptj": {"rotary_dim": 16},
    "t5": {"decoder_start_token_id": 0},
    "mt5": {"decoder_start_token_id": 0},
    "deepseek_v3": {"q_lora_rank": 48, "n_group": 1, "topk_group": 1, "num_key_value_heads": HEADS},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "phimoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "glm4": {"head_dim": DIM},
}
"""What a narrow config of an architecture needs besides."""

KINDS = (
    "bert", "cohere", "cohere2", "deepseek_v2", "deepseek_v3", "gemma", "gemma2", "gemma3_text", "glm4", "gpt2",
    "gpt_bigcode", "gpt_neox", "gpt_oss", "gptj", "granite", "llama", "mistral", "mixtral", "mt5", "olmo", "olmo2",
    "olmoe", "opt", "phi", "phi3", "phimoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "roberta", "stablelm",
    "starcoder2", "t5",
)  # fmt: skip
ONLY_EAGER = ("bloom", "falcon", "gpt_neo", "mpt")
"""Those whose other kinds of attention transformers does not take from its interface, if it has any."""


def narrow(kind: str, layers: int, **rates: float) -> dict[str, Any]:
    """A small config of an architecture."""
    wanted = kind if any(entry["config"]["model_type"] == kind for entry in table()) else "llama"
    entry = next(entry for entry in table() if entry["config"]["model_type"] == wanted)
    config = {key: NARROW.get(key, value) for key, value in entry["config"].items()}
    for key in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
        if key in config:
            config[key] = layers
    if kind == "gpt_neo":
        config["attention_types"] = [[["global", "local"], layers // 2]]
    return {**config, **ALSO.get(kind, {}), "model_type": kind, "pad_token_id": 0, **rates}


def kept(config: dict[str, Any], attention: str, train: str, checkpointing: bool = False) -> int:
    """Bytes the forward pass of a model keeps for its backward pass, parameters and buffers left out."""
    import torch
    import transformers
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    class Kernel(torch.autograd.Function):
        """Stands for a kernel without scores: it keeps its inputs, its output and the softmax statistics."""

        @staticmethod
        def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
            out = q.new_empty(*q.shape[:3], v.shape[-1]).transpose(1, 2).contiguous()
            ctx.save_for_backward(q, k, v, out, torch.empty(q.shape[:3], dtype=torch.float32))
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise NotImplementedError

    def kernel(module: Any, query: Any, key: Any, value: Any, mask: Any, **more: Any) -> Any:
        return Kernel.apply(query, key, value), None

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        """What a GPU runs, which keeps a mask of one byte; on the CPU a mask of the tensor's own type."""
        return torch.native_dropout(input, p, True)[0] if training and p else input

    AttentionInterface.register("no_scores", kernel)
    AttentionMaskInterface.register("no_scores", lambda *a, **k: None)
    auto = {
        **dict.fromkeys(("bert", "roberta"), transformers.AutoModelForMaskedLM),
        **dict.fromkeys(("t5", "mt5"), transformers.AutoModelForSeq2SeqLM),
    }.get(config["model_type"], transformers.AutoModelForCausalLM)
    made = transformers.AutoConfig.for_model(**config)
    made.use_cache = False
    model = auto.from_config(made, attn_implementation="no_scores" if attention == "flash" else attention)
    model = model.to(torch.bfloat16).train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    if train == "none":
        for parameter in model.parameters():
            parameter.requires_grad = False
        model.get_input_embeddings().weight.requires_grad = True
    owned = (*model.parameters(), *model.buffers())
    own = {tensor.untyped_storage().data_ptr() for tensor in owned}
    seen: dict[int, tuple[int, Any]] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = (storage.nbytes(), storage)  # held, so that no address comes twice
        return tensor

    torch.set_num_threads(1)  # tiny matrices; threads would only wait for each other
    tokens = torch.randint(3, VOCAB, (BATCH, TOKENS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "dropout", dropout)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(input_ids=tokens, labels=tokens)
    return sum(size for size, _ in seen.values())


def a_layer(kind: str, attention: str, train: str, checkpointing: bool = False, **rates: float) -> float:
    """Bytes a token leaves in one layer, as transformers runs it."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    four, two = (kept(narrow(kind, layers, **rates), attention, train, checkpointing) for layers in (4, 2))
    return (four - two) / 2 / BATCH / TOKENS


def check(kind: str, attention: str, train: str, **rates: float) -> None:
    method = activations.FULL if train == "all" else activations.LORA
    blocks = shape_of(narrow(kind, 2, **rates)).blocks
    predicted = sum(activations.per_token(block, 2, TOKENS, attention == "eager", method) for block in blocks)
    assert predicted == pytest.approx(a_layer(kind, attention, train, **rates), rel=0.012)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_that_trains(kind: str) -> None:
    check(kind, "flash", "all")


@pytest.mark.parametrize("kind", [*KINDS, *ONLY_EAGER])
def test_a_frozen_layer_with_scores(kind: str) -> None:
    check(kind, "eager", "none")


@pytest.mark.parametrize("kind", ["llama", "qwen3", "deepseek_v2", "mixtral", "cohere"])
def test_a_frozen_layer(kind: str) -> None:
    check(kind, "flash", "none")


@pytest.mark.parametrize("kind", ["llama", "gpt2", "opt", "t5", *ONLY_EAGER])
def test_a_layer_with_scores(kind: str) -> None:
    check(kind, "eager", "all")


@pytest.mark.parametrize(
    "kind, rates",
    [
        ("gpt2", {"resid_pdrop": 0.0, "attn_pdrop": 0.0}),
        ("gptj", {"resid_pdrop": 0.1, "attn_pdrop": 0.1}),
        ("bert", {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
        ("opt", {"dropout": 0.0, "attention_dropout": 0.1}),
        ("phi", {"resid_pdrop": 0.1}),
        ("starcoder2", {"residual_dropout": 0.1, "attention_dropout": 0.1}),
        ("llama", {"attention_dropout": 0.1}),
    ],
)
def test_a_layer_with_another_dropout(kind: str, rates: dict[str, float]) -> None:
    check(kind, "eager", "all", **rates)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "mixtral", "gemma2"])
def test_a_checkpointed_layer(kind: str) -> None:
    block = shape_of(narrow(kind, 2)).blocks[0]
    assert a_layer(kind, "eager", "all", checkpointing=True) == activations.checkpoint(block, 2)
