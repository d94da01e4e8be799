"""What DeepSpeedConfig does with a config: accept it, or raise which exception.

In this process (DeepSpeed is imported on the first call, and its logger is silenced):

    verdict({"train_batch_size": 8}, world_size=8)        -> ("ok", "")
    verdict('{"train_batch_size": 9}', world_size=8)      -> ("AssertionError", "Check batch ...")

In another interpreter, or with another release in front of sys.path:

    verdicts(cases, python="...", pythonpath="...", legacy=False)
    python -m tests.oracle.parse [--legacy] < cases.jsonl > verdicts.jsonl

A case is {"config": object or text, "world_size": 8, "id": anything}; an answer is
{"verdict": "ok" or the exception class, "message": text} with the id, if there was one. With
"load": true the text is only read, and the answer has the "value" hjson gave. No process group is
made: DeepSpeedConfig is given the world size by replacing the name `dist` it reads.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import copy
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "DSLINT_ORACLE_PYTHON"  # names the interpreter that has DeepSpeed, where the tests' own has not


class _Null(io.TextIOBase):
    """A text stream that drops what is written to it (DeepSpeed logs and prints to stdout)."""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


class _Ranks:
    """Stands for `deepspeed.comm` where the config reads it: this rank, that world, all else real."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.world_size = 1

    def get_rank(self, *args: Any, **kwargs: Any) -> int:
        return 0

    def get_world_size(self, *args: Any, **kwargs: Any) -> int:
        return self.world_size

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def _legacy_names() -> None:
    """Names that releases before 0.14.4 import at start-up and that newer numpy and torch dropped."""
    import numpy

    if not hasattr(numpy, "BUFSIZE"):
        vars(numpy)["BUFSIZE"] = 8192
    from torch.distributed.elastic.agent.server import api

    for name, value in (
        ("log", logging.getLogger("elastic")),
        ("_get_socket_with_port", lambda: None),
        ("_get_fq_hostname", lambda: "localhost"),
    ):
        if not hasattr(api, name):
            setattr(api, name, value)


