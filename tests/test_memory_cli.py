"""--estimate and --recommend as a user runs them: text, JSON, the page, bad input."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dslint import schema as schemas
from dslint.cli import main
from dslint.lint import Options, lint
from dslint.memory.predict import PHASES
from dslint.memory.workload import workload
from dslint.rules import load

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2},
}
TARGET = ("--model", "llama-7b", "--gpus", "8", "--gpu-type", "a100-80gb", "--seq-len", "4096")


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps(CONFIG, indent=2))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["--deepspeed", schemas.newest(), *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_estimate_in_text(capsys: pytest.CaptureFixture[str], config: str) -> None:
    code, out, _ = run(capsys, "--estimate", *TARGET, config)
    assert code == 0 and out.isascii()
    assert "fits: " in out and "llama-7b (6.738 B parameters)" in out
    for phase in PHASES:
        assert re.search(rf"^  {phase} +[0-9.]+ \|[A-Za-z./>]+\|$", out, re.M)
    assert "assumed:" in out and "activation checkpointing on (--checkpointing off)" in out


def test_estimate_in_json_keeps_the_contract(capsys: pytest.CaptureFixture[str], config: str) -> None:
    code, out, _ = run(capsys, "--estimate", *TARGET, "--format", "json", config)
    (file,) = json.loads(out)["files"]
    estimate = file["estimate"]
    assert code == 0 and all(finding["severity"] == "info" for finding in file["findings"])
    assert estimate["verdict"] == "fits" and estimate["peak_phase"] in PHASES
    assert set(estimate["per_gpu_gib"]) == {
        "allocated_peak",
        "allocated_steady",
        "reserved_peak",
        "device_total",
    }
    assert estimate["items_gib"]["backward"]["weights"] == pytest.approx(12.55, abs=0.01)
    assert estimate["per_gpu_gib"]["allocated_steady"] == pytest.approx(21.96, abs=0.02)
    assert estimate["host_gib_per_node"] == 0 and isinstance(estimate["assumptions"], list)


def test_a_run_that_cannot_fit_is_an_error_with_its_cure(
    capsys: pytest.CaptureFixture[str], config: str
) -> None:
    code, out, _ = run(
        capsys, "--estimate", "--model", "llama-2-70b", "--gpus", "8", "--gpu-type", "a100", config
    )
    assert code == 1 and "error[DS703]" in out
    code, out, _ = run(capsys, "--estimate", "--model", "llama-7b", "--gpus", "8", "--gpu-type", "l4", config)
    assert code == 1 and "error[DS701]" in out and "cannot fit" in out and "to make it fit: " in out


@pytest.mark.parametrize(
    "model, gpus, memory, stage, code, reason",
    [
        ("chatglm2-6b", "8", "18GB", 1, "DS701", r"at the very least 36\.3 GiB a GPU \(gradients 13\.1"),
        ("chatglm2-6b", "8", "12GB", 2, "DS703", r"11\.6 GiB, 12\.6 with the CUDA context, .* 11\.8 GiB"),
        ("llama-7b", "1", "48GB", 3, "DS701", r"at the very least 107 GiB a GPU \(optimizer states 50\.2"),
        ("llama-2-70b", "8", "80GB", 2, "DS703", r"128 GiB, .* no number of GPUs changes that"),
        ("llama-2-70b", "512", "80GB", 2, "DS703", r"128 GiB, .* no number of GPUs changes that"),
    ],
)
def test_figures_that_cannot_be_are_refused_with_the_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: str, gpus: str, memory: str, stage: int,
    code: str, reason: str,
) -> None:  # fmt: skip
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({**CONFIG, "zero_optimization": {"stage": stage}}))
    flags = ("--model", model, "--gpus", gpus, "--gpu-memory", memory, "--method", "full")
    exit_code, out, _ = run(capsys, *flags, str(path))
    assert exit_code == 1 and f"error[{code}]" in out and re.search(reason, out)


def test_side_by_side(capsys: pytest.CaptureFixture[str], config: str) -> None:
    _, out, _ = run(capsys, "--estimate", "--gpus", "1,2,4,8", *TARGET[:2], *TARGET[4:], config)
    assert [line.split()[0] for line in out.splitlines() if re.match(r"  \d+ GPU", line)] == [
        "1",
        "2",
        "4",
        "8",
    ]
    _, out, _ = run(capsys, "--estimate", "--stages", *TARGET, "--format", "json", config)
    names = [entry["name"] for entry in json.loads(out)["files"][0]["estimate"]["side_by_side"]]
    assert names[0] == "ZeRO-0" and len(names) == 8
    assert names[-1] == "ZeRO-3, optimizer and parameters on CPU"


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["--estimate"], "--model"),
        (["--recommend", "--model", "llama-7b"], "--gpus"),
        (["--recommend", "--model", "llama-7b", "--gpus", "8"], "--gpu-type"),
        (["--estimate", "--recommend", "--model", "7B"], "one of"),
        (["--stages"], "--estimate"),
        (["--gpus", "1,2"], "--estimate"),
        (["--gpus", "1,,2", "--estimate", "--model", "7B"], "whole number"),
        (["--format", "html"], "--estimate"),
        (["--estimate", "--model", "lama-7b"], "llama-7b"),
        (["--estimate", "--model", "7B", "--gpu-type", "a1000"], "a100"),
        (["--estimate", "--model", "7B", "--gpu-memory", "lots"], "80GB"),
        (["--estimate", "--model", "7B", "--interconnect", "string"], "link"),
        (["--estimate", "--model", "7B", "--host-memory", "-1"], "memory"),
        (["--estimate", "--model", "7B", "--seq-len", "0"], "whole number"),
        (["--estimate", "--model", "7B", "--trainable-params", "x"], "parameters"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], config: str, arguments: list[str], word: str
) -> None:
    code, out, err = run(capsys, *arguments, config)
    assert code == 2 and out == "" and err.count("\n") == 1 and word in err


def test_a_hostile_model_name_does_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], config: str
) -> None:
    code, _, err = run(capsys, "--estimate", "--model", "\x1b[31mred\u202e", config)
    assert code == 2 and "\x1b" not in err and "\u202e" not in err


def test_a_hostile_config_json_does_not_reach_the_page(
    capsys: pytest.CaptureFixture[str], config: str, tmp_path: Path
) -> None:
    evil = tmp_path / "config.json"
    shape = {
        "model_type": "gpt2",
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 64,
        "vocab_size": 100,
    }
    evil.write_text(json.dumps({**shape, "_name_or_path": "</title><script>alert(1)</script>\x1b[31m"}))
    for form in ("html", "text", "github"):
        _, out, _ = run(capsys, "--estimate", "--model", str(evil), "--gpus", "8", "--format", form, config)
        assert "<script>" not in out or form != "html"
        assert "\x1b" not in out


class Page(HTMLParser):
    """Collects what a page would load, and checks that its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.bars = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.bars += tag == "rect"
        self.loads += [value or "" for key, value in attrs if key in ("src", "href", "srcset", "data")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag


@pytest.mark.parametrize("more", [(), ("--stages",), ("--gpus", "2,4,8")])
def test_the_page_is_whole_and_loads_nothing(
    capsys: pytest.CaptureFixture[str], config: str, tmp_path: Path, more: tuple[str, ...]
) -> None:
    target = tmp_path / "page.html"
    code, out, _ = run(
        capsys, "--estimate", *TARGET, *more, "--format", "html", "--output", str(target), config
    )
    assert code == 0 and out == ""
    text = target.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.loads == [] and page.bars > 10
    assert "http" not in re.sub(r"http-equiv", "", text)


@pytest.mark.parametrize("more", [(), ("--stages",)])
def test_the_page_tells_what_was_found_and_writes_numbers_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: tuple[str, ...]
) -> None:
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps({**CONFIG, "gradient_accumulation_steps": 64, "<b>": 1}))
    flags = ("--estimate", *TARGET, *more, "--fail-on", "warning", str(path))
    code, out, _ = run(capsys, *flags, "--format", "html")
    assert code == 1 and "warning DS104 unread-key: " in out and "&lt;b&gt;" in out and "<b>" not in out
    assert not re.search(r"[0-9]e\+[0-9]", out + run(capsys, *flags)[1])


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--stages",)])
def test_the_page_in_a_browser(
    capsys: pytest.CaptureFixture[str], config: str, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """Headless Chromium lays the pictures out: nothing outside the window, no bar without a height."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium")
    target = tmp_path / "page.html"
    run(capsys, "--estimate", *TARGET, *more, "--format", "html", "--output", str(target), config)
    probe = (
        "<script>addEventListener('load', () => { const r = [...document.querySelectorAll('rect')]"
        ".map(e => e.getBoundingClientRect()); document.title = JSON.stringify({bars: r.length, "
        "out: r.filter(b => b.right > innerWidth + 1 || b.left < 0).length, "
        "flat: r.filter(b => b.height < 5).length, wide: document.documentElement.scrollWidth > innerWidth}); });</script></body>"
    )
    text = target.read_text(encoding="utf-8")
    text = re.sub(r"<meta http-equiv[^>]*>", "", text).replace("</body>", probe)  # the policy forbids scripts
    target.write_text(text, encoding="utf-8")
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=1000,900",
        "--dump-dom",
        target.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(re.search(r"<title>(\{.*?\})</title>", done.stdout).group(1))  # type: ignore[union-attr]
    assert found["bars"] > 10 and found["out"] == found["flat"] == 0 and not found["wide"]


# Recommendations


def test_recommend_prints_a_config_that_can_be_used(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ("--recommend", "--model", "qwen2.5-7b", "--gpus", "4", "--gpu-type", "a100-80gb")
    target = tmp_path / "ds.json"
    code, out, _ = run(capsys, *flags, "--output", str(target))
    assert code == 0 and out.startswith("recommend: ZeRO-") and "rejected:" in out and "also fits:" in out
    assert json.loads(target.read_text()) == json.loads(out[out.index("\n{") :])
    code, out, _ = run(capsys, *flags, "--format", "json")
    found = json.loads(out)["recommend"]
    assert found["chosen"]["verdict"] == "fits" and found["config"]["bf16"] == {"enabled": True}


@pytest.mark.parametrize(
    "trainer, words",
    [
        ("hf", r"per_device_train_batch_size \d+, gradient_accumulation_steps \d+, gradient_checkpointing "),
        ("accelerate", r"mixed_precision bf16"),
        ("lightning", r"accumulate_grad_batches \d+"),
        ("raw", r"activation checkpointing (on|off)"),
    ],
)
def test_what_the_trainer_has_to_be_told_is_said(
    capsys: pytest.CaptureFixture[str], trainer: str, words: str
) -> None:
    flags = ("--recommend", "--model", "qwen2.5-7b", "--gpus", "4", "--gpu-type", "a100-80gb")
    _, out, _ = run(capsys, *flags, "--trainer", trainer)
    assert re.search(rf"^  beside the config: .*{words}", out, re.M)


def test_several_numbers_of_gpus_are_not_linted_for_one_of_them(
    capsys: pytest.CaptureFixture[str], config: str
) -> None:
    code, out, _ = run(capsys, "--estimate", "--gpus", "1,8", *TARGET[:2], *TARGET[4:], config)
    assert code == 0 and "DS701" not in out and "DS411" not in out


def test_nothing_fits_is_said_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--recommend", "--model", "llama-3.1-405b", "--gpus", "1", "--gpu-type", "l4")
    assert code == 1 and out.startswith("recommend: nothing fits") and "{" not in out


def test_the_smallest_change_of_a_given_config(capsys: pytest.CaptureFixture[str], config: str) -> None:
    flags = ("--recommend", "--model", "llama-7b", "--gpus", "8", "--gpu-type", "l4", config)
    _, out, _ = run(capsys, *flags)
    assert f"{config}: cannot fit" in out and "to make it fit: " in out


@pytest.mark.parametrize("missing", ["model", "gpu_type", "gpus"])
def test_rules_about_memory_are_silent_where_an_input_is_unknown(missing: str) -> None:
    drawn = {"model": "llama-2-70b", "gpu_type": "l4", "seq_len": 8192, "host_memory": "1GB"}
    count = None if missing == "gpus" else 8
    drawn.pop(missing, None)
    config = {"train_micro_batch_size_per_gpu": 8, "bf16": {"enabled": True}, "zero_optimization": {
        "stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True}}}  # fmt: skip
    options = Options(schemas.newest(), trainer="raw", gpus=count, workload=workload(drawn))
    report = lint(json.dumps(config).encode(), "ds.json", options, load())
    about_memory = ("DS701", "DS702", "DS703", "DS704", "DS705", "DS706", "DS707", "DS708", "DS709")
    assert [f.code for f in report.findings if f.code in about_memory] == []
    full = workload({"model": "llama-2-70b", "gpu_type": "l4", "seq_len": 8192, "host_memory": "1GB"})
    options = Options(schemas.newest(), trainer="raw", gpus=8, workload=full)
    report = lint(json.dumps(config).encode(), "ds.json", options, load())
    assert "DS704" in [f.code for f in report.findings]
