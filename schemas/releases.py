"""DeepSpeed releases: where to get them and how to run something inside one."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIRST = (0, 9, 0)
FIRST_WITH_PYDANTIC_2 = (0, 14, 4)
DEFAULT_CACHE = Path(os.environ.get("DSLINT_SCHEMA_CACHE", Path.home() / ".cache" / "dslint-schemas"))

RELEASES = [
    "0.9.0",
    "0.9.1",
    "0.9.2",
    "0.9.3",
    "0.9.4",
    "0.9.5",
    "0.10.0",
    "0.10.1",
    "0.10.2",
    "0.10.3",
    "0.11.0",
    "0.11.1",
    "0.11.2",
    "0.12.0",
    "0.12.1",
    "0.12.2",
    "0.12.3",
    "0.12.4",
    "0.12.5",
    "0.12.6",
    "0.13.0",
    "0.13.1",
    "0.13.2",
    "0.13.3",
    "0.13.4",
    "0.13.5",
    "0.14.0",
    "0.14.1",
    "0.14.2",
    "0.14.3",
    "0.14.4",
    "0.14.5",
    "0.15.0",
    "0.15.1",
    "0.15.2",
    "0.15.3",
    "0.15.4",
    "0.16.0",
    "0.16.1",
    "0.16.2",
    "0.16.3",
    "0.16.4",
    "0.16.5",
    "0.16.6",
    "0.16.7",
    "0.16.8",
    "0.16.9",
    "0.17.0",
    "0.17.1",
    "0.17.2",
    "0.17.3",
    "0.17.4",
    "0.17.5",
    "0.17.6",
    "0.18.0",
    "0.18.1",
    "0.18.2",
    "0.18.3",
    "0.18.4",
    "0.18.5",
    "0.18.6",
    "0.18.7",
    "0.18.8",
    "0.18.9",
    "0.19.0",
    "0.19.1",
    "0.19.2",
    "0.19.3",
    "0.19.4",
    "0.19.5",
    "0.19.6",
    "0.19.7",
    "0.19.8",
]
"""What `build.py --all` makes, beside whatever index.json names."""


class Failed(Exception):
    """A release could not be installed or asked."""


def version(release: str) -> tuple[int, ...]:
    """A release as a tuple that sorts."""
    return tuple(int(part) for part in release.split("."))


def installed() -> str | None:
    """The DeepSpeed release of this environment, without importing it."""
    try:
        return importlib.metadata.version("deepspeed").split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def _environment(release: str, cache: Path, folder: Path | None) -> dict[str, str]:
    """Environment variables under which a release installs and imports."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DS_")}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["PYTHONHASHSEED"] = "0"  # the same schema every time
    env["DS_BUILD_OPS"] = "0"
    paths = [str(folder)] if folder is not None else []
    if version(release) < FIRST_WITH_PYDANTIC_2:
        paths.insert(0, str(cache / "pydantic1"))
    else:
        env["DS_ACCELERATOR"] = "cpu"
    env["PYTHONPATH"] = os.pathsep.join(paths)
    return env


def _pip(target: Path, requirement: str, env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    command += ["--target", str(target), requirement]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"pip could not install {requirement}:\n{done.stderr.strip()[-2000:]}")


def fetch(release: str, cache: Path) -> Path | None:
    """Install a release into the cache. None: the environment's own is that release."""
    if release == installed():
        return None
    folder = cache / "rel" / release
    if version(release) < FIRST_WITH_PYDANTIC_2 and not (cache / "pydantic1" / "pydantic").is_dir():
        _pip(cache / "pydantic1", "pydantic<2", {**os.environ})
        _pip(cache / "pydantic1", "typing_extensions", {**os.environ})
    if not (folder / ".done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _pip(folder, f"deepspeed=={release}", _environment(release, cache, None))
        (folder / ".done").touch()
    return folder


def root(release: str, cache: Path) -> Path:
    """The package folder of a release."""
    folder = fetch(release, cache)
    if folder is not None:
        return folder / "deepspeed"
    found = importlib.util.find_spec("deepspeed")
    if found is None or not found.submodule_search_locations:
        raise Failed("deepspeed is not installed")
    return Path(found.submodule_search_locations[0])


def ask(release: str, cache: Path, *arguments: str) -> dict[str, Any]:
    """Run worker.py inside a release."""
    folder = fetch(release, cache)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "out.json"
        done = subprocess.run(
            [sys.executable, str(HERE / "worker.py"), str(output), *arguments],
            env=_environment(release, cache, folder),
            cwd=scratch,
            capture_output=True,
            text=True,
        )
        if done.returncode or not output.exists():
            raise Failed(f"worker.py failed in DeepSpeed {release}:\n{done.stderr.strip()[-3000:]}")
        answer: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    if answer.get("release") != release:
        raise Failed(f"asked DeepSpeed {answer.get('release')} instead of {release}")
    return answer
