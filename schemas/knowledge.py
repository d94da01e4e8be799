"""What DeepSpeed's source cannot be asked: words about legacy keys, and how to reach each key.

CONTEXTS and DISCOVERY are configs in which keys are tried and looked for. A context that a release
refuses does no harm: a value counts as accepted when it is accepted in one of them.
LEGACY describes keys that DeepSpeed reads from plain dicts (pydantic fields describe themselves).
"""

from __future__ import annotations

from typing import Any

ABSENT = object()
"""In a context: take this key away."""
SAME = object()
"""In a context, at top level: the value being tried."""

MACHINE_FAILURES = (
    "only supported for CUDA accelerator",
    "can only be used with CUDA",
)
"""Parts of messages that speak of the machine, not of the config: such a failure counts as accepted."""

_CURRICULUM: dict[str, Any] = {
    "enabled": True,
    "curriculum_type": "seqlen",
    "min_difficulty": 8,
    "max_difficulty": 1024,
    "schedule_type": "fixed_linear",
    "schedule_config": {"total_curriculum_step": 100, "difficulty_step": 8},
}
_ELASTIC: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": ABSENT,
    "elasticity": {
        "enabled": True,
        "max_train_batch_size": 2000,
        "micro_batch_sizes": [2, 4, 6],
        "min_gpus": 1,
        "max_gpus": 10000,
        "min_time": 20,
        "version": 0.1,
        "ignore_non_elastic_batch_info": True,
    },
}
_COMPRESSION: dict[str, Any] = {
    "compression_training": {
        "weight_quantization": {"shared_parameters": {"enabled": False}, "different_groups": {}},
        "activation_quantization": {"shared_parameters": {"enabled": False}, "different_groups": {}},
        "sparse_pruning": {"shared_parameters": {"enabled": False}, "different_groups": {}},
        "row_pruning": {"shared_parameters": {"enabled": False}, "different_groups": {}},
        "head_pruning": {"shared_parameters": {"enabled": False}, "different_groups": {}},
        "channel_pruning": {"shared_parameters": {"enabled": False}, "different_groups": {}},
        "layer_reduction": {"enabled": False},
    }
}

DISCOVERY: tuple[dict[str, Any], ...] = (
    {"zero_optimization": True},
    {"zero_optimization": {"stage": 1}},
    {
        "data_efficiency": {
            "data_routing": {"random_ltd": {"enabled": True}},
            "data_sampling": {
                "curriculum_learning": {"enabled": True, "curriculum_metrics": {}},
                "dynamic_batching": {"enabled": True, "max_tokens": 1},
            },
        }
    },
    {"optimizer": {"type": "Adam", "params": {}}, "scheduler": {"type": "WarmupLR", "params": {}}},
    {"autotuning": {"model_info": {}}},
    {"checkpoint": {"writer": {}, "parallel_write": {}}},
    {"timers": {"throughput": {}}},
    {"torch_autocast": {"enabled": True, "dtype": "fp32", "lower_precision_safe_modules": []}},
    {"expert_parallel": {"enabled": False}},
    {"fp16": {"enabled": True, "hysteresis": 2}, "amp": {"enabled": True}},
    {"bf16": {"enabled": True}},
    {"bf16": ABSENT, "bfloat16": {}},
    {"curriculum_learning": _CURRICULUM},
    {"progressive_layer_drop": {"enabled": True}},
    {"eigenvalue": {"enabled": True}},
    {
        "quantize_training": {"enabled": True, "eigenvalue": {"enabled": False}},
        "compression_training": {"shared_parameters": {"enabled": True}},
    },
    _ELASTIC,
    _COMPRESSION,
    {
        "compression_training": {
            "head_pruning": {"shared_parameters": {"enabled": True, "num_heads": 1}, "different_groups": {}}
        }
    },
    {"compression_training": {"sparse_pruning": {"shared_parameters": {"method": "snip_momentum"}}}},
    *(
        {"sparse_attention": {"mode": m}}
        for m in ("dense", "fixed", "variable", "bigbird", "bslongformer", "local")
    ),
)
"""Configs laid over the minimal one while the keys DeepSpeed reads are recorded."""

CONTEXTS: dict[str, list[dict[str, Any]]] = {
    "train_batch_size": [
        {"train_micro_batch_size_per_gpu": ABSENT},
        {"train_micro_batch_size_per_gpu": SAME},
        {"train_micro_batch_size_per_gpu": SAME, "gradient_accumulation_steps": 1},
    ],
    "gradient_accumulation_steps": [{"train_micro_batch_size_per_gpu": ABSENT, "train_batch_size": 8}],
    "zero_optimization": [{"zero_optimization": {"stage": n}} for n in (1, 2, 3)],
    "allgather_size": [{"zero_optimization": True}],
    "fp16": [
        {"fp16": {"enabled": True}, "zero_optimization": {"stage": 2}},
        {"fp16": {"enabled": True, "loss_scale": 1}},
    ],
    "bf16": [
        {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}, "zero_optimization": {"stage": 2}}
    ],
    "bfloat16": [
        {
            "bfloat16": {"enabled": True, "bf16_master_weights_and_grads": True},
            "zero_optimization": {"stage": 2},
        }
    ],
    "data_efficiency": [
        {
            "data_efficiency": {
                "data_sampling": {
                    "curriculum_learning": {"enabled": False, "curriculum_metrics": {}},
                    "dynamic_batching": {"enabled": False, "max_tokens": 1},
                },
                "data_routing": {"random_ltd": {"enabled": False}},
            }
        },
    ],
    "curriculum_learning": [
        {"curriculum_learning": _CURRICULUM},
        {"curriculum_learning": {**_CURRICULUM, "enabled": False}},
    ],
    "elasticity": [_ELASTIC],
    "compression_training": [_COMPRESSION],
    "progressive_layer_drop": [{"progressive_layer_drop": {"enabled": False, "theta": 0.5, "gamma": 0.001}}],
    "amp": [{"amp": {"enabled": False, "opt_level": "O1"}}],
}
"""More configs to try a key in, by path of the key or of a section above it."""

