"""One cause is told once: no two findings at a key that say the same, or cures that contradict each other."""

from __future__ import annotations

import pytest

from dslint import schema
from dslint.finding import Finding
from dslint.lint import Options, lint
from dslint.rules import load


def found(text: str, trainer: str | None = None, ignore: tuple[str, ...] = ()) -> dict[str, list[Finding]]:
    """The findings of a text by key."""
    options = Options(schema.newest(), trainer=trainer, ignore=ignore)
    report = lint(text.encode(), "ds.json", options, load())
    by_key: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_key.setdefault(finding.key, []).append(finding)
    return by_key


def test_a_python_literal_that_is_refused_is_one_error_with_its_cure() -> None:
    (error,) = found('{\n"train_batch_size": 8,\n"fp16": {\n"enabled": False,\n"loss_scale": 0\n}\n}')[
        "fp16.enabled"
    ]
    assert (error.severity, error.name, error.cure) == ("error", "wrong-type", "write false")
    assert error.fix is not None


@pytest.mark.parametrize("word", ["CONFIG_BATCH", "None"])
def test_a_text_that_the_key_does_not_take_keeps_the_cure_of_the_error(word: str) -> None:
    (error,) = found(f'{{\n"train_batch_size": {word},\n"bf16": {{"enabled": true}}\n}}')["train_batch_size"]
    assert (error.name, error.cure, error.fix) == ("wrong-type", "write an integer above 0", None)


def test_a_literal_is_told_where_the_error_is_not_heard() -> None:
    text = '{\n"train_batch_size": 8,\n"fp16": {\n"enabled": False,\n"loss_scale": 0\n}\n}'
    assert [f.name for f in found(text, ignore=("DS105",))["fp16.enabled"]] == ["python-literal"]


def test_a_misplaced_auto_is_only_to_be_moved() -> None:
    text = """{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "reduce_bucket_size": "auto",
        "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}"""
    said = found(text, "hf")["reduce_bucket_size"]
    assert [(f.name, f.phase) for f in said] == [("misplaced-key", "trainer")]  # accelerate raises on it


def test_an_old_spelling_beside_the_new_one_is_one_error() -> None:
    text = """{"train_batch_size": 8, "bf16": {"enabled": true},
        "zero_optimization": {"stage": 2, "cpu_offload": false, "offload_optimizer": {"device": "cpu"}}}"""
    assert [f.name for f in found(text)["zero_optimization.cpu_offload"]] == ["two-spellings"]


def test_a_section_is_not_moved_into_itself() -> None:
    text = '{"train_batch_size": 8, "gradient_clipping": 1.0, "fp16": {"fp16": true, "enabled": true}}'
    assert [(f.name, f.cure) for f in found(text)["fp16.fp16"]] == [("unknown-key", "remove it")]


def test_values_that_a_trainer_compares_are_told_once() -> None:
    text = """{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": "auto",
        "gradient_clipping": 1.0, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}"""
    said = [
        f for findings in found(text, "hf").values() for f in findings if f.name == "argument-in-two-places"
    ]
    assert [f.key for f in said] == ["train_micro_batch_size_per_gpu"]
    assert (
        "train_micro_batch_size_per_gpu 2 (per_device_train_batch_size), bf16.enabled true" in said[0].message
    )


@pytest.mark.parametrize(
    "key, text, name",
    [
        ("train_batch_size", '"train_batch_size": "8"', "wrong-type"),
        ("gradient_clipping", '"gradient_clipping": "1.0"', "gradient-clipping-not-a-number"),
        ("bf16.enabled", '"bf16": {"enabled": "maybe"}', "wrong-type"),
        (
            "optimizer.params.weight_decay",
            '"optimizer": {"type": "AdamW", "params": {"weight_decay": "0.1"}}',
            "optimizer-value-crashes",
        ),
        (
            "optimizer.params.lr",
            '"optimizer": {"type": "SGD", "params": {"lr": "0.1"}}',
            "optimizer-value-refused",
        ),
        (
            "scheduler.params.warmup_num_steps",
            '"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}',
            "scheduler-value-refused",
        ),
    ],
)
def test_a_value_that_deepspeed_refuses_is_one_error_under_a_trainer_that_compares(
    key: str, text: str, name: str
) -> None:
    (error,) = found(
        f'{{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {{}}, {text}}}', "hf"
    )[key]
    assert (error.name, error.phase, error.severity) == (name, "trainer", "error")
    assert error.cure.endswith(', or "auto"') and error.fix is not None


def test_what_only_the_trainer_refuses_stays() -> None:
    said = found('{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "true"}}', "hf")
    assert [f.name for f in said["bf16.enabled"]] == ["never-equals-argument"]


@pytest.mark.parametrize(
    "order", [("offload_optimizer", "offload_param"), ("offload_param", "offload_optimizer")]
)
def test_advice_in_the_same_words_is_given_once(order: tuple[str, str]) -> None:
    nvme = '{"device": "nvme", "nvme_path": "/local"}'
    text = f'{{"train_batch_size": 8, "zero_optimization": {{"stage": 3, "{order[0]}": {nvme}, "{order[1]}": {nvme}}}}}'
    said = [f.key for findings in found(text).values() for f in findings if f.name == "nvme-needs-libaio"]
    assert said == [f"zero_optimization.{order[0]}.device"]


def test_a_misspelled_key_is_not_missed_as_well() -> None:
    said = found('{"train_batch_size": 8, "bf16": {"enabled": true}, "gradient_cliping": 1.0}')
    assert [f.name for f in said["gradient_cliping"]] == ["misspelled-key"]
    assert "gradient_clipping" not in said
    assert "gradient_clipping" in found('{"train_batch_size": 8, "bf16": {"enabled": true}, "my_key": 1.0}')
