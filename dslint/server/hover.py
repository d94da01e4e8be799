"""What a key means, shown where the pointer rests."""

from __future__ import annotations

from dataclasses import replace

from lsprotocol.types import Hover, MarkupContent, MarkupKind

from dslint.document import Document, Path, dotted
from dslint.explain import key
from dslint.markdown import about_key, code, plain
from dslint.server.judging import Verdict
from dslint.server.places import place_at, range_of
from dslint.show import effective
from dslint.trainers import NAMES, fills
from dslint.values import schema_at


def hover(verdict: Verdict, where: int, encoding: str) -> Hover | None:
    """What there is to say about the key at an offset; None where there is none."""
    document = verdict.report.document
    place = place_at(document, where)
    if place is None:
        return None
    path = config_path(document, place.path)
    if not path or any(isinstance(part, int) for part in path):
        return None
    what = key(dotted(path), verdict.rules, verdict.config.target.release)
    if not what.known and not what.history:
        return None
    here = tuple(rule for rule in what.rules if what.path in (rule.at, *rule.each))
    lines = [f"**{plain(what.path)}**", about_key(replace(what, rules=here))]
    section = schema_at(verdict.config.schema, path).get("properties")
    if what.known and not section:
        canonical = (*path[:-1], what.same_as) if what.same_as else path
        value, origin = effective(verdict.config, canonical)
        lines.append(f"Here: {code(value[:200])} ({plain(origin)})")
    filled = fills(verdict.config.target.trainer, path)
    if filled:
        lines.append(f'`"auto"`: {NAMES[verdict.config.target.trainer]} fills it from {plain(filled)}')
    content = MarkupContent(kind=MarkupKind.Markdown, value="\n\n".join(lines))
    return Hover(contents=content, range=range_of(document, *place.span, encoding))


def config_path(document: Document, path: Path) -> Path:
    """The path in the DeepSpeed config of a place in the file; () for what is not in it."""
    if document.config is not None:
        return next((inner for inner, outer in document.places.items() if outer == path), ())
    base = document.base
    return path[len(base) :] if path[: len(base)] == base else ()
