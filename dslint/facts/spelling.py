"""Keys that are given in two spellings at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dslint.config import Config
from dslint.document import Path
from dslint.facts.registry import Item, fact
from dslint.values import Schema, properties


@fact
def two_spellings(config: Config) -> Any:
    """Keys of strict sections given beside another spelling of themselves, or beside their replacement."""
    return list(_pairs(config.schema, (), config.data))


def _pairs(schema: Schema, path: Path, section: Any) -> Iterator[Item]:
    if not isinstance(section, dict):
        return
    known, strict = properties(schema), schema.get("x-unknown-keys") == "forbidden"
    for key, value in section.items():
        sub = known.get(key)
        if sub is None:
            continue
        if strict and value != "auto":
            other = sub.get("x-canonical") or (sub.get("deprecated") and sub.get("x-replaced-by"))
            if section.get(other, "auto") != "auto":
                yield Item((*path, key), {"one": key, "other": other})
        if "properties" in sub:
            yield from _pairs(sub, (*path, key), value)
