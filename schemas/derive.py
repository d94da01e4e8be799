"""From what a parser accepts to the JSON Schema keywords that say the same.

`derive` asks an oracle about values of every JSON type and returns the keywords under which a
validator accepts what the oracle accepts. It knows nothing of DeepSpeed: the oracle is a function
from a value to True (accepted) or False.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Oracle = Callable[[Any], bool]
Schema = dict[str, Any]

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
END = "(?!\\n)$"
"""End of the string in both Python (whose `$` also matches before a last newline) and ECMAScript."""

INTEGERS = (
    -(10**20),
    -1000,
    -7,
    -1,
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    12,
    16,
    24,
    32,
    64,
    100,
    1000,
    500000000,
    2**31,
    2**40,
)
FRACTIONS = (-1e3 - 0.5, -1.5, -0.5, -1e-3, 1e-3, 0.25, 0.5, 0.75, 0.999, 1.001, 1.5, 2.5, 5.5, 1e3 + 0.5)
WHOLE_FLOATS = (-1e20, -5e8, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 5e8, 2.0**62)
HUGE_FLOATS = (2.0**63, 1e20)

STRINGS = (
    "1", "0", "-1", "2", "3", "4", "5", "7", " 2 ", "\t3\n", "1_000", "1__0", "_1", "1_", "500000000", "5e8",
    "5.0", "5.", "5.00", "5.5", ".5", "0.5", "1.5", "inf", "-inf", "nan", "Infinity", "true", "false", "True",
    "False", "TRUE", "tRuE", " true", "true\n", "yes", "Yes", "YES", "no", "on", "On", "off", "y", "n",
    "t", "f",
    "N", "T", "auto", "Auto", "AUTO", "auto ", "abc", "", " ", "007", "+7", "+ 7", "--7", "0x10", "0b1",
    "-0", "-0.0",
    "0.0", "00", "1e-1", "-1e-1", "1E3", "1_0.0", "1.0_0", "1_0.5", "1e1_0", "null", "None", "none", "2.0\n",
    "1 0", "5.0e0", "-5", "-5.0", "-0.5", "-5e8", "9223372036854775807", "99999999999999999999", "fp16",
    "bf16",
    "fp32", "float16", "bfloat16", "float32", "cpu", "nvme", "a b", "/x/y", "a.b.c", "é",
)  # fmt: skip

_WORDS2 = ("0", "1", "f", "n", "t", "y", "no", "on", "off", "yes", "true", "false")


def variants(items: Iterable[str]) -> list[str]:
    """The strings, and words of letters also in other cases."""
    out: dict[str, None] = {}
    for word in items:
        out[word] = None
        if len(word) > 1 and word[0].isalpha():
            out.update(dict.fromkeys((word.upper(), word.lower(), word.capitalize())))
    return list(out)


def letters(word: str) -> str:
    """A pattern for `word` in any mix of cases."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.lower() != c.upper() else re.escape(c) for c in word)


def words(items: Iterable[str], any_case: bool = False) -> str:
    """A pattern for exactly these strings."""
    parts = [letters(w) if any_case else _escape(w) for w in items]
    return "^" + (parts[0] if len(parts) == 1 else "(?:" + "|".join(parts) + ")") + END


def _escape(text: str) -> str:
    plain = re.sub(r"([.^$*+?{}()\[\]\\|/])", r"\\\1", text)
    return plain.replace("\t", "\\t").replace("\n", "\\n")


_UINT = "[0-9]+(?:_[0-9]+)*"
_POSITIVE = "(?=[0-9_]*[1-9])[0-9]+(?:_[0-9]+)*"
_UFLOAT = f"(?:{_UINT}(?:\\.(?:{_UINT})?)?|\\.{_UINT})"
_EXP = "(?:[eE][+-]?[0-9]+(?:_[0-9]+)*)?"
_SPECIAL = "(?:[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])"
_ZERO_FLOAT = "(?:0+(?:\\.0*)?|\\.0+)"
_UNIT = (
    "(?:\\+?(?:0+(?:\\.[0-9]*)?|\\.[0-9]+|0*1(?:\\.[0_]*)?|[0-9](?:\\.[0-9]*)?[eE]-0*[1-9][0-9]*)|-"
    + _ZERO_FLOAT
    + ")"
)
_UNIT_OPEN = "\\+?(?:(?=[0.]*[1-9])(?:0*\\.[0-9]+)|[1-9](?:\\.[0-9]*)?[eE]-0*[1-9][0-9]*)"

