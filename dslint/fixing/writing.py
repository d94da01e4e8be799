"""Replacing a file: the old or the new one is there at every moment, never a part of either."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress

_CURES = {
    errno.EACCES: "its folder must be writable, for the new file is made there first",
    errno.EBUSY: "it is a mount of its own, which cannot be replaced; mount its folder",
    errno.ENOSPC: "make room for a second copy of it",
}
"""What to do about an error of the system; the file itself was found readable and writable before."""


class WriteError(Exception):
    """A file that was not replaced; the message is one line that names it."""


def replace(name: str, old: bytes, new: bytes) -> bool:
    """Gives a file new content if it still has the old; whether it was written. Raises WriteError.

    The mode, and the owner where that is allowed, stay. A symlink stays too: what it leads to is replaced.
    """
    path = os.path.realpath(name)
    try:
        with open(path, "rb") as file:
            there = file.read()
        if there == new:
            return False
        if there != old:
            raise WriteError(
                f"{name}: changed while it was being fixed, so it was left alone; run dslint again"
            )
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise WriteError(f"{name}: not a regular file, so it was not fixed")
        if not status.st_mode & 0o222:
            raise WriteError(f"{name}: read-only, so it was not fixed; make it writable first: chmod u+w")
        if not os.access(path, os.W_OK):
            raise WriteError(f"{name}: not fixed: its owner or its mount does not let this user write it")
        _swap(path, new, status)
    except OSError as error:
        cure = f"; {_CURES[error.errno]}" if error.errno in _CURES else ""
        raise WriteError(f"{name}: not fixed: {error.strerror or error}{cure}") from None
    return True


def _swap(path: str, new: bytes, status: os.stat_result) -> None:
    folder = os.path.dirname(path)
    handle, beside = tempfile.mkstemp(prefix=".dslint-", suffix=".tmp", dir=folder)
    try:
        with open(handle, "wb") as file:
            file.write(new)
            file.flush()
            if hasattr(os, "fchown"):
                with suppress(OSError):  # only root may give files away
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.chmod(beside, stat.S_IMODE(status.st_mode))
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    _keep(folder)


def _keep(folder: str) -> None:
    """Asks that the new entry of a folder outlives a power cut; not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
