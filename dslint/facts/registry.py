"""What is true of a config, computed for rules to judge: the batch equation, precision, bytes, names.

Each fact is a function of the config registered under its name; rules read it as `facts.<name>`.
A fact is UNKNOWN when what it needs is. Facts that find places return a list of Items, which a rule
names under `each`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from dslint.config import Config
from dslint.document import Path
from dslint.expression import UNKNOWN


class Item(NamedTuple):
    """A place that a rule speaks about, with values for its condition and message (`this.<name>`)."""

    path: Path
    values: Mapping[str, Any] = MappingProxyType({})


T = TypeVar("T")

Compute = Callable[[Config], Any]
REGISTRY: dict[str, Compute] = {}


def once(compute: Callable[[Config], T]) -> Callable[[Config], T]:
    """Makes a function of a config that is computed once for each config: facts ask for one another."""

    @wraps(compute)
    def known(config: Config) -> T:
        found: T = config.known.get(compute, _NOTHING)
        if found is _NOTHING:
            found = config.known[compute] = compute(config)
        return found

    return known


_NOTHING: Any = object()


def fact(compute: Compute) -> Compute:
    """Registers a function as the fact of its name."""
    known = REGISTRY[compute.__name__] = once(compute)
    return known


@once
def texts(config: Config) -> list[tuple[Path, str]]:
    """Every value of the config that is text, where it stands. Lists are not entered."""
    return list(_texts(config.data, ()))


def _texts(section: dict[str, Any], path: Path) -> Iterator[tuple[Path, str]]:
    for key, value in section.items():
        if isinstance(value, str):
            yield (*path, key), value
        elif isinstance(value, dict):
            yield from _texts(value, (*path, key))


@once
def autos(config: Config) -> list[Path]:
    """Where the config says "auto"."""
    return [path for path, value in texts(config) if value == "auto"]


class Facts(dict[str, Any]):
    """The facts of one config by name, each computed when first asked for; KeyError where no fact has it."""

    __slots__ = ("_config",)

    def __init__(self, config: Config) -> None:
        self._config = config

    def __missing__(self, name: str) -> Any:
        try:
            value = REGISTRY[name](self._config)
        except OverflowError:  # of an integer of some hundred digits
            value = UNKNOWN
        self[name] = value
        return value
