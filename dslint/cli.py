"""The command line: arguments to exit code. The only module that prints, reads the environment or exits.

Exit codes: 0 no finding at or above --fail-on; 1 such findings; 2 the job could not be done.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from dslint import schema as schemas
from dslint.arguments import arguments, check_modes
from dslint.errors import UsageError
from dslint.finding import FileReport, at_least
from dslint.fixing import arguments as fixing
from dslint.inputs import Input, Work, gather, nothing_found, related
from dslint.judge import report_of
from dslint.lint import Options, codes_heard, prepare
from dslint.memory import arguments as fitting
from dslint.publish import complain, publish, save, write, written_files
from dslint.publish import settle as settle_outputs
from dslint.rules import Rule, load
from dslint.settle import Settling, show
from dslint.verify import arguments as verifying

if TYPE_CHECKING:
    from dslint.fixing.loop import Outcome

R = TypeVar("R", FileReport, "Outcome")

CLEAN, FOUND, FAILED = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs dslint and returns the exit code."""
    try:
        parser = arguments()
        args = parser.parsed(sys.argv[1:] if argv is None else argv)
        settle_outputs(args)
        check_modes(args)
        if args.server:
            from dslint.server import serve

            serve(args, parser.by_flag)
            return CLEAN
        return run(Settling(args, parser.by_flag))
    except UsageError as error:
        complain(str(error))
        return FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return FAILED
    except OSError as error:  # files have their own lines; this is standard output, or the disk behind it
        complain(f"cannot write the report: {error.strerror or error}")
        return FAILED
    except Exception as error:
        if os.environ.get("DSLINT_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        complain(f"internal error, please report it: {what} (DSLINT_DEBUG=1 shows where)")
        return FAILED


def entry() -> NoReturn:
    """The console script."""
    gc.disable()  # a run is short and leaves no circles worth looking for; looking costs a third of a file
    sys.exit(main())


def run(settling: Settling) -> int:
    """Carries out parsed arguments."""
    if settling.flags.test_rules:
        return tested(settling.flags.test_rules)
    whole = settling.run()
    args, rules, options = whole.args, whole.rules, whole.options
    plans = {path: settling.of(path) for path in args.paths if path != "-"} or {"": whole}
    for plan in plans.values():
        fitting.check(plan.args)
    verifying.check(args)
    fixing.check(args)
    if settling.flags.baseline and args.write_baseline:
        raise UsageError("give one of --baseline and --write-baseline")
    if args.show_settings:
        return say(args, "\n".join(show(plan, path) for path, plan in plans.items()))
    if args.explain is not None:
        from dslint.explain import explain

        return say(args, explain(args.explain, rules, options.release))
    if args.list_rules:
        flags = settling.flags
        listed = codes_heard(rules, Options("", select=flags.select or (), ignore=flags.ignore or ()))
        lines = (f"{r.code}  {r.severity:7}  {r.phase:10}  {r.name}: {r.summary}\n"
                 for r in rules if r.code in listed)  # fmt: skip
        return say(args, "".join(lines))
    if args.print_schema:
        import json

        return say(args, json.dumps(schemas.load(options.release), indent=2, ensure_ascii=False) + "\n")
    if args.recommend:
        return recommended(args, options, settling)
    inputs, failed = inputs_of(args, settling)
    for flag, files in (("--output", written_files(args)), ("--write-baseline", [args.write_baseline])):
        for file in filter(None, files):
            if any(same_file(file, name) for name, _ in inputs):
                raise UsageError(f"{flag} {file} would replace the config that is linted")
    work = related(args, inputs, settling)
    if args.show_config:
        from dslint.show import show_config

        if not work and not failed:
            raise UsageError(nothing_found(args.paths))
        said = say(args, "".join(show_config(prepare(raw, name, targets[0])) for name, raw, targets in work))
        return FAILED if failed else said
    if args.verify:
        reports, failed = verified(args, work, rules, failed)
    elif args.diff:
        return show_diff(args, work, inputs, settling, failed)
    elif args.fix:
        work, reports, failed = mended(args, work, inputs, settling, failed)
    else:
        reports = list(each(report_of, work, settling))
    if not work and not failed and not args.filter:
        raise UsageError(nothing_found(args.paths))
    if args.estimate:
        from dslint.memory.command import section

        for report, (name, raw, targets) in zip(reports, work, strict=True):
            counts = settling.of(name).args.gpu_counts
            report.sections.append(section(prepare(raw, name, targets[0]), counts, args.stages))
    if args.write_baseline:
        return FAILED if write_baseline(args.write_baseline, reports) or failed else CLEAN
    minus_baselines(settling, reports)
    if reports or not args.verify:  # inside a job only the first rank reports
        failed = publish(args, reports) or failed
    found = any(
        at_least(finding.severity, settling.of(report.document.name).args.fail_on)
        for report in reports
        for finding in report.findings
    )
    return FAILED if failed else FOUND if found else CLEAN


def inputs_of(args: argparse.Namespace, settling: Settling) -> tuple[list[Input], bool]:
    """The inputs, and whether one of them could not be had, which is said."""
    inputs, cannot = gather(args, settling)
    for message in cannot:
        complain(message)
    return inputs, bool(cannot)


def tested(folder: str) -> int:
    """Carries out `--test-rules`: a line for every rule that holds, one for every example that does not."""
    from dslint.report.escape import line_head, visible
    from dslint.team import trials

    passed = True
    for trial in trials(folder, load()):
        write(sys.stdout, "".join(f"{line_head(visible(line))}\n" for line in trial.lines))
        passed = passed and trial.passed
    return CLEAN if passed else FOUND


def minus_baselines(settling: Settling, reports: list[FileReport]) -> None:
    """Takes what baselines know out of the findings, and tells what is stale in them."""
    used: dict[str, Any] = {}
    for report in reports:
        plan = settling.of(report.document.name)
        path = plan.args.baseline
        if path:
            from dslint.baseline import Baseline, read

            if path not in used:
                used[path] = Baseline(path, read(path))
            used[path].apply(report, codes_heard(plan.rules, plan.options))
    for baseline in used.values():
        if stale := baseline.complaint():
            complain(stale)


def write_baseline(path: str, reports: list[FileReport]) -> bool:
    """Carries out `--write-baseline`; True when it could not be written."""
    from dslint.baseline import read, text

    known = read(path) if os.path.exists(path) else {}
    failed = save(path, text(path, reports, known))
    if not failed:
        found = sum(len(report.findings) for report in reports)
        many = "1 finding is" if found == 1 else f"{found} findings are"
        complain(f"{path}: {many} known from now on; use it with --baseline {path}")
    return failed


def same_file(one: str, other: str) -> bool:
    """Whether two names lead to one existing file."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def recommended(args: argparse.Namespace, options: Options, settling: Settling) -> int:
    """Carries out `--recommend`: for the machine, and for each config named the change that makes it fit."""
    from dslint.memory.command import recommendation, text_for

    inputs, failed = inputs_of(args, settling) if args.paths else ([], False)
    configs = [prepare(raw, name, options) for name, raw in inputs]
    found = recommendation(options, args.trainer or "raw")
    write(sys.stdout, text_for(found, configs, "json" if args.format == "json" else "text"))
    if args.output and found.chosen is not None:
        from dslint.memory.command import config_text

        failed = save(args.output, config_text(found)) or failed
    return FAILED if failed else CLEAN if found.chosen is not None else FOUND


def mended(
    args: argparse.Namespace, work: list[Work], inputs: list[Input], settling: Settling, failed: bool
) -> tuple[list[Work], list[FileReport], bool]:
    """Carries out `--fix`: the texts as they are then, what is said about them, whether something failed.

    Standard input is printed mended.
    """
    from dslint.fixing.command import fix_all, fixed

    stdin = (args.stdin_filename or "<stdin>") if "-" in args.paths else None
    names = {name for name, _ in inputs}
    outcomes = each(fixed, [one for one in work if one[0] in names], settling)
    done = fix_all(work, settling, names, outcomes, stdin)
    for message in done.cannot:
        complain(message)
    for name, raw, _ in done.work:
        if name == stdin:
            write(sys.stdout, raw)
    return done.work, done.reports, failed or bool(done.cannot)


def show_diff(
    args: argparse.Namespace, work: list[Work], inputs: list[Input], settling: Settling, failed: bool
) -> int:
    """Carries out `--diff`: prints what `--fix` would change and returns the exit code."""
    from dslint.fixing.command import diff, fix_all, fixed

    names = {name for name, _ in inputs}
    outcomes = each(fixed, [one for one in work if one[0] in names], settling)
    done = fix_all(work, settling, names, outcomes, write=False)
    if not work and not failed and not args.filter:
        raise UsageError(nothing_found(args.paths))
    text = "".join(diff(name, old, new) for name, old, new in done.changed)
    if args.output:
        failed = save(args.output, text) or failed
    else:
        write(sys.stdout, text)
    if work:
        complain(done.summary)
    return FAILED if failed else FOUND if done.changed else CLEAN


def each(step: Callable[[Settling, Work], R], work: list[Work], settling: Settling) -> Iterator[R]:
    """What a step makes of each file, in their order; by several processes where --jobs asks for them."""
    if settling.flags.jobs == 1:
        return (step(settling, one) for one in work)
    from dslint.processes import spread

    return spread(step, work, settling)


def verified(
    args: argparse.Namespace,
    work: list[Work],
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


def say(args: argparse.Namespace, text: str) -> int:
    """Prints a text that is no report, or writes it to the file of --output."""
    if args.output:
        return FAILED if save(args.output, text) else CLEAN
    write(sys.stdout, text)
    return CLEAN
