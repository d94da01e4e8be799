"""`--explain`: what a rule means, from its file, and what a config key means, from the schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dslint.config import schema_at
from dslint.expression import paths
from dslint.history import story
from dslint.kinds import expectation
from dslint.links import rule_url
from dslint.rules import Rule, no_such_rule
from dslint.schema import Schema, load

DOCS = Path(__file__).with_name("rule_docs.json")


def explain(word: str, rules: list[Rule], release: str) -> str:
    """The page of a rule (by code or name) or of a config key (by path). Raises UsageError."""
    rule = next((r for r in rules if word.upper() == r.code or word == r.name), None)
    if rule is not None:
        return rule_page(rule)
    keys = matching_keys(word, release)
    if not keys:
        raise no_such_rule(word, rules)
    return "\n".join(key_page(path, rules, release) for path in keys)


def matching_keys(word: str, release: str) -> list[str]:
    """The known paths that a word means: itself, else those that begin and end like it."""
    known = paths_of(load(release))
    if word in known or story(word) is not None:
        return [word]
    first, _, last = word.rpartition(".")
    return [path for path in known if path.endswith(f".{last}") and path.startswith(first)]


def paths_of(schema: Schema, prefix: str = "") -> list[str]:
    """Every dotted path of a schema, in its order."""
    found = []
    for key, sub in schema.get("properties", {}).items():
        path = f"{prefix}.{key}" if prefix else key
        found += [path, *paths_of(sub, path)]
    return found


@dataclass(frozen=True, slots=True)
class Key:
    """What there is to say about a config key in one release. `known`: the release reads it."""

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


def key(path: str, rules: Iterable[Rule], release: str) -> Key:
    """What a key means, what it takes, its default, its history and the rules that speak about it."""
    schema = schema_at(load(release), tuple(path.split(".")))
    past = story(path)
    return Key(
        path,
        release,
        bool(schema),
        schema.get("description", ""),
        expectation(schema) if schema else "",
        json.dumps(schema["default"]) if "default" in schema else None,
        schema.get("x-canonical", ""),
        schema.get("x-replaced-by", ""),
        schema.get("x-removed", ""),
        tuple(past.lines()) if past is not None else (),
        tuple(rule for rule in rules if speaks_of(rule, path)),
    )


def key_page(path: str, rules: Iterable[Rule], release: str) -> str:
    """A key as a page for a terminal."""
    what = key(path, rules, release)
    lines = [path, ""]
    if what.known:
        lines += [what.description, "", f"takes: {what.takes}"]
        lines += [f"default: {what.default}"] if what.default is not None else []
        lines += [f"another spelling of: {what.same_as}"] if what.same_as else []
        lines += [f"deprecated: write {what.replaced_by}"] if what.replaced_by else []
        lines += [f"removed: {what.removed}"] if what.removed else []
        lines.append(f"DeepSpeed release: {release}")
    else:
        lines.append(f"DeepSpeed {release} does not read this key.")
    if what.history:
        lines += ["", "history:", *(f"  {line}" for line in what.history)]
    if what.rules:
        lines += ["", "rules:", *(f"  {rule.code} {rule.name}: {rule.summary}" for rule in what.rules)]
    return "\n".join(lines) + "\n"


def speaks_of(rule: Rule, path: str) -> bool:
    """Whether a rule reports at a key or asks for it in its condition."""
    asked = [".".join(p) for p in paths(rule.when)] if rule.when else []
    return path in (rule.at, *rule.each, *asked)


def rule_page(rule: Rule) -> str:
    """What a rule means and what to do, from its file."""
    docs: dict[str, Any] = {"why": rule.why, "source": rule.source, "examples": rule.examples}
    if not rule.why:  # one of our own, whose texts are kept apart from what every run loads
        docs = json.loads(DOCS.read_text(encoding="utf-8"))[rule.code]
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
