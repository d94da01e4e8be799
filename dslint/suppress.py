"""Suppressions: what a file says about itself that dslint need not report.

In HJSON and YAML a comment, for the key on its line or, on a line of its own, for the next key, each with all
that stands in it:

    "pin_memory": false,  // dslint: ignore[DS513] the nodes have no memory to pin
    # dslint: ignore-file[fp16-and-bf16] a template, one of the two is removed

Strict JSON has no comments; there, a "dslint" object at the top of the config, which DeepSpeed (0.9 to 0.19),
HF Trainer and accelerate load without minding it:

    "dslint": {"ignore": {"DS513": "reason", "DS401@zero_optimization.offload_param": "reason"}}

Nothing is silenced without naming its rule, and a suppression that silences nothing is a finding itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dslint.document import Document, Member, Span, dotted, walk
from dslint.finding import FileReport, Finding, Suppressed

if TYPE_CHECKING:
    from dslint.config import Config
    from dslint.rules import Rule
    from dslint.settings import Target

SECTION = "dslint"
"""The key of the object that holds suppressions in a config."""

MAX = 200
"""Suppressions read in one file, which bounds the time that a hostile one takes."""

WORDS = ("ignore", "ignore-file")
UNUSED, NO_RULE = "suppression-unused", "suppression-of-no-rule"
UNREADABLE, NO_REASON = "suppression-unreadable", "suppression-without-reason"
FORM = "write it as dslint: ignore[CODE] reason"

_DIRECTIVE = re.compile(r"[\s/#*]*dslint:[ \t]*([^\s\[\]]*)[ \t]*(?:\[([^\]\n]*)\])?[ \t]*(.*)")
_SKIPPED = re.compile(r"\s+|(?:#|//)[^\r\n]*|/\*.*?\*/", re.DOTALL)
_YAML_COMMENT = re.compile(r"(?:^|(?<=\s))#[ \t#]*dslint:.*", re.MULTILINE)


@dataclass(slots=True)
class Suppression:
    """One rule silenced in one part of a file. `span` is where it says so, `key` the path for reports."""

    word: str  # code or name of the rule
    reason: str
    span: Span
    places: list[Span] | None = None  # None: the whole file
    under: str | None = None  # a dotted path: what stands there or below
    key: str = ""
    rule: Rule | None = None
    used: bool = False

    def covers(self, finding: Finding, base: str) -> bool:
        """Whether it silences a finding; `base` is the dotted path of the config in its file."""
        if self.rule is None or finding.code != self.rule.code:
            return False
        if self.under is not None:
            starts = (self.under, f"{base}.{self.under}" if base else self.under)
            return any(
                finding.key == start or finding.key.startswith((f"{start}.", f"{start}[")) for start in starts
            )
        return self.places is None or any(start <= finding.start < end for start, end in self.places)


@dataclass(slots=True)
class Written:
    """The suppressions of a file, and what looks like one and cannot be read: place, message, cure, key."""

    suppressions: list[Suppression] = field(default_factory=list)
    faults: list[tuple[Span, str, str, str]] = field(default_factory=list)


def suppress(
    report: FileReport, rules: Sequence[Rule], heard: Iterable[Rule], configs: Callable[[], list[Config]]
) -> None:
    """Moves what the file suppresses from the findings of a report to `suppressed`.

    `heard` are the rules that were asked for. `configs` makes the effective configs that the report is about;
    they are needed to tell a suppression of nothing from one whose rule could not be decided.
    """
    document = report.document
    written = read(document)
    by_name = {word: rule for rule in rules for word in (rule.code, rule.name)}
    for one in written.suppressions:
        one.rule = by_name.get(one.word)
    base = dotted(document.base)
    kept: list[Finding] = []
    broken = document.root is None or _half(document, report.findings)
    for finding in report.findings:
        covering = [one for one in written.suppressions if one.covers(finding, base)]
        for one in covering:
            one.used = True
        if covering:
            reason = next((one.reason for one in covering if one.reason), "")
            report.suppressed.append(Suppressed(finding, reason))
        else:
            kept.append(finding)
    codes = {rule.code for rule in heard}
    about = [finding for finding in _about(written, by_name, broken, codes, configs) if finding.code in codes]
    report.findings = kept + about


def _half(document: Document, findings: Iterable[Finding]) -> bool:
    """Whether the file could not be read to its end, so that rules were not asked about it."""
    from dslint.lint import WHOLE

    whole = not document.problems and all(departure.rule in WHOLE for departure in document.departures)
    return not whole and any(finding.phase == "load" for finding in findings)


def _about(
    written: Written,
    by_name: dict[str, Rule],
    broken: bool,
    heard: set[str],
    configs: Callable[[], list[Config]],
) -> Iterator[Finding]:
    """Findings about the suppressions themselves."""

    def found(rule: str, span: Span, key: str, message: str, cure: str) -> Finding:
        r = by_name[rule]
        return Finding(r.code, r.name, r.severity, r.phase, message, key, span.start, span.end, cure)

    for span, message, cure, key in written.faults:
        yield found(UNREADABLE, span, key, message, cure)
    decided = _Decided(configs)
    for one in written.suppressions:
        if one.rule is None:
            from dslint.suggest import nearest

            near = nearest(one.word, by_name) if len(one.word) < 100 else None
            message = f"no rule is called {one.word[:100]}, so this suppresses nothing"
            cure = f"did you mean {near}?" if near else "see dslint --list-rules"
            yield found(NO_RULE, one.span, one.key, message, cure)
        elif one.used:
            if not one.reason:
                message = f"{one.word} is suppressed without a reason"
                cure = "say why in a few words, for whoever reads the config next"
                yield found(NO_REASON, one.span, one.key, message, cure)
        elif not broken and one.rule.code in heard and decided.silent(one.rule):
            where = "in this file" if one.places is None else "here"
            where = where if one.under is None else f"at {one.under[:100]}"
            message = f"{one.word} ({one.rule.name}) does not speak {where}: this suppresses nothing"
            yield found(UNUSED, one.span, one.key, message, "remove it")


class _Watching:
    """A target that notes when something is asked of it that it does not know."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.missed = False

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        self.missed = self.missed or value is None
        return value


