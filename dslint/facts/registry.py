"""What is true of a config, computed for rules to judge: the batch equation, precision, bytes, names.

Each fact is a function of the config registered under its name; rules read it as `facts.<name>`.
A fact is UNKNOWN when what it needs is. Facts that find places return a list of Items, which a rule
names under `each`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dslint.config import Config
from dslint.document import Path
from dslint.expression import UNKNOWN


@dataclass(frozen=True, slots=True)
class Item:
    """A place that a rule speaks about, with values for its condition and message (`this.<name>`)."""

    path: Path
    values: dict[str, Any] = field(default_factory=dict)


Compute = Callable[[Config], Any]
REGISTRY: dict[str, Compute] = {}


def fact(compute: Compute) -> Compute:
    """Registers a function as the fact of its name."""
    REGISTRY[compute.__name__] = compute
    return compute


class Facts:
    """The facts of one config, each computed when first asked for."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The value of a fact. Raises KeyError for a name no fact has."""
        known = self._known
        if name not in known:
            try:
                known[name] = REGISTRY[name](self._config)
            except OverflowError:  # of an integer of some hundred digits
                known[name] = UNKNOWN
        return known[name]
