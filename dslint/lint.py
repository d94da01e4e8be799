"""The way of the data: bytes -> Document -> Config -> findings. Pure: no printing, no environment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dslint import schema as schemas
from dslint.config import Config
from dslint.document import Document, Problem, Span, dotted
from dslint.finding import SEVERITIES, FileReport, Finding
from dslint.formats import read_bytes
from dslint.keys import check
from dslint.releases import number
from dslint.rules import Rule, judge
from dslint.settings import Target
from dslint.trainers import infer


@dataclass(frozen=True, slots=True)
class Options:
    """What to judge for and which rules to hear. `trainer` None: infer it from each file."""

    release: str
    release_reason: str = "given"
    trainer: str | None = None
    gpus: int | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def chosen(rule: Rule, selectors: tuple[str, ...]) -> bool:
    """Whether one of the selectors means a rule: its code, a prefix of it, its name, or ALL."""
    return any(s == rule.name or s == "ALL" or rule.code.startswith(s) for s in selectors)


def lint(raw: bytes, name: str, options: Options, rules: list[Rule]) -> FileReport:
    """Everything there is to say about one file."""
    document = read_bytes(raw, name)
    config = configure(document, options)
    heard = [
        rule
        for rule in rules
        if (not options.select or chosen(rule, options.select)) and not chosen(rule, options.ignore)
    ]
    findings = list(_findings(document, config, {rule.name: rule for rule in rules}, heard))
    codes = {rule.code for rule in heard}
    findings = [finding for finding in findings if finding.code in codes]
    findings.sort(key=lambda f: (f.start, SEVERITIES.index(f.severity), f.code, f.key))
    return FileReport(document, config.target, list(dict.fromkeys(findings)))


def configure(document: Document, options: Options) -> Config:
    """The effective config of a document, its trainer inferred where none was given."""
    schema = schemas.load(options.release)
    target = Target(options.release, "raw", options.gpus, options.release_reason)
    config = Config(document, schema, target)
    trainer, reason = (options.trainer, "given") if options.trainer else infer(document, config.data)
    return Config(document, schema, replace(target, trainer=trainer, trainer_reason=reason))


def _findings(document: Document, config: Config, rules: dict[str, Rule], heard: list[Rule]) -> list[Finding]:
    target = config.target
    found = [_met(document, rules[problem.rule], problem) for problem in document.problems]
    for departure in document.departures:
        rule = rules.get(departure.rule)
        if rule is not None and rule.applies(target.release, target.trainer):
            found.append(_met(document, rule, departure))
    readable = not any(f.code.startswith("DS0") and f.name != "duplicate-key" for f in found if f.phase == "load")
    if document.root is None or document.root.kind != "object":
        return found
    exact = number(target.release) <= number(schemas.newest())
    found += check(config, rules, exact)
    if readable:  # half a file says nothing about what is absent from it
        found += judge(heard, config)
    return found


def _met(document: Document, rule: Rule, problem: Problem) -> Finding:
    start, end = problem.span
    return Finding(rule.code, rule.name, rule.severity, rule.phase, problem.message, dotted(problem.path),
                   start, end, problem.cure)  # fmt: skip