GRAMMARS: tuple[tuple[str, str], ...] = (
    ("boolean word (pydantic)", "^(?:" + "|".join(letters(w) for w in _WORDS2) + ")" + END),
    ("integer (pydantic 2)", f"^\\s*[+-]?{_UINT}(?:\\.0+)?\\s*$"),
    ("integer >= 0 (pydantic 2)", f"^\\s*(?:\\+?{_UINT}|-0+(?:_0+)*)(?:\\.0+)?\\s*$"),
    ("integer > 0 (pydantic 2)", f"^\\s*\\+?{_POSITIVE}(?:\\.0+)?\\s*$"),
    ("integer (int())", f"^\\s*[+-]?{_UINT}\\s*$"),
    ("integer >= 0 (int())", f"^\\s*(?:\\+?{_UINT}|-0+(?:_0+)*)\\s*$"),
    ("integer > 0 (int())", f"^\\s*\\+?{_POSITIVE}\\s*$"),
    ("number (float())", f"^\\s*[+-]?(?:{_UFLOAT}{_EXP}|{_SPECIAL})\\s*$"),
    ("finite number (float())", f"^\\s*[+-]?{_UFLOAT}{_EXP}\\s*$"),
    ("finite number >= 0 (float())", f"^\\s*(?:\\+?{_UFLOAT}{_EXP}|-{_ZERO_FLOAT})\\s*$"),
    ("number in [0, 1]", f"^\\s*{_UNIT}\\s*$"),
    ("number in (0, 1)", f"^\\s*{_UNIT_OPEN}\\s*$"),
    ("not empty", "[\\s\\S]"),
    ("empty", f"^{END}"),
)  # fmt: skip
"""Known ways to read a scalar from a string, most specific last resort excluded."""


ANYTHING: tuple[Any, ...] = (
    "abc", "", " ", "1", "auto", "true", None, True, False, 0, 1, -1, 7, 0.5, -1.5, 1e20, math.inf,
    math.nan, [], [1],
    ["a"], [None], [[]], [{}], {}, {"a": 1}, {"a": None}, {"a": "b"}, {"a": []}, {"a": {}},
)  # fmt: skip
"""A parser that takes all of these looks at nothing."""


QUICK: tuple[Any, ...] = (
    *ANYTHING,
    "0", "-1", "2", "4", " 2 ", "1_000", "5e8", "5.", "5.0", "5.5", "0.5", "1.5", "1e-1", "-0", "inf",
    "yes", "TRUE",
    "on", "n", "true\n", "2.0\n", "Auto", "fp16", "cpu", "9223372036854775807",
    2, 3, 4, 5, 8, 16, 64, 100, 1000, 2**31, -7, -1000, -(10**20), 10**20,
    -0.5, 1e-3, 0.999, 1.001, 1.5, 2.0, 5.5, 5e8, 2.0**62, 2.0**63, -1e20,
)  # fmt: skip
"""Values that tell apart the ways of reading a value met so far."""


class Undecided(Exception):
    """No combination of keywords says what the oracle says."""


def _close(pattern: str, extra: Sequence[str]) -> str:
    return pattern + "".join(f"|^{_escape(w)}{END}" for w in extra)


def _small_ranges(bounds: Schema) -> list[tuple[str, str]]:
    """Grammars for integers of a small range."""
    low, high = bounds.get("minimum"), bounds.get("maximum")
    if low is None or high is None or low < 0 or high - low > 20:
        return []
    digits = "|".join(str(n) for n in range(int(low), int(high) + 1))
    body = f"\\+?0*(?:{digits})" + ("|-0+" if low == 0 else "")
    return [
        ("small integer (pydantic 2)", f"^\\s*(?:{body})(?:\\.0+)?\\s*$"),
        ("small integer (int())", f"^\\s*(?:{body})\\s*$"),
    ]