ONLY: dict[str, list[dict[str, Any]]] = {
    "train_micro_batch_size_per_gpu": [
        {},
        {"train_batch_size": 8},
        {"train_batch_size": 8, "gradient_accumulation_steps": 8},
        {"train_batch_size": SAME},
    ],
    "optimizer.params": [{"optimizer": {"type": "Adam"}}],
    "optimizer.params.max_grad_norm": [{"optimizer": {"type": "Adam"}}],
    "scheduler.params": [{"scheduler": {"type": "WarmupLR"}}],
}
"""Where only these contexts are sane: without a type, parameters are not read at all."""

FREE = {
    "optimizer.params",
    "scheduler.params",
    "datastates_ckpt",
    "autotuning.arg_mappings",
    "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics",
    "amp",
    "sparse_attention",
    *(
        f"compression_training.{method}.different_groups"
        for method in (
            "weight_quantization", "activation_quantization", "sparse_pruning", "row_pruning", "head_pruning",
            "channel_pruning",
        )
    ),
}  # fmt: skip
"""Dicts whose keys DeepSpeed hands on unread."""

RUNTIME: dict[str, tuple[str, ...]] = {
    "": ("data_parallel_size", "sequence_parallel_size"),
    "pipeline": (
        "stages", "partition", "seed_layers", "activation_checkpoint_interval", "pipe_partitioned",
        "grad_partitioned", "use_reentrant",
    ),
    "data_efficiency.data_sampling.dynamic_batching": ("metrics_path",),
    "data_efficiency.data_sampling.curriculum_learning": ("data_cluster_path", "curriculum_metrics"),
    "data_efficiency.data_routing.random_ltd": (
        "total_layer_num", "random_ltd_layer_num", "random_ltd_layer_id", "model_mask_name", "model_type",
        "hidden_state_order", "random_ltd_schedule", "layer_token_lr_schedule", "global_batch_size",
        "micro_batch_size",
    ),
    "data_efficiency.data_routing.random_ltd.random_ltd_schedule": (
        "min_value", "max_value", "schedule_type", "schedule_config",
    ),
    (
        ""
        "data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_config"
    ): ("require_steps", "seq_per_step"),
    "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule": (
        "enabled", "total_layer_tokens", "warmup_type", "warmup_layer_tokens",
    ),
    "progressive_layer_drop": ("theta", "gamma"),
    "curriculum_learning": ("curriculum_type", "min_difficulty", "max_difficulty", "schedule_type",
    "schedule_config"),
    "curriculum_learning.schedule_config": (
        "total_curriculum_step", "difficulty_step", "root_degree", "difficulty", "max_step",
    ),
    "compression_training.layer_reduction": (
        "keep_number_layer", "module_name_prefix", "teacher_layer", "other_module_name",
    ),
}  # fmt: skip
"""Keys read after parsing, or read by handing a whole dict on."""

RUNTIME_FILES: dict[str, tuple[str, ...]] = {
    "pipeline": ("runtime/config.py", "runtime/pipe/"),
    "data_efficiency": ("runtime/data_pipeline/", "runtime/engine.py"),
    "progressive_layer_drop": ("runtime/engine.py",),
    "curriculum_learning.curriculum_type": ("runtime/", "deepspeed/"),
    "curriculum_learning": ("runtime/data_pipeline/curriculum_scheduler.py",),
    "compression_training": ("compression/",),
    "data_parallel_size": ("deepspeed/__init__.py", "compile/", "runtime/"),
    "sequence_parallel_size": ("deepspeed/__init__.py", "compile/", "runtime/"),
}
"""Where to look for those reads, by beginning of the path."""

NOT_KEYS: dict[str, tuple[str, ...]] = {}

DTYPES = ["fp32", "fp16", "bf16"]
DTYPE_NAMES = [
    "fp32", "fp16", "bf16", "float32", "float16", "bfloat16", "float", "half", "torch.float32",
    "torch.float16",
    "torch.bfloat16", "int8", "torch.int8",
]  # fmt: skip
"""What DeepSpeed's DtypeEnum reads, the same in all releases."""

