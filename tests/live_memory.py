"""Bytes of live tensors in a real DeepSpeed run on CPU ranks over gloo, for test_memory_live.py.

    python tests/live_memory.py < cases.jsonl > results.jsonl

A case is {"config": {...}, "ranks": 2, "zero_init": true, "train": "part of a name" (only such
parameters train), "micro_steps": 1 (default: as many as two optimizer steps take)}; its result {"parameters": P, "trainable": T, "backward": bytes, "step": bytes,
"weights": [[rows, columns], ...]}, measured on rank 0 after the last backward
pass and after the last step. A config without an optimizer gets torch's AdamW. A failure is {"error": "..."}.

Each rank is forked from a process that has imported torch and DeepSpeed, since DeepSpeed keeps global
state between calls of initialize and importing it anew takes seconds.

A machine under load changes nothing but the time: nothing is compiled, ranks meet in a file, not at a port that another
program may take; a rank that fails or takes minutes ends the others; and nothing is counted before the
threads of gloo have let go of what they reduced.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

PATIENCE = 300
"""Seconds a case may take; it takes one or two on an idle machine."""

HIDDEN, LAYERS, FFN, VOCAB = 64, 4, 176, 1000
"""The model: Llama-like, about 330,000 parameters, so that paddings stay below a thousandth."""


def model() -> Any:
    """A small decoder without attention scores; only its parameters matter here."""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN, bias=False) for _ in range(2))
            self.attention = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))
            self.up = nn.ModuleList(nn.Linear(HIDDEN, FFN, bias=False) for _ in range(2))
            self.down = nn.Linear(FFN, HIDDEN, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.norms[0](x)
            q, k, v = (self.attention[i](y) for i in range(3))
            x = x + self.attention[3](nn.functional.scaled_dot_product_attention(q, k, v))
            y = self.norms[1](x)
            return x + self.down(nn.functional.silu(self.up[0](y)) * self.up[1](y))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCAB, HIDDEN)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.norm = nn.LayerNorm(HIDDEN, bias=False)
            self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.embedding(tokens)
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    torch.manual_seed(0)
    return Model()


def settle() -> None:
    """Returns when every other thread of this process sleeps.

    A thread of gloo that has finished a collective wakes us first and drops its references to the tensors
    afterwards, for which it needs the interpreter.
    """
    tasks, calm = Path("/proc/self/task"), 0
    if not tasks.is_dir():
        time.sleep(0.2)
        return
    own = os.getpid()  # the number of the main thread
    while calm < 2:
        time.sleep(0.002)  # whoever waits for the interpreter is running from here on
        states = []
        for task in tasks.iterdir():
            if int(task.name) != own:
                try:
                    states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
                except FileNotFoundError:  # it has just ended
                    calm = 0
        calm = calm + 1 if all(state == "S" for state in states) else 0


def live() -> int:
    """Bytes of all storages that a tensor of this process still refers to."""
    import torch

    settle()
    gc.collect()
    seen: dict[int, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for found in gc.get_objects():
            try:
                if not isinstance(found, torch.Tensor):
                    continue
                tensors = [found, found.grad] if found.is_leaf and found.grad is not None else [found]
                for tensor in tensors:
                    if tensor.device.type == "cpu":
                        storage = tensor.untyped_storage()
                        seen[storage.data_ptr()] = storage.nbytes()
            except (ReferenceError, RuntimeError, AttributeError):
                continue
    return sum(seen.values())


def train(case: dict[str, Any], rank: int, folder: str) -> dict[str, Any]:
    """One rank: initialize, two optimizer steps, counting in the second."""
    ranks = case.get("ranks", 2)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")  # asked for, not used
    import deepspeed
    import torch

    torch.set_num_threads(1)
    deepspeed.init_distributed(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=PATIENCE),
    )
    config = case["config"]
    if config["zero_optimization"]["stage"] == 3 and case.get("zero_init", True):
        with deepspeed.zero.Init(config_dict_or_path=config):
            made = model()
    else:
        made = model()
    for name, parameter in made.named_parameters():
        parameter.requires_grad = case.get("train", "") in name
    count = [(getattr(p, "ds_numel", p.numel()), p.requires_grad) for p in made.parameters()]
    shapes = [list(getattr(p, "ds_shape", p.shape)) for p in made.parameters()]
    parameters = [p for p in made.parameters() if p.requires_grad]
    own = None if "optimizer" in config else torch.optim.AdamW(parameters, lr=1e-5)
    engine = deepspeed.initialize(model=made, config=config, model_parameters=parameters, optimizer=own)[0]
    del made, parameters, own
    result: dict[str, Any] = {
        "parameters": sum(n for n, _ in count),
        "trainable": sum(n for n, trains in count if trains),
        "weights": shapes,
    }
    for _ in range(case.get("micro_steps", 2 * engine.gradient_accumulation_steps())):
        loss = engine(torch.zeros(1, 8, dtype=torch.long)).float().pow(2).mean()
        engine.backward(loss)
        del loss
        result["backward"] = live()
        engine.step()
    result["step"] = live()
    torch.distributed.barrier()
    return result


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Forks the ranks of a case and returns what rank 0 measured."""
    with tempfile.TemporaryDirectory() as folder:
        children = {}
        for rank in range(case.get("ranks", 2)):
            child = os.fork()
            if child == 0:
                answer: dict[str, Any] = {}
                try:
                    os.chdir(folder)
                    answer = train(case, rank, folder)
                except BaseException as error:
                    answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
                with open(os.path.join(folder, f"{rank}.json"), "w", encoding="utf-8") as file:
                    json.dump(answer, file)
                os._exit(1 if "error" in answer else 0)
            children[child] = rank
        ends = wait(children)
        answers = []
        for rank, end in sorted(ends.items()):
            try:
                with open(os.path.join(folder, f"{rank}.json"), encoding="utf-8") as file:
                    answers.append(json.load(file))
            except (OSError, ValueError):
                answers.append({"error": f"rank {rank} ended with {end} and left no result"})
    failures = [answer for answer in answers if "error" in answer]
    return next((f for f in failures if "trace" in f), failures[0]) if failures else answers[0]


