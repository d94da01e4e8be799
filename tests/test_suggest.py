"""Did you mean: near names, and the section a misplaced key belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslint import schema as schemas
from dslint.document import dotted
from dslint.suggest import alike, distance, elsewhere, nearest

WORDS = st.text(alphabet="abc_", max_size=7)


def reference(left: str, right: str) -> int:
    """Optimal string alignment by the textbook recursion."""
    if not left or not right:
        return len(left) + len(right)
    costs = [
        reference(left[:-1], right) + 1,
        reference(left, right[:-1]) + 1,
        reference(left[:-1], right[:-1]) + (left[-1] != right[-1]),
    ]
    if len(left) > 1 and len(right) > 1 and left[-1] == right[-2] and left[-2] == right[-1]:
        costs.append(reference(left[:-2], right[:-2]) + 1)
    return min(costs)


@given(st.text("ab", max_size=5), st.text("ab", max_size=5))
def test_distance_is_the_number_of_edits(left: str, right: str) -> None:
    assert distance(left, right, 10) == reference(left, right)


@given(WORDS, WORDS, st.integers(0, 3))
def test_distance_beyond_the_limit_is_only_called_more(left: str, right: str, limit: int) -> None:
    exact = distance(left, right, 20)
    assert distance(left, right, limit) == (exact if exact <= limit else limit + 1)


@pytest.mark.parametrize(
    "word, near",
    [
        ("gradient_cliping", "gradient_clipping"),
        ("gradientClipping", "gradient_clipping"),
        ("zero_optimisation", "zero_optimization"),
        ("zero-optimization", "zero_optimization"),
        ("train_batch_sise", "train_batch_size"),
        ("tran_batch_szie", "train_batch_size"),
        ("stpes_per_print", "steps_per_print"),
        ("logging", None),
        ("model_path", None),
        ("x", None),
        ("", None),
    ],
)
def test_nearest_top_level_key(word: str, near: str | None) -> None:
    assert nearest(word, schemas.load("0.19.8")["properties"]) == near


@pytest.mark.parametrize(
    "key, section, home",
    [
        (
            "stage3_gather_16bit_weights_on_model_save",
            (),
            "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        ),
        ("gradient_clipping", ("zero_optimization",), "gradient_clipping"),
        ("loss_scale", ("bf16",), "fp16.loss_scale"),
        ("pin_memory", ("zero_optimization",), "zero_optimization.offload_optimizer.pin_memory"),
        ("max_grad_norm", (), "gradient_clipping"),
        ("overlap_comm", (), "zero_optimization.overlap_comm"),
    ],
)
def test_where_a_misplaced_key_belongs(key: str, section: tuple[str, ...], home: str) -> None:
    assert dotted(elsewhere(key, schemas.load("0.19.8"), section)[0]) == home


def test_a_name_that_many_sections_use_says_nothing() -> None:
    assert elsewhere("enabled", schemas.load("0.19.8"), ()) == []


@pytest.mark.parametrize(
    "word, name",
    [
        ("train_micro_batch_size", "train_micro_batch_size_per_gpu"),
        ("gradient_accumulation", "gradient_accumulation_steps"),
        ("clip_grad", "gradient_clipping"),
        ("batch_size", "train_batch_size"),
        ("print_steps", "steps_per_print"),
        ("size", None),
        ("train", None),
        ("max_train_batch_size_per_device_and_node", None),
    ],
)
def test_words_of_another_key(word: str, name: str | None) -> None:
    assert next(iter(alike(word, tuple(schemas.load("0.19.8")["properties"]), alone=False)), None) == name


def test_one_word_in_common_is_enough_within_a_section() -> None:
    known = ("partition_activations", "cpu_checkpointing")
    assert alike("partition", known, alone=True) == ("partition_activations",)
    assert alike("partition", known, alone=False) == ()


@given(st.text("_-a", max_size=4), st.text("_-a", max_size=4), st.booleans())
def test_any_two_words_can_be_compared(word: str, name: str, alone: bool) -> None:
    assert alike(word, (name,), alone) in ((), (name,))


def test_a_deep_key_of_another_section_is_no_advice() -> None:
    assert elsewhere("micro_batch_size", schemas.load("0.19.8"), ("pipeline",)) == []