LEGACY: dict[str, dict[str, Any]] = {
    "train_batch_size": {
        "description": (
            "Global batch size of one optimizer step: micro batch x "
            "accumulation steps x data-parallel ranks."
        ),
        "type": "integer",
    },
    "train_micro_batch_size_per_gpu": {
        "description": "Batch size of one forward and backward pass on one GPU.",
        "type": "integer",
    },
    "gradient_accumulation_steps": {
        "description": "Forward and backward passes whose gradients are summed before an optimizer step.",
        "type": "integer",
    },
    "managed_gradient_accumulation": {
        "description": (
            "Whether DeepSpeed counts micro steps itself; false "
            "leaves the boundary to the caller."
        ),
    },
    "sequence_parallel_size": {
        "description": "Ranks that share one sequence (Ulysses); the batch equation divides the world by it.",
        "type": "integer",
        "default": 1,
    },
    "data_parallel_size": {
        "description": "Data-parallel ranks of the device mesh; read together with sequence_parallel_size.",
        "type": "integer",
    },
    "optimizer": {"description": "The optimizer that DeepSpeed builds; leave out to pass one in code."},
    "optimizer.type": {
        "description": "Name of a DeepSpeed or torch.optim optimizer.",
        "type": "string",
        "default": None,
    },
    "optimizer.params": {"description": "Keyword arguments of the optimizer.", "type": "object"},
    "optimizer.params.max_grad_norm": {
        "description": "Not supported here; use the top-level gradient_clipping.",
        "type": "number",
        "replaced_by": "gradient_clipping",
    },
    "optimizer.legacy_fusion": {
        "description": "Use the older fused fp16 optimizer wrapper.",
        "type": "boolean",
        "default": False,
    },
    "scheduler": {"description": "The learning-rate scheduler that DeepSpeed builds and steps."},
    "scheduler.type": {
        "description": "Name of a DeepSpeed or torch.optim.lr_scheduler scheduler.",
        "type": "string",
        "default": None,
    },
    "scheduler.params": {"description": "Keyword arguments of the scheduler.", "type": "object"},
    "zero_optimization": {
        "description": (
            "ZeRO: partitions optimizer state, gradients and "
            "parameters over the data-parallel ranks."
        ),
    },
    "fp16": {"description": "Mixed precision in float16 with loss scaling."},
    "bf16": {"description": "Mixed precision in bfloat16."},
    "bfloat16": {"description": (
        "Old spelling of bf16; read only "
        "when bf16 is absent."
    ), "replaced_by": "bf16"},
    "amp": {"description": "NVIDIA Apex mixed precision; other keys go to apex.amp.initialize."},
    "amp.enabled": {"description": "Use Apex AMP.", "type": "boolean", "default": False},
    "torch_autocast": {"description": "torch.autocast around forward."},
    "torch_autocast.enabled": {"description": "Use torch.autocast.", "type": "boolean"},
    "torch_autocast.dtype": {
        "description": "Lower precision that autocast uses.",
        "type": "string",
        "values": DTYPE_NAMES,
    },
    "torch_autocast.lower_precision_safe_modules": {
        "description": "Full class names of modules that may run in the lower precision.",
        "type": "array",
    },
    "gradient_clipping": {
        "description": "Maximum global norm of the gradients; 0 turns clipping off.",
        "type": "number",
    },
    "communication_data_type": {
        "description": "Data type in which gradients are communicated; by default that of the model.",
        "type": "string",
        "values": DTYPES,
    },
    "seq_parallel_communication_data_type": {
        "description": "Data type of gradient communication between sequence-parallel ranks.",
        "type": "string",
        "values": DTYPES,
    },
    "prescale_gradients": {"description": "Divide gradients by the world size before they are summed."},
    "gradient_predivide_factor": {
        "description": "Divide gradients by this before the sum, and by the rest of the world size after it.",
        "type": "number",
    },
    "gradient_allreduce_op": {"description": "How gradients are combined.", "values": ["mean", "sum"]},
    "sparse_gradients": {"description": (
        "Communicate gradients of "
        "torch.nn.Embedding sparsely."
    ), "type": "boolean"},
    "fp32_allreduce": {
        "description": "Communicate gradients in fp32.",
        "type": "boolean",
        "replaced_by": "communication_data_type",
    },
    "disable_allgather": {"description": "Old switch that nothing acts on any more.", "type": "boolean"},
    "allgather_size": {
        "description": "Read only with the old form \"zero_optimization\": true.",
        "type": "integer",
        "replaced_by": "zero_optimization.allgather_bucket_size",
    },
    "zero_allow_untested_optimizer": {"description": (
        "Let ZeRO run with an optimizer it "
        "was not tested with."
    )},
    "zero_force_ds_cpu_optimizer": {
        "description": "With optimizer offload, insist on a DeepSpeed CPU optimizer.",
    },
    "steps_per_print": {
        "description": "Optimizer steps between progress lines.",
        "type": ["integer", "null"],
    },
    "wall_clock_breakdown": {"description": (
        "Time forward, backward and step; "
        "synchronizes the GPU each time."
    )},
    "memory_breakdown": {"description": "Print memory use at points of the step."},
    "dump_state": {"description": "Print the whole configuration at start."},
    "disable_python_gc": {"description": (
        "Turn Python's cyclic garbage collection off "
        "and collect at set points."
    )},
    "log_level": {"description": "Level of DeepSpeed's logger.", "type": ["string", "null"]},
    "vocabulary_size": {
        "description": "Used only to warn when it is no multiple of 8.",
        "type": ["integer", "null"],
    },
    "dataloader_drop_last": {"description": "Drop the last incomplete batch of the DeepSpeed data loader."},
    "use_data_before_expert_parallelism": {"description": "Order of data and expert ranks: data first."},
    "graph_harvesting": {"description": "Capture CUDA graphs of the optimizer step.", "type": "boolean"},
    "use_node_local_storage": {"description": "Checkpoints lie on storage that nodes do not share."},
    "activation_checkpointing": {
        "description": "Settings of deepspeed.checkpointing; without effect unless the model uses that API.",
    },
    "activation_checkpointing.partition_activations": {
        "description": "Partition checkpointed activations over model-parallel ranks.",
    },
    "activation_checkpointing.cpu_checkpointing": {"description": (
        "Keep partitioned activations "
        "in CPU memory."
    )},
    "activation_checkpointing.contiguous_memory_optimization": {
        "description": "Copy activations to one buffer; needs partition_activations and number_checkpoints.",
    },
    "activation_checkpointing.number_checkpoints": {
        "description": "Checkpoints per forward pass, which sizes the contiguous buffer.",
        "type": ["integer", "null"],
    },
    "activation_checkpointing.synchronize_checkpoint_boundary": {
        "description": "Synchronize the GPU at each checkpoint boundary.",
    },
    "activation_checkpointing.profile": {"description": "Time each checkpoint's forward and backward pass."},
    "aio": {"description": "Asynchronous I/O of ZeRO-Infinity (NVMe offload)."},
    "aio.block_size": {"description": "Bytes of one I/O request."},
    "aio.queue_depth": {"description": "I/O requests in flight."},
    "aio.intra_op_parallelism": {"description": "Threads that share one read or write."},
    "aio.thread_count": {"description": "Threads that share one read or write."},
    "aio.single_submit": {"description": "Submit requests one by one instead of in batches."},
    "aio.overlap_events": {"description": "Submit new requests while waiting for earlier ones."},
    "aio.use_gds": {"description": "Use NVIDIA GPUDirect Storage."},
    "flops_profiler": {"description": "Counts FLOPs and latency of one step, module by module."},
    "flops_profiler.enabled": {"description": "Run the profiler; also turns wall_clock_breakdown on."},
    "flops_profiler.recompute_fwd_factor": {"description": "Share of forward work repeated in backward.",
                                            "type": "number"},
    "flops_profiler.profile_step": {"description": "Step to profile."},
    "flops_profiler.module_depth": {"description": "Depth of modules to print; -1 prints all."},
    "flops_profiler.top_modules": {"description": "Modules to list at each depth."},
    "flops_profiler.detailed": {"description": "Print the whole model, module by module."},
    "flops_profiler.output_file": {
        "description": "File for the profile; printed when absent.",
        "type": ["string", "null"],
    },
    "checkpoint": {"description": "How checkpoints are written and read."},
    "checkpoint.tag_validation": {
        "description": "What to do when ranks save under different tags.",
        "values": ["WARN", "IGNORE", "FAIL"],
    },
    "checkpoint.load_universal": {"description": "The checkpoint to load is a universal one."},
    "checkpoint.use_node_local_storage": {"description": (
        "Checkpoints lie on storage that "
        "nodes do not share."
    )},
    "checkpoint.checkpoint_serialization": {"description": (
        "Pickle tensors as torch.save does; "
        "false: raw layout."
    )},
    "checkpoint.parallel_write": {"description": "Parallel writing of checkpoints."},
    "checkpoint.parallel_write.pipeline_stage": {"description": (
        "Data-parallel ranks share a "
        "stage's layers."
    )},
    "checkpoint.writer": {"description": "Fast checkpoint writer.", "type": ["object", "null"]},
    "checkpoint.writer.type": {"description": "Which writer.", "values": ["FAST", "PYTHON", "MOCK"]},
    "checkpoint.writer.decoupled": {"description": "Write while training goes on."},
    "checkpoint.writer.io_buffer_size": {"description": "Bytes of the pinned write buffer."},
    "checkpoint.writer.io_buffer_double": {"description": "Use two write buffers in turn."},
    "checkpoint.writer.io_multiplier": {"description": "Files written by each writing rank."},
    "checkpoint.writer.show_statistics": {"description": "Print write statistics."},
    "checkpoint.writer.data_parallel": {
        "description": "Which data-parallel ranks write.",
        "type": ["string", "null"],
        "values": ["REPLICA", "SOCKET", "MACHINE"],
    },
    "data_types": {"description": "Data types beside those of fp16 and bf16."},
    "data_types.grad_accum_dtype": {
        "description": "Data type in which gradients are accumulated; by default that of the model.",
        "type": ["string", "null"],
        "values": DTYPE_NAMES,
    },
    "data_types.param_dtype": {
        "description": "Data type that parameters are cast to; by default that of the mixed precision.",
        "type": ["string", "null"],
        "values": DTYPE_NAMES,
    },
    "data_types.buffer_dtype": {
        "description": "Data type that buffers are cast to; by default they stay as loaded.",
        "type": ["string", "null"],
        "values": DTYPE_NAMES,
    },
    "data_types.keep_in_fp32_modules": {
        "description": "Name patterns of buffers kept in fp32; \"auto\" asks the model.",
        "type": ["string", "array"],
    },
    "autotuning": {"description": "Settings of the `deepspeed --autotuning` launcher."},
    "autotuning.enabled": {"description": "Run the autotuner."},
    "autotuning.fast": {"description": "Tune the micro batch only, for each ZeRO stage."},
    "autotuning.results_dir": {"description": "Folder for results."},
    "autotuning.exps_dir": {"description": "Folder for experiments."},
    "autotuning.overwrite": {"description": "Overwrite earlier results."},
    "autotuning.metric": {
        "description": "What to tune for.",
        "values": ["throughput", "latency", "flops", "forward", "step"],
    },
    "autotuning.metric_path": {"description": "File that experiments write the metric to.",
                               "type": ["string", "null"]},
    "autotuning.start_profile_step": {"description": "First step measured."},
    "autotuning.end_profile_step": {"description": "Last step measured."},
    "autotuning.tuner_type": {
        "description": "Search strategy.",
        "values": ["gridsearch", "random", "model_based"],
    },
    "autotuning.tuner_early_stopping": {"description": "Experiments without progress after which to stop."},
    "autotuning.tuner_num_trials": {"description": "Most experiments to run."},
    "autotuning.arg_mappings": {
        "description": "Maps DeepSpeed keys to flags of the training script.",
        "type": ["object", "null"],
    },
    "autotuning.model_info": {"description": "Known facts about the model.", "type": ["object", "null"]},
    "autotuning.model_info.profile": {"description": "Profile the model to learn its size."},
    "autotuning.model_info.num_params": {"description": "Parameters of the model.", "type": ["integer",
    "null"]},
    "autotuning.model_info.hidden_size": {"description": "Hidden size of the model.", "type": ["integer",
    "null"]},
    "autotuning.model_info.num_layers": {"description": "Layers of the model.", "type": ["integer", "null"]},
    "autotuning.model_info_path": {"description": "File to keep facts about the model in.",
                                   "type": ["string", "null"]},
    "autotuning.mp_size": {"description": "Model-parallel size."},
    "autotuning.max_train_batch_size": {"description": "Largest global batch to try.", "type": ["integer",
    "null"]},
    "autotuning.min_train_batch_size": {"description": "Smallest global batch to try."},
    "autotuning.max_train_micro_batch_size_per_gpu": {"description": "Largest micro batch to try."},
    "autotuning.min_train_micro_batch_size_per_gpu": {"description": "Smallest micro batch to try."},
    "autotuning.num_tuning_micro_batch_sizes": {"description": "How many micro batches to try."},
    "data_efficiency": {"description": (
        "Data efficiency library: curriculum sampling "
        "and random layer-token dropping."
    )},
    "data_efficiency.enabled": {"description": (
        "Switch of the library; parts enabled "
        "below it run all the same."
    )},
    "data_efficiency.seed": {"description": "Seed of data sampling."},
    "data_efficiency.data_sampling": {"description": "Which samples are drawn, and in what order."},
    "data_efficiency.data_sampling.enabled": {"description": "Use DeepSpeed's data sampler."},
    "data_efficiency.data_sampling.num_epochs": {"description": "Epochs to plan for."},
    "data_efficiency.data_sampling.num_workers": {"description": "Data loader workers."},
    "data_efficiency.data_sampling.pin_memory": {"description": "Pin the data loader's memory."},
    "data_efficiency.data_sampling.curriculum_learning": {"description": "Curriculum learning over metrics."},
    "data_efficiency.data_sampling.curriculum_learning.enabled": {
        "description": "Use curriculum learning; needs curriculum_metrics.",
    },
    "data_efficiency.data_sampling.curriculum_learning.data_cluster_path": {
        "description": "Folder for the clustered sample indices.",
        "type": "string",
    },
    "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics": {
        "description": "One entry a difficulty metric, each with its index files and schedule.",
        "type": "object",
    },
    (
        ""
        "data_efficiency.data_sampling.dynamic_batching"
    ): {"description": "Batches of variable size, by token count."},
    "data_efficiency.data_sampling.dynamic_batching.enabled": {
        "description": "Use dynamic batching; needs max_tokens.",
    },
    "data_efficiency.data_sampling.dynamic_batching.lr_scaling_method": {
        "description": "How the learning rate follows the batch size.",
        "values": ["linear", "sqrt", "none"],
    },
    "data_efficiency.data_sampling.dynamic_batching.min_batch_size": {"description": "Smallest batch."},
    "data_efficiency.data_sampling.dynamic_batching.max_batch_size": {
        "description": "Largest batch.",
        "type": ["integer", "null"],
        "default": None,
    },
    "data_efficiency.data_sampling.dynamic_batching.sequence_picking_order": {
        "description": "Order in which sequences are packed.",
        "values": ["random", "seqlen", "dataloader"],
    },
    "data_efficiency.data_sampling.dynamic_batching.max_tokens": {
        "description": "Most tokens in a batch.",
        "type": "integer",
    },
    "data_efficiency.data_sampling.dynamic_batching.metrics_path": {
        "description": "Folder with sequence lengths.",
        "type": "string",
    },
    "data_efficiency.data_sampling.dynamic_batching.verbose": {"description": "Print the batches made."},
    "data_efficiency.data_routing": {"description": "Which tokens reach which layers."},
    "data_efficiency.data_routing.enabled": {"description": "Use data routing."},
    "data_efficiency.data_routing.random_ltd": {"description": "Random layer-token dropping."},
    "data_efficiency.data_routing.random_ltd.enabled": {"description": "Use random layer-token dropping."},
    "data_efficiency.data_routing.random_ltd.total_layer_num": {"description": "Layers of the model.",
                                                                "type": "integer"},
    "data_efficiency.data_routing.random_ltd.random_ltd_layer_num": {
        "description": "Layers that drop tokens.",
        "type": "integer",
    },
    "data_efficiency.data_routing.random_ltd.random_ltd_layer_id": {
        "description": "Numbers of the layers that drop tokens.",
        "type": "array",
    },
    "data_efficiency.data_routing.random_ltd.model_mask_name": {
        "description": "Name of the layer's attention-mask argument; null when it has none.",
        "type": ["string", "null"],
    },
    "data_efficiency.data_routing.random_ltd.model_type": {
        "description": "Kind of the model.",
        "type": "string",
        "values": ["decoder", "encoder"],
    },
    "data_efficiency.data_routing.random_ltd.hidden_state_order": {
        "description": "Order of the hidden state's dimensions.",
        "type": "string",
        "values": ["batch_seq_dim", "seq_batch_dim"],
    },
    "data_efficiency.data_routing.random_ltd.global_batch_size": {
        "description": "Filled in by DeepSpeed.",
        "type": "integer",
    },
    "data_efficiency.data_routing.random_ltd.micro_batch_size": {
        "description": "Filled in by DeepSpeed.",
        "type": "integer",
    },
    "data_efficiency.data_routing.random_ltd.random_ltd_schedule": {
        "description": "How the kept sequence length grows.",
    },
    "data_efficiency.data_routing.random_ltd.random_ltd_schedule.min_value": {
        "description": "Kept tokens at the start.",
        "type": "integer",
    },
    "data_efficiency.data_routing.random_ltd.random_ltd_schedule.max_value": {
        "description": "Kept tokens at the end.",
        "type": "integer",
    },
    "data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_type": {
        "description": "Kind of schedule.",
        "type": "string",
        "values": ["fixed_linear"],
    },
    "data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_config": {
        "description": "Numbers of the schedule.",
    },
    "data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_config.require_steps": {
        "description": "Steps until max_value.",
        "type": "integer",
    },
    "data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_config.seq_per_step": {
        "description": "Growth of the kept length at each change.",
        "type": "integer",
    },
    "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule": {
        "description": "Learning rate by consumed layer tokens.",
    },
    "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule.enabled": {
        "description": "Use it.",
        "type": "boolean",
        "default": False,
    },
    "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule.total_layer_tokens": {
        "description": "Layer tokens of the whole run.",
        "type": "integer",
    },
    "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule.warmup_type": {
        "description": "Kind of warm-up.",
        "type": "string",
    },
    "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule.warmup_layer_tokens": {
        "description": "Layer tokens of warm-up.",
        "type": "integer",
    },
    "pipeline": {"description": "Pipeline parallelism of PipelineModule."},
    "pipeline.stages": {"description": "Pipeline stages.", "type": ["integer", "string"], "default": "auto"},
    "pipeline.partition": {
        "description": "How layers are split into stages.",
        "type": "string",
        "default": "best",
    },
    "pipeline.seed_layers": {
        "description": "Seed each layer by itself.",
        "type": "boolean",
        "default": False,
    },
    "pipeline.activation_checkpoint_interval": {
        "description": "Layers between activation checkpoints; 0 turns them off.",
        "type": "integer",
        "default": 0,
    },
    "pipeline.pipe_partitioned": {
        "description": "Partition activations sent between stages.",
        "type": "boolean",
        "default": True,
    },
    "pipeline.grad_partitioned": {
        "description": "Partition gradients sent between stages.",
        "type": "boolean",
        "default": True,
    },
    "pipeline.use_reentrant": {
        "description": "Reentrant activation checkpointing in pipeline stages.",
        "type": ["boolean", "null"],
    },
    "tensorboard": {"description": "Log to TensorBoard."},
    "wandb": {"description": "Log to Weights & Biases."},
    "csv_monitor": {"description": "Log to CSV files."},
    "comet": {"description": "Log to Comet."},
    "comms_logger": {"description": "Log collectives; the section's presence alone turns the logger on."},
    "comms_logger.enabled": {"description": "Read, but the section's presence alone turns the logger on."},
    "comms_logger.prof_all": {"description": "Log every collective."},
    "comms_logger.prof_ops": {"description": "Collectives to log when prof_all is false."},
    "comms_logger.verbose": {"description": "Print each collective as it happens."},
    "comms_logger.debug": {"description": "Add the calling function to each name."},
    "hybrid_engine": {"description": "One engine for training and generation (RLHF)."},
    "hybrid_engine.enabled": {"description": "Use the hybrid engine."},
    "hybrid_engine.max_out_tokens": {"description": "Most tokens of prompt and answer together."},
    "hybrid_engine.inference_tp_size": {"description": "Tensor-parallel size while generating."},
    "hybrid_engine.release_inference_cache": {"description": "Free the KV cache after generating."},
    "hybrid_engine.pin_parameters": {"description": "Keep gathered parameters while generating."},
    "hybrid_engine.tp_gather_partition_size": {"description": "Ranks gathered at a time."},
    "hybrid_engine.enable_cuda_graph": {"description": "Capture generation in a CUDA graph."},
    "compile": {"description": "DeepCompile: compiler passes for ZeRO."},
    "compile.enabled": {"description": "Compile the model."},
    "compile.backend": {"description": "Backend of torch.compile."},
    "compile.kwargs": {"description": "Further arguments of torch.compile."},
    "tensor_parallel": {"description": "AutoTP: tensor parallelism in training."},
    "tensor_parallel.dtype": {"description": (
        "Filled in by DeepSpeed; a config file "
        "cannot give a torch.dtype."
    ),
                              "type": "string"},
    "tensor_parallel.tp.tp_grain_size": {"description": "Granularity of the split."},
    "tensor_parallel.tp.tp_group": {"description": "Process group; given in code, not in a file."},
    "tensor_parallel.injection_policy_tuple": {"description": "Names of the linear layers to split."},
    "weight_quantization": {"description": "Quantize weights while the model is created."},
    "weight_quantization.enabled": {"description": "Use weight quantization."},
    "weight_quantization.num_bits": {"description": "Bits of a quantized weight."},
    "weight_quantization.q_type": {"description": "Symmetric or asymmetric quantization."},
    "weight_quantization.q_groups": {"description": "Quantization groups."},
    "weight_quantization.quantized_initialization": {"description": "Settings used in zero.Init."},
    "weight_quantization.post_init_quant": {"description": "Settings by module name, used after creation."},
    "zero_optimization.leaf_module.classes": {"description": (
        "Classes whose parameters are "
        "fetched as one unit."
    )},
    "zero_optimization.leaf_module.names": {"description": (
        "Module names whose parameters are "
        "fetched as one unit."
    )},
    "zero_optimization.leaf_module.name_suffixes": {
        "description": "Endings of module names whose parameters are fetched as one unit.",
    },
    "zero_optimization.zenflow.steps_per_epoch": {"description": "Filled in by DeepSpeed."},
    "zero_optimization.zenflow.select_strategy": {"values": ["auto", "step", "epoch"]},
    "zero_optimization.pipeline_loading_checkpoint": {
        "description": "Load checkpoints rank after rank to save host memory; stage 3 only.",
    },
    "datastates_ckpt": {
        "description": "DataStates-LLM asynchronous checkpoints; any value but false turns them on.",
        "type": ["object", "boolean", "null"],
    },
    "timers": {"description": "Timers."},
    "timers.throughput": {"description": "Throughput timer."},
    "expert_parallel": {"description": "AutoEP: expert parallelism of MoE models."},
    "expert_parallel.enabled": {"description": "Use AutoEP."},
    "expert_parallel.autoep_size": {"description": "Ranks that share the experts of a layer."},
    "expert_parallel.expert_tensor_parallel_size": {"description": "Ranks that share one expert."},
    "expert_parallel.preset_model": {"description": "Known model family.", "type": ["string", "null"]},
    "expert_parallel.moe_layer_pattern": {"description": "Pattern of MoE layer names.", "type": ["string",
    "null"]},
    "expert_parallel.expert_pattern": {"description": "Name of the experts in an MoE layer.",
                                       "type": ["string", "null"]},
    "expert_parallel.router_pattern": {"description": "Name of the router in an MoE layer.",
                                       "type": ["string", "null"]},
    "expert_parallel.use_grouped_mm": {"description": "Compute experts by grouped matrix products."},
    "expert_parallel.route_norm": {"description": "Normalize routing weights.", "type": ["boolean", "null"]},
    "expert_parallel.route_scale": {"description": "Factor on routing weights.", "type": "number"},
    "expert_parallel.score_apply": {"description": "Where routing weights apply.", "values": ["auto",
    "pre", "post"]},
    "expert_parallel.combine_impl": {
        "description": "How expert outputs are combined.",
        "values": ["auto", "weighted_sum", "fused_weighted_sum", "legacy_bmm"],
    },
    "expert_parallel.row_weighting_impl": {"description": "How rows are weighted.",
                                           "values": ["auto", "eager", "fused"]},
    "expert_parallel.gate_up_impl": {"description": "How gate and up projections run.",
                                     "values": ["separate", "fused"]},
    "expert_parallel.comm_backend": {"description": "How tokens reach experts.", "values": ["comm",
    "deepep"]},
    "expert_parallel.score_func": {"description": "Routing score.", "values": ["auto", "softmax", "sigmoid"]},
    "expert_parallel.num_expert_groups": {"description": "Groups of experts.", "type": ["integer", "null"]},
    "expert_parallel.num_limited_groups": {"description": "Groups a token may use.", "type": ["integer",
    "null"]},
    "expert_parallel.top_k": {"description": "Experts a token uses.", "type": ["integer", "string"]},
    "expert_parallel.load_balance_coeff": {"description": "Not supported; only null is accepted.",
    "type": "null"},
    "expert_parallel.routed_scaling_factor": {"description": "Factor on routed output.",
                                              "type": ["number", "string"]},
    "expert_parallel.has_shared_experts": {"description": "The layer has shared experts.",
                                           "type": ["boolean", "null"]},
}  # fmt: skip

