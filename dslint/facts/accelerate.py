"""accelerate's own config files: keys nobody knows, keys that exclude each other, values it cannot read.

Every fact here is [] or False for other files. Source: see :mod:`dslint.trainers.accelerate`.
"""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.document import Document, Path
from dslint.facts.registry import Item, fact, once
from dslint.trainers import HF_LIKE
from dslint.values import ACCELERATE

BLOCK = "deepspeed_config"


@once
def _data(config: Config) -> dict[str, Any]:
    data = config.accelerate(())
    return data if isinstance(data, dict) else {}


def _block(config: Config) -> dict[str, Any]:
    block = _data(config).get(BLOCK)
    return block if isinstance(block, dict) else {}


def _local(config: Config) -> bool:
    """Whether the file is for a local machine and not for SageMaker, whose files have other keys."""
    return bool(_data(config).get("compute_environment", "LOCAL_MACHINE") == "LOCAL_MACHINE")


def _used(config: Config) -> bool:
    return bool(_data(config).get("distributed_type") == "DEEPSPEED")


def _item(path: Path, **values: Any) -> Item:
    return Item((*ACCELERATE, *path), {"key": path[-1], **values})


@fact
def accelerate_unknown(config: Config) -> Any:
    """Keys at the top that ClusterConfig does not have, with what to do (`this.advice`)."""
    from dslint.trainers.accelerate import BLOCK as INSIDE
    from dslint.trainers.accelerate import TOP

    if not _local(config):
        return []
    return [
        _item((key,), advice=f"indent it under {BLOCK}" if key in INSIDE else _near(key, TOP))
        for key in _data(config)
        if key not in TOP
    ]


def _near(key: str, known: frozenset[str]) -> str:
    from dslint.suggest import nearest

    if key == "dslint":
        return "suppress in a comment (YAML), or in the settings of dslint"
    near = nearest(key, sorted(known))
    return f"did you mean {near}?" if near else "remove it"


@fact
def accelerate_unread(config: Config) -> Any:
    """Keys of deepspeed_config that nobody reads, with what to do (`this.advice`)."""
    from dslint.trainers.accelerate import ANYWHERE
    from dslint.trainers.accelerate import BLOCK as INSIDE

    if not _used(config):
        return []
    return [
        _item((BLOCK, key), advice=_advice(key, INSIDE))
        for key in _block(config)
        if key not in INSIDE | ANYWHERE
    ]


def _advice(key: str, known: frozenset[str]) -> str:
    if key in ("fp16", "bf16"):
        return f"write mixed_precision: {key} at the top of the file"
    if key in (
        "zero_optimization",
        "optimizer",
        "scheduler",
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
    ):
        return "write it into a DeepSpeed config and name that by deepspeed_config_file"
    if key in ("offload_optimizer", "offload_param"):
        return f"write {key}_device: cpu"
    near = _near(key, known)
    return near if near != "remove it" else "remove it, or name a DeepSpeed config by deepspeed_config_file"


@fact
def accelerate_block_text(config: Config) -> Any:
    """The text that stands where deepspeed_config takes a mapping; None where none does."""
    block = _data(config).get(BLOCK)
    return block if isinstance(block, str) and block and _used(config) else None


@fact
def accelerate_block_unused(config: Config) -> Any:
    """Whether a deepspeed_config with something in it stands beside another distributed_type."""
    return bool(_block(config)) and not _used(config)


@fact
def accelerate_type_problem(config: Config) -> Any:
    """What is wrong with distributed_type, in words; None where nothing is."""
    from dslint.trainers.accelerate import DISTRIBUTED

    data = _data(config)
    if not data or not _local(config):
        return None
    if "distributed_type" not in data:
        return "no distributed_type is given"
    kind = data["distributed_type"]
    return None if kind in DISTRIBUTED else f"{kind} is no distributed_type, which are written in capitals"


