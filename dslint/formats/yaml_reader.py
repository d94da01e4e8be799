"""Reads YAML as PyYAML's safe_load does, keeping places and duplicate keys.

accelerate, LLaMA-Factory, axolotl and TRL all load their files with PyYAML, which follows YAML 1.1:
`no` is false, `5e8` and `1e-5` are strings, `010` is eight. ruamel.yaml only cuts the text into events
here; what a scalar means is decided below. No input makes the reader raise, recurse or take more than
time linear in MAX_SIZE.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from ..document import Document, Member, Node, Problem, Scalar, Span, dotted

MAX_SIZE: Final = 1 << 17
"""Characters. Configs have a few thousand; the pure Python scanner takes seconds for more than this."""

MAX_DEPTH: Final = 100
"""Open collections."""

MAX_NODES: Final = 50_000
"""Values after aliases are followed, which stops the few lines that expand to billions."""

_BOOL = re.compile(r"(?:yes|no|true|false|on|off)\Z", re.IGNORECASE)
_NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
_INT = re.compile(
    r"(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+"
    r"|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)\Z"
)
_FLOAT = re.compile(
    r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
_TAG = "tag:yaml.org,2002:"
_TEXTS = {f"{_TAG}{kind}" for kind in ("str", "binary", "timestamp")}
_TAGS = _TEXTS | {
    f"{_TAG}{kind}" for kind in ("int", "float", "bool", "null", "map", "seq", "set", "omap", "pairs")
}
_NUMERIC = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+\Z")


def read_yaml(text: str, name: str) -> Document:
    """Read a YAML file. The root is None only if nothing could be read."""
    doc = Document(name, text, None, format="yaml")
    if len(text) > MAX_SIZE:
        message = f"more than {MAX_SIZE:,} characters, up to which dslint reads YAML files"
        doc.problems.append(Problem("file-too-large", Span(0, 0), message, cure="name a config"))
        return doc
    builder = _Builder(doc)
    try:
        builder.build(YAML(typ="safe", pure=True).parse(text))
    except _Stop:
        pass
    except (YAMLError, ValueError, IndexError, AttributeError, TypeError, RecursionError) as error:
        doc.problems.append(_syntax_error(error, text))
    if doc.root is None:
        doc.root = builder.root
    if not doc.problems and (doc.root is None or doc.root.kind == "null"):
        message = "the file holds nothing; whoever loads it finds no setting in it and stops"
        doc.problems.append(Problem("empty-file", Span(0, 0), message))
        doc.root = None
    elif not doc.problems and doc.root is not None and doc.root.kind != "object":
        span = Span(doc.root.span.start, doc.root.span.start + 1)
        message = (
            f"the file is a {'list' if doc.root.kind == 'array' else doc.root.kind}; a config is a mapping"
        )
        doc.problems.append(Problem("not-an-object", span, message, cure="write key: value"))
    return doc


def numeric_text(text: str) -> bool:
    """Whether unquoted text is a number to people and YAML 1.2, but a string to PyYAML: 5e8, 1e-5."""
    return bool(_NUMERIC.match(text)) and not _FLOAT.match(text)


class _Stop(Exception):
    """Ends a reading early; the problem has been noted."""


class _Builder:
    """Makes nodes of events."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.root: Node | None = None
        self.stack: list[tuple[Node, str | None]] = []  # open collections, with their anchor
        self.keys: list[tuple[str, Span] | None] = []  # of each open collection: the key read last
        self.given: list[dict[str, int]] = []  # of each open collection: its own keys, and where they stand
        self.anchors: dict[str, Node] = {}
        self.sizes: dict[int, int] = {}  # values below and including a collection that is complete
        self.count = 0

    def build(self, events: Iterator[Any]) -> None:
        """Reads all events of one document."""
        documents = 0
        for event in events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    span = Span(event.start_mark.index, event.end_mark.index)
                    self.stop(
                        "several-documents", span, "another document begins here; one is loaded from a file"
                    )
            elif isinstance(event, AliasEvent):
                self.alias(event)
            elif isinstance(event, ScalarEvent):
                self.scalar(event)
            elif isinstance(event, (MappingStartEvent, SequenceStartEvent)):
                self.open(event)
            elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
                self.close(event)

    def stop(self, rule: str, span: Span, message: str, cure: str = "") -> None:
        """Notes a problem behind which nothing is read."""
        self.document.problems.append(Problem(rule, span, message, cure=cure))
        raise _Stop

    def tally(self, size: int, span: Span) -> None:
        """Counts values, aliases with all that they stand for."""
        self.count += size
        if self.count > MAX_NODES:
            self.stop("nesting-too-deep", span, f"more than {MAX_NODES:,} values, aliases followed")

    def open(self, event: Any) -> None:
        """A mapping or list begins."""
        kind = "object" if isinstance(event, MappingStartEvent) else "array"
        node = Node(kind, Span(event.start_mark.index, event.end_mark.index))
        self.tag(event, node.span)
        if len(self.stack) >= MAX_DEPTH:
            self.stop("nesting-too-deep", node.span, f"more than {MAX_DEPTH} levels", "nest less deeply")
        self.tally(1, node.span)
        self.sizes[id(node)] = self.count
        self.stack.append((node, event.anchor))
        self.keys.append(None)
        self.given.append({})

    def close(self, event: Any) -> None:
        """A mapping or list ends."""
        node, anchor = self.stack.pop()
        self.keys.pop()
        self.given.pop()
        end = event.end_mark.index
        if event.start_mark.index == end:  # a block ends where the next thing begins
            end = max(
                [m.node.span.end for m in node.members] + [n.span.end for n in node.items] + [node.span.start]
            )
        node.span = Span(node.span.start, max(end, node.span.start))
        self.sizes[id(node)] = self.count - self.sizes[id(node)] + 1
        if anchor is not None:
            self.anchors[anchor] = node
        self.attach(node)

    def alias(self, event: Any) -> None:
        """A reference to a value that was given a name before."""
        span = Span(event.start_mark.index, event.end_mark.index)
        node = self.anchors.get(event.anchor)
        if node is None:
            self.stop("syntax-error", span, f"no complete value is called &{event.anchor} before this")
            return
        self.tally(self.sizes.get(id(node), 1), span)
        self.attach(Node(node.kind, span, node.value, node.members, node.items))

    def scalar(self, event: Any) -> None:
        """A value, or a key."""
        span = Span(event.start_mark.index, event.end_mark.index)
        tag = self.tag(event, span)
        self.tally(1, span)
        if tag is None and event.style is None:
            kind, value = resolve(event.value)
        elif tag is not None:
            kind, value = self.tagged(tag, event.value, span)
        else:
            kind, value = "string", event.value
        node = Node(kind, span, value)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self.attach(node, event.value)

    def tag(self, event: Any, span: Span) -> str | None:
        """The type that a value is written to be of; safe_load refuses all but YAML's own."""
        tag: str | None = event.tag if event.tag not in (None, "!") else None
        if tag is not None and tag not in _TAGS:
            self.stop(
                "syntax-error", span, f"yaml.safe_load has no constructor for the tag {tag}", "remove the tag"
            )
        return tag

    def tagged(self, tag: str, text: str, span: Span) -> tuple[str, Scalar]:
        """A scalar whose type is written before it."""
        if tag == f"{_TAG}binary":
            try:
                return "string", str(base64.decodebytes(text.encode("ascii")))
            except ValueError:
                self.stop("syntax-error", span, "yaml.safe_load cannot decode this as base64")
        if tag in _TEXTS:
            return "string", text
        kind, value = resolve(text)
        expected = {"int": "number", "float": "number", "bool": "boolean", "null": "null"}.get(
            tag[len(_TAG) :]
        )
        if tag == f"{_TAG}float" and kind == "string":
            try:
                return "number", float(text.replace("_", ""))
            except ValueError:
                pass
        if kind != expected:
            self.stop("syntax-error", span, f"yaml.safe_load cannot make {tag[len(_TAG) :]} of this")
        return kind, float(value) if tag == f"{_TAG}float" and isinstance(value, int) else value

    def attach(self, node: Node, written: str | None = None) -> None:
        """Puts a complete value where it belongs."""
        if not self.stack:
            self.root = node
            return
        parent, _ = self.stack[-1]
        if parent.kind == "array":
            parent.items.append(node)
            return
        key = self.keys[-1]
        if key is None:
            if node.kind in ("object", "array"):
                self.stop(
                    "syntax-error", node.span, "a key that is a list or mapping, which yaml.safe_load refuses"
                )
            self.keys[-1] = (written if written is not None else str(node.value), node.span)
            return
        self.keys[-1] = None
        name, span = key
        if name == "<<" and self.document.text[span.start : span.start + 1] == "<":
            self.merge(parent, node, span)
            return
        if self.given[-1].setdefault(name, span.start) != span.start:
            self.duplicate(name, span)
        parent.members.append(Member(name, span, node))

    def merge(self, parent: Node, node: Node, span: Span) -> None:
        """`<<: *defaults` gives the keys that the mapping does not give itself."""
        sources = node.items if node.kind == "array" else [node]
        given: set[str] = set()
        merged: list[Member] = []
        for source in sources:
            if source.kind != "object":
                self.stop("syntax-error", span, "<< takes a mapping, or a list of mappings")
            merged += [member for member in source.members if member.key not in given]
            given |= {member.key for member in source.members}
        parent.members[:0] = merged

    def duplicate(self, name: str, span: Span) -> None:
        """Of a key that is set twice PyYAML takes the last value; keys merged by << may be set again."""
        outer = [
            key[0] if key is not None else len(node.items)
            for key, (node, _) in zip(self.keys, self.stack, strict=True)
        ]
        path = (*outer[:-1], name)
        line = self.document.position(self.given[-1][name])[0]
        message = f"{dotted(path)} is set twice, first on line {line}; PyYAML takes the last and says nothing"
        self.document.departures.append(Problem("shadowed-key", span, message, path, "remove one of the two"))