_FP16 = {
    "enabled": {"description": "Train in fp16.", "type": "boolean"},
    "auto_cast": {"description": "Cast inputs of the model to fp16.", "type": "boolean"},
    "loss_scale": {"description": "Static loss scale; 0 chooses it dynamically.", "type": "number"},
    "initial_scale_power": {
        "description": "Dynamic loss scaling starts at 2 to this power.",
        "type": "integer",
    },
    "loss_scale_window": {"description": "Good steps after which the loss scale grows.", "type": "integer"},
    "hysteresis": {"description": "Overflows after which the loss scale shrinks.", "type": "integer"},
    "consecutive_hysteresis": {
        "description": "Refill hysteresis at every step without overflow.",
        "type": "boolean",
    },
    "min_loss_scale": {"description": "Smallest dynamic loss scale.", "type": "integer"},
    "fp16_master_weights_and_grads": {
        "description": "Keep master weights and gradients in fp16; needs the CPU Adam of ZeRO-Offload.",
        "type": "boolean",
    },
}
_BF16 = {
    "enabled": {"description": "Train in bfloat16.", "type": "boolean"},
    "immediate_grad_update": {
        "description": "Add each gradient to its fp32 copy as it is made.",
        "type": "boolean",
    },
}
_CURRICULUM_KEYS = {
    "enabled": {"description": "Use curriculum learning.", "type": "boolean"},
    "curriculum_type": {"description": "What grows.", "type": "string", "values": ["seqlen"]},
    "min_difficulty": {"description": "Difficulty at the start.", "type": "integer"},
    "max_difficulty": {"description": "Difficulty at the end.", "type": "integer"},
    "schedule_type": {
        "description": "How difficulty grows.",
        "type": "string",
        "values": ["fixed_linear", "fixed_root", "fixed_discrete", "custom"],
    },
    "schedule_config": {"description": "Numbers of the schedule."},
    "schedule_config.total_curriculum_step": {
        "description": "Steps until max_difficulty.",
        "type": "integer",
    },
    "schedule_config.difficulty_step": {
        "description": "Difficulty is a multiple of this.",
        "type": "integer",
    },
    "schedule_config.root_degree": {"description": "Degree of fixed_root.", "type": "integer"},
    "schedule_config.difficulty": {"description": "Difficulties of fixed_discrete.", "type": "array"},
    "schedule_config.max_step": {
        "description": "Last step of each difficulty but the last.",
        "type": "array",
    },
}
_ELASTICITY = {
    "enabled": "Let DeepSpeed choose the batch size so that many numbers of GPUs fit.",
    "max_train_batch_size": "Largest acceptable global batch.",
    "micro_batch_sizes": "Acceptable micro batches.",
    "min_gpus": "Fewest GPUs.",
    "max_gpus": "Most GPUs.",
    "min_time": "Minutes a run should last at least.",
    "version": "Version of the elastic rules.",
    "ignore_non_elastic_batch_info": "Accept batch keys beside elasticity and overwrite them.",
    "prefer_larger_batch": "Of equally good batches take the larger.",
    "model_parallel_size": "Model-parallel size.",
    "num_gpus_per_node": "GPUs of a node.",
}
_NEBULA = {
    "enabled": "Use Nebula.",
    "persistent_storage_path": "Where checkpoints are kept.",
    "persistent_time_interval": "Seconds between kept checkpoints.",
    "num_of_version_in_retention": "Checkpoints kept.",
    "enable_nebula_load": "Load checkpoints through Nebula.",
    "nebula_load_path": "Where to load from.",
}
_SPARSE_ATTENTION = {
    "mode": "Kind of sparsity.",
    "block": "Size of a block.",
    "attention": "Direction of attention.",
    "different_layout_per_head": "Give each head its own layout.",
    "num_local_blocks": "Blocks of a local window.",
    "num_global_blocks": "Blocks of global attention.",
    "num_random_blocks": "Random blocks.",
    "num_sliding_window_blocks": "Blocks of the sliding window.",
    "num_different_global_patterns": "Different global patterns.",
    "local_window_blocks": "Sizes of local windows.",
    "global_block_indices": "First blocks of global attention.",
    "global_block_end_indices": "Last blocks of global attention.",
    "horizontal_global_attention": "Global blocks attend to all others too.",
}
_EIGENVALUE = {
    "enabled": "Compute eigenvalues.",
    "verbose": "Print them.",
    "max_iter": "Most iterations.",
    "tol": "Tolerance.",
    "stability": "Stability term.",
    "gas_boundary_resolution": "Accumulation boundaries between computations.",
    "layer_name": "Name of the layers.",
    "layer_num": "Number of layers.",
}

