"""What changed when, computed from the stored schemas alone.

history.json:

    {"first": "0.9.0", "last": "0.19.8",
     "keys": {"zero_optimization.offload_param.pin_memory": {"defaults": [["0.19.5", false, true]]},
              "aio.intra_op_parallelism": {"since": "0.16.4", "before": "ignored",
                                           "renamed_from": "aio.thread_count"},
              "aio.thread_count": {"until": "0.16.3", "after": [["0.16.4", "ignored"]],
                                   "renamed_to": "aio.intra_op_parallelism"}}}

A key without `since` was there in the first release, one without `until` is there in the last. `before` and
`after` say what DeepSpeed did or does with the key then: "ignored" or "raises". `gone` lists releases
inside that span that lacked it. Each change names the first release in which it holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

Schema = dict[str, Any]

RENAMES: tuple[tuple[str, str], ...] = (
    ("aio.thread_count", "aio.intra_op_parallelism"),
    ("seq_parallel_comm_data_type", "seq_parallel_communication_data_type"),
    ("autotuning.model_info.hideen_size", "autotuning.model_info.hidden_size"),
    ("curriculum_learning", "data_efficiency.data_sampling.curriculum_learning"),
    ("bf16.check_overflow", "bf16.check_grad_overflow"),
)
"""Keys that took another's place; only those that the schemas bear out are used."""


