"""Facts in Python, judgments in YAML: what rules may ask about a config as `facts.<name>`."""

from dslint.facts import (  # noqa: F401  (they register)
    accelerate,
    batch,
    buckets,
    extras,
    frameworks,
    memory,
    offload,
    optimizer,
    precision,
    scalars,
    schedule,
    spelling,
    trainer,
    yaml_numbers,
    zero,
)
from dslint.facts.registry import REGISTRY, Facts, Item

__all__ = ["REGISTRY", "Facts", "Item"]
