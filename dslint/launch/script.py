"""The runs that a shell script starts: by deepspeed, torchrun, accelerate launch or a framework's command.

Of a launcher's own options only those that decide about DeepSpeed are kept; the options of the training
script are read as transformers.HfArgumentParser reads them.
"""

from __future__ import annotations

import os
import re
from typing import Any

from dslint.expression import UNKNOWN
from dslint.launch import Argument, Launch, Look
from dslint.launch.words import UNRESOLVED, Command, Word, commands

_FLAGS = {
    "deepspeed": {
        "module",
        "no_python",
        "no_local_rank",
        "force_multi",
        "elastic_training",
        "bind_cores_to_rank",
        "no_ssh_check",
        "no_ssh",
        "save_pid",
        "help",
    },
    "torchrun": {"standalone", "no_python", "module", "m", "run_path", "use_env", "help"},
    "accelerate": {
        "quiet",
        "q",
        "cpu",
        "multi_gpu",
        "tpu",
        "enable_cpu_affinity",
        "dynamo_use_fullgraph",
        "dynamo_use_dynamic",
        "dynamo_use_regional_compilation",
        "use_deepspeed",
        "use_fsdp",
        "use_parallelism_config",
        "use_megatron_lm",
        "same_network",
        "module",
        "m",
        "no_python",
        "tpu_cluster",
        "no_tpu_cluster",
        "tpu_use_sudo",
        "downcast_bf16",
        "fp8_use_autocast_during_eval",
        "debug",
        "help",
    },
    "python": {"m", "u", "O", "B", "s", "E", "I", "q", "v", "i"},
}
"""Options of the launchers that take no value."""

_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
_CONFIG_OPTIONS = ("deepspeed_config", "ds_config", "ds_config_path", "deepspeed_config_file")
"""Options by which scripts that call deepspeed.initialize themselves take the config."""

_DEVICES = ("CUDA_VISIBLE_DEVICES",)
_TRUE, _FALSE = ("yes", "true", "t", "y", "1"), ("no", "false", "f", "n", "0")
_INTEGER, _NUMBER = (
    re.compile(r"[-+]?[0-9]+\Z"),
    re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\Z"),
)


def launches(text: str, name: str, look: Look) -> list[Launch]:
    """Every run of a script that may use DeepSpeed, in order. `look` reads the files that it names."""
    found = []
    for command in commands(text):
        launch = _launch(command, name, look)
        if launch is not None:
            found.append(launch)
    return found


def _launch(command: Command, name: str, look: Look) -> Launch | None:
    words = command.words
    for position, word in enumerate(words):
        base = os.path.basename(word.text)
        following = words[position + 1].text if position + 1 < len(words) else ""
        rest = words[position + 1 :]
        if base in ("deepspeed", "ds") or base.startswith("deepspeed.pt"):
            return _launched("deepspeed", rest, command, name, look)
        if base == "torchrun":
            return _launched("torchrun", rest, command, name, look)
        if base == "accelerate" and following == "launch":
            return _launched("accelerate", words[position + 2 :], command, name, look)
        if base == "accelerate-launch":
            return _launched("accelerate", rest, command, name, look)
        if base in ("llamafactory-cli", "lmf") and following == "train":
            return _framework("llamafactory", words[position + 2 :], command, name, look)
        if base == "axolotl" and following == "train":
            return _framework("axolotl", words[position + 2 :], command, name, look)
        if base == "swift" and following in ("sft", "pt", "rlhf"):
            return _framework("ms-swift", words[position + 2 :], command, name, look)
        if re.match(r"python[0-9.]*\Z", base):
            return _python(rest, command, name, look)
    return None


def _python(words: list[Word], command: Command, name: str, look: Look) -> Launch | None:
    position = 0
    while position < len(words) and words[position].text.startswith("-") and words[position].text != "-m":
        position += 1
    if position + 1 < len(words) and words[position].text == "-m":
        module = words[position + 1].text
        if module in _MODULES:
            return _launched(_MODULES[module], words[position + 2 :], command, name, look)
        position += 1
    return (
        _script(words[position:], {}, command, name, look, None, 0, "python")
        if position < len(words)
        else None
    )


def _launched(launcher: str, words: list[Word], command: Command, name: str, look: Look) -> Launch | None:
    options, position = _options(words, _FLAGS[launcher])
    processes, line = _processes(launcher, options, command)
    if launcher == "accelerate":
        options, processes, line = _accelerate_file(options, processes, line, look)
    return _script(words[position:], options, command, name, look, processes, line, launcher)


