"""Will it fit: what the memory predictor says about a config, for rules.

UNKNOWN unless the model, the card and the number of GPUs are known (--model, --gpu-type, --gpus). What
"cannot fit" rests on the least that a run could need: where sequence length, batch or checkpointing are
not said, they count as nothing. What costs memory or time without need is judged only where the sequence
length and the micro batch are known, and by the most a run could need.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts.registry import fact, once
from dslint.facts.zero import ZERO

if TYPE_CHECKING:
    from dslint.memory.job import Job
    from dslint.memory.predict import Estimate
    from dslint.memory.workload import Workload

SLOW = 1.3
"""Another stage counts as clearly faster from this ratio of estimated speeds on."""
FASTER = 1.1
PINNED_SHARE = 0.5
"""Of host memory, the share that pinned buffers may take before the rest of the node feels it."""
LOGITS_SHARE = 0.2
"""Of a card, the share of logits at the peak that is worth a fused loss."""
WHOLE_SHARE = 0.5
"""Of a card, the share that undivided weights may take for adapters to train at a lower stage than 3."""
BF16_FAMILIES = ("t5", "mt5")
"""Models that were trained in bf16, whatever type their weights are published in."""


@once
def _load(config: Config) -> Workload | None:
    """The workload where it says enough to judge memory by."""
    load = config.target.workload
    if load is None or not load.judged or config.target.gpus is None:
        return None
    return load


@once
def _least(config: Config) -> Estimate | None:
    """What the run needs at the very least; None where model, card or GPUs are unknown."""
    return _cached(config, "least")


@once
def _usual(config: Config) -> Estimate | None:
    """What the run needs; None unless sequence length and micro batch are known as well."""
    return _cached(config, "usual")


@once
def _most(config: Config) -> Estimate | None:
    """The same with everything against it that is not said: no checkpointing."""
    return _cached(config, "most")


@lru_cache(maxsize=16)
def _cached(config: Config, kind: str) -> Estimate | None:
    load = _load(config)
    if load is None:
        return None
    from dslint.memory.plan import job_of
    from dslint.memory.predict import predict

    if kind == "least":
        return predict(job_of(config, load, least=True))
    if load.seq_len is None or not _micro_known(config, load):
        return None
    if kind == "most" and load.checkpointing is None:
        load = replace(load, checkpointing=False)
    return predict(job_of(config, load))


def _micro_known(config: Config, load: Workload) -> bool:
    micro = config.value(("train_micro_batch_size_per_gpu",))
    if isinstance(micro, int) or load.micro_batch is not None:
        return True
    train = config.value(("train_batch_size",))
    return isinstance(train, int) and (
        load.accumulation is not None or isinstance(config.value(("gradient_accumulation_steps",)), int)
    )


def _number(size: float) -> str:
    gib = size / (1 << 30)
    return f"{gib:.1f}" if gib < 100 else f"{gib:,.0f}"


def _card(job: Job) -> str:
    assert job.gpu is not None
    return f"{_number(job.gpu.usable)} GiB of {job.gpu.name}"


@fact
def memory_cannot_fit(config: Config) -> Any:
    """Whether the run cannot fit whatever the batch: nine tenths of its least need exceed the card."""
    estimate = _least(config)
    if estimate is None:
        return UNKNOWN
    assert estimate.job.gpu is not None
    return estimate.least > estimate.job.gpu.usable


@fact
def weights_exceed_card(config: Config) -> Any:
    """Whether undivided weights alone exceed the card, as stages 0 to 2 keep them, on any number of GPUs."""
    load = _load(config)
    estimate = _least(config)
    if load is None or estimate is None or estimate.job.stage == 3:
        return UNKNOWN if load is None or estimate is None else False
    assert estimate.job.gpu is not None
    return estimate.items["init"]["weights"] + estimate.outside > estimate.job.gpu.usable


@fact
def weights_alone(config: Config) -> Any:
    """The weights and the card in words: "128 GiB, 129 with the CUDA context, and each GPU has ..."."""
    estimate = _least(config)
    if estimate is None:
        return UNKNOWN
    weights = estimate.items["init"]["weights"]
    whole = _number(weights + estimate.outside)
    return (
        f"{_number(weights)} GiB, {whole} with the CUDA context, and each GPU has the {_card(estimate.job)}"
    )


@fact
def memory_floor(config: Config) -> Any:
    """The least need in words: "141 GiB a GPU (weights 12.6, optimizer states 50.2), of 79.2 GiB of ..."."""
    load, estimate = _load(config), _least(config)
    if load is None or estimate is None:
        return UNKNOWN
    need = _number(estimate.peak + estimate.outside)
    taken = "" if load.method else "; all weights train (--method lora or qlora says otherwise)"
    return f"{need} GiB a GPU{_parts(estimate)}, of the {_card(estimate.job)}{taken}"


def _parts(estimate: Estimate) -> str:
    items = estimate.items[estimate.peak_phase]
    largest = sorted(items, key=lambda item: -items[item])[:3]
    return " (" + ", ".join(f"{item} {_number(items[item])}" for item in largest if items[item] > 0) + ")"


@fact
def memory_tight(config: Config) -> Any:
    """Whether the run as described is tight or does not fit, short of certainty."""
    estimate = _usual(config)
    if estimate is None or memory_cannot_fit(config) is not False:
        return UNKNOWN
    assert estimate.job.gpu is not None
    from dslint.memory.predict import ROOM

    return estimate.device > ROOM * estimate.job.gpu.usable


@fact
def memory_need(config: Config) -> Any:
    """The need of the run as described, in words."""
    estimate = _usual(config)
    if estimate is None:
        return UNKNOWN
    return (
        f"about {_number(estimate.device)} GiB at the peak of the {estimate.peak_phase} phase"
        f"{_parts(estimate)}, of the {_card(estimate.job)}"
    )


@fact
def memory_cure(config: Config) -> Any:
    """The smallest change that makes the run fit, in words."""
    estimate = _usual(config) or _least(config)
    if estimate is None:
        return UNKNOWN
    from dslint.memory.recommend import smallest_change

    change = smallest_change(estimate.job)
    if change is None:
        return (
            "use more GPUs, LoRA or QLoRA (--method), or a smaller model: no setting of this config is enough"
        )
    return f"{change.words}: then about {_number(change.estimate.device)} GiB"


@fact
def host_memory_short(config: Config) -> Any:
    """Whether nine tenths of the predicted host memory exceed what a node has."""
    estimate = _least(config)
    if estimate is None or estimate.job.host_memory is None:
        return UNKNOWN
    from dslint.memory.predict import CANNOT

    return estimate.host_verdict == CANNOT


@fact
def host_memory_need(config: Config) -> Any:
    """The host memory in words: "1,289 GiB a node, of 931"."""
    estimate = _least(config)
    if estimate is None or estimate.job.host_memory is None:
        return UNKNOWN
    return f"{_number(estimate.host)} GiB a node, which has {_number(estimate.job.host_memory)}"


@fact
def host_pinned_much(config: Config) -> Any:
    """Whether pinned buffers take more than half of a node's memory."""
    estimate = _least(config)
    if estimate is None or estimate.job.host_memory is None:
        return UNKNOWN
    return host_memory_short(config) is False and estimate.pinned > PINNED_SHARE * estimate.job.host_memory