def wait(children: dict[int, int]) -> dict[int, int]:
    """Waits for the ranks by process number; when one fails or time is up, ends the others. Rank -> exit code."""
    ends: dict[int, int] = {}
    deadline = time.monotonic() + PATIENCE
    while len(ends) < len(children):
        time.sleep(0.01)
        for child, rank in children.items():
            if rank in ends:
                continue
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                ends[rank] = os.waitstatus_to_exitcode(status)
        if any(ends.values()) or time.monotonic() > deadline:
            for child, rank in children.items():
                if rank not in ends:
                    os.kill(child, signal.SIGKILL)
                    ends[rank] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ends


def main() -> None:
    """JSON lines in, JSON lines out; DeepSpeed's own output goes nowhere."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    complaints = os.fdopen(os.dup(2), "w", encoding="utf-8")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.environ.update(
        DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1"
    )
    import deepspeed
    import torch
    from deepspeed.accelerator import get_accelerator
    from deepspeed.runtime.zero.muon import muon_optimizer  # noqa: F401  (initialize imports torch's compiler by it)

    type(get_accelerator()).is_fp16_supported = lambda _: True  # whatever this CPU's matrix units can do
    # Its own collectives through shared memory are compiled first, and spin where there are fewer cores.
    vars(importlib.import_module("deepspeed.comm.torch"))["build_shm_op"] = lambda: None
    # What every rank would otherwise do anew: ask which operators could be built, walk the libraries' objects.
    getattr(deepspeed.ops, "__compatible_ops__", None)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    threads = Path("/proc/self/task")
    if threads.is_dir() and len(list(threads.iterdir())) > 1:
        print("a library started threads, whose locks a fork may leave held", file=complaints, flush=True)
        sys.exit(1)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