LEGACY.update({f"fp16.{k}": v for k, v in _FP16.items()})
LEGACY.update({f"{s}.{k}": v for s in ("bf16", "bfloat16") for k, v in _BF16.items()})
LEGACY.update({f"curriculum_learning.{k}": v for k, v in _CURRICULUM_KEYS.items()})
LEGACY.update({f"elasticity.{k}": {"description": v} for k, v in _ELASTICITY.items()})
LEGACY.update({f"nebula.{k}": {"description": v} for k, v in _NEBULA.items()})
LEGACY.update({f"sparse_attention.{k}": {"description": v} for k, v in _SPARSE_ATTENTION.items()})
LEGACY.update({f"quantize_training.eigenvalue.{k}": {"description": v} for k, v in _EIGENVALUE.items()})
for _key, _type in {
    "elasticity.max_train_batch_size": "integer",
    "elasticity.micro_batch_sizes": "array",
    "nebula.persistent_storage_path": ["string", "null"],
    "nebula.nebula_load_path": ["string", "null"],
    "sparse_attention.mode": "string",
    "sparse_attention.global_block_end_indices": ["array", "null"],
}.items():
    LEGACY[_key]["type"] = _type
LEGACY.update(
    {
        "nebula": {"description": "Azure Nebula checkpoints."},
        "elasticity": {"description": "Elastic training: batch sizes that suit many numbers of GPUs."},
        "sparse_attention": {"description": "Sparse attention kernels."},
        "curriculum_learning": {
            "description": (
                "Legacy curriculum learning; data_efficiency.data_sampling.curriculum_learning follows it."
            ),
        },
        "progressive_layer_drop": {"description": "Progressive layer dropping."},
        "progressive_layer_drop.enabled": {"description": "Use progressive layer dropping."},
        "progressive_layer_drop.theta": {"description": "Share of layers kept in the end.", "type": "number"},
        "progressive_layer_drop.gamma": {"description": "How fast layers are dropped.", "type": "number"},
        "compression_training": {
            "description": "Compression library: quantization, pruning, layer reduction."
        },
        "compression_training.layer_reduction": {"description": "Distill to fewer layers."},
        "compression_training.layer_reduction.keep_number_layer": {
            "description": "Layers of the student.",
            "type": "integer",
        },
        "compression_training.layer_reduction.module_name_prefix": {
            "description": "Prefix of layer names.",
            "type": "string",
        },
        "compression_training.layer_reduction.teacher_layer": {
            "description": "Teacher layers the student starts from.",
            "type": "array",
        },
        "compression_training.layer_reduction.other_module_name": {
            "description": "Other modules copied from the teacher.",
            "type": "array",
        },
        "quantize_training": {"description": "Mixture-of-Quantization."},
        "quantize_training.eigenvalue": {"description": "Eigenvalues for the quantization schedule."},
        "seq_parallel_comm_data_type": {
            "description": "Data type of gradient communication between sequence-parallel ranks.",
            "type": "string",
            "values": DTYPES,
        },
        "autotuning.model_info.hideen_size": {
            "description": "Hidden size of the model, under the misspelled name this release reads.",
            "type": ["integer", "null"],
        },
        "expert_parallel.async_split_plan": {"description": "Plan token exchanges asynchronously."},
        "expert_parallel.comm_max_tokens_per_rank": {"description": "Most tokens one rank routes (DeepEP)."},
        "expert_parallel.comm_num_sm": {"description": "Multiprocessors for communication (DeepEP)."},
        "expert_parallel.comm_qp_margin": {"description": "Spare queue pairs (DeepEP)."},
        "expert_parallel.disable_triton_grouped_mm": {
            "description": "Do not use the Triton grouped product."
        },
        "expert_parallel.expert_activation": {
            "description": "Activation of the experts.",
            "type": ["string", "null"],
        },
        "expert_parallel.expert_w1": {"description": "Name of the gate weight.", "type": ["string", "null"]},
        "expert_parallel.expert_w2": {"description": "Name of the down weight.", "type": ["string", "null"]},
        "expert_parallel.expert_w3": {
            "description": "Name of the up weight; null when fused.",
            "type": ["string", "null"],
        },
        "expert_parallel.num_experts_attr": {
            "description": "Attribute of the model config with the number of experts.",
            "type": ["string", "null"],
        },
        "expert_parallel.top_k_attr": {
            "description": "Attribute of the model config with the experts a token uses.",
            "type": ["string", "null"],
        },
        "expert_parallel.shared_experts_pattern": {
            "description": "Name of the shared experts.",
            "type": ["string", "null"],
        },
        "expert_parallel.shared_experts_gate_pattern": {
            "description": "Name of the shared experts' gate.",
            "type": ["string", "null"],
        },
        "expert_parallel.validate_folding_routing": {
            "description": "Check the routing of folded parallelism."
        },
    }
)

