"""What HF Trainer and accelerate themselves do with a config, on one CPU rank over gloo.

    python -m tests.oracle.trainers < cases.jsonl > outcomes.jsonl

A case is {"loader": one of LOADERS, "config": object or text,
"args": {TrainingArguments}, "do": what to do, "env": {}, "files": {name: text}}. `do` is "train" (default),
"save" (train, then save the model) or "evaluate". For accelerate, "script" says what the training script
passes to prepare: "torch" (a torch AdamW), "dummy" (DummyOptim and DummyScheduler).

An outcome has the `phase` of the exception (see dslint.finding.PHASES), its class as `verdict` ("ok" without
one), its `message`, and `saw`: what DeepSpeed and the trainer ended up with.

transformers, accelerate, DeepSpeed and torch are imported once; every case runs in a forked child, since
all four keep global state. Support for bf16 and fp16 is patched on, for a CPU has less than the GPUs meant.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.oracle.train import drop_stale_locks, extensions

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the models are tiny, and several run at a time

TIMEOUT = 120


def _tiny(kind: str) -> Any:
    """A language model of a few thousand parameters; "none" has no config, "vision" only a text_config."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    if kind == "llama":
        return LlamaForCausalLM(config)
    inner = LlamaForCausalLM(config)

    class Bare(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, input_ids: Any = None, labels: Any = None, **_: Any) -> Any:
            return self.inner(input_ids=input_ids, labels=labels)

    model = Bare()
    if kind == "vision":
        model.config = type("Config", (), {"text_config": config, "to_dict": lambda self: {}})()
    return model


class _Rows:
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Any]:
        import torch

        ids = torch.arange(8) % 64
        return {"input_ids": ids, "labels": ids}


def _hf(case: dict[str, Any], path: str, tell: Any) -> dict[str, Any]:
    import transformers.training_args as module
    from transformers import Trainer, TrainingArguments

    module.is_torch_bf16_gpu_available = lambda: True
    tell("trainer")
    given = {"max_steps": 2, "per_device_train_batch_size": 2, "report_to": [], "disable_tqdm": True,
             "save_strategy": "no", "logging_steps": 1, **case.get("args", {})}  # fmt: skip
    deepspeed = None if case.get("from_env") else _given(case, path)
    args = TrainingArguments(output_dir="out", deepspeed=deepspeed, **given)
    model = _tiny(case.get("model", "llama"))
    trainer = Trainer(model=model, args=args, train_dataset=_Rows(), eval_dataset=_Rows())
    _phases(tell)
    if case.get("do") == "evaluate":
        trainer.evaluate()
        return {}
    trainer.train()
    engine = trainer.deepspeed or trainer.model_wrapped
    saw = _seen(engine)
    saw["optimizer"] = _optimizer(engine)
    tell("save")
    if case.get("do") == "save":
        trainer.save_model("saved")
        saw["saved"] = sorted(os.listdir("saved"))
    return saw


def _given(case: dict[str, Any], path: str) -> Any:
    """What TrainingArguments get: the file's path, or of a file of axolotl's the mapping in it."""
    if case["loader"] != "inline":
        return path
    import yaml

    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))["deepspeed"]


def _phases(tell: Any) -> None:
    """Tells from inside DeepSpeed how far the run has come."""
    import deepspeed
    from deepspeed.runtime.engine import DeepSpeedEngine

    real_config = deepspeed.DeepSpeedConfig.__init__
    real_engine, real_step = DeepSpeedEngine.__init__, DeepSpeedEngine.step

    def config(self: Any, *args: Any, **kwargs: Any) -> None:
        tell("config")
        real_config(self, *args, **kwargs)
        tell("trainer")

    def engine(self: Any, *args: Any, **kwargs: Any) -> None:
        tell("initialize")
        real_engine(self, *args, **kwargs)
        tell("step")

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        tell("step")
        return real_step(self, *args, **kwargs)

    deepspeed.DeepSpeedConfig.__init__ = config
    DeepSpeedEngine.__init__ = engine
    DeepSpeedEngine.step = step


