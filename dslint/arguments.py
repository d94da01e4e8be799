"""The flags of the command line. Imported by every run, so it imports next to nothing."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from itertools import combinations
from typing import NoReturn

from dslint import __version__
from dslint.errors import UsageError
from dslint.finding import SEVERITIES
from dslint.fixing import arguments as fixing
from dslint.memory import arguments as fitting
from dslint.report import FORMATS
from dslint.settings import TRAINERS
from dslint.verify import arguments as verifying

EPILOG = """\
examples:
  dslint ds_config.json                     judge one config for the installed DeepSpeed, else the newest
  dslint --gpus 8 ds_config.json            check the batch arithmetic on eight GPUs, too
  dslint --trainer hf configs/              judge as HF Trainer loads it, all configs below a directory
  dslint --deepspeed 0.16.9 ds_config.json  judge for another release
  dslint --upgrade-from 0.16.9 ds.json      what an upgrade changes for the file
  dslint --hf-args train.sh                 what the launch script names, with the arguments it gives
  dslint --fix ds_config.json               mend what is safe to mend; --diff only shows it
  dslint --show-config ds_config.json       every value DeepSpeed will use, and where it comes from
  dslint --explain DS401                    what a rule means and what to do
  dslint --select DS2,offload-not-pinned configs/
  dslint --write-baseline known.json configs/    accept what is there; from then on --baseline known.json
  dslint --format concise --output sarif=dslint.sarif --fail-on warning configs/
  dslint --estimate --model llama-7b --gpus 8 --gpu-type a100-80gb ds_config.json
  dslint --recommend --model qwen2.5-7b --gpus 4 --gpu-type a100-80gb
  dslint --verify --gpus 4 --model qwen2.5-7b ds_config.json
  cat ds.json | dslint - --stdin-filename ds.json