def _file(config: Config) -> str | None:
    """The DeepSpeed config beside the accelerate file: named by it, or by --deepspeed of the run."""
    from dslint.formats.accelerate import names_file

    launch = config.target.launch
    named = names_file(_data(config)) if _used(config) else None
    beside = launch.config if launch is not None and launch.trainer in HF_LIKE and _used(config) else None
    return named or beside


@fact
def accelerate_ambiguous(config: Config) -> Any:
    """Keys of an accelerate file that may not stand beside deepspeed_config_file.

    `this.here` is the key, `this.there` what it stands beside, and where that sets the same.
    """
    from dslint.trainers.accelerate import AMBIGUOUS

    if config.document.format != "accelerate" or _file(config) is None:
        return []
    return [
        _item((BLOCK, key), here=key, there=f"deepspeed_config_file{_other(config, AMBIGUOUS[key])}")
        for key in _block(config)
        if key in AMBIGUOUS
    ]


def _other(config: Config, path: str) -> str:
    """Where the DeepSpeed config that the file names sets the same thing: ", and ds.json:4 sets ..."."""
    companion = config.target.companion
    place = companion.find(tuple(path.split("."))) if companion is not None else None
    if companion is None or place is None:
        return ""
    line = companion.position(place.span.start)[0]
    return f" ({companion.name}:{line} has {path} {_text(companion, place.node.span)})"


def _text(document: Document, span: Any) -> str:
    text = " ".join(document.text[span.start : span.end].split())
    return text if len(text) <= 40 else text[:37] + "..."


@fact
def accelerate_precision_beside_file(config: Config) -> Any:
    """Whether mixed_precision beside deepspeed_config_file may still be let pass by the command line."""
    return _precision_and_file(config) and not accelerate_precision_ambiguous(config)


def _precision_and_file(config: Config) -> bool:
    return _file(config) is not None and _data(config).get("mixed_precision") is not None


@fact
def accelerate_precision_ambiguous(config: Config) -> Any:
    """Whether mixed_precision stands beside deepspeed_config_file and nothing lets it pass.

    --mixed_precision on the command line would, where no other key is refused anyway.
    """
    launch = config.target.launch
    given = launch.launcher.get("given") if launch is not None else None
    without = given is not None and "mixed_precision" not in given.value
    return _precision_and_file(config) and (without or bool(accelerate_ambiguous(config)))


@fact
def accelerate_precision_problem(config: Config) -> Any:
    """What is wrong with mixed_precision, in words; None where nothing is."""
    from dslint.trainers.accelerate import PRECISIONS

    value = _data(config).get("mixed_precision")
    if value is None or not _used(config) or not _local(config):
        return None
    if not isinstance(value, str):
        if not isinstance(value, bool):
            return f"mixed_precision takes a word, and the launcher fails on {value} (AttributeError: lower)"
        read = f"YAML reads {'yes' if value else 'no'} without quotes as {str(value).lower()}"
        return f"{read}, and the launcher fails on it (AttributeError: lower)"
    if value.lower() in PRECISIONS:
        return None
    return f"the launcher knows no, fp16, bf16 and fp8, and raises a ValueError on {value}"


@fact
def accelerate_unreadable(config: Config) -> Any:
    """Values of deepspeed_config that accelerate cannot convert (`this.problem`)."""
    if not _used(config):
        return []
    block = _block(config)
    checks = {
        "zero_stage": _stage,
        "gradient_clipping": _clipping,
        "gradient_accumulation_steps": _steps,
        "zero3_init_flag": _flag,
    }
    found = []
    for key, check in checks.items():
        problem = check(block[key]) if block.get(key) is not None else None
        if problem is not None:
            found.append(_item((BLOCK, key), problem=problem, value=str(block[key])))
    return found


def _stage(value: Any) -> str | None:
    try:
        int(str(value))
    except ValueError:
        return f"DeepSpeedPlugin takes int() of it, which raises a ValueError on {value}; write 0, 1, 2 or 3"
    return None


