"""What a key takes, by its schema, and in words."""

from __future__ import annotations

from typing import Any

from dslint.expression import show
from dslint.schema import Schema

_NO_BOUND = 2**62
"""A maximum beyond this is that of the machine's integers, not one to tell people about."""

_KINDS = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "a string",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


def meant(schema: Schema) -> list[str]:
    """The JSON types that DeepSpeed means a key to have."""
    types: Any = schema.get("x-type", schema.get("type", []))
    return [types] if isinstance(types, str) else list(types)


def expectation(schema: Schema) -> str:
    """What a key takes, in words: "an integer of at least 1", "one of 0, 1, 2, 3"."""
    values = schema.get("x-values")
    if values:
        return "one of " + ", ".join(show(value) for value in values)
    types = meant(schema)
    words = " or ".join(_KINDS[kind] for kind in types if kind != "null") or "another value"
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    if "integer" in types or "number" in types:
        if low is not None and high is not None and high < _NO_BOUND:
            words += f" from {show(low)} to {show(high)}"
        elif low is not None:
            words += f" of at least {show(low)}"
        elif above is not None:
            words += f" above {show(above)}"
        elif high is not None and high < _NO_BOUND:
            words += f" of at most {show(high)}"
        elif below is not None:
            words += f" below {show(below)}"
    return words
