"""Which rules can say anything about a config at all, told by the keys it gives.

What a rule says depends on nothing but what it reads. Judged on an empty config, a part of its condition
that does not hold has read certain paths. A config that gives none of these either reads the same, so the
part does not hold for it and the rule is silent: the paths are a guard, looked at before the rule is. Most
rules are about keys that most configs do not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dslint.config import Config
from dslint.document import Document, Node, Path, Span
from dslint.expression import UNKNOWN, Tree, paths, ready
from dslint.facts import Facts
from dslint.rules import ReadyRule, Rule, Scope, split
from dslint.settings import Target
from dslint.values import Values

Guard = frozenset[Path]

WORTH = 8
"""How many configs are judged in full before guards are made, which costs about as much as judging these."""

_MANY = 1024
"""Sets of met guards whose rules are kept at a time."""


class _Asked(dict[Path, Any]):
    """What a file without keys gives, keeping which paths were asked for; a list item counts as its list."""

    def __init__(self) -> None:
        super().__init__({(): {}})
        self.paths: set[Path] = set()

    def _note(self, path: Path) -> None:
        upto = next((i for i, key in enumerate(path) if isinstance(key, int)), len(path))
        self.paths.add(path[:upto])

    def __contains__(self, path: object) -> bool:
        assert isinstance(path, tuple)
        self._note(path)
        return path == ()

    def get(self, path: Path, default: Any = None) -> Any:
        self._note(path)
        return super().get(path, default)


class _Empty(Config):
    """A config without keys that keeps which paths it was asked for.

    `opaque`: it was read in a way that names no path, so nothing is known of what was read.
    """

    def __init__(self, config: Config) -> None:
        self.schema, self.target = config.schema, config.target
        self.given = self._asked = _Asked()
        self.values = Values(config.schema, config.target, self._asked)
        self._spelled, self.known = {}, {}
        self.opaque = False

    def __getattr__(self, name: str) -> Any:
        root = Node("object", Span(0, 0))
        whole = {"data": {}, "document": Document("", "", root), "root": root, "base": ()}
        if name not in whole:
            raise AttributeError(name)
        self.opaque = True
        return whole[name]

    def guard(self) -> Guard | None:
        """The paths that were asked for; None where that is not all that was read."""
        return None if self.opaque else frozenset(self._asked.paths)


def guards(rule: Rule, config: Config, known: dict[str, Guard | None]) -> list[Guard]:
    """The guards of a rule for the release and target of a config: each has to be met by a key given.

    `known` keeps those of parts that were looked at, for many rules have parts in common.
    """
    assert rule.when is not None
    found = []
    for part in _parts(rule.when):
        text = repr(part)
        if text not in known:
            known[text] = _guard_of(part, config)
        found.append(known[text])
    if rule.each:
        found.append(_guard_of_places(rule.each, config))
    return [guard for guard in found if guard is not None]


def _parts(tree: Tree) -> list[Tree]:
    """What has to hold, part by part."""
    return [part for below in tree[1:] for part in _parts(below)] if tree[0] == "and" else [tree]


def _guard_of(part: Tree, config: Config) -> Guard | None:
    if any(path[0] == "this" for path in paths(part)):
        return None
    empty = _Empty(config)
    verdict = ready(part)(Scope(empty, Facts(empty)))
    holds = verdict is not UNKNOWN and bool(verdict)
    return None if holds else empty.guard()


def _guard_of_places(each: Sequence[str], config: Config) -> Guard | None:
    empty = _Empty(config)
    for entry in each:
        if not entry.startswith("facts."):
            empty.has(split(entry))
        elif Facts(empty)[entry.removeprefix("facts.")] not in (UNKNOWN, []):
            return None
    return empty.guard()


class Bench:
    """Rules ready to judge many configs of one release, trainer and number of GPUs."""

    def __init__(self, rules: Sequence[Rule], target: Target) -> None:
        self._rules = [
            ReadyRule(rule)
            for rule in rules
            if rule.when is not None and rule.applies(target.release, target.trainer)
        ]
        self._needs: list[int] = []
        self._opens: dict[Path, int] = {}
        self._called: dict[int, list[ReadyRule]] = {}  # by the guards that are met
        self._judged = 0

    def called(self, config: Config) -> list[ReadyRule]:
        """The rules that can say something about a config."""
        self._judged += 1
        if self._judged <= WORTH or not _plain(config):
            return self._rules
        if not self._needs:
            self._guard(config)
        opened = 0
        for path in config.given:
            opened |= self._opens.get(path, 0)
        called = self._called.get(opened)
        if called is None:
            if len(self._called) >= _MANY:
                self._called.clear()
            shut = ~opened
            called = [rule for rule, need in zip(self._rules, self._needs, strict=True) if not need & shut]
            self._called[opened] = called
        return called

    def _guard(self, config: Config) -> None:
        """Numbers the guards of all rules: a bit each in what a rule needs and in what a path opens."""
        bits: dict[Guard, int] = {}
        known: dict[str, Guard | None] = {}
        for rule in self._rules:
            need = 0
            for guard in guards(rule.rule, config, known):
                need |= bits.setdefault(guard, 1 << len(bits))
            self._needs.append(need)
        for guard, bit in bits.items():
            for path in guard:
                self._opens[path] = self._opens.get(path, 0) | bit


def _plain(config: Config) -> bool:
    """Whether nothing but the config is known of the run."""
    target, document = config.target, config.document
    told = (target.launch, target.companion, target.workload, document.config)
    return document.format in ("json", "yaml") and all(thing is None for thing in told)
