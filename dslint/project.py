"""Which files belong together: an accelerate file and the config it names, a launch script and its config.

Nothing here touches the file system: `look` reads what a file names, and the command line decides where it
may look.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dslint.discover import tells_more
from dslint.document import Document
from dslint.launch import Launch, Look

SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
STARTING = (*SCRIPTS, ".yaml", ".yml", ".json")
"""Suffixes of files that may start a run."""

STARTERS = (b"deepspeed", b"accelerate", b"llamafactory", b"axolotl", b"swift")
"""One of these stands in every file that does."""

CONFIG_KEYS = ("zero_optimization", "train_micro_batch_size_per_gpu")
"""Keys that arguments of a run do not have at their top."""

MAX_RUNS = 50
"""How many runs of one config are judged."""


@dataclass(slots=True)
class Job:
    """A file to lint, the runs that name it, and the file that belongs to it."""

    name: str
    raw: bytes
    launches: list[Launch] = field(default_factory=list)
    companion: Document | None = None


def plan(inputs: Iterable[tuple[str, bytes]], runs: Iterable[Launch], look: Look) -> list[Job]:
    """The jobs for some files: what they name is linted with them, and told of the run that names it."""
    jobs: dict[str, Job] = {}
    for name, raw in inputs:
        jobs.setdefault(os.path.normpath(name), Job(name, raw))
    for job in list(jobs.values()):
        for launch, document in _describes(job):
            found = find(launch.config, job.name, look)
            if found is None:
                continue
            other = _job(jobs, *found)
            other.launches.append(launch)
            if document.format == "accelerate":
                other.companion = other.companion or document
                job.companion = _read(other)
    for run in runs:
        _attach(jobs, run, look)
    for job in jobs.values():
        del job.launches[MAX_RUNS:]
    return list(jobs.values())


def _attach(jobs: dict[str, Job], run: Launch, look: Look) -> None:
    """Tells the files that a run names about it, as far as they are linted, and about one another.

    What an accelerate file or a file of arguments alone says of a run gives way to the command that is given
    the file.
    """
    if accelerate_file(run) == run.name:
        return
    both = []
    for path in (run.config, accelerate_file(run)):
        found = find(path, run.name, look) or find(path, run.via, look)
        job = jobs.get(os.path.normpath(found[0])) if found is not None else None
        if job is not None and run not in job.launches:
            if run.via:
                job.launches = [known for known in job.launches if not same_file(run.via, known.name)]
            if not any(known.via and same_file(known.via, run.name) for known in job.launches):
                job.launches.append(run)
        both.append(job)
    config, accelerate = both
    if config is not None and accelerate is not None and config is not accelerate:
        config.launches = [known for known in config.launches if known.name != accelerate.name]
        config.companion = config.companion or _read(accelerate)
        accelerate.companion = accelerate.companion or _read(config)


def same_file(path: str, name: str) -> bool:
    """Whether a path, as a command has it, may mean a file of this name."""
    return os.path.normpath(name).endswith(os.path.normpath(path).lstrip("./"))


def accelerate_file(run: Launch) -> str | None:
    """The config file that accelerate launch is given."""
    named = run.launcher.get("config_file")
    return str(named.value) if named is not None and isinstance(named.value, str) else None


def _job(jobs: dict[str, Job], name: str, raw: bytes) -> Job:
    return jobs.setdefault(os.path.normpath(name), Job(name, raw))


def _read(job: Job) -> Document:
    from dslint.formats import read_bytes

    return read_bytes(job.raw, job.name)


def _describes(job: Job) -> Iterator[tuple[Launch, Document]]:
    """The run that a file describes and that names a config file, if it does."""
    if not tells_more(job.name, job.raw):
        return
    from dslint.launch.files import accelerate_launch, read

    document = _read(job)
    if document.format == "accelerate":
        launch = accelerate_launch(document)
    elif document.format == "arguments":
        launch = read(document)
    else:
        return
    if launch.config is not None:
        yield launch, document


def find(path: str | None, named_by: str, look: Look) -> tuple[str, bytes] | None:
    """The file that another one names: from here, from beside that other one, or from above it."""
    if not path:
        return None
    for candidate in candidates(path, named_by):
        raw = look(candidate)
        if raw is not None:
            return candidate, raw
    return None


def candidates(path: str, named_by: str) -> Iterator[str]:
    """Where a path in a file may lead: the working directory, the file's directory, those above it."""
    yield path
    if os.path.isabs(path):
        return
    folder = os.path.dirname(named_by)
    while folder:
        yield os.path.join(folder, path)
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def beside(named_by: str, look: Look) -> Look:
    """`look` for the paths in one file."""

    def looks(path: str) -> bytes | None:
        found = find(path, named_by, look)
        return None if found is None else found[1]

    return looks