def _seen(engine: Any) -> dict[str, Any]:
    parameter = next(engine.module.parameters())
    return {
        "stage": engine.zero_optimization_stage(), "gas": engine.gradient_accumulation_steps(),
        "clip": engine.gradient_clipping(), "dtype": str(parameter.dtype), "lr": engine.get_lr(),
        "micro": engine.train_micro_batch_size_per_gpu(), "train": engine.train_batch_size(),
    }  # fmt: skip


def _optimizer(engine: Any) -> str:
    inner = engine.optimizer
    while hasattr(inner, "optimizer"):
        inner = inner.optimizer
    return type(inner).__name__


def _accelerate(case: dict[str, Any], path: str, tell: Any) -> dict[str, Any]:
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler

    tell("trainer")
    plugin = DeepSpeedPlugin() if case.get("from_env") else DeepSpeedPlugin(hf_ds_config=path)
    accelerator = Accelerator(deepspeed_plugin=plugin, **case.get("args", {}))
    model = _tiny(case.get("model", "llama"))
    rows = torch.utils.data.DataLoader(_Rows(), batch_size=2)
    things: list[Any] = [model, rows]
    if case.get("script", "torch") == "torch":
        things.append(torch.optim.AdamW(model.parameters(), lr=1e-4))
    else:
        optimizer = DummyOptim(model.parameters(), lr=1e-4)
        things.append(optimizer)
        if "scheduler" in plugin.deepspeed_config:
            things.append(DummyScheduler(optimizer, total_num_steps=10, warmup_num_steps=2))
    _phases(tell)
    prepared = accelerator.prepare(*things)
    engine = prepared[0]
    for batch in prepared[1]:
        loss = engine(**{k: v.to(engine.device) for k, v in batch.items()}).loss
        accelerator.backward(loss)
        break
    tell("save")
    if case.get("do") == "save":
        accelerator.get_state_dict(engine)
    return {**_seen(engine), "optimizer": _optimizer(engine)}


