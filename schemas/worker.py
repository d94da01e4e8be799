"""Makes the schema of the DeepSpeed that this process can import, by asking its parser.

Run by build.py in an environment prepared by releases.py, once for each release:

    python worker.py OUTPUT.json [KNOWN.json]

A second file holds what is known already: the schema of a release whose parsing code is the same
(static_keys.fingerprint), and only optimizers and schedulers are looked at anew; or the results of a
neighbouring release, and keys that agree with them on a sample of values keep them.

Every key is found dynamically (pydantic fields; reads of a recording dict) and statically
(static_keys.py); every value is judged by `DeepSpeedConfig(config)` itself.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import gc
import inspect
import json
import logging
import math
import random
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any

sys.path.insert(0, str(FilePath(__file__).resolve().parent))

import derive
import knowledge
import signatures
import static_keys
import stubs

Path = tuple[str, ...]
Config = dict[str, Any]

MINIMAL: Config = {"train_micro_batch_size_per_gpu": 1}
MISSING = object()
SAMPLE: tuple[Any, ...] = (
    None, True, False, 0, 1, 3, 8, -1, 0.5, 1.5, "auto", "1", "a", "true", [], {}, {"__no_such_key__": 1},
    {"enabled": True}, {"ratio": 0.5},
)  # fmt: skip
"""Values that tell whether two contexts judge a key alike."""


class Recorder(dict[Any, Any]):
    """A dict that remembers which of its keys a reader asked for, and with what default."""

    def __init__(self, data: Config, path: Path, log: dict[Path, dict[str, Any]]):
        super().__init__(data)
        self._path = path
        self._log = log

    def __copy__(self) -> Recorder:
        return Recorder(dict(self), self._path, self._log)

    def __deepcopy__(self, memo: Any) -> Recorder:
        return Recorder({k: copy.deepcopy(v, memo) for k, v in self.items()}, self._path, self._log)

    def _read(self, key: Any, default: Any = MISSING) -> None:
        if isinstance(key, str):
            known = self._log.setdefault(self._path, {})
            if known.get(key, MISSING) is MISSING:
                known[key] = default

    def get(self, key: Any, default: Any = None) -> Any:
        self._read(key, default)
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self._read(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self._read(key)
        return super().__contains__(key)

    def pop(self, key: Any, *default: Any) -> Any:
        self._read(key)
        return super().pop(key, *default)

    def keys(self) -> Any:
        return _Keys(self)


class _Keys:
    """The keys of a Recorder; `in` is recorded."""

    def __init__(self, owner: Recorder):
        self._owner = owner

    def __contains__(self, key: Any) -> bool:
        return key in self._owner

    def __iter__(self) -> Iterator[Any]:
        return iter(list(dict.keys(self._owner)))

    def __len__(self) -> int:
        return len(self._owner)


def recording(value: Any, path: Path, log: dict[Path, dict[str, Any]]) -> Any:
    """A copy of `value` whose dicts are Recorders."""
    if isinstance(value, dict):
        return Recorder({k: recording(v, (*path, k), log) for k, v in value.items()}, path, log)
    return value


def fresh(value: Any) -> Any:
    """A deep copy of JSON-like data."""
    if isinstance(value, dict):
        return {k: fresh(v) for k, v in value.items()}
    if isinstance(value, list):
        return [fresh(v) for v in value]
    return value


def put(config: Config, path: Path, value: Any) -> Config:
    """A copy of `config` with `value` at `path`."""
    out = dict(config)
    if len(path) == 1:
        out[path[0]] = value
    else:
        below = out.get(path[0])
        out[path[0]] = put(below if isinstance(below, dict) else {}, path[1:], value)
    return out


def settle(config: Config, value: Any) -> Config:
    """`config` with `value` where a context says SAME."""
    return {k: value if v is knowledge.SAME else v for k, v in config.items()}


def lookup(config: Any, path: Path) -> Any:
    """The value at `path`, or MISSING."""
    for key in path:
        if not isinstance(config, dict) or key not in config:
            return MISSING
        config = config[key]
    return config


class Parser:
    """DeepSpeedConfig of the installed release, as an oracle."""

    def __init__(self) -> None:
        stubs.install()
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        import deepspeed
        import deepspeed.runtime.config as module

        self.module = module
        self.release: str = deepspeed.__version__.split("+")[0]
        self.root = FilePath(deepspeed.__file__).parent
        module.dist.get_rank = lambda *_, **__: 0
        module.dist.get_world_size = lambda *_, **__: 1
        self.calls = 0
        gc.freeze()

    def failure(self, config: Config) -> BaseException | None:
        """What DeepSpeedConfig raises, or None."""
        self.calls += 1
        try:
            self.module.DeepSpeedConfig(fresh(config))
        except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
            if any(text in str(error) for text in knowledge.MACHINE_FAILURES):
                return None
            return error
        return None

    def accepts(self, config: Config) -> bool:
        """Whether DeepSpeedConfig takes it."""
        return self.failure(config) is None


def model_bases() -> list[type]:
    """BaseModel of pydantic, and that of its older self where it carries one (DeepSpeed 0.14.4 uses that)."""
    import pydantic

    bases: list[type] = [pydantic.BaseModel]
    try:
        from pydantic.v1 import BaseModel
    except ImportError:
        return bases
    return list(dict.fromkeys([*bases, BaseModel]))


def models(base: type) -> Iterator[type]:
    """All pydantic models below `base`."""
    for child in base.__subclasses__():
        yield child
        yield from models(child)


class Field(typing.NamedTuple):
    """A field of a pydantic model, in either major release of pydantic."""

    name: str
    alias: str | None
    annotation: Any
    default: Any  # MISSING when required or unknowable
    extra: dict[str, Any]
    declared: str  # annotation and constraints, as text


def model_fields(model: Any) -> list[Field]:
    """The fields a model declares."""
    out = []
    if hasattr(model, "model_fields"):
        for name, info in model.model_fields.items():
            default = info.default
            if repr(default) == "PydanticUndefined":
                default = info.default_factory() if info.default_factory is not None else MISSING
            extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
            declared = f"{info.annotation} {info.metadata}"
            out.append(Field(name, info.alias, info.annotation, default, dict(extra), declared))
        return out
    hints = typing.get_type_hints(model)
    for name, info in model.__fields__.items():
        default = MISSING if info.required else info.get_default()
        alias = info.alias if info.alias != name else None
        about = info.field_info
        bounds = [getattr(about, k, None) for k in ("gt", "ge", "lt", "le", "regex", "min_length")]
        annotation = hints.get(name, info.outer_type_)
        declared = f"{annotation} {info.allow_none} {bounds}"
        out.append(Field(name, alias, annotation, default, dict(about.extra), declared))
    return out


def field_docs(model: type) -> dict[str, str]:
    """The string literals below the fields of a class."""
    import ast
    import textwrap

    out: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if cls.__module__.split(".")[0] != "deepspeed":
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError, SyntaxError):
            continue
        body = tree.body[0].body  # type: ignore[attr-defined]
        for before, after in pairwise(body):
            if (
                isinstance(before, ast.AnnAssign)
                and isinstance(before.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                out[before.target.id] = after.value.value
    return out


def short(text: str, limit: int = 220) -> str:
    """The first sentences of a docstring on one line."""
    flat = " ".join(text.replace("``", "`").split())
    if flat.startswith("Deprecated"):
        return flat
    out = ""
    for sentence in flat.replace("e.g. ", "e.g.\0").split(". "):
        sentence = sentence.replace("\0", " ").strip().rstrip(".")
        if out and len(out) + len(sentence) > limit:
            break
        out += ("" if not out else " ") + sentence + "."
        if len(out) > 120:
            break
    return out


def unwrap(annotation: Any) -> list[Any]:
    """The members of Optional and Union, else the annotation alone."""
    origin = typing.get_origin(annotation)
    if origin is typing.Union or (hasattr(types, "UnionType") and origin is types.UnionType):
        return [m for a in typing.get_args(annotation) for m in unwrap(a)]
    return [annotation]


def meant(annotation: Any) -> tuple[list[str], list[Any]]:
    """(JSON types, allowed values) an annotation means."""
    names: list[str] = []
    values: list[Any] = []
    for part in unwrap(annotation):
        origin = typing.get_origin(part) or part
        if part is type(None):
            names.append("null")
        elif origin is typing.Literal:
            values.extend(typing.get_args(part))
            names.append("string")
        elif inspect.isclass(origin) and issubclass(origin, enum.Enum):
            values.extend(dict.fromkeys(m.value for m in origin if not isinstance(m.value, tuple)))
            names.append("integer" if issubclass(origin, int) else "string")
        elif origin is bool or (inspect.isclass(origin) and issubclass(origin, bool)):
            names.append("boolean")
        elif inspect.isclass(origin) and issubclass(origin, int):
            names.append("integer")
        elif origin is float:
            names.append("number")
        elif origin in (str, FilePath) or (inspect.isclass(origin) and issubclass(origin, FilePath)):
            names.append("string")
        elif inspect.isclass(origin) and issubclass(origin, (list, tuple, set)):
            names.append("array")
            for inner in typing.get_args(part):
                values.extend(meant(inner)[1])
        elif inspect.isclass(origin) and issubclass(origin, dict):
            names.append("object")
    return names, values


def as_json(value: Any) -> Any:
    """A JSON value for a default, or MISSING."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, FilePath):
        return str(value)
    if isinstance(value, (list, tuple)):
        items = [as_json(v) for v in value]
        return MISSING if any(v is MISSING for v in items) else items
    if isinstance(value, dict):
        pairs = {k: as_json(v) for k, v in value.items()}
        return MISSING if any(v is MISSING for v in pairs.values()) else pairs
    if hasattr(value, "dict") or hasattr(value, "model_dump"):
        return MISSING
    return MISSING


