"""Did you mean: the known name nearest to an unknown one, and the section it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from dslint.document import Path

Schema = dict[str, Any]


def distance(left: str, right: str, limit: int) -> int:
    """Edits (insert, delete, replace, swap neighbours) between two words; `limit` + 1 when more."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    letters, others = set(left), set(right)
    if len(letters - others) > limit or len(others - letters) > limit:
        return limit + 1  # an edit brings or takes one letter at most
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            cost = min(row[j] + 1, current[j - 1] + 1, row[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, row = row, current
    return row[-1]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` is most likely a misspelling of, or None."""
    return next(iter(near_ones(word, tuple(known))), None)


@lru_cache(maxsize=1024)
def near_ones(word: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The known names that `word` may be a misspelling of, the most likely first.

    Near is one edit in five characters, at most three; case, dashes and underscores are free.
    """
    plain = _plain(word)
    limit = min(3, max(1, len(plain) // 5)) if len(plain) > 2 else 0
    found = []
    for name in known:
        other = _plain(name)
        d = 0 if other == plain else distance(plain, other, limit)
        if d <= limit:
            found.append((d, name))
    return tuple([name for _, name in sorted(found)])


@lru_cache(maxsize=1024)
def alike(word: str, known: tuple[str, ...], alone: bool) -> tuple[str, ...]:
    """The known names made of the same words, but for a few that one of the two has more, the best first.

    Words may be cut short: grad is gradient, comm is communication. `alone`: one word in common is enough.
    The best says all the words, and little more.
    """
    words = _words(word)
    ranked = []
    for name in known:
        others = _words(name)
        more, fewer = (others, words) if len(others) >= len(words) else (words, others)
        left = list(more)
        for part in fewer:
            twin = next((other for other in left if _one_word(part, other)), None)
            if twin is None:
                break
            left.remove(twin)
        else:
            enough = len(fewer) > 1 or (alone and len("".join(fewer)) > 4)
            if enough and len(left) <= _MORE_WORDS:
                ranked.append((len(others) < len(words), len(left), name))
    return tuple([name for _, _, name in sorted(ranked)])


_MORE_WORDS = 2


def _words(name: str) -> list[str]:
    return [part for part in name.lower().replace("-", "_").split("_") if part]


def _one_word(left: str, right: str) -> bool:
    short, long = sorted((left, right), key=len)
    return short == long or (len(short) > 2 and long.startswith(short))


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "").replace(" ", "")


def elsewhere(key: str, schema: Schema, section: Path) -> list[Path]:
    """Paths at which DeepSpeed reads a key of this very name, the nearest relative of `section` first.

    A deprecated name leads to what replaced it.
    """
    found: list[Path] = []
    says_nothing = key in _COMMON if section else key in _COMMON or key in _OF_SCRIPTS or "_" not in key
    if not says_nothing:
        found = [
            path for path in _homes(schema).get(key, []) if len(path) <= _DEEPEST or path[:1] == section[:1]
        ]
    return sorted(dict.fromkeys(found), key=lambda path: (-_shared(path, section), len(path), path))


_DEEPEST = 3
"""Keys of a path down to which a name is looked for in sections that have nothing to do with each other."""

_COMMON = {"enabled", "type", "params", "name", "seed", "debug", "verbose", "profile", "dtype", "tag",
           "partition", "offload", "hidden_size", "num_layers"}  # fmt: skip
"""Names that many sections use: the same word elsewhere says nothing about this one."""

_OF_SCRIPTS = {"num_workers", "pin_memory", "job_name", "output_path", "output_file", "block_size",
               "max_steps", "warmup_steps"}  # fmt: skip
"""Names that training scripts give settings of their own at the top level, as they do single words."""


def _shared(left: Path, right: Path) -> int:
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count


def _homes(schema: Schema) -> dict[str, list[Path]]:
    """Name of a key -> every path at which a schema reads it."""
    known = _HOMES.get(id(schema))
    if known is None or known[0] is not schema:
        found: dict[str, list[Path]] = {}
        _search(schema, (), found)
        known = _HOMES[id(schema)] = (schema, found)
    return known[1]


_HOMES: dict[int, tuple[Schema, dict[str, list[Path]]]] = {}
"""By identity of a schema, which is kept beside what was found so that no other takes its place."""


def _search(schema: Schema, path: Path, found: dict[str, list[Path]]) -> None:
    for name, sub in schema.get("properties", {}).items():
        if "x-removed" not in sub:
            replacement = sub.get("x-replaced-by", "")
            if not replacement:
                found.setdefault(name, []).append((*path, sub.get("x-canonical", name)))
            elif " " not in replacement:
                keys = tuple(replacement.split("."))
                inside = keys[0] in schema.get("properties", {})
                found.setdefault(name, []).append((*path, *keys) if inside else keys)
        _search(sub, (*path, name), found)
