"""What 1,000 configs cost in one process: dslint against check-jsonschema on the same files and schema.

    python benchmarks/many.py [FOLDER] [--count N] [--rounds N]

With FOLDER its JSON files are taken, over again under new names until there are enough; only those
that strict JSON readers accept, since check-jsonschema reads no others. Without it configs are made
here, seeded. The budget: faster than check-jsonschema.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from itertools import cycle, islice
from pathlib import Path

from timing import DSLINT, check_jsonschema, medians, newest_schema, show


def made(count: int, seed: int = 0) -> list[str]:
    """Configs as people write them; about half have something to say about."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        stage = draw.randrange(4)
        zero: dict[str, object] = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True}
        if draw.random() < 0.4:
            zero["offload_param"] = {"device": "cpu", "pin_memory": True}
        if draw.random() < 0.4:
            zero["offload_optimizer"] = {"device": "cpu"}
        if draw.random() < 0.5:
            zero["reduce_bucket_size"] = draw.choice([5e8, 2e8, 1000, 500000000])
        config: dict[str, object] = {
            "train_micro_batch_size_per_gpu": draw.choice([1, 2, 4, 8]),
            "gradient_accumulation_steps": draw.choice([1, 2, 4]),
            "gradient_clipping": 1.0,
            "steps_per_print": 100,
            draw.choice(["fp16", "bf16"]): {"enabled": True},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.95], "eps": 1e-8}},
            "zero_optimization": zero,
        }
        if draw.random() < 0.1:
            config["train_batch_sise"] = 64
        texts.append(json.dumps(config, indent=2))
    return texts


def real(folder: Path) -> list[str]:
    """Every text below a folder that a strict JSON reader accepts."""
    texts = []
    for path in sorted(folder.rglob("*.json")):
        try:
            text = path.read_text(encoding="utf-8")
            json.loads(text)
        except ValueError:  # neither JSON nor UTF-8
            continue
        texts.append(text)
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--schema", type=Path, default=newest_schema())
    args = parser.parse_args()
    texts = real(args.folder) if args.folder else made(args.count)
    if not texts:
        parser.error(f"no JSON file below {args.folder}")
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, text in enumerate(islice(cycle(texts), args.count)):
            path = Path(folder, f"{number:04}.json")
            path.write_text(text, encoding="utf-8")
            paths.append(str(path))
        commands = {
            "dslint": (*DSLINT, *paths),
            "dslint -j auto": (*DSLINT, "-j", "auto", *paths),
            "check-jsonschema": (*check_jsonschema(args.schema.resolve()), *paths),
        }
        times = medians(commands, args.rounds, allowed=(0, 1))
    print(f"{args.count} files, {len(texts)} distinct")
    show(times, args.rounds)
    print(f"dslint / check-jsonschema: {times['dslint'] / times['check-jsonschema']:.3f} (budget below 1)")


if __name__ == "__main__":
    main()
