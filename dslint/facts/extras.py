"""Sections beside the core: activation checkpointing, tensor and expert parallelism, data efficiency."""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.document import dotted
from dslint.expression import UNKNOWN
from dslint.facts.registry import Item, fact
from dslint.facts.zero import ZERO
from dslint.values import properties, schema_at

ACTIVATIONS = "activation_checkpointing"
EXPERTS = "expert_parallel"
RANDOM_LTD = ("data_efficiency", "data_routing", "random_ltd")
RANDOM_LTD_NEEDS = ("total_layer_num", "random_ltd_layer_num", "random_ltd_layer_id", "random_ltd_schedule")

EXPERT_CHOICES = {
    "score_apply": ("auto", "pre", "post"),
    "combine_impl": ("auto", "weighted_sum", "fused_weighted_sum", "legacy_bmm"),
    "row_weighting_impl": ("auto", "eager", "fused"),
    "gate_up_impl": ("separate", "fused"),
    "comm_backend": ("comm", "deepep"),
    "score_func": ("auto", "softmax", "sigmoid"),
    "expert_activation": ("swiglu", "geglu_tanh", "swiglu_clamped", "swiglu_oai"),
    "preset_model": ("mixtral", "qwen3_moe", "qwen3_5_moe", "deepseek_v2", "deepseek_v3", "minimax_m3"),
}
"""What AutoEP accepts (module_inject/auto_ep_config.py, validate_autoep_config, 0.19.8)."""

LOG_LEVELS = ("debug", "info", "warning", "error", "critical")


@fact
def activation_keys(config: Config) -> Any:
    """In words, the keys of activation_checkpointing that ask for something; null where there are none."""
    section = config.written((ACTIVATIONS,))
    if not isinstance(section, dict):
        return None
    known = properties(schema_at(config.schema, (ACTIVATIONS,)))
    return ", ".join(key for key, value in section.items() if key in known and value) or None


def changed_keys(config: Config, section: str, besides: tuple[str, ...]) -> str | None:
    """In words, the keys of a section, besides some, that the file gives other values than the defaults."""
    written = config.written((section,))
    if not isinstance(written, dict):
        return None
    known = properties(schema_at(config.schema, (section,)))
    names = [
        key
        for key, value in written.items()
        if key in known and key not in besides and value != "auto"
        and config.value((section, key)) != config.default((section, key))
    ]  # fmt: skip
    return ", ".join(names) or None


@fact
def tensor_parallel_keys(config: Config) -> Any:
    """In words, the changed keys of tensor_parallel besides its size; null where there are none."""
    return changed_keys(config, "tensor_parallel", ("autotp_size",))


@fact
def compile_keys(config: Config) -> Any:
    """In words, the changed keys of compile that only DeepCompile reads; null where there are none."""
    return changed_keys(config, "compile", ("deepcompile", "autoep_non_moe"))


@fact
def log_level_known(config: Config) -> Any:
    """Whether log_level is one of the five names; true where none is given."""
    level = config.written(("log_level",))
    return level is None or (isinstance(level, str) and level.lower() in LOG_LEVELS)


@fact
def data_efficiency_leaks(config: Config) -> Any:
    """Outer enabled flags that are false while the feature inside, which is all that is asked, is on."""
    found = []
    for route, feature in (("data_sampling", "curriculum_learning"), ("data_routing", "random_ltd")):
        inner = ("data_efficiency", route, feature, "enabled")
        if config.value(inner) is not True:
            continue
        outers = (("data_efficiency", "enabled"), ("data_efficiency", route, "enabled"))
        found += [
            Item(outer, {"outer": dotted(outer), "inner": dotted(inner)})
            for outer in outers
            if config.has(outer) and config.value(outer) is False
        ]
    return found


@fact
def random_ltd_missing(config: Config) -> Any:
    """In words, what random_ltd needs and the file does not give; null where nothing is missing."""
    return ", ".join(key for key in RANDOM_LTD_NEEDS if not config.has((*RANDOM_LTD, key))) or None