exit codes: 0 nothing at or above --fail-on, 1 findings, 2 could not do the job
"""


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line and offer the nearest flag."""

    @property
    def by_flag(self) -> dict[str, argparse.Action]:
        """Each flag's action, which knows what values it takes."""
        return {flag: action for action in self._actions for flag in action.option_strings}

    def parsed(self, argv: Sequence[str]) -> argparse.Namespace:
        """Options and paths in any order; all behind -- is paths, which argparse forgets in this mode."""
        words = list(argv)
        end = words.index("--") if "--" in words else len(words)
        args = self.parse_intermixed_args(words[:end])
        args.paths = [*args.paths, *words[end + 1 :]]
        return args

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments:"):
            from dslint.suggest import nearest

            word = message.split(": ", 1)[1].split()[0]
            near = nearest(word.split("=")[0], [s for a in self._actions for s in a.option_strings])
            message = f"unknown option {word}" + (
                f"; did you mean {near}?" if near else "; see dslint --help"
            )
        elif choice := re.search(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", message, re.DOTALL):
            from dslint.suggest import nearest

            near = nearest(choice[1].lower(), [name.strip("' ") for name in choice[2].split(",")])
            message += f"; did you mean {near}?" if near else ""
        raise UsageError(message)


def arguments() -> Parser:
    """The parser of the command line."""
    p = Parser(
        prog="dslint",
        usage="dslint [OPTION ...] [PATH ...]",
        description="Lint DeepSpeed configs: what DeepSpeed will do with the file, before the job is queued.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    # Groups with argparse's own titles: what is added to none makes it measure the terminal.
    p.add_argument_group("positional arguments").add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="config files, directories to search, or - for standard input (default: search .)",
    )
    p.add_argument_group("options").add_argument(
        "-h", "--help", action="help", help="show this help message and exit"
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
        type=selection,
        metavar="RULES",
        help="only these: codes (DS401), families (DS4), names, ALL; comma-separated",
    )
    rules.add_argument("--ignore", type=words, metavar="RULES", help="all but these")
    rules.add_argument(
        "--rules",
        action="append",
        metavar="DIR",
        help="a folder of rule files of your own (may be repeated); see docs/add-a-rule.md",
    )
    rules.add_argument(
        "--fail-on",
        choices=(*SEVERITIES, "never"),
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
    out.add_argument(
        "--output",
        action="append",
        metavar="[FORMAT=]FILE",
        help="write the report there instead of standard output; with a format, as well as there, and as "
        "often as you like: --output sarif=dslint.sarif --output junit=dslint.xml",
    )
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
    files.add_argument(
        "-j",
        "--jobs",
        type=jobs,
        default=1,
        metavar="N",
        help="processes that judge the files (default: 1); auto or 0: as many as there are CPUs and work for",
    )
    kept = p.add_argument_group("settings (dslint.toml, or [tool.dslint] in pyproject.toml) and baselines")
    kept.add_argument(
        "--baseline", metavar="FILE", help="report only what this file does not know, and what is stale in it"
    )
    kept.add_argument("--write-baseline", metavar="FILE", help="write all findings there, and report none")
    kept.add_argument("--config", metavar="FILE", help="use this settings file, for all files")
    kept.add_argument(
        "--isolated", action="store_true", help="ignore settings files, and what the repository locks or pins"
    )
    kept.add_argument(
        "--show-settings",
        action="store_true",
        help="the settings of the files named, and their origin",
    )
    fixing.add(p)
    fitting.add(p)
    verifying.add(p)
    info = p.add_argument_group("information")
    info.add_argument(
        "--explain", metavar="RULE|KEY", help="tell what a rule (code or name) or a key (path) means"
    )
    info.add_argument(
        "--test-rules", metavar="DIR", help="try the examples in a folder of rule files of your own"
    )
    info.add_argument("--list-rules", action="store_true", help="all rules, or those of --select, one a line")
    info.add_argument(
        "--print-schema", action="store_true", help="the JSON Schema of the release, for editors"
    )
    info.add_argument(
        "--show-config", action="store_true", help="every value DeepSpeed will use and where it comes from"
    )
    info.add_argument(
        "--server",
        action="store_true",
        help="a language server on standard input and output, for editors (needs the extra lsp)",
    )
    info.add_argument("--version", action="version", version=f"dslint {__version__}")
    return p


MODES = (
    "server", "test_rules", "show_settings", "explain", "list_rules", "print_schema", "recommend",
    "show_config", "verify", "diff", "fix", "estimate", "write_baseline",
)  # fmt: skip
"""Flags of which each asks for something else than plain findings."""

TOGETHER = ({"fix", "estimate"}, {"fix", "write_baseline"})
"""Pairs of MODES that may be asked for at once."""

REPORTING = ("verify", "fix", "estimate")
"""Those of MODES whose result is a report."""


def check_modes(args: argparse.Namespace) -> None:
    """Raises UsageError for flags of which one would be ignored."""
    asked = [mode for mode in MODES if getattr(args, mode) not in (None, False)]
    for one, other in combinations(asked, 2):
        if {one, other} not in TOGETHER:
            raise UsageError(f"give one of {_flag(one)} and {_flag(other)}")
    for mode in asked:
        if mode not in REPORTING and args.outputs:
            form, file = args.outputs[0]
            raise UsageError(f"--output {form}={file} is for reports, and {_flag(mode)} makes none")
        if mode not in (*REPORTING, "recommend") and args.format:
            raise UsageError(f"--format is for reports, and {_flag(mode)} makes none")
        if mode not in (*REPORTING, "diff", "write_baseline") and args.upgrade_from:
            raise UsageError(f"--upgrade-from is for reports, and {_flag(mode)} makes none")
        if mode in ("server", "test_rules", "write_baseline") and args.output:
            raise UsageError(f"--output has nothing to write with {_flag(mode)}")
    if args.stdin_filename and "-" not in args.paths and not args.server:
        raise UsageError("--stdin-filename names standard input, which - stands for among the paths")


def _flag(mode: str) -> str:
    return "--" + mode.replace("_", "-")


def words(text: str) -> tuple[str, ...]:
    """Comma-separated words."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def selection(text: str) -> tuple[str, ...]:
    """Comma-separated words, one at least: none would mean all rules."""
    if not (found := words(text)):
        raise argparse.ArgumentTypeError("it names no rule; ALL means all of them")
    return found


def jobs(text: str) -> int:
    """A number of processes, 0 for "auto"."""
    if text == "auto":
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes (0 to 9999) or auto")
    return int(text)