class _Decided:
    """Tells the rules that are silent because they hold nowhere from those that lack something to know."""

    def __init__(self, configs: Callable[[], list[Config]]) -> None:
        self.configs = configs
        self.made: list[Config] | None = None

    def silent(self, rule: Rule) -> bool:
        """Whether a rule that said nothing had all it asked for, for each config."""
        if self.made is None:
            self.made = self.configs()
        return all(self._silent(rule, config) for config in self.made)

    def _silent(self, rule: Rule, config: Config) -> bool:
        from dslint.releases import number
        from dslint.rules import undecided
        from dslint.schema import newest

        target = config.target
        if rule.check == "schema" and number(target.release) > number(newest()):
            return False
        watching: Any = _Watching(target)
        config.target = watching
        try:
            return not undecided(rule, config) and not watching.missed
        finally:
            config.target = target


def read(document: Document) -> Written:
    """Every suppression in a file, and what cannot be read of them."""
    written = Written()
    comments = _comments(document)
    places = _Places(document)
    for comment in comments[:MAX]:
        _read_comment(document, comment, places, written)
    _read_section(document, written)
    if len(comments) > MAX or len(written.suppressions) > MAX:
        span = written.suppressions[MAX:][:1]
        where = span[0].span if span else comments[MAX]
        message = f"more than {MAX} suppressions; those from here on are not read"
        written.faults.append((where, message, "use the settings: ignore, or a section for these files", ""))
        del written.suppressions[MAX:]
    return written


def _comments(document: Document) -> list[Span]:
    """Where comments stand that may hold a suppression."""
    text = document.text
    if document.format == "json" or not document.name.lower().endswith((".yaml", ".yml")):
        return [
            d.span for d in document.departures if d.rule == "comment" and "dslint:" in text[slice(*d.span)]
        ]
    found = [Span(*match.span()) for match in _YAML_COMMENT.finditer(text)]
    if not found or document.root is None:
        return found
    scalars = [
        span
        for place in walk(document.root)
        for span in (
            *((place.member.key_span,) if place.member is not None else ()),
            *((place.node.span,) if place.node.kind not in ("object", "array") else ()),
        )
    ]
    return [c for c in found if not any(start < c.start < end for start, end in scalars)]


