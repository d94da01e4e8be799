"""`--explain`: what a rule means, from its file, and what a config key means, from the schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dslint.errors import UsageError
from dslint.expression import paths
from dslint.history import story
from dslint.kinds import expectation
from dslint.links import rule_url
from dslint.rules import Rule, no_such_rule
from dslint.schema import Schema, index, load
from dslint.suggest import nearest
from dslint.values import properties, schema_at

DOCS = Path(__file__).with_name("rule_docs.json")


def explain(word: str, rules: list[Rule], release: str) -> str:
    """The page of a rule (by code or name) or of a config key (by path). Raises UsageError."""
    rule = next((r for r in rules if word.upper() == r.code or word == r.name), None)
    if rule is not None:
        return rule_page(rule)
    keys = matching_keys(word, release)
    if not keys:
        raise _nothing_called(word, rules, release)
    return "\n".join(key_page(path, rules, release) for path in keys)


def matching_keys(word: str, release: str) -> list[str]:
    """The known paths that a word means: itself, else those that begin and end like it."""
    known = paths_of(load(release))
    if word in known or story(word) is not None or parameter_lines(word, load(release)):
        return [word]
    first, _, last = word.rpartition(".")
    return [path for path in known if last and path.endswith(f".{last}") and path.startswith(first)]


def _nothing_called(word: str, rules: list[Rule], release: str) -> UsageError:
    """What to say about a word that means no rule and no key."""
    if re.fullmatch("[A-Z]{2,8}[0-9]+", word):
        return no_such_rule(word, rules)
    known = [*paths_of(load(release)), *(rule.name for rule in rules)]
    last = word.rpartition(".")[2]
    near = nearest(word, known) or nearest(last, (path.rpartition(".")[2] for path in known))
    hint = f"; did you mean {near}?" if near else "; see dslint --list-rules, or dslint --print-schema"
    return UsageError(f"no rule and no key is called {json.dumps(word)}{hint}")


def paths_of(schema: Schema, prefix: str = "") -> list[str]:
    """Every dotted path of a schema, in its order."""
    found = []
    for key, sub in schema.get("properties", {}).items():
        path = f"{prefix}.{key}" if prefix else key
        found += [path, *paths_of(sub, path)]
    return found


@dataclass(frozen=True, slots=True)
class Key:
    """What there is to say about a config key in one release. `known`: the release reads it.

    Of a key that it does not read, the rest is as in the newest release that does; `fate` says what this one
    does with it. `parameters` tells which optimizers or schedulers take a parameter.
    """

    path: str
    release: str
    known: bool
    description: str
    takes: str
    default: str | None
    same_as: str
    replaced_by: str
    removed: str
    history: tuple[str, ...]
    rules: tuple[Rule, ...]
    fate: str = ""
    parameters: tuple[str, ...] = ()


def key(path: str, rules: Iterable[Rule], release: str) -> Key:
    """What a key means, what it takes, its default, its history and the rules that speak about it."""
    keys, past = tuple(path.split(".")), story(path)
    here, parameters, fate = schema_at(load(release), keys), parameter_lines(path, load(release)), ""
    schema = here
    if not here and not parameters:
        fate = f"DeepSpeed {release} does not read this key: {_done_with(keys, release)}."
        every = (schema_at(load(other), keys) for other in reversed(index()))
        schema = next((other for other in every if other), {})
    elif "x-removed" in here:
        fate = f"DeepSpeed {release} raises where this key is given, whatever its value."
    return Key(
        path,
        release,
        bool(here or parameters),
        schema.get("description", ""),
        expectation(schema) if schema and "x-removed" not in schema else "",
        json.dumps(schema["default"]) if "default" in schema else None,
        schema.get("x-canonical", ""),
        schema.get("x-replaced-by", ""),
        schema.get("x-removed", ""),
        tuple(past.lines()) if past is not None else (),
        tuple(rule for rule in rules if speaks_of(rule, path)),
        fate,
        tuple(parameters),
    )


def key_page(path: str, rules: Iterable[Rule], release: str) -> str:
    """A key as a page for a terminal."""
    what = key(path, rules, release)
    lines = [path, "", *_block(what.description), *_block(what.fate)]
    lines += [f"takes: {what.takes}"] if what.takes else []
    lines += [f"default: {what.default}"] if what.default is not None else []
    lines += [f"another spelling of: {what.same_as}"] if what.same_as else []
    lines += [f"deprecated: write {what.replaced_by}"] if what.replaced_by else []
    lines += [f"removed: {what.removed}"] if what.removed and what.removed != what.description else []
    lines += [*what.parameters, f"DeepSpeed release: {release}"]
    if what.history:
        lines += ["", "history:", *(f"  {line}" for line in what.history)]
    if what.rules:
        lines += ["", "rules:", *(f"  {_named(rule)}" for rule in what.rules)]
    return "\n".join(lines) + "\n"


def _block(text: str) -> list[str]:
    """A paragraph, nothing for an empty one."""
    return [text, ""] if text else []


def _named(rule: Rule) -> str:
    """A rule in one line, with the releases it holds for."""
    where = f" (DeepSpeed {rule.deepspeed})" if rule.deepspeed else ""
    return f"{rule.code} {rule.name}: {rule.summary}{where}"


def _done_with(path: tuple[str, ...], release: str) -> str:
    """What a release does with a key that it does not know."""
    section = load(release)
    for key in path:
        if key not in properties(section):
            break
        section = section["properties"][key]
    return "it raises" if section.get("x-unknown-keys") == "forbidden" else "it drops it without a word"


def parameter_lines(path: str, schema: Schema) -> list[str]:
    """Which types of a section take a parameter: of `optimizer.params.lr`, `scheduler.params.warmup_type`."""
    section, _, name = path.partition(".params.")
    takers: dict[str, list[str]] = {}
    for kind, entry in schema_at(schema, (section,)).get(f"x-{section}s", {}).items():
        defaults = entry.get("defaults", entry.get("params", {}))
        if name in defaults or name in entry.get("gpu", []) or name in entry.get("required", []):
            default = defaults.get(name)
            text = "" if default is None else f" (default {json.dumps(default)})"
            takers.setdefault(" (required)" if name in entry.get("required", []) else text, []).append(kind)
    return [f"taken by: {', '.join(kinds)}{text}" for text, kinds in takers.items()]


def speaks_of(rule: Rule, path: str) -> bool:
    """Whether a rule reports at a key or asks for it in its condition.

    Where a fact finds the places, the examples of the rule tell what they are.
    """
    asked = [".".join(p) for p in paths(rule.when)] if rule.when else []
    if path in (rule.at, *rule.each, *asked):
        return True
    if not any(place.startswith("facts.") for place in rule.each):
        return False
    return any(path == example.get("at") for example in _docs_of(rule)["examples"])


@cache
def _own_docs() -> dict[str, Any]:
    return json.loads(DOCS.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _docs_of(rule: Rule) -> dict[str, Any]:
    """The texts of a rule; those of our own are kept apart from what every run loads."""
    if rule.why:
        return {"why": rule.why, "source": rule.source, "examples": rule.examples}
    return _own_docs()[rule.code]  # type: ignore[no-any-return]


def rule_page(rule: Rule) -> str:
    """What a rule means and what to do, from its file."""
    docs = _docs_of(rule)
    lines = [f"{rule.code} {rule.name}", "", rule.summary, ""]
    lines.append(f"severity: {rule.severity}; phase: {rule.phase}")
    if rule.deepspeed:
        lines.append(f"DeepSpeed releases: {rule.deepspeed}")
    if rule.trainers:
        lines.append(f"trainers: {', '.join(rule.trainers)}")
    lines += ["", *docs["why"].splitlines()]
    for kind in ("bad", "good"):
        example = next((e for e in docs.get("examples", []) if kind in e), None)
        if example is not None:
            body = example[kind]
            text = body if isinstance(body, str) else json.dumps(body, indent=2, ensure_ascii=False)
            label = {"bad": "fires on", "good": "silent on"}[kind]
            flags = "".join(
                f" --{key} {example[key]}" for key in ("deepspeed", "trainer", "gpus") if key in example
            )
            lines += [
                "",
                f"{label}{' (with' + flags + ')' if flags else ''}:",
                *("  " + t for t in text.splitlines()),
            ]
    if rule_url(rule.code):
        lines += ["", f"page: {rule_url(rule.code)}"]
    if docs.get("source"):
        lines += ["", "source:", *(f"  {source}" for source in docs["source"])]
    return "\n".join(lines) + "\n"
