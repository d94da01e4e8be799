"""What the user says about the run: the target, and the settings files that a repository keeps.

Settings stand in dslint.toml, or in pyproject.toml under [tool.dslint]; their names are those of the flags.
Sections [[files]] (in pyproject.toml [[tool.dslint.files]]) hold for the files that their `match` means.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dslint.errors import UsageError
from dslint.releases import number

if TYPE_CHECKING:
    from dslint.document import Document
    from dslint.launch import Launch
    from dslint.memory.workload import Workload

TRAINERS = ("raw", "hf", "accelerate", "lightning", "llamafactory", "axolotl", "ms-swift")
"""Who hands the config to DeepSpeed; raw: the user's own script does."""


class Target(NamedTuple):
    """What a config is judged for.

    `gpus` counts processes, one GPU each; None: unknown, and rules that need it stay silent.
    `release_reason` and `trainer_reason` say in words why these were chosen. `rival` is another
    trainer that the file may be for, where nothing tells; "" where something does. `launch` is the run that
    names the config, where it is known; `companion` the file that belongs to it: the accelerate config
    that names this DeepSpeed config, or the DeepSpeed config that this accelerate config names.
    `workload` is the model and the machine, for rules about memory; None: nothing is said about them.
    """

    release: str
    trainer: str = "raw"
    gpus: int | None = None
    release_reason: str = "given"
    trainer_reason: str = "given"
    launch: Launch | None = None
    companion: Document | None = None
    workload: Workload | None = None
    rival: str = ""

    @property
    def release_number(self) -> tuple[int, ...]:
        """The release as numbers to compare."""
        return number(self.release)


TEXT, NUMBER, AMOUNT, SWITCH, WORDS, SEVERITIES = (
    "text", "a whole number", "a number or text", "true or false", "a list of texts",
    "a table of rules, each with error, warning or info",
)  # fmt: skip

FILE_KEYS: Final[dict[str, str]] = {
    "deepspeed": TEXT,
    "trainer": TEXT,
    "gpus": NUMBER,
    "select": WORDS,
    "ignore": WORDS,
    "severity": SEVERITIES,
    "fail-on": TEXT,
    "model": TEXT,
    "seq-len": NUMBER,
    "method": TEXT,
    "trainable-params": AMOUNT,
    "gpu-type": TEXT,
    "gpu-memory": TEXT,
    "gpus-per-node": NUMBER,
    "interconnect": TEXT,
    "host-memory": TEXT,
    "micro-batch": NUMBER,
    "gradient-accumulation": NUMBER,
    "checkpointing": TEXT,
    "attention": TEXT,
    "fused-loss": SWITCH,
    "no-zero-init": SWITCH,
}
"""Settings that may differ from file to file, and what they take."""

KEYS: Final[dict[str, str]] = {
    **FILE_KEYS,
    "rules": WORDS,  # folders of a team's own rules
    "baseline": TEXT,
    "exclude": WORDS,
}
"""All settings, and what they take."""

NAMES: Final = ("dslint.toml", "pyproject.toml")
MAX_BYTES: Final = 1_000_000


class FileSection(NamedTuple):
    """Settings for the files whose path, from the folder of the settings file, one of the globs means."""

    match: tuple[str, ...]
    values: Mapping[str, Any]
    where: str


@dataclass(frozen=True, slots=True)
class Settings:
    """One settings file. `values` are by name in KEYS, as TOML has them, of the right types.

    `folder` is where globs and paths start; `where` names the file and table for people.
    """

    where: str = ""
    folder: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    sections: tuple[FileSection, ...] = ()

    def for_file(self, path: str) -> tuple[FileSection, ...]:
        """The sections that hold for a file; of two that say something the later one counts."""
        if not self.sections:
            return ()
        inside = relative(path, self.folder)
        return tuple(section for section in self.sections if matches(section.match, inside))

    def excludes(self, path: str) -> bool:
        """Whether `exclude` means a file."""
        globs = self.values.get("exclude", ())
        return bool(globs) and matches(globs, relative(path, self.folder))


def relative(path: str, folder: str) -> str:
    """A path from a folder, with slashes."""
    try:
        return os.path.relpath(path, folder).replace(os.sep, "/")
    except ValueError:  # on another drive
        return path.replace(os.sep, "/")


def matches(globs: Iterable[str], path: str) -> bool:
    """Whether one of the globs means a path: the file itself, or a folder it lies in.

    `*` stops at a slash and `**` does not; a glob without a slash inside means names at any depth.
    """
    names = path.split("/")
    return any(_matches(glob, names) for glob in globs)


