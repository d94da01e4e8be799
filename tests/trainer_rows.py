"""What HF Trainer, accelerate and their loaders do with a config, row by row, as observed.

Recorded with transformers 5.24.0, accelerate 1.15.0, DeepSpeed 0.19.8 and torch 2.13.0 on CPU by
tests/oracle/trainers.py; tests/test_trainers.py runs all of it again where these are installed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """A case for the oracle with its outcome, and what dslint says where that is no error for a reason.

    `verdict` is the exception class, "ok" without one, and `phase` the phase it came in. `says` names the
    rule that speaks about a failure that depends on what dslint cannot see (the training script, the
    command line), and that is therefore no error. `unseen` names what such a failure depends on where dslint
    says nothing at all.
    """

    id: str
    loader: str
    config: Any
    verdict: str = "ok"
    phase: str = ""
    says: str = ""
    unseen: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    do: str = "train"
    script: str = "torch"
    model: str = "llama"
    files: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    suffix: str = ""
    saw: dict[str, Any] = field(default_factory=dict)

    def case(self) -> dict[str, Any]:
        """The row as the oracle takes it."""
        return {
            "loader": self.loader,
            "config": self.config,
            "args": self.args,
            "do": self.do,
            "model": self.model,
            "script": self.script,
            "files": self.files,
            "flags": list(self.flags),
            "suffix": self.suffix,
        }


AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
}


def config(without: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    """A stage 2 config that leaves everything to the trainer, with some keys changed or left out."""
    found: dict[str, Any] = {**AUTO, "zero_optimization": {"stage": 2}, **changes}
    return {key: value for key, value in found.items() if key not in without}


def zero(**keys: Any) -> dict[str, Any]:
    return {"stage": 2, **keys}


def optimizer(**params: Any) -> dict[str, Any]:
    return {"type": "AdamW", "params": {"torch_adam": True, **params}}


def launch(*block: str, top: tuple[str, ...] = (), processes: int | None = 1) -> str:
    """An accelerate config file."""
    count = [] if processes is None else [f"num_processes: {processes}"]
    lines = ["distributed_type: DEEPSPEED", *count, *top, "deepspeed_config:"]
    return "\n".join([*lines, *(f"  {line}" for line in block or ("zero_stage: 2",))]) + "\n"


GATHER = "stage3_gather_16bit_weights_on_model_save"
WARMUP = {"warmup_max_lr": "auto", "warmup_num_steps": "auto"}
DECAY = {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto", "total_num_steps": "auto"}}
OFFLOAD = zero(offload_optimizer={"device": "cpu"})
NAMED = {"ds.json": json.dumps(config(without=("train_batch_size", "gradient_clipping")))}
BATCH = '"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 0}'

LOADING = {
    "comment": ("{ // batch\n" + BATCH + "}", "JSONDecodeError", "ok"),
    "hash-comment": ("{ # batch\n" + BATCH + "}", "JSONDecodeError", "ok"),
    "block-comment": ("{ /* batch */ " + BATCH + "}", "JSONDecodeError", "ok"),
    "trailing-comma": ("{" + BATCH + ",}", "JSONDecodeError", "ok"),
    "single-quotes": ("{" + BATCH.replace('"', "'") + "}", "JSONDecodeError", "ok"),
    "unquoted-key": ("{train_micro_batch_size_per_gpu: 1}", "JSONDecodeError", "ok"),
    "missing-comma": ('{"train_micro_batch_size_per_gpu": 1\n"steps_per_print": 5}', "JSONDecodeError", "ok"),
    "byte-order-mark": ("\ufeff{" + BATCH + "}", "JSONDecodeError", "ok"),
    "nan-inline": (
        '{"optimizer": {"type": "AdamW", "params": {"lr": NaN}}, ' + BATCH + "}",
        "ok",
        "HjsonDecodeError",
    ),
    "infinity": ('{"gradient_clipping": Infinity, ' + BATCH + "}", "ok", "HjsonDecodeError"),
    "duplicate": ("{" + BATCH + ', "zero_optimization": {"stage": 1}}', "ok", "ValueError"),
    "duplicate-nested": (
        '{"train_batch_size": 1, "bf16": {"enabled": true, "enabled": false}}',
        "ok",
        "ValueError",
    ),
    "exponent": ('{"train_batch_size": 1, "zero_optimization": {"reduce_bucket_size": 5e8}}', "ok", "ok"),
    "python-true": ('{"bf16": {"enabled": True}, ' + BATCH + "}", "JSONDecodeError", "HjsonDecodeError"),
    "hex": ('{"train_batch_size": 0x10, ' + BATCH + "}", "JSONDecodeError", "HjsonDecodeError"),
    "leading-zero": ('{"train_batch_size": 08, ' + BATCH + "}", "JSONDecodeError", "HjsonDecodeError"),
    "plus-sign": ('{"train_batch_size": +1, ' + BATCH + "}", "JSONDecodeError", "HjsonDecodeError"),
    "underscore": ('{"train_batch_size": 1_000, ' + BATCH + "}", "JSONDecodeError", "HjsonDecodeError"),
    "two-documents": ("{" + BATCH + "}\n{}", "JSONDecodeError", "HjsonDecodeError"),
    "tab-in-string": ('{"a": "x\ty", ' + BATCH + "}", "JSONDecodeError", "HjsonDecodeError"),
    "list": ("[1]", "AttributeError", "AttributeError"),
    "null": ("null", "AttributeError", "AttributeError"),
    "minus-infinity": ('{"gradient_clipping": -Infinity, ' + BATCH + "}", "ok", "HjsonDecodeError"),
    "yaml": ("train_batch_size: 1\nsteps_per_print: 5\n", "JSONDecodeError", "ok"),
}
"""What a file holds: (text, what the trainers' json.load makes of it, what DeepSpeed's hjson does)."""

STAYS: dict[str, dict[str, Any]] = {
    **{
        key: {"zero_optimization": zero(**{key: "auto"})}
        for key in (
            "contiguous_gradients",
            "reduce_scatter",
            "allgather_partitions",
            "allgather_bucket_size",
            "sub_group_size",
            "stage3_max_live_parameters",
            "stage3_max_reuse_distance",
            "round_robin_gradients",
        )
    },
    **{
        key: {key: "auto"}
        for key in (
            "wall_clock_breakdown",
            "communication_data_type",
            "prescale_gradients",
            "zero_force_ds_cpu_optimizer",
        )
    },
    "partition_activations": {"activation_checkpointing": {"partition_activations": "auto"}},
    "tag_validation": {"checkpoint": {"tag_validation": "auto"}},
    "deepcompile": {"compile": {"deepcompile": "auto"}},
    "stages": {"pipeline": {"stages": "auto"}},
    "initial_scale_power": {"fp16": {"enabled": "auto", "initial_scale_power": "auto"}},
    "torch_adam": {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "torch_adam": "auto"}}},
    "scheduler_type": {"optimizer": optimizer(lr="auto"), "scheduler": {"type": "auto", "params": WARMUP}},
    "warmup_type": {
        "optimizer": optimizer(lr="auto"),
        "scheduler": {"type": "WarmupLR", "params": {**WARMUP, "warmup_type": "auto"}},
    },
    "amp": {"amp": {"enabled": "auto"}},
}
"""Changes to a config that leave an "auto" which nobody fills."""

BESIDE = (
    "gradient_accumulation_steps: 1",
    "gradient_clipping: 1.0",
    "offload_optimizer_device: none",
    "offload_param_device: none",
    "offload_optimizer_nvme_path: null",
    "offload_param_nvme_path: null",
    "zero3_save_16bit_model: false",
)
"""Lines that may not stand beside deepspeed_config_file, whatever their value."""


def inline(*lines: str) -> str:
    """A file of axolotl's with the config in it, which PyYAML reads."""
    return "\n".join(["base_model: tiny", "deepspeed:", *(f"  {line}" for line in lines)]) + "\n"