@fact
def host_pinned(config: Config) -> Any:
    """Pinned host memory in words."""
    estimate = _least(config)
    if estimate is None or estimate.job.host_memory is None:
        return UNKNOWN
    return f"{_number(estimate.pinned)} GiB of the {_number(estimate.job.host_memory)} GiB of a node"


@fact
def logits_dominate(config: Config) -> Any:
    """Whether logits set the peak and take a fifth of the card."""
    estimate = _usual(config)
    if estimate is None:
        return UNKNOWN
    assert estimate.job.gpu is not None
    logits = estimate.items["loss"].get("logits", 0.0)
    return estimate.peak_phase == "loss" and logits > LOGITS_SHARE * estimate.job.gpu.usable


@fact
def logits_need(config: Config) -> Any:
    """Logits in words: "18.1 GiB (8,192 tokens x 152,064 words x 14 bytes)"."""
    estimate = _usual(config)
    if estimate is None:
        return UNKNOWN
    job = estimate.job
    return (
        f"{_number(estimate.items['loss']['logits'])} GiB ({job.tokens:,} tokens x {job.shape.vocab:,} words "
        f"x {job.logit_bytes:g} bytes)"
    )


@once
def _faster(config: Config) -> tuple[float, Job] | None:
    """A lower stage that fits for certain, and how many times as fast it is estimated to be."""
    estimate = _most(config)
    if estimate is None or estimate.job.stage < 2 or estimate.job.offload_optimizer != "none":
        return None
    from dslint.memory.communication import speed
    from dslint.memory.predict import FITS, predict

    own = speed(estimate.job)
    if own is None:
        return None
    best: tuple[float, Job] | None = None
    for stage in range(estimate.job.stage):
        other = replace(estimate.job, stage=stage, offload_param="none", overlap_comm=False)
        pace = speed(other)
        if pace is None or predict(other).verdict != FITS:
            continue
        ratio = (pace.tokens[0] * pace.tokens[1] / (own.tokens[0] * own.tokens[1])) ** 0.5
        if best is None or ratio > best[0]:
            best = ratio, other
    return best