def _accelerate_yaml(case: dict[str, Any], path: str, tell: Any) -> dict[str, Any]:
    """What `accelerate launch --config_file path` does before it starts processes, and one of them then."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_deepspeed_cmd_env

    tell("trainer")
    parser = launch_command_parser()
    args = parser.parse_args(["--config_file", path, *case.get("flags", []), "train.py"])
    args, defaults, from_file = _validate_launch_command(args)
    if not args.use_deepspeed:
        return {"deepspeed": False}
    fields = list(defaults.deepspeed_config) + (["mixed_precision"] if from_file else [])
    args.deepspeed_fields_from_accelerate_config = ",".join(fields)
    command, env = prepare_deepspeed_cmd_env(args)
    os.environ.update({k: v for k, v in env.items() if k.startswith("ACCELERATE")})
    saw = {"env": {k: v for k, v in env.items() if k.startswith("ACCELERATE")}, "command": command}
    inner = {**case, "from_env": True}
    run = _hf if case.get("script") == "hf" else _accelerate
    return {**saw, **run(inner, path, tell)}


def _json(case: dict[str, Any], path: str, tell: Any) -> dict[str, Any]:
    from accelerate.utils.deepspeed import HfDeepSpeedConfig

    tell("load")
    return {"config": repr(HfDeepSpeedConfig(path).config)}


def _hjson(case: dict[str, Any], path: str, tell: Any) -> dict[str, Any]:
    from deepspeed.runtime.tensor_parallel.init_utils import load_ds_config

    tell("load")
    config = load_ds_config(path)
    config.get("train_batch_size")  # as DeepSpeedConfig does first
    return {"config": repr(config)}


LOADERS = {
    "hf": _hf,
    "inline": _hf,
    "accelerate": _accelerate,
    "accelerate-yaml": _accelerate_yaml,
    "json": _json,
    "hjson": _hjson,
}


def outcome(case: dict[str, Any], directory: str) -> dict[str, Any]:
    """Runs a case in this process."""
    phase = ["load"]
    text = case["config"] if isinstance(case["config"], str) else json.dumps(case["config"])
    suffix = case.get("suffix") or (".yaml" if case["loader"] in ("accelerate-yaml", "inline") else ".json")
    path = os.path.join(directory, "config" + suffix)
    Path(path).write_bytes(text.encode("utf-8"))
    for name, content in case.get("files", {}).items():
        Path(directory, name).write_text(content, encoding="utf-8")
    os.chdir(directory)
    os.environ.update(case.get("env", {}))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            saw = LOADERS[case["loader"]](case, path, lambda told: phase.__setitem__(0, told))
        return {"verdict": "ok", "phase": "", "message": "", "saw": saw}
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        found = "load" if isinstance(error, json.JSONDecodeError) else phase[0]
        return {"verdict": type(error).__name__, "phase": found, "message": str(error)[:600], "where": where}


def _prepare() -> None:
    import deepspeed.runtime.engine  # noqa: F401
    import torch._dynamo  # noqa: F401
    import transformers.integrations.deepspeed  # noqa: F401
    from deepspeed.accelerator import get_accelerator
    from transformers import LlamaForCausalLM, Trainer  # noqa: F401

    backend = importlib.import_module("deepspeed.comm.torch")  # the attribute of that name is torch itself
    vars(backend)["build_shm_op"] = lambda: None  # all-reduce through /dev/shm, minutes to build
    get_accelerator().is_fp16_supported = lambda: True  # type: ignore[method-assign]
    os.environ["TORCH_EXTENSIONS_DIR"] = extensions()
    drop_stale_locks()
    with contextlib.suppress(Exception):
        from deepspeed.ops.op_builder.cpu import CPUAdamBuilder, FusedAdamBuilder

        CPUAdamBuilder().load(verbose=False)
        FusedAdamBuilder().load(verbose=False)


def run(cases: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The outcomes of cases in their order, each from its own forked child; as many at a time as there are CPUs."""
    _prepare()
    ports: set[int] = set()
    running: deque[tuple[int, Any]] = deque()
    for case in cases:
        if len(running) == (os.cpu_count() or 1):
            yield _answer(*running.popleft())
        running.append(_forked(case, _free_port(ports)))
    while running:
        yield _answer(*running.popleft())


def _free_port(taken: set[int]) -> int:
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in taken:
            taken.add(port)
            return port


def _forked(case: dict[str, Any], port: int) -> tuple[int, Any]:
    """Starts a case: the process and the directory it leaves its answer in."""
    directory = tempfile.TemporaryDirectory()
    child = os.fork()
    if child:
        return child, directory
    log = os.open(os.path.join(directory.name, "log"), os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.alarm(TIMEOUT)
    os.environ.update(
        RANK="0",
        LOCAL_RANK="0",
        WORLD_SIZE="1",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        CROSS_RANK="0",
        CROSS_SIZE="1",
        LOCAL_SIZE="1",
    )
    result = outcome(case, directory.name)
    answer = Path(directory.name, "answer.json")
    answer.write_text(json.dumps(result, default=repr), encoding="utf-8")
    os._exit(0)


def _answer(child: int, directory: Any) -> dict[str, Any]:
    """Waits for a case and takes its answer."""
    with directory:
        _, status = os.waitpid(child, 0)
        answer = Path(directory.name, "answer.json")
        if not answer.exists():
            return {"verdict": "KILLED", "phase": "", "message": f"status {status}"}
        return dict(json.loads(answer.read_text(encoding="utf-8")))


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print is not an answer
    for result in run(json.loads(line) for line in sys.stdin if line.strip()):
        answers.write(json.dumps(result) + "\n")
        answers.flush()
