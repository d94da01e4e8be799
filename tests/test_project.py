"""Files that belong together: what names a config is found, followed and heard."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dslint.cli import main
from dslint.formats import read_bytes
from dslint.formats.strict import strictly

DS: dict[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2},
}
ACCELERATE = (
    "distributed_type: DEEPSPEED\nnum_processes: 8\n"
    "deepspeed_config:\n  deepspeed_config_file: conf/ds.json\n"
)
ACCELERATE_JSON = '{"distributed_type": "DEEPSPEED", "num_processes": 8}'


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(tmp_path)


def write(name: str, content: Any) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8")
    return name


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, list[tuple[str, str]]]:
    """What was said: path -> (code, key) of every finding."""
    main([*argv, "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    return {file["path"]: [(f["code"], f["key"]) for f in file["findings"]] for file in report["files"]}


def messages(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    main([*argv, "--format", "json"])
    return [f["message"] for file in json.loads(capsys.readouterr().out)["files"] for f in file["findings"]]


def test_the_named_config_is_linted_with_the_accelerate_file(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/ds.json", {**DS, "zero_optimization": {"stage": 9}})
    write("a.yaml", ACCELERATE)
    assert run(capsys, "a.yaml") == {"a.yaml": [], "conf/ds.json": [("DS107", "zero_optimization.stage")]}


def test_a_conflict_is_found_once_with_both_places(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/ds.json", DS)
    write("a.yaml", ACCELERATE + "  zero_stage: 3\n")
    for argv in (["a.yaml"], ["a.yaml", "conf/ds.json"], ["."]):
        assert run(capsys, *argv) == {
            "a.yaml": [("DS954", "deepspeed_config.zero_stage")],
            "conf/ds.json": [],
        }
        assert "conf/ds.json:10 has zero_optimization.stage 2" in messages(capsys, *argv)[0]


def test_num_processes_is_the_number_of_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "conf/ds.json",
        {"train_batch_size": 12, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}},
    )
    write("a.yaml", ACCELERATE)
    assert ("DS204", "train_batch_size") in run(capsys, "a.yaml")["conf/ds.json"]
    write("a.yaml", ACCELERATE.replace("8", "12"))
    assert ("DS204", "train_batch_size") not in run(capsys, "a.yaml")["conf/ds.json"]


def test_the_path_counts_from_here_or_from_above_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    write("project/conf/ds.json", DS)
    write("project/recipes/a.yaml", ACCELERATE)
    assert set(run(capsys, "project/recipes/a.yaml")) == {"project/recipes/a.yaml", "project/conf/ds.json"}


def test_a_file_that_is_not_here_is_said_to_be_unread(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.yaml", ACCELERATE)
    assert run(capsys, "a.yaml") == {"a.yaml": [("DS967", "deepspeed_config.deepspeed_config_file")]}


@pytest.mark.parametrize("named", ["../secret.json", "{absolute}", "conf/secret.txt", "link.json"])
def test_nothing_outside_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path, named: str) -> None:
    secret = tmp_path.parent / "secret.json"
    secret.write_text('{"train_batch_size": "s3cret"}', encoding="utf-8")
    write("conf/secret.txt", '{"train_batch_size": "s3cret"}')
    Path("link.json").symlink_to(secret)
    write("a.yaml", ACCELERATE.replace("conf/ds.json", named.replace("{absolute}", str(secret))))
    main(["a.yaml"])
    assert "s3cret" not in capsys.readouterr().out


SCRIPT = (
    "torchrun --nproc_per_node 4 t.py --deepspeed conf/ds.json --per_device_train_batch_size 2 --bf16 True\n"
)


def test_the_arguments_of_a_script_fill_the_config(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/ds.json", DS)
    write("train.sh", SCRIPT + "#")
    main(["conf/ds.json", "--hf-args", "train.sh", "--show-config"])
    shown = capsys.readouterr().out
    assert (
        "train_micro_batch_size_per_gpu = 2  # filled by HF Trainer from per_device_train_batch_size" in shown
    )
    assert "bf16.enabled = true  # filled by HF Trainer from bf16 or bf16_full_eval" in shown
    assert "gradient_accumulation_steps = ?  # filled by HF Trainer" in shown


def test_without_a_path_the_config_is_the_one_the_script_names(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/ds.json", {**DS, "train_micro_batch_size_per_gpu": 8})
    write("train.sh", SCRIPT)
    assert ("DS903", "train_micro_batch_size_per_gpu") in run(capsys, "--hf-args", "train.sh")["conf/ds.json"]


def test_a_directory_is_searched_for_what_starts_its_configs(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/ds.json", {**DS, "train_micro_batch_size_per_gpu": 8})
    write("conf/other.json", {**DS, "train_micro_batch_size_per_gpu": 16})
    write("scripts/train.sh", SCRIPT)
    found = run(capsys, ".")
    assert ("DS903", "train_micro_batch_size_per_gpu") in found["conf/ds.json"]
    assert ("DS905", "train_micro_batch_size_per_gpu") in found["conf/other.json"]


def test_a_directory_is_searched_for_frameworks_files(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "conf/ds.json",
        {**DS, "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}},
    )
    write(
        "sft.yaml", "model_name_or_path: m\nfinetuning_type: full\ndeepspeed: conf/ds.json\npure_bf16: true\n"
    )
    assert ("DS980", "zero_optimization.stage") in run(capsys, ".")["conf/ds.json"]


def test_every_run_of_a_config_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/ds.json", {**DS, "gradient_clipping": 0.5, "train_micro_batch_size_per_gpu": 2})
    write("a.sh", SCRIPT + SCRIPT.replace("size 2", "size 4 --max_grad_norm 1.0"))
    found = run(capsys, ".")["conf/ds.json"]
    assert ("DS903", "gradient_clipping") in found and ("DS903", "train_micro_batch_size_per_gpu") in found


def test_accelerate_files_are_found_by_content(capsys: pytest.CaptureFixture[str]) -> None:
    write("x/plain.yaml", "a: 1\nzero_optimization: {stage: 2}\n")
    write("x/a.yml", "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 2\n")
    write(
        "x/b.json",
        {"distributed_type": "DEEPSPEED", "num_processes": 2, "deepspeed_config": {"zero_stage": 2}},
    )
    write(
        "x/inline.yaml",
        "base_model: m\ndeepspeed:\n  zero_optimization:\n    stage: 2\n  train_batch_size: auto\n",
    )
    assert set(run(capsys, "x")) == {"x/a.yml", "x/b.json", "x/inline.yaml"}


def test_a_config_inside_an_axolotl_file_is_judged_there(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "a.yaml",
        "base_model: m\nmicro_batch_size: 2\ndeepspeed:\n  train_micro_batch_size_per_gpu: 4\n"
        "  zero_optimization:\n    stage: 2\n    reduce_bucket_size: 5e8\n",
    )
    found = run(capsys, "a.yaml")["a.yaml"]
    assert ("DS105", "deepspeed.zero_optimization.reduce_bucket_size") in found
    assert ("DS903", "deepspeed.train_micro_batch_size_per_gpu") in found


@pytest.mark.parametrize(
    "name, content, complaint",
    [
        ("none.sh", None, "No such file"),
        ("empty.json", "", "holds nothing"),
        ("bad.yaml", "a: [1", "not readable as YAML"),
        ("plain.sh", "ls\n", "starts no run"),
        ("other.sh", SCRIPT.replace("conf/ds.json", "conf/missing.json"), "is not to be found"),
    ],
)
def test_arguments_that_cannot_be_used_are_one_line(
    capsys: pytest.CaptureFixture[str], name: str, content: str | None, complaint: str
) -> None:
    if content is not None:
        write(name, content)
    assert main(["--hf-args", name]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and complaint in err, err


def test_json_load_reads_what_hjson_refuses() -> None:
    text = '{"a": [1, {"b": NaN}], "c": "\\u00e9", "c": -Infinity, "d": {"e": null, "e": true}}'
    document = read_bytes(text.encode(), "c.json")
    assert document.problems
    strict = strictly(document)
    assert strict is not None and strict.problems == []
    from dslint.document import plain

    assert str(plain(strict.root)) == str(json.loads(text))  # type: ignore[arg-type]
    assert [(d.rule, d.path) for d in strict.departures] == [
        ("shadowed-key", ("c",)),
        ("shadowed-key", ("d", "e")),
    ]
    for path in (("a", 1, "b"), ("d", "e")):
        place = strict.find(path)
        assert place is not None and text[slice(*place.span)] == f'"{path[-1]}"'


def test_what_json_load_refuses_stays_refused() -> None:
    for text in ('{"a": 1,}', "{'a': 1}", "\ufeff{}", "[1]"):
        assert strictly(read_bytes(text.encode(), "c.json")) is None


LAUNCHED = (
    "accelerate launch --config_file a.yaml {} t.py --per_device_train_batch_size 1 --output_dir x {}\n"
)


def test_accelerates_settings_are_compared_with_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.yaml", "distributed_type: DEEPSPEED\nnum_processes: 2\nmixed_precision: bf16\ndeepspeed_config:\n"
          "  zero_stage: 2\n  gradient_accumulation_steps: 4\n  gradient_clipping: 0.5\n")  # fmt: skip
    write(
        "t.sh",
        LAUNCHED.format("", "--gradient_accumulation_steps 2 --max_grad_norm 1.0 --bf16 False --fp16 False"),
    )
    found = run(capsys, "a.yaml", "--hf-args", "t.sh")["a.yaml"]
    assert [key for code, key in found if code == "DS903"] == [
        "mixed_precision", "deepspeed_config.gradient_accumulation_steps", "deepspeed_config.gradient_clipping"
    ]  # fmt: skip
    write(
        "t.sh",
        LAUNCHED.format("", "--gradient_accumulation_steps 4 --max_grad_norm 0.5 --bf16 True --fp16 False"),
    )
    assert run(capsys, "a.yaml", "--hf-args", "t.sh")["a.yaml"] == []
    assert run(capsys, "--hf-args", "t.sh") == {"a.yaml": []}


def test_deepspeed_in_the_arguments_excludes_accelerates_settings(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", DS)
    write("a.yaml", "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 3\n")
    write("t.sh", LAUNCHED.format("", "--deepspeed ds.json"))
    assert ("DS954", "deepspeed_config.zero_stage") in run(capsys, ".")["a.yaml"]


def test_precision_on_the_command_line_is_let_pass(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/ds.json", DS)
    write("a.yaml", ACCELERATE + "mixed_precision: bf16\n")
    write("t.sh", LAUNCHED.format("", ""))
    assert ("DS956", "mixed_precision") in run(capsys, ".")["a.yaml"]
    write("t.sh", LAUNCHED.format("--mixed_precision bf16", ""))
    assert [code for code, _ in run(capsys, ".")["a.yaml"]] == ["DS955"]


def test_a_framework_command_brings_its_file_and_the_processes(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/ds.json", {**DS, "train_batch_size": 64})
    write(
        "sft.yaml",
        "model_name_or_path: m\ntemplate: t\ndeepspeed: conf/ds.json\nper_device_train_batch_size: 2\n",
    )
    write("run.sh", "FORCE_TORCHRUN=1 NPROC_PER_NODE=4 llamafactory-cli train sft.yaml learning_rate=1e-5\n")
    (message,) = (m for m in messages(capsys, ".") if m.startswith("train_batch_size is 64"))
    assert "make it 8 (world size" in message and "sft.yaml:4)" in message


def test_the_summary_names_each_runs_trainer(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}})
    run = "deepspeed --num_gpus"
    write(
        "run.sh",
        f"{run} 2 raw.py --deepspeed_config ds.json\n{run} 4 hf.py --deepspeed ds.json --output_dir o\n",
    )
    main(["ds.json", "--hf-args", "run.sh"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert "trainer raw or hf: as run.sh starts it" in last and "2 GPUs or 4 GPUs" in last


def test_what_the_command_line_hides_is_unknown_whatever_the_accelerate_file_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("conf/ds.json", DS)
    write("a.yaml", ACCELERATE)
    write("run.sh", "accelerate launch --config_file a.yaml --num_processes $N t.py --output_dir o\n")
    main(["--hf-args", "run.sh"])
    out = capsys.readouterr().out
    assert "GPUs unknown" in out and "in 2 files" in out


def test_a_refused_batch_size_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", {**DS, "train_batch_size": 32, "gradient_accumulation_steps": 4})
    args = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "deepspeed": "ds.json"}
    write("args.json", {"output_dir": "o", **args})
    main(["--hf-args", "args.json", "--gpus", "8", "--format", "concise"])
    lines = [line for line in capsys.readouterr().out.splitlines() if " error " in line]
    assert [line.split()[1] for line in lines] == ["DS903"] and "gradient_accumulation_steps is 4" in lines[0]


def test_a_config_that_ms_swift_brings_along_is_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    write("run.sh", "swift sft --model m --deepspeed zero2\n")
    assert main(["--hf-args", "run.sh"]) == 2
    assert "ms-swift brings along" in capsys.readouterr().err


@pytest.mark.parametrize(
    "before, code",
    [
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=2", "DS987 error"),
        ("CUDA_VISIBLE_DEVICES=0,1,2 NPROC_PER_NODE=2", "DS987 error"),
        ("CUDA_VISIBLE_DEVICES=0,1", "DS988 warning"),
        ("SWIFT_SINGLE_DEVICE_MODE=1 CUDA_VISIBLE_DEVICES=0,1", None),
        ("CUDA_VISIBLE_DEVICES=0", None),
        ("CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2", None),
        ("CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=$N", None),
        ("NPROC_PER_NODE=2", None),
    ],
)
def test_ms_swift_takes_spare_gpus_for_a_device_map(
    capsys: pytest.CaptureFixture[str], before: str, code: str | None
) -> None:
    write("ds.json", DS)
    write("run.sh", f"{before} swift sft --model m --deepspeed ds.json\n")
    main(["--hf-args", "run.sh", "--format", "concise"])
    out = capsys.readouterr().out
    assert (code in out) if code is not None else ("DS987" not in out and "DS988" not in out)


@pytest.mark.parametrize("name", ["a\0.json", "\ud800.json"])
def test_a_name_that_no_file_can_have_stops_nothing(capsys: pytest.CaptureFixture[str], name: str) -> None:
    arguments = write("args.json", {"output_dir": "x", "deepspeed": name})
    launch = json.dumps(json.loads(ACCELERATE_JSON) | {"deepspeed_config": {"deepspeed_config_file": name}})
    accelerate = write("accelerate.json", launch)
    write("ds.json", {"zero_optimization": {"stage": 2}})
    for paths in ([], [arguments, "ds.json"], [accelerate, "ds.json"]):
        assert main([*paths, "--format", "concise"]) == 1
        out, err = capsys.readouterr()
        assert "ds.json:1:" in out and err == ""
    assert main(["--hf-args", arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name")
def test_a_name_that_is_no_utf8(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("bad\udcff.json").write_text('{"zero_optimization": {"stage": 2}}')
    Path("run.sh").write_bytes(b"deepspeed --num_gpus 2 train.py --deepspeed_config bad\xff.json\n")
    assert main([".", "--format", "concise"]) == 1
    out, err = capsysbinary.readouterr()
    assert out.startswith(b"bad\\udcff.json:1:") and err == b""


def test_arguments_without_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    write("ds.json", DS)
    assert main(["--hf-args", "/dev/zero", "ds.json"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
