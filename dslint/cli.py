"""The command line: arguments to exit code. The only module that prints, reads the environment or exits.

Exit codes: 0 no finding at or above --fail-on; 1 such findings; 2 the job could not be done.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from dslint import __version__
from dslint import schema as schemas
from dslint.discover import SUFFIXES, YAML, below, is_config, tells_more
from dslint.finding import SEVERITIES, FileReport, at_least
from dslint.installed import installed_release
from dslint.lint import Options, chosen, in_order, lint, lint_releases, prepare
from dslint.memory import arguments as fitting
from dslint.releases import number
from dslint.report import FORMATS, renderer
from dslint.repository import asked_release
from dslint.rules import Rule, load, no_such_rule
from dslint.settings import TRAINERS, UsageError
from dslint.verify import arguments as verifying

CLEAN, FOUND, FAILED = 0, 1, 2

MAX_BYTES = 2_000_000
"""Bytes read of a file: more than any config has that the reader does not refuse as too large."""
MAX_SCRIPT = 1 << 18
"""Bytes of a launch script that are read."""

EPILOG = """\
examples:
  dslint ds_config.json                     judge one config for the installed DeepSpeed, else the newest
  dslint --gpus 8 ds_config.json            check the batch arithmetic on eight GPUs, too
  dslint --trainer hf configs/              judge as HF Trainer loads it, all configs below a directory
  dslint --deepspeed 0.16.9 ds_config.json  judge for another release
  dslint --explain DS401                    what a rule means and what to do
  dslint --estimate --model llama-7b --gpus 8 --gpu-type a100-80gb ds_config.json
  dslint --recommend --model qwen2.5-7b --gpus 4 --gpu-type a100-80gb
  cat ds.json | dslint - --stdin-filename ds.json