@fact
def stage_too_high(config: Config) -> Any:
    """Whether a lower stage fits as well and is clearly faster on this link."""
    found = _faster(config)
    return UNKNOWN if _most(config) is None else found is not None and found[0] >= SLOW


@fact
def stage_higher_than_needed(config: Config) -> Any:
    """Whether a lower stage fits as well and is somewhat faster."""
    found = _faster(config)
    return UNKNOWN if _most(config) is None else found is not None and FASTER <= found[0] < SLOW


@fact
def lower_stage(config: Config) -> Any:
    """The lower stage that fits, with its traffic, in words: "stage 1 fits too and sends 45 GB ..."."""
    found, estimate = _faster(config), _most(config)
    if found is None or estimate is None:
        return UNKNOWN
    from dslint.memory.communication import traffic
    from dslint.memory.show import amount

    ratio, other = found
    return (
        f"stage {other.stage} fits too and sends {amount(traffic(other).wire)} a step from each GPU instead "
        f"of {amount(traffic(estimate.job).wire)}, for about {ratio:.1f} x the speed"
    )


@fact
def lower_stage_number(config: Config) -> Any:
    """The lower stage that fits."""
    found = _faster(config)
    return UNKNOWN if found is None else found[1].stage


@once
def _whole_weights(config: Config) -> float | None:
    """Bytes of the undivided weights of a run that trains adapters at stage 3; None for any other run, and
    where enough is known to compare stages by their speed."""
    load, estimate = _load(config), _least(config)
    if load is None or load.method not in ("lora", "qlora") or estimate is None or _most(config) is not None:
        return None
    if estimate.job.stage != 3 or estimate.job.offload_param != "none":
        return None
    from dslint.memory.predict import predict

    return predict(replace(estimate.job, stage=2)).items["init"]["weights"]


@fact
def adapters_fit_whole(config: Config) -> Any:
    """Whether adapters train at stage 3 although the whole weights take less than half of the card."""
    weights, estimate = _whole_weights(config), _least(config)
    if weights is None or estimate is None:
        return UNKNOWN
    assert estimate.job.gpu is not None
    return weights < WHOLE_SHARE * estimate.job.gpu.usable


@fact
def whole_weights(config: Config) -> Any:
    """The undivided weights and the card in words: "14.9 GiB of the 79.2 GiB of a100-80gb"."""
    weights, estimate = _whole_weights(config), _least(config)
    if weights is None or estimate is None:
        return UNKNOWN
    return f"{_number(weights)} GiB of the {_card(estimate.job)}"