LEAVES: dict[str, str] = {
    "enabled": "Use this part.",
    "shared_parameters": "Settings of the whole method.",
    "different_groups": "Groups of modules, each with its own settings.",
    "schedule_offset": "Step at which it starts.",
    "schedule_offset_end": "Step at which it ends.",
    "schedule_offset_stride": "Steps between changes.",
    "method": "Which method.",
    "dense_ratio": "Share of weights kept.",
    "block_pattern": "Shape of the blocks pruned together.",
    "excluded_modules": "Modules left alone.",
    "num_heads": "Attention heads of a layer.",
    "quantization_type": "Symmetric or asymmetric quantization.",
    "quantize_groups": "Quantization groups.",
    "quantize_verbose": "Print quantization.",
    "quantize_weight_in_forward": "Quantize in forward instead of after the step.",
    "quantizer_kernel": "Use the CUDA quantizer.",
    "quantize_change_ratio": "How fast precision changes.",
    "fp16_mixed_quantize": "Mix fp16 and quantized values.",
    "range_calibration": "How the range of activations is found.",
    "rounding": "How values are rounded.",
    "weight_quantization": "Quantize weights.",
    "activation_quantization": "Quantize activations.",
    "sparse_pruning": "Prune single weights.",
    "row_pruning": "Prune rows.",
    "head_pruning": "Prune attention heads.",
    "channel_pruning": "Prune channels.",
}
"""Words for the last part of a path, where LEGACY has none for the whole of it."""

