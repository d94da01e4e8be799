"""The way of the data: bytes -> Document -> Config -> findings. Pure: no printing, no environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dslint import schema as schemas
from dslint.causes import one_each
from dslint.config import Config, data_of
from dslint.document import Document, Problem, dotted
from dslint.finding import SEVERITIES, FileReport, Finding
from dslint.formats import read_bytes
from dslint.guards import Bench
from dslint.keys import check
from dslint.releases import number
from dslint.rules import ReadyRule, Rule, judge
from dslint.settings import Target
from dslint.trainers import HF_LIKE, STRICT, infer

if TYPE_CHECKING:
    from dslint.launch import Launch
    from dslint.memory.workload import Workload


WHOLE = frozenset({
    "comment", "trailing-comma", "missing-comma", "byte-order-mark", "single-quoted-string", "unquoted-key",
})  # fmt: skip
"""Departures from JSON that leave no doubt what the file says, although a strict reader refuses it."""


class Options(NamedTuple):
    """What to judge for and which rules to hear. `trainer` None: infer it from each file.

    `launch`, `companion` and `workload`: see Target.
    """

    release: str
    release_reason: str = "given"
    trainer: str | None = None
    gpus: int | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    launch: Launch | None = None
    companion: Document | None = None
    workload: Workload | None = None


def chosen(rule: Rule, selectors: tuple[str, ...]) -> bool:
    """Whether one of the selectors means a rule: its code, a prefix of it, its name, or ALL."""
    return any(s == rule.name or s == "ALL" or rule.code.startswith(s) for s in selectors)


class _Book:
    """The rules, those of them that are heard, and benches of these for every target met."""

    def __init__(self, rules: list[Rule], select: tuple[str, ...], ignore: tuple[str, ...]) -> None:
        self.rules = rules
        self.by_name = {rule.name: rule for rule in rules}
        self.heard = [
            rule for rule in rules if (not select or chosen(rule, select)) and not chosen(rule, ignore)
        ]
        self.codes = {rule.code for rule in self.heard}
        self._benches: dict[tuple[object, ...], Bench] = {}

    def called(self, config: Config) -> list[ReadyRule]:
        """The rules that can say something about a config."""
        target, document = config.target, config.document
        about = None if document.format == "accelerate" or target.companion is not None else False
        if document.config is not None and not document.config.members:
            about = True
        key = (about, target.release, target.trainer, target.gpus)
        if key not in self._benches:
            rules = [rule for rule in self.heard if about is None or rule.about_accelerate is about]
            self._benches[key] = Bench(rules, target)
        return self._benches[key].called(config)


_MANY = 32
"""Books kept at a time: a server may be told many selections one after the other."""

_BOOKS: dict[tuple[object, ...], _Book] = {}
"""By identity of a list of rules, which its book keeps so that no other takes its place."""


def _book(rules: list[Rule], options: Options) -> _Book:
    key = (id(rules), options.select, options.ignore)
    book = _BOOKS.get(key)
    if book is None or book.rules is not rules:
        if len(_BOOKS) >= _MANY:
            _BOOKS.clear()
        book = _BOOKS[key] = _Book(rules, options.select, options.ignore)
    return book


def codes_heard(rules: list[Rule], options: Options) -> set[str]:
    """The codes of the rules that the options ask for."""
    return _book(rules, options).codes


def lint(raw: bytes, name: str, options: Options, rules: list[Rule]) -> FileReport:
    """Everything there is to say about one file."""
    return settled(all_findings(raw, name, options, rules), raw, [options], rules)


def all_findings(raw: bytes, name: str, options: Options, rules: list[Rule]) -> FileReport:
    """Everything there is to say about one file, whatever the file suppresses."""
    document = read_bytes(raw, name)
    config = _understood(document, options)
    book = _book(rules, options)
    findings = one_each([finding for finding in _findings(config, book) if finding.code in book.codes])
    if config.target.rival and any(finding.severity == "error" for finding in findings):
        findings = _doubted(document, config, options, rules, findings)
    return FileReport(config.document, config.target, in_order(findings))


def _doubted(
    document: Document, config: Config, options: Options, rules: list[Rule], findings: list[Finding]
) -> list[Finding]:
    """Findings for a trainer that nothing tells: no error where the other one takes the file."""
    target = config.target
    everything = options._replace(trainer=target.rival, select=(), ignore=())
    book = _book(rules, everything)
    if document.problems or document.departures:
        other = _understood(document, everything)
    else:  # every trainer reads it alike, and mostly they stumble over the same
        other = config.under(target._replace(trainer=target.rival, trainer_reason="given", rival=""))
        codes = {finding.code for finding in findings if finding.severity == "error"}
        if any(judge([one for one in book.called(other) if one.rule.code in codes], other)):
            return findings
    if any(finding.severity == "error" for finding in _findings(other, book, True)):
        return findings
    said = {"raw": "when a script hands the file to DeepSpeed itself", "hf": "under HF Trainer"}
    doubt = f" ({said[target.trainer]}; not {said[target.rival]})"
    return [
        finding._replace(severity="warning", message=finding.message + doubt)
        if finding.severity == "error"
        else finding
        for finding in findings
    ]


def settled(report: FileReport, raw: bytes, targets: Sequence[Options], rules: list[Rule]) -> FileReport:
    """The report without what the file suppresses. `targets` are what all of it was judged for."""
    if "dslint" in report.document.text:
        from dslint.suppress import suppress

        name = report.document.name
        heard = _book(rules, targets[0]).heard
        suppress(report, rules, heard, lambda: [prepare(raw, name, target) for target in targets])
        report.findings = in_order(report.findings)
    return report


def lint_releases(
    raw: bytes, name: str, options: Options, rules: list[Rule], releases: Sequence[str]
) -> FileReport:
    """What there is to say for a range of releases: each finding once, with the releases it holds in.

    As all_findings, it minds no suppression.
    """
    seen: dict[tuple[str, str, int], list[str]] = {}
    latest: dict[tuple[str, str, int], Finding] = {}
    report = None
    for release in releases:
        report = all_findings(raw, name, options._replace(release=release), rules)
        for finding in report.findings:
            identity = (finding.code, finding.key, finding.start)
            seen.setdefault(identity, []).append(release)
            latest[identity] = finding
    assert report is not None, "a range holds at least one release"
    findings = [
        finding if len(seen[key]) == len(releases) else _of_some(finding, spans(seen[key], releases))
        for key, finding in latest.items()
    ]
    target = report.target._replace(release=f"{releases[0]}..{releases[-1]}")
    return FileReport(report.document, target, in_order(findings))


def _of_some(finding: Finding, releases: str) -> Finding:
    """A finding of some of the releases; what is safe for these may change what the others do."""
    fix = finding.fix and finding.fix._replace(safe=False)
    return finding._replace(releases=releases, fix=fix)


def spans(some: Sequence[str], among: Sequence[str]) -> str:
    """Releases in words, runs of neighbours joined: "0.14.4 to 0.16.9, 0.17.2"."""
    runs: list[list[str]] = []
    for release in among:
        if release not in some:
            runs.append([])
        elif runs:
            runs[-1].append(release)
        else:
            runs.append([release])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs if run)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order of the text, the worst first where they stand at one place, none twice."""
    key = lambda f: (f.start, SEVERITIES.index(f.severity), f.code, f.key)  # noqa: E731
    return list(dict.fromkeys(sorted(findings, key=key)))


