"""What both tests of --verify need: a config as HF Trainer takes it, and a look at what a run left."""

from __future__ import annotations

from pathlib import Path

from dslint.verify.launch import RUN_ID

AUTO = "auto"
HF = {
    "train_batch_size": AUTO,
    "train_micro_batch_size_per_gpu": AUTO,
    "gradient_accumulation_steps": AUTO,
    "gradient_clipping": AUTO,
    "bf16": {"enabled": AUTO},
    "fp16": {"enabled": AUTO},
    "optimizer": {
        "type": "AdamW",
        "params": {"lr": AUTO, "betas": AUTO, "eps": AUTO, "weight_decay": AUTO},
    },
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": {
            "total_num_steps": AUTO,
            "warmup_min_lr": AUTO,
            "warmup_max_lr": AUTO,
            "warmup_num_steps": AUTO,
        },
    },
    "zero_optimization": {
        "stage": 2,
        "reduce_bucket_size": AUTO,
        "stage3_prefetch_bucket_size": AUTO,
        "stage3_param_persistence_threshold": AUTO,
    },
}


def left_behind(folder: Path) -> list[str]:
    """What a run left: temporary files besides logs, and processes whose temporary folder this was."""
    files = [p.name for p in folder.iterdir() if p.suffix != ".log"]
    mark = f"TMPDIR={folder}".encode()
    processes = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes()
            if mark in environ and RUN_ID.encode() in environ:
                processes.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return files + processes
