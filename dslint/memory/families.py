"""Hugging Face configs to shapes: every parameter tensor of an architecture from its config.json.

One function a family of architectures. Tested against transformers on the meta device, tensor by
tensor; the families that only remote code defines (ChatGLM, Qwen 1, Baichuan, InternLM 2) against
the parameter counts of their published weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dslint.memory.shapes import (
    ATTENTION,
    EMBEDDING,
    EXPERT,
    HEAD,
    MLP,
    ROUTER,
    VECTOR,
    VISION,
    Block,
    Shape,
    Tensor,
)

Raw = dict[str, Any]
Build = Callable[["Fields"], tuple[list[Tensor], tuple[Block, ...]]]


class ShapeError(ValueError):
    """A model config that no shape can be made from; the message says why, in one line."""


class Fields:
    """A config.json with typed access. Raises ShapeError naming the key that is missing or odd."""

    def __init__(self, data: Raw) -> None:
        self.data = data

    def int(self, *names: str, default: int | None = None) -> int:
        """The first of the names that is given, as a whole number above zero."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
                raise ShapeError(f"{name} in the model config is {value!r}, not a whole number")
            if not 0 <= value < 1e15:
                raise ShapeError(f"{name} in the model config is {value!r}, which no model has")
            return int(value)
        if default is None:
            raise ShapeError(f"the model config does not say {names[0]}")
        return default

    def rate(self, name: str, default: float) -> bool:
        """Whether a rate of dropout is above zero."""
        value = self.data.get(name, default)
        return isinstance(value, (int, float)) and value > 0

    def flag(self, *names: str, default: bool = False) -> bool:
        """The first of the names that is given, as a truth value."""
        for name in names:
            value = self.data.get(name)
            if value is not None:
                return bool(value)
        return default

    def text(self, name: str, default: str = "") -> str:
        """A text, or the default."""
        value = self.data.get(name)
        return value if isinstance(value, str) else default

    def section(self, name: str) -> Fields | None:
        """A config inside the config, or None."""
        value = self.data.get(name)
        return Fields(value) if isinstance(value, dict) else None


def linear(role: str, rows: int, columns: int, bias: bool, count: int) -> list[Tensor]:
    """The tensors of `count` linear layers."""
    weight = Tensor(role, (rows, columns), count)
    return [weight, Tensor(VECTOR, (rows,), count)] if bias else [weight]


def vectors(size: int, count: int) -> list[Tensor]:
    """`count` vectors of a size."""
    return [Tensor(VECTOR, (size,), count)] if count else []


def table(vocab: int, width: int, tied: bool, head_bias: bool = False) -> list[Tensor]:
    """The token embedding and, unless tied to it, the head."""
    tensors = [Tensor(EMBEDDING, (vocab, width))]
    if not tied:
        tensors.append(Tensor(HEAD, (vocab, width)))
    return tensors + (vectors(vocab, 1) if head_bias else [])


# Llama and what is built like it

_LLAMA: dict[str, dict[str, Any]] = {
    "llama": {},
    "yi": {},
    "deepseek": {},
    "internlm2": {},
    "aquila": {},
    "xverse": {},
    "mistral": {},
    "ministral": {},
    "smollm3": {"tied": True},
    "qwen2": {"qkv_bias": True},
    "qwen3": {"head_norms": True, "head_dim": 128},
    "gemma": {"tied": True, "head_dim": 256, "norm": "gemma"},
    "gemma2": {"tied": True, "head_dim": 256, "norms": 4, "norm": "gemma"},
    "gemma3_text": {"tied": True, "head_dim": 256, "norms": 4, "norm": "gemma", "head_norms": True},
    "phi3": {"fused": True},
    "phimoe": {"qkv_bias": True, "norm": "layer"},
    "granite": {},
    "olmo": {"norms": 0, "norm": "layer-wide"},
    "olmo2": {"wide_norms": True, "norm": "gemma"},
    "olmo3": {"wide_norms": True, "norm": "gemma"},
    "mixtral": {},
    "qwen2_moe": {"qkv_bias": True},
    "qwen3_moe": {"head_norms": True, "head_dim": 128},
    "olmoe": {"wide_norms": True},
    "glm": {"qkv_bias": True, "fused_mlp": True, "head_dim": 128},
    "glm4": {"qkv_bias": True, "fused_mlp": True, "norms": 4, "head_dim": 128},
}
"""Architectures of the Llama plan: token embedding, layers of gated MLP and attention, norm, head."""