def prepare(raw: bytes, name: str, options: Options) -> Config:
    """The effective config of a file, read as its trainer reads it."""
    return _understood(read_bytes(raw, name), options)


def _understood(document: Document, options: Options) -> Config:
    """The effective config of a document that was read as DeepSpeed reads it."""
    config = configure(document, options)
    if (document.problems or document.departures) and config.target.trainer in STRICT:
        if document.format != "yaml" and not document.name.lower().endswith((".yaml", ".yml")):
            from dslint.formats.strict import strictly

            strict = strictly(document)
            if strict is not None:
                return configure(strict, options)
    return config


def configure(document: Document, options: Options) -> Config:
    """The effective config of a document, its trainer inferred where none was given."""
    schema = schemas.load(options.release)
    launch, gpus = options.launch, options.gpus
    if launch is None and (document.format == "accelerate" or document.base):
        from dslint.launch.files import launch_of

        launch = launch_of(document)
    if gpus is None and launch is not None:
        gpus = launch.processes
    trainer, reason, rival = (options.trainer or "raw", "given", "")
    if options.trainer is None:
        trainer, reason, rival = infer(document, data_of(document), launch)
        if launch is not None and launch.trainer == "accelerate" and trainer == "hf":
            launch = replace(launch, complete=False)  # the arguments may be other than TrainingArguments
    if document.format == "accelerate" and trainer not in (*HF_LIKE, "accelerate"):
        trainer, reason = "accelerate", "an accelerate config file"
    target = Target(
        options.release, trainer, gpus, options.release_reason, reason, launch,
        options.companion, options.workload, rival,
    )  # fmt: skip
    return Config(document, schema, target)