def string_pattern(
    accepts: Oracle, candidates: Iterable[str], bounds: Schema
) -> tuple[bool, str | None, list[str] | None]:
    """(accepted at all, pattern or None for any string, the strings where they are but a few)."""
    battery = list(dict.fromkeys([*STRINGS, *candidates]))
    battery = variants(battery)
    good = [w for w in battery if accepts(w)]
    if not good:
        return False, None, None
    if len(good) == len(battery):
        return True, None, None
    accepted = set(good)
    for extra in ([], ["auto"]):
        for _, pattern in [*GRAMMARS, *_small_ranges(bounds)]:
            whole = _close(pattern, extra)
            compiled = re.compile(whole)
            if all((compiled.search(w) is not None) == (w in accepted) for w in battery):
                return True, whole, None
    if any(w in accepted for w in ("abc", "a b", "é")):
        bad = [w for w in battery if w not in accepted]
        if len(bad) <= 8:
            return True, "^(?!(?:" + "|".join(_escape(w) for w in bad) + f"){END})", None
        raise Undecided(f"strings: refuses {bad}")
    folded: dict[str, list[str]] = {}
    for w in good:
        folded.setdefault(w.lower(), []).append(w)
    any_case = {
        w for w in folded if all(accepts(v) for v in (w, w.upper(), w.capitalize(), w[:1] + w[1:].upper()))
    }
    if all(w in any_case or len(folded[w]) == 1 for w in folded) and any(
        w.lower() != w.upper() for w in any_case
    ):
        parts = [letters(w) if w in any_case else _escape(folded[w][0]) for w in folded]
        return True, "^(?:" + "|".join(parts) + ")" + END, None
    return True, words(good), good


def _bisect(accepts: Oracle, bad: float, good: float, whole: bool) -> tuple[float, bool]:
    """The border between a refused and an accepted number, and whether it is itself accepted."""
    if whole:
        far, near = int(bad), int(good)
        while abs(near - far) > 1:
            half = (near + far) // 2
            far, near = (far, half) if accepts(half) else (half, near)
        return near, True
    step = 1e-6 if good > bad else -1e-6
    for border in sorted({bad, good, 0.0, 1.0}, key=lambda x: abs(x - bad)):
        if (
            min(bad, good) <= border <= max(bad, good)
            and accepts(border + step)
            and not accepts(border - step)
        ):
            return border, accepts(border)
    low, high = float(bad), float(good)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if accepts(middle) else (middle, high)
    border = float(f"{high:.9g}")
    return border, accepts(border)


def _tidy(x: float) -> float | int:
    return int(x) if float(x).is_integer() else x


def number_keywords(accepts: Oracle, extra: Iterable[float] = ()) -> tuple[str | None, Schema]:
    """("number", "integer" or None, bounds) of the numbers an oracle accepts."""
    integers = sorted({*INTEGERS, *(int(x) for x in extra if float(x).is_integer())})
    fractions = sorted({*FRACTIONS, *(float(x) for x in extra if not float(x).is_integer())})
    good_int = [x for x in integers if accepts(x)]
    good_frac = [x for x in fractions if accepts(x)]
    good_whole = [x for x in WHOLE_FLOATS if accepts(x)]
    everything = sorted({*good_int, *good_frac, *good_whole})
    if not everything:
        return None, {}
    keywords: Schema = {}
    whole = not good_frac
    kind = "integer" if whole else "number"
    pool = sorted({*integers, *WHOLE_FLOATS} if whole else {*integers, *fractions, *WHOLE_FLOATS})
    if not good_whole and len(good_int) > 1:
        keywords["x-integer-literal"] = True
        pool = [x for x in pool if isinstance(x, int)]
    elif not good_int and any(everything[0] < x < everything[-1] for x in integers):
        raise Undecided("accepts floats but no integers")
    low, high = everything[0], everything[-1]
    below = [x for x in pool if x < low]
    if below:
        border, inside = _bisect(accepts, below[-1], low, whole)
        keywords["minimum" if inside else "exclusiveMinimum"] = _tidy(border)
    above = [x for x in pool if x > high]
    if above:
        if high >= 2.0**62:
            keywords["maximum"] = 2**63 - 1
        else:
            border, inside = _bisect(accepts, above[0], high, whole)
            keywords["maximum" if inside else "exclusiveMaximum"] = _tidy(border)
    elif whole and good_whole and not any(accepts(x) for x in HUGE_FLOATS):
        keywords["maximum"] = 2**63 - 1
    holes = [_tidy(x) for x in pool if low < x < high and not accepts(x)]
    if holes:
        rest = [_tidy(x) for x in everything]
        if len(holes) > 4 and len(everything) > 8:
            raise Undecided(f"numbers: refuses {holes}")
        if len(holes) > 4:
            return kind, {**{k: v for k, v in keywords.items() if k.startswith("x-")}, "enum": rest}
        keywords["not"] = {"enum": list(dict.fromkeys(holes))}
    return kind, keywords


