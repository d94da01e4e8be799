"""Keys and values that can be written at the cursor, from the schema of the release."""

from __future__ import annotations

import json
import re
from typing import Any

from lsprotocol.types import (
    CompletionItem,
    CompletionItemKind,
    MarkupContent,
    MarkupKind,
    TextEdit,
)

from dslint.document import Document, Path, dotted
from dslint.explain import key as key_of
from dslint.kinds import expectation, meant
from dslint.markdown import about_key
from dslint.schema import Schema
from dslint.server.judging import Verdict
from dslint.server.places import MARK, Cursor, cursor, range_of
from dslint.trainers import NAMES, fills
from dslint.trainers.accelerate import BLOCK, DISTRIBUTED, PRECISIONS, TOP
from dslint.values import schema_at

_COLON = re.compile(r"[ \t]*:")
_WORD = re.compile(r"[A-Za-z0-9_.-]+\Z")


def completions(verdict: Verdict, where: int, encoding: str) -> list[CompletionItem]:
    """What can be written at an offset."""
    document = verdict.report.document
    at = cursor(document, where)
    if at is None:
        return []
    if at.before.format == "accelerate":
        return _of_accelerate(document, at, encoding)
    base = at.before.base or document.base
    if at.path[: len(base)] != base:
        return []
    path = at.path[len(base) :]
    if at.is_key:
        return _keys(verdict, path, at, encoding)
    return _values(verdict, path, at, encoding)


def _keys(verdict: Verdict, section: Path, at: Cursor, encoding: str) -> list[CompletionItem]:
    document = verdict.report.document
    release = verdict.config.target.release
    known = _known_keys(verdict, section)
    where = range_of(document, at.start, at.end, encoding)
    given = _given(document, at)
    items = []
    for order, (name, sub) in enumerate(known.items()):
        if name in given or "x-removed" in sub or sub.get("deprecated") or sub.get("x-canonical") in known:
            continue
        path = dotted((*section, name))
        default = f" = {json.dumps(sub['default'])}" if "default" in sub else ""
        about = about_key(key_of(path, (), release)) if sub.get("description") else None
        items.append(
            CompletionItem(
                label=name,
                kind=CompletionItemKind.Module if sub.get("properties") else CompletionItemKind.Property,
                detail=(expectation(sub) if sub else "") + default,
                documentation=MarkupContent(kind=MarkupKind.Markdown, value=about) if about else None,
                sort_text=f"{order:04}",
                filter_text=_written(document, at, name),
                text_edit=TextEdit(range=where, new_text=_key_text(document, at, name)),
            )
        )
    return items


def _given(document: Document, at: Cursor) -> set[str]:
    """The keys that the section has already, but for the word that is being written."""
    places = (found.find(at.path) for found in (at.before, document))
    given = {member.key for place in places if place is not None for member in place.node.members}
    return given - {document.text[at.start : at.end].strip("\"'"), MARK}


def _known_keys(verdict: Verdict, section: Path) -> dict[str, Schema]:
    """The keys of a section; of the parameters of an optimizer or scheduler those its type takes."""
    schema = verdict.config.schema
    known: dict[str, Schema] = dict(schema_at(schema, section).get("properties", {}))
    if section == ("optimizer", "params"):
        kinds = schema_at(schema, ("optimizer",)).get("x-optimizers", {})
        kind = kinds.get(str(verdict.config.written(("optimizer", "type"))).lower(), {})
        defaults = kind.get("defaults", {})
        for name in kind.get("gpu", []):
            known.setdefault(name, {"default": defaults[name]} if name in defaults else {})
    if section == ("scheduler", "params"):
        kinds = schema_at(schema, ("scheduler",)).get("x-schedulers", {})
        kind = kinds.get(verdict.config.written(("scheduler", "type")), {})
        known.update({name: {} for name in kind.get("required", [])})
        known.update({name: {"default": value} for name, value in kind.get("params", {}).items()})
    return known