REMOVED: dict[str, str] = {
    "nebula": "Nebula checkpointing is gone; checkpoints are written by torch.save. Remove the section.",
    "compression_training": (
        "The compression library is gone; the model would train unquantized. Remove the section."
    ),
    "amp": "Apex AMP is gone; use fp16, bf16 or torch_autocast.",
    "quantize_training": "Mixture-of-Quantization is gone. Remove the section.",
    "sparse_gradients": (
        "Sparse gradient communication needs no flag: embeddings "
        "made with sparse=True get it. Remove the key."
    ),
    "eigenvalue": (
        "Eigenvalue computation belonged to Mixture-of-Quantization and is gone. Remove the section."
    ),
    "sparse_attention": "DeepSpeed Sparse Attention is gone. Remove the section.",
    "elasticity": (
        "Elastic training is gone; set train_batch_size, train_micro_batch_size_per_gpu or "
        "gradient_accumulation_steps."
    ),
    "graph_harvesting": "Graph harvesting is gone. Remove the key.",
    "curriculum_learning": "Moved to data_efficiency.data_sampling.curriculum_learning.",
    "progressive_layer_drop": "Progressive layer dropping is gone. Remove the section.",
    "zero_optimization.mics_shard_size": (
        "MiCS is gone; zero_hpz_partition_size keeps a copy of the weights in each node."
    ),
    "zero_optimization.mics_hierarchical_params_gather": "MiCS is gone. Remove the key.",
    "zero_optimization.zeropp_loco_param": (
        "LoCo is gone; without the key ZeRO++ quantizes gradients without it."
    ),
}
"""Keys whose presence raises, in our words."""
