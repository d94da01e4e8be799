"""Fresh DeepSpeed configs from a seed: realistic ones, and the mistakes people make in them.

    for case in generate(seed=7, n=1000):
        case["config"]                         an object, as json.loads would give it
        case["id"], case["base"], case["change"]   "7-12"; which base it is; what was done to it

    python -m tests.oracle.generate --seed 7 -n 5       JSON lines

Stands alone: nothing is read, and only random.Random.random() is used, whose sequence for a seed is the same
in every Python. About half of the configs are ones DeepSpeed 0.19.8 accepts.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Config = dict[str, Any]


class Dice:
    """Choices from one Random, made of its random() alone."""

    def __init__(self, seed: str) -> None:
        self._next = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._next() < probability

    def below(self, limit: int) -> int:
        return int(self._next() * limit)

    def pick(self, items: Sequence[Any]) -> Any:
        return copy.deepcopy(items[self.below(len(items))])

    def weighted(self, items: Sequence[tuple[Any, float]]) -> Any:
        point = self._next() * sum(weight for _, weight in items)
        for item, weight in items:
            point -= weight
            if point < 0:
                return item
        return items[-1][0]

    def some(self, items: Sequence[Any], share: float) -> list[Any]:
        return [item for item in items if self.chance(share)]


# --- what can stand where: section path -> key -> values people write ------------------------------------

FLAG: list[Any] = [True, False]
COUNT: list[Any] = [1, 2, 4, 8, 16]
ELEMENTS: list[Any] = [200000000, 500000000, 2e8, 5e8, 5e7, 1e9, 1000000000, 16777216, 1e6]

KEYS: dict[str, dict[str, list[Any]]] = {
    "": {
        "train_batch_size": [8, 16, 32, 64, 128, 256],
        "train_micro_batch_size_per_gpu": COUNT,
        "gradient_accumulation_steps": COUNT,
        "managed_gradient_accumulation": FLAG,
        "steps_per_print": [10, 100, 2000, 1e5, "inf", None],
        "dump_state": FLAG,
        "disable_python_gc": FLAG,
        "disable_allgather": FLAG,
        "communication_data_type": ["fp16", "bf16", "fp32", "FP32", None],
        "seq_parallel_communication_data_type": ["fp32", "bf16"],
        "prescale_gradients": FLAG,
        "gradient_predivide_factor": [1.0, 2.0, 8],
        "gradient_allreduce_op": ["mean", "sum", "MEAN"],
        "gradient_clipping": [1.0, 0.5, 0.0, 1, 0.3],
        "zero_allow_untested_optimizer": FLAG,
        "zero_force_ds_cpu_optimizer": FLAG,
        "wall_clock_breakdown": FLAG,
        "memory_breakdown": FLAG,
        "use_data_before_expert_parallelism": FLAG,
        "dataloader_drop_last": FLAG,
        "log_level": ["info", "warning", "debug", None],
        "vocabulary_size": [50257, 32000, 32001],
        "sequence_parallel_size": [1, 2],
    },
    "zero_optimization": {
        "stage": [0, 1, 2, 3],
        "contiguous_gradients": FLAG,
        "reduce_scatter": FLAG,
        "reduce_bucket_size": ELEMENTS,
        "use_multi_rank_bucket_allreduce": FLAG,
        "allgather_partitions": FLAG,
        "allgather_bucket_size": ELEMENTS,
        "overlap_comm": FLAG,
        "compute_grad_norm": [True],
        "load_from_fp32_weights": FLAG,
        "elastic_checkpoint": FLAG,
        "sub_group_size": [1e9, 1e12, 1000000000, 1e14],
        "stage3_prefetch_bucket_size": [5e7, 50000000, 5e8, 0],
        "stage3_param_persistence_threshold": [1e5, 1e6, 100000, 10000, 0],
        "stage3_model_persistence_threshold": [1e9, 100000000],
        "stage3_max_live_parameters": [1e9, 1000000000, 0],
        "stage3_max_reuse_distance": [1e9, 1000000000, 0],
        "stage3_gather_16bit_weights_on_model_save": FLAG,
        "stage3_module_granularity_threshold": [0, 100],
        "stage3_use_all_reduce_for_fetch_params": FLAG,
        "stage3_allgather_sequential": FLAG,
        "ignore_unused_parameters": FLAG,
        "legacy_stage1": FLAG,
        "round_robin_gradients": FLAG,
        "parameter_alignment": FLAG,
        "zero_hpz_partition_size": [1, 8],
        "zero_quantized_weights": FLAG,
        "zero_quantized_nontrainable_weights": FLAG,
        "zero_quantized_gradients": FLAG,
        "memory_efficient_linear": FLAG,
        "pipeline_loading_checkpoint": FLAG,
        "override_module_apply": FLAG,
        "log_trace_cache_warnings": FLAG,
        "enable_sanity_checks": FLAG,
        "save_muon_momentum_buffer_in_memory": FLAG,
    },
    "zero_optimization.offload_optimizer": {
        "device": ["cpu", "none", "nvme"],
        "nvme_path": ["/local_nvme", None],
        "buffer_count": [4, 5],
        "pin_memory": FLAG,
        "pipeline_read": FLAG,
        "pipeline_write": FLAG,
        "fast_init": FLAG,
        "ratio": [1.0, 1, 0.5],
        "super_offload": FLAG,
        "cpuadam_cores_perc": [0.8, 0.5],
    },
    "zero_optimization.offload_param": {
        "device": ["cpu", "none", "nvme"],
        "nvme_path": ["/local_nvme", None],
        "buffer_count": [5, 4],
        "buffer_size": [1e8, 100000000, 1e9],
        "max_in_cpu": [1e9, 0],
        "pin_memory": FLAG,
    },
    "zero_optimization.zenflow": {
        "topk_ratio": [0.05, 0.1],
        "select_strategy": ["auto", "step", "epoch"],
        "select_interval": ["auto", 1, 10],
        "update_interval": ["auto", 4],
        "overlap_step": FLAG,
        "offload": FLAG,
        "auto_ratio": [0.99],
        "full_warm_up_rounds": [0, 2],
        "pt_reserved_cores_perc": [0.5],
        "steps_per_epoch": [None, 100],
    },
    "zero_optimization.leaf_module": {
        "classes": [["transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock"], [], "MyBlock"],
        "names": [[], ["layers.0.moe"]],
        "name_suffixes": [[], ["mlp"]],
    },
    "fp16": {
        "enabled": FLAG,
        "auto_cast": FLAG,
        "loss_scale": [0, 0.0, 128, 1024.0],
        "initial_scale_power": [16, 12, 32],
        "loss_scale_window": [1000, 500, 100],
        "hysteresis": [2, 1],
        "consecutive_hysteresis": FLAG,
        "min_loss_scale": [1, 2, 1.0],
        "fp16_master_weights_and_grads": [False, True],
    },
    "bf16": {
        "enabled": FLAG,
        "immediate_grad_update": FLAG,
        "check_grad_overflow": FLAG,
        "bf16_master_weights_and_grads": [False, True],
        "bf16_optimizer_states": [False, True],
    },
    "optimizer": {
        "type": ["AdamW", "Adam", "adamw", "Lamb", "Lion", "Adagrad", "Muon", "SGD", "OneBitAdam", "RMSprop"],
        "params": [{"lr": 1e-4}, {"lr": 3e-5, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}],
        "legacy_fusion": FLAG,
    },
    "optimizer.params": {
        "lr": [1e-4, 5e-5, 0.001, 3e-4],
        "betas": [[0.9, 0.999], [0.9, 0.95]],
        "eps": [1e-8, 1e-6],
        "weight_decay": [0.0, 0.01, 0.1, 3e-7],
        "bias_correction": FLAG,
        "adam_w_mode": FLAG,
        "torch_adam": FLAG,
        "amsgrad": [False],
        "momentum": [0.9],
        "max_grad_norm": [1.0],
        "max_coeff": [0.3],
        "freeze_step": [400],
    },
    "scheduler": {
        "type": [
            "WarmupLR",
            "WarmupDecayLR",
            "WarmupCosineLR",
            "OneCycle",
            "LRRangeTest",
            "CosineAnnealingLR",
        ],
        "params": [{}, {"warmup_num_steps": 100}, {"total_num_steps": 1000, "warmup_num_steps": 10}],
    },
    "scheduler.params": {
        "warmup_min_lr": [0, 0.0, 1e-6],
        "warmup_max_lr": [0.001, 5e-5],
        "warmup_num_steps": [100, 1000, 10, 500],
        "warmup_type": ["log", "linear", "cosine"],
        "total_num_steps": [1000, 100000],
        "warmup_min_ratio": [0.0],
        "cos_min_ratio": [0.1],
        "cycle_min_lr": [1e-5],
        "cycle_max_lr": [1e-3],
        "cycle_first_step_size": [1000],
        "lr_range_test_min_lr": [0.001],
        "lr_range_test_step_size": [200],
        "lr_range_test_step_rate": [5],
        "lr_range_test_staircase": FLAG,
        "last_batch_iteration": [-1],
    },
    "activation_checkpointing": {
        "partition_activations": FLAG,
        "contiguous_memory_optimization": FLAG,
        "cpu_checkpointing": FLAG,
        "number_checkpoints": [4, None, 1],
        "synchronize_checkpoint_boundary": FLAG,
        "profile": FLAG,
    },
    "aio": {
        "block_size": [1048576, 131072],
        "queue_depth": [8, 16, 32],
        "intra_op_parallelism": [1, 4],
        "thread_count": [1, 2],
        "single_submit": FLAG,
        "overlap_events": FLAG,
        "use_gds": [False],
    },
    "flops_profiler": {
        "enabled": FLAG,
        "recompute_fwd_factor": [0.0, 1.0],
        "profile_step": [1, 5],
        "module_depth": [-1, 2],
        "top_modules": [1, 3],
        "detailed": FLAG,
        "output_file": [None, "flops.txt"],
    },
    "tensorboard": {
        "enabled": [False, True],
        "output_path": ["runs/", ""],
        "job_name": ["train", "DeepSpeedJobName"],
    },
    "wandb": {
        "enabled": [False, True],
        "group": ["g", None],
        "team": ["t", None],
        "project": ["deepspeed", "llm"],
    },
    "csv_monitor": {
        "enabled": FLAG,
        "output_path": ["csv/", ""],
        "job_name": ["train"],
    },
    "comet": {
        "enabled": [False],
        "project": ["p", None],
        "workspace": ["w"],
        "api_key": [None],
        "samples_log_interval": [100],
        "experiment_name": ["e"],
        "experiment_key": [None],
        "online": FLAG,
        "mode": ["get_or_create", "create"],
    },
    "comms_logger": {
        "enabled": FLAG,
        "verbose": FLAG,
        "prof_all": FLAG,
        "debug": FLAG,
        "prof_ops": [["all_reduce"], []],
    },
    "checkpoint": {
        "tag_validation": ["Warn", "Ignore", "Fail", "WARN"],
        "load_universal": FLAG,
        "use_node_local_storage": FLAG,
        "checkpoint_serialization": FLAG,
        "parallel_write": [{"pipeline_stage": False}, {"pipeline_stage": True}, {}],
        "writer": [None, {"type": "fast", "io_buffer_size": 64e6}, {"type": "python", "decoupled": False}],
    },
    "data_types": {
        "grad_accum_dtype": ["fp32", "bf16", "fp16", None],
        "param_dtype": [None, "bf16", "fp32"],
        "buffer_dtype": [None, "fp32"],
        "keep_in_fp32_modules": ["auto", [], ["lm_head"]],
    },
    "torch_autocast": {
        "enabled": FLAG,
        "dtype": ["bfloat16", "float16", "bf16", "torch.bfloat16"],
        "lower_precision_safe_modules": [["torch.nn.Linear"], ["torch.nn.Linear", "torch.nn.Conv2d"]],
    },
    "tensor_parallel": {
        "autotp_size": [0, 1],
        "dtype": ["auto"],
        "tp_overlap_comm": FLAG,
        "tp": [{"tp_size": 1}, {}, {"tp_size": 2, "tp_grain_size": 1}],
        "vocab_parallel_lm_head": [None, True, False],
        "vocab_parallel_ce_backend": ["torch", "liger"],
        "preset_model": ["llama", None],
        "partition_config": [None, {"use_default_specs": False, "layer_specs": []}],
        "keep_module_on_host": FLAG,
        "kernel_inject": FLAG,
        "injection_policy_tuple": [None],
    },
    "expert_parallel": {
        "enabled": [False],
        "autoep_size": [1, 2],
        "preset_model": [None, "mixtral"],
        "load_balance_coeff": [None, None, None, 0.01],
        "score_func": ["auto", "softmax"],
        "top_k": ["auto", 2],
        "use_grouped_mm": FLAG,
    },
    "compile": {
        "deepcompile": [False],
        "free_activation": FLAG,
        "free_activation_threshold": [10485760],
        "autoep_non_moe": FLAG,
        "offload_activation": [False],
        "offload_activation_pin_memory": FLAG,
        "offload_opt_states": [False],
        "double_buffer": FLAG,
        "symmetric_memory": FLAG,
        "debug_log": FLAG,
        "offload_parameters": [False],
        "sync_before_reduce": FLAG,
        "sync_after_reduce": FLAG,
        "sync_before_allgather": FLAG,
        "sync_after_allgather": FLAG,
        "keep_int_input_tensors": FLAG,
        "keep_all_input_tensors": FLAG,
        "passes": [None, [], ["z3"], ["z1", "autosp"]],
    },
    "hybrid_engine": {
        "enabled": [False],
        "max_out_tokens": [512, 256],
        "inference_tp_size": [1],
        "release_inference_cache": FLAG,
        "pin_parameters": FLAG,
        "tp_gather_partition_size": [8],
        "enable_cuda_graph": FLAG,
    },
    "weight_quantization": {
        "enabled": FLAG,
        "num_bits": [8, 4],
        "q_type": ["symmetric", "asymmetric"],
        "q_groups": [1],
        "quantized_initialization": [
            {},
            {"num_bits": 4, "group_size": 64, "group_dim": 1, "symmetric": False},
        ],
        "post_init_quant": [{}],
    },
    "pipeline": {
        "stages": ["auto", 2],
        "partition": ["best", "uniform"],
        "seed_layers": FLAG,
        "activation_checkpoint_interval": [0, 1],
        "pipe_partitioned": FLAG,
        "grad_partitioned": FLAG,
    },
    "timers": {
        "throughput": [{"enabled": True, "synchronized": True}, {"enabled": False}, {}],
    },
    "datastates_ckpt": {
        "host_cache_size": [16],
    },
    "autotuning": {
        "enabled": [False],
        "fast": FLAG,
        "results_dir": ["autotuning_results"],
        "exps_dir": ["autotuning_exps"],
        "overwrite": FLAG,
        "metric": ["throughput", "latency", "flops"],
        "metric_path": [None],
        "start_profile_step": [3],
        "end_profile_step": [5],
        "tuner_type": ["gridsearch", "random", "model_based"],
        "tuner_early_stopping": [5],
        "tuner_num_trials": [50],
        "arg_mappings": [{"train_micro_batch_size_per_gpu": "--per_device_train_batch_size"}, None],
        "model_info": [{"num_params": 1000000000}, None],
        "model_info_path": [None],
        "mp_size": [1],
        "max_train_batch_size": [None, 512],
        "min_train_batch_size": [1],
        "max_train_micro_batch_size_per_gpu": [1024],
        "min_train_micro_batch_size_per_gpu": [1],
        "num_tuning_micro_batch_sizes": [3],
    },
    "data_efficiency": {
        "enabled": FLAG,
        "seed": [1234],
        "data_sampling": [
            {"enabled": False},
            {"enabled": True, "num_epochs": 1, "num_workers": 2, "curriculum_learning": {"enabled": False}},
            {"enabled": True, "curriculum_learning": {"enabled": True, "curriculum_metrics": {"seqlen": {}}}},
            {"enabled": True, "dynamic_batching": {"enabled": True, "max_tokens": 4096, "min_batch_size": 1}},
            {"enabled": True, "curriculum_learning": {"enabled": True}},
        ],
        "data_routing": [
            {"enabled": False},
            {
                "enabled": True,
                "random_ltd": {"enabled": False, "total_layer_num": 24, "random_ltd_layer_num": 22},
            },
        ],
    },
}

# Sections and keys of releases gone by, and of other tools, as files still carry them.
OLD: list[tuple[str, str, Any]] = [
    ("", "bfloat16", {"enabled": True}),
    ("", "bfloat16", {"enabled": False}),
    ("", "amp", {"enabled": False, "opt_level": "O1"}),
    ("", "amp", {"enabled": True}),
    ("", "sparse_gradients", False),
    ("", "sparse_attention", {"mode": "fixed", "block": 16}),
    ("", "elasticity", {"enabled": False, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4]}),
    ("", "eigenvalue", {"enabled": False}),
    ("", "quantize_training", {"enabled": False}),
    ("", "nebula", {"enabled": False}),
    ("", "graph_harvesting", False),
    ("", "curriculum_learning", {"enabled": False, "curriculum_type": "seqlen"}),
    ("", "progressive_layer_drop", {"enabled": False, "theta": 0.5, "gamma": 0.001}),
    ("", "compression_training", {"weight_quantization": {"shared_parameters": {"enabled": False}}}),
    ("", "zero_optimization", True),
    ("", "zero_optimization", False),
    ("", "allgather_size", 500000000),
    ("", "disable_allgather", True),
    ("", "fp32_allreduce", True),
    ("", "zero3_init_flag", True),
    ("", "monitor_config", {"enabled": True}),
    ("", "comms_config", {"enabled": True}),
    ("", "flash_attention", True),
    ("", "gradient_checkpointing", True),
    ("", "batch_size", 16),
    ("", "max_grad_norm", 1.0),
    ("", "learning_rate", 1e-4),
    ("", "micro_batch_per_gpu", 4),
    ("", "log", {"enabled": True}),
    ("zero_optimization", "cpu_offload", True),
    ("zero_optimization", "cpu_offload", False),
    ("zero_optimization", "cpu_offload_param", True),
    ("zero_optimization", "cpu_offload_params", True),
    ("zero_optimization", "cpu_offload_use_pin_memory", True),
    ("zero_optimization", "stage3_gather_fp16_weights_on_model_save", True),
    ("zero_optimization", "mics_shard_size", 8),
    ("zero_optimization", "mics_hierarchical_params_gather", False),
    ("zero_optimization", "zeropp_loco_param", {"err_beta": 0.8, "reset_T": 1024}),
    ("zero_optimization", "grad_hooks", True),
    ("zero_optimization", "find_unused_parameters", True),
    ("fp16", "opt_level", "O2"),
    ("fp16", "loss_scale_power", 16),
    ("fp16", "fp16_opt_level", "O1"),
    ("bf16", "auto_cast", True),
    ("bf16", "loss_scale", 0),
    ("bf16", "min_loss_scale", 1),
    ("activation_checkpointing", "partitioned_activations", True),
    ("activation_checkpointing", "number_of_checkpoints", 4),
    ("compile", "enabled", True),
    ("compile", "backend", "inductor"),
    ("compile", "disable", True),
    ("tensor_parallel", "enabled", True),
    ("tensor_parallel", "tp_size", 2),
    ("hybrid_engine", "memory_efficient", True),
    ("zero_optimization.offload_optimizer", "buffer_size", 1e8),
    ("zero_optimization.offload_optimizer", "max_in_cpu", 1e9),
    ("zero_optimization.offload_param", "fast_init", False),
    ("zero_optimization.offload_param", "pipeline_read", True),
]

# Names that mean the same, or that people think do.
ALIASES: list[tuple[str, str, str]] = [
    ("zero_optimization", "stage3_prefetch_bucket_size", "prefetch_bucket_size"),
    ("zero_optimization", "stage3_param_persistence_threshold", "param_persistence_threshold"),
    ("zero_optimization", "stage3_model_persistence_threshold", "model_persistence_threshold"),
    ("zero_optimization", "stage3_max_live_parameters", "max_live_parameters"),
    ("zero_optimization", "stage3_max_reuse_distance", "max_reuse_distance"),
    ("zero_optimization", "stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save"),
    ("zero_optimization", "stage3_module_granularity_threshold", "module_granularity_threshold"),
    ("zero_optimization", "stage3_use_all_reduce_for_fetch_params", "use_all_reduce_for_fetch_params"),
    ("zero_optimization", "stage3_allgather_sequential", "allgather_sequential"),
    ("zero_optimization", "reduce_bucket_size", "stage3_reduce_bucket_size"),
    ("zero_optimization", "sub_group_size", "stage3_sub_group_size"),
    ("tensor_parallel", "tp", "tensor_parallel"),
    ("tensor_parallel", "kernel_inject", "replace_with_kernel_inject"),
    ("", "bf16", "bfloat16"),
    ("", "train_micro_batch_size_per_gpu", "train_micro_batch_size"),
    ("", "train_micro_batch_size_per_gpu", "micro_batch_size_per_gpu"),
    ("", "zero_optimization", "zero"),
    ("", "gradient_clipping", "grad_clip"),
    ("", "offload_optimizer", "optimizer_offload"),
]

BATTERY: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    0.0,
    0.5,
    1.0,
    1.5,
    -0.5,
    5e8,
    1e-8,
    500000000,
    2**31,
    2**63,
    -(2**63),
    "",
    "auto",
    "true",
    "True",
    "False",
    "yes",
    "off",
    "on",
    "no",
    "t",
    "0",
    "1",
    "2",
    "1.0",
    "5e8",
    "500000000",
    " 8 ",
    "1_000",
    "0.001",
    "inf",
    "nan",
    "None",
    "null",
    "cpu",
    "none",
    "nvme",
    "fp16",
    "bf16",
    "AdamW",
    "mean",
    [],
    [1],
    [0.9, 0.999],
    ["auto"],
    [[]],
    {},
    {"enabled": True},
    {"enabled": False},
    {"type": "AdamW"},
    {"auto": "auto"},
    {"value": 1},
]


# --- walking ----------------------------------------------------------------------------------------------


def _section(config: Config, path: str, make: bool = False) -> Config | None:
    """The object at a path, made (also in place of something else) if asked."""
    here = config
    for part in path.split(".") if path else []:
        below = here.get(part)
        if not isinstance(below, dict):
            if not make:
                return None
            below = here[part] = {}
        here = below
    return here


def _places(config: Config, path: str = "") -> list[tuple[Config, str, str]]:
    """Every key of every object: (the object, the key, its path)."""
    found = []
    for key, value in config.items():
        full = f"{path}.{key}" if path else key
        found.append((config, key, full))
        if isinstance(value, dict):
            found += _places(value, full)
    return found


def _rename(section: Config, old: str, new: str) -> None:
    """Rename a key where it stands."""
    items = [
        (new if key == old else key, value) for key, value in section.items() if key != new or key == old
    ]
    section.clear()
    section.update(items)


# --- base configs -----------------------------------------------------------------------------------------


def _batch(dice: Dice, config: Config) -> None:
    """The three batch numbers, most often as they should be for one or eight ranks."""
    micro, accumulation = dice.pick([1, 2, 4, 8]), dice.pick([1, 1, 2, 4, 8])
    world = dice.weighted([(1, 5), (8, 4), (2, 1), (4, 1)])
    keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    values = (micro * accumulation * world, micro, accumulation)
    shown = dice.weighted(
        [((1,), 8), ((1, 2), 8), ((0, 1, 2), 4), ((0, 1), 3), ((0,), 3), ((0, 2), 2), ((2,), 0.4), ((), 0.2)]
    )
    for index in shown:
        config[keys[index]] = values[index]


def _optimizer(dice: Dice) -> Config:
    name = dice.weighted(
        [
            ("AdamW", 9),
            ("Adam", 6),
            ("adam", 1),
            ("Lamb", 0.7),
            ("Lion", 0.7),
            ("Adagrad", 0.6),
            ("Muon", 0.7),
            ("SGD", 0.8),
            ("OneBitAdam", 0.4),
            ("RMSprop", 0.3),
            ("ZeroOneAdam", 0.2),
            ("MuAdam", 0.1),
        ]
    )
    params: Config = {"lr": dice.pick([1e-4, 5e-5, 3e-5, 0.001, 2e-4])}
    if "adam" in name.lower() or name == "Lamb":
        params |= {"betas": dice.pick([[0.9, 0.999], [0.9, 0.95], [0.8, 0.999]]), "eps": 1e-8}
    if name in ("SGD", "Muon") and dice.chance(0.6):
        params["momentum"] = 0.9
    if dice.chance(0.8):
        params["weight_decay"] = dice.pick([0.0, 0.01, 0.1, 3e-7])
    if name in ("Adam", "AdamW") and dice.chance(0.15):
        params[dice.pick(["torch_adam", "adam_w_mode", "bias_correction"])] = dice.chance(0.5)
    return {"type": name, "params": params}


def _scheduler(dice: Dice) -> Config:
    name = dice.weighted(
        [
            ("WarmupLR", 6),
            ("WarmupDecayLR", 4),
            ("WarmupCosineLR", 1.5),
            ("OneCycle", 1),
            ("LRRangeTest", 0.7),
            ("CosineAnnealingLR", 0.3),
        ]
    )
    params: Config = {
        "warmup_min_lr": 0,
        "warmup_max_lr": 5e-5,
        "warmup_num_steps": dice.pick([10, 100, 1000]),
    }
    if name == "WarmupDecayLR":
        params["total_num_steps"] = dice.pick([1000, 20000])
        if dice.chance(0.2):
            del params["warmup_max_lr"]
    elif name == "WarmupCosineLR":
        params = {"total_num_steps": 1000, "warmup_num_steps": 100, "cos_min_ratio": 0.1}
        if dice.chance(0.3):
            params["warmup_min_ratio"] = 0.0
    elif name == "OneCycle":
        params = {"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3, "cycle_first_step_size": dice.pick([100, 1000])}
    elif name == "LRRangeTest":
        params = {"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 200, "lr_range_test_step_rate": 5}
    elif name == "CosineAnnealingLR":
        params = {"T_max": 100}
    elif dice.chance(0.2):
        params["warmup_type"] = dice.pick(["linear", "log"])
    return {"type": name, "params": params}


def _precision(dice: Dice, config: Config) -> None:
    kind = dice.weighted(
        [("bf16", 5), ("fp16", 5), ("fp16 long", 3), ("both", 1), ("none", 2), ("autocast", 0.5)]
    )
    if kind == "bf16":
        config["bf16"] = {"enabled": True}
    elif kind == "fp16":
        config["fp16"] = {"enabled": True}
        if dice.chance(0.3):
            config["bf16"] = {"enabled": False}
    elif kind == "fp16 long":
        config["fp16"] = {
            "enabled": True,
            "loss_scale": 0,
            "loss_scale_window": dice.pick([1000, 500, 100]),
            "initial_scale_power": dice.pick([16, 12, 32]),
            "hysteresis": 2,
            "min_loss_scale": 1,
        }
        if dice.chance(0.2):
            config["fp16"]["auto_cast"] = False
    elif kind == "both":
        config["fp16"] = {"enabled": False}
        config["bf16"] = {"enabled": True}
    elif kind == "autocast":
        config["torch_autocast"] = {"enabled": True, "dtype": "bfloat16"}


def _zero(dice: Dice) -> Config:
    stage = dice.weighted([(0, 1), (1, 2), (2, 5), (3, 5)])
    zero: Config = {"stage": stage}
    keys = KEYS["zero_optimization"]
    if stage in (1, 2):
        names = [
            "allgather_partitions",
            "allgather_bucket_size",
            "overlap_comm",
            "reduce_scatter",
            "reduce_bucket_size",
            "contiguous_gradients",
            "round_robin_gradients",
        ]
        zero |= {name: dice.pick(keys[name]) for name in dice.some(names, 0.6)}
    if stage == 3:
        names = [
            "overlap_comm",
            "contiguous_gradients",
            "sub_group_size",
            "reduce_bucket_size",
            "stage3_prefetch_bucket_size",
            "stage3_param_persistence_threshold",
            "stage3_max_live_parameters",
            "stage3_max_reuse_distance",
            "stage3_gather_16bit_weights_on_model_save",
        ]
        zero |= {name: dice.pick(keys[name]) for name in dice.some(names, 0.7)}
        if dice.chance(0.1):
            zero |= {
                "zero_quantized_weights": True,
                "zero_quantized_gradients": True,
                "zero_hpz_partition_size": 8,
            }
    if stage and dice.chance(0.35):
        zero["offload_optimizer"] = {"device": dice.pick(["cpu", "cpu", "cpu", "none", "nvme"])}
        if dice.chance(0.7):
            zero["offload_optimizer"]["pin_memory"] = dice.chance(0.7)
        if zero["offload_optimizer"]["device"] == "nvme":
            zero["offload_optimizer"] |= {"nvme_path": "/local_nvme", "buffer_count": 4, "fast_init": False}
        for key in dice.some(
            ["pipeline_read", "pipeline_write", "super_offload", "cpuadam_cores_perc", "ratio"], 0.07
        ):
            zero["offload_optimizer"][key] = dice.pick(KEYS["zero_optimization.offload_optimizer"][key])
    if stage == 3 and dice.chance(0.4):
        zero["offload_param"] = {"device": dice.pick(["cpu", "cpu", "none", "nvme"]), "pin_memory": True}
        if zero["offload_param"]["device"] == "nvme":
            zero["offload_param"] |= {"nvme_path": "/local_nvme", "buffer_size": 1e8, "max_in_cpu": 1e9}
            for key in dice.some(["buffer_count", "buffer_size"], 0.4):
                zero["offload_param"][key] = dice.pick(KEYS["zero_optimization.offload_param"][key])
    if stage and dice.chance(0.04):
        zero["zenflow"] = {
            "topk_ratio": 0.05,
            "select_strategy": "auto",
            "update_interval": 4,
            "overlap_step": False,
        }
        for key in dice.some(list(KEYS["zero_optimization.zenflow"]), 0.3):
            zero["zenflow"][key] = dice.pick(KEYS["zero_optimization.zenflow"][key])
    return zero


def _raw(dice: Dice) -> Config:
    """What a training script that calls DeepSpeed itself has."""
    config: Config = {}
    _batch(dice, config)
    if dice.chance(0.7):
        config["steps_per_print"] = dice.pick([10, 100, 2000])
    if dice.chance(0.75):
        config["optimizer"] = _optimizer(dice)
        if dice.chance(0.5):
            config["scheduler"] = _scheduler(dice)
    if dice.chance(0.5):
        config["gradient_clipping"] = dice.pick([1.0, 0.5, 0.0])
    _precision(dice, config)
    if dice.chance(0.85):
        config["zero_optimization"] = _zero(dice)
    if dice.chance(0.4):
        config["wall_clock_breakdown"] = False
    return config


def _transformers(dice: Dice) -> Config:
    """What people give HF Trainer: "auto" in many places; sometimes somebody filled the batch numbers."""
    config: Config = {
        "fp16": {
            "enabled": "auto",
            "loss_scale": 0,
            "loss_scale_window": 1000,
            "initial_scale_power": 16,
            "hysteresis": 2,
            "min_loss_scale": 1,
        },
        "bf16": {"enabled": "auto"},
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
        },
        "scheduler": {
            "type": "WarmupLR",
            "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"},
        },
        "zero_optimization": _zero(dice),
        "gradient_clipping": "auto",
        "steps_per_print": 2000,
        "wall_clock_breakdown": False,
    }
    zero = config["zero_optimization"]
    for name in ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"):
        if zero["stage"] == 3 or name == "reduce_bucket_size":
            zero[name] = "auto"
    if dice.chance(0.5):
        config |= {
            "train_batch_size": "auto",
            "train_micro_batch_size_per_gpu": "auto",
            "gradient_accumulation_steps": "auto",
        }
    else:
        _batch(dice, config)
        if dice.chance(0.6):
            config["gradient_clipping"] = 1.0
    for name in dice.some(["optimizer", "scheduler", "fp16", "bf16"], 0.25):
        del config[name]
    return config


def _old(dice: Dice) -> Config:
    """The style of the years 2020 to 2022: Megatron, Bing BERT, ZeRO 2 with cpu_offload."""
    config: Config = {
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": 8,
        "steps_per_print": 100,
        "prescale_gradients": False,
        "wall_clock_breakdown": False,
    }
    if dice.chance(0.5):
        del config["train_micro_batch_size_per_gpu"]
    config["optimizer"] = {"type": "Adam", "params": {"lr": 1.5e-4, "weight_decay": 1e-2}}
    if dice.chance(0.15):
        config["optimizer"]["params"]["max_grad_norm"] = 1.0
    config["gradient_clipping"] = 1.0
    config["fp16"] = {
        "enabled": True,
        "loss_scale": 0,
        "loss_scale_window": 1000,
        "hysteresis": 2,
        "min_loss_scale": 1,
    }
    config["zero_optimization"] = {
        "stage": dice.pick([1, 2]),
        "contiguous_gradients": True,
        "overlap_comm": True,
        "reduce_scatter": True,
        "reduce_bucket_size": 5e7,
        "allgather_bucket_size": 5e7,
        "cpu_offload": dice.chance(0.4),
    }
    config["activation_checkpointing"] = {
        "partition_activations": dice.chance(0.5),
        "number_checkpoints": 24,
        "contiguous_memory_optimization": False,
        "profile": False,
    }
    for path, key, value in dice.some([entry for entry in OLD if entry[0] == ""][:14], 0.03):
        _section(config, path, make=True)[key] = copy.deepcopy(value)  # type: ignore[index]
    return config


def _full(dice: Dice) -> Config:
    """A raw config with several of the rarer sections."""
    config = _raw(dice)
    for path in dice.some(
        [path for path in KEYS if path and not path.startswith(("zero", "optim", "sched"))], 0.13
    ):
        section = _section(config, path, make=True)
        assert section is not None
        for key in dice.some(list(KEYS[path]), 0.55):
            section.setdefault(key, dice.pick(KEYS[path][key]))
    for key in dice.some(list(KEYS[""])[3:-1], 0.12):
        config.setdefault(key, dice.pick(KEYS[""][key]))
    zero = config.get("zero_optimization")
    if zero:
        for key in dice.some(list(KEYS["zero_optimization"])[1:], 0.08):
            zero.setdefault(key, dice.pick(KEYS["zero_optimization"][key]))
    return config


BASES: list[tuple[Callable[[Dice], Config], float]] = [
    (_raw, 5),
    (_full, 4),
    (_transformers, 1.6),
    (_old, 1.3),
]


# --- changes ----------------------------------------------------------------------------------------------


def _value(dice: Dice, config: Config) -> str:
    section, key, path = dice.weighted([(place, 1) for place in _places(config)])
    if isinstance(section[key], dict) and dice.chance(0.6):
        return _value_of_leaf(dice, config)
    section[key] = dice.pick(BATTERY)
    return f"{path}={json.dumps(section[key])}"


def _value_of_leaf(dice: Dice, config: Config) -> str:
    leaves = [place for place in _places(config) if not isinstance(place[0][place[1]], dict)]
    if not leaves:
        return ""
    section, key, path = dice.weighted([(place, 1) for place in leaves])
    old = section[key]
    if isinstance(old, bool):
        new = dice.pick([not old, str(old), str(old).lower(), int(old), "auto", None, 2, "yes"])
    elif isinstance(old, int):
        new = dice.pick(
            [str(old), float(old), -old, old + 1, 0, old + 0.5, [old], "auto", None, old * 1000000000]
        )
    elif isinstance(old, float):
        new = dice.pick([str(old), repr(int(old)), -old, 0, old + 0.25, "auto", None, [old], f"{old:.0e}"])
    elif isinstance(old, str):
        new = dice.pick([old.upper(), old.lower(), old + " ", "", old[:-1], None, True, 1, [old], "auto"])
    else:
        new = dice.pick(BATTERY)
    section[key] = new
    return f"{path}={json.dumps(new)}"


def _typo(dice: Dice, config: Config) -> str:
    section, key, path = dice.weighted([(place, 1) for place in _places(config)])
    if len(key) < 3:
        return ""
    at = dice.below(len(key) - 1)
    new = dice.weighted(
        [
            (key[:at] + key[at + 1] + key[at] + key[at + 2 :], 3),  # two letters swapped
            (key[:at] + key[at + 1 :], 3),
            (key[:at] + key[at] + key[at:], 3),
            (key[:at] + "x" + key[at + 1 :], 1),
            (key.replace("_", "-"), 1),
            (key.replace("_", ""), 1),
            (key + "s" if not key.endswith("s") else key[:-1], 2),
            (key.upper(), 0.5),
            (key.title().replace("_", ""), 0.5),
            (key + "_", 0.5),
            (key + " ", 0.3),
        ]
    )
    if new == key or not new:
        return ""
    _rename(section, key, new)
    return f"{path}->{new}"


def _delete(dice: Dice, config: Config) -> str:
    section, key, path = dice.weighted([(place, 1) for place in _places(config)])
    del section[key]
    return f"-{path}"


def _move(dice: Dice, config: Config) -> str:
    section, key, path = dice.weighted([(place, 1) for place in _places(config)])
    others = [""] + [full for owner, name, full in _places(config) if isinstance(owner[name], dict)]
    target = dice.pick([other for other in others if not (other + ".").startswith(path + ".")] or [""])
    value = section.pop(key)
    _section(config, target, make=True)[key] = value  # type: ignore[index]
    return f"{path}->{target or 'top'}"


def _graft_section(dice: Dice, config: Config) -> str:
    path = dice.pick([path for path in KEYS if path])
    section = _section(config, path, make=True)
    assert section is not None
    for key in dice.some(list(KEYS[path]), 0.4) or [dice.pick(list(KEYS[path]))]:
        section[key] = dice.pick(KEYS[path][key])
    return f"+{path}"


def _graft_key(dice: Dice, config: Config) -> str:
    path = dice.pick(list(KEYS))
    key = dice.pick(list(KEYS[path]))
    value = dice.pick(KEYS[path][key]) if dice.chance(0.5) else dice.pick(BATTERY)
    _section(config, path, make=True)[key] = value  # type: ignore[index]
    return f"+{path + '.' if path else ''}{key}={json.dumps(value)}"


def _batches(dice: Dice, config: Config) -> str:
    key = dice.pick(["train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"])
    value = dice.pick(
        [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 30, 32, 64, 100, 256, 0, -1, 8.0, 4.5, "8", "auto", None, True]
    )
    if dice.chance(0.2):
        key, value = "sequence_parallel_size", dice.pick([1, 2, 4, 8, 3, 0, "2", 2.0, None, "auto"])
    config[key] = value
    return f"{key}={json.dumps(value)}"


def _stage(dice: Dice, config: Config) -> str:
    zero = _section(config, "zero_optimization", make=True)
    assert zero is not None
    zero["stage"] = dice.pick([0, 1, 2, 3, 3, 4, -1, "2", "3", 2.0, 1.5, True, None, "auto", "stage3"])
    return f"stage={json.dumps(zero['stage'])}"


def _offload(dice: Dice, config: Config) -> str:
    which = dice.pick(["offload_optimizer", "offload_param"])
    section = _section(config, "zero_optimization", make=True)
    assert section is not None
    section[which] = dice.pick(
        [
            {"device": "cpu"},
            {"device": "cpu", "pin_memory": True},
            {"device": "none"},
            {},
            None,
            {"device": "nvme"},
            {"device": "nvme", "nvme_path": "/local_nvme"},
            {"device": "CPU"},
            {"device": "gpu"},
            {"device": None},
            {"device": "auto"},
            True,
            "cpu",
            {"pin_memory": True},
            {"device": "cpu", "ratio": 0.5},
            {"device": "cpu", "buffer_count": -1},
            {"device": "cpu", "buffer_size": 1e8},
            {"device": "disk"},
        ]
    )
    return f"{which}={json.dumps(section[which])}"


def _precisions(dice: Dice, config: Config) -> str:
    which = dice.pick(["fp16", "bf16", "bfloat16"])
    config[which] = dice.pick(
        [
            {"enabled": True},
            {"enabled": True},
            {"enabled": False},
            {"enabled": "auto"},
            {"enabled": "true"},
            {},
            True,
            {"enabled": True, "loss_scale": 0, "min_loss_scale": 0},
            {"enabled": True, "loss_scale": "dynamic"},
            {"enabled": True, "initial_scale_power": 16},
            {"enabled": True, "loss_scale": 128},
            {"enabled": 1},
            None,
        ]
    )
    return f"{which}={json.dumps(config[which])}"


def _alias(dice: Dice, config: Config) -> str:
    path, key, other = dice.pick(ALIASES)
    section = _section(config, path, make=True)
    assert section is not None
    if key not in section:
        section[key] = dice.pick(KEYS.get(path, {}).get(key, [{}]))
    if dice.chance(0.15):  # both names
        section[other] = copy.deepcopy(section[key])
        return f"{path}.{key}+{other}"
    _rename(section, key, other)
    return f"{path}.{key}->{other}"


def _olds(dice: Dice, config: Config) -> str:
    path, key, value = dice.pick(OLD)
    _section(config, path, make=True)[key] = value  # type: ignore[index]
    return f"+{path + '.' if path else ''}{key}"


def _wrong_shape(dice: Dice, config: Config) -> str:
    sections = [place for place in _places(config) if isinstance(place[0][place[1]], dict)]
    if not sections:
        return ""
    section, key, path = dice.weighted([(place, 1) for place in sections])
    value = section[key]
    section[key] = dice.pick([[value], True, False, None, "auto", 1, [], {key: value}, {}, list(value)])
    return f"{path}: other shape"


def _optimizers(dice: Dice, config: Config) -> str:
    which = dice.pick(["optimizer", "scheduler"])
    config[which] = _optimizer(dice) if which == "optimizer" else _scheduler(dice)
    params = config[which]["params"]
    if dice.chance(0.5):
        key = dice.pick(list(KEYS[f"{which}.params"]))
        params[key] = dice.pick(KEYS[f"{which}.params"][key]) if dice.chance(0.7) else dice.pick(BATTERY)
    if dice.chance(0.1):
        config[which].pop(dice.pick(["type", "params"]))
    return f"{which}={json.dumps(config[which])}"


def _comment(dice: Dice, config: Config) -> str:
    path = dice.pick(["", "", "zero_optimization", "optimizer", "aio"])
    key = dice.pick(["_comment", "//", "$schema", "_read_the_docs", "#", "comment", "_disabled_fp16"])
    section = _section(config, path, make=True)
    assert section is not None
    section[key] = dice.pick(["for the 8 GPU nodes", "https://www.deepspeed.ai/docs/config-json/"])
    return f"+{path + '.' if path else ''}{key}"


def _edge(dice: Dice, config: Config) -> str:
    """Keys that meet DeepSpeed's own argument names, and other corners."""
    path = dice.pick(["zero_optimization", "fp16", "bf16", "comms_logger", "compile", "hybrid_engine"])
    section = _section(config, path, make=True)
    assert section is not None
    key = dice.pick(["strict", "self", "data", "", "enabled"])
    section[key] = dice.pick([True, False, "auto", None])
    return f"+{path}.{key}={json.dumps(section[key])}"