def _options(words: list[Word], flags: set[str]) -> tuple[dict[str, Argument], int]:
    """A launcher's own options, and where the training script stands behind them."""
    found: dict[str, Argument] = {}
    position = 0
    while position < len(words) and words[position].text.startswith("-"):
        text, line = words[position].text, words[position].line
        position += 1
        key, equals, value = text.lstrip("-").partition("=")
        key = key.replace("-", "_")
        if equals:
            found[key] = Argument(_value(value), line)
        elif key in flags:
            found[key] = Argument(True, line)
        elif position < len(words):
            found[key] = Argument(_value(words[position].text), line)
            position += 1
    return found, position


def _value(text: str) -> Any:
    """A word as a value: a number where it looks like one, UNKNOWN where a part of it is."""
    if UNRESOLVED in text:
        return UNKNOWN
    if _INTEGER.match(text) and len(text) < 19:
        return int(text)
    return float(text) if _NUMBER.match(text) and len(text) < 60 else text


def _processes(launcher: str, options: dict[str, Argument], command: Command) -> tuple[int | None, int]:
    """The number of processes in all, as far as the command line tells, and the line that tells."""
    line = command.words[0].line
    if launcher == "deepspeed":
        if "include" in options:
            return _included(options["include"].value), options["include"].line
        if "num_gpus" in options:
            each, nodes = options["num_gpus"], options.get("num_nodes", Argument(1))
            return _product(each.value, nodes.value), each.line
        if not {"hostfile", "H", "num_nodes", "exclude", "i", "e"} & set(options):
            return _visible(command), line
        return None, 0
    if launcher == "torchrun":
        each = options.get("nproc_per_node", options.get("nproc-per-node", Argument(1, line)))
        nodes = options.get("nnodes", Argument(1))
        return _product(each.value, nodes.value), each.line
    count = options.get("num_processes")
    return (count.value, count.line) if count is not None and _whole(count.value) else (None, 0)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1_000_000


def _product(each: Any, nodes: Any) -> int | None:
    return each * nodes if _whole(each) and _whole(nodes) else None


def _included(value: Any) -> int | None:
    """How many devices `--include worker-0:0,1@worker-1:0,1` means; None where a host gives no list."""
    count = 0
    for host in str(value).split("@"):
        _, colon, devices = host.partition(":")
        numbers = [number for number in devices.split(",") if number.strip()]
        if not colon or not all(number.strip().isdigit() for number in numbers):
            return None
        count += len(numbers)
    return count or None


def _visible(command: Command) -> int | None:
    """How many devices CUDA_VISIBLE_DEVICES leaves."""
    for variable in _DEVICES:
        value = command.environment.get(variable, "")
        numbers = [number.strip() for number in value.split(",") if number.strip()]
        if numbers and all(number.isdigit() for number in numbers):
            return len(numbers)
    return None


def _accelerate_file(
    options: dict[str, Argument], processes: int | None, line: int, look: Look
) -> tuple[dict[str, Argument], int | None, int]:
    """What the --config_file of accelerate launch adds to its command line, which comes first."""
    named = options.get("config_file")
    raw = look(str(named.value)) if named is not None and isinstance(named.value, str) else None
    if raw is None or named is None:
        return options, processes, line
    from dslint.launch.files import accelerate_settings, settings_of

    settings = accelerate_settings(settings_of(raw, str(named.value)))
    merged = {**{key: Argument(value, named.line) for key, value in settings.items()}, **options}
    merged["given"] = Argument(sorted(options), named.line)
    if "num_processes" not in options and _whole(settings.get("num_processes")):
        processes, line = settings["num_processes"], named.line
    return merged, processes, line


def _script(
    words: list[Word],
    options: dict[str, Argument],
    command: Command,
    name: str,
    look: Look,
    processes: int | None,
    line: int,
    launcher: str,
) -> Launch | None:
    """A training script with its arguments."""
    if not words:
        return None
    script = words[0].text
    if script in ("axolotl.cli.train", "axolotl.cli"):
        return _framework("axolotl", words[1:], command, name, look, options, processes, line, launcher)
    arguments, complete = script_arguments(words[1:])
    trainer, config, config_line = _reader(arguments)
    if config is None and "deepspeed_config_file" in options:
        named = options["deepspeed_config_file"]
        config = named.value if isinstance(named.value, str) and named.value != "none" else None
        trainer, config_line = "accelerate" if trainer == "raw" else trainer, named.line
    if os.path.basename(script) == "sft.py" and "swift" in script:
        trainer = "ms-swift"
    elif {"finetuning_type", "template", "cutoff_len"} & set(arguments) and "stage" in arguments:
        trainer = "llamafactory"
    if config is None and trainer == "raw" and launcher == "python":
        return None
    return Launch(
        name,
        trainer,
        arguments,
        options if launcher == "accelerate" else {},
        complete,
        config,
        config_line,
        processes,
        line,
        launcher == "accelerate",
    )


