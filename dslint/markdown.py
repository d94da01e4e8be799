"""Keys and rules as Markdown: what an editor shows on hover, and the pages of the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable

from dslint.explain import Key
from dslint.links import rule_url
from dslint.rules import Rule

_SPECIAL = re.compile(r"([\\`*{}\[\]<>#|~]|(?<![^\W_])_|_(?![^\W_]))")
"""Underscores inside words mean nothing, and some editors show what escapes them."""


def plain(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return _SPECIAL.sub(r"\\\1", text)


def code(text: str) -> str:
    """Text as it stands, in a code span that nothing in it ends."""
    line = "".join(char if char.isprintable() else "\ufffd" for char in text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence}{line}{fence}" if len(fence) == 1 else f"{fence} {line} {fence}"


def linked(rule: Rule) -> str:
    """A rule's code, as a link where it has a page on the web."""
    return f"[{rule.code}]({rule_url(rule.code)})" if rule_url(rule.code) else rule.code


def about_key(what: Key, link: Callable[[Rule], str] = linked) -> str:
    """All there is to say about a key but its name; `link` writes a rule's code."""
    blocks = []
    if what.known:
        blocks.append(plain(what.description))
        facts = [f"takes {plain(what.takes)}"]
        facts += [f"default `{what.default}`"] if what.default is not None else []
        facts.append(f"DeepSpeed {what.release}")
        blocks.append("; ".join(facts))
        blocks += [f"another spelling of `{what.same_as}`"] if what.same_as else []
        blocks += [f"deprecated: write `{what.replaced_by}`"] if what.replaced_by else []
        blocks += [f"removed: {plain(what.removed)}"] if what.removed else []
    else:
        blocks.append(f"DeepSpeed {what.release} does not read this key.")
    if what.history:
        blocks.append("\n".join(f"- {plain(line)}" for line in what.history))
    if what.rules:
        blocks.append("\n".join(f"- {link(rule)} {plain(rule.summary)}" for rule in what.rules))
    return "\n\n".join(block for block in blocks if block)
