"""The batch equation: train_batch_size = micro batch x accumulation steps x data-parallel ranks.

DeepSpeed derives what is missing with floor division and then insists on the product
(runtime/config.py, DeepSpeedConfig._set_batch_related_parameters and _batch_assertion, 0.19.8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dslint.config import Config
from dslint.expression import UNKNOWN
from dslint.facts.registry import Item, fact, once

TRAIN = ("train_batch_size",)
MICRO = ("train_micro_batch_size_per_gpu",)
STEPS = ("gradient_accumulation_steps",)
MANY_RANKS = 4096
"""How many data-parallel ranks are tried before a batch equation counts as one that none satisfies."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The three batch numbers as DeepSpeed resolves them; None where nothing was given or derived."""

    train: Any
    micro: Any
    steps: Any

    def sane(self) -> bool:
        """Whether none of the numbers given is zero or less, which the schema reports."""
        return all(value is None or value > 0 for value in (self.train, self.micro, self.steps))

    def positive(self) -> bool:
        """Whether all three are numbers above zero."""
        return all(value is not None and value > 0 for value in (self.train, self.micro, self.steps))

    def consistent(self, ranks: Any) -> bool:
        """Whether DeepSpeed accepts the numbers on so many data-parallel ranks."""
        return self.positive() and self.train == self.micro * self.steps * ranks