def _clipping(value: Any) -> str | None:
    try:
        float(str(value).lower().replace("auto", "1"))
    except ValueError:
        return f"DeepSpeedPlugin takes float() of it, which raises a ValueError on {value}; write a number"
    return None


def _steps(value: Any) -> str | None:
    text = str(value).lower()
    if text.isdigit() or text == "auto":
        return None
    return f"{value} is no whole number, and int() of it raises a ValueError in Accelerator; write 1, 2, ..."


def _flag(value: Any) -> str | None:
    from dslint.trainers.accelerate import TRUTHS

    return (
        None
        if str(value).lower() in TRUTHS
        else f"accelerate raises a ValueError on {value}; write true or false"
    )


@fact
def accelerate_nvme_paths(config: Config) -> Any:
    """Offloads to NVMe, for which the launcher passes no path on: at the path, else at the device."""
    if not _used(config) or _file(config) is not None:
        return []
    block = _block(config)
    found = []
    for kind in ("offload_optimizer", "offload_param"):
        if str(block.get(f"{kind}_device")).lower() == "nvme":
            path = block.get(f"{kind}_nvme_path")
            given = f"{kind}_nvme_path {path}" if path not in (None, "none") else "a path for nvme"
            key = f"{kind}_nvme_path" if path not in (None, "none") else f"{kind}_device"
            found.append(_item((BLOCK, key), given=given))
    return found


@fact
def accelerate_clipping_zero(config: Config) -> Any:
    """Whether gradient_clipping is 0, which leaves the key out of the DeepSpeed config."""
    value = _block(config).get("gradient_clipping")
    if not _used(config) or _file(config) is not None or value is None:
        return False
    try:
        return float(str(value)) == 0
    except ValueError:
        return False


@fact
def accelerate_save_flag(config: Config) -> Any:
    """The value of zero3_save_16bit_model where it means yes to people and is no "true"; else None."""
    value = _block(config).get("zero3_save_16bit_model")
    meant = str(value).lower() in ("yes", "y", "on", "1", "t")
    return str(value) if _used(config) and _file(config) is None and meant else None


@fact
def accelerate_launch_is_multinode(config: Config) -> Any:
    """Whether several machines are started by DeepSpeed's own launcher, which needs a host file."""
    count = _data(config).get("num_machines")
    launcher = _block(config).get("deepspeed_multinode_launcher")
    several = isinstance(count, int) and not isinstance(count, bool) and count > 1
    return _used(config) and several and launcher not in ("standard", "nossh", "slurm")


@fact
def accelerate_launcher_unknown(config: Config) -> Any:
    """The name of a multi-node launcher that nobody knows; None where there is none."""
    from dslint.trainers.accelerate import LAUNCHERS

    count = _data(config).get("num_machines")
    launcher = _block(config).get("deepspeed_multinode_launcher")
    several = isinstance(count, int) and count > 1
    return launcher if _used(config) and several and launcher not in (*LAUNCHERS, None) else None


@fact
def accelerate_file_unread(config: Config) -> Any:
    """The DeepSpeed config that the file names and that could not be had; None where it was."""
    return _file(config) if config.target.companion is None else None


@fact
def accelerate_init_flag_alone(config: Config) -> Any:
    """Whether zero3_init_flag is on below stage 3."""
    value = _block(config).get("zero3_init_flag")
    on = str(value).lower() in ("y", "yes", "t", "true", "on", "1")
    stage = config.value(("zero_optimization", "stage"))
    return _used(config) and _file(config) is None and on and isinstance(stage, int) and stage < 3


@fact
def accelerate_processes_missing(config: Config) -> Any:
    """Whether num_processes is not given, or as -1."""
    data = _data(config)
    return _used(config) and _local(config) and data.get("num_processes") in (None, -1)