INLINE = ("train_micro_batch_size_per_gpu: auto", "gradient_accumulation_steps: auto")

ROWS = [
    *(
        Row(f"json-{name}", "json", text, strict, "load" if strict != "ok" else "")
        for name, (text, strict, _) in LOADING.items()
    ),
    *(
        Row(f"hjson-{name}", "hjson", text, loose, "load" if loose != "ok" else "")
        for name, (text, _, loose) in LOADING.items()
    ),
    Row("json-empty", "json", "", "JSONDecodeError", "load"),
    # "auto" that stays
    Row("hf-plain", "hf", config(), do="save", saw={"stage": 2, "micro": 2, "gas": 1, "clip": 1.0}),
    Row(
        "hf-overlap-auto", "hf", config(zero_optimization=zero(overlap_comm="auto")), "ValueError", "trainer"
    ),
    Row(
        "hf-pin-memory-auto",
        "hf",
        config(zero_optimization=zero(offload_optimizer={"device": "cpu", "pin_memory": "auto"})),
        "ValueError",
        "trainer",
    ),
    Row(
        "hf-unknown-key-auto",
        "hf",
        config(zero_optimization=zero(overlap_com="auto")),
        "ValueError",
        "trainer",
    ),
    Row(
        "hf-loss-scale-auto",
        "hf",
        config(fp16={"enabled": "auto", "loss_scale": "auto"}),
        "ValueError",
        "trainer",
    ),
    Row("hf-activation-auto", "hf", config(activation_checkpointing="auto"), "ValueError", "trainer"),
    Row(
        "hf-keep-in-fp32-auto",
        "hf",
        config(data_types={"keep_in_fp32_modules": "auto"}),
        "ValueError",
        "trainer",
    ),
    Row(
        "hf-field-name-auto",
        "hf",
        config(zero_optimization={"stage": 3, "prefetch_bucket_size": "auto"}),
        "ValueError",
        "trainer",
    ),
    Row("hf-optimizer-auto", "hf", config(optimizer="auto"), "AttributeError", "trainer"),
    Row(
        "hf-optimizer-params-auto",
        "hf",
        config(optimizer={"type": "AdamW", "params": "auto"}),
        "AttributeError",
        "trainer",
    ),
    Row("hf-scheduler-auto", "hf", config(scheduler="auto"), "AttributeError", "trainer"),
    Row("hf-bf16-auto", "hf", config(bf16="auto"), "AttributeError", "trainer"),
    Row("hf-zero-auto", "hf", config(zero_optimization="auto"), "AttributeError", "trainer"),
    Row(
        "hf-offload-auto",
        "hf",
        config(zero_optimization=zero(offload_optimizer="auto")),
        "AttributeError",
        "trainer",
    ),
    Row(
        "hf-type-auto",
        "hf",
        config(optimizer={"type": "auto", "params": {"lr": "auto"}}),
        "ValueError",
        "trainer",
    ),
    *(Row(f"hf-auto-{n}", "hf", config(**changes), "ValueError", "trainer") for n, changes in STAYS.items()),
    Row(
        "hf-auto-autotp_size",
        "hf",
        config(tensor_parallel={"autotp_size": "auto"}),
        "TypeError",
        "trainer",
    ),
    Row("hf-auto-in-list", "hf", config(zero_optimization=zero(leaf_module={"classes": ["auto"]}))),
    Row("hf-steps-per-print-auto", "hf", config(steps_per_print="auto")),
    Row("hf-steps-per-print-0", "hf", config(steps_per_print=0)),
    Row("hf-untested-auto", "hf", config(zero_allow_untested_optimizer="auto")),
    Row(
        "hf-untested-auto-own-optimizer",
        "hf",
        config(zero_allow_untested_optimizer="auto", optimizer=optimizer(lr="auto")),
        "ValueError",
        "trainer",
    ),
    Row("hf-stage-auto", "hf", config(zero_optimization={"stage": "auto"}), saw={"stage": 2}),
    Row("hf-gather-auto", "hf", config(zero_optimization={"stage": 3, GATHER: "auto"}), saw={"stage": 3}),
    Row(
        "hf-all-filled",
        "hf",
        config(
            optimizer=optimizer(lr="auto", betas="auto", eps="auto", weight_decay="auto"),
            scheduler={
                "type": "WarmupDecayLR",
                "params": {
                    "warmup_min_lr": "auto",
                    "warmup_max_lr": "auto",
                    "warmup_num_steps": "auto",
                    "total_num_steps": "auto",
                },
            },
        ),
    ),
    Row(
        "hf-hidden-size",
        "hf",
        config(
            zero_optimization={
                "stage": 3,
                "reduce_bucket_size": "auto",
                "stage3_prefetch_bucket_size": "auto",
                "stage3_param_persistence_threshold": "auto",
            }
        ),
    ),
    # values that HF Trainer compares
    Row("hf-auto-capital", "hf", config(gradient_clipping="Auto"), "ValueError", "trainer"),
    Row("hf-bf16-text", "hf", config(bf16={"enabled": "true"}), "ValueError", "trainer", args={"bf16": True}),
    Row(
        "hf-bf16-one", "hf", config(bf16={"enabled": 1}), args={"bf16": True}, saw={"dtype": "torch.bfloat16"}
    ),
    Row("hf-lr-text", "hf", config(optimizer=optimizer(lr="5e-05")), "ValueError", "trainer"),
    Row(
        "hf-lr-nan",
        "hf",
        '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}, '
        '"optimizer": {"type": "AdamW", "params": {"lr": NaN}}}',
        "ValueError",
        "trainer",
    ),
    Row(
        "hf-warmup-zero",
        "hf",
        config(
            optimizer=optimizer(lr="auto"), scheduler={"type": "WarmupLR", "params": {"warmup_num_steps": 0}}
        ),
        "ValueError",
        "trainer",
    ),
    Row("hf-micro", "hf", config(train_micro_batch_size_per_gpu=4), "ValueError", "trainer"),
    Row("hf-micro-same", "hf", config(train_micro_batch_size_per_gpu=2)),
    Row("hf-accumulation", "hf", config(gradient_accumulation_steps=4), "ValueError", "trainer"),
    Row(
        "hf-train-batch",
        "hf",
        config(without=("train_micro_batch_size_per_gpu",), train_batch_size=32),
        "ValueError",
        "trainer",
    ),
    Row("hf-clipping", "hf", config(gradient_clipping=0.5), "ValueError", "trainer"),
    Row("hf-clipping-same", "hf", config(gradient_clipping=1)),
    Row("hf-lr", "hf", config(optimizer=optimizer(lr=1e-3)), "ValueError", "trainer"),
    Row("hf-betas", "hf", config(optimizer=optimizer(lr="auto", betas=[0.9, 0.95])), "ValueError", "trainer"),
    Row("hf-betas-same", "hf", config(optimizer=optimizer(lr="auto", betas=[0.9, 0.999]))),
    Row("hf-eps", "hf", config(optimizer=optimizer(lr="auto", eps=1e-6)), "ValueError", "trainer"),
    Row(
        "hf-weight-decay",
        "hf",
        config(optimizer=optimizer(lr="auto", weight_decay=0.1)),
        "ValueError",
        "trainer",
    ),
    Row("hf-weight-decay-same", "hf", config(optimizer=optimizer(lr="auto", weight_decay=0))),
    Row(
        "hf-peak",
        "hf",
        config(
            optimizer=optimizer(lr="auto"),
            scheduler={"type": "WarmupLR", "params": {"warmup_max_lr": 1e-3, "warmup_num_steps": "auto"}},
        ),
        "ValueError",
        "trainer",
    ),
    Row(
        "hf-total-steps",
        "hf",
        config(
            optimizer=optimizer(lr="auto"),
            scheduler={"type": "WarmupDecayLR", "params": {"total_num_steps": 1000, **WARMUP}},
        ),
        "ValueError",
        "trainer",
    ),
    Row(
        "hf-warmup-steps",
        "hf",
        config(
            optimizer=optimizer(lr="auto"),
            scheduler={"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": 100}},
        ),
        "ValueError",
        "trainer",
    ),
    Row(
        "hf-warmup-steps-same",
        "hf",
        config(
            optimizer=optimizer(lr="auto"),
            scheduler={"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": 5}},
        ),
        args={"warmup_steps": 5},
    ),
    Row("hf-fp16", "hf", config(fp16={"enabled": True}), "ValueError", "trainer"),
    Row("hf-bf16-off", "hf", config(bf16={"enabled": False}), "ValueError", "trainer", args={"bf16": True}),
    Row(
        "hf-fp16-against-bf16",
        "hf",
        config(fp16={"enabled": True}),
        "ValueError",
        "trainer",
        args={"bf16": True},
    ),
    # keys that are absent
    Row("hf-no-zero", "hf", AUTO, "ValueError", "trainer"),
    Row("hf-zero-empty", "hf", config(zero_optimization={}), "KeyError", "save", do="save"),
    Row("hf-zero-boolean", "hf", config(zero_optimization=True), "AttributeError", "trainer"),
    Row(
        "hf-no-clipping",
        "hf",
        config(without=("gradient_clipping",)),
        args={"max_grad_norm": 0.3},
        saw={"clip": 1.0},
    ),
    Row(
        "hf-no-accumulation-auto-batch",
        "hf",
        config(without=("gradient_accumulation_steps",)),
        "AssertionError",
        "config",
        args={"gradient_accumulation_steps": 2},
    ),
    Row(
        "hf-no-accumulation",
        "hf",
        config(without=("gradient_accumulation_steps", "train_batch_size")),
        args={"gradient_accumulation_steps": 2},
        saw={"gas": 1},
    ),
    Row(
        "hf-no-accumulation-fixed-batch",
        "hf",
        {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}},
        "AssertionError",
        "config",
        args={"gradient_accumulation_steps": 2},
    ),
    Row("hf-no-lr", "hf", config(optimizer=optimizer())),
    Row("hf-no-peak", "hf", config(optimizer=optimizer(lr="auto"), scheduler=DECAY), saw={"lr": [0.001]}),
    Row("hf-bf16-empty", "hf", config(bf16={}), args={"bf16": True}, saw={"dtype": "torch.float32"}),
    Row("hf-bfloat16", "hf", config(bfloat16={"enabled": True}), saw={"dtype": "torch.float32"}),
    Row("hf-optimizer-null", "hf", config(optimizer=None), "AttributeError", "config"),
    Row("hf-scheduler-null", "hf", config(scheduler=None), "AttributeError", "config"),
    Row("hf-fp16-null", "hf", config(fp16=None), "AttributeError", "trainer"),
    Row(
        "hf-offload-null",
        "hf",
        config(zero_optimization=zero(offload_optimizer=None)),
        "AttributeError",
        "trainer",
    ),
    Row("hf-zero-null", "hf", config(zero_optimization=None), "AttributeError", "trainer"),
    Row(
        "hf-no-batch",
        "hf",
        config(without=("train_batch_size", "train_micro_batch_size_per_gpu")),
        "AssertionError",
        "config",
    ),
    Row(
        "hf-only-train-batch",
        "hf",
        config(without=("train_micro_batch_size_per_gpu",)),
    ),
    Row("hf-clipping-null", "hf", config(gradient_clipping=None), "TypeError", "step"),
    Row(
        "hf-warmup-without-peak",
        "hf",
        config(
            optimizer=optimizer(lr="auto"),
            scheduler={"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
        ),
        saw={"lr": [5e-05]},
    ),
    *(
        Row(
            f"hf-{name}",
            "hf",
            config(optimizer=optimizer(lr="auto"), scheduler=scheduler),
            "TypeError",
            "initialize",
        )
        for name, scheduler in {
            "decay-without-total": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto"}},
            "cosine-without-total": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": "auto"}},
            "scheduler-without-params": {"type": "WarmupLR"},
            "warmup-with-total": {"type": "WarmupLR", "params": {**WARMUP, "total_num_steps": "auto"}},
            "cosine-with-peak": {"type": "WarmupCosineLR", "params": {**DECAY["params"], **WARMUP}},
        }.items()
    ),
    Row(
        "hf-scheduler-without-optimizer",
        "hf",
        config(scheduler={"type": "WarmupLR", "params": WARMUP}),
    ),
    # values and keys that DeepSpeed refuses under HF Trainer, too
    *(
        Row(f"hf-{name}", "hf", config(**changes), verdict, "config")
        for name, verdict, changes in (
            ("fraction", "ValidationError", {"zero_optimization": zero(reduce_bucket_size=5.5)}),
            ("exponent-text", "ValidationError", {"zero_optimization": zero(reduce_bucket_size="5e8")}),
            ("unknown-key", "ValidationError", {"zero_optimization": zero(overlap_com=True)}),
            ("aio-nested", "ValidationError", {"zero_optimization": zero(aio={"block_size": 1048576})}),
            (
                "two-spellings",
                "ValidationError",
                {
                    "zero_optimization": {
                        "stage": 3,
                        "stage3_prefetch_bucket_size": 9,
                        "prefetch_bucket_size": 9,
                    }
                },
            ),
            ("amp", "DeepSpeedConfigError", {"amp": {"enabled": False}}),
        )
    ),
    Row("hf-digits-text", "hf", config(zero_optimization=zero(reduce_bucket_size="500000000"))),
    Row("hf-unknown-top-key", "hf", config(gradient_cliping=1.0)),
    Row("hf-untested-false", "hf", config(zero_allow_untested_optimizer=False)),
    Row(
        "hf-offload-stage-0",
        "hf",
        config(zero_optimization={"stage": 0, "offload_optimizer": {"device": "cpu"}}),
        saw={"optimizer": "DeepSpeedCPUAdam"},
    ),
    Row(
        "hf-offload-param-stage-2",
        "hf",
        config(zero_optimization=zero(offload_param={"device": "cpu"})),
    ),
    # what is saved
    Row(
        "hf-save-stage-3",
        "hf",
        config(zero_optimization={"stage": 3}),
        says="DS429",
        do="save",
    ),
    Row(
        "hf-save-stage-3-gathered",
        "hf",
        config(zero_optimization={"stage": 3, GATHER: True}),
        do="save",
    ),
    Row(
        "hf-save-stage-text",
        "hf",
        config(zero_optimization={"stage": "3", GATHER: True}),
        says="DS444",
        do="save",
    ),
    # models without a hidden size where it is looked up
    Row(
        "hf-model-without-config",
        "hf",
        config(zero_optimization=zero(reduce_bucket_size="auto")),
        "ValueError",
        "trainer",
        unseen="the model's config",
        model="none",
    ),
    Row("hf-model-without-config-no-auto", "hf", config(), model="none"),
    Row(
        "hf-vision-stage-2",
        "hf",
        config(zero_optimization=zero(stage3_prefetch_bucket_size="auto")),
        "ValueError",
        "trainer",
        unseen="the model's config",
        model="vision",
    ),
    Row(
        "hf-vision-bucket",
        "hf",
        config(zero_optimization=zero(reduce_bucket_size="auto")),
        model="vision",
    ),
    # inline YAML
    Row(
        "inline-exponent",
        "inline",
        inline(*INLINE, "zero_optimization:", "  stage: 2", "  reduce_bucket_size: 5e8"),
        "ValidationError",
        "config",
    ),
    Row(
        "inline-float",
        "inline",
        inline(*INLINE, "zero_optimization:", "  stage: 2", "  reduce_bucket_size: 5.0e+8"),
    ),
    Row(
        "inline-lr",
        "inline",
        inline(
            *INLINE,
            "zero_optimization: {stage: 2}",
            "optimizer:",
            "  type: AdamW",
            "  params: {lr: 5e-5, torch_adam: true}",
        ),
        "ValueError",
        "trainer",
    ),
    Row(
        "inline-switch",
        "inline",
        inline(*INLINE, "zero_optimization: {stage: 2, overlap_comm: no}"),
    ),
    # what the run asks for
    Row(
        "hf-rmsprop-offload",
        "hf",
        config(zero_optimization=OFFLOAD),
        args={"optim": "rmsprop"},
        saw={"optimizer": "DeepSpeedCPUAdam"},
    ),
    Row("hf-both-asked", "hf", config(), "ValueError", "trainer", args={"fp16": True, "bf16": True}),
    Row(
        "hf-best-model-alone",
        "hf",
        config(),
        args={
            "load_best_model_at_end": True,
            "eval_strategy": "steps",
            "save_strategy": "steps",
            "eval_steps": 1,
            "save_steps": 1,
        },
    ),
    Row(
        "hf-sgd-offload",
        "hf",
        config(zero_optimization=OFFLOAD),
        args={"optim": "sgd"},
        saw={"optimizer": "DeepSpeedCPUAdam"},
    ),
    Row(
        "hf-adafactor-offload",
        "hf",
        config(zero_optimization=OFFLOAD),
        "TypeError",
        "step",
        args={"optim": "adafactor"},
    ),
    Row(
        "hf-adafactor-not-forced",
        "hf",
        config(zero_optimization=OFFLOAD, zero_force_ds_cpu_optimizer=False),
        args={"optim": "adafactor"},
    ),
    Row(
        "hf-evaluate-stage-2",
        "hf",
        config(),
        "ValueError",
        "trainer",
        says="DS923",
        args={"do_eval": True},
        do="evaluate",
    ),
    Row(
        "hf-evaluate-stage-3",
        "hf",
        config(zero_optimization={"stage": 3, GATHER: True}),
        args={"do_eval": True},
        do="evaluate",
    ),
    Row(
        "hf-batch-finder-stage-3",
        "hf",
        config(zero_optimization={"stage": 3, GATHER: True}),
        "ValueError",
        "trainer",
        args={"auto_find_batch_size": True},
    ),
    Row(
        "hf-best-model",
        "hf",
        config(),
        "ValueError",
        "trainer",
        args={
            "save_only_model": True,
            "load_best_model_at_end": True,
            "eval_strategy": "steps",
            "save_strategy": "steps",
        },
    ),
    Row("hf-fsdp", "hf", config(), "ValueError", "trainer", args={"fsdp": "full_shard"}),
    # accelerate
    Row("accelerate-plain", "accelerate", config()),
    Row(
        "accelerate-betas-auto",
        "accelerate",
        config(optimizer=optimizer(lr="auto", betas="auto")),
        "ValueError",
        "trainer",
        script="dummy",
    ),
    Row(
        "accelerate-dummy",
        "accelerate",
        config(optimizer=optimizer(lr="auto", weight_decay="auto")),
        script="dummy",
    ),
    Row(
        "accelerate-torch-optimizer",
        "accelerate",
        config(optimizer=optimizer(lr=1e-3)),
        "ValueError",
        "trainer",
        says="DS930",
    ),
    Row(
        "accelerate-no-micro",
        "accelerate",
        config(without=("train_micro_batch_size_per_gpu",)),
        "ValueError",
        "trainer",
    ),
    Row("accelerate-no-zero", "accelerate", AUTO, "ValueError", "trainer"),
    Row(
        "accelerate-stage-3-save",
        "accelerate",
        config(zero_optimization={"stage": 3}),
        "ValueError",
        "save",
        says="DS429",
        do="save",
    ),
    Row(
        "accelerate-bf16-off",
        "accelerate",
        config(bf16={"enabled": False}),
        args={"mixed_precision": "bf16"},
        saw={"dtype": "torch.float32"},
    ),
    Row(
        "accelerate-bf16-on",
        "accelerate",
        config(bf16={"enabled": True}),
        args={"mixed_precision": "no"},
        saw={"dtype": "torch.bfloat16"},
    ),
    Row(
        "accelerate-fp16-against-bf16",
        "accelerate",
        config(fp16={"enabled": True}),
        "ValueError",
        "trainer",
        args={"mixed_precision": "bf16"},
    ),
    Row(
        "accelerate-both",
        "accelerate",
        config(fp16={"enabled": True}, bf16={"enabled": True}),
        "AssertionError",
        "config",
    ),
    Row(
        "accelerate-fixed-batch",
        "accelerate",
        {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}},
        "AssertionError",
        "config",
    ),
    Row(
        "accelerate-no-optimizer-section",
        "accelerate",
        config(),
        "ValueError",
        "trainer",
        unseen="DummyOptim in the script",
        script="dummy",
    ),
    Row(
        "accelerate-dummy-scheduler",
        "accelerate",
        config(optimizer=optimizer(lr="auto"), scheduler=DECAY),
        script="dummy",
    ),
    Row(
        "accelerate-offload",
        "accelerate",
        config(zero_optimization=OFFLOAD),
        saw={"optimizer": "DeepSpeedCPUAdam"},
    ),
    Row("accelerate-zero-empty", "accelerate", config(zero_optimization={}), saw={"stage": 0}),
    Row("accelerate-hidden", "accelerate", config(zero_optimization=zero(reduce_bucket_size="auto"))),
    Row("accelerate-steps-per-print-auto", "accelerate", config(steps_per_print="auto")),
    # accelerate's own files
    Row(
        "file-block-text",
        "accelerate-yaml",
        "distributed_type: DEEPSPEED\nnum_processes: 1\ndeepspeed_config: ds.json\n",
        says="DS968",
        saw={"stage": 2},
    ),
    Row(
        "file-no-block",
        "accelerate-yaml",
        "distributed_type: DEEPSPEED\nnum_processes: 1\n",
        saw={"stage": 2},
    ),
    Row("file-fsdp-beside", "accelerate-yaml", launch() + "fsdp_config: {fsdp_version: 2}\n"),
    Row("file-clipping-auto", "accelerate-yaml", launch("zero_stage: 2", "gradient_clipping: auto")),
    Row(
        "file-precision-binary",
        "accelerate-yaml",
        launch(top=("mixed_precision: !!binary aGVsbG8=",)),
        "ValueError",
        "trainer",
    ),
    *(
        Row(
            f"file-named-and-{line.split(':')[0]}",
            "accelerate-yaml",
            launch("deepspeed_config_file: ds.json", line),
            "ValueError",
            "trainer",
            files=NAMED,
        )
        for line in BESIDE
    ),
    Row("file-plain", "accelerate-yaml", launch(), saw={"stage": 2, "clip": 1.0}),
    Row(
        "file-json",
        "accelerate-yaml",
        json.dumps(
            {"distributed_type": "DEEPSPEED", "num_processes": 1, "deepspeed_config": {"zero_stage": 1}}
        ),
        suffix=".json",
        saw={"stage": 1},
    ),
    Row("file-top-key", "accelerate-yaml", launch() + "zero_stage: 2\n", "ValueError", "trainer"),
    Row(
        "file-type-lower",
        "accelerate-yaml",
        launch().replace("DEEPSPEED", "deepspeed"),
        "ValueError",
        "trainer",
    ),
    Row(
        "file-no-type",
        "accelerate-yaml",
        launch().replace("distributed_type: DEEPSPEED\n", ""),
        "ValueError",
        "trainer",
    ),
    Row("file-other-type", "accelerate-yaml", launch().replace("DEEPSPEED", "MULTI_GPU")),
    Row(
        "file-no-processes", "accelerate-yaml", launch(processes=None), "ValueError", "trainer", says="DS964"
    ),
    Row(
        "file-precision-no",
        "accelerate-yaml",
        launch(top=("mixed_precision: no",)),
        "AttributeError",
        "trainer",
    ),
    Row("file-precision-quoted", "accelerate-yaml", launch(top=("mixed_precision: 'no'",))),
    Row(
        "file-precision-unknown",
        "accelerate-yaml",
        launch(top=("mixed_precision: float16",)),
        "ValueError",
        "trainer",
    ),
    Row(
        "file-precision-capital",
        "accelerate-yaml",
        launch(top=("mixed_precision: BF16",)),
        saw={"dtype": "torch.bfloat16"},
    ),
    Row("file-fp16", "accelerate-yaml", launch(top=("fp16: true",)), saw={"dtype": "torch.float16"}),
    Row("file-stage-auto", "accelerate-yaml", launch("zero_stage: auto"), "ValueError", "trainer"),
    Row("file-stage-float", "accelerate-yaml", launch("zero_stage: 2.0"), "ValueError", "trainer"),
    Row("file-stage-true", "accelerate-yaml", launch("zero_stage: true"), "ValueError", "trainer"),
    Row("file-stage-quoted", "accelerate-yaml", launch("zero_stage: '1'"), saw={"stage": 1}),
    Row("file-stage-null", "accelerate-yaml", launch("zero_stage: null"), saw={"stage": 2}),
    Row("file-stage-4", "accelerate-yaml", launch("zero_stage: 4"), "ValidationError", "config"),
    Row(
        "file-clipping-0",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_clipping: 0"),
        saw={"clip": 1.0},
    ),
    Row(
        "file-clipping-none",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_clipping: none"),
        "ValueError",
        "trainer",
    ),
    Row(
        "file-clipping-exponent",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_clipping: 1e-1"),
        saw={"clip": 0.1},
    ),
    Row(
        "file-steps-auto",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_accumulation_steps: auto"),
        "ValueError",
        "trainer",
        says="DS962",
    ),
    Row(
        "file-steps-auto-hf",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_accumulation_steps: auto"),
        script="hf",
    ),
    Row(
        "file-steps-float",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_accumulation_steps: 2.0"),
        "ValueError",
        "trainer",
    ),
    Row(
        "file-steps-float-hf",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_accumulation_steps: 2.0"),
        "TypeError",
        "trainer",
        script="hf",
    ),
    Row(
        "file-init-maybe",
        "accelerate-yaml",
        launch("zero_stage: 3", "zero3_init_flag: maybe", "zero3_save_16bit_model: true"),
        "ValueError",
        "trainer",
    ),
    Row(
        "file-init-1",
        "accelerate-yaml",
        launch("zero_stage: 3", "zero3_init_flag: 1", "zero3_save_16bit_model: true"),
    ),
    Row("file-init-stage-2", "accelerate-yaml", launch("zero_stage: 2", "zero3_init_flag: true")),
    Row(
        "file-save-quoted-yes",
        "accelerate-yaml",
        launch("zero_stage: 3", "zero3_save_16bit_model: 'yes'"),
        "ValueError",
        "save",
        says="DS961",
        do="save",
    ),
    Row(
        "file-save-yes", "accelerate-yaml", launch("zero_stage: 3", "zero3_save_16bit_model: yes"), do="save"
    ),
    Row(
        "file-device-disk",
        "accelerate-yaml",
        launch("zero_stage: 2", "offload_optimizer_device: disk"),
        "ValidationError",
        "config",
    ),
    Row(
        "file-device-capital",
        "accelerate-yaml",
        launch("zero_stage: 2", "offload_optimizer_device: CPU"),
        saw={"optimizer": "DeepSpeedCPUAdam"},
    ),
    Row(
        "file-device-null",
        "accelerate-yaml",
        launch("zero_stage: 2", "offload_optimizer_device: null"),
        saw={"optimizer": "AdamW"},
    ),
    Row("file-unread-key", "accelerate-yaml", launch("zero_stagee: 1"), says="DS951", saw={"stage": 2}),
    Row("file-duplicate", "accelerate-yaml", launch("zero_stage: 2", "zero_stage: 1"), saw={"stage": 1}),
    Row("file-named", "accelerate-yaml", launch("deepspeed_config_file: ds.json"), files=NAMED),
    Row(
        "file-named-and-stage",
        "accelerate-yaml",
        launch("deepspeed_config_file: ds.json", "zero_stage: 2"),
        "ValueError",
        "trainer",
        files=NAMED,
    ),
    Row(
        "file-named-and-stage-null",
        "accelerate-yaml",
        launch("deepspeed_config_file: ds.json", "zero_stage: null"),
        "ValueError",
        "trainer",
        files=NAMED,
    ),
    Row(
        "file-named-and-precision",
        "accelerate-yaml",
        launch("deepspeed_config_file: ds.json", top=("mixed_precision: bf16",)),
        "ValueError",
        "trainer",
        says="DS955",
        files=NAMED,
    ),
    Row(
        "file-named-precision-given",
        "accelerate-yaml",
        launch("deepspeed_config_file: ds.json", top=("mixed_precision: bf16",)),
        files=NAMED,
        flags=("--mixed_precision", "bf16"),
    ),
    Row(
        "file-named-init-flag",
        "accelerate-yaml",
        launch(
            "deepspeed_config_file: ds.json",
            "zero3_init_flag: false",
            "deepspeed_multinode_launcher: standard",
            "deepspeed_moe_layer_cls_names: null",
        ),
        files=NAMED,
    ),
    Row(
        "file-named-none",
        "accelerate-yaml",
        launch("deepspeed_config_file: none", "zero_stage: 1"),
        saw={"stage": 1},
    ),
    Row(
        "file-named-missing",
        "accelerate-yaml",
        launch("deepspeed_config_file: nope.json"),
        "ValueError",
        "trainer",
        says="DS967",
    ),
    # accelerate's settings under HF Trainer, which compares them with its arguments
    Row(
        "file-hf-steps",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_accumulation_steps: 2"),
        "ValueError",
        "trainer",
        script="hf",
    ),
    Row(
        "file-hf-steps-same",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_accumulation_steps: 2"),
        script="hf",
        args={"gradient_accumulation_steps": 2},
        saw={"gas": 2},
    ),
    Row(
        "file-hf-clipping",
        "accelerate-yaml",
        launch("zero_stage: 2", "gradient_clipping: 0.5"),
        "ValueError",
        "trainer",
        script="hf",
    ),
    Row(
        "file-hf-precision",
        "accelerate-yaml",
        launch(top=("mixed_precision: bf16",)),
        "ValueError",
        "trainer",
        script="hf",
    ),
    Row(
        "file-hf-precision-same",
        "accelerate-yaml",
        launch(top=("mixed_precision: bf16",)),
        script="hf",
        args={"bf16": True},
        saw={"dtype": "torch.bfloat16"},
    ),
    Row(
        "file-hf-precision-asked",
        "accelerate-yaml",
        launch(top=("mixed_precision: 'no'",)),
        script="hf",
        args={"bf16": True},
        saw={"dtype": "torch.bfloat16"},
    ),
    Row(
        "file-hf-precision-other",
        "accelerate-yaml",
        launch(top=("mixed_precision: fp16",)),
        script="hf",
        args={"bf16": True},
        saw={"dtype": "torch.bfloat16"},
    ),
]
