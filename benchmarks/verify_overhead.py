"""What `--verify` costs over a bare torchrun script that does the same steps: wall and CPU time, as ratios.

    python benchmarks/verify_overhead.py [--rounds N] [--steps N] [--gpus N]

Both train the same model with the same config on CPU processes, one warm-up step and N more, taken in turn.
The budget: at most 10 % more wall time. Needs torch and DeepSpeed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import DSLINT, PYTHON, ROOT

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2},
}
BARE = """
import importlib, json, os, sys
os.environ["DS_ACCELERATOR"] = "cpu"
import torch, deepspeed
vars(importlib.import_module("deepspeed.comm.torch"))["build_shm_op"] = lambda: None  # as --verify does
from dslint.verify.network import Decoder
from dslint.verify.plan import Shape
deepspeed.init_distributed("gloo")
config = json.load(open(sys.argv[1]))
shape = Shape()
model = Decoder(shape, checkpointing=False, eager=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]
for _ in range(1 + int(sys.argv[2])):
    tokens = torch.randint(0, shape.vocab, (engine.train_micro_batch_size_per_gpu(), 128))
    loss = engine(tokens)
    engine.backward(loss)
    engine.step()
print(float(loss))
torch.distributed.destroy_process_group()
"""
BUDGET = 1.10


def timed(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one run. Ends the program when it fails."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} failed:\n{done.stdout.decode(errors='replace')[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--gpus", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config, script = Path(folder, "ds.json"), Path(folder, "bare.py")
        config.write_text(json.dumps(CONFIG))
        script.write_text(BARE)
        torchrun = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.gpus)]
        flags = ["--verify", "--device", "cpu", "--gpus", str(args.gpus), "--steps", str(args.steps)]
        commands = {
            "bare torchrun script": [*torchrun, str(script), str(config), str(args.steps)],
            "dslint --verify": [*DSLINT, *flags, str(config)],
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for turn in range(args.rounds + 1):
            for name, command in commands.items():
                times = timed(command)
                if turn:  # the first round warms the caches
                    taken[name].append(times)
    medians = {
        name: [statistics.median(t[i] for t in times) for i in (0, 1)] for name, times in taken.items()
    }
    for name, (wall, cpu) in medians.items():
        print(f"{name:<24} wall {wall:6.2f} s   CPU {cpu:6.2f} s")
    bare, ours = medians.values()
    paired = [b[0] / a[0] for a, b in zip(*taken.values(), strict=True)]
    ratio = statistics.median(paired)
    print(f"wall {ratio:.3f} (median of paired rounds; budget {BUDGET:.2f}), CPU {ours[1] / bare[1]:.3f}")
    sys.exit(ratio > BUDGET)


if __name__ == "__main__":
    main()
