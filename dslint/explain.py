"""`--explain`: what a rule means, from its file, and what a config key means, from the schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dslint.config import schema_at
from dslint.expression import paths
from dslint.history import story
from dslint.keys import expectation
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


def key_page(path: str, rules: list[Rule], release: str) -> str:
    """What a key means, what it takes, its default, its history and the rules that speak about it."""
    schema = schema_at(load(release), tuple(path.split(".")))
    lines = [path, ""]
    if schema:
        lines += [schema.get("description", ""), ""]
        lines.append(f"takes: {expectation(schema)}")
        if "default" in schema:
            lines.append(f"default: {json.dumps(schema['default'])}")
        if "x-canonical" in schema:
            lines.append(f"another spelling of: {schema['x-canonical']}")
        if "x-replaced-by" in schema:
            lines.append(f"deprecated: write {schema['x-replaced-by']}")
        lines.append(f"DeepSpeed release: {release}")
    else:
        lines.append(f"DeepSpeed {release} does not read this key.")
    past = story(path)
    if past is not None and past.lines():
        lines += ["", "history:", *(f"  {line}" for line in past.lines())]
    about = [rule for rule in rules if speaks_of(rule, path)]
    if about:
        lines += ["", "rules:", *(f"  {rule.code} {rule.name}: {rule.summary}" for rule in about)]
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
