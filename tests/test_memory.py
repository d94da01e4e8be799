"""The memory predictor: known figures, laws that must hold for every run, and the documents' claims."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dslint.errors import UsageError
from dslint.memory.communication import speed, traffic
from dslint.memory.hardware import GIB, card, gpu, gpus, link, links, size
from dslint.memory.job import CPU, NONE, NVME, Job, loss_bytes
from dslint.memory.models import model
from dslint.memory.predict import CANNOT, FITS, PHASES, predict
from dslint.memory.states import states

ROOT = Path(__file__).resolve().parent.parent
LLAMA = model("llama-7b")
P = LLAMA.parameters


def job(**said: Any) -> Job:
    return Job(
        **{"shape": LLAMA, "gpus": 8, "stage": 2, "gpu": gpu("a100-80gb"), "intra": link("nvlink3"), **said}
    )


@pytest.mark.parametrize(
    "said, per_parameter",
    [
        ({"stage": 0}, 14.0),
        ({"stage": 0, "precision": "fp32"}, 12.0),
        ({"stage": 1}, 2 + 12 / 8),
        ({"stage": 2}, 2 + 12 / 8),
        ({"stage": 2, "precision": "fp32"}, 4 + 12 / 8),
        ({"stage": 3}, 16 / 8),
        ({"stage": 3, "accumulate_bytes": 4}, 18 / 8),
        ({"stage": 3, "master_bytes": 2, "state_bytes": 2, "accumulate_bytes": 2}, 10 / 8),
        ({"stage": 1, "accumulate_bytes": 4}, 2 + 4 + 12 / 8),
        ({"stage": 2, "moments": 1.0}, 2 + 8 / 8),
        ({"stage": 2, "gpus": 1}, 14.0),
    ],
)
def test_bytes_a_parameter_between_steps(said: dict[str, Any], per_parameter: float) -> None:
    run = job(**said)
    buffers = run.size * run.reduce_bucket if run.stage == 3 else 0
    persistent = states(run).persistent
    assert predict(run).steady == pytest.approx(P * per_parameter + buffers + persistent, rel=1e-9)


def test_offload_moves_states_to_the_host() -> None:
    s = states(job(stage=3, offload_optimizer=CPU, offload_param=CPU))
    assert s.weights == s.master == s.moments == 0
    host = s.host_weights + s.host_master + s.host_moments + s.host_gradients + s.host_buffers
    assert host == pytest.approx(P * 20 / 8, rel=0.001)
    s = states(job(stage=2, offload_optimizer=CPU))
    assert s.weights == 2 * P and s.master == s.moments == 0
    host = s.host_master + s.host_moments + s.host_gradients + s.host_buffers
    assert host == pytest.approx(P * 18 / 8, rel=0.05)


def test_muon_keeps_one_narrow_momentum_of_matrices() -> None:
    rest = P - LLAMA.matrices
    for stage in (2, 3):
        s = states(job(stage=stage, optimizer="muon", moments=1.0))
        assert s.moments == pytest.approx((2 * LLAMA.matrices + 8 * rest) / 8)
    s = states(job(stage=2, optimizer="muon", moments=1.0, offload_optimizer=CPU))
    assert s.host_moments == pytest.approx((4 * LLAMA.matrices + 8 * rest) / 8)


def test_quantization_leaves_embeddings_in_16_bits() -> None:
    s = states(job(stage=2, method="qlora", trainable=40_000_000, frozen_bytes=0.52))
    assert s.weights == pytest.approx(0.52 * LLAMA.matrices + 2 * (P - LLAMA.matrices) + 2 * 40e6, rel=1e-6)


@pytest.mark.parametrize(
    "said, elements",
    [
        ({"stage": 0}, 2.0),
        ({"stage": 1}, 3.0),
        ({"stage": 1, "accumulation": 8}, 3.0),
        ({"stage": 1, "multi_rank_allreduce": False}, 2.0),
        ({"stage": 2}, 3.0),
        ({"stage": 2, "accumulation": 4}, 9.0),
        ({"stage": 2, "accumulation": 4, "multi_rank_allreduce": False}, 5.0),
        ({"stage": 3}, 3.0),
        ({"stage": 3, "accumulation": 4}, 12.0),
        ({"stage": 3, "quantized_weights": True, "quantized_gradients": True}, 1.25),
    ],
)
def test_wire_bytes_of_a_step(said: dict[str, Any], elements: float) -> None:
    assert traffic(job(**said)).wire == pytest.approx(elements * 2 * P * 7 / 8)


def test_one_gpu_communicates_nothing() -> None:
    assert traffic(job(gpus=1, stage=0)).wire == 0


# Laws


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    stage = draw(st.integers(0, 3))
    optimizer = draw(
        st.sampled_from([NONE, CPU] if stage in (1, 2) else [NONE, CPU, NVME] if stage else [NONE])
    )
    return job(
        shape=model(
            draw(st.sampled_from(["llama-7b", "qwen2.5-0.5b", "gpt2", "mixtral-8x7b", "t5-base", "7B"]))
        ),
        gpus=draw(st.sampled_from([1, 2, 4, 8, 16, 64])),
        stage=stage,
        precision=draw(st.sampled_from(["bf16", "fp16", "fp32"])),
        offload_optimizer=optimizer,
        offload_param=draw(st.sampled_from([NONE, CPU, NVME])) if stage == 3 else NONE,
        accumulation=draw(st.sampled_from([1, 4])),
        accumulate_bytes=draw(st.sampled_from([0, 4])),
        seq_len=draw(st.integers(1, 8192)),
        micro_batch=draw(st.integers(1, 16)),
        checkpointing=draw(st.booleans()),
        eager=draw(st.booleans()),
        method=draw(st.sampled_from(["full", "lora"])),
        trainable=draw(st.sampled_from([0, 20_000_000])),
        overlap_comm=draw(st.booleans()),
        inter=link("ib200"),
        host_memory=draw(st.sampled_from([None, 1e12])),
    )


@settings(max_examples=200, deadline=None)
@given(jobs())
def test_every_item_is_a_size(run: Job) -> None:
    estimate = predict(run)
    for phase in PHASES:
        assert all(0 <= value < 1e16 for value in estimate.items[phase].values())
    assert 0 < estimate.peak <= estimate.reserved <= estimate.device
    assert estimate.steady <= estimate.peak * 1.001
    assert estimate.least < estimate.device
    assert estimate.verdict in ("fits", "tight", "cannot-fit")
    assert 0 <= estimate.pinned <= estimate.host * 1.001
    pace = speed(run)
    assert pace is not None and 0 < pace.step[0] <= pace.step[1]
    assert 0 <= pace.exposed[0] <= pace.exposed[1] <= 1


@settings(max_examples=100, deadline=None)
@given(jobs(), st.sampled_from(["micro_batch", "seq_len", "reduce_bucket"]))
def test_more_work_never_needs_less(run: Job, what: str) -> None:
    more = replace(run, **{what: getattr(run, what) * 2})
    assert predict(more).peak >= predict(run).peak


@settings(max_examples=100, deadline=None)
@given(jobs())
def test_checkpointing_and_a_fused_loss_never_need_more(run: Job) -> None:
    plain = replace(run, checkpointing=False)
    assert predict(replace(run, logit_bytes=0.5)).peak <= predict(run).peak
    held = predict(replace(plain, checkpointing=True)).items["loss"]["activations"]
    assert held <= predict(plain).items["loss"]["activations"]


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_more_gpus_never_need_more_states(run: Job) -> None:
    wider = replace(run, gpus=run.gpus * 2)
    one, two = states(run), states(wider)
    for item in ("master", "moments", "accumulated", "fresh", "copies"):
        assert getattr(two, item) <= getattr(one, item) + 1


# What the two documents claim


@pytest.mark.parametrize("stage, claimed_gb", [(1, 18), (2, 12)])
def test_chatglm2_6b_cannot_be_fine_tuned_in_the_claimed_memory(stage: int, claimed_gb: int) -> None:
    run = job(
        shape=model("chatglm2-6b"), stage=stage, seq_len=1, gpu=card(f"{claimed_gb}GB"), logit_bytes=0.5
    )
    assert predict(run).verdict == CANNOT


def test_chatglm2_6b_with_offload_can() -> None:
    run = job(
        shape=model("chatglm2-6b"),
        stage=3,
        offload_optimizer=CPU,
        offload_param=CPU,
        seq_len=512,
        reduce_bucket=50_000_000,
    )
    assert predict(run).device < 8e9


def test_llama_7b_on_one_card_of_48_gb_cannot() -> None:
    run = job(gpus=1, stage=0, seq_len=1, logit_bytes=0.5, gpu=card("48GB"))
    assert predict(run).verdict == CANNOT
    assert predict(replace(run, stage=3)).verdict == CANNOT, "stage 3 on one card divides by one"


@pytest.mark.parametrize("gpus_", [8, 64, 512])
def test_70b_never_fits_under_stage_2(gpus_: int) -> None:
    run = job(shape=model("llama-2-70b"), gpus=gpus_, seq_len=1, logit_bytes=0.5, inter=link("ib400x8"))
    assert predict(run).verdict == CANNOT
    assert predict(replace(run, offload_optimizer=CPU)).verdict == CANNOT


def test_7b_under_stage_3_fits_eight_consumer_cards_without_offload() -> None:
    run = job(stage=3, gpu=gpu("rtx-3090"), seq_len=1024, reduce_bucket=50_000_000)
    assert predict(run).verdict == FITS


def test_what_stage_1_saves_depends_on_the_gpus() -> None:
    ratios = [predict(job(stage=0, gpus=n)).steady / predict(job(stage=1, gpus=n)).steady for n in (2, 4)]
    assert 1.5 < ratios[0] < 2 and 2.5 < ratios[1] < 3


def test_activations_grow_linearly_with_the_sequence() -> None:
    one, two, four = (predict(job(seq_len=n)).items["loss"]["activations"] for n in (1024, 2048, 4096))
    assert two == pytest.approx(2 * one) and four == pytest.approx(4 * one)


def test_accumulation_on_one_gigabit_is_hopeless_at_stage_3() -> None:
    slow = job(gpus=2, stage=3, accumulation=8, gpus_per_node=1, inter=link("eth1"))
    pace, fast = speed(slow), speed(replace(slow, stage=1))
    assert pace is not None and fast is not None
    assert pace.exposed[0] > 0.9 and fast.step[1] < pace.step[0]


# Data


def test_tables_are_well_formed() -> None:
    data = json.loads((ROOT / "dslint/memory/hardware.json").read_text())
    for kind in ("gpus", "links"):
        names = [name for entry in data[kind] for name in (entry["name"], *entry["aliases"])]
        assert len(names) == len(set(names)) and all(name == name.lower() for name in names)
    for entry in data["gpus"]:
        assert (
            entry["source"] and entry["usable_gib"] <= entry["sold_gb"] <= 1.1 * entry["usable_gib"] * 1.074
        )
        assert link(entry["link"]) and entry["host"] in data["host_gb_per_s"]
    assert len(gpus()) >= 20 and len(links()) >= 12


@pytest.mark.parametrize(
    "text, expected",
    [("80GB", 80e9), ("79.2GiB", 79.2 * GIB), ("1TB", 1e12), ("512", 512e9), ("1.5 TiB", 1.5 * 2**40)],
)
def test_sizes(text: str, expected: float) -> None:
    assert size(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["", "GB", "-1GB", "0GB", "1e9GB", "80 XB", "80GBps", "nan", "8" * 40, "80b", "١GB"]
)
def test_bad_sizes_are_one_clear_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        size(text)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=30))
def test_hardware_names_never_crash(word: str) -> None:
    for look_up in (gpu, link, size, card):
        complaint = ""
        try:
            look_up(word)
        except UsageError as error:
            complaint = str(error)
        assert "\n" not in complaint or "\n" in word


def test_a_near_card_is_offered() -> None:
    with pytest.raises(UsageError, match="a100"):
        gpu("a100-8gb")
    assert link("ib200x8").rate == 8 * link("ib200").rate


def test_loss_bytes_depend_on_the_loop() -> None:
    assert loss_bytes(LLAMA, "bf16", False, outputs_kept=True) == 14
    assert loss_bytes(LLAMA, "bf16", False, outputs_kept=False) == 12
    assert loss_bytes(model("qwen-7b"), "bf16", False, outputs_kept=False) == 6
    assert loss_bytes(LLAMA, "fp32", False, outputs_kept=True) == 16


def test_neither_torch_nor_transformers_is_imported(tmp_path: Path) -> None:
    config = tmp_path / "ds.json"
    config.write_text('{"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}}')
    code = (
        "import sys; from dslint.cli import main\n"
        f"main(['--estimate', '--model', 'llama-7b', '--gpus', '8', '--gpu-type', 'a100', {str(config)!r}])\n"
        "print(sorted({'torch', 'transformers', 'numpy', 'jsonschema', 'ruamel'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_plain_run_imports_nothing_of_the_predictor(tmp_path: Path) -> None:
    config = tmp_path / "ds.json"
    config.write_text('{"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}}')
    code = (
        "import sys; from dslint.cli import main\n"
        f"main([{str(config)!r}])\n"
        "print(sorted(m for m in sys.modules if m.startswith('dslint.memory')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "['dslint.memory', 'dslint.memory.arguments']"


def test_the_accuracy_benchmark_reads_a_table(tmp_path: Path) -> None:
    table = tmp_path / "m.tsv"
    row = {
        "source": "x",
        "model": "llama-7b",
        "params_b": "6.738",
        "gpus": "8",
        "gpu": "A800-80",
        "stage": "2",
        "offload_opt": "none",
        "offload_param": "none",
        "precision": "bf16",
        "optimizer": "adamw",
        "micro_batch": "1",
        "seq_len": "4096",
        "ckpt": "1",
        "attn": "flash",
        "trainable": "",
        "metric": "steady_alloc",
        "measured": "21.97",
        "unit": "GiB",
        "use": "1",
        "cfg": "{}",
        "note": "",
    }
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, row, delimiter="\t")
        writer.writeheader()
        writer.writerow(row)
        writer.writerow({**row, "model": "unheard-of", "params_b": "13", "gpu": "?", "measured": "42.4"})
    script = ROOT / "benchmarks/memory_accuracy.py"
    done = subprocess.run([sys.executable, script, table], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows 2" in done.stdout and "DeepSpeed estimator" in done.stdout
