"""Launch scripts and files of arguments: what they tell about a run."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dslint.expression import UNKNOWN
from dslint.formats import read_bytes
from dslint.launch import Launch
from dslint.launch.files import accelerate_launch, read
from dslint.launch.script import launches
from dslint.launch.words import UNRESOLVED, commands


def nothing(path: str) -> bytes | None:
    return None


def only(text: str, files: dict[str, str] | None = None) -> Launch:
    def look(path: str) -> bytes | None:
        found = (files or {}).get(path)
        return None if found is None else found.encode()

    found = launches(text, "train.sh", look)
    assert len(found) == 1, found
    return found[0]


WORDS = {
    "a b  c": ["a", "b", "c"],
    "a 'b c' \"d e\"": ["a", "b c", "d e"],
    "a \\\n  b": ["a", "b"],
    "a b#c # d": ["a", "b#c"],
    "X=1; a $X ${X}2 \"$X\" '$X'": ["a", "1", "12", "1", "$X"],
    "X='b c'\na $X \"$X\"": ["a", "b", "c", "b c"],
    "export X=5\na --n=$X": ["a", "--n=5"],
    "A=(b 'c d' # e\n f)\na \"${A[@]}\" g": ["a", "b", "c d", "f", "g"],
    "A=(b)\nA+=(c)\na ${A[@]}": ["a", "b", "c"],
    "X=b; X+=c; a $X": ["a", "bc"],
    "a $(date) `date` $1 $@ $HOME": ["a", *[UNRESOLVED] * 5],
    "a ${X:-5}": ["a", UNRESOLVED],
    "if x; then X=1; else X=2; fi; a $X": ["a", UNRESOLVED],
    "for X in 1 2; do a $X; done": ["a", UNRESOLVED],
    "cat <<EOF > f\nb c\nEOF\na b": ["a", "b"],
    "a b 2>&1 | tee log.txt": ["a", "b"],
    "a > log b": ["a", "b"],
    "X=1 a b": ["a", "b"],
    "CMD='a b'\neval $CMD c": ["a", "b", "c"],
    'a "" b': ["a", "", "b"],
}


@pytest.mark.parametrize("text", WORDS)
def test_words_are_those_of_a_shell(text: str) -> None:
    found = [command for command in commands(text) if command.words[0].text == "a"]
    assert [word.text for word in found[-1].words] == WORDS[text]


def test_words_know_their_lines() -> None:
    text = 'X=(\n  --lr 1e-5\n)\na \\\n  --b 1 \\\n  "${X[@]}"\n'
    assert [(w.text, w.line) for w in commands(text)[-1].words] == [
        ("a", 4),
        ("--b", 5),
        ("1", 5),
        ("--lr", 2),
        ("1e-5", 2),
    ]


plain_words = st.lists(st.text("abcXYZ019_./:=-,", min_size=1, max_size=8), min_size=1, max_size=6)


@given(plain_words)
@settings(max_examples=200, deadline=None)
def test_quoted_words_come_back(words: list[str]) -> None:
    text = " ".join(shlex.quote(word) for word in ["run", *words])
    assert [word.text for word in commands(text)[-1].words] == ["run", *words]


@given(st.text("ab$\"'\\`(){}[]<>|&;#= \n\t01@*-", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_script_makes_the_reader_raise(text: str) -> None:
    assert isinstance(launches(text, "x.sh", nothing), list)


PROCESSES: dict[str, int | None] = {
    "deepspeed --num_gpus 4 t.py --deepspeed d.json": 4,
    "deepspeed --num_gpus=4 --num_nodes=2 t.py --deepspeed d.json": 8,
    "deepspeed --include localhost:0,1,3 t.py --deepspeed d.json": 3,
    "deepspeed --include=worker-0:0,1@worker-1:0,1 t.py --deepspeed d.json": 4,
    "deepspeed --include worker-0 t.py --deepspeed d.json": None,
    "CUDA_VISIBLE_DEVICES=0,1 deepspeed t.py --deepspeed d.json": 2,
    "export CUDA_VISIBLE_DEVICES=0,1\ndeepspeed t.py --deepspeed d.json": 2,
    "deepspeed t.py --deepspeed d.json": None,
    "deepspeed --hostfile hosts t.py --deepspeed d.json": None,
    "torchrun --nproc_per_node 8 t.py --deepspeed d.json": 8,
    "torchrun --nproc-per-node=8 --nnodes=2 t.py --deepspeed d.json": 16,
    "torchrun --standalone --nproc_per_node gpu t.py --deepspeed d.json": None,
    "torchrun --nnodes 1:4 --nproc_per_node 8 t.py --deepspeed d.json": None,
    "torchrun t.py --deepspeed d.json": 1,
    "python -m torch.distributed.run --nproc_per_node=2 t.py --deepspeed d.json": 2,
    "python3 -m torch.distributed.launch --nproc_per_node 2 --use_env t.py --deepspeed d.json": 2,
    "accelerate launch --num_processes 6 t.py --deepspeed d.json": 6,
    "N=3\naccelerate launch --num_processes $N -m pkg.train --deepspeed d.json": 3,
    "accelerate launch --num_processes $N t.py --deepspeed d.json": None,
    "srun --jobid 1 bash x.sh\nsrun torchrun --nproc_per_node 2 t.py --deepspeed d.json": 2,
    "NPROC_PER_NODE=4 swift sft --model m --deepspeed zero2": 4,
}


@pytest.mark.parametrize("text", PROCESSES)
def test_world_size(text: str) -> None:
    assert only(text).processes == PROCESSES[text]


def test_arguments_are_read_as_hf_reads_them() -> None:
    run = only(
        "deepspeed t.py --deepspeed d.json --bf16 --fp16 False --learning-rate 2e-5 \\\n"
        " --max_grad_norm=0.5 --warmup_steps -1 --optim adamw_torch --no_remove_unused_columns --tags a b"
    )
    assert (run.trainer, run.config) == ("hf", "d.json")
    expected: dict[str, Any] = {
        "bf16": True,
        "fp16": False,
        "learning_rate": 2e-5,
        "max_grad_norm": 0.5,
        "warmup_steps": -1,
        "optim": "adamw_torch",
        "remove_unused_columns": False,
        "tags": ["a", "b"],
    }
    assert {name: run.value(name) for name in expected} == expected
    assert run.where("max_grad_norm") == "train.sh:2"
    assert run.complete and run.value("adam_beta1") is UNKNOWN and run.likely("adam_beta1") == 0.9


@pytest.mark.parametrize("more", ['"$@"', "$EXTRA", "${ARGS[@]}"])
def test_what_may_be_added_is_not_assumed(more: str) -> None:
    run = only(f"torchrun t.py --deepspeed d.json --bf16 True {more}")
    assert not run.complete
    assert run.value("bf16") is True and run.likely("fp16") is UNKNOWN


def test_deepspeed_own_argument_means_a_script_of_the_users() -> None:
    run = only("deepspeed --num_gpus 2 t.py --deepspeed --deepspeed_config d.json --lr 0.1")
    assert (run.trainer, run.config, run.processes) == ("raw", "d.json", 2)


def test_accelerate_takes_the_config_of_its_file() -> None:
    block = "deepspeed_config:\n  deepspeed_config_file: d.json\n"
    files = {"a.yaml": "distributed_type: DEEPSPEED\nnum_processes: 8\n" + block}
    run = only("accelerate launch --config_file a.yaml --mixed_precision bf16 t.py --x 1", files)
    assert (run.trainer, run.config, run.processes) == ("accelerate", "d.json", 8)
    assert run.launcher["mixed_precision"].value == "bf16"


LLAMA = (
    "model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ndeepspeed: d.json\n"
    "per_device_train_batch_size: 2\n"
)


def test_llamafactory_reads_its_file_and_then_the_command_line() -> None:
    run = only(
        "FORCE_TORCHRUN=1 NPROC_PER_NODE=4 llamafactory-cli train a.yaml learning_rate=1e-4",
        {"a.yaml": LLAMA},
    )
    assert (run.trainer, run.config, run.processes) == ("llamafactory", "d.json", 4)
    assert run.value("per_device_train_batch_size") == 2 and run.value("learning_rate") == 1e-4
    assert run.value("max_grad_norm") == 1.0  # the class is LLaMA-Factory's, so the default is known


def test_axolotl_has_names_of_its_own() -> None:
    text = "base_model: m\ndeepspeed: d.json\nmicro_batch_size: 3\noptimizer: muon\nbf16: auto\nlearning_rate: 1e-5"
    run = read(read_bytes(text.encode(), "a.yaml"))
    assert (run.trainer, run.config) == ("axolotl", "d.json")
    assert run.value("per_device_train_batch_size") == 3 and run.value("optim") == "muon"
    assert run.value("bf16") is UNKNOWN and run.value("learning_rate") == 1e-5
    assert run.where("per_device_train_batch_size") == "a.yaml:3"
    assert only("axolotl train a.yaml", {"a.yaml": text}).trainer == "axolotl"
    assert (
        only("accelerate launch --num_processes 2 -m axolotl.cli.train a.yaml", {"a.yaml": text}).processes
        == 2
    )


def test_training_arguments_as_json() -> None:
    text = json.dumps({"output_dir": "x", "deepspeed": "d.json", "per_device_train_batch_size": 4})
    run = read(read_bytes(text.encode(), "args.json"))
    assert (run.trainer, run.config, run.value("per_device_train_batch_size")) == ("hf", "d.json", 4)


def test_an_accelerate_file_is_a_run() -> None:
    text = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 3\n"
    run = accelerate_launch(read_bytes(text.encode(), "a.yaml"))
    assert (run.processes, run.processes_line, run.launcher["zero_stage"].value) == (8, 2, 3)
    assert not run.complete


def test_other_commands_are_no_runs() -> None:
    text = "pip install deepspeed\nds_report\npython eval.py --x 1\naccelerate config\necho torchrunner\n"
    assert launches(text, "x.sh", nothing) == []