def derive(
    accepts: Oracle, words_to_try: Iterable[str] = (), numbers_to_try: Iterable[float] = (), depth: int = 0
) -> Schema:
    """Keywords under which a validator agrees with `accepts` on every kind of value."""
    if all(accepts(v) for v in (*ANYTHING, *words_to_try, *numbers_to_try)):
        return {}
    types: list[str] = []
    schema: Schema = {}
    refused: list[Any] = []

    if accepts({"a": 1}) or accepts({}):
        types.append("object")
        if not accepts({"a": 1}) and not accepts({"a": "auto"}) and not accepts({"a": {}}):
            schema["additionalProperties"] = {"not": {}}
        elif depth < 1:
            inner = derive(lambda v: accepts({"a": v}), words_to_try, numbers_to_try, depth + 1)
            if inner:
                schema["additionalProperties"] = inner
    if accepts([]) or accepts([1]) or accepts(["a"]):
        types.append("array")
        items = [
            [v] for v in (None, True, 0, 1, -1, 5.5, "a", "1", "", [], ["a"], {}, {"a": 1}, *words_to_try)
        ]
        if not any(accepts(v) for v in items):
            schema["items"] = {"not": {}}
        elif depth < 1 and not all(accepts(v) for v in items):
            inner = derive(lambda v: accepts([v]), words_to_try, numbers_to_try, depth + 1)
            if inner:
                schema["items"] = inner

    kind, bounds = number_keywords(accepts, numbers_to_try)
    some, pattern, _ = string_pattern(accepts, words_to_try, bounds)
    if some:
        types.append("string")
        if pattern is not None:
            schema["pattern"] = pattern

    if kind:
        types.append(kind)
        numbers_enum = bounds.pop("enum", None)
        if numbers_enum is not None:
            schema["anyOf"] = [{"not": {"type": "number"}}, {"enum": numbers_enum}]
        holes = bounds.pop("not", None)
        if holes:
            refused.extend(holes["enum"])
        schema.update(bounds)
        if kind == "number" and not accepts(math.nan):
            schema["x-nan"] = False
        if kind == "number" and not accepts(math.inf) and not {"maximum", "exclusiveMaximum"} & schema.keys():
            schema["x-inf"] = False

    true, false = accepts(True), accepts(False)
    if true or false:
        types.append("boolean")
        if not true:
            refused.append(True)
        if not false:
            refused.append(False)
    if accepts(None):
        types.append("null")

    if refused:
        schema["not"] = {"const": refused[0]} if len(refused) == 1 else {"enum": refused}
    if set(types) >= {"object", "array", "string", "number", "boolean", "null"}:
        return schema
    if not types:
        return {"not": {}}
    head = {"type": types[0] if len(types) == 1 else types}
    return {**head, **schema}


def finite_strings(schema: Schema, accepts: Oracle, candidates: Sequence[str]) -> Schema:
    """The same with `enum` where only a few strings (and null) are accepted: editors complete those."""
    types = schema.get("type")
    listed = [types] if isinstance(types, str) else list(types or ())
    if not listed or set(listed) - {"string", "null"} or "pattern" not in schema:
        return schema
    known = [w for w in dict.fromkeys(candidates) if accepts(w)]
    compiled = re.compile(schema["pattern"])
    battery = variants([*STRINGS, *candidates])
    if known and all((w in known) == (compiled.search(w) is not None) for w in battery):
        return {"enum": [*known, *([None] if "null" in listed else [])]}
    return schema


CONSTRAINTS = (
    "type", "enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minLength",
    "items", "required", "not", "anyOf", "additionalProperties",
)  # fmt: skip
"""Keywords that judge; the others only tell."""


def told(schema: Schema) -> Schema:
    """`schema` without what it demands."""
    out = {k: v for k, v in schema.items() if k not in CONSTRAINTS and k != "properties"}
    if "properties" in schema:
        out["properties"] = {k: told(v) for k, v in schema["properties"].items()}
    return out


def demands(schema: Schema) -> Schema:
    """`schema` without what it only tells."""
    out = {k: v for k, v in schema.items() if k in CONSTRAINTS and v is not True}
    inner = {k: demands(v) for k, v in schema.get("properties", {}).items()}
    if isinstance(schema.get("additionalProperties"), dict):  # then which keys there are matters too
        out["properties"] = inner
    elif any(inner.values()):
        out["properties"] = {k: v for k, v in inner.items() if v}
    return out