def resolve(given: Batch, ranks: Any) -> Batch:
    """The three numbers after DeepSpeed derived the missing ones."""
    train, micro, steps = given.train, given.micro, given.steps
    if train is not None and micro is not None:
        return Batch(train, micro, steps if steps is not None else train // micro // ranks)
    if train is not None and steps is not None:
        return Batch(train, train // ranks // steps, steps)
    if micro is not None:
        steps = 1 if steps is None else steps
        return Batch(micro * steps * ranks, micro, steps)
    if train is not None:
        return Batch(train, train // ranks, 1)
    return Batch(None, None, steps)


@once
def _given(config: Config) -> Batch | None:
    """The numbers of the file and of its trainer; None when one is unknown or not a number."""
    values = []
    for path in (TRAIN, MICRO, STEPS):
        value = config.written(path) if config.has(path) else None
        if config.origin(path).kind == "filled":
            value = config.value(path)
        if not isinstance(value, (int, float, type(None))):
            return None
        if isinstance(value, float) and not math.isfinite(value):
            return None
        values.append(value)
    return Batch(*values)


@fact
def data_parallel_ranks(config: Config) -> Any:
    """Ranks that see different data: the processes, divided by sequence_parallel_size where given.

    With data_parallel_size beside it, that one counts since 0.15.0; alone it divides since 0.17.0
    (deepspeed/__init__.py, initialize; runtime/config.py, DeepSpeedConfig.__init__; run on two and three
    CPU ranks in 0.14.5, 0.15.0, 0.16.9, 0.17.0, 0.18.5, 0.18.6 and 0.19.8, as a dict and as a path).
    """
    gpus = config.target.gpus
    if gpus is None:
        return UNKNOWN
    size = config.written(("sequence_parallel_size",))
    mesh = config.written(("data_parallel_size",))
    divides = sequence_parallel_divides(config) if mesh is None else parallel_sizes_read(config) is not False
    if size is None or not divides:
        return gpus
    if isinstance(mesh, int):
        ranks: Any = mesh
    else:
        ranks = gpus / size if isinstance(size, (int, float)) and size else UNKNOWN
    return ranks if parallel_sizes_read(config) is True or ranks == gpus else UNKNOWN


@fact
def parallel_sizes_read(config: Config) -> Any:
    """Whether deepspeed.initialize looks for data_parallel_size and sequence_parallel_size.

    Before 0.18.6 it does so in a dict and not in a file whose path it is given; trainers pass a dict.
    """
    if config.target.release_number < (0, 15, 0):
        return False
    return True if config.target.release_number >= (0, 18, 6) or config.target.trainer != "raw" else UNKNOWN


@fact
def sequence_parallel_divides(config: Config) -> Any:
    """Whether sequence_parallel_size alone divides the ranks (runtime/config.py, since 0.17.0)."""
    return config.target.release_number >= (0, 17, 0)


@fact
def batch_given(config: Config) -> Any:
    """How many of the three batch numbers the file gives."""
    return sum(config.written(path) is not None for path in (TRAIN, MICRO, STEPS))


@fact
def batch_size_missing(config: Config) -> Any:
    """Neither train_batch_size nor train_micro_batch_size_per_gpu is given, by the file or its trainer."""
    return all(
        config.written(path) is None and config.origin(path).kind != "filled" for path in (TRAIN, MICRO)
    )


@fact
def batch_conflict(config: Config) -> Any:
    """Whether the given numbers break the equation: on the known ranks, else on every number of ranks."""
    given = _given(config)
    if given is None or batch_size_missing(config) or not given.sane():
        return UNKNOWN
    ranks = data_parallel_ranks(config)
    if ranks is not UNKNOWN:
        return not resolve(given, ranks).consistent(ranks)
    return implied_ranks(given) is None


@fact
def batch_at(config: Config) -> Any:
    """The key that a batch conflict is reported at."""
    return [Item(TRAIN if config.has(TRAIN) else MICRO, {})]


@fact
def batch_equation(config: Config) -> Any:
    """The equation as DeepSpeed resolves it, in words: "256 != 8 x 8 x 3"."""
    given = _given(config)
    if given is None:
        return UNKNOWN
    ranks = data_parallel_ranks(config)
    if ranks is UNKNOWN:
        known = [v for v in (given.micro, given.steps) if v is not None]
        return f"{given.train} is not a multiple of {' x '.join(map(str, known))}"
    b = resolve(given, ranks)
    if None in (given.train, given.micro, given.steps) and given.train is not None:
        known = [v for v in (given.micro, given.steps) if v is not None]
        factors = " x ".join(map(str, [*known, f"{ranks} ranks" if ranks != 1 else "1 rank"]))
        return f"{given.train} is not a multiple of {factors}"
    return f"{b.train} != {b.micro} x {b.steps} x {ranks}"


@fact
def batch_proposal(config: Config) -> Any:
    """Numbers that would satisfy the equation, in words."""
    given = _given(config)
    if given is None:
        return UNKNOWN
    known = data_parallel_ranks(config)
    ranks = 1 if known is UNKNOWN else known
    micro = given.micro if given.micro is not None else 1
    steps = given.steps if given.steps is not None else 1
    unit = micro * steps * ranks
    if given.train is None or unit != int(unit) or unit < 1:
        return f"train_batch_size {micro * steps * ranks}"
    unit = int(unit)
    lower = int(given.train // unit) * unit
    sizes = [size for size in (lower, lower + unit) if size > 0]
    if given.micro is not None and given.steps is not None and known is not UNKNOWN:
        sizes = [unit]
    parts = []
    whole = given.train / ranks
    if known is not UNKNOWN and whole == int(whole) and whole >= 1:
        whole = int(whole)
        if given.steps is not None and whole % micro == 0:
            parts.append(f"gradient_accumulation_steps {whole // micro}")
        if given.micro is not None and whole % steps == 0:
            parts.append(f"train_micro_batch_size_per_gpu {whole // steps}")
    return ", or ".join([*parts, "train_batch_size " + " or ".join(map(str, sizes))])


@lru_cache(maxsize=1024)
def implied_ranks(given: Batch) -> int | None:
    """The smallest number of data-parallel ranks that DeepSpeed accepts the numbers on, or None."""
    candidates = list(range(1, MANY_RANKS + 1))
    if given.train is not None and given.micro is not None and given.steps is not None:
        ratio = given.train / (given.micro * given.steps)
        candidates = [int(ratio)] if ratio == int(ratio) and ratio >= 1 else []
    return next((ranks for ranks in candidates if resolve(given, ranks).consistent(ranks)), None)


@fact
def batch_ranks_implied(config: Config) -> Any:
    """The only number of ranks that a fully given equation allows."""
    given = _given(config)
    if given is None or None in (given.train, given.micro, given.steps) or not given.positive():
        return UNKNOWN
    ranks = implied_ranks(given)
    return UNKNOWN if ranks is None else ranks