def llama(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """Llama, Mistral, Qwen 2 and 3, Gemma, Phi-3, GLM-4, OLMo, Granite, Mixtral and their like."""
    kind = c.text("model_type")
    plan = _LLAMA[kind]
    h, layers = c.int("hidden_size"), c.int("num_hidden_layers")
    heads = c.int("num_attention_heads")
    kv_heads = c.int("num_key_value_heads", default=heads)
    dim = c.int("head_dim", default=plan.get("head_dim") or h // max(heads, 1))
    q, kv = heads * dim, kv_heads * dim
    all_bias = c.flag("attention_bias", "bias")
    qkv_bias = all_bias or bool(plan.get("qkv_bias"))
    if kind in ("glm", "glm4"):
        qkv_bias, all_bias = c.flag("attention_bias", default=kind == "glm"), False
    if kind == "qwen2_moe":
        qkv_bias = c.flag("qkv_bias", default=True)
    if kind == "phimoe":
        qkv_bias = all_bias = c.flag("attention_bias")
    tensors = table(c.int("vocab_size"), h, c.flag("tie_word_embeddings", default=bool(plan.get("tied"))))
    if plan.get("fused"):
        tensors += linear(ATTENTION, q + 2 * kv, h, False, layers)
    else:
        tensors += linear(ATTENTION, q, h, qkv_bias, layers) + linear(ATTENTION, kv, h, qkv_bias, 2 * layers)
    tensors += linear(ATTENTION, h, q, all_bias, layers)
    norms = int(plan.get("norms", 2))
    tensors += vectors(h, norms * layers + (1 if norms else 0))
    if plan.get("head_norms"):
        tensors += vectors(dim, 2 * layers)
    if plan.get("wide_norms"):
        tensors += vectors(q, layers) + vectors(kv, layers)
    mlp, ffn, experts, top_k = _mlp(c, h, layers, bool(plan.get("fused") or plan.get("fused_mlp")))
    capped = kind == "gemma2" and c.data.get("attn_logit_softcapping", 50.0) is not None
    return tensors + mlp, (
        Block(
            layers,
            h,
            heads,
            q,
            kv,
            ffn,
            str(plan.get("norm", "rms")),
            max(norms, 2),
            experts=experts,
            top_k=top_k,
            fused=bool(plan.get("fused")),
            head_norms=bool(plan.get("head_norms") or plan.get("wide_norms")),
            scores="wide-capped" if capped else "wide",
            score_dropout=c.rate("attention_dropout", 0.0),
            router="gated-shared" if kind == "qwen2_moe" else "plain",
        ),
    )


def _mlp(c: Fields, h: int, layers: int, fused: bool) -> tuple[list[Tensor], int, int, int]:
    """The MLPs of the layers, dense or of experts: tensors, width a token passes, experts, top k."""
    f = c.int("intermediate_size", default=0)
    experts = c.int("num_local_experts", "num_experts", "n_routed_experts", default=0)
    bias = c.flag("mlp_bias")
    if not experts:
        if fused:
            return linear(MLP, 2 * f, h, False, layers) + linear(MLP, h, f, False, layers), f, 0, 0
        return linear(MLP, f, h, bias, 2 * layers) + linear(MLP, h, f, bias, layers), f, 0, 0
    e = c.int("moe_intermediate_size", default=f)
    dense = set(c.data.get("mlp_only_layers") or ())
    step = c.int("decoder_sparse_step", default=1) or 1
    sparse = sum(1 for i in range(layers) if i not in dense and (i + 1) % step == 0)
    top_k = c.int("num_experts_per_tok", default=2)
    tensors = linear(MLP, f, h, False, 2 * (layers - sparse)) + linear(MLP, h, f, False, layers - sparse)
    tensors = [t for t in tensors if t.count]
    tensors += [Tensor(EXPERT, (experts, 2 * e, h), sparse), Tensor(EXPERT, (experts, h, e), sparse)]
    tensors += [Tensor(ROUTER, (experts, h), sparse)]
    shared = c.int("shared_expert_intermediate_size", default=0)
    if shared:
        tensors += linear(MLP, shared, h, False, 2 * sparse) + linear(MLP, h, shared, False, sparse)
        tensors += [Tensor(ROUTER, (1, h), sparse)]
    return tensors, top_k * e + shared, experts, top_k


def deepseek_moe(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """DeepSeek-V2 and V3: latent attention, shared and routed experts, first layers dense."""
    h, layers, heads = c.int("hidden_size"), c.int("num_hidden_layers"), c.int("num_attention_heads")
    rope, nope, v = c.int("qk_rope_head_dim"), c.int("qk_nope_head_dim"), c.int("v_head_dim")
    rank, q_rank = c.int("kv_lora_rank"), c.int("q_lora_rank", default=0)
    q = heads * (rope + nope)
    tensors = table(c.int("vocab_size"), h, c.flag("tie_word_embeddings"))
    bias = c.flag("attention_bias")
    if q_rank:
        tensors += linear(ATTENTION, q_rank, h, bias, layers) + vectors(q_rank, layers)
        tensors += linear(ATTENTION, q, q_rank, False, layers)
    else:
        tensors += linear(ATTENTION, q, h, False, layers)
    tensors += linear(ATTENTION, rank + rope, h, bias, layers) + vectors(rank, layers)
    tensors += linear(ATTENTION, heads * (nope + v), rank, False, layers)
    tensors += linear(ATTENTION, h, heads * v, bias, layers) + vectors(h, 2 * layers + 1)
    dense = min(c.int("first_k_dense_replace", default=0), layers)
    f, e, experts = c.int("intermediate_size"), c.int("moe_intermediate_size"), c.int("n_routed_experts")
    sparse, shared = layers - dense, c.int("n_shared_experts", default=0) * e
    for width, count in ((f, dense), (shared, sparse if shared else 0)):
        if count:
            tensors += linear(MLP, width, h, False, 2 * count) + linear(MLP, h, width, False, count)
    tensors += [Tensor(EXPERT, (experts, 2 * e, h), sparse), Tensor(EXPERT, (experts, h, e), sparse)]
    tensors += [Tensor(ROUTER, (experts, h), sparse)]
    top_k = c.int("num_experts_per_tok")
    return tensors, (
        Block(
            layers,
            h,
            heads,
            (q + heads * v) // 2,  # queries and the output
            (q + heads * (nope + v)) // 2,  # keys, and the product that values are a slice of
            top_k * e + shared,
            experts=experts,
            top_k=top_k,
            latent=rank + q_rank,
            router="wide",
        ),
    )


def gpt_oss(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """gpt-oss: grouped attention with biases and sinks, experts with biases."""
    h, layers, heads = c.int("hidden_size"), c.int("num_hidden_layers"), c.int("num_attention_heads")
    dim = c.int("head_dim", default=64)
    q, kv = heads * dim, c.int("num_key_value_heads") * dim
    e, experts, top_k = c.int("intermediate_size"), c.int("num_local_experts"), c.int("num_experts_per_tok")
    tensors = table(c.int("vocab_size"), h, c.flag("tie_word_embeddings"))
    tensors += linear(ATTENTION, q, h, True, layers) + linear(ATTENTION, kv, h, True, 2 * layers)
    tensors += linear(ATTENTION, h, q, True, layers) + vectors(heads, layers) + vectors(h, 2 * layers + 1)
    tensors += [Tensor(EXPERT, (experts, h, 2 * e), layers), Tensor(EXPERT, (experts, e, h), layers)]
    tensors += [Tensor(VECTOR, (experts, 2 * e), layers), Tensor(VECTOR, (experts, h), layers)]
    tensors += linear(ROUTER, experts, h, True, layers)
    block = Block(
        layers,
        h,
        heads,
        q,
        kv,
        top_k * e,
        norm="gemma",
        mlp="gated-clamped",
        experts=experts,
        top_k=top_k,
        scores="narrow",
    )
    return tensors, (block,)


# GPT and what is built like it: LayerNorm with bias, an MLP of two matrices


def gpt(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """GPT-2, GPT-Neo, GPT-J, GPT-NeoX, GPT-BigCode, BLOOM, OPT, MPT, Phi-1 and 2, Falcon, StarCoder 2,
    StableLM, Cohere."""
    kind = c.text("model_type")
    h = c.int("n_embd", "hidden_size", "d_model")
    layers = c.int("n_layer", "num_layers", "num_hidden_layers", "n_layers")
    heads = c.int("n_head", "num_heads", "num_attention_heads", "n_heads")
    vocab = c.int("vocab_size")
    f = c.int("n_inner", "intermediate_size", "ffn_dim", "ffn_hidden_size", default=4 * h)
    norms = 2 * layers + 1
    q = kv = h
    if kind == "gpt2":
        tensors = table(vocab, h, c.flag("tie_word_embeddings", default=True))
        tensors += [Tensor(EMBEDDING, (c.int("n_positions"), h))]
        tensors += _two(h, f, True, layers)
        tensors += linear(ATTENTION, 3 * h, h, True, layers) + linear(ATTENTION, h, h, True, layers)
    elif kind == "gpt_bigcode":
        kv = h // heads if c.flag("multi_query", default=True) else h
        tensors = table(vocab, h, c.flag("tie_word_embeddings", default=True))
        tensors += [Tensor(EMBEDDING, (c.int("n_positions"), h))]
        tensors += linear(ATTENTION, h + 2 * kv, h, True, layers) + linear(ATTENTION, h, h, True, layers)
        tensors += _two(h, f, True, layers)
    elif kind == "gpt_neo":
        tensors = table(vocab, h, c.flag("tie_word_embeddings", default=True))
        tensors += [Tensor(EMBEDDING, (c.int("max_position_embeddings"), h))]
        tensors += linear(ATTENTION, h, h, False, 3 * layers) + linear(ATTENTION, h, h, True, layers)
        tensors += _two(h, f, True, layers)
    elif kind == "gptj":
        norms = layers + 1
        tensors = table(vocab, h, False, head_bias=True)
        tensors += linear(ATTENTION, h, h, False, 4 * layers) + _two(h, f, True, layers)
    elif kind == "gpt_neox":
        bias = c.flag("attention_bias", default=True)
        tensors = table(vocab, h, c.flag("tie_word_embeddings"))
        tensors += linear(ATTENTION, 3 * h, h, bias, layers) + linear(ATTENTION, h, h, bias, layers)
        tensors += _two(h, f, True, layers)
    elif kind == "bloom":
        norms += 1
        tensors = table(vocab, h, c.flag("tie_word_embeddings", default=True))
        tensors += linear(ATTENTION, 3 * h, h, True, layers) + linear(ATTENTION, h, h, True, layers)
        tensors += _two(h, 4 * h, True, layers)
    elif kind == "opt":
        return _opt(c, h, layers, heads, vocab, f)
    elif kind == "mpt":
        f = c.int("expansion_ratio", default=4) * h
        tensors = table(vocab, h, True) + vectors(h, norms)
        tensors += linear(ATTENTION, 3 * h, h, False, layers) + linear(ATTENTION, h, h, False, layers)
        tensors += _two(h, f, False, layers)
        return tensors, (Block(layers, h, heads, h, h, f, "layer", 2, "gelu", eager_only=True),)
    elif kind == "phi":
        norms = layers + 1
        kv = c.int("num_key_value_heads", default=heads) * (h // heads)
        tensors = table(vocab, h, c.flag("tie_word_embeddings"), head_bias=True)
        tensors += linear(ATTENTION, h, h, True, 2 * layers) + linear(ATTENTION, kv, h, True, 2 * layers)
        tensors += _two(h, f, True, layers)
    elif kind == "falcon":
        return _falcon(c, h, layers, heads, vocab)
    elif kind == "starcoder2":
        bias = c.flag("use_bias", default=True)
        kv = c.int("num_key_value_heads") * (h // heads)
        tensors = table(vocab, h, c.flag("tie_word_embeddings", default=True))
        tensors += linear(ATTENTION, h, h, bias, 2 * layers) + linear(ATTENTION, kv, h, bias, 2 * layers)
        tensors += _two(h, f, bias, layers)
    elif kind == "stablelm":
        bias = c.flag("use_qkv_bias")
        kv = c.int("num_key_value_heads", default=heads) * (h // heads)
        norms = (1 if c.flag("use_parallel_residual") else 2) * layers + 1
        tensors = table(vocab, h, c.flag("tie_word_embeddings"))
        tensors += linear(ATTENTION, h, h, bias, layers) + linear(ATTENTION, kv, h, bias, 2 * layers)
        tensors += linear(ATTENTION, h, h, False, layers)
        tensors += linear(MLP, f, h, False, 2 * layers) + linear(MLP, h, f, False, layers)
    else:  # cohere, cohere2
        bias = c.flag("attention_bias")
        kv = c.int("num_key_value_heads", default=heads) * c.int("head_dim", default=h // heads)
        tensors = table(vocab, h, c.flag("tie_word_embeddings", default=True)) + vectors(h, layers + 1)
        tensors += linear(ATTENTION, h, h, bias, 2 * layers) + linear(ATTENTION, kv, h, bias, 2 * layers)
        tensors += linear(MLP, f, h, False, 2 * layers) + linear(MLP, h, f, False, layers)
        if c.flag("use_qk_norm"):
            tensors += [Tensor(VECTOR, (heads, h // heads), layers)]
            tensors += [Tensor(VECTOR, (kv // (h // heads), h // heads), layers)]
        head_norms = c.flag("use_qk_norm")
        return tensors, (Block(layers, h, heads, h, kv, f, "layer-python", 1, head_norms=head_norms),)
    tensors += vectors(h, 2 * norms)
    hidden, scores, rate = _DROPOUT.get(kind, ("", "", 0.0))
    mlp = "gated" if kind == "stablelm" else "gelu-python" if kind in _PYTHON_GELU else "gelu"
    return tensors, (
        Block(
            layers,
            h,
            heads,
            q,
            kv,
            f,
            "layer",
            1 if norms <= layers + 1 else 2,
            mlp,
            fused=kind == "gpt_neox",
            shared_input=kind == "gpt_neox",
            dropouts=2 if c.rate(hidden, rate) else 0,
            eager_only=kind == "bloom",
            scores=_SCORES.get(kind, "wide"),
            score_dropout=c.rate(scores, rate),
        ),
    )


_DROPOUT = {
    "gpt2": ("resid_pdrop", "attn_pdrop", 0.1),
    "gpt_bigcode": ("resid_pdrop", "attn_pdrop", 0.1),
    "gptj": ("resid_pdrop", "attn_pdrop", 0.0),
    "gpt_neo": ("resid_dropout", "attention_dropout", 0.0),
    "gpt_neox": ("hidden_dropout", "attention_dropout", 0.0),
    "bloom": ("hidden_dropout", "attention_dropout", 0.0),
    "phi": ("resid_pdrop", "attention_dropout", 0.0),
    "starcoder2": ("residual_dropout", "attention_dropout", 0.0),
}
"""Architecture -> keys of the rates of the two dropouts of the hidden state and of that of attention,
and what transformers takes where a config does not say."""

_SCORES = {"gpt2": "narrow", "gptj": "wide-product", "gpt_neo": "wide-product"}
"""Architectures whose stored scores are not those of Llama, see SCORES."""

_PYTHON_GELU = ("gpt2", "gpt_neo", "gptj", "phi")
"""Architectures whose published configs say gelu_new, which transformers writes out in Python."""


def _two(h: int, f: int, bias: bool, layers: int) -> list[Tensor]:
    """The MLPs of two matrices of the layers."""
    return linear(MLP, f, h, bias, layers) + linear(MLP, h, f, bias, layers)


def _opt(
    c: Fields, h: int, layers: int, heads: int, vocab: int, f: int
) -> tuple[list[Tensor], tuple[Block, ...]]:
    width = c.int("word_embed_proj_dim", default=h)
    bias = c.flag("enable_bias", default=True)
    tensors = table(vocab, width, c.flag("tie_word_embeddings", default=True))
    tensors += [Tensor(EMBEDDING, (c.int("max_position_embeddings") + 2, h))]
    if width != h:
        tensors += linear(MLP, width, h, False, 1) + linear(MLP, h, width, False, 1)
    final = c.flag("do_layer_norm_before", default=True) and not c.flag("_remove_final_layer_norm")
    tensors += linear(ATTENTION, h, h, bias, 4 * layers) + _two(h, f, bias, layers)
    tensors += vectors(h, 2 * (2 * layers + (1 if final else 0)))
    dropouts = 2 if c.rate("dropout", 0.1) else 0
    scores = c.rate("attention_dropout", 0.0)
    block = Block(layers, h, heads, h, h, f, "layer", 2, "relu", dropouts=dropouts, score_dropout=scores)
    return tensors, (block,)


def _falcon(c: Fields, h: int, layers: int, heads: int, vocab: int) -> tuple[list[Tensor], tuple[Block, ...]]:
    new = c.flag("new_decoder_architecture")
    bias = c.flag("bias")
    dim = h // heads
    kv_heads = c.int("num_kv_heads", default=heads) if new else heads
    if not new and c.flag("multi_query", default=True):
        kv_heads = 1
    kv, f = kv_heads * dim, c.int("ffn_hidden_size", default=4 * h)
    tensors = table(vocab, h, c.flag("tie_word_embeddings", default=True))
    tensors += linear(ATTENTION, h + 2 * kv, h, bias, layers) + linear(ATTENTION, h, h, bias, layers)
    tensors += _two(h, f, bias, layers)
    in_layer = c.int("num_ln_in_parallel_attn", default=2 if new else 1)
    if not c.flag("parallel_attn", default=True):
        in_layer = 2
    tensors += vectors(h, 2 * (in_layer * layers + 1))
    shared = new and in_layer == 2
    width = h if new else kv  # keys and values are repeated for every head, in every attention
    block = Block(
        layers, h, heads, h, width, f, "layer", in_layer, "gelu", shared_input=shared, scores="narrow"
    )
    return tensors, (block,)


# Remote code


def qwen1(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """Qwen 1: fused attention with bias, an MLP written with twice its width; Qwen-VL adds a tower."""
    h, layers, heads = c.int("hidden_size"), c.int("num_hidden_layers"), c.int("num_attention_heads")
    f = c.int("intermediate_size") // 2
    q = c.int("kv_channels", default=128) * heads
    tensors = table(c.int("vocab_size"), h, c.flag("tie_word_embeddings"))
    tensors += linear(ATTENTION, 3 * q, h, True, layers) + linear(ATTENTION, h, q, False, layers)
    tensors += linear(MLP, f, h, False, 2 * layers) + linear(MLP, h, f, False, layers)
    tensors += vectors(h, 2 * layers + 1)
    visual = c.section("visual")
    if visual is not None:
        tensors += _qwen1_tower(visual)
    return tensors, (Block(layers, h, heads, q, q, f, fused=True),)


def _qwen1_tower(v: Fields) -> list[Tensor]:
    w, layers, out = v.int("width"), v.int("layers"), v.int("output_dim")
    ratio = v.data.get("mlp_ratio", 4)
    f = int(w * (ratio if isinstance(ratio, (int, float)) else 4))
    patch, queries = v.int("patch_size"), v.int("n_queries", default=256)
    side = v.int("image_size") // patch
    tensors = [Tensor(VISION, (w, 3, patch, patch)), Tensor(VISION, (side * side // 4, w))]
    tensors += linear(VISION, 3 * w, w, True, layers) + linear(VISION, w, w, True, layers)
    tensors += linear(VISION, f, w, True, layers) + linear(VISION, w, f, True, layers)
    tensors += vectors(w, 2 * (2 * layers + 1))
    tensors += [Tensor(VISION, (queries, out), 2), Tensor(VISION, (out, w))]
    tensors += linear(VISION, 3 * out, out, True, 1) + linear(VISION, out, out, True, 1)
    return tensors + vectors(out, 6) + [Tensor(VISION, (out, out))]


def chatglm(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """ChatGLM2, ChatGLM3 and GLM-4 with remote code: fused multi-query attention, fused gated MLP."""
    h, layers, heads = c.int("hidden_size"), c.int("num_layers"), c.int("num_attention_heads")
    f, dim, vocab = c.int("ffn_hidden_size"), c.int("kv_channels", default=128), c.int("padded_vocab_size")
    q = heads * dim
    kv = c.int("multi_query_group_num", default=heads) * dim if c.flag("multi_query_attention") else q
    qkv_bias, bias = c.flag("add_qkv_bias"), c.flag("add_bias_linear")
    tensors = table(vocab, h, c.flag("tie_word_embeddings"))
    tensors += linear(ATTENTION, q + 2 * kv, h, qkv_bias or bias, layers) + linear(
        ATTENTION, h, q, bias, layers
    )
    tensors += linear(MLP, 2 * f, h, bias, layers) + linear(MLP, h, f, bias, layers)
    tensors += vectors(h, 2 * layers + (1 if c.flag("post_layer_norm", default=True) else 0))
    return tensors, (Block(layers, h, heads, q, kv, f, fused=True),)


def baichuan(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """Baichuan and Baichuan 2: Llama with one fused matrix for queries, keys and values."""
    h, layers, heads = c.int("hidden_size"), c.int("num_hidden_layers"), c.int("num_attention_heads")
    f = c.int("intermediate_size")
    tensors = table(c.int("vocab_size"), h, c.flag("tie_word_embeddings"))
    tensors += linear(ATTENTION, 3 * h, h, False, layers) + linear(ATTENTION, h, h, False, layers)
    tensors += linear(MLP, f, h, False, 2 * layers) + linear(MLP, h, f, False, layers)
    return tensors + vectors(h, 2 * layers + 1), (Block(layers, h, heads, h, h, f, fused=True),)


def internlm(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """InternLM 1: Llama whose attention has biases."""
    tensors, blocks = llama(Fields({**c.data, "model_type": "llama", "attention_bias": c.flag("bias")}))
    return tensors, blocks


# Encoders and encoder-decoders


def bert(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """BERT and RoBERTa with their masked language model head."""
    h, layers, heads = c.int("hidden_size"), c.int("num_hidden_layers"), c.int("num_attention_heads")
    f, vocab = c.int("intermediate_size"), c.int("vocab_size")
    tensors = table(vocab, h, c.flag("tie_word_embeddings", default=True))
    tensors += [Tensor(EMBEDDING, (c.int("max_position_embeddings"), h))]
    tensors += [Tensor(EMBEDDING, (c.int("type_vocab_size"), h))]
    tensors += linear(ATTENTION, h, h, True, 4 * layers) + _two(h, f, True, layers)
    tensors += vectors(h, 2 * (2 * layers + 1))
    tensors += linear(MLP, h, h, True, 1) + vectors(h, 2) + vectors(vocab, 1)
    dropouts = 2 if c.rate("hidden_dropout_prob", 0.1) else 0
    dropped = c.rate("attention_probs_dropout_prob", 0.1)
    block = Block(
        layers,
        h,
        heads,
        h,
        h,
        f,
        "layer",
        2,
        "gelu",
        dropouts=dropouts,
        scores="narrow",
        score_dropout=dropped,
    )
    return tensors, (block,)


def t5(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """T5, mT5 and Flan-T5: encoder and decoder, relative positions in each one's first layer."""
    h, f, heads, dim = c.int("d_model"), c.int("d_ff"), c.int("num_heads"), c.int("d_kv")
    encoder = c.int("num_layers")
    decoder = c.int("num_decoder_layers", default=encoder)
    q = heads * dim
    gated = c.flag("is_gated_act", default=c.text("feed_forward_proj").startswith("gated"))
    tied = c.flag("tie_word_embeddings", default=True)
    tensors = table(c.int("vocab_size"), h, tied)
    attention = encoder + 2 * decoder
    gelu = "gelu" in c.text("feed_forward_proj")
    mlp = "relu-dropout" if not gated else "gated-gelu-python-dropout" if gelu else "gated-dropout"
    tensors += linear(ATTENTION, q, h, False, 3 * attention) + linear(ATTENTION, h, q, False, attention)
    tensors += [Tensor(VECTOR, (c.int("relative_attention_num_buckets", default=32), heads), 2)]
    tensors += linear(MLP, f, h, False, (2 if gated else 1) * (encoder + decoder))
    tensors += linear(MLP, h, f, False, encoder + decoder)
    tensors += vectors(h, 2 * encoder + 1 + 3 * decoder + 1)
    return tensors, (
        Block(encoder, h, heads, q, q, f, "rms-t5", 2, mlp, dropouts=2, scores="narrow", score_dropout=True),
        Block(
            decoder,
            h,
            heads,
            2 * q,
            2 * q,
            f,
            "rms-t5",
            3,
            mlp,
            dropouts=3,
            attentions=2,
            scores="narrow",
            score_dropout=True,
        ),
    )


# Vision and language


def qwen_vl(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """Qwen2-VL and Qwen2.5-VL: a Qwen 2 and a vision tower with a merger."""
    inner = c.section("text_config")
    text = dict(inner.data if inner is not None else c.data)
    text.setdefault("tie_word_embeddings", c.flag("tie_word_embeddings"))
    tensors, blocks = llama(Fields({**text, "model_type": "qwen2"}))
    v = c.section("vision_config")
    if v is None:
        raise ShapeError("the model config has no vision_config")
    patch, steps = v.int("patch_size", default=14), v.int("temporal_patch_size", default=2)
    merge = v.int("spatial_merge_size", default=2)
    pixels = v.int("in_channels", "in_chans", default=3)
    layers = v.int("depth", default=32)
    if c.text("model_type").startswith("qwen2_5"):
        w, f, out = v.int("hidden_size", default=3584), v.int("intermediate_size", default=3420), 0
        out = v.int("out_hidden_size", default=3584)
        tensors += linear(VISION, f, w, True, 2 * layers) + linear(VISION, w, f, True, layers)
        tensors += vectors(w, 2 * layers + 1)
    else:
        w, out = v.int("embed_dim", default=1280), v.int("hidden_size", default=3584)
        ratio = v.data.get("mlp_ratio", 4)
        f = int(w * (ratio if isinstance(ratio, (int, float)) else 4))
        tensors += linear(VISION, f, w, True, layers) + linear(VISION, w, f, True, layers)
        tensors += vectors(w, 2 * (2 * layers + 1))
    wide = w * merge * merge
    tensors += [Tensor(VISION, (w, pixels, steps, patch, patch))]
    tensors += linear(VISION, 3 * w, w, True, layers) + linear(VISION, w, w, True, layers)
    tensors += linear(VISION, wide, wide, True, 1) + linear(VISION, out, wide, True, 1)
    return tensors, blocks


def llava(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """LLaVA: a Llama or Mistral, a CLIP tower and a projector of two layers."""
    text, v = c.section("text_config"), c.section("vision_config")
    if text is None or v is None:
        raise ShapeError("the model config has no text_config and vision_config")
    kind = text.text("model_type", "llama")
    defaults = {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
        "model_type": kind,
    }
    tensors, blocks = build(Fields({**defaults, **text.data}))
    w, f, layers = v.int("hidden_size"), v.int("intermediate_size"), v.int("num_hidden_layers")
    patch = v.int("patch_size")
    side = v.int("image_size") // patch
    tensors += [
        Tensor(VISION, (w,)),
        Tensor(VISION, (w, 3, patch, patch)),
        Tensor(VISION, (side * side + 1, w)),
    ]
    tensors += linear(VISION, w, w, True, 4 * layers) + linear(VISION, f, w, True, layers)
    tensors += linear(VISION, w, f, True, layers) + vectors(w, 2 * (2 * layers + 2))
    h = blocks[0].hidden
    bias = c.flag("multimodal_projector_bias", default=True)
    return tensors + linear(VISION, h, w, bias, 1) + linear(VISION, h, h, bias, 1), blocks


def qwen3_vl(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """Qwen3-VL: a Qwen 3, a vision tower with learned positions, a merger and those of its deep stack."""
    text, v = c.section("text_config"), c.section("vision_config")
    if text is None or v is None:
        raise ShapeError("the model config has no text_config and vision_config")
    tied = c.flag("tie_word_embeddings")
    tensors, blocks = llama(Fields({"tie_word_embeddings": tied, **text.data, "model_type": "qwen3"}))
    w, f, out = v.int("hidden_size"), v.int("intermediate_size"), v.int("out_hidden_size")
    layers, pixels = v.int("depth"), v.int("in_channels", default=3)
    patch, steps = v.int("patch_size", default=16), v.int("temporal_patch_size", default=2)
    wide = w * v.int("spatial_merge_size", default=2) ** 2
    deep = v.data.get("deepstack_visual_indexes")
    stacked = len(deep) if isinstance(deep, list) else 3
    tensors += [Tensor(VISION, (w, pixels, steps, patch, patch)), Tensor(VISION, (w,))]
    tensors += [Tensor(VISION, (v.int("num_position_embeddings", default=2304), w))]
    tensors += linear(VISION, 3 * w, w, True, layers) + linear(VISION, w, w, True, layers)
    tensors += linear(VISION, f, w, True, layers) + linear(VISION, w, f, True, layers)
    tensors += vectors(w, 2 * (2 * layers + 1)) + vectors(wide, 2 * stacked)
    tensors += linear(VISION, wide, wide, True, 1 + stacked) + linear(VISION, out, wide, True, 1 + stacked)
    return tensors, blocks


def gemma3(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """Gemma 3 with its vision tower: a SigLIP tower and a projection."""
    text, v = c.section("text_config"), c.section("vision_config")
    if text is None or v is None:
        raise ShapeError("the model config has no text_config and vision_config")
    defaults = {"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4}
    tensors, blocks = llama(Fields({**defaults, **text.data, "model_type": "gemma3_text"}))
    w, f, layers = v.int("hidden_size"), v.int("intermediate_size"), v.int("num_hidden_layers")
    patch = v.int("patch_size")
    places = (v.int("image_size") // patch) ** 2
    tensors += [Tensor(VISION, (w, 3, patch, patch)), Tensor(VISION, (w,)), Tensor(VISION, (places, w))]
    tensors += linear(VISION, w, w, True, 4 * layers) + linear(VISION, f, w, True, layers)
    tensors += linear(VISION, w, f, True, layers) + vectors(w, 2 * (2 * layers + 1))
    if v.flag("vision_use_head", default=True):
        tensors += [Tensor(VISION, (1, 1, w)), *linear(VISION, 3 * w, w, True, 1)]
        tensors += linear(VISION, w, w, True, 1) + vectors(w, 2)
        tensors += linear(VISION, f, w, True, 1) + linear(VISION, w, f, True, 1)
    return [*tensors, Tensor(VISION, (w, blocks[0].hidden)), *vectors(w, 1)], blocks


_FAMILIES: dict[str, Build] = {
    **dict.fromkeys(_LLAMA, llama),
    **dict.fromkeys(
        (
            "gpt2",
            "gpt_bigcode",
            "gpt_neo",
            "gptj",
            "gpt_neox",
            "bloom",
            "opt",
            "mpt",
            "phi",
            "falcon",
            "starcoder2",
            "stablelm",
            "cohere",
            "cohere2",
        ),
        gpt,
    ),
    "deepseek_v2": deepseek_moe,
    "deepseek_v3": deepseek_moe,
    "gpt_oss": gpt_oss,
    "qwen": qwen1,
    "chatglm": chatglm,
    "baichuan": baichuan,
    "internlm": internlm,
    "bert": bert,
    "roberta": bert,
    "xlm-roberta": bert,
    "t5": t5,
    "mt5": t5,
    "qwen2_vl": qwen_vl,
    "qwen2_5_vl": qwen_vl,
    "qwen3_vl": qwen3_vl,
    "gemma3": gemma3,
    "llava": llava,
}
"""model_type -> how its tensors follow from its config."""

KNOWN = tuple(sorted(_FAMILIES))
"""Every model_type a shape can be made from."""

_BF16_LOGITS = {"qwen", "chatglm", "t5", "mt5", "bert", "roberta", "xlm-roberta"}
"""Architectures whose loss takes the logits as they are, without a 32-bit copy."""


def build(c: Fields) -> tuple[list[Tensor], tuple[Block, ...]]:
    """Tensors and blocks of a config. Raises ShapeError."""
    kind = c.text("model_type")
    if kind not in _FAMILIES:
        near = f"known are {', '.join(KNOWN)}; or give a size such as 7B"
        raise ShapeError(f"model_type {kind or 'missing'!r} is not known; {near}")
    return _FAMILIES[kind](c)


def shape_of(data: Raw, name: str = "") -> Shape:
    """The shape of a Hugging Face config.json. Raises ShapeError."""
    c = Fields(data)
    try:
        tensors, blocks = build(c)
    except (ZeroDivisionError, OverflowError):
        raise ShapeError("the model config has a size of zero") from None
    sizes = [size for t in tensors for size in t.shape]
    sizes += [size for b in blocks for size in (b.layers, b.hidden, b.heads, b.attention, b.kv, b.ffn)]
    if not tensors or min(sizes) < 1:
        raise ShapeError("the model config has a size of zero")
    vocab = next(t.shape[0] for t in tensors if t.role == EMBEDDING)
    inner = c.section("text_config") or c
    positions = inner.int("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", default=0)
    notes = []
    if any(t.role == VISION for t in tensors):
        notes.append("the vision tower counts with its weights; activations of images are not predicted")
    kind = c.text("model_type")
    return Shape(
        name or c.text("_name_or_path") or kind,
        tuple(tensors),
        blocks,
        vocab,
        positions,
        kind not in _BF16_LOGITS,
        tuple(notes),
        kind,
        c.text("dtype") or c.text("torch_dtype") or inner.text("dtype") or inner.text("torch_dtype"),
    )
