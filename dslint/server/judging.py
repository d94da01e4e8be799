"""What dslint says about an open document: the verdict of the command line, for a text that is not saved."""

from __future__ import annotations

import os
from argparse import Action, Namespace
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dslint.config import Config
from dslint.discover import SUFFIXES, YAML, is_config
from dslint.errors import UsageError
from dslint.finding import FileReport
from dslint.inputs import related
from dslint.judge import judged
from dslint.lint import prepare
from dslint.rules import Rule
from dslint.settle import Settling

MAX_TEXT = 2_000_000
"""Characters of a document that is looked at; as on the command line, where it is bytes."""

LANGUAGES = {"json": ".json", "jsonc": ".jsonc", "hjson": ".hjson", "yaml": ".yaml"}
"""What an editor calls a document that has no file yet, and the suffix such a file would have."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A document as judged. `problem`: settings or flags that mean nothing, so that it was judged without."""

    report: FileReport
    config: Config
    rules: list[Rule]
    problem: str = ""


def concerns(name: str, text: str) -> bool:
    """Whether a document is a DeepSpeed config: by its content, or by a name that begins with ds_config."""
    if len(text) > MAX_TEXT or not name.lower().endswith((*SUFFIXES, *YAML)):
        return False
    named = os.path.basename(name).lower().startswith("ds_config")
    return named or is_config(name, text.encode("utf-8", "replace"))


def judge(name: str, text: str, flags: Namespace, actions: Mapping[str, Action]) -> Verdict:
    """The verdict about a document, by the settings that hold for its file at this moment."""
    args = Namespace(**{**vars(flags), "paths": [name]})
    raw = text.encode("utf-8", "surrogatepass")
    try:
        return _judge(name, raw, Settling(args, actions))
    except UsageError as error:
        alone = Namespace(**{**vars(args), "config": None, "isolated": True, "hf_args": None, "rules": None})
        return replace(_judge(name, raw, Settling(alone, actions)), problem=str(error))


def _judge(name: str, raw: bytes, settling: Settling) -> Verdict:
    plan = settling.of(name)
    work = related(settling.flags, [(name, raw)], settling)
    targets = next((targets for named, _, targets in work if named == name), [plan.options])
    report = judged(plan, raw, name, targets)
    return Verdict(report, prepare(raw, name, targets[0]), plan.rules)
