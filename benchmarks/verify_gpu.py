"""Measured against predicted memory on one GPU: ZeRO stages 0 to 3 with offloads, 1B to 7B shapes.

    python benchmarks/verify_gpu.py --output measured.json [--budget 540]
    python benchmarks/verify_gpu.py --output measured.json --device cpu     (small shapes; tests the script)

Runs `dslint --verify --format json` for each case until the budget of seconds is spent, the most telling
cases first, and writes after each one: the case, what was measured, what was predicted, and why a case did
not train. Nothing is downloaded; a card of 80 GB or more holds all cases.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from timing import DSLINT, ROOT

ADAM = {"type": "AdamW", "params": {"lr": 1e-5}}
CPU = {"device": "cpu", "pin_memory": True}


def case(model: str, stage: int, micro: int = 1, sequence: int = 2048, **more: Any) -> dict[str, Any]:
    """One run. `more`: keys of zero_optimization, and "top" for those above it."""
    top = more.pop("top", {})
    zero = {"stage": stage, **more}
    config = {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "optimizer": ADAM,
        "zero_optimization": zero,
        **top,
    }
    return {"model": model, "sequence": sequence, "config": config}


CASES = [
    case("1b", 0, micro=4),
    case("1b", 2, micro=4),
    case("1b", 3, micro=4),
    case("1b", 1, micro=4),
    case("llama-7b", 2, offload_optimizer=CPU, reduce_bucket_size=200_000_000),
    case("llama-7b", 3, offload_optimizer=CPU),
    case("3b", 3),
    case("3b", 2, micro=2, sequence=4096),
    case("1b", 2, micro=2, top={"gradient_accumulation_steps": 4}),
    case("1b", 1, micro=4, top={"data_types": {"grad_accum_dtype": "fp32"}}),
    case("llama-7b", 3, offload_optimizer=CPU, offload_param=CPU),
    case("1b", 0, micro=2, top={"bf16": {"enabled": False}}),
]
"""Ordered by what they tell: states alone, then offload and size, then accumulation and dtypes."""


def run(one: dict[str, Any], device: str, folder: Path, timeout: float) -> dict[str, Any]:
    """One case; what came of it."""
    config = folder / "ds.json"
    config.write_text(json.dumps(one["config"]))
    model = one["model"] if device == "cuda" else None
    command = [*DSLINT, "--verify", "--device", device, "--gpus", "1", "--steps", "2", "--format", "json"]
    command += ["--timeout", f"{timeout:.0f}", str(config)]
    if model is not None:
        command += ["--model", model, "--seq-len", str(one["sequence"]), "--checkpointing", "on"]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    try:
        found = json.loads(done.stdout)["files"][0]["verify"]
    except (ValueError, KeyError, IndexError):
        found = {"ok": False, "failure": {"message": done.stderr.strip()[-500:]}}
    kept = (
        "ok",
        "failure",
        "gpu",
        "versions",
        "model",
        "step_seconds",
        "tokens_per_second",
        "tflops_per_gpu",
    )
    facts = {key: found[key] for key in kept if key in found}
    if found["ok"]:
        rank = found["ranks"][0]
        facts |= {"measured": {k: v for k, v in rank.items() if k not in ("rank", "phases")}}
        facts |= {"phases": rank["phases"], "predicted": found["predicted"], "compared": found["compared"]}
    return {**one, "seconds": round(time.monotonic() - began, 1), **facts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds for all cases together")
    parser.add_argument("--cases", type=int, default=len(CASES), help="only so many, from the first")
    args = parser.parse_args()
    began, results = time.monotonic(), []
    for one in CASES[: args.cases]:
        left = args.budget - (time.monotonic() - began)
        if left < 30:
            print(f"budget spent after {len(results)} of {args.cases} cases")
            break
        with tempfile.TemporaryDirectory() as folder:
            result = run(one, args.device, Path(folder), min(left - 5, 180.0))
        results.append(result)
        args.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        zero = one["config"]["zero_optimization"]
        print(f"{one['model']:<10} stage {zero['stage']}  {result['seconds']:6.1f} s  ", end="")
        if not result["ok"]:
            print(result["failure"]["message"][:100])
            continue
        rows = [row for row in result["compared"] if row["error"] is not None]
        print(", ".join(f"{row['what']} {row['error']:+.1%}" for row in rows))
    sys.exit(not results or not any(result["ok"] for result in results))


if __name__ == "__main__":
    main()
