"""Bytes of live tensors in a real DeepSpeed run on CPU ranks over gloo, for test_memory_live.py.

    python tests/live_memory.py < cases.jsonl > results.jsonl

A case is {"config": {...}, "ranks": 2, "zero_init": true, "train": "part of a name" (only such
parameters train)}; its result {"parameters": P, "trainable": T, "backward": bytes, "step": bytes,
"weights": [[rows, columns], ...]}, measured on rank 0 in the second optimizer step: after the last
backward pass and after the step. A failure is {"error": "..."}.

Each rank is forked from a process that has imported torch and DeepSpeed, since DeepSpeed keeps global
state between calls of initialize and importing it anew takes seconds.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import tempfile
import traceback
import warnings
from typing import Any

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


def live() -> int:
    """Bytes of all storages that a tensor of this process still refers to."""
    import torch

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


def train(case: dict[str, Any], rank: int, port: int) -> dict[str, Any]:
    """One rank: initialize, two optimizer steps, counting in the second."""
    ranks = case.get("ranks", 2)
    # Without LOCAL_SIZE DeepSpeed leaves its spinning shared-memory collectives alone and uses gloo.
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    import deepspeed
    import torch

    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
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
    engine = deepspeed.initialize(model=made, config=config, model_parameters=parameters)[0]
    del made, parameters
    result: dict[str, Any] = {
        "parameters": sum(n for n, _ in count),
        "trainable": sum(n for n, trains in count if trains),
        "weights": shapes,
    }
    for _ in range(2):
        for _ in range(engine.gradient_accumulation_steps()):
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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(case.get("ranks", 2)):
            child = os.fork()
            if child == 0:
                answer: dict[str, Any] = {}
                try:
                    os.chdir(folder)
                    answer = train(case, rank, port)
                except BaseException as error:
                    answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
                with open(os.path.join(folder, f"{rank}.json"), "w", encoding="utf-8") as file:
                    json.dump(answer, file)
                os._exit(0)
            children.append(child)
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        answers = []
        for rank, end in enumerate(ends):
            try:
                with open(os.path.join(folder, f"{rank}.json"), encoding="utf-8") as file:
                    answers.append(json.load(file))
            except (OSError, ValueError):
                answers.append({"error": f"rank {rank} ended with {end} and left no result"})
    return next((answer for answer in answers if "error" in answer), answers[0])


def main() -> None:
    """JSON lines in, JSON lines out; DeepSpeed's own output goes nowhere."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed
    import torch
    from deepspeed.runtime.zero.muon import muon_optimizer  # noqa: F401  (initialize imports torch's compiler by it)

    # What every rank would otherwise do anew: ask which operators could be built, walk the libraries' objects.
    getattr(deepspeed.ops, "__compatible_ops__", None)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