def runs_of(name: str, raw: bytes, look: Look) -> list[Launch]:
    """Every run that a file of arguments or a script describes. Raises ValueError where it cannot be read."""
    if name.lower().endswith((".json", ".yaml", ".yml")):
        from dslint.formats import read_bytes
        from dslint.launch.files import accelerate_launch, read

        document = read_bytes(raw, name)
        if document.problems or document.root is None:
            problem = document.problems[0] if document.problems else None
            raise ValueError(problem.message if problem is not None else "it holds nothing")
        if any(member.key in CONFIG_KEYS for member in document.root.members):
            raise ValueError("it is a DeepSpeed config; give what starts the run, arguments or a script")
        return [accelerate_launch(document) if document.format == "accelerate" else read(document)]
    from dslint.launch.script import launches

    return launches(raw.decode("utf-8", "replace"), name, beside(name, look))


def runs_among(files: Iterable[tuple[str, bytes]], configs: Iterable[str], look: Look) -> list[Launch]:
    """Every run that some files describe and that may name one of the configs; what cannot be read is passed
    over."""
    wanted = {_bytes(config) for config in configs}
    found: list[Launch] = []
    scripts: list[tuple[str, bytes]] = []
    for name, raw in files:
        if name.lower().endswith(SCRIPTS):
            scripts.append((name, raw))
        elif b"deepspeed" in raw and any(word in raw for word in wanted):
            found += _readable(name, raw, look)
    wanted |= {_bytes(run.name) for run in found}
    for name, raw in scripts:
        if any(word in raw for word in STARTERS) and any(word in raw for word in wanted):
            found += _readable(name, raw, look)
    return found


def _bytes(name: str) -> bytes:
    """The last part of a file's name as it stands in other files, also where it is no UTF-8."""
    return os.path.basename(name).encode("utf-8", "surrogateescape")


def _readable(name: str, raw: bytes, look: Look) -> list[Launch]:
    """The runs of a file that name a config; [] where it cannot be read."""
    try:
        runs = runs_of(name, raw, look)
    except ValueError:
        return []
    return [run for run in runs if run.config is not None or accelerate_file(run) is not None]


def _nowhere(runs: list[Launch]) -> str:
    """Why none of the configs that runs name can be linted, in words."""
    names = sorted({run.config for run in runs if run.config})
    if names and all(run.trainer == "ms-swift" for run in runs) and not any("." in name for name in names):
        return f"it names {', '.join(names)}, a config that ms-swift brings along; give the path of a file"
    return (
        f"it names {', '.join(names) or 'no config'}, which is not to be found from here; "
        "give the config's path"
    )


def asked(inputs: list[tuple[str, bytes]], runs: list[Launch], look: Look) -> list[Job]:
    """The jobs where a person said which run the configs belong to. Raises ValueError where none does."""
    if not runs:
        raise ValueError("it starts no run with DeepSpeed (deepspeed, torchrun, accelerate launch, ...)")
    if not inputs:
        paths = [(run, path) for run in runs for path in (accelerate_file(run), run.config)]
        found = [find(path, run.name, look) or find(path, run.via, look) for run, path in paths]
        inputs = list(dict.fromkeys(entry for entry in found if entry is not None))
        if not inputs:
            raise ValueError(_nowhere(runs))
    jobs = plan(inputs, [run for run in runs if accelerate_file(run) is not None], look)
    for job in jobs:
        base = os.path.basename(job.name)
        meant = [run for run in runs if run.config and os.path.basename(run.config) == base]
        silent = [run for run in runs if run.config is None]
        if not meant and not silent and len(runs) > 1:
            raise ValueError(f"it starts {len(runs)} runs, and none names {job.name}")
        kind = _read(job).format if tells_more(job.name, job.raw) else "json"
        if kind not in ("accelerate", "arguments"):
            launches = [*(meant or silent or runs), *job.launches]
            job.launches = [run for i, run in enumerate(launches) if run not in launches[:i]]
    return jobs