def _reader(arguments: dict[str, Argument]) -> tuple[str, str | None, int]:
    """Who reads a script's arguments, and the DeepSpeed config they name."""
    for option in _CONFIG_OPTIONS:
        if option in arguments:
            argument = arguments[option]
            return "raw", argument.value if isinstance(argument.value, str) else None, argument.line
    argument = arguments.get("deepspeed", Argument(None))
    if isinstance(argument.value, str) and not argument.value.startswith("{"):
        return "hf", argument.value, argument.line
    if argument.value is UNKNOWN or "per_device_train_batch_size" in arguments:
        return "hf", None, argument.line
    return "raw", None, 0


def script_arguments(words: list[Word]) -> tuple[dict[str, Argument], bool]:
    """The arguments of a training script, and whether nothing unresolved could add to them."""
    found: dict[str, Argument] = {}
    complete = True
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.text.startswith("--"):
            complete = complete and word.known
            continue
        key, equals, text = word.text[2:].partition("=")
        key = key.replace("-", "_")
        if UNRESOLVED in key:
            complete = False
            continue
        values = [text] if equals else []
        while not equals and position < len(words) and not _is_option(words[position].text):
            values.append(words[position].text)
            position += 1
        found[key] = Argument(_argument(values), word.line)
        if not equals and values and values[-1] == UNRESOLVED and len(values) > 1:
            complete = False
    for key in [key for key in found if key.startswith("no_") and found[key].value is True]:
        found.setdefault(key[3:], Argument(False, found[key].line))
    return found, complete


def _is_option(text: str) -> bool:
    return text.startswith("-") and len(text) > 1 and not _NUMBER.match(text)


def _argument(values: list[str]) -> Any:
    if not values:
        return True
    if len(values) > 1 and UNRESOLVED not in "".join(values[1:]):
        return [_boolean(_value(value)) for value in values]
    return _boolean(_value(values[0]))


def _boolean(value: Any) -> Any:
    if isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
        return value.lower() in _TRUE
    return None if value in ("None", "null") else value


def _framework(
    trainer: str,
    words: list[Word],
    command: Command,
    name: str,
    look: Look,
    options: dict[str, Argument] | None = None,
    processes: int | None = None,
    line: int = 0,
    launcher: str = "",
) -> Launch | None:
    """A run of a framework: the arguments of its YAML file, then those of the command line."""
    from dslint.launch.files import arguments_of, rename

    arguments: dict[str, Argument] = {}
    complete = True
    named = words[0].text if words and re.search(r"\.(ya?ml|json)\Z", words[0].text) else ""
    if named:
        raw = look(named) if words[0].known else None
        complete = raw is not None
        if raw is not None:
            arguments.update(arguments_of(raw, named, trainer))
        words = words[1:]
    overrides, resolved = script_arguments([_as_option(word) for word in words])
    arguments.update(overrides)
    if processes is None:
        processes, line = _framework_processes(trainer, command)
    deepspeed = arguments.get("deepspeed", Argument(None))
    config = deepspeed.value if isinstance(deepspeed.value, str) else None
    divides = command.environment.get("SWIFT_SINGLE_DEVICE_MODE", "0") != "1"
    if trainer == "ms-swift" and not launcher and divides and (visible := _visible(command)) is not None:
        each = _value(command.environment.get("NPROC_PER_NODE", ""))
        line_of = command.words[0].line
        options = {"devices": Argument(visible, line_of), "processes_each": Argument(each, line_of)}
    return Launch(
        name,
        trainer,
        rename(trainer, arguments),
        options or {},
        complete and resolved,
        config,
        deepspeed.line,
        processes,
        line,
        launcher == "accelerate",
        named,
    )


def _as_option(word: Word) -> Word:
    """LLaMA-Factory takes key=value as well as --key value."""
    if re.match(r"[A-Za-z_]\w*=", word.text):
        return Word("--" + word.text, word.line)
    return word


def _framework_processes(trainer: str, command: Command) -> tuple[int | None, int]:
    line = command.words[0].line
    each = _value(command.environment.get("NPROC_PER_NODE", ""))
    nodes = _value(command.environment.get("NNODES", "1"))
    if _whole(each):
        return _product(each, nodes), line
    if trainer == "llamafactory" and nodes == 1:
        return _visible(command), line
    return None, 0
