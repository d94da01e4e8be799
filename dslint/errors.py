"""What goes wrong because of what a person asked for."""

from __future__ import annotations


class UsageError(Exception):
    """A request that cannot be carried out; the message is one line with the cure."""
