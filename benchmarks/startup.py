"""What one clean file costs, cold: dslint against check-jsonschema, DeepSpeed itself and a bare interpreter.

    python benchmarks/startup.py [CONFIG] [--rounds N]

The budgets: at most a quarter of check-jsonschema, a twenty-fifth of DeepSpeed; an estimate costs at
most 50 ms more on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from importlib.util import find_spec
from pathlib import Path

from timing import DSLINT, PYTHON, check_jsonschema, medians, newest_schema, show

CLEAN = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.999], "weight_decay": 0.01}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-5, "warmup_num_steps": 100}},
    "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 200000000},
}
ESTIMATE = "dslint --estimate"
RUN = ("--model", "llama-7b", "--gpus", "8", "--gpu-type", "a100-80gb", "--seq-len", "4096")
DEEPSPEED = "import DeepSpeed, parse the config"
PARSE = "import sys; from deepspeed.runtime.config import DeepSpeedConfig; DeepSpeedConfig(sys.argv[1])"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("config", nargs="?", type=Path, help="a file without findings; else one made here")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--schema", type=Path, default=newest_schema())
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = args.config or Path(folder, "ds_config.json")
        if args.config is None:
            config.write_text(json.dumps(CLEAN, indent=2))
        path = str(config.resolve())
        commands = {
            "bare interpreter": (PYTHON, "-c", "pass"),
            "dslint": (*DSLINT, path),
            ESTIMATE: (*DSLINT, "--estimate", *RUN, path),
            "check-jsonschema": (*check_jsonschema(args.schema.resolve()), path),
        }
        if find_spec("deepspeed") is not None:
            commands[DEEPSPEED] = (PYTHON, "-c", PARSE, path)
        times = medians(commands, args.rounds)
    show(times, args.rounds)
    print(f"dslint / check-jsonschema: {times['dslint'] / times['check-jsonschema']:.3f} (budget 0.250)")
    beyond = times[ESTIMATE] - times["dslint"]
    print(f"an estimate beyond start-up: {beyond * 1000:.0f} ms, {beyond / times['dslint']:.2f} of dslint")
    if DEEPSPEED in times:
        print(f"dslint / DeepSpeed: {times['dslint'] / times[DEEPSPEED]:.3f} (budget 0.040)")


if __name__ == "__main__":
    main()