exit codes: 0 nothing at or above --fail-on, 1 findings, 2 could not do the job
"""


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line and offer the nearest flag."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments:"):
            from dslint.suggest import nearest

            word = message.split(": ", 1)[1].split()[0]
            near = nearest(word.split("=")[0], [s for a in self._actions for s in a.option_strings])
            message = f"unknown option {word}" + (
                f"; did you mean {near}?" if near else "; see dslint --help"
            )
        raise UsageError(message)


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    p = Parser(
        prog="dslint",
        description="Lint DeepSpeed configs: what DeepSpeed will do with the file, before the job is queued.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="config files, directories to search, or - for standard input (default: search .)",
    )
    target = p.add_argument_group("what to judge for")
    target.add_argument(
        "--deepspeed",
        metavar="RELEASE",
        help="DeepSpeed release, or a range such as 0.14.4..0.19.8 (default: the one the repository "
        "sets, locks or pins, else the installed one, else the newest known)",
    )
    target.add_argument(
        "--upgrade-from",
        metavar="RELEASE",
        help="report only what changes for the file between this release and --deepspeed",
    )
    target.add_argument(
        "--trainer",
        choices=TRAINERS,
        metavar="NAME",
        help=f"who loads the config: {', '.join(TRAINERS)} (default: inferred from the file)",
    )
    target.add_argument(
        "--gpus", type=fitting.counts, metavar="N", help="processes, one GPU each (default: unknown)"
    )
    target.add_argument(
        "--hf-args",
        metavar="FILE",
        help="how the run is started: TrainingArguments as JSON or YAML (LLaMA-Factory's and axolotl's, too),"
        " or the launch script",
    )
    rules = p.add_argument_group("rules")
    rules.add_argument(
        "--select",
        type=words,
        default=(),
        metavar="RULES",
        help="only these: codes (DS401), families (DS4), names, ALL; comma-separated",
    )
    rules.add_argument("--ignore", type=words, default=(), metavar="RULES", help="all but these")
    rules.add_argument(
        "--fail-on",
        choices=(*SEVERITIES, "never"),
        default="error",
        metavar="SEVERITY",
        help="least severity that makes the exit code 1: error (default), warning, info, never",
    )
    out = p.add_argument_group("output")
    out.add_argument(
        "--format",
        choices=(*FORMATS, *fitting.FORMATS),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)} (default: text; github under GitHub Actions); html for --estimate",
    )
    out.add_argument("--output", metavar="FILE", help="write the report there instead of standard output")
    out.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        metavar="WHEN",
        help="auto (default: on a terminal, unless NO_COLOR is set), always, never",
    )
    files = p.add_argument_group("files")
    files.add_argument(
        "--filter",
        action="store_true",
        help="of the files given, lint only DeepSpeed configs, by name and content (for hooks)",
    )
    files.add_argument("--stdin-filename", metavar="NAME", help="the name to report standard input under")
    fitting.add(p)
    verifying.add(p)
    info = p.add_argument_group("information")
    info.add_argument(
        "--explain", metavar="RULE|KEY", help="tell what a rule (code or name) or a key (path) means"
    )
    info.add_argument("--list-rules", action="store_true", help="all rules, one a line")
    info.add_argument(
        "--print-schema", action="store_true", help="the JSON Schema of the release, for editors"
    )
    info.add_argument(
        "--show-config", action="store_true", help="every value DeepSpeed will use and where it comes from"
    )
    info.add_argument("--version", action="version", version=f"dslint {__version__}")
    return p


def words(text: str) -> tuple[str, ...]:
    """Comma-separated words."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs dslint and returns the exit code."""
    try:
        args = arguments().parse_intermixed_args(argv)
        fitting.check(args)
        verifying.check(args)
        return run(args)
    except UsageError as error:
        complain(str(error))
        return FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return FAILED
    except Exception as error:
        if os.environ.get("DSLINT_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        complain(f"internal error, please report it: {what} (DSLINT_DEBUG=1 shows where)")
        return FAILED


def entry() -> NoReturn:
    """The console script."""
    sys.exit(main())


def complain(message: str) -> None:
    """One line on standard error, with nothing in it that a terminal would obey."""
    safe = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
    print(f"dslint: {safe}", file=sys.stderr)


def run(args: argparse.Namespace) -> int:
    """Carries out parsed arguments."""
    rules = load()
    known_selectors(rules, (*args.select, *args.ignore))
    if args.explain:
        from dslint.explain import explain

        return say(explain(args.explain, rules, target_releases(args.deepspeed)[0][-1]))
    if args.list_rules:
        return say("".join(f"{r.code}  {r.severity:7}  {r.phase:10}  {r.name}: {r.summary}\n" for r in rules))
    releases, reason = target_releases(args.deepspeed)
    release = releases[-1]
    if args.print_schema:
        import json

        return say(json.dumps(schemas.load(release), indent=2, ensure_ascii=False) + "\n")
    options = Options(release, reason, args.trainer, args.gpus, args.select, args.ignore)
    if fitting.said(args):
        from dslint.memory.workload import workload

        options = replace(options, workload=workload(vars(args)))
    if args.recommend:
        return recommended(args, options)
    inputs, failed = gather(args)
    if args.output and any(same_file(args.output, name) for name, _ in inputs):
        raise UsageError(f"--output {args.output} would replace the config that is linted")
    work = related(args, inputs, options)
    if args.show_config:
        from dslint.show import show_config

        if not work and not failed:
            raise UsageError(nothing_found(args.paths))
        say("".join(show_config(prepare(raw, name, targets[0])) for name, raw, targets in work))
        return FAILED if failed else CLEAN
    if args.verify:
        reports, failed = verified(args, work, rules, failed)
    else:
        judge = judge_with(args, rules, releases)
        reports = [joined([judge(raw, name, target) for target in targets]) for name, raw, targets in work]
    if not work and not failed and not args.filter:
        raise UsageError(nothing_found(args.paths))
    if args.estimate:
        from dslint.memory.command import section

        for report, (name, raw, targets) in zip(reports, work, strict=True):
            report.sections.append(section(prepare(raw, name, targets[0]), args.gpu_counts, args.stages))
    if reports or not args.verify:  # inside a job only the first rank reports
        failed = publish(args, reports) or failed
    found = any(at_least(f.severity, args.fail_on) for report in reports for f in report.findings)
    return FAILED if failed else FOUND if found else CLEAN


def same_file(one: str, other: str) -> bool:
    """Whether two names lead to one existing file."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def recommended(args: argparse.Namespace, options: Options) -> int:
    """Carries out `--recommend`: for the machine, and for each config named the change that makes it fit."""
    from dslint.memory.command import recommendation, text_for

    inputs, failed = gather(args) if args.paths else ([], False)
    configs = [prepare(raw, name, options) for name, raw in inputs]
    found = recommendation(options, args.trainer or "raw")
    write(sys.stdout, text_for(found, configs, "json" if args.format == "json" else "text"))
    if args.output and found.chosen is not None:
        from dslint.memory.command import config_text

        failed = save(args.output, config_text(found)) or failed
    return FAILED if failed else CLEAN if found.chosen is not None else FOUND


def verified(
    args: argparse.Namespace,
    work: list[tuple[str, bytes, list[Options]]],
    rules: list[Rule],
    failed: bool,
) -> tuple[list[FileReport], bool]:
    """The reports of `--verify`, and whether something could not be done."""
    from dslint.verify.command import verify

    shown = ""

    def progress(stage: str) -> None:
        nonlocal shown
        if stage != shown and sys.stderr.isatty():
            line = "".join(c if c.isprintable() else "?" for c in stage)[:100]
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            shown = stage

    try:
        reports, cannot, told = verify(args, work, rules, progress)
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    for message in (*told, *cannot):
        complain(message)
    return reports, failed or bool(cannot)


def related(
    args: argparse.Namespace, inputs: list[tuple[str, bytes]], options: Options
) -> list[tuple[str, bytes, list[Options]]]:
    """Each file with what to judge it for: once for every run that is known to name it, else once.

    Files that an accelerate file or arguments of a run name are added.
    """
    folders = [path for path in args.paths or ["."] if os.path.isdir(path)]
    if not args.hf_args and not folders and not any(tells_more(name, raw) for name, raw in inputs):
        return [(name, raw, [options]) for name, raw in inputs]
    from dslint.project import STARTING, asked, plan, runs_among, runs_of

    look = looking_below([".", *folders, *(os.path.dirname(name) or "." for name, _ in inputs)])
    try:
        if args.hf_args:
            jobs = asked(inputs, runs_of(args.hf_args, Path(args.hf_args).read_bytes(), look), look)
        else:
            paths = (path for folder in folders if inputs for path in below(Path(folder), STARTING))
            files = ((str(path), path.read_bytes()[:MAX_SCRIPT]) for path in paths if readable(path))
            jobs = plan(inputs, runs_among(files, [name for name, _ in inputs], look), look)
    except (OSError, ValueError) as error:
        raise UsageError(f"{args.hf_args}: {getattr(error, 'strerror', None) or error}") from None
    return [
        (
            job.name,
            job.raw,
            [
                replace(options, launch=launch, companion=job.companion)
                for launch in (job.launches or (None,))
            ],
        )
        for job in jobs
    ]


def looking_below(folders: list[str]) -> Callable[[str], bytes | None]:
    """Reads files that other files name: configs and arguments, by their suffix, that lie below here."""
    roots = [os.path.realpath(folder) for folder in folders]

    def look(path: str) -> bytes | None:
        real = os.path.realpath(path)
        if not path.lower().endswith((*SUFFIXES, *YAML)) or not any(
            os.path.commonpath([root, real]) == root for root in roots
        ):
            return None
        try:
            return Path(real).read_bytes() if os.path.isfile(real) else None
        except OSError:
            return None

    return look


def joined(reports: list[FileReport]) -> FileReport:
    """One report of several about the same file: what was said for any of its runs."""
    first = reports[0]
    if len(reports) > 1:
        first.findings = in_order(finding for report in reports for finding in report.findings)
    return first


def judge_with(
    args: argparse.Namespace, rules: list[Rule], releases: list[str]
) -> Callable[[bytes, str, Options], FileReport]:
    """The function that makes a report of a file: for one release, for several, or for an upgrade."""
    if args.upgrade_from is not None:
        from dslint.upgrade import upgrade

        old = releases_of(args.upgrade_from, "--upgrade-from")
        if len(old) > 1 or len(releases) > 1:
            raise UsageError("--upgrade-from goes from one release to one release")
        return lambda raw, name, options: upgrade(raw, name, options, rules, old[0])
    if len(releases) > 1:
        return lambda raw, name, options: lint_releases(raw, name, options, rules, releases)
    return lambda raw, name, options: lint(raw, name, options, rules)


def say(text: str) -> int:
    """Prints a text as it is."""
    write(sys.stdout, text)
    return CLEAN


def write(stream: object, text: str) -> None:
    """Writes UTF-8 whatever the locale says."""
    buffer = getattr(stream, "buffer", None)
    data = text.encode("utf-8", "backslashreplace")
    if buffer is None:
        stream.write(data.decode("utf-8"))  # type: ignore[attr-defined]
    else:
        buffer.write(data)
        buffer.flush()


def known_selectors(rules: list[Rule], selectors: tuple[str, ...]) -> None:
    """Raises UsageError for a selector that means no rule."""
    for selector in selectors:
        if not any(chosen(rule, (selector,)) for rule in rules):
            raise no_such_rule(selector, rules)


def target_releases(asked: str | None) -> tuple[list[str], str]:
    """The releases to judge for, oldest first, and why these."""
    oldest = next(iter(schemas.index()))
    if asked is not None:
        return releases_of(asked, "--deepspeed"), "given"
    try:
        named = asked_release(Path.cwd())
    except FileNotFoundError:  # the current directory is gone
        named = None
    except ValueError as error:
        raise UsageError(str(error)) from None
    if named is not None:
        return releases_of(*named), named[1]
    installed = installed_release(sys.path)
    if installed is not None and number(installed) >= number(oldest):
        return [installed], "installed"
    return [schemas.newest()], "newest known"


def releases_of(text: str, where: str) -> list[str]:
    """The releases that "0.16.4" or "0.14.4..0.19.8" means. Raises UsageError, which names `where`."""
    known = list(schemas.index())
    first, dots, last = text.partition("..")
    try:
        low, high = number(first), number(last if dots else first)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    if low < number(known[0]):
        raise UsageError(f"{where}: DeepSpeed releases before {known[0]} are not known")
    if not dots:
        return [first]
    within = [release for release in known if low <= number(release) <= high]
    if not within:
        raise UsageError(f"{where}: no known DeepSpeed release lies in {text}; they go up to {known[-1]}")
    return within


def gather(args: argparse.Namespace) -> tuple[list[tuple[str, bytes]], bool]:
    """The inputs as (name, bytes), and whether one of them could not be had."""
    inputs: list[tuple[str, bytes]] = []
    failed = False
    for path in dict.fromkeys(args.paths or ([] if args.hf_args else ["."])):
        try:
            if path == "-":
                inputs.append((args.stdin_filename or "<stdin>", sys.stdin.buffer.read()))
            elif os.path.isdir(path):
                found = ((str(p), head_of(p)) for p in below(Path(path)) if readable(p))
                configs = [(name, raw) for name, raw in found if is_config(name, raw)]
                if not configs and args.paths and not args.filter:
                    raise UsageError(nothing_found([path]))
                inputs += configs
            else:
                raw = head_of(Path(path))
                if not args.filter or is_config(path, raw):
                    inputs.append((path, raw))
        except UsageError as error:
            complain(str(error))
            failed = True
        except (OSError, ValueError) as error:
            complain(f"{path}: {getattr(error, 'strerror', None) or error}")
            failed = True
    return inputs, failed


def head_of(path: Path) -> bytes:
    """The bytes of a file, of a huge one only as many as tell that it is no config."""
    with path.open("rb") as file:
        return file.read(MAX_BYTES)


def readable(path: Path) -> bool:
    """Whether a file found in a directory can be read; a broken link or a device is passed over."""
    return path.is_file() and os.access(path, os.R_OK)


def nothing_found(paths: list[str]) -> str:
    """What to say when there is nothing to lint."""
    where = " or ".join(paths) if paths else "the current directory"
    return f"no DeepSpeed config found below {where}; name the file: dslint path/to/ds_config.json"


def publish(args: argparse.Namespace, reports: list[FileReport]) -> bool:
    """Writes the report; True when it could not be written."""
    name = args.format or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    color = args.color == "always" or (args.color == "auto" and not args.output and wants_color())
    if name in fitting.FORMATS:
        from dslint.memory.page import render

        text = render(reports)
    else:
        text = renderer(name)(reports, color=color)
    if not args.output:
        write(sys.stdout, text)
        return False
    return save(args.output, text)


def save(name: str, text: str) -> bool:
    """Writes a file; True when it could not be written."""
    try:
        Path(name).write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    except (OSError, ValueError) as error:
        complain(f"{name}: {getattr(error, 'strerror', None) or error}")
        return True
    return False


def wants_color() -> bool:
    """Colour on a terminal that understands it, unless NO_COLOR is set; FORCE_COLOR asks for it anywhere."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