def _values(verdict: Verdict, path: Path, at: Cursor, encoding: str) -> list[CompletionItem]:
    schema = schema_at(verdict.config.schema, path)
    values: dict[str, str] = {}  # as JSON -> what is said about it
    for value in schema.get("x-values", []):
        values[json.dumps(value)] = ""
    if "boolean" in meant(schema) and not values:
        values |= {"true": "", "false": ""}
    for name in _names_for(verdict.config.schema, path):
        values[json.dumps(name)] = ""
    if schema.get("properties"):
        values["{}"] = "a section"
    default = json.dumps(schema["default"]) if schema.get("default") is not None else None
    if default is not None:
        values[default] = f"the default of DeepSpeed {verdict.config.target.release}"
    trainer = verdict.config.target.trainer
    source = fills(trainer, path)
    if source is not None:
        values['"auto"'] = f"{NAMES[trainer]} fills it from {source}"
    document = verdict.report.document
    return [
        _value(document, at, text, detail, order, encoding)
        for order, (text, detail) in enumerate(values.items())
    ]


def _names_for(schema: Schema, path: Path) -> list[str]:
    """Names of optimizers and schedulers, as DeepSpeed and torch have them."""
    if path == ("optimizer", "type"):
        section = schema_at(schema, ("optimizer",))
        torch = list(section.get("x-torch-optimizers", {}))
        spelled = {name.lower(): name for name in torch}
        own = [spelled.get(name, name.capitalize()) for name in section.get("x-optimizers", {})]
        return list(dict.fromkeys([*own, *torch]))
    if path == ("scheduler", "type"):
        section = schema_at(schema, ("scheduler",))
        return list(dict.fromkeys([*section.get("x-schedulers", {}), *section.get("x-torch-schedulers", [])]))
    return []


def _of_accelerate(document: Document, at: Cursor, encoding: str) -> list[CompletionItem]:
    """Keys and values of accelerate's own config files."""
    where = range_of(document, at.start, at.end, encoding)
    if at.is_key:
        known = TOP if not at.path else BLOCK if at.path == ("deepspeed_config",) else frozenset()
        given = _given(document, at)
        return [
            CompletionItem(
                label=name,
                kind=CompletionItemKind.Property,
                filter_text=_written(document, at, name),
                text_edit=TextEdit(range=where, new_text=_key_text(document, at, name)),
            )
            for name in sorted(known)
            if name not in given
        ]
    choices: dict[Path, tuple[Any, ...]] = {
        ("distributed_type",): DISTRIBUTED,
        ("mixed_precision",): PRECISIONS,
        ("deepspeed_config", "zero_stage"): (0, 1, 2, 3),
        ("deepspeed_config", "offload_optimizer_device"): ("none", "cpu", "nvme"),
        ("deepspeed_config", "offload_param_device"): ("none", "cpu", "nvme"),
        ("deepspeed_config", "zero3_init_flag"): (True, False),
        ("deepspeed_config", "zero3_save_16bit_model"): (True, False),
    }
    return [
        _value(document, at, json.dumps(value), "", order, encoding)
        for order, value in enumerate(choices.get(at.path, ()))
    ]


def _value(
    document: Document, at: Cursor, text: str, detail: str, order: int, encoding: str
) -> CompletionItem:
    word = json.loads(text) if text.startswith('"') else text
    quoted = document.text[at.start : at.start + 1] in ("\"'", '"', "'")
    written = text if quoted or not _bare(document, word) or not text.startswith('"') else word
    return CompletionItem(
        label=word,
        kind=CompletionItemKind.Value,
        detail=detail or None,
        sort_text=f"{order:04}",
        filter_text=_written(document, at, word),
        text_edit=TextEdit(range=range_of(document, at.start, at.end, encoding), new_text=written),
    )


def _bare(document: Document, word: str) -> bool:
    """Whether a text is written without quotes in this document."""
    from dslint.formats.yaml_reader import resolve

    return _is_yaml(document) and bool(_WORD.match(word)) and resolve(word)[0] == "string"


def _is_yaml(document: Document) -> bool:
    return document.name.lower().endswith((".yaml", ".yml"))


def _written(document: Document, at: Cursor, word: str) -> str:
    """What the editor compares the word there with: it begins with a quote where that does."""
    first = document.text[at.start : at.start + 1]
    return f"{first}{word}{first}" if first and first in "\"'" else word


def _key_text(document: Document, at: Cursor, name: str) -> str:
    """A key with its colon, as far as that is not there yet."""
    first = document.text[at.start : at.start + 1]
    bare = _is_yaml(document) and (not first or first not in "\"'")
    colon = "" if _COLON.match(document.text, at.end) else ": "
    return (name if bare else json.dumps(name)) + colon
