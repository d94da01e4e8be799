"""Where the documentation lies on the web; every link in a report is made here."""

from __future__ import annotations

SITE = "https://deepspeed-lint.readthedocs.io/en/latest/"
"""The address the site (docs/) is published under. The package's name, for the project has no other yet."""

OURS = "DS"
"""What the codes of dslint's own rules begin with; a team's begin otherwise and have no page here."""


def rule_url(code: str) -> str:
    """The page of a rule; "" for a team's own."""
    return f"{SITE}rules/{code}/" if code.startswith(OURS) else ""
