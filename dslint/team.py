"""A team's own rules: folders of rule files in the language of rules/, with codes of their own.

Whoever opens a pull request can write such a file. It is data in a language that cannot execute, loop or
build anything (:mod:`dslint.expression`), read within bounds (:mod:`dslint.rulefile`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dslint.document import dotted
from dslint.errors import UsageError
from dslint.examples import failure, mended
from dslint.expression import paths
from dslint.facts import REGISTRY
from dslint.history import story
from dslint.links import OURS
from dslint.report.words import counted
from dslint.rulefile import SUFFIXES, RuleFileError, compile_rule, read
from dslint.rules import TARGET, Rule, from_data
from dslint.schema import load as schema_of
from dslint.schema import newest
from dslint.suggest import nearest
from dslint.trainers.accelerate import BLOCK, TOP
from dslint.values import schema_at

MAX_FILES = 500


def files_of(folder: str) -> list[Path]:
    """The rule files in a folder, by name. Raises UsageError where there is none."""
    try:
        names = sorted(path for path in Path(folder).iterdir() if path.suffix in SUFFIXES)
    except (OSError, ValueError) as error:
        raise UsageError(f"rules: {folder}: {getattr(error, 'strerror', None) or error}") from None
    if not names:
        raise UsageError(f"rules: {folder}: no rule file (*.yaml) in this folder")
    if len(names) > MAX_FILES:
        raise UsageError(f"rules: {folder}: {len(names):,} rule files; a team has up to {MAX_FILES}")
    return names


def load(folders: Iterable[str], own: Sequence[Rule]) -> list[Rule]:
    """The rules in folders, by code. Raises UsageError for the first file that cannot be used."""
    team: list[Rule] = []
    try:
        for path in (path for folder in dict.fromkeys(folders) for path in files_of(folder)):
            team.append(rule_of(read(path), str(path), [*own, *team], own))
    except RuleFileError as error:
        raise UsageError(f"rules: {error}") from None
    return sorted(team, key=lambda rule: rule.code)


def rule_of(data: dict[str, Any], origin: str, taken: Iterable[Rule], own: Iterable[Rule]) -> Rule:
    """The rule that a file holds as data. Raises RuleFileError, also for a code or name that is `taken`."""
    rule = from_data(compile_rule(data, origin))
    if rule.code.startswith(OURS):
        raise RuleFileError(
            f"{origin}: code: {rule.code} begins with {OURS}, as dslint's own codes do; take other letters"
        )
    if rule.when is None:
        raise RuleFileError(f"{origin}: check: is for dslint's own rules; write when: (a condition)")
    for other in taken:
        if rule.code == other.code or rule.name == other.name:
            what = f"{rule.code} {rule.name}: code or name is taken by {other.code} {other.name}"
            raise RuleFileError(f"{origin}: {what}")
    for problem in unknown_names(rule, own):
        raise RuleFileError(f"{origin}: {problem}")
    return rule


def unknown_names(rule: Rule, own: Iterable[Rule]) -> Iterator[str]:
    """What a rule names that does not exist, each with the nearest name that does."""
    finding_places = {place[6:] for other in own for place in other.each if place.startswith("facts.")}
    for place in rule.each:
        if place.startswith("facts."):
            yield from _unless_in(place, place[6:], finding_places, "no fact that finds places is called")
        else:
            yield from _unknown_key(tuple(place.split(".")))
    fix = rule.fix or {}
    trees: list[Any] = [entry[1] for kind in ("set", "rename", "move") for entry in fix.get(kind, ())]
    trees += [["list", *text] for text in (rule.message, rule.cure, fix.get("title", []))]
    if rule.when is not None:
        trees.append(rule.when)
    named = [path for tree in trees for path in paths(tree)]
    for path in (*named, *([tuple(rule.at.split("."))] if rule.at else [])):
        head, rest = path[0], ".".join(path[1:])
        if head == "facts":
            yield from _unless_in(dotted(path), rest, REGISTRY, "no fact is called")
        elif head == "target":
            yield from _unless_in(dotted(path), rest, TARGET, "the target has no")
        elif head in ("args", "where", "this"):
            if len(path) > 2 or (len(path) == 1 and head != "this"):
                yield f"{dotted(path)}: {head} is followed by one name, as in {head}.name"
        else:
            yield from _unknown_key(path)


def _unless_in(whole: str, name: str, known: Iterable[str], words: str) -> Iterator[str]:
    if name not in known:
        near = nearest(name[:80], known)
        yield f"{whole}: {words} {name[:80]}" + (f"; did you mean {near}?" if near else "")


def _unknown_key(path: tuple[str, ...]) -> Iterator[str]:
    """A path that is a misspelling of one that DeepSpeed reads; a key like no other may be a team's own."""
    if path[0] == "accelerate":
        known: Iterable[str] = BLOCK if path[1:2] == ("deepspeed_config",) and len(path) > 2 else TOP
        if len(path) > 1 and path[-1] not in known and nearest(path[-1], known):
            yield f"{dotted(path)}: accelerate has no such key; did you mean {nearest(path[-1], known)}?"
        return
    schema = schema_of(newest())
    for depth, key in enumerate(path):
        section = schema_at(schema, path[:depth])
        if schema_at(schema, path[: depth + 1]):
            continue
        if section.get("x-unknown-keys") == "free" or story(dotted(path[: depth + 1])) is not None:
            return
        near = nearest(key, section.get("properties", {}))
        if near:
            instead = dotted((*path[:depth], near, *path[depth + 1 :]))
            yield f"{dotted(path)}: no release of DeepSpeed has this key; did you mean {instead}?"
        return


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one rule file: lines for people, and whether all its examples hold."""

    lines: tuple[str, ...]
    passed: bool


def trials(folder: str, own: Sequence[Rule]) -> Iterator[Tried]:
    """Tries the examples of every rule file in a folder. Raises UsageError where there is none."""
    team: list[Rule] = []
    for path in files_of(folder):
        try:
            rule = rule_of(read(path), str(path), [*own, *team], own)
        except RuleFileError as error:
            yield Tried((f"FAIL {error}",), False)
            continue
        team.append(rule)
        yield trial(rule, [*own, rule])


def trial(rule: Rule, rules: Sequence[Rule]) -> Tried:
    """Tries the examples of one rule. A rule that no example shows to fire does not pass."""
    wrong = []
    mends = False
    for number, example in enumerate(rule.examples, 1):
        label = f"example {number} ({'bad' if 'bad' in example else 'good'})"
        said = failure(rule, example, rules, alone=True)
        if not said and "bad" in example and rule.fix is not None:
            done = mended(rule, example, rules)
            mends = mends or done is True
            said = "the fix leaves the finding" if done is False else ""
        if said:
            wrong.append(f"{label} {said}")
    if not any("bad" in example for example in rule.examples):
        wrong.append("no bad: example shows that it fires")
    elif rule.fix is not None and not mends and not wrong:
        wrong.append("no bad: example is mended by the fix: is its path right, is the value known?")
    head = f"{rule.code} {rule.name}"
    if wrong:
        return Tried(tuple(f"FAIL {head}: {line}" for line in wrong), False)
    return Tried((f"ok   {head}: {counted(len(rule.examples), 'example')}",), True)