CHANGES: list[tuple[Callable[[Dice, Config], str], float]] = [
    (_value, 7),
    (_value_of_leaf, 14),
    (_typo, 9),
    (_delete, 7),
    (_move, 4),
    (_graft_section, 12),
    (_graft_key, 17),
    (_batches, 5),
    (_stage, 6),
    (_offload, 6),
    (_precisions, 5),
    (_alias, 4),
    (_olds, 6),
    (_wrong_shape, 2),
    (_optimizers, 6),
    (_comment, 3),
    (_edge, 0.6),
]


def _thin(dice: Dice, config: Config) -> None:
    """Leave a part out here and there, but no batch number and not the type of an optimizer."""
    for section, key, _ in _places(config):
        if key in section and "batch_size" not in key and key not in ("type", "stage", "enabled", "device"):
            if dice.chance(0.25):
                del section[key]


def _case(seed: int, index: int) -> dict[str, Any]:
    dice = Dice(f"{seed}-{index}")
    make = dice.weighted(BASES)
    config = make(dice)
    if dice.chance(0.4):
        _thin(dice, config)
    count = dice.weighted([(0, 22), (1, 48), (2, 22), (3, 8)])
    changes: list[str] = []
    while len(changes) < count and config:
        change = dice.weighted(CHANGES)
        said = change(dice, config)
        if said:
            changes.append(f"{change.__name__[1:]} {said}")
    return {
        "id": f"{seed}-{index}",
        "base": make.__name__[1:],
        "change": "; ".join(changes),
        "config": config,
    }


def generate(seed: int, n: int, start: int = 0) -> Iterator[dict[str, Any]]:
    """Cases `start` to `n` of a seed. A case depends on the seed and its index alone, so any can be made
    again by itself: next(generate(7, 13, start=12)) is "7-12"."""
    for index in range(start, n):
        yield _case(seed, index)


def main(arguments: list[str] | None = None) -> int:
    """Print generated cases as JSON lines."""
    options = argparse.ArgumentParser(prog="python -m tests.oracle.generate", description=main.__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("-n", type=int, default=10)
    chosen = options.parse_args(arguments)
    for case in generate(chosen.seed, chosen.n):
        print(json.dumps(case))
    return 0


if __name__ == "__main__":
    sys.exit(main())
