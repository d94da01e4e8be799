"""`--explain`: what a rule means, from its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dslint.rules import Rule, no_such_rule

DOCS = Path(__file__).with_name("rule_docs.json")


def explain(word: str, rules: list[Rule]) -> str:
    """The page of a rule, by code or name. Raises UsageError."""
    rule = next((r for r in rules if word.upper() == r.code or word == r.name), None)
    if rule is None:
        raise no_such_rule(word, rules)
    docs: dict[str, Any] = json.loads(DOCS.read_text(encoding="utf-8"))[rule.code]
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
    if docs.get("source"):
        lines += ["", "source:", *(f"  {source}" for source in docs["source"])]
    return "\n".join(lines) + "\n"
