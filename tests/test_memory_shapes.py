"""Model shapes: parameter counts against published weights and, where installed, against transformers."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from dslint.memory.families import KNOWN, ShapeError, shape_of
from dslint.memory.models import MODELS, ModelError, model, table

REMOTE = {"qwen", "chatglm", "baichuan", "internlm", "internlm2"}
"""Architectures that only their own remote code defines."""

BY_TYPE: dict[str, dict[str, Any]] = {}
for entry in table():
    kind = entry["config"]["model_type"]
    if kind not in BY_TYPE or entry["parameters"] < BY_TYPE[kind]["parameters"]:
        BY_TYPE[kind] = entry


@pytest.mark.parametrize("entry", table(), ids=lambda entry: entry["name"])
def test_count_equals_the_published_weights(entry: dict[str, Any]) -> None:
    assert shape_of(entry["config"]).parameters == entry["parameters"]


def test_table_is_well_formed() -> None:
    names = [name for entry in table() for name in (entry["name"], *entry["aliases"])]
    assert len(names) == len(set(names)), [name for name, n in Counter(names).items() if n > 1]
    assert all(name == name.lower() for name in names)
    assert len(table()) >= 40 and len(BY_TYPE) >= 25
    assert all("/" in entry["source"] for entry in table())


@pytest.mark.parametrize("kind", sorted(set(BY_TYPE) - REMOTE))
def test_tensors_equal_those_of_transformers(kind: str) -> None:
    """Every parameter tensor, by size, of the architecture as transformers builds it."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    entry = BY_TYPE[kind]
    config = dict(entry["config"])
    if kind in ("t5", "mt5"):
        config["tie_word_embeddings"] = True  # transformers 5 ties until it sees weights that differ
    extra = (
        {"attention_types": [[["global", "local"], config["num_layers"] // 2]]} if kind == "gpt_neo" else {}
    )
    made = transformers.AutoConfig.for_model(**config, **extra)
    auto = {
        "bert": transformers.AutoModelForMaskedLM,
        "roberta": transformers.AutoModelForMaskedLM,
        "t5": transformers.AutoModelForSeq2SeqLM,
        "mt5": transformers.AutoModelForSeq2SeqLM,
        "llava": transformers.AutoModelForImageTextToText,
        "qwen2_vl": transformers.AutoModelForImageTextToText,
        "qwen2_5_vl": transformers.AutoModelForImageTextToText,
        "qwen3_vl": transformers.AutoModelForImageTextToText,
        "gemma3": transformers.AutoModelForImageTextToText,
    }.get(kind, transformers.AutoModelForCausalLM)
    with torch.device("meta"):
        real = auto.from_config(made)
    real.tie_weights()
    theirs = Counter(p.numel() for p in real.parameters())
    ours: Counter[int] = Counter()
    for tensor in shape_of(config).tensors:
        ours[tensor.numel] += tensor.count
    assert sum(size * n for size, n in ours.items()) == sum(p.numel() for p in real.parameters())
    assert ours == theirs


def test_a_name_a_path_and_a_size_name_a_model(tmp_path: Any) -> None:
    assert model("Llama-7B").parameters == model("huggyllama/llama-7b").parameters == 6_738_415_616
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps(
            {
                "model_type": "gpt2",
                "n_embd": 768,
                "n_layer": 12,
                "n_head": 12,
                "n_positions": 1024,
                "vocab_size": 50257,
            }
        )
    )
    assert model(str(path)).parameters == 124_439_808


@pytest.mark.parametrize("size", ["125m", "1.5B", "3b", "7B", "7b", "13B", "30B", "70B", "180b"])
def test_a_size_alone_is_inferred_and_says_so(size: str) -> None:
    shape = model(size)
    wanted = float(size[:-1]) * (1e6 if size[-1].lower() == "m" else 1e9)
    assert abs(shape.parameters - wanted) < 0.06 * wanted
    assert any("inferred" in note for note in shape.notes)


@pytest.mark.parametrize(
    "word", ["", "lama-7b", "no-such-model", "-1B", "0B", "1e30B", "config.json", "..", "7", "\x00"]
)
def test_a_bad_name_is_one_clear_line(word: str) -> None:
    with pytest.raises(ModelError) as caught:
        model(word)
    assert str(caught.value) and "\n" not in str(caught.value)


def test_a_near_name_is_offered() -> None:
    with pytest.raises(ModelError, match="llama-7b"):
        model("lama-7b")


@pytest.mark.parametrize(
    "config",
    [
        {},
        [],
        {"model_type": "llama"},
        {"model_type": "nonsense", "hidden_size": 8},
        {
            "model_type": "gpt2",
            "n_embd": "many",
            "n_layer": 2,
            "n_head": 2,
            "vocab_size": 8,
            "n_positions": 8,
        },
        {"model_type": "gpt2", "n_embd": 0, "n_layer": 2, "n_head": 2, "vocab_size": 8, "n_positions": 8},
        {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 0, "vocab_size": 8, "n_positions": 8},
        {"model_type": "llama", "hidden_size": 1e300, "num_hidden_layers": 1, "num_attention_heads": 1},
        {"model_type": "mpt", "d_model": 8, "n_layers": 2, "n_heads": 0, "vocab_size": 8},
        {"model_type": "llama", "hidden_size": True, "num_hidden_layers": 1, "num_attention_heads": 1},
    ],
)
def test_a_bad_config_is_one_clear_line(config: Any, tmp_path: Any) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with pytest.raises(ModelError) as caught:
        model(str(path))
    assert "\n" not in str(caught.value)
    if isinstance(config, dict):
        with pytest.raises(ShapeError):
            shape_of(config)


def test_every_known_architecture_has_a_checked_model() -> None:
    unchecked = set(KNOWN) - set(BY_TYPE)
    assert unchecked <= {
        "aquila",
        "deepseek",
        "internlm",
        "ministral",
        "olmo3",
        "xlm-roberta",
        "xverse",
        "yi",
        "cohere2",
        "glm",
        "glm4",
        "olmoe",
        "phimoe",
        "smollm3",
    }


def test_names_are_listed_for_messages() -> None:
    assert "llama-7b" in MODELS
