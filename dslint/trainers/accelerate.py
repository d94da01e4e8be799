"""The keys of accelerate's own config files, and what `accelerate launch` makes of them.

Source: accelerate 1.15, commands/config/config_args.py (ClusterConfig), commands/launch.py
(launch_command_parser, _validate_launch_command) and utils/launch.py (prepare_deepspeed_cmd_env), run.
"""

from __future__ import annotations

TOP = frozenset({
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "num_processes",
    "machine_rank", "num_machines", "gpu_ids", "main_process_ip", "main_process_port", "rdzv_backend",
    "same_network", "main_training_function", "enable_cpu_affinity", "fp8_config", "deepspeed_config",
    "fsdp_config", "parallelism_config", "megatron_lm_config", "mpirun_config", "downcast_bf16", "tpu_name",
    "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm", "tpu_env",
    "dynamo_config", "fp16", "dynamo_backend",
})  # fmt: skip
"""Keys at the top of a file for a local machine; fp16 and dynamo_backend are old forms it converts."""

BLOCK = frozenset({
    "zero_stage", "offload_optimizer_device", "offload_param_device", "offload_optimizer_nvme_path",
    "offload_param_nvme_path", "gradient_accumulation_steps", "gradient_clipping", "zero3_init_flag",
    "zero3_save_16bit_model", "deepspeed_config_file", "deepspeed_hostfile", "deepspeed_exclusion_filter",
    "deepspeed_inclusion_filter", "deepspeed_multinode_launcher", "deepspeed_moe_layer_cls_names",
})  # fmt: skip
"""Keys of deepspeed_config that somebody reads."""

ANYWHERE = frozenset({
    "config_file", "cpu", "multi_gpu", "tpu", "num_cpu_threads_per_process", "dynamo_mode", "use_deepspeed",
    "use_fsdp", "use_megatron_lm", "tee", "log_dir", "role", "rdzv_conf", "max_restarts", "monitor_interval",
    "module", "no_python", "vm", "env", "quiet", "main_process_port", "main_process_ip", "gpu_ids",
    "machine_rank", "num_machines", "num_processes", "rdzv_backend", "same_network", "debug", "downcast_bf16",
    "enable_cpu_affinity", "main_training_function", "use_cpu",
})  # fmt: skip
"""Options of the launcher that a block sets, too: its keys become the launcher's arguments as they are."""

DISTRIBUTED = (
    "NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU",
    "DEEPSPEED", "FSDP", "XLA", "MEGATRON_LM", "MULTI_HPU", "MULTI_NEURON",
)  # fmt: skip
"""Values of distributed_type on a local machine."""

PRECISIONS = ("no", "fp8", "fp16", "bf16")

AMBIGUOUS = {
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "gradient_clipping",
    "zero_stage": "zero_optimization.stage",
    "offload_optimizer_device": "zero_optimization.offload_optimizer.device",
    "offload_param_device": "zero_optimization.offload_param.device",
    "offload_param_nvme_path": "zero_optimization.offload_param.nvme_path",
    "offload_optimizer_nvme_path": "zero_optimization.offload_optimizer.nvme_path",
    "zero3_save_16bit_model": "zero_optimization.stage3_gather_16bit_weights_on_model_save",
}
"""Keys of deepspeed_config that may not stand beside deepspeed_config_file -> the key of that file."""

LAUNCHERS = ("pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm")
"""Values of deepspeed_multinode_launcher."""

TRUTHS = ("y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0")
"""Words that accelerate reads as a boolean, in any case."""