def _read_comment(document: Document, comment: Span, places: _Places, written: Written) -> None:
    for found in re.finditer(r"[^\r\n]+", document.text[slice(*comment)]):
        offset, line = comment.start + found.start(), found[0]
        match = _DIRECTIVE.match(line)
        if match is None:
            continue
        word, listed, reason = match[1], match[2], match[3]
        span = Span(offset + match.start(1), offset + len(line.rstrip()))
        if word not in WORDS:
            from dslint.suggest import nearest

            near = nearest(word[:60], WORDS)
            cure = f"did you mean {near}?" if near else FORM
            written.faults.append((span, f"dslint: {word[:60]} means nothing to dslint", cure, ""))
            continue
        names = list(re.finditer(r"[^\s,]+", listed or ""))
        if not names:
            message = f"this names no rule to {word}, and so suppresses nothing"
            written.faults.append((span, message, FORM, ""))
            continue
        reason = reason.removesuffix("*/").strip(" \t:-\u2013\u2014")
        for name in names:
            start = offset + match.start(2) + name.start()
            where = Span(start, start + len(name[0]))
            scope = places.meant(comment) if word == "ignore" else None
            written.suppressions.append(Suppression(name[0], reason, where, scope))


class _Places:
    """What the comments of a document are about."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.members: dict[int, list[Span]] | None = None  # keys with their values, by line

    def meant(self, comment: Span) -> list[Span]:
        """The keys that begin on a comment's line, or else on the next line that has anything."""
        document = self.document
        offset = comment.start
        line, column = document.position(offset)
        if not document.text[offset - column + 1 : offset].strip():
            offset = self._next(comment)
            line, column = document.position(offset)
        if self.members is None:
            self.members = {}
            for place in walk(document.root) if document.root else ():
                if place.member is not None:
                    begins = document.position(place.member.key_span.start)[0]
                    self.members.setdefault(begins, []).append(_whole(place.member))
        start = offset - column + 1
        return [Span(start, start + len(document.line(line)) + 1), *self.members.get(line, ())]

    def _next(self, comment: Span) -> int:
        """Where the first thing behind a comment stands that is neither blank nor a comment."""
        text, offset = self.document.text, comment.end
        while match := _SKIPPED.match(text, offset):
            offset = match.end()
        return min(offset, len(text))


def _whole(member: Member) -> Span:
    return Span(member.key_span.start, max(member.node.span.end, member.key_span.end))


def _read_section(document: Document, written: Written) -> None:
    if document.config is not None:  # accelerate refuses a key that it does not know
        return
    place = document.find((*document.base, SECTION))
    if place is None or place.member is None:
        return
    key = dotted(place.path)
    shape = 'write {"ignore": {"CODE": "reason"}}'
    if place.node.kind != "object":
        written.faults.append((place.span, f"{key} takes an object", shape, key))
        return
    for member in place.node.members:
        path = f"{key}.{member.key}"
        if member.key != "ignore":
            from dslint.suggest import nearest

            near = nearest(member.key, ("ignore",))
            cure = "did you mean ignore?" if near else shape
            message = f"{member.key} means nothing to dslint"
            written.faults.append((member.key_span, message, cure, path))
        elif member.node.kind != "object":
            written.faults.append((member.key_span, f"{path} takes an object", shape, path))
        else:
            _read_ignored(member, path, written)


def _read_ignored(section: Member, path: str, written: Written) -> None:
    for member in section.node.members:
        word, at, under = member.key.partition("@")
        reason = member.node.value
        if not isinstance(reason, str):
            message = f"the reason to ignore {member.key} is text"
            written.faults.append(
                (member.key_span, message, f'write "{word}": "reason"', f"{path}.{member.key}")
            )
            continue
        written.suppressions.append(
            Suppression(
                word.strip(),
                reason.strip(),
                member.key_span,
                under=under.strip() if at else None,
                key=f"{path}.{member.key}",
            )
        )
