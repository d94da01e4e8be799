"""The schemas of schemas/: well formed, complete, true to known facts, and (live) true to DeepSpeed."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "schemas"
INDEX: dict[str, str] = json.loads((SCHEMAS / "index.json").read_text(encoding="utf-8"))
FILES = {
    name: json.loads((SCHEMAS / name).read_text(encoding="utf-8")) for name in sorted(set(INDEX.values()))
}
HISTORY: dict[str, Any] = json.loads((SCHEMAS / "history.json").read_text(encoding="utf-8"))
MINIMAL = {"train_micro_batch_size_per_gpu": 1}

KEYWORDS = {
    "type", "properties", "additionalProperties", "items", "enum", "const", "pattern", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minLength", "required", "not", "anyOf", "description", "default",
    "deprecated", "title", "$schema", "$id",
}  # fmt: skip


def version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def schema(release: str) -> dict[str, Any]:
    return FILES[INDEX[release]]


def valid(release: str, config: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema(release)).is_valid({**MINIMAL, **config})


def key(release: str, path: str) -> dict[str, Any]:
    here = schema(release)
    for part in path.split("."):
        here = here["properties"][part]
    return here


def subschemas(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every schema inside a schema, itself included."""
    yield node
    for inner in node.get("properties", {}).values():
        yield from subschemas(inner)
    for word in ("additionalProperties", "items", "not"):
        if isinstance(node.get(word), dict):
            yield from subschemas(node[word])
    for inner in node.get("anyOf", ()):
        yield from subschemas(inner)