class Maker:
    """Makes the schema of one release."""

    def __init__(self, parser: Parser, before: dict[str, Any] | None = None):
        self.parser = parser
        self.notes: list[str] = []
        self.probed: dict[Any, dict[str, Any]] = {}
        self.before = before or {}
        self.results: dict[str, Any] = {}
        self.oracles: dict[Path, Callable[[Any], bool]] = {}
        self.reads = self._discover()
        ours = [
            m for base in model_bases() for m in models(base) if m.__module__.split(".")[0] == "deepspeed"
        ]
        self.by_title = {m.__name__: m for m in ours}
        self.static, self.static_models = static_keys.parse_time(parser.root)
        self.runtime = static_keys.runtime(parser.root)
        self.vocabulary = static_keys.vocabulary(parser.root)
        self.listed: dict[Path, set[str]] = {path: set(keys) for path, keys in self.reads.items()}

    # Which keys there are

    def _discover(self) -> dict[Path, dict[str, Any]]:
        """Every key the parser asks a dict for, with its default, by path of the dict."""
        log: dict[Path, dict[str, Any]] = {}
        shape: Config = {}
        scalars: set[Path] = set()
        for _ in range(8):
            size = sum(len(v) for v in log.values())
            for overlay in ({}, *knowledge.DISCOVERY):
                config = merge({**MINIMAL, **copy.deepcopy(shape)}, overlay)
                with contextlib.suppress(Exception):  # what was read before it failed counts too
                    self.parser.module.DeepSpeedConfig(recording(config, (), log))
            for path, keys in list(log.items()):
                for key in keys:
                    here = (*path, key)
                    if here in scalars or lookup(shape, here) is not MISSING:
                        continue
                    if self.parser.accepts(put({**MINIMAL, **shape}, here, {})):
                        shape = put(shape, here, {})
                    else:
                        scalars.add(here)
            if sum(len(v) for v in log.values()) == size:
                break
        return log

    def model_at(self, path: Path) -> Any:
        """The pydantic model that reads the dict at `path`, or None."""
        for base in self.bases(path):
            error = self.parser.failure(put(base, path, {"__no_such_key__": 1}))
            title = getattr(error, "title", None) or getattr(getattr(error, "model", None), "__name__", "")
            model: Any = self.by_title.get(title)
            if model is None or error is None or not hasattr(error, "errors"):
                continue
            place = error.errors()[0]["loc"]
            if not place or place[-1] != "__no_such_key__":
                continue
            for step in place[:-1]:
                inner = [f for f in model_fields(model) if step in (f.name, f.alias)]
                parts = unwrap(inner[0].annotation) if inner else []
                model = next((p for p in parts if inspect.isclass(p) and p.__name__ in self.by_title), None)
                if model is None:
                    break
            if model is not None:
                return model
        if path in self.static_models:
            module, name = self.static_models[path]
            return getattr(sys.modules.get(module), name, None)
        return None

    # What is accepted

    def bases(self, path: Path) -> list[Config]:
        """Configs in which the key at `path` is to be tried."""
        dotted = ".".join(path)
        out = [MINIMAL]
        for prefix, overlays in knowledge.CONTEXTS.items():
            if dotted == prefix or dotted.startswith(prefix + ".") or prefix == "":
                out.extend(merge(MINIMAL, overlay) for overlay in overlays)
        if dotted in knowledge.ONLY:
            out = [merge(MINIMAL, overlay) for overlay in knowledge.ONLY[dotted]]
        return out

    def oracle(self, path: Path) -> Callable[[Any], bool]:
        """Whether a value at `path` is taken in at least one of the contexts."""
        if path in self.oracles:
            return self.oracles[path]
        bases = self.bases(path)
        known: dict[str, bool] = {}

        def verdict(base: Config, value: Any) -> bool:
            return self.parser.accepts(settle(put(base, path, value), value))

        if (
            len(bases) > 1 and not self.before
        ):  # contexts that judge like the first one are not worth asking again
            first = [verdict(bases[0], v) for v in SAMPLE]
            if any(first):
                bases = [bases[0], *(b for b in bases[1:] if [verdict(b, v) for v in SAMPLE] != first)]

        def accepts(value: Any) -> bool:
            key = repr(value)
            if key not in known:
                known[key] = any(verdict(base, value) for base in bases)
            return known[key]

        self.oracles[path] = accepts
        return accepts

    # The schema

    def make(self) -> dict[str, Any]:
        """The whole schema."""
        root = self.section((), None)
        self.notes.extend(static_keys.compare(self.static, self.listed))
        self.shield(root, "bfloat16", "bf16")
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "urn:dslint:deepspeed-config",
            "title": "DeepSpeed config",
            **root,
        }

    def section(self, path: Path, model: Any) -> dict[str, Any]:
        """The schema of the dict at `path`."""
        dotted = ".".join(path)
        properties: dict[str, Any] = {}
        if model is not None:
            properties = self.model_properties(path, model)
        else:
            for key, default in self.legacy_keys(path).items():
                properties[key] = self.key((*path, key), default)
        schema: dict[str, Any] = {}
        if path:
            schema.update(self.around(path))
        else:
            schema["type"] = "object"
        schema["properties"] = properties
        unknown = self.oracle((*path, "__no_such_key__"))
        forbids = not unknown(1)
        auto = forbids and unknown("auto")
        if forbids:
            schema["additionalProperties"] = {"const": "auto"} if auto else {"not": {}}
        else:
            schema["additionalProperties"] = True
        if dotted in knowledge.FREE:
            schema["additionalProperties"] = True
            schema["x-unknown-keys"] = "free"
        else:
            schema["x-unknown-keys"] = "forbidden" if forbids else "ignored"
        if path and model is None:
            required = self.required(path, list(properties))
            if required:
                schema["required"] = required
        schema["x-auto"] = "dropped" if model is not None and (auto or not forbids) else "kept"
        return schema

    def required(self, path: Path, keys: list[str]) -> list[str]:
        """Keys without which a section is refused, whatever else it holds."""
        accepts = self.parser.accepts
        if self.oracle(path)({}):
            return []
        whole = [b for b in self.bases(path) if isinstance(lookup(b, path), dict) and accepts(b)]
        out = []
        for key in keys:
            having = [b for b in whole if key in lookup(b, path)]
            less = [{k: v for k, v in lookup(b, path).items() if k != key} for b in having]
            if having and not any(accepts(put(b, path, rest)) for b, rest in zip(having, less, strict=True)):
                out.append(key)
        return out

    def shield(self, root: dict[str, Any], old: str, new: str) -> None:
        """Judge section `old` only where `new` is absent, if DeepSpeed reads `old` only then."""
        faulty = {"__no_such_key__": 1}
        accepts = self.parser.accepts
        if old not in root["properties"] or (
            accepts({**MINIMAL, old: faulty}) and accepts({**MINIMAL, old: 1})
        ):
            return
        bad = faulty if not accepts({**MINIMAL, old: faulty}) else 1
        if not accepts({**MINIMAL, old: bad, new: {}}):
            return
        unread: dict[str, Any] = {"required": [new]}
        if not accepts({**MINIMAL, old: bad, new: None}) and accepts({**MINIMAL, new: None}):
            unread["properties"] = {new: {"not": {"type": "null"}}}
        full = root["properties"][old]
        root["properties"][old] = {**derive.told(full), "additionalProperties": True}
        root["anyOf"] = [unread, {"properties": {old: derive.demands(full)}}]

    def around(self, path: Path) -> dict[str, Any]:
        """Type keywords for values of a section that are not objects."""
        accepts = self.oracle(path)
        schema = self.probe(path, lambda v: isinstance(v, dict) or accepts(v), [], "section")
        schema.pop("additionalProperties", None)
        return schema

    def legacy_keys(self, path: Path) -> dict[str, Any]:
        """Keys of a dict-style section with their defaults."""
        keys = dict(self.reads.get(path, {}))
        for key in (*self.static.get(path, {}), *self.runtime.get(path, {})):
            keys.setdefault(key, MISSING)
        for key in knowledge.NOT_KEYS.get(".".join(path), ()):
            keys.pop(key, None)
        order = list(knowledge.LEGACY)
        rank = {name: i for i, name in enumerate(order)}
        return dict(sorted(keys.items(), key=lambda kv: (rank.get(".".join((*path, kv[0])), 10**6), kv[0])))

    def key(self, path: Path, default: Any) -> dict[str, Any]:
        """The schema of a key of a dict-style section."""
        dotted = ".".join(path)
        removed = self.removed(path)
        if removed is not None:
            return removed
        model = self.model_at(path)
        about = knowledge.LEGACY.get(dotted, {})
        keys = self.legacy_keys(path)
        if model is not None or keys or dotted in knowledge.FREE:
            schema = self.section(path, model)
            words = about.get("description") or (
                short(inspect.getdoc(model) or "") if model is not None else ""
            )
            words = words or knowledge.LEAVES.get(path[-1], "")
            out = {"description": words} if words else {}
            if not words:
                self.notes.append(f"no description: {dotted}")
            out.update(schema)
            out["x-type"] = about.get("type", "object")
            out.update(self.replacement(about))
            source = self.source(path, model)
            if source:
                out["x-source"] = source
            if dotted in ("optimizer", "scheduler"):
                self.untyped(out, dotted)
            if dotted == "optimizer":
                out.update(self.optimizers())
            if dotted == "scheduler":
                out.update(self.schedulers())
            return out
        accepts = self.oracle(path)
        values = list(about.get("values", ()))
        strings = [v for v in values if isinstance(v, str)]
        if not accepts("abc"):  # the parser looks at words: whatever the source spells out is tried
            numeric = accepts(2)
            found: dict[str, str] = {}
            for word in (*strings, *self.vocabulary):
                if word != "auto" and accepts(word):
                    found.setdefault(word.lower() if accepts(word.swapcase()) else word, word)
            strings = list(found.values())
            values = [] if numeric else list(strings)
        schema = self.probe(path, accepts, strings)
        out = {}
        words = about.get("description") or knowledge.LEAVES.get(path[-1])
        if words:
            out["description"] = words
        else:
            self.notes.append(f"no description: {dotted}")
        out.update(schema)
        plain = as_json(default) if default is not MISSING else MISSING
        if "default" in about:
            plain = about["default"]
        if plain is not MISSING and not (plain == {} and about.get("type") != "object"):
            out["default"] = plain
        kind = about.get("type") or self.kind_of(plain)
        if kind:
            out["x-type"] = kind
        if values:
            out["x-values"] = values
        out.update(self.replacement(about))
        source = self.source(path, None)
        if source:
            out["x-source"] = source
        return out

    def probe(
        self, path: Path, accepts: Callable[[Any], bool], strings: list[str], like: str = ""
    ) -> dict[str, Any]:
        """Keywords for the value at `path`.

        A key declared like an earlier one (`like`) that answers every value of derive.QUICK as that one did
        gets the same keywords; all others are asked everything. With the answers of a neighbouring release at
        hand (build.py --quick), a key that agrees with them on a sample of values keeps them.
        """
        place = f"{'.'.join(path)} {like}"
        before = self.before.get(place)
        if (
            before is not None
            and before["strings"] == strings
            and self.agrees(place, before["schema"], accepts)
        ):
            self.results[place] = before
            return copy.deepcopy(before["schema"])
        schema = self.probe_anew(path, accepts, strings, like)
        self.results[place] = {"strings": strings, "schema": schema}
        return copy.deepcopy(schema)

    def agrees(self, place: str, schema: dict[str, Any], accepts: Callable[[Any], bool]) -> bool:
        """Whether a neighbour's schema judges a sample of values as this release does."""
        import jsonschema

        judge = jsonschema.Draft202012Validator(schema)
        draw = random.Random(f"{self.parser.release} {place}")
        values = [None, True, False, 0, 1, -1, "abc", "auto", {}, [], *draw.sample(derive.QUICK, 8)]
        values += draw.sample(derive.STRINGS, 6)
        if schema.get("x-integer-literal"):
            values = [v for v in values if not isinstance(v, float)]
        values = [v for v in values if not isinstance(v, float) or math.isfinite(v)]
        return all(judge.is_valid(v) == accepts(v) for v in values)

    def probe_anew(
        self, path: Path, accepts: Callable[[Any], bool], strings: list[str], like: str
    ) -> dict[str, Any]:
        """Keywords for the value at `path`, from the whole battery."""
        if all(accepts(v) for v in (*derive.ANYTHING, *strings)):
            return {}
        answers = tuple(accepts(v) for v in (*derive.QUICK, *strings))
        key = (like, tuple(strings), answers)
        if key not in self.probed:
            try:
                schema = derive.derive(accepts, strings)
                self.probed[key] = derive.finite_strings(schema, accepts, [*strings, "auto"])
            except derive.Undecided as error:
                self.notes.append(f"undecided: {'.'.join(path)}: {error}")
                return {}
        return self.probed[key]

    def untyped(self, schema: dict[str, Any], section: str) -> None:
        """Judge `params` only beside a `type`: without one DeepSpeed does not look at them."""
        full = schema["properties"].get("params")
        if (
            not full
            or not derive.demands(full)
            or not self.parser.accepts({**MINIMAL, section: {"params": 1}})
        ):
            return
        schema["properties"]["params"] = {**derive.told(full), "additionalProperties": True}
        schema["anyOf"] = [
            {"not": {"required": ["type"]}},
            {"properties": {"type": {"type": "null"}}},
            {"properties": {"params": derive.demands(full)}},
        ]

    @staticmethod
    def replacement(about: dict[str, Any]) -> dict[str, Any]:
        """`deprecated` and what replaces the key."""
        out: dict[str, Any] = {}
        if about.get("deprecated"):
            out["deprecated"] = True
        if about.get("replaced_by"):
            out["deprecated"] = True
            out["x-replaced-by"] = about["replaced_by"]
        return out

    @staticmethod
    def kind_of(value: Any) -> str | None:
        """The JSON type of a default."""
        if isinstance(value, bool):
            return "boolean"
        if isinstance(value, int):
            return "integer"
        if isinstance(value, float):
            return "number"
        if isinstance(value, str):
            return "string"
        if isinstance(value, list):
            return "array"
        return None

    def removed(self, path: Path) -> dict[str, Any] | None:
        """The property of a key whose mere presence raises."""
        dotted = ".".join(path)
        texts = {
            **getattr(self.parser.module, "_REMOVED_TOP_LEVEL_CONFIG_KEYS", {}),
            **{
                f"zero_optimization.{k}": v
                for k, v in getattr(self.parser.module, "_REMOVED_ZERO_CONFIG_KEYS", {}).items()
            },
        }
        if dotted not in texts and dotted not in knowledge.REMOVED:
            return None
        accepts = self.oracle(path)
        if any(accepts(v) for v in (None, False, True, 0, 1, "auto", "a", [], {}, {"enabled": False})):
            return None
        if dotted not in knowledge.REMOVED:
            self.notes.append(f"no words for removed key: {dotted}")
        words = knowledge.REMOVED.get(dotted, short(texts.get(dotted, "Removed.")))
        return {"description": words, "not": {}, "deprecated": True, "x-removed": words}

    def model_properties(self, path: Path, model: Any) -> dict[str, Any]:
        """Properties of a section that a pydantic model reads."""
        docs = field_docs(model)
        fields = model_fields(model)
        names = self.listed.setdefault(path, set())
        canonical = {f.name: f.alias or f.name for f in fields}
        out: dict[str, Any] = {}
        for f in fields:
            name = canonical[f.name]
            names.update((name, f.name))
            schema = self.field((*path, name), f, docs.get(f.name, ""), canonical)
            out[name] = schema
            if f.alias and f.alias != f.name and self.knows((*path, f.name), schema):
                out[f.name] = {**schema, "x-canonical": f.alias}
                below = (*path, name)
                for other in [p for p in self.listed if p[: len(below)] == below]:
                    self.listed[(*path, f.name, *other[len(below) :])] = set(self.listed[other])
        for key in getattr(self.parser.module, "_REMOVED_ZERO_CONFIG_KEYS", {}):
            if path == ("zero_optimization",):
                removed = self.removed((*path, key))
                if removed:
                    out[key] = removed
        return out

    def knows(self, path: Path, schema: dict[str, Any]) -> bool:
        """Whether a field may be given by its own name beside its alias."""
        accepts = self.oracle(path)
        probes = [schema.get("default", MISSING), True, 1, "a", {}, None, [], 0.5]
        return any(accepts(v) for v in probes if v is not MISSING)

    def field(self, path: Path, f: Field, doc: str, canonical: dict[str, str]) -> dict[str, Any]:
        """The schema of a pydantic field."""
        dotted = ".".join(path)
        about = knowledge.LEGACY.get(dotted, {})
        names, values = meant(f.annotation)
        out: dict[str, Any] = {}
        text = about.get("description") or short(doc) or knowledge.LEAVES.get(path[-1])
        if text:
            out["description"] = text
        else:
            self.notes.append(f"no description: {dotted}")
        nested = [p for p in unwrap(f.annotation) if inspect.isclass(p) and p.__name__ in self.by_title]
        if nested:
            out.update(self.section(path, nested[0]))
            names = ["object", *(n for n in names if n == "null")]
            if f.default is None:
                out["default"] = None
        else:
            values = list(values or about.get("values", ()))
            strings = [str(v) for v in values]
            accepts = self.oracle(path)
            out.update(self.probe(path, accepts, strings, f.declared))
            default = as_json(f.default) if f.default is not MISSING else MISSING
            if "default" in about:
                default = about["default"]
            if default is not MISSING:
                out["default"] = default
        if about.get("type"):
            names = about["type"] if isinstance(about["type"], list) else [about["type"]]
        if names and f.default is None and out.get("type") and "null" in out["type"]:
            names.append("null")
        names = list(dict.fromkeys(names))
        if names:
            out["x-type"] = names[0] if len(names) == 1 else names
        if values:
            out["x-values"] = [as_json(v) for v in values]
        if f.extra.get("deprecated"):
            out["deprecated"] = True
            new = str(f.extra.get("new_param", ""))
            if new:
                parts = new.split(" or ")
                out["x-replaced-by"] = " or ".join(canonical.get(p, p) for p in parts)
        else:
            out.update(self.replacement(about))
        return out

    def source(self, path: Path, model: Any) -> str | None:
        """The file of DeepSpeed that reads the key."""
        if model is not None:
            return model.__module__.replace(".", "/") + ".py"
        for reads in (self.static, self.runtime):
            if path[-1] in reads.get(path[:-1], {}):
                return reads[path[:-1]][path[-1]]
        return None

    def optimizers(self) -> dict[str, Any]:
        """Annotations about optimizer names and parameters."""
        return signatures.optimizers(self.parser)

    def schedulers(self) -> dict[str, Any]:
        """Annotations about scheduler names and parameters."""
        return signatures.schedulers()


def merge(base: Config, overlay: Config) -> Config:
    """`base` with `overlay` laid over it, section by section; None in an overlay removes a key."""
    out = dict(base)
    for key, value in overlay.items():
        if value is knowledge.ABSENT:
            out.pop(key, None)
        elif isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merge(out[key], value)
        else:
            out[key] = value if value is knowledge.SAME else copy.deepcopy(value)
    return out


def main() -> int:
    parser = Parser()
    known = json.loads(FilePath(sys.argv[2]).read_text(encoding="utf-8")) if len(sys.argv) > 2 else {}
    if "schema" in known:  # made from the same parsing code: only what else may differ is looked at
        schema = known["schema"]
        schema["properties"]["optimizer"].update(signatures.optimizers(parser))
        schema["properties"]["scheduler"].update(signatures.schedulers())
        report = {"release": parser.release, "schema": schema, "notes": [], "calls": 0}
    else:
        maker = Maker(parser, known.get("results"))
        schema = maker.make()
        report = {"release": parser.release, "schema": schema, "notes": maker.notes, "calls": parser.calls}
        report["results"] = maker.results
    FilePath(sys.argv[1]).write_text(json.dumps(report, ensure_ascii=False), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
