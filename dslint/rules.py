"""Rules: what a rule is, and evaluating all of them on a config.

Rules are written as YAML in rules/ (see :mod:`dslint.rulefile`) and reach run time as rules.json.
Conditions are expression trees; what they judge are effective values and the facts of
:mod:`dslint.facts`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from dslint.config import Config
from dslint.document import Path, Place, dotted
from dslint.errors import UsageError
from dslint.expression import UNKNOWN, Tree, evaluate, ready, show
from dslint.facts import Facts, Item
from dslint.finding import Finding, Fix
from dslint.releases import holds
from dslint.values import ACCELERATE

COMPILED = os.path.join(os.path.dirname(__file__), "rules.json")

TARGET = ("release", "trainer", "gpus")
"""What rules may ask about the target, as target.gpus."""

MAX_SHOWN = 500
"""Characters of one value in a message; a message may name a value many times, and a file be one value."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Templates (message, cure) are lists of texts and expression trees.

    A rule with `check` is emitted by the reader or the schema check, which find the place and say
    the message; its file holds what it is called, how bad it is and what to tell about it. `holds` is
    `when` in Python (:mod:`dslint.translate`), where there is a translation.
    """

    code: str
    name: str
    severity: str
    phase: str
    summary: str
    why: str = ""
    check: str = ""
    deepspeed: str = ""
    trainers: tuple[str, ...] = ()
    when: Tree | None = None
    at: str = ""
    each: tuple[str, ...] = ()
    message: Tree = field(default_factory=list)
    cure: Tree = field(default_factory=list)
    fix: dict[str, Any] | None = None
    source: tuple[str, ...] = ()
    examples: tuple[dict[str, Any], ...] = ()
    holds: Callable[[Any, Any, Any, Any, Any], Any] | None = field(default=None, compare=False)

    def applies(self, release: str, trainer: str) -> bool:
        """Whether the rule speaks about this release under this trainer."""
        return holds(self.deepspeed, release) and (not self.trainers or trainer in self.trainers)

    @property
    def about_accelerate(self) -> bool:
        """Whether the rule speaks about accelerate's own files, with or without a config in them."""
        return _about_accelerate((self.at, *self.each))


@cache
def _about_accelerate(places: tuple[str, ...]) -> bool:
    return any(place.startswith(("accelerate.", "facts.accelerate_")) for place in places)


def load() -> list[Rule]:
    """The compiled rules, by code."""
    from dslint.conditions import HOLDS

    with open(COMPILED, encoding="utf-8") as file:
        rules = json.load(file)
    return [from_data({**data, "holds": HOLDS.get(data["code"])}) for data in rules]


def from_data(data: dict[str, Any]) -> Rule:
    """A rule from its compiled form."""
    lists = ("trainers", "each", "source", "examples")
    fields: dict[str, Any] = {key: tuple(value) if key in lists else value for key, value in data.items()}
    return Rule(**fields)


def no_such_rule(word: str, rules: Iterable[Rule]) -> UsageError:
    """What to say about a rule code or name that does not exist."""
    from dslint.suggest import nearest

    known = [name for rule in rules for name in (rule.code, rule.name)]
    family = word.upper()
    if family == "ALL" or any(name.startswith(family) for name in known):
        hint = f"; did you mean {family}?"
        if family == word:  # where only one will do
            hint = f", it is a family; dslint --list-rules --select {word} lists it"
    elif family == "NONE":
        hint = "; to name no rule leave it out"
    else:
        near = nearest(word, known)
        hint = f"; did you mean {near}?" if near else "; see dslint --list-rules"
    return UsageError(f"no rule is called {word}{hint}")


_HEADS = {"facts", "target", "this", "args", "where"}
"""First words of paths that are none of the config."""