def _matches(glob: str, names: list[str]) -> bool:
    from fnmatch import fnmatchcase

    parts = glob.strip("/").split("/")
    if "/" not in glob.rstrip("/"):
        parts.insert(0, "**")

    def onward(reached: set[int]) -> set[int]:
        for i, part in enumerate(parts):
            if i in reached and part == "**":
                reached.add(i + 1)
        return reached

    reached = onward({0})  # how many parts of the glob the names so far may have used up
    for name in names:
        step = {i for i in reached if i < len(parts) and parts[i] == "**"}
        step |= {i + 1 for i in reached if i < len(parts) and fnmatchcase(name, parts[i])}
        reached = onward(step)
        if len(parts) in reached:
            return True
    return False


def nearest(folder: str, known: dict[str, Settings | None] | None = None) -> Settings | None:
    """The settings of the nearest file above a folder, up to the root of its repository.

    `known` are the folders that were looked at before; those passed on the way are added.
    """
    known = {} if known is None else known
    passed: list[str] = []
    found: Settings | None = None
    while folder not in known:
        passed.append(folder)
        paths = [os.path.join(folder, name) for name in NAMES]
        found = next(filter(None, (read(path) for path in paths if not _waits(path))), None)
        above = os.path.dirname(folder)
        if found is not None or above == folder or os.path.exists(os.path.join(folder, ".git")):
            break
        folder = above
    else:
        found = known[folder]
    known.update(dict.fromkeys(passed, found))
    return found


def _waits(path: str) -> bool:
    """Whether reading would wait for somebody to write: a pipe that a search should not fall into."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False  # absent, or told about when it is read


def read(path: str, folder: str | None = None) -> Settings | None:
    """The settings of one file; None where there are none. Raises UsageError, which names the file.

    A pyproject.toml that does not mention dslint is not parsed, be it broken or not.
    """
    shown = _shown(path)
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{shown}: {getattr(error, 'strerror', None) or error}") from None
    in_project = os.path.basename(path) == "pyproject.toml"
    if in_project and b"dslint" not in raw:
        return None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{shown}: larger than {MAX_BYTES:,} bytes")
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        table: Any = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{shown}: not readable as TOML: {reason}") from None
    where = shown
    if in_project:
        where = f"{shown} [tool.dslint]"
        tool = table.get("tool")
        table = tool.get("dslint") if isinstance(tool, dict) else None
        if table is None:
            return None
    return checked(table, where, folder or os.path.dirname(os.path.abspath(path)))


def _shown(path: str) -> str:
    """A path as short as it can be written from here."""
    try:
        return min(os.path.relpath(path), path, key=len)
    except (OSError, ValueError):
        return path


def checked(table: Any, where: str, folder: str) -> Settings:
    """The settings of a table, every name known and every value of its type. Raises UsageError."""
    if not isinstance(table, dict):
        raise UsageError(f"{where}: settings are a table of name = value")
    values = {key: value for key, value in table.items() if key != "files"}
    _check(values, KEYS, ("files",), where)
    sections = table.get("files", [])
    if not isinstance(sections, list) or not all(isinstance(section, dict) for section in sections):
        raise UsageError(f'{where}: files: a [[...files]] table for each section, with match = ["glob"]')
    found = []
    for number_, section in enumerate(sections, 1):
        place = f"{where} files, section {number_}"
        match = section.get("match")
        globs = (match,) if isinstance(match, str) else tuple(match) if isinstance(match, list) else ()
        if not globs or not all(isinstance(glob, str) and glob.strip("/") for glob in globs):
            raise UsageError(f'{place}: match: give the files it is for, such as match = ["configs/big/**"]')
        rest = {key: value for key, value in section.items() if key != "match"}
        _check(rest, FILE_KEYS, ("match",), place)
        found.append(FileSection(globs, rest, f"{place} ({', '.join(globs)})"))
    return Settings(where, folder, values, tuple(found))


def _check(values: dict[str, Any], kinds: Mapping[str, str], others: tuple[str, ...], where: str) -> None:
    for key, value in values.items():
        if key not in kinds:
            from dslint.suggest import nearest as nearest_name

            near = nearest_name(key, (*kinds, *others))
            from dslint.arguments import arguments

            if key in KEYS:
                hint = "; it holds for all files: set it outside the sections"
            elif f"--{key}" in arguments().by_flag:
                hint = f"; it is only a flag, --{key}"
            else:
                hint = f"; did you mean {near}?" if near else f"; known: {', '.join((*kinds, *others))}"
            raise UsageError(f"{where}: unknown setting {key}{hint}")
        if not _is_of(value, kinds[key]):
            raise UsageError(f"{where}: {key} takes {kinds[key]}")


def _is_of(value: Any, kind: str) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind == TEXT:
        return isinstance(value, str) and bool(value)
    if kind in (NUMBER, AMOUNT):
        return whole or (kind == AMOUNT and isinstance(value, str))
    if kind == SWITCH:
        return isinstance(value, bool)
    if kind == WORDS:
        return isinstance(value, list) and all(isinstance(word, str) and word for word in value)
    return isinstance(value, dict) and all(word in ("error", "warning", "info") for word in value.values())
