"""Since when, until when: what the schemas of all releases tell about a key.

Read from schemas/history.json, which schemas/history.py computes.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from dslint.expression import show
from dslint.releases import number
from dslint.schema import table


class Story(NamedTuple):
    """The history of one key. Releases name the first (or, of `until`, the last) in which it holds.

    `since` None: it was there in the first known release; `until` None: it is there in the newest.
    """

    path: str
    since: str | None = None
    until: str | None = None
    renamed_from: str | None = None
    renamed_to: str | None = None
    defaults: tuple[tuple[str, Any, Any], ...] = ()
    constraints: tuple[tuple[str, str], ...] = ()

    def elsewhere(self, release: str) -> str:
        """That a release lacks the key while others have it, in words; "" when it is not so."""
        if self.since is not None and number(release) < number(self.since):
            old = f"; before that it is called {self.renamed_from}" if self.renamed_from else ""
            return f"exists since DeepSpeed {self.since}{old}"
        if self.until is not None and number(release) > number(self.until):
            new = f"; after that it is called {self.renamed_to}" if self.renamed_to else ""
            return f"exists up to DeepSpeed {self.until} only{new}"
        return ""

    def instead(self, release: str) -> str | None:
        """The path that took this one's place in a release, or None."""
        if self.since is not None and number(release) < number(self.since):
            return self.renamed_from
        return self.renamed_to

    def lines(self) -> list[str]:
        """The history in lines for people, oldest first within each kind."""
        lines = []
        if self.since:
            lines.append(
                f"since {self.since}" + (f", before that {self.renamed_from}" if self.renamed_from else "")
            )
        if self.until:
            lines.append(f"until {self.until}" + (f", then {self.renamed_to}" if self.renamed_to else ""))
        lines += [
            f"{release}: default {_value(old)} became {_value(new)}" for release, old, new in self.defaults
        ]
        for release, texts in groupby(self.constraints, key=itemgetter(0)):
            lines.append(f"{release}: " + ", ".join(text for _, text in texts))
        return lines


def _value(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else show(value)


@lru_cache(maxsize=1)
def _keys() -> dict[str, dict[str, Any]]:
    data = table("history.json")
    keys: dict[str, dict[str, Any]] = data["keys"]
    return keys


def known_paths() -> list[str]:
    """The paths that have a history."""
    return list(_keys())


def story(path: str) -> Story | None:
    """The history of a dotted path; None where nothing ever changed or no release knows it."""
    found = _keys().get(path)
    if found is None:
        return None
    return Story(
        path,
        found.get("since"),
        found.get("until"),
        found.get("renamed_from"),
        found.get("renamed_to"),
        tuple((release, old, new) for release, old, new in found.get("defaults", [])),
        tuple((release, text) for release, text in found.get("constraints", [])),
    )