@fact
def expert_parallel_refusals(config: Config) -> Any:
    """What AutoEP refuses about an enabled expert_parallel section, each with its reason in words."""
    section = config.written((EXPERTS,))
    if not isinstance(section, dict) or config.value((EXPERTS, "enabled")) is not True:
        return []
    known = properties(schema_at(config.schema, (EXPERTS,)))
    values = {key: config.value((EXPERTS, key)) for key in known}
    release = config.target.release_number
    tensor = config.value(("tensor_parallel", "autotp_size"))
    folded = isinstance(tensor, int) and tensor > 1
    if folded and release < (0, 19, 3):
        reason = "expert parallelism does not work with tensor parallelism before 0.19.3"
        return [Item(("tensor_parallel", "autotp_size"), {"reason": reason})]
    fusable = release >= (0, 19, 7)
    found = [
        Item((EXPERTS, key), {"reason": f"{key} must be one of {', '.join(choices)}"})
        for key, choices in _expert_choices(release).items()
        if key in known and values[key] not in (*choices, UNKNOWN, None)
    ]
    size, inner = values["autoep_size"], values.get("expert_tensor_parallel_size", 1)
    deepep = values.get("comm_backend") == "deepep"
    fused_sum = values["combine_impl"] == "fused_weighted_sum" and fusable
    for key, holds, reason in (
        ("expert_tensor_parallel_size", inner != 1, "expert_tensor_parallel_size must be 1"),
        ("autoep_size", _leaves_rest(config.target.gpus, size), "autoep_size must divide the number of GPUs"),
        ("autoep_size", folded and size == 1, "autoep_size must be above 1 together with tensor parallelism"),
        ("gate_up_impl", values.get("gate_up_impl") == "fused" and values["use_grouped_mm"] is False,
         "gate_up_impl fused needs use_grouped_mm"),
        ("row_weighting_impl", values.get("row_weighting_impl") == "fused" and (not deepep or size == 1),
         "row_weighting_impl fused needs comm_backend deepep and autoep_size above 1"),
        ("combine_impl", fused_sum and (folded or (deepep and size != 1)),
         "combine_impl fused_weighted_sum works neither with tensor parallelism nor with deepep"),
        ("comm_max_tokens_per_rank", deepep and values["comm_max_tokens_per_rank"] == 0,
         "comm_backend deepep needs comm_max_tokens_per_rank, the tokens a rank routes at most"),
    ):  # fmt: skip
        if holds and UNKNOWN not in (size, inner):
            found.append(Item((EXPERTS, key), {"reason": reason}))
    if folded and config.value((ZERO, "stage")) == 3 and release < (0, 19, 8):
        reason = "expert and tensor parallelism together do not work at ZeRO stage 3 before 0.19.8"
        found.append(Item((ZERO, "stage"), {"reason": reason}))
    for name in ("offload_optimizer", "offload_param"):
        if folded and config.has((ZERO, name)):
            reason = "expert and tensor parallelism together take no offload section, even with device none"
            found.append(Item((ZERO, name), {"reason": reason}))
    if folded and config.value(("compile", "deepcompile")) is True:
        reason = "expert and tensor parallelism together do not work with DeepCompile"
        found.append(Item(("compile", "deepcompile"), {"reason": reason}))
    return found


def _expert_choices(release: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
    """EXPERT_CHOICES as a release has them (run in 0.19.2 to 0.19.8)."""
    if release >= (0, 19, 8):
        return EXPERT_CHOICES
    choices = {**EXPERT_CHOICES, "preset_model": EXPERT_CHOICES["preset_model"][:-1]}
    if release < (0, 19, 7):
        choices["combine_impl"] = ("auto", "weighted_sum", "legacy_bmm")
    return choices


def _leaves_rest(gpus: int | None, size: Any) -> bool:
    return gpus is not None and isinstance(size, int) and size > 0 and gpus % size != 0
