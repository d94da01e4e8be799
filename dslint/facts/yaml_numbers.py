"""Numbers that YAML 1.1 reads as text: 5e8 and 1e-5 need a point and a sign."""

from __future__ import annotations

from typing import Any

from dslint.config import Config
from dslint.document import walk
from dslint.facts.registry import Item, fact


@fact
def yaml_numbers_as_text(config: Config) -> Any:
    """Values of a config in YAML that look like numbers and are strings, with the number to write."""
    document = config.document
    if document.format != "yaml" or config.root is None:
        return []
    from dslint.formats.yaml_reader import numeric_text

    found = []
    for place in walk(config.root):
        text = document.text[slice(*place.node.span)]
        if place.node.kind == "string" and text == place.node.value and numeric_text(text):
            found.append(Item(place.path, {"text": text, "number": _readable(text)}))
    return found


def _readable(text: str) -> str:
    """The same number as YAML 1.1 knows it: 5.0e+8 for 5e8."""
    mantissa, _, exponent = text.lower().partition("e")
    point = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{point}e{exponent if exponent[:1] in '+-' and exponent else '+' + exponent}"