def walk(schema: Schema, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    """Every key below a section with its schema."""
    for name, inner in schema.get("properties", {}).items():
        path = f"{prefix}.{name}" if prefix else name
        yield path, inner
        yield from walk(inner, path)


def fate(schema: Schema, path: str) -> str:
    """What a release does with a key that its schema does not name: "ignored" or "raises"."""
    here: Schema = schema
    for part in path.split("."):
        inner = here.get("properties", {}).get(part)
        if inner is None:
            return "raises" if here.get("x-unknown-keys") == "forbidden" else "ignored"
        if "x-removed" in inner:
            return "raises"
        here = inner
    return "known"


def make(schemas: dict[str, Schema]) -> dict[str, Any]:
    """The history of schemas given in the order of their releases."""
    order = list(schemas)
    if not order:
        return {"first": None, "last": None, "keys": {}}
    tables = {release: dict(walk(schema)) for release, schema in schemas.items()}
    paths = {path: None for release in reversed(order) for path in tables[release]}
    keys: dict[str, Any] = {}
    for path in paths:
        story = _story(path, order, schemas, tables)
        if story:
            keys[path] = story
    for old, new in RENAMES:
        if "until" in keys.get(old, {}) and new in paths:
            keys[old]["renamed_to"] = new
            keys.setdefault(new, {})["renamed_from"] = old
    return {"first": order[0], "last": order[-1], "keys": dict(sorted(keys.items()))}


def _story(
    path: str, order: list[str], schemas: dict[str, Schema], tables: dict[str, dict[str, Schema]]
) -> dict[str, Any]:
    """What happened to one key."""
    known = [r for r in order if path in tables[r] and fate(schemas[r], path) == "known"]
    story: dict[str, Any] = {}
    if not known:
        return {"raises_since": next(r for r in order if path in tables[r])}
    first, last = order.index(known[0]), order.index(known[-1])
    if first:
        story["since"] = order[first]
        story["before"] = fate(schemas[order[first - 1]], path)
    if last < len(order) - 1:
        story["until"] = order[last]
        after: list[list[str]] = []
        for release in order[last + 1 :]:
            what = fate(schemas[release], path)
            if not after or after[-1][1] != what:
                after.append([release, what])
        story["after"] = after
    gone = [r for r in order[first : last + 1] if r not in known]
    if gone:
        story["gone"] = gone
    defaults: list[list[Any]] = []
    changes: list[list[str]] = []
    for before, release in pairwise(known):
        old, new = tables[before][path], tables[release][path]
        if old.get("default") != new.get("default") and "default" in old and "default" in new:
            defaults.append([release, old["default"], new["default"]])
        changes.extend([release, text] for text in changed(old, new))
    if defaults:
        story["defaults"] = defaults
    if changes:
        story["constraints"] = changes
    return story


def _types(schema: Schema) -> set[str]:
    kinds = schema.get("type")
    if "enum" in schema:
        kinds = ["null"] if None in schema["enum"] else []
    elif kinds is None:
        return {"array", "boolean", "null", "number", "object", "string"}
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _number_bounds(schema: Schema) -> tuple[str, str]:
    whole = schema.get("x-type") == "integer" or schema.get("type") == "integer"
    low, high = "", ""
    if "minimum" in schema:
        low = f">= {schema['minimum']}"
    elif "exclusiveMinimum" in schema:
        bound = schema["exclusiveMinimum"]
        low = f">= {bound + 1}" if whole else f"> {bound}"  # int() cuts fractions off
    if "maximum" in schema and schema["maximum"] < 2**62:
        high = f"<= {schema['maximum']}"
    elif "exclusiveMaximum" in schema:
        high = f"< {schema['exclusiveMaximum']}"
    return low, high


def changed(old: Schema, new: Schema) -> list[str]:
    """Short texts about what a later schema of a key accepts differently."""
    out = []
    if old.get("x-unknown-keys") != new.get("x-unknown-keys") and "properties" in old and "properties" in new:
        out.append({"forbidden": "unknown keys raise", "ignored": "unknown keys are ignored"}.get(
            new.get("x-unknown-keys", ""), "unknown keys are handed on"))  # fmt: skip
    if old.get("x-auto") != new.get("x-auto") and "x-auto" in old and "x-auto" in new:
        out.append('"auto" is dropped' if new["x-auto"] == "dropped" else '"auto" is kept as a string')
    if old.get("x-values") != new.get("x-values") and old.get("x-values") and new.get("x-values"):
        out.append("values: " + ", ".join(str(v) for v in new["x-values"]))
    boolean = "boolean" in str(new.get("x-type"))
    if _number_bounds(old) != _number_bounds(new) and not boolean and _types(new) & {"number", "integer"}:
        text = " and ".join(b for b in _number_bounds(new) if b) or "any number"
        out.append(f"must be {text}" if text != "any number" else "bounds are gone")
    for kind in ("null", "string", "array", "object"):
        before, after = kind in _types(old), kind in _types(new)
        if before != after and not (kind == "string" and ("enum" in old or "enum" in new)):
            out.append(f"{kind} is {'accepted' if after else 'refused'}")
    before, after = "number" in _types(old), "number" in _types(new)
    if before and not after and "integer" in _types(new) and not boolean:
        out.append("fractions are refused")
    elif before and not _types(new) & {"number", "integer"} and _types(new) != _types(old):
        out.append("numbers are refused")
    if not old.get("deprecated") and new.get("deprecated"):
        out.append("deprecated")
    return out


def dump(story: dict[str, Any]) -> str:
    """history.json: one key a line."""
    lines = [
        f"  {json.dumps(path, ensure_ascii=False)}: {json.dumps(what, ensure_ascii=False)}"
        for path, what in story["keys"].items()
    ]
    head = (
        f'{{\n "first": {json.dumps(story["first"])},\n "last": {json.dumps(story["last"])},\n "keys": {{\n'
    )
    return head + ",\n".join(lines) + "\n }\n}\n"


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two schemas differ, as lines."""
    if isinstance(old, dict) and isinstance(new, dict):
        out = []
        for key in dict.fromkeys([*old, *new]):
            if old.get(key) != new.get(key):
                step = path if key == "properties" else f"{path}.{key}".strip(".")
                out.extend(differences(old.get(key), new.get(key), step))
        return out or ([f"{path}: order of keys"] if list(old) != list(new) else [])
    return [f"{path}: {json.dumps(old)[:120]} -> {json.dumps(new)[:120]}"]