@fact
def offload_not_needed(config: Config) -> Any:
    """Whether the run fits without offload, too."""
    estimate = _most(config)
    if estimate is None:
        return UNKNOWN
    job = estimate.job
    if job.offload_optimizer == "none" and job.offload_param == "none":
        return False
    return _without_offload(job).comfortable


def _without_offload(job: Job) -> Estimate:
    from dslint.memory.predict import predict

    stage = job.stage if job.gpus > 1 else 0
    return predict(replace(job, stage=stage, offload_optimizer="none", offload_param="none"))


@fact
def without_offload(config: Config) -> Any:
    """The need without offload in words."""
    estimate = _most(config)
    if estimate is None:
        return UNKNOWN
    other = _without_offload(estimate.job)
    return f"{_number(other.device)} GiB of the {_card(estimate.job)}"


@fact
def offload_section(config: Config) -> Any:
    """Which offload section a finding about offload stands at."""
    from dslint.facts.registry import Item

    for section in ("offload_param", "offload_optimizer"):
        if config.offloads((ZERO, section)) is True:
            return [Item((ZERO, section), {"key": section})]
    return []


@fact
def bf16_emulated(config: Config) -> Any:
    """Whether the card has no bf16 units."""
    load = config.target.workload
    if load is None or load.gpu is None or load.gpu.bf16 is None:
        return UNKNOWN
    return load.gpu.bf16 is False


@fact
def bf16_model(config: Config) -> Any:
    """In words, that the model's weights are in bf16 or were made in it; None where that is not known."""
    load = config.target.workload
    if load is None or load.shape is None:
        return UNKNOWN
    shape = load.shape
    if shape.published == "bfloat16":
        return f"the weights of {shape.name} are in bf16"
    return f"{shape.name} was trained in bf16" if shape.family in BF16_FAMILIES else None


@fact
def card_name(config: Config) -> Any:
    """The name of the card."""
    load = config.target.workload
    return UNKNOWN if load is None or load.gpu is None else load.gpu.name


@fact
def persistent_share(config: Config) -> Any:
    """Percentage of the model's parameters below stage 3's persistence threshold, which it keeps whole."""
    load = config.target.workload
    threshold = config.value((ZERO, "stage3_param_persistence_threshold"))
    if load is None or load.shape is None or not isinstance(threshold, int):
        return UNKNOWN
    return round(100 * load.shape.small(threshold) / load.shape.parameters)


@fact
def bucket_exceeds_gradients(config: Config) -> Any:
    """Whether the reduction bucket has room for more than twice all gradients (LoRA, small models)."""
    trained = _trained(config)
    bucket = config.value((ZERO, "reduce_bucket_size"))
    if trained is None or not isinstance(bucket, int):
        return UNKNOWN
    return bucket > 2 * trained


@fact
def trained_parameters(config: Config) -> Any:
    """Parameters that train, in words: "40.4 M"."""
    from dslint.memory.show import count

    trained = _trained(config)
    return UNKNOWN if trained is None else count(trained)


@once
def _trained(config: Config) -> int | None:
    load = config.target.workload
    if load is None or load.shape is None:
        return None
    if load.trainable is not None:
        return load.trainable
    if load.method in (None, "full"):
        return load.shape.parameters
    from dslint.memory.workload import LORA_RANK

    return 16 * load.shape.adapters(LORA_RANK)  # an unknown rank: even one sixteen times as large counts


@fact
def bucket_below_matrix(config: Config) -> Any:
    """Whether the reduction bucket is smaller than the model's square weight matrices."""
    load = config.target.workload
    bucket = config.value((ZERO, "reduce_bucket_size"))
    if load is None or load.shape is None or load.method not in (None, "full") or not isinstance(bucket, int):
        return UNKNOWN
    return 10_000_000 <= bucket < load.shape.hidden**2


@fact
def matrix_size(config: Config) -> Any:
    """The model's square weight matrix in words: "8192 x 8192 = 67,108,864"."""
    load = config.target.workload
    if load is None or load.shape is None:
        return UNKNOWN
    h = load.shape.hidden
    return f"{h} x {h} = {h * h:,} elements"