def _findings(config: Config, book: _Book, errors: bool = False) -> Iterator[Finding]:
    """Everything that is found, rule by rule; with `errors` only rules about errors, and few fixes."""
    document, target, rules = config.document, config.target, book.by_name
    strict, lenient = target.trainer in STRICT, []
    met = partial(_met, document, strict, not errors)
    found = [met(rules[problem.rule], problem) for problem in document.problems]
    for departure in document.departures:
        rule = rules.get(departure.rule)
        refused_anyway = strict and departure.rule != "shadowed-key"  # whatever hjson makes of it
        if rule is not None and rule.applies(target.release, target.trainer) and not refused_anyway:
            found.append(met(rule, departure))
        elif strict:
            found.append(met(rules["not-strict-json"], departure))
        elif target.rival in STRICT and document.format == "json":
            lenient.append(departure)
    if lenient:
        refused = met(rules["not-strict-json"], lenient[0], lenient)
        message = f"{refused.message}: DeepSpeed reads it, HF Trainer and accelerate cannot load the file"
        found.append(refused._replace(severity="info", message=message))
    whole = not document.problems and all(d.rule in WHOLE for d in document.departures)
    readable = whole or not any(
        f.code.startswith("DS0") and f.name != "duplicate-key" and f.severity != "info"
        for f in found
        if f.phase == "load"
    )
    yield from found
    if document.root is None or document.root.kind != "object" or document.format == "arguments":
        return
    exact = number(target.release) <= number(schemas.newest())
    yield from check(config, rules, exact, errors)
    if readable:  # half a file says nothing about what is absent from it
        called = book.called(config)
        yield from judge([r for r in called if r.rule.severity == "error"] if errors else called, config)


def _met(
    document: Document,
    strict: bool,
    mended: bool,
    rule: Rule,
    problem: Problem,
    alike: Sequence[Problem] = (),
) -> Finding:
    """The finding about a problem; `alike` are all that it speaks for, so that its fix is theirs."""
    from dslint.fixing.reading import fix_for, fix_of_all

    fix = None
    if mended:
        fix = fix_of_all(document, alike) if len(alike) > 1 else fix_for(document, problem, strict)
    start, end = problem.span
    cure = problem.cure
    suppresses = problem.rule == "comment" and "dslint:" in document.text[start:end]
    if suppresses and document.format != "accelerate":  # whose own file may have no such key
        cure = 'write it into a "dslint" object at the top of the config'
    return Finding(
        rule.code,
        rule.name,
        rule.severity,
        rule.phase,
        problem.message,
        dotted(problem.path),
        start,
        end,
        cure,
        fix,
    )
