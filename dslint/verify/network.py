"""The model that is trained: a decoder of a given shape, a Hugging Face config.json, or the user's own.

Runs in the worker only. Random weights and random tokens: memory and speed do not depend on their values.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from dslint.verify.plan import Plan, Shape


class Unusable(Exception):
    """What the user gave cannot be verified; says nothing about the config."""


@dataclass(slots=True)
class Trainee:
    """A module with batches for it. `loss` runs the module on a batch; `tokens` counts those of a batch."""

    module: nn.Module
    batches: Iterator[Any]
    loss: Callable[[Any, Any], Any]
    tokens: int | None
    hidden: int | None
    layers: int | None = None


class Attention(nn.Module):
    """Causal self-attention with grouped keys and values and rotary positions."""

    def __init__(self, shape: Shape, eager: bool) -> None:
        super().__init__()
        self.shape, self.eager = shape, eager
        width, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, width, bias=shape.bias)
        self.k_proj = nn.Linear(shape.hidden, narrow, bias=shape.bias)
        self.v_proj = nn.Linear(shape.hidden, narrow, bias=shape.bias)
        self.o_proj = nn.Linear(width, shape.hidden, bias=shape.bias)

    def forward(self, x: Any, rotation: Any) -> Any:
        batch, length, _ = x.shape
        heads = [
            proj(x).view(batch, length, -1, self.shape.head_dim).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        ]
        q, k, v = rotate(heads[0], rotation), rotate(heads[1], rotation), heads[2]
        groups = self.shape.heads // self.shape.kv_heads
        if groups > 1:
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        if self.eager:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.shape.head_dim)
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            weights = scores.masked_fill(later, float("-inf")).float().softmax(dim=-1).to(q.dtype)
            y = weights @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


def rotate(x: Any, rotation: Any) -> Any:
    """Rotary positions, where there are any."""
    if rotation is None:
        return x
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class FeedForward(nn.Module):
    """SwiGLU or GELU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        if shape.gated:
            self.gate_proj = nn.Linear(shape.hidden, shape.ffn, bias=shape.bias)
        self.gated = shape.gated
        self.up_proj = nn.Linear(shape.hidden, shape.ffn, bias=shape.bias)
        self.down_proj = nn.Linear(shape.ffn, shape.hidden, bias=shape.bias)

    def forward(self, x: Any) -> Any:
        if self.gated:
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return self.down_proj(F.gelu(self.up_proj(x)))


