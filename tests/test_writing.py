"""A file is replaced whole or not at all, whatever ends the work or stands in its way."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dslint.fixing import writing
from dslint.fixing.writing import WriteError, replace
from tests.killing import killed_at

OLD, NEW = b"old " * 99_999, b"new " * 199_999
"""Of several pages, so that a write may end in the middle."""


@pytest.fixture(params=["a file", "a link", "a link to a link"])
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file to replace, by a name that leads to real/ds.json."""
    monkeypatch.chdir(tmp_path)
    for folder in ("real", "links"):
        Path(folder).mkdir()
    os.symlink("../real/ds.json", "links/one.json")
    os.symlink("links/one.json", "two.json")
    return {"a file": "real/ds.json", "a link": "links/one.json"}.get(request.param, "two.json")


def prepare() -> None:
    for path in Path("real").iterdir():
        path.unlink()
    Path("real/ds.json").write_bytes(OLD)
    os.chmod("real/ds.json", 0o640)


def is_whole() -> bool:
    """Whether the new file is there; fails unless it is that or the old one, with its mode and its links."""
    assert os.path.islink("two.json") and os.readlink("links/one.json") == "../real/ds.json"
    assert os.stat("real/ds.json").st_mode & 0o777 == 0o640
    there = Path("two.json").read_bytes()
    assert there in (OLD, NEW), f"a third file of {len(there)} bytes"
    return there == NEW


@pytest.mark.skipif(sys.platform != "linux", reason="children are traced as Linux does it")
def test_killed_at_any_system_call(name: str) -> None:
    seen, step, killed = [], 0, True
    while killed:
        step += 1
        prepare()
        killed = killed_at(step, lambda: replace(name, OLD, NEW))
        seen.append(is_whole())
    assert seen == sorted(seen) and seen[-1], "once the new file is there, it stays"
    assert step > 40 and 5 < sum(seen) < step - 20


def failing(step: int, number: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets the step-th call that may fail do so; the names of the calls as they are made."""
    calls: list[str] = []

    def hooked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            if len(calls) == step:
                raise OSError(number, os.strerror(number))
            return function(*args, **kwargs)

        return call

    class Half:
        """A file that is full in the middle of what is written to it."""

        def __init__(self, file: Any) -> None:
            self.file, self.flush, self.fileno = file, file.flush, file.fileno

        def __enter__(self) -> Half:
            return self

        def __exit__(self, *rest: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            hooked("write", self.file.write)(data[len(data) // 2 :])

    def opened(path: Any, mode: str) -> Any:
        file = hooked("read" if mode == "rb" else "fdopen", open)(path, mode)
        return file if mode == "rb" else Half(file)

    names = ("stat", "access", "fchown", "chmod", "fsync", "replace", "open", "close")
    hooks = {name: hooked(name, getattr(os, name)) for name in names}
    real = {name: getattr(os, name) for name in ("path", "W_OK", "O_RDONLY", "unlink")}
    monkeypatch.setattr(writing, "os", SimpleNamespace(**real, **hooks))
    made = SimpleNamespace(mkstemp=hooked("mkstemp", tempfile.mkstemp))
    monkeypatch.setattr(writing, "tempfile", made)
    monkeypatch.setattr(writing, "open", opened, raising=False)
    return calls


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO, errno.EROFS, errno.EBUSY])
def test_an_error_of_any_call(name: str, number: int) -> None:
    met: set[str] = set()
    for step in range(1, 99):
        prepare()
        with pytest.MonkeyPatch.context() as patch:
            calls = failing(step, number, patch)
            try:
                said, written = "", replace(name, OLD, NEW)
            except WriteError as error:
                said, written = str(error), False
        assert os.listdir("real") == ["ds.json"], "nothing is left beside it"
        assert is_whole() == written
        assert written or (said.startswith(f"{name}: ") and os.strerror(number) in said)
        met.update(calls[step - 1 :][:1])
        if len(calls) < step:
            break
    else:
        pytest.fail("never came to an end")
    assert {"read", "mkstemp", "write", "fsync", "replace", "chmod", "fdopen"} <= met


BAD = '{"train_batch_size": 8, "amp": {"enabled": false}}\n'


@pytest.fixture
def fix(tmp_path: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """`dslint --fix ds.json` in a folder, in a process that something was done to; its exit code, what it says."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "ds.json").write_text(BAD)

    def run(before: Callable[[], object]) -> tuple[int, str]:
        argv = [sys.executable, "-m", "dslint", "--fix", "ds.json", "--isolated", "--deepspeed", "0.19.8"]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(argv, cwd=folder, env=env, preexec_fn=before, capture_output=True, text=True)
        assert (folder / "ds.json").read_text() == BAD
        assert os.listdir(folder) == ["ds.json"]
        assert "removed-key" in done.stdout, "it is linted all the same"
        return done.returncode, done.stderr

    yield run
    folder.chmod(0o755)


def test_a_full_disk(fix: Callable[..., tuple[int, str]]) -> None:
    """The kernel takes the first bytes and refuses the rest, as it does where a quota or a disk is full."""
    code, said = fix(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)))
    assert (code, said) == (2, "dslint: ds.json: not fixed: File too large\n")


def test_a_folder_that_cannot_be_written(fix: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    def mere_owner() -> None:
        """Root writes everywhere, but for these capabilities, which the program that follows does not get."""
        for capability in range(
            4 if os.geteuid() == 0 else 0
        ):  # chown, dac_override, dac_read_search, fowner
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)

    (tmp_path / "folder").chmod(0o555)
    code, said = fix(mere_owner)
    assert code == 2
    assert said == (
        "dslint: ds.json: not fixed: Permission denied; its folder must be writable, for the new file is made"
        " there first\n"
    )


def test_a_file_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one on a mount for reading, where the mode of the file says that it may be written."""
    (tmp_path / "ds.json").write_bytes(OLD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(WriteError, match="its owner or its mount"):
        replace("ds.json", OLD, NEW)
    assert Path("ds.json").read_bytes() == OLD