def keys(node: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key path with its schema."""
    for name, inner in node.get("properties", {}).items():
        path = f"{prefix}.{name}" if prefix else name
        yield path, inner
        yield from keys(inner, path)


# Form


def test_index_is_complete() -> None:
    sys.path.insert(0, str(SCHEMAS))
    try:
        import releases
    finally:
        sys.path.remove(str(SCHEMAS))
    assert set(releases.RELEASES) <= set(INDEX)
    assert list(INDEX) == sorted(INDEX, key=version)
    assert {path.name for path in SCHEMAS.glob("deepspeed-*.json")} == set(INDEX.values())
    for release, name in INDEX.items():  # a file is named after the last release that has it
        assert version(name[len("deepspeed-") : -len(".json")]) >= version(release)
    assert len({json.dumps(content) for content in FILES.values()}) == len(FILES)


@pytest.mark.parametrize("name", FILES)
def test_is_json_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_uses_only_agreed_keywords(name: str) -> None:
    for node in subschemas(FILES[name]):
        assert {word for word in node if not word.startswith("x-")} <= KEYWORDS
    for path, node in keys(FILES[name]):
        assert node.get("x-unknown-keys") in (None, "forbidden", "ignored", "free"), path
        assert ("x-unknown-keys" in node) == ("properties" in node) == ("x-auto" in node), path
        assert node.get("description"), path


def test_patterns() -> None:
    patterns = {
        node["pattern"] for content in FILES.values() for node in subschemas(content) if "pattern" in node
    }
    hostile = [
        "1" * 200000 + "x",
        "1_" * 100000 + "x",
        "0." + "0" * 200000 + "x",
        " " * 200000 + "x",
        "-" * 200000,
    ]
    for pattern in patterns:
        assert "(?<" not in pattern and not re.search(r"\(\?[aiLmsux]", pattern), pattern
        compiled = re.compile(pattern)
        for text in hostile:
            compiled.search(text)  # a quadratic pattern would not come back


@pytest.mark.parametrize("name", FILES)
def test_defaults_are_accepted(name: str) -> None:
    for path, node in keys(FILES[name]):
        if node.get("default") is not None:
            assert jsonschema.Draft202012Validator(node).is_valid(node["default"]), path


@pytest.mark.parametrize("name", FILES)
def test_references_lead_somewhere(name: str) -> None:
    known = {path for path, _ in keys(FILES[name])}
    for path, node in keys(FILES[name]):
        parent = path.rpartition(".")[0]
        for word in ("x-replaced-by", "x-canonical"):
            for target in str(node[word]).split(" or ") if word in node else ():
                assert target in known or f"{parent}.{target}" in known, (path, target)


@pytest.mark.parametrize("release", INDEX)
def test_common_config_is_valid_everywhere(release: str) -> None:
    config = {
        "train_batch_size": 8,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95]}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}},
        "zero_optimization": {
            "stage": 3,
            "overlap_comm": True,
            "reduce_bucket_size": 5e8,
            "stage3_prefetch_bucket_size": "auto",
            "offload_optimizer": {"device": "cpu", "pin_memory": True},
        },
        "gradient_clipping": 1.0,
        "_comment": "hello",
    }
    assert valid(release, config)


# Facts


@pytest.mark.parametrize("release", INDEX)
def test_stage(release: str) -> None:
    assert key(release, "zero_optimization.stage")["x-values"] == [0, 1, 2, 3]
    for stage in (0, 1, 2, 3, "auto"):
        assert valid(release, {"zero_optimization": {"stage": stage}})
    for stage in (4, -1, 1.5, None, "three"):
        assert not valid(release, {"zero_optimization": {"stage": stage}})


@pytest.mark.parametrize("release", INDEX)
def test_changes_by_release(release: str) -> None:
    at = version(release)
    assert valid(release, {"zero_optimization": {"reduce_bucket_size": 0}}) == (at < (0, 19, 6))
    assert key(release, "gradient_clipping")["default"] == (1 if at >= (0, 19, 3) else 0)
    for section in ("offload_param", "offload_optimizer"):
        assert key(release, f"zero_optimization.{section}.pin_memory")["default"] is (at >= (0, 19, 5))
    for section in ("bf16", "fp16"):
        assert key(release, section)["x-unknown-keys"] == ("forbidden" if at >= (0, 17, 1) else "ignored")
        assert valid(release, {section: {"no_such_key": 1}}) == (at < (0, 17, 1))
    assert key(release, "steps_per_print")["default"] == (None if at >= (0, 15, 2) else 10)
    names = key(release, "aio")["properties"]
    assert ("thread_count" in names) == (at < (0, 16, 4)) != ("intra_op_parallelism" in names)
    for gone in ("nebula", "compression_training"):
        assert valid(release, {gone: {}}) == (at < (0, 19, 7))
    for gone in ("amp", "elasticity", "curriculum_learning", "progressive_layer_drop"):
        assert valid(release, {gone: {"enabled": False}}) == (at < (0, 19, 8))
    assert ("zenflow" in key(release, "zero_optimization")["properties"]) == (at >= (0, 17, 5))
    assert ("tensor_parallel" in schema(release)["properties"]) == (at >= (0, 16, 4))


@pytest.mark.parametrize("release", INDEX)
def test_sections_forbid_or_ignore(release: str) -> None:
    assert schema(release)["x-unknown-keys"] == "ignored"
    assert key(release, "zero_optimization")["x-unknown-keys"] == "forbidden"
    assert key(release, "activation_checkpointing")["x-unknown-keys"] == "ignored"
    assert not valid(release, {"zero_optimization": {"stagee": 3}})
    assert valid(release, {"zero_optimization": {"stagee": "auto"}})
    assert valid(release, {"activation_checkpointing": {"cpu_chekpointing": True}, "zero_optimisation": {}})


def test_lax_values() -> None:
    for release, fraction in (("0.9.0", True), ("0.14.4", True), ("0.15.0", False), ("0.19.8", False)):
        for value in (5e8, "500000000", " 7 ", "auto", True):
            assert valid(release, {"zero_optimization": {"reduce_bucket_size": value}}), (release, value)
        for value in ("5e8", "x", None, [], {}, -1, "-1"):
            assert not valid(release, {"zero_optimization": {"reduce_bucket_size": value}}), (release, value)
        assert valid(release, {"zero_optimization": {"reduce_bucket_size": 5.5}}) == fraction
        for value in (True, 0, 1, "yes", "OFF", "true", "auto"):
            assert valid(release, {"zero_optimization": {"reduce_scatter": value}}), (release, value)
        for value in (2, "2", "maybe", None, []):
            assert not valid(release, {"zero_optimization": {"reduce_scatter": value}}), (release, value)
    assert not valid("0.19.8", {"train_batch_size": "auto"})
    assert not valid("0.19.8", {"communication_data_type": "fp8"})
    assert valid("0.19.8", {"communication_data_type": "BF16"})


def test_old_spelling_of_bf16() -> None:
    assert not valid("0.19.8", {"bfloat16": {"enable": True}})
    assert valid("0.19.8", {"bfloat16": {"enable": True}, "bf16": {"enabled": True}})
    assert key("0.19.8", "bfloat16")["x-replaced-by"] == "bf16"


def test_optimizers_and_schedulers() -> None:
    table = key("0.19.8", "optimizer")["x-optimizers"]
    assert {"lr", "betas", "weight_decay", "adam_w_mode", "torch_adam"} <= set(table["adam"]["gpu"])
    assert "fused" not in table["adam"]["gpu"] and "fused" in table["adam"]["torch_adam"]
    assert table["adamw"]["classes"]["cpu_offload"] == "DeepSpeedCPUAdam"
    assert "muon" in table and "onebitadam" not in table
    assert "onebitadam" in key("0.19.6", "optimizer")["x-optimizers"]
    assert "SGD" in key("0.19.8", "optimizer")["x-torch-optimizers"]
    assert "SGD" not in key("0.19.8", "optimizer")["x-zero-tested-optimizers"]
    for release, peak in (("0.17.1", 0.001), ("0.17.2", None)):
        assert key(release, "scheduler")["x-schedulers"]["WarmupLR"]["params"]["warmup_max_lr"] == peak
    assert key("0.19.8", "scheduler")["x-schedulers"]["WarmupDecayLR"]["required"] == ["total_num_steps"]


def test_history_is_made_of_the_schemas() -> None:
    sys.path.insert(0, str(SCHEMAS))
    try:
        import history
    finally:
        sys.path.remove(str(SCHEMAS))
    made = history.dump(history.make({release: schema(release) for release in INDEX}))
    assert made == (SCHEMAS / "history.json").read_text(encoding="utf-8"), "run: schemas/build.py --history"


def test_history() -> None:
    story = HISTORY["keys"]
    assert (HISTORY["first"], HISTORY["last"]) == (next(iter(INDEX)), list(INDEX)[-1])
    assert story["gradient_clipping"]["defaults"] == [["0.19.3", 0, 1]]
    assert story["zero_optimization.offload_param.pin_memory"]["defaults"] == [["0.19.5", False, True]]
    new, old = story["aio.intra_op_parallelism"], story["aio.thread_count"]
    assert (new["since"], new["before"], new["renamed_from"]) == ("0.16.4", "ignored", "aio.thread_count")
    assert (old["until"], old["after"], old["renamed_to"]) == (
        "0.16.3",
        [["0.16.4", "ignored"]],
        "aio.intra_op_parallelism",
    )
    assert story["amp"]["until"] == "0.19.7" and story["amp"]["after"][0][1] == "raises"
    assert ["0.19.6", "must be >= 1"] in story["zero_optimization.reduce_bucket_size"]["constraints"]
    assert ["0.17.1", "unknown keys raise"] in story["bf16"]["constraints"]
    assert story["zero_optimization.zenflow"] == {"since": "0.17.5", "before": "raises"}


# Live


SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import worker
parser = worker.Parser()
maker = worker.Maker(parser)
out = []
for path, value in json.load(sys.stdin):
    bases = maker.bases(tuple(path))
    configs = [worker.settle(worker.put(base, tuple(path), value), value) for base in bases]
    out.append([[config, parser.accepts(config)] for config in configs])
print("ANSWER" + json.dumps([parser.release, out]))
"""
VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 3, -1, 7, 5.0, 5e8, 5.5, 0.5, -0.5, 1000, "1", "0", "-1", " 2 ", "1_000",
    "500000000",
    "5e8", "5.0", "5.5", "true", "True", "yes", "on", "off", "no", "y", "t", "auto", "Auto", "abc", "",
    "fp16", "bf16",
    "fp32", "float16", "cpu", "nvme", "none", [], [1], ["a"], {}, {"a": 1},
]  # fmt: skip


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
def test_agrees_with_the_installed_deepspeed() -> None:
    import importlib.metadata

    release = importlib.metadata.version("deepspeed").split("+")[0]
    if release not in INDEX:
        pytest.skip(f"no schema for DeepSpeed {release}")
    draw = random.Random(7)
    paths = [path.split(".") for path, node in keys(schema(release)) if path != "tensor_parallel.dtype"]
    cases = [(path, value) for path in paths for value in draw.sample(VALUES, 6)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(SCHEMAS)], input=json.dumps(cases), capture_output=True, text=True
    )
    assert "ANSWER" in done.stdout, done.stderr[-2000:]
    _, answers = json.loads(done.stdout.partition("ANSWER")[2])
    judge = jsonschema.Draft202012Validator(schema(release))
    wrong = []
    for (path, value), configs in zip(cases, answers, strict=True):
        accepted = any(verdict for _, verdict in configs)
        if accepted != any(judge.is_valid(config) for config, _ in configs):
            literal = key(release, ".".join(path)).get("x-integer-literal") and isinstance(value, float)
            if not literal:  # JSON Schema cannot tell 5.0 from 5
                wrong.append((".".join(path), value, accepted))
    assert not wrong
