"""`--upgrade-from`: what changes for one file between two DeepSpeed releases.

Three kinds of finding: what the new release says and the old one did not (crashes, keys that are no
longer read), and defaults the file silently relied on that moved. Findings of both releases, and advice,
are left to an ordinary run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dslint.config import Config
from dslint.document import Path, dotted
from dslint.expression import UNKNOWN, show
from dslint.finding import FileReport, Finding
from dslint.fixing.build import fix_of
from dslint.fixing.changes import Set
from dslint.history import story
from dslint.lint import Options, all_findings, in_order, prepare
from dslint.rules import Rule, emit

MOVED = "moved-default"


def upgrade(raw: bytes, name: str, options: Options, rules: list[Rule], old: str) -> FileReport:
    """The report of moving one file from release `old` to `options.release`; it minds no suppression."""
    before = all_findings(raw, name, options._replace(release=old), rules)
    after = all_findings(raw, name, options, rules)
    known = {(finding.code, finding.key) for finding in before.findings}
    findings = [
        as_before(finding, options.release)
        for finding in after.findings
        if (finding.code, finding.key) not in known and finding.severity != "info"
    ]
    rule = next(rule for rule in rules if rule.name == MOVED)
    new_config, old_config = prepare(raw, name, options), prepare(raw, name, options._replace(release=old))
    findings += moved_defaults(rule, old_config, new_config)
    target = after.target._replace(release_reason=f"upgrade from {old}")
    return FileReport(after.document, target, in_order(findings))


def as_before(finding: Finding, release: str) -> Finding:
    """A finding of the new release only; giving a key the name it has there keeps what the file did."""
    past = story(finding.key)
    if finding.fix is None or past is None or past.instead(release) is None:
        return finding
    return finding._replace(fix=finding.fix._replace(safe=True))


def moved_defaults(rule: Rule, old: Config, new: Config) -> Iterator[Finding]:
    """A finding for each default that the file relies on and that differs between the releases."""
    both = set(old.leaves())
    for path in new.leaves():
        if path not in both or not relied_on(new, path):
            continue
        was, now = old.value(path), new.value(path)
        if UNKNOWN in (was, now) or same(was, now):
            continue
        if {old.origin(path).kind, new.origin(path).kind} - {"default", "dropped", "derived"}:
            continue
        yield _moved(rule, old, new, path, was, now)
    for section, word, entry in PARAMETERS:
        tables = [config.schema.get("properties", {}).get(section, {}).get(word, {}) for config in (old, new)]
        kind = new.value((section, "type"))
        kind = kind.lower() if word == "x-optimizers" and isinstance(kind, str) else kind
        if not isinstance(kind, str) or not all(isinstance(table.get(kind), dict) for table in tables):
            continue
        before, after = (table[kind].get(entry, {}) for table in tables)
        for name, was in before.items():
            path = (section, "params", name)
            if name in after and not same(was, after[name]) and not new.has(path):
                yield _moved(rule, old, new, path, was, after[name])


PARAMETERS = (("optimizer", "x-optimizers", "defaults"), ("scheduler", "x-schedulers", "params"))
"""Where a schema has the defaults of the parameters of each type of a section."""


def _moved(rule: Rule, old: Config, new: Config, path: Path, was: Any, now: Any) -> Finding:
    """The finding that a default moved from `was` to `now`, with the line that keeps the old one."""
    written = new.file_path(path)
    place = new.document.nearest(written)
    message = (
        f"{dotted(path)} is not given, and its default changed from {show_json(was)} in "
        f"{old.target.release} to {show_json(now)} in {new.target.release}"
    )
    home = dotted(path[:-1]) or "the top level"
    cure = f"add {json.dumps(path[-1])}: {show_json(was)} to {home} to keep the old behaviour"
    fix = None
    if was is not None and new.document.config is None:
        fix = fix_of(new.document, [Set(written, was)], True)
    return emit(rule, place, dotted(written), message, cure, fix)


def relied_on(config: Config, path: Path) -> bool:
    """Whether a default matters to this file: a top-level key, or one of a section in use."""
    if len(path) == 1:
        return path[0] in ALWAYS_IN_USE
    section = path[:-1]
    if not config.has(section):
        return False
    device = config.value((*section, "device"))
    enabled = config.value((*section, "enabled"))
    return device not in ("none",) and enabled is not False


ALWAYS_IN_USE = (
    "gradient_clipping",
    "steps_per_print",
    "gradient_allreduce_op",
    "zero_force_ds_cpu_optimizer",
)
"""Top-level keys that every training run uses whether or not the file gives them."""


def same(left: Any, right: Any) -> bool:
    """Whether two defaults are equal; 0 and 0.0 are, true and 1 are not."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def show_json(value: Any) -> str:
    """A default as one would write it in the file."""
    return json.dumps(value) if isinstance(value, str) else show(value)