class Parser:
    """DeepSpeedConfig, ready to be called. Make one a process: `parser()`."""

    def __init__(self, legacy: bool = False) -> None:
        if legacy:
            os.environ.pop("DS_ACCELERATOR", None)
        else:
            os.environ.setdefault("DS_ACCELERATOR", "cpu")
        with contextlib.redirect_stdout(_Null()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if legacy:
                _legacy_names()
            import deepspeed
            from deepspeed.runtime import config as module
        logging.getLogger("DeepSpeed").disabled = True
        self.release: str = deepspeed.__version__
        self._config_class = module.DeepSpeedConfig
        self._module = module
        self._real_dist = module.dist
        self._ranks = _Ranks(module.dist)
        self._directory = tempfile.mkdtemp(prefix="oracle-parse-")
        atexit.register(shutil.rmtree, self._directory, ignore_errors=True)

    def _argument(self, config: dict[str, Any] | str | bytes) -> dict[str, Any] | str:
        if isinstance(config, dict):
            return copy.deepcopy(config)
        data = config.encode("utf-8", "surrogatepass") if isinstance(config, str) else config
        path = os.path.join(self._directory, "ds_config.json")
        with open(path, "wb") as file:
            file.write(data)
        return path

    def __call__(self, config: dict[str, Any] | str | bytes, world_size: int = 1) -> tuple[str, str]:
        """("ok", "") or (exception class name, message)."""
        argument = self._argument(config)
        self._ranks.world_size = world_size
        self._module.dist = self._ranks
        try:
            with contextlib.redirect_stdout(_Null()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._config_class(argument)
        except Exception as error:
            return type(error).__name__, str(error)
        finally:
            self._module.dist = self._real_dist
        return "ok", ""

    def load(self, text: str | bytes) -> tuple[str, str, Any]:
        """What DeepSpeed's reader makes of a text: ("ok", "", value) or (class, message, None)."""
        import hjson

        hook = self._module.dict_raise_error_on_duplicate_keys
        try:
            with open(str(self._argument(text))) as file:  # as DeepSpeed opens it
                return "ok", "", hjson.load(file, object_pairs_hook=hook)
        except Exception as error:
            return type(error).__name__, str(error), None


_parser: Parser | None = None


def parser() -> Parser:
    """The parser of this process; the first call imports DeepSpeed (seconds)."""
    global _parser
    if _parser is None:
        _parser = Parser()
    return _parser


def verdict(config: dict[str, Any] | str | bytes, world_size: int = 1) -> tuple[str, str]:
    """What DeepSpeedConfig does with a config: ("ok", "") or (exception class name, message).

    An object is passed as a deep copy. Text is written to a file and the path is passed, so that hjson
    and the duplicate-key hook run. The two can differ for one content: DeepSpeedConfig looks for
    "sequence_parallel_size" in its argument, which for a path is the path's text, so only an object's
    value divides the world size. deepspeed.initialize(config=path) reads the file first and passes the
    object; for what a training run does with a text, give this function `load(text)`'s value.
    """
    return parser()(config, world_size)


def load(text: str | bytes) -> tuple[str, str, Any]:
    """What DeepSpeed's reader (hjson, with its duplicate-key hook) makes of a text: ("ok", "", value) or
    (exception class name, message, None)."""
    return parser().load(text)


def release() -> str:
    """The DeepSpeed release of this process."""
    return parser().release


def head(message: str, limit: int = 160) -> str:
    """A message on one line, cut: for records that are compared across machines and read by people."""
    return " ".join(message.split())[:limit]


def verdicts(
    cases: Iterable[dict[str, Any]],
    *,
    python: str | None = None,
    pythonpath: str | None = None,
    legacy: bool = False,
    timeout: float | None = None,
) -> list[dict[str, Any]]:
    """The worker's answers for cases, in another interpreter (`python`) or with directories put first on
    its path (`pythonpath`). RuntimeError with the end of its stderr if the worker dies."""
    environment = dict(os.environ)
    environment.pop("DS_ACCELERATOR", None)
    parts = [pythonpath or "", str(ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(part for part in parts if part)
    command = [python or os.environ.get(PYTHON) or sys.executable, "-m", "tests.oracle.parse"]
    command += ["--legacy"] if legacy else []
    lines = [json.dumps(case) for case in cases]
    done = subprocess.run(
        command,
        input="".join(line + "\n" for line in lines),
        env=environment,
        cwd=ROOT,
        timeout=timeout,
        text=True,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or len(answers) != len(lines):
        raise RuntimeError(f"oracle worker ended with {done.returncode}: {done.stderr[-2000:]}")
    return answers


def _answers(lines: Iterable[str], legacy: bool) -> Iterator[dict[str, Any]]:
    parse = Parser(legacy)
    for line in lines:
        if not line.strip():
            continue
        case = json.loads(line)
        answer: dict[str, Any] = {}
        if case.get("load"):
            answer["verdict"], answer["message"], answer["value"] = parse.load(case["config"])
        else:
            answer["verdict"], answer["message"] = parse(case["config"], case.get("world_size", 1))
        if "id" in case:
            answer["id"] = case["id"]
        yield answer


def main(arguments: list[str] | None = None) -> int:
    """JSON lines in, JSON lines out; nothing else reaches stdout."""
    options = argparse.ArgumentParser(prog="python -m tests.oracle.parse", description=main.__doc__)
    options.add_argument("--legacy", action="store_true", help="for DeepSpeed before 0.14.4")
    options.add_argument("--release", action="store_true", help="print the release and end")
    chosen = options.parse_args(arguments)
    answers_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if chosen.release:
        answers_to.write(Parser(chosen.legacy).release + "\n")
        answers_to.flush()
        return 0
    with open(0, encoding="utf-8", closefd=False) as lines:
        for answer in _answers(lines, chosen.legacy):
            answers_to.write(json.dumps(answer) + "\n")
            answers_to.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