def resolve(text: str) -> tuple[str, Scalar]:
    """What an unquoted scalar is by the rules of YAML 1.1, as PyYAML implements them."""
    if _NULL.match(text):
        return "null", None
    if _BOOL.match(text) and text in (text.lower(), text.upper(), text.capitalize()):
        return "boolean", text.lower() in ("yes", "true", "on")
    if _INT.match(text):
        number = _integer(text)
        return ("string", text) if number is None else ("number", number)
    if _FLOAT.match(text):
        return "number", _float(text)
    return "string", text


def _integer(text: str) -> int | None:
    digits = text.replace("_", "").lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if len(digits) > 4000 or not digits:
        return None
    if digits == "0":
        return 0
    try:
        if digits.startswith("0b"):
            return sign * int(digits[2:], 2)
        if digits.startswith("0x"):
            return sign * int(digits[2:], 16)
        if digits.startswith("0"):
            return sign * int(digits, 8)
        if ":" in digits:
            value = 0
            for part in digits.split(":"):
                value = value * 60 + int(part)
            return sign * value
        return sign * int(digits)
    except ValueError:
        return None


def _float(text: str) -> float:
    digits = text.replace("_", "").lower().lstrip("+-")
    sign = -1.0 if text.startswith("-") else 1.0
    if digits == ".inf":
        return sign * float("inf")
    if digits == ".nan":
        return float("nan")
    if ":" in digits:
        value = 0.0
        for part in digits.split(":"):
            value = value * 60 + float(part or 0)
        return sign * value
    return sign * float(digits)


def _syntax_error(error: Exception, text: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    offset = min(mark.index, len(text)) if mark is not None else 0
    problem = getattr(error, "problem", None) or "text that is no YAML"
    context = getattr(error, "context", None)
    message = f"not readable as YAML: {problem}" + (f" {context}" if context else "")
    cure = "indent with spaces, not with tabs" if text[offset : offset + 1] == "\t" else ""
    if "mapping values are not allowed" in message:
        cure = "put quotes around a value with a colon in it, or mend the indentation"
    return Problem("syntax-error", Span(offset, min(offset + 1, len(text))), message, cure=cure)