class Layer(nn.Module):
    """One block of the decoder."""

    def __init__(self, shape: Shape, eager: bool) -> None:
        super().__init__()
        norm = nn.RMSNorm if shape.rms else nn.LayerNorm
        self.attention_norm = norm(shape.hidden)
        self.attention = Attention(shape, eager)
        self.mlp_norm = norm(shape.hidden)
        self.mlp = FeedForward(shape)

    def forward(self, x: Any, rotation: Any) -> Any:
        x = x + self.attention(self.attention_norm(x), rotation)
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    """A decoder-only language model; its forward pass gives the loss, computed as Hugging Face does."""

    def __init__(self, shape: Shape, checkpointing: bool, eager: bool) -> None:
        super().__init__()
        self.shape, self.checkpointing = shape, checkpointing
        self.embed_tokens = nn.Embedding(shape.vocab, shape.embedding or shape.hidden)
        if shape.positions:
            self.embed_positions = nn.Embedding(shape.positions, shape.hidden)
        if shape.embedding not in (0, shape.hidden):
            self.project_in = nn.Linear(shape.embedding, shape.hidden, bias=False)
            self.project_out = nn.Linear(shape.hidden, shape.embedding, bias=False)
        self.layers = nn.ModuleList(Layer(shape, eager) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden) if shape.rms else nn.LayerNorm(shape.hidden)
        if not shape.tied:
            self.lm_head = nn.Linear(shape.embedding or shape.hidden, shape.vocab, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.embed_tokens(tokens)
        if hasattr(self, "project_in"):
            x = self.project_in(x)
        rotation = None
        if self.shape.positions:
            x = x + self.embed_positions(torch.arange(tokens.shape[1], device=tokens.device))
        else:
            rotation = rotations(tokens.shape[1], self.shape.head_dim, x)
        for layer in self.layers:
            if self.checkpointing:
                x = checkpoint(layer, x, rotation, use_reentrant=False)
            else:
                x = layer(x, rotation)
        x = self.norm(x)
        if hasattr(self, "project_out"):
            x = self.project_out(x)
        logits = F.linear(x, self.embed_tokens.weight) if self.shape.tied else self.lm_head(x)
        logits = logits.float()
        return F.cross_entropy(logits[:, :-1].reshape(-1, self.shape.vocab), tokens[:, 1:].reshape(-1))


def rotations(length: int, width: int, like: Any) -> tuple[Any, Any]:
    """Cosines and sines of rotary positions, shape (length, width / 2)."""
    half = width // 2
    inverse = 1.0 / 10000.0 ** (torch.arange(half, dtype=torch.float32, device=like.device) / half)
    angle = torch.arange(length, dtype=torch.float32, device=like.device)[:, None] * inverse
    return angle.cos().to(like.dtype), angle.sin().to(like.dtype)


def build(plan: Plan, config: dict[str, Any], micro_batch: int, device: Any, partitioned: bool) -> Trainee:
    """The model of a plan. `partitioned`: by stage 3 under this config, each parameter as it is made."""
    if plan.module:
        return _user_module(plan, config, partitioned)
    if plan.hf_config:
        return _hugging_face(plan, config, micro_batch, device, partitioned)
    shape = plan.shape
    with making(config, partitioned):
        module = Decoder(shape, plan.checkpointing, plan.attention == "eager")
    return Trainee(
        module,
        tokens_forever(shape.vocab, micro_batch, plan.sequence, device),
        lambda engine, batch: engine(batch),
        micro_batch * plan.sequence,
        shape.hidden,
        shape.layers,
    )


def tokens_forever(vocab: int, micro_batch: int, sequence: int, device: Any) -> Iterator[Any]:
    """Random tokens, of shape (micro batch, sequence)."""
    while True:
        yield torch.randint(0, vocab, (micro_batch, sequence), device=device)


def making(config: dict[str, Any], partitioned: bool) -> AbstractContextManager[Any]:
    """The context in which a module is made."""
    if not partitioned:
        return contextlib.nullcontext()
    import deepspeed
    import torch._dynamo  # noqa: F401 (imported late, under Init's replacements for torch's functions, it fails)

    context: AbstractContextManager[Any] = deepspeed.zero.Init(config_dict_or_path=copy.deepcopy(config))
    return context


def _hugging_face(
    plan: Plan, config: dict[str, Any], micro_batch: int, device: Any, partitioned: bool
) -> Trainee:
    try:
        import transformers
    except ImportError as error:
        raise Unusable("--hf-config needs transformers: pip install transformers") from error
    try:
        shape = transformers.AutoConfig.from_pretrained(plan.hf_config, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise Unusable(f"transformers cannot read {plan.hf_config}: {first_line(error)}") from error
    shape.use_cache = False
    kind = "AutoModelForSeq2SeqLM" if getattr(shape, "is_encoder_decoder", False) else "AutoModelForCausalLM"
    told = None
    if partitioned:  # from_config then partitions by itself, and keeps rotary positions in fp32
        try:
            from transformers.integrations import HfDeepSpeedConfig

            told = HfDeepSpeedConfig(copy.deepcopy(config))
        except ImportError:  # accelerate is not installed
            pass
    attention = "eager" if plan.attention == "eager" else "sdpa"
    try:
        with making(config, partitioned and told is None):
            module = getattr(transformers, kind).from_config(shape, attn_implementation=attention)
    except ValueError as error:
        raise Unusable(
            f"transformers has no language model for {plan.hf_config}: {first_line(error)}"
        ) from error
    if plan.checkpointing:
        module.gradient_checkpointing_enable({"use_reentrant": False})
    module.train()
    text = shape.get_text_config() if hasattr(shape, "get_text_config") else shape
    return Trainee(
        module,
        tokens_forever(text.vocab_size, micro_batch, plan.sequence, device),
        lambda engine, batch: engine(input_ids=batch, labels=batch).loss,
        micro_batch * plan.sequence,
        getattr(text, "hidden_size", None),
        getattr(text, "num_hidden_layers", None),
    )


def _user_module(plan: Plan, config: dict[str, Any], partitioned: bool) -> Trainee:
    name, _, function = plan.module.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` has it: the user's package may lie in this directory
    try:
        make = getattr(importlib.import_module(name), function)
    except (ImportError, AttributeError) as error:
        raise Unusable(f"--module {plan.module}: {first_line(error)}") from error
    with making(config, partitioned):
        made = make()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module)):
        raise Unusable(f"--module {plan.module}: it must return (torch module, iterator of batches)")
    module, batches = made
    hidden = getattr(getattr(module, "config", None), "hidden_size", None)
    return Trainee(module, iter(batches), apply, None, hidden if isinstance(hidden, int) else None)


def apply(engine: Any, batch: Any) -> Any:
    """The loss of a batch: a mapping goes in as keywords, a tuple or list as arguments; a model's output
    is the loss, has it as `.loss`, or begins with it."""
    batch = moved(batch, engine.device)
    if isinstance(batch, dict):
        out = engine(**batch)
    elif isinstance(batch, (tuple, list)):
        out = engine(*batch)
    else:
        out = engine(batch)
    if isinstance(out, dict) and "loss" in out:
        out = out["loss"]
    out = getattr(out, "loss", out)
    if isinstance(out, (tuple, list)):
        out = out[0]
    if not isinstance(out, torch.Tensor) or out.numel() != 1:
        raise Unusable("--module: the module must return its loss, a tensor of one element")
    return out


def moved(batch: Any, device: Any) -> Any:
    """A batch with its tensors on a device."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: moved(value, device) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)(moved(value, device) for value in batch)
    return batch


def first_line(error: BaseException) -> str:
    """The first line of what an exception says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
