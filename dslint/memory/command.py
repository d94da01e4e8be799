"""`--estimate` and `--recommend`: sections of a report, a page, a config file. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dslint.errors import UsageError
from dslint.finding import Section
from dslint.memory.hardware import link
from dslint.memory.job import CPU, NONE, Job, loss_bytes
from dslint.memory.plan import FUSED_LOGIT_BYTES, job_of
from dslint.memory.predict import FITS, Estimate, predict
from dslint.memory.recommend import Recommendation, config_of, name, recommend, smallest_change
from dslint.memory.show import (
    change_lines,
    data,
    lines,
    recommendation_data,
    recommendation_lines,
    side_by_side,
)
from dslint.memory.workload import LORA_RANK, QUANTIZED_BYTES, Workload, lora_words
from dslint.releases import number
from dslint.report.escape import visible
from dslint.report.words import counted
from dslint.trainers import HF_LIKE

if TYPE_CHECKING:
    from dslint.config import Config
    from dslint.lint import Options


def estimates(
    config: Config, load: Workload, counts: Sequence[int], stages: bool
) -> list[tuple[str, Estimate]]:
    """The estimates asked for, each with its label: one for each number of GPUs, or for each stage."""
    jobs = [job_of(config, load, gpus=gpus) for gpus in (counts or (None,))]
    if not stages:
        return [(counted(job.gpus, "GPU"), predict(job)) for job in jobs]
    found = []
    for job in jobs:
        prefix = f"{counted(job.gpus, 'GPU')}, " if len(jobs) > 1 else ""
        found += [(prefix + _label(other), predict(other)) for other in variants(job)]
    return found


def _label(job: Job) -> str:
    return name(replace(job, checkpointing=False))


def variants(job: Job) -> list[Job]:
    """A job under every ZeRO stage and offload to host memory."""
    found = []
    for stage in range(4):
        for optimizer, param in ((NONE, NONE), (CPU, NONE), (CPU, CPU)):
            if (stage == 0 and optimizer != NONE) or (stage < 3 and param != NONE):
                continue
            found.append(
                replace(
                    job,
                    stage=stage,
                    offload_optimizer=optimizer,
                    offload_param=param,
                    overlap_comm=stage == 3 if stage != job.stage else job.overlap_comm,
                )
            )
    return found


def section(config: Config, counts: Sequence[int], stages: bool) -> Section:
    """The section of `--estimate` in the report of one file. Raises UsageError without a model."""
    found = estimates(config, load_of(config), counts, stages)
    if len(found) == 1:
        estimate = found[0][1]
        change = smallest_change(estimate.job) if estimate.verdict not in (FITS, None) else None
        contents = data(estimate)
        if change is not None:
            contents["change"] = {"words": change.words, **data(change.estimate)}
        return Section("estimate", contents, lines(estimate, change))
    stage = config.value(("zero_optimization", "stage"))
    own = next((e for _, e in found if e.job.stage == stage), found[0][1])
    where = "on each of these" if len(counts) > 1 else f"on {counted(own.job.gpus, 'GPU')}"
    contents = {**data(own), "side_by_side": [{"name": label, **data(e)} for label, e in found]}
    rows = side_by_side(found, f"estimate: {own.job.shape.name} {where}")
    if own.job.gpu is None:
        rows += ("", "  no verdict without the card: --gpu-type or --gpu-memory")
    assumed = own.job.assumptions
    if assumed:
        rows += ("", "  assumed:", *(f"    - {words}" for words in assumed))
    return Section("estimate", contents, rows)


def load_of(config: Config) -> Workload:
    """What is said about the run of a config."""
    return config.target.workload or Workload()


def base_job(load: Workload, gpus: int, trainer: str, release: str) -> Job:
    """What is given of a run whose configuration is to be found."""
    if load.shape is None or load.gpu is None:
        raise UsageError("--recommend needs --model and the card")
    shape, method = load.shape, load.method or "full"
    assumed = list(shape.notes)
    seq_len = load.seq_len
    if seq_len is None:
        seq_len = min(2048, shape.positions or 2048)
        assumed.append(f"sequences of {seq_len} tokens (--seq-len)")
    if load.attention is None:
        assumed.append("attention without stored scores: FlashAttention or SDPA (--attention eager)")
    if not load.fused_loss:
        assumed.append("an unfused cross entropy (--fused-loss)")
    if load.accumulation is None:
        assumed.append("about 64 sequences an optimizer step (--gradient-accumulation)")
    trainable = load.trainable or 0
    if method != "full" and not trainable:
        trainable = shape.adapters(LORA_RANK)
        assumed.append(lora_words(shape))
    precision = "fp16" if load.gpu.bf16 is False else "bf16"
    if load.gpu.bf16 is None:
        assumed.append("a card with bf16")
    per_node = load.gpus_per_node or 8
    intra = link(load.gpu.link) if load.gpu.link else None
    inter = load.interconnect
    if inter is not None and load.gpus_per_node is None and gpus > 1:
        if not inter.network:
            intra, inter = inter, None
        elif gpus <= per_node:
            per_node = 1
            assumed.append(f"one GPU a node, for {inter.name} joins nodes (--gpus-per-node)")
    if load.gpus_per_node is None and gpus > per_node > 1:
        assumed.append("8 GPUs a node (--gpus-per-node)")
    if gpus > per_node and inter is None:
        inter = link("ib200x8")
        assumed.append("eight ports of 200 Gbit/s InfiniBand a node (--interconnect)")
    hf = trainer in HF_LIKE or trainer == "accelerate"
    logits = FUSED_LOGIT_BYTES if load.fused_loss else loss_bytes(shape, precision, False, not hf)
    return Job(
        shape=shape,
        gpus=gpus,
        stage=0,
        precision=precision,
        seq_len=seq_len,
        eager=load.attention == "eager",
        logit_bytes=logits,
        method=method,
        trainable=trainable,
        frozen_bytes=QUANTIZED_BYTES if method == "qlora" else 2.0,
        zero_init=load.zero_init,
        gpu=load.gpu,
        gpus_per_node=per_node,
        host_memory=load.host_memory,
        intra=intra,
        inter=inter,
        trainer=trainer,
        release=number(release),
        assumptions=tuple(assumed),
    )


def recommendation(options: Options, trainer: str) -> Recommendation:
    """The recommendation for a workload. Raises UsageError where model, card or GPUs are not said."""
    load = options.workload or Workload()
    base = base_job(load, options.gpus or 1, trainer, options.release)
    return recommend(
        base, checkpointing=load.checkpointing, micro_batch=load.micro_batch, accumulation=load.accumulation
    )


def text_for(found: Recommendation, configs: Sequence[Config], form: str) -> str:
    """A recommendation, and what each given config needs to fit, for people or as JSON."""
    own = [(config, predict(job_of(config, load_of(config)))) for config in configs]
    changes = [(c, e, None if e.verdict == FITS else smallest_change(e.job)) for c, e in own]
    if form == "json":
        files = [
            {
                "path": c.document.name,
                "estimate": data(e),
                "change": None if change is None else {"words": change.words, **data(change.estimate)},
            }
            for c, e, change in changes
        ]
        return json.dumps({"recommend": {**recommendation_data(found), "files": files}}, indent=1) + "\n"
    rows = [line for c, e, change in changes for line in (*change_lines(c.document.name, e, change), "")]
    rows += recommendation_lines(found)
    text = "".join(visible(row) + "\n" for row in rows)
    return text if found.chosen is None else text + "\n" + config_text(found)


def config_text(found: Recommendation) -> str:
    """The recommended config as a file."""
    assert found.chosen is not None
    return json.dumps(config_of(found.chosen.job), indent=2) + "\n"
