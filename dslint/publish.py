"""Reports to where they were asked for: standard output, a file, several files in several formats."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Sequence

from dslint.errors import UsageError
from dslint.finding import FileReport
from dslint.memory.arguments import FORMATS as ESTIMATE_FORMATS
from dslint.report import FORMATS, renderer

_NAMED = re.compile(r"([a-z]+)=(.*)\Z", re.DOTALL)


def settle(args: argparse.Namespace) -> None:
    """Of all `--output`, `args.output` becomes the file of the report and `args.outputs` those with a format.

    Raises UsageError.
    """
    plain, args.outputs = [], []
    for text in args.output or ():
        match = _NAMED.match(text)
        if match is None:
            plain.append(text)
        elif match[1] in (*FORMATS, *ESTIMATE_FORMATS):
            args.outputs.append((match[1], match[2]))
        else:
            from dslint.suggest import nearest

            near = nearest(match[1], FORMATS)
            hint = f"did you mean {near}?" if near else f"known: {', '.join(FORMATS)}"
            raise UsageError(f"--output {text}: no format is called {match[1]}; {hint}")
    if len(plain) > 1:
        raise UsageError("of several --output, each needs its format: --output sarif=dslint.sarif")
    args.output = plain[0] if plain else None
    files = [*plain, *(file for _, file in args.outputs)]
    if "" in files:
        raise UsageError("--output names no file; write --output dslint.txt or --output sarif=dslint.sarif")
    twice = next((file for file in files if files.count(file) > 1), None)
    if twice is not None:
        raise UsageError(f"--output writes {twice} twice")
    if any(name in ESTIMATE_FORMATS for name, _ in args.outputs) and not args.estimate:
        raise UsageError("--output html=FILE needs --estimate")


def written_files(args: argparse.Namespace) -> list[str]:
    """The files that this run writes reports to."""
    return [file for file in (args.output, *(file for _, file in args.outputs)) if file]


def publish(args: argparse.Namespace, reports: Sequence[FileReport]) -> bool:
    """Writes the report in every form asked for; True when one could not be written."""
    failed = [save(file, rendered(name, reports)) for name, file in args.outputs]
    name = args.format or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    color = args.color == "always" or (args.color == "auto" and not args.output and wants_color())
    text = rendered(name, reports, color)
    if args.output:
        failed.append(save(args.output, text))
    else:
        write(sys.stderr if args.fix and "-" in args.paths else sys.stdout, text)
    return any(failed)


def rendered(name: str, reports: Sequence[FileReport], color: bool = False) -> str:
    """The report in one format."""
    if name in ESTIMATE_FORMATS:
        from dslint.memory.page import render

        return render(list(reports))
    return renderer(name)(reports, color=color)


def write(stream: object, text: str | bytes) -> None:
    """Writes UTF-8 whatever the locale says, and bytes as they are.

    Raises OSError, also where the caller closed the stream.
    """
    if stream is None:
        raise OSError("the stream is closed")
    buffer = getattr(stream, "buffer", None)
    data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    if buffer is None:
        stream.write(data.decode("utf-8"))  # type: ignore[attr-defined]
    else:
        buffer.write(data)
        buffer.flush()


def save(name: str, text: str) -> bool:
    """Writes a file; True when it could not be written."""
    try:
        with open(name, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        complain(f"{name}: {getattr(error, 'strerror', None) or error}")
        return True
    return False


def complain(message: str) -> None:
    """One line on standard error, with nothing in it that a terminal or a CI runner would obey."""
    from dslint.report.escape import visible

    with contextlib.suppress(OSError):  # nobody is left to tell
        write(sys.stderr, f"dslint: {visible(message, 4000)}\n")


def wants_color() -> bool:
    """Colour on a terminal that understands it, unless NO_COLOR is set; FORCE_COLOR asks for it anywhere."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