class Scope:
    """Resolves the paths of expressions: `facts.x`, `target.x`, `this.x`, and paths of the config.

    `args.x` is an argument of the run that names the config, `where.x` where that stands ("train.sh:12"),
    `accelerate.x` a key of the accelerate config file being judged.
    """

    def __init__(self, config: Config, facts: Facts, item: Item | None = None) -> None:
        self.config = config
        self.facts = facts
        self.item = item

    def lookup(self, path: tuple[str, ...]) -> Any:
        """The value of a path, or UNKNOWN."""
        head = path[0]
        if head not in _HEADS:
            return self.config.value(path)
        if head == "facts" and len(path) == 2:
            return self.facts[path[1]]
        if head == "target" and len(path) == 2 and path[1] in TARGET:
            value = getattr(self.config.target, path[1])
            return UNKNOWN if value is None else value
        if head == "this" and self.item is not None:
            return self.config.value(self.item.path) if len(path) == 1 else self.item.values.get(path[1])
        if head in ("args", "where") and len(path) == 2:
            launch = self.config.target.launch
            if launch is None:
                return UNKNOWN
            return launch.value(path[1]) if head == "args" else launch.where(path[1])
        return self.config.value(path)

    def call(self, name: str, path: tuple[str, ...]) -> Any:
        """What one of PATH_FUNCTIONS says about a path."""
        where: Path = self.item.path if path == ("this",) and self.item is not None else path
        if where[:1] == ACCELERATE and self.config.document.format != "accelerate":
            return UNKNOWN
        if name == "has":
            return self.config.has(where)
        if name == "written":
            return self.config.written(where)
        if name == "is_auto":
            return self.config.written(where) == "auto"
        if name == "at_default":
            return self.config.has(where) and self.config.value(where) == self.config.default(where)
        return self.config.offloads(where)


class ReadyRule:
    """A rule made ready for judging many configs: its condition and its places, worked out once."""

    __slots__ = ("holds", "items", "listed", "rule")

    def __init__(self, rule: Rule) -> None:
        assert rule.when is not None
        self.rule = rule
        self.holds = rule.holds or _interpreted(rule.when)
        self.listed = [entry[len("facts.") :] for entry in rule.each if entry.startswith("facts.")]
        paths = [split(entry) for entry in rule.each if not entry.startswith("facts.")]
        self.items = [Item(path, {"key": path[-1]}) for path in paths]
        if not rule.each:
            self.items = [Item(split(rule.at))]

    def places(self, config: Config, facts: Facts) -> list[Item]:
        """The places in a config that the rule may speak about."""
        if not self.rule.each:
            return self.items
        items = [item for item in self.items if item.path in config.given] if self.items else []
        for name in self.listed:
            found = facts[name]
            if found is not UNKNOWN:
                items += found
        return items


def _interpreted(when: Tree) -> Callable[[Any, Any, Any, Any, Any], Any]:
    """A condition that has no translation, to be called like one that has."""
    condition = ready(when)

    def holds(_v: Any, _f: Any, _g: Any, item: Item, scope: Scope) -> bool:
        scope.item = item
        verdict = condition(scope)
        return verdict is not UNKNOWN and bool(verdict)

    return holds


def undecided(rule: Rule, config: Config) -> bool:
    """Whether a rule may be silent because something it asks for is unknown, or is not its matter."""
    if rule.check:
        return rule.check not in ("reader", "schema")
    if rule.when is None or not rule.applies(config.target.release, config.target.trainer):
        return True
    facts, one = Facts(config), ReadyRule(rule)
    if any(facts[name] is UNKNOWN for name in one.listed):
        return True
    items = one.places(config, facts)
    return any(evaluate(rule.when, Scope(config, facts, item)) is UNKNOWN for item in items)


def judge(rules: Iterable[ReadyRule], config: Config) -> Iterator[Finding]:
    """Every finding of rules that apply to the config's target, in their order."""
    facts = Facts(config)
    scope = Scope(config, facts)
    values, given = config.values, config.given
    for one in rules:
        for item in one.places(config, facts) if one.rule.each else one.items:
            if one.holds(values, facts, given, item, scope):
                scope.item = item
                yield _finding(one.rule, config, item.path, scope)


@cache
def split(path: str) -> tuple[str, ...]:
    """The keys of a dotted path of a rule."""
    return tuple(path.split(".")) if path else ()


def _finding(rule: Rule, config: Config, path: Path, scope: Scope) -> Finding:
    written = config.file_path(path)
    place = config.document.nearest(written)
    fix = None
    if rule.fix is not None:
        from dslint.fixing.rule_fix import fix_by

        fix = fix_by(rule.fix, config, scope)
    return emit(rule, place, dotted(written), render(rule.message, scope), render(rule.cure, scope), fix)


def emit(
    rule: Rule, place: Place | None, key: str, message: str, cure: str, fix: Fix | None = None
) -> Finding:
    """The finding of a rule at a place of the document (None: at its very start)."""
    start, end = place.span if place is not None else (0, 0)
    return Finding(rule.code, rule.name, rule.severity, rule.phase, message, key, start, end, cure, fix)


def render(template: Tree, scope: Scope) -> str:
    """A message with its placeholders filled."""
    shown = [part if isinstance(part, str) else show(evaluate(part, scope)) for part in template]
    return "".join([text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..." for text in shown])
