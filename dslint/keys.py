"""Findings about keys and types: what the schema refuses, what nobody reads, what is deprecated.

The rules these findings belong to are named here and described in rules/ (`check: schema`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dslint.config import Config, at
from dslint.document import Path, dotted
from dslint.expression import show
from dslint.finding import Finding, Fix
from dslint.history import story
from dslint.kinds import expectation, meant
from dslint.releases import number
from dslint.renames import FLAGS, PARAMS, new_name, renamed
from dslint.rules import Rule, emit
from dslint.schema import Part, Schema, Violation, part, violations, walked
from dslint.suggest import alike, elsewhere, near_ones, nearest
from dslint.trainers import HF_LIKE, looks_into
from dslint.values import properties, schema_at

Rules = dict[str, Rule]

_ON_PURPOSE = ("_", "//", "#", "$", "-", "comment", "x-")
"""Beginnings of keys by which people comment or switch off on purpose."""

OURS = ("dslint",)
"""Where suppressions stand in strict JSON (dslint.suppress)."""


def check(config: Config, rules: Rules, judged_exactly: bool, errors: bool = False) -> Iterator[Finding]:
    """Findings about the keys and types of a config.

    `errors`: whether there is an error is all that is asked, so that deprecated keys, and fixes of unknown
    ones, are left out.

    `judged_exactly` is False when the release is newer than every known schema: then an unknown key
    may simply be new, and is not reported.
    """
    found = walked(config.data, config.schema)
    # filled, or found to be left over by a rule about the trainer
    passed = "auto" if config.target.trainer in (*HF_LIKE, "accelerate") else None
    suspects = [suspect for suspect in found.suspects if passed is None or suspect[1] != passed]
    for violation in violations(suspects):
        if passed is not None and violation.value == passed:
            continue
        if violation.value is None and looks_into(config.target.trainer, violation.path, config.has):
            continue  # refused before DeepSpeed sees it, as another rule says
        if violation.keyword == "additionalProperties":
            if judged_exactly:
                refused = not _swallowed(violation.path, config.target.release)
                yield _unknown(config, rules, violation.path, refused, not errors)
        else:
            yield _refused(config, rules, violation)
    if judged_exactly:
        for path in found.unread:
            if path != OURS and not str(path[-1]).lower().startswith(_ON_PURPOSE):
                yield _unknown(config, rules, path, False, not errors)
    for path, schema in () if errors else found.deprecated:
        from dslint.fixing.keys import deprecated

        new = schema.get("x-replaced-by")
        message = f"{path[-1]} is deprecated" + (f"; DeepSpeed now calls it {new}" if new else "")
        flag = FLAGS.get(str(path[-1])) if at(config.data, path) is True else None
        cure = f"write {flag or new} instead" if flag or (new and path[-1] not in FLAGS) else "remove it"
        yield _at(config, rules["deprecated-key"], path, message, cure, deprecated(config, path, new))


def _swallowed(path: Path, release: str) -> bool:
    """Whether an unknown key is an argument of DeepSpeedConfigModel itself, which keeps it from pydantic."""
    return path[-1] == "strict" and (path[0] != "comms_logger" or number(release) >= (0, 15, 0))


def _at(config: Config, rule: Rule, path: Path, message: str, cure: str, fix: Fix | None = None) -> Finding:
    written = (*config.base, *path) if config.document.config is None else config.file_path(path)
    return emit(rule, config.document.nearest(written), dotted(written), message, cure, fix)


@dataclass(frozen=True, slots=True)
class _Meant:
    """What the author of an unknown key most likely meant. `how` it was found out:

    "renamed", "near" (misspelled), "elsewhere" (of another section), "needless" (nothing could use it),
    "alike" (the words are those of another key) or "" (nobody knows). `target`: the key to write instead.
    """

    how: str
    cure: str
    target: Path | None = None


def _meant(config: Config, path: Path, refused: bool) -> _Meant:
    key, section = str(path[-1]), path[:-1]
    if path[-1:] == OURS:
        return _Meant("", "move it to the top of the config")
    present = at(config.data, section)
    names = _names(schema_at(config.schema, section))
    past = story(dotted(path))
    moved = past.instead(config.target.release) if past else None
    other = f"write it as {moved}" if moved else renamed(path, config.schema)
    if other:
        return _Meant("renamed", other, new_name(path, config.schema, moved))
    keep = "" if refused else ", or put an underscore before its name to keep it"
    if past and past.elsewhere(config.target.release):  # what it is called is what it is
        return _Meant("", f"remove it{keep}")
    params = key in PARAMS and "params" in names and "params" not in present
    near = "params" if params else next((name for name in near_ones(key, names) if name not in present), None)
    if near:
        return _Meant("near", f"did you mean {near}?", (*section, near))
    # a section within itself (fp16.fp16) is no key to move to where that section already stands
    places = [place for place in elsewhere(key, config.schema, section) if place != section[: len(place)]]
    places = places or _parameter(config, key, section)
    if places and section[-1:] == ("bf16",) and places[0][0] == "fp16":
        return _Meant("needless", "remove it: bf16 has no loss scale")
    if places and places[0][-1] == key:
        return _Meant("elsewhere", f"move it to {dotted(places[0][:-1]) or 'the top level'}", places[0])
    if places:
        return _Meant("elsewhere", f"write it as {dotted(places[0])}", places[0])
    twins = alike(key, names, bool(section))
    twin = next((name for name in twins if name not in present), None)
    if twin:
        return _Meant("alike", f"did you mean {twin}? Else remove it{keep}", (*section, twin))
    return _Meant("", f"remove it{keep}")


def _names(section: Schema) -> tuple[str, ...]:
    """The keys of a section that one may write."""
    return tuple([name for name, sub in properties(section).items() if "x-removed" not in sub])


def _unknown(config: Config, rules: Rules, path: Path, refused: bool, mended: bool) -> Finding:
    """An unknown key: a crash where the section forbids it, silence elsewhere."""
    key, where = str(path[-1]), dotted(path[:-1]) or "the top level"
    meant = _meant(config, path, refused)
    fix = None
    if mended:
        from dslint.fixing.keys import respelled, without

        if meant.target is None:
            fix = without(config, path, meant.how == "needless")
        else:
            fix = respelled(config, path, meant.target, refused)
    past = story(dotted(path))
    when = past.elsewhere(config.target.release) if past else ""
    if when:
        fix = fix if meant.target else None
        return _of_another_release(config, rules, path, refused, meant.cure, when, fix)
    if refused:
        rule = "unknown-key"
        message = f"{where} has no key {key}: DeepSpeedConfig raises on a key it does not know there"
    elif meant.how == "near":
        rule = "misspelled-key"
        message = f"nobody reads {key}: DeepSpeed drops a key it does not know in {where} without a word"
    elif meant.how == "elsewhere" and meant.target is not None:
        rule = "misplaced-key"
        message = f"nobody reads {key} in {where}; DeepSpeed reads {dotted(meant.target)}"
    else:
        rule = "unread-key"
        message = f"DeepSpeed does not read {key} in {where} and drops it without a word"
    return _at(config, rules[rule], path, message, meant.cure, fix)


def _parameter(config: Config, key: str, section: Path) -> list[Path]:
    """Where a parameter of an optimizer or a scheduler belongs that stands outside `params`."""
    for home in ("optimizer", "scheduler"):
        given = config.data.get(home)
        if section not in ((), (home,)) or not isinstance(given, dict):
            continue
        params = given.get("params")
        there = isinstance(params, dict) and key in params
        if not there and key in _parameter_names(part(config.schema), home):
            return [(home, "params", key)]
    return []


@lru_cache(maxsize=16)
def _parameter_names(whole: Part, home: str) -> frozenset[str]:
    """What the optimizers or the schedulers of DeepSpeed take as params."""
    entries = schema_at(whole.schema, (home,)).get(f"x-{home}s", {}).values()
    kinds = ("gpu", "cpu_offload", "torch_adam", "params", "required")
    return frozenset(name for entry in entries for kind in kinds for name in entry.get(kind, ()))


def _of_another_release(
    config: Config, rules: Rules, path: Path, refused: bool, cure: str, when: str, fix: Fix | None
) -> Finding:
    """A key that other releases read: what this one does with it, and since or until when it is read."""
    does = "raises on it" if refused else "drops it without a word"
    message = f"{dotted(path)} {when}; DeepSpeed {config.target.release} {does}"
    rule = rules["unknown-key" if refused else "key-of-another-release"]
    return _at(config, rule, path, message, cure, fix)


def _refused(config: Config, rules: Rules, violation: Violation) -> Finding:
    """A known key whose value, or whose very presence, DeepSpeedConfig refuses."""
    from dslint.fixing import keys as fixing

    path = violation.path
    schema = schema_at(config.schema, path) or config.schema
    name = dotted(path) or "the config"
    if "x-removed" in schema:
        message = f"{name} was removed: DeepSpeedConfig raises when the key is there, whatever its value"
        fix = fixing.removed(config, path, violation.value, schema["x-removed"])
        return _at(config, rules["removed-key"], path, message, schema["x-removed"], fix)
    got = _described(violation.value)
    expected = expectation(schema)
    if violation.value is None:
        message = f"{name} is null, which DeepSpeed does not take for absent: DeepSpeedConfig raises"
        fix = fixing.without(config, path, True)
        return _at(config, rules["null-value"], path, message, f"remove the key, or give {expected}", fix)
    if schema.get("x-values") and not isinstance(violation.value, (dict, list)):
        rule = rules["invalid-value"]
    elif violation.keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        rule = rules["out-of-range"]
    else:
        rule = rules["wrong-type"]
    message = f"{name} takes {expected}, not {got}: DeepSpeedConfig raises"
    if violation.value == "auto":
        message += '; only HF Trainer and accelerate fill an "auto", and only in some keys'
    near = _near(violation.value, schema)
    fix = fixing.retyped(config, path, violation.value, schema, near)
    cure = f'write "{near}"' if near else _cure(violation.value, schema, expected)
    return _at(config, rule, path, message, cure, fix)


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f'the string "{value if len(value) <= 60 else value[:57] + "..."}"'
    return show(value)


def _near(value: Any, schema: Schema) -> str | None:
    """The value that a misspelled one of a closed list is most likely meant to be."""
    values = schema.get("x-values")
    if not values or not isinstance(value, str):
        return None
    return nearest(value, [v for v in values if isinstance(v, str)])


def _cure(value: Any, schema: Schema, expected: str) -> str:
    types = meant(schema)
    if isinstance(value, str):
        try:
            numeric = float(value)
        except ValueError:
            numeric = None
        if numeric is not None and ("integer" in types or "number" in types):
            whole = numeric.is_integer() if numeric == numeric and abs(numeric) < 1e300 else False
            if whole or "number" in types:
                return f"write the number without quotes: {show(numeric)}"
    if isinstance(value, float) and "integer" in types and abs(value) < 1e300:
        return f"write a whole number, such as {int(value)}"
    return f"write {expected}"
