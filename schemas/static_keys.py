"""Which keys DeepSpeed's source reads, found by reading it, not by importing it.

`parse_time` follows the config dict from DeepSpeedConfig.__init__ through assignments, calls and
classes (a small abstract interpreter over the syntax trees) and notes every key that is asked for.
`runtime` checks for each key of knowledge.RUNTIME that the release still reads it somewhere.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import knowledge

Path = tuple[str, ...]
ENTRY = ("runtime/config.py", "DeepSpeedConfig")
SAME_DICT = ("copy", "deepcopy", "keys", "items", "dict", "values")
MAX_DEPTH = 14


# Abstract values. A value is a frozenset of these.
@dataclass(frozen=True)
class At:
    """The user's value at a path."""

    path: Path


@dataclass(frozen=True)
class Text:
    """A known string."""

    value: str


@dataclass(frozen=True)
class Items:
    """A sequence or mapping written in the source: keys (or elements) and values."""

    pairs: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True)
class Code:
    """A function or class of a module."""

    module: str
    name: str


@dataclass(frozen=True)
class Thing:
    """An instance under construction."""

    module: str
    name: str


Value = frozenset[Any]  # of the above
NOTHING: Value = frozenset()


@dataclass
class Module:
    """A source file."""

    name: str
    tree: ast.Module
    names: dict[str, ast.AST] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


class Reader:
    """Follows the config through the source of one release."""

    def __init__(self, root: FilePath):
        self.root = root
        self.modules: dict[str, Module | None] = {}
        self.reads: dict[Path, dict[str, str]] = {}
        self.models: dict[Path, tuple[str, str]] = {}
        self.attributes: dict[tuple[Thing, str], Value] = {}
        self.active: list[tuple[str, str]] = []
        self.seen: dict[tuple[Any, ...], Value] = {}

    # Modules and names

    def module(self, name: str) -> Module | None:
        """The module of this dotted name (below deepspeed), parsed once."""
        if name in self.modules:
            return self.modules[name]
        parts = name.split(".")
        if parts[0] != "deepspeed":
            return None
        base = self.root.joinpath(*parts[1:])
        file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if not file.is_file():
            self.modules[name] = None
            return None
        module = Module(name, ast.parse(file.read_text(encoding="utf-8")))
        self.modules[name] = module
        package = name if base.is_dir() else name.rpartition(".")[0]
        self._collect(module, package, module.tree.body)
        return module

    def _collect(self, module: Module, package: str, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                module.names[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        module.names[target.id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                module.names[node.target.id] = node.value
            elif isinstance(node, (ast.If, ast.Try)):
                for part in (node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
                    self._collect(module, package, part)
            elif isinstance(node, ast.ImportFrom):
                source = node.module or ""
                if node.level:
                    up = package.split(".")
                    up = up[: len(up) - node.level + 1]
                    source = ".".join([*up, source] if source else up)
                for alias in node.names:
                    if alias.name == "*":
                        module.stars.append(source)
                    else:
                        module.imports[alias.asname or alias.name] = (source, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    module.imports[alias.asname or alias.name.split(".")[0]] = (alias.name, None)

    def find(self, module: Module, name: str, depth: int = 0) -> tuple[Module, ast.AST] | None:
        """Where a name of a module is defined."""
        if name in module.names:
            return module, module.names[name]
        if depth > 8:
            return None
        if name in module.imports:
            source, original = module.imports[name]
            inner = self.module(source)
            if inner is not None and original:
                return self.find(inner, original, depth + 1)
            return None
        for source in module.stars:
            inner = self.module(source)
            if inner is not None:
                found = self.find(inner, name, depth + 1)
                if found is not None:
                    return found
        return None

    # Evaluation

    def note(self, path: Path, key: str, module: Module) -> Value:
        """Remember that `key` of the dict at `path` is read."""
        name = module.name
        for caller, _ in reversed(self.active):
            if not caller.endswith("config_utils"):
                name = caller
                break
        self.reads.setdefault(path, {}).setdefault(key, name.replace(".", "/") + ".py")
        return frozenset({At((*path, key))})

    def evaluate(self, node: ast.AST | None, module: Module, scope: dict[str, Value]) -> Value:
        """What an expression may be."""
        if node is None:
            return NOTHING
        if isinstance(node, ast.Constant):
            return frozenset({Text(node.value)}) if isinstance(node.value, str) else NOTHING
        if isinstance(node, ast.Name):
            return scope[node.id] if node.id in scope else self.global_value(module, node.id)
        if isinstance(node, ast.Attribute):
            return self.attribute(node, module, scope)
        if isinstance(node, ast.Subscript):
            return self.subscript(node, module, scope)
        if isinstance(node, ast.Compare):
            return self.compare(node, module, scope)
        if isinstance(node, ast.Call):
            return self.call(node, module, scope)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            pairs = [(v, v) for v in (self.evaluate(e, module, scope) for e in node.elts)]
            return frozenset({Items(tuple(pairs))})
        if isinstance(node, ast.Dict):
            pairs = [
                (self.evaluate(k, module, scope), self.evaluate(v, module, scope))
                for k, v in zip(node.keys, node.values, strict=True)
            ]
            return frozenset({Items(tuple(pairs))})
        if isinstance(node, (ast.DictComp, ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            return self.comprehension(node, module, scope)
        if isinstance(node, ast.IfExp):
            self.evaluate(node.test, module, scope)
            return self.evaluate(node.body, module, scope) | self.evaluate(node.orelse, module, scope)
        if isinstance(node, ast.NamedExpr):
            value = self.evaluate(node.value, module, scope)
            self.bind(node.target, value, module, scope)
            return value
        if isinstance(node, ast.BoolOp):
            out = NOTHING
            for part in node.values:
                out |= self.evaluate(part, module, scope)
            return out
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child, module, scope)
        return NOTHING

    def global_value(self, module: Module, name: str) -> Value:
        """What a module-level name is."""
        found = self.find(module, name)
        if found is None:
            return NOTHING
        home, node = found
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            return frozenset({Code(home.name, node.name)})
        key = ("global", home.name, id(node))
        if key not in self.seen:
            self.seen[key] = NOTHING
            self.seen[key] = self.evaluate(node, home, {})
        return self.seen[key]

    def attribute(self, node: ast.Attribute, module: Module, scope: dict[str, Value]) -> Value:
        out = NOTHING
        for value in self.evaluate(node.value, module, scope):
            if isinstance(value, Thing):
                out |= self.attributes.get((value, node.attr), NOTHING)
            elif isinstance(value, Code):
                found = self.lookup_class(value, node.attr)
                if found is not None:
                    home, item = found
                    out |= self.evaluate(item, home, {}) if isinstance(item, ast.expr) else NOTHING
        if not out and isinstance(node.value, ast.Name) and node.value.id in module.imports:
            source, original = module.imports[node.value.id]
            inner = self.module(f"{source}.{original}" if original else source)
            if inner is not None:
                return self.global_value(inner, node.attr)
        return out

    def lookup_class(self, code: Code, name: str) -> tuple[Module, ast.AST] | None:
        """A member of a class or of its bases."""
        module = self.module(code.module)
        node = module.names.get(code.name) if module else None
        if module is None or not isinstance(node, ast.ClassDef):
            return None
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name == name:
                return module, item
            if isinstance(item, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == name for t in item.targets
            ):
                return module, item.value
        for base in node.bases:
            for value in self.evaluate(base, module, {}):
                if isinstance(value, Code) and value != code:
                    found = self.lookup_class(value, name)
                    if found is not None:
                        return found
        return None

    def subscript(self, node: ast.Subscript, module: Module, scope: dict[str, Value]) -> Value:
        keys = self.evaluate(node.slice, module, scope)
        out = NOTHING
        for value in self.evaluate(node.value, module, scope):
            for key in keys:
                if isinstance(key, Text):
                    if isinstance(value, At) and isinstance(node.ctx, ast.Load):
                        out |= self.note(value.path, key.value, module)
                    elif isinstance(value, Items):
                        out |= _pick(value, key)
        return out

    def compare(self, node: ast.Compare, module: Module, scope: dict[str, Value]) -> Value:
        left = self.evaluate(node.left, module, scope)
        for operator, right in zip(node.ops, node.comparators, strict=True):
            values = self.evaluate(right, module, scope)
            if isinstance(operator, (ast.In, ast.NotIn)):
                for value in values:
                    for key in left:
                        if isinstance(value, At) and isinstance(key, Text):
                            self.note(value.path, key.value, module)
        return NOTHING

    def comprehension(self, node: Any, module: Module, scope: dict[str, Value]) -> Value:
        inner = dict(scope)
        pairs = []
        for one in self.loops(node.generators, module, inner):
            if isinstance(node, ast.DictComp):
                pairs.append((self.evaluate(node.key, module, one), self.evaluate(node.value, module, one)))
            else:
                value = self.evaluate(node.elt, module, one)
                pairs.append((value, value))
        return frozenset({Items(tuple(pairs))})

    def loops(
        self, generators: list[ast.comprehension], module: Module, scope: dict[str, Value]
    ) -> Iterator[Any]:
        """Scopes for the iterations of a comprehension with one generator."""
        generator = generators[0]
        for value in self.evaluate(generator.iter, module, scope):
            if isinstance(value, Items):
                for key, _ in value.pairs:
                    one = dict(scope)
                    self.bind(generator.target, key, module, one)
                    yield one
        one = dict(scope)
        for test in generator.ifs:
            self.evaluate(test, module, one)
        yield one

    def call(self, node: ast.Call, module: Module, scope: dict[str, Value]) -> Value:
        arguments = [
            self.evaluate(a.value if isinstance(a, ast.Starred) else a, module, scope) for a in node.args
        ]
        named = {k.arg: self.evaluate(k.value, module, scope) for k in node.keywords if k.arg}
        spread = [self.evaluate(k.value, module, scope) for k in node.keywords if k.arg is None]
        function = node.func
        out = NOTHING
        if isinstance(function, ast.Attribute):
            owner = self.evaluate(function.value, module, scope)
            for value in owner:
                if isinstance(value, (At, Items)) and function.attr in SAME_DICT:
                    out |= frozenset({value})
                elif isinstance(value, At) and function.attr in ("get", "pop", "setdefault") and arguments:
                    for key in arguments[0]:
                        if isinstance(key, Text):
                            out |= self.note(value.path, key.value, module)
                    out |= arguments[1] if len(arguments) > 1 else NOTHING
                elif isinstance(value, Items) and function.attr == "get" and arguments:
                    for key in arguments[0]:
                        out |= _pick(value, key)
                elif isinstance(value, Text) and function.attr in ("lower", "upper", "format", "strip"):
                    out |= frozenset({value})
                elif isinstance(value, Thing):
                    out |= self.method(value, function.attr, arguments, named)
                elif isinstance(value, Code):
                    found = self.lookup_class(value, function.attr)
                    if found is not None and isinstance(found[1], ast.FunctionDef):
                        out |= self.run(found[0], found[1], [frozenset({value}), *arguments], named)
            if isinstance(function.value, ast.Name) and function.value.id == "copy":
                return arguments[0] if arguments else NOTHING
            if owner:
                return out
        if isinstance(function, ast.Name) and function.id in ("dict", "list", "sorted", "set", "tuple"):
            if len(arguments) == 1:
                return arguments[0]
        for value in self.evaluate(function, module, scope):
            if isinstance(value, Code):
                out |= self.invoke(value, arguments, named, spread)
        return out

    def invoke(
        self, code: Code, arguments: list[Value], named: dict[str, Value], spread: list[Value]
    ) -> Value:
        """The result of calling a function or making an instance."""
        module = self.module(code.module)
        node = module.names.get(code.name) if module else None
        if module is None:
            return NOTHING
        if isinstance(node, ast.FunctionDef):
            return self.run(module, node, arguments, named)
        if isinstance(node, ast.ClassDef):
            if self.is_model(code):
                for value in spread:
                    self.model(code, value)
                for key, value in named.items():
                    self.model(code, frozenset({Items(((frozenset({Text(key)}), value),))}))
                return NOTHING
            thing = Thing(code.module, code.name)
            self.method(thing, "__init__", arguments, named)
            return frozenset({thing})
        return NOTHING

    def method(self, thing: Thing, name: str, arguments: list[Value], named: dict[str, Value]) -> Value:
        found = self.lookup_class(Code(thing.module, thing.name), name)
        if found is None or not isinstance(found[1], ast.FunctionDef):
            return NOTHING
        return self.run(found[0], found[1], [frozenset({thing}), *arguments], named)

    def run(
        self, module: Module, node: ast.FunctionDef, arguments: list[Value], named: dict[str, Value]
    ) -> Value:
        """What a function may return, noting the reads in its body."""
        scope: dict[str, Value] = {}
        parameters = [*node.args.posonlyargs, *node.args.args]
        late = parameters[len(parameters) - len(node.args.defaults) :]
        for parameter, default in zip(late, node.args.defaults, strict=True):
            scope[parameter.arg] = self.evaluate(default, module, {})
        for parameter in [*parameters, *node.args.kwonlyargs]:
            scope.setdefault(parameter.arg, NOTHING)
        for parameter, value in zip(parameters, arguments, strict=False):
            scope[parameter.arg] = value
        scope.update(named)
        if not any(self._interesting(v) for v in scope.values()):
            return NOTHING
        key = (module.name, node.name, node.lineno, tuple(sorted((k, hash(v)) for k, v in scope.items())))
        if key in self.seen or len(self.active) > MAX_DEPTH:
            return self.seen.get(key, NOTHING)
        self.seen[key] = NOTHING
        self.active.append((module.name, node.name))
        returned: list[Value] = []
        for _ in range(2):  # twice: an attribute set late may be read early
            self.block(node.body, module, scope, returned)
        self.active.pop()
        out: Value = NOTHING
        for value in returned:
            out |= value
        self.seen[key] = out
        return out

    @staticmethod
    def _interesting(value: Value) -> bool:
        return any(isinstance(v, (At, Thing, Items)) for v in value)

    def block(
        self, body: list[ast.stmt], module: Module, scope: dict[str, Value], returned: list[Value]
    ) -> None:
        """Run statements; both sides of every branch."""
        for node in body:
            if isinstance(node, ast.Return):
                returned.append(self.evaluate(node.value, module, scope))
            elif isinstance(node, ast.Assign):
                value = self.evaluate(node.value, module, scope)
                for target in node.targets:
                    self.bind(target, value, module, scope)
            elif isinstance(node, ast.AnnAssign):
                self.bind(node.target, self.evaluate(node.value, module, scope), module, scope)
            elif isinstance(node, (ast.If, ast.While)):
                self.evaluate(node.test, module, scope)
                sides = [(part, dict(scope)) for part in (node.body, node.orelse)]
                for part, inner in sides:
                    self.block(part, module, inner, returned)
                going_on = [inner for part, inner in sides if not (part and _leaves(part[-1]))]
                for name in {n for inner in going_on for n in inner}:
                    scope[name] = frozenset().union(*(inner.get(name, NOTHING) for inner in going_on))
                if not going_on:
                    return
            elif isinstance(node, ast.For):
                for value in self.evaluate(node.iter, module, scope):
                    if isinstance(value, Items):
                        for pair in value.pairs:
                            self.bind_pair(node, pair, module, scope)
                            self.block(node.body, module, scope, returned)
                self.block(node.body, module, scope, returned)
            elif isinstance(node, (ast.With, ast.Try)):
                for part in (node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
                    self.block(part, module, scope, returned)
                for handler in getattr(node, "handlers", []):
                    self.block(handler.body, module, scope, returned)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                package = module.name.rpartition(".")[0]
                self._collect(module, package, [node])
            else:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.evaluate(child, module, scope)

    def bind_pair(
        self, node: ast.For, pair: tuple[Any, Any], module: Module, scope: dict[str, Value]
    ) -> None:
        """Bind the target of `for x in items` or `for key, value in items`."""
        if isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2:
            self.bind(node.target.elts[0], pair[0], module, scope)
            self.bind(node.target.elts[1], pair[1], module, scope)
        else:
            self.bind(node.target, pair[0], module, scope)

    def bind(self, target: ast.AST, value: Value, module: Module, scope: dict[str, Value]) -> None:
        """Assign to a name or to an attribute of an instance."""
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, ast.Attribute):
            for owner in self.evaluate(target.value, module, scope):
                if isinstance(owner, Thing):
                    key = (owner, target.attr)
                    self.attributes[key] = self.attributes.get(key, NOTHING) | value

    # Pydantic models

    def is_model(self, code: Code) -> bool:
        """Whether a class is one of DeepSpeed's pydantic models."""
        module = self.module(code.module)
        node = module.names.get(code.name) if module else None
        if module is None or not isinstance(node, ast.ClassDef):
            return False
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in ("DeepSpeedConfigModel", "BaseModel"):
                return True
            for value in self.evaluate(base, module, {}):
                if isinstance(value, Code) and value != code and self.is_model(value):
                    return True
        return False

    def fields(self, code: Code) -> list[tuple[str, str | None, ast.expr, Module]]:
        """(name, alias, annotation, module) of a model's fields."""
        module = self.module(code.module)
        node = module.names.get(code.name) if module else None
        out: list[tuple[str, str | None, ast.expr, Module]] = []
        if module is None or not isinstance(node, ast.ClassDef):
            return out
        for base in node.bases:
            for value in self.evaluate(base, module, {}):
                if isinstance(value, Code) and value != code:
                    out.extend(self.fields(value))
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                alias = None
                if isinstance(item.value, ast.Call):
                    for keyword in item.value.keywords:
                        if keyword.arg == "alias" and isinstance(keyword.value, ast.Constant):
                            alias = str(keyword.value.value)
                out.append((item.target.id, alias, item.annotation, module))
            elif isinstance(item, ast.Assign) and isinstance(
                item.value, ast.Constant
            ):  # a field in pydantic 1
                names = [t.id for t in item.targets if isinstance(t, ast.Name) and not t.id.startswith("_")]
                out.extend((name, None, item.value, module) for name in names)
        return out

    def model(self, code: Code, value: Value) -> None:
        """Note the fields of a model that is made from the user's dict."""
        for v in value:
            if isinstance(v, At):
                self.models.setdefault(v.path, (code.module, code.name))
                for name, alias, annotation, module in self.fields(code):
                    for spelling in (alias, name):
                        if spelling:
                            self.note(v.path, spelling, self.module(code.module) or module)
                            inner = frozenset({At((*v.path, spelling))})
                            self.submodels(annotation, module, inner)
            elif isinstance(v, Items):
                for name, alias, annotation, module in self.fields(code):
                    for key in (name, alias):
                        if key:
                            self.submodels(annotation, module, _pick(v, Text(key)))

    def submodels(self, annotation: ast.expr, module: Module, value: Value) -> None:
        """Follow a field whose annotation names another model."""
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name):
                for code in self.global_value(module, node.id):
                    if isinstance(code, Code) and self.is_model(code) and (code, value) not in self.seen:
                        self.model(code, value)


def _leaves(node: ast.stmt) -> bool:
    """Whether control does not go on after a statement."""
    return isinstance(node, (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _pick(items: Items, key: Any) -> Value:
    """The values that a literal mapping has for a key."""
    out = NOTHING
    for keys, values in items.pairs:
        if key in keys:
            out |= values
    return out


def parse_time(root: FilePath) -> tuple[dict[Path, dict[str, str]], dict[Path, tuple[str, str]]]:
    """What DeepSpeedConfig reads.

    The keys (path of the dict -> key -> source file) and the pydantic models (path -> module, class).
    """
    reader = Reader(root)
    module = reader.module("deepspeed." + ENTRY[0][:-3].replace("/", "."))
    if module is None:
        raise FileNotFoundError(root / ENTRY[0])
    thing = Thing(module.name, ENTRY[1])
    reader.method(thing, "__init__", [frozenset({At(())})], {})
    return reader.reads, reader.models


NOT_PARSING = (
    "git_version",
    "accelerator",
    "deepspeed.utils.logging",
    "deepspeed.comm.comm",
    "deepspeed.comm.utils",
)


def fingerprint(root: FilePath) -> str:
    """A hash of all code that takes part in parsing a config, without comments and layout.

    Two releases with the same fingerprint parse every config alike.
    """
    reader = Reader(root)
    module = reader.module("deepspeed." + ENTRY[0][:-3].replace("/", "."))
    if module is None:
        raise FileNotFoundError(root / ENTRY[0])
    reader.method(Thing(module.name, ENTRY[1]), "__init__", [frozenset({At(())})], {})
    digest = hashlib.sha256(repr(sorted((p, sorted(k.items())) for p, k in runtime(root).items())).encode())
    for name, found in sorted(reader.modules.items()):
        if found is None or name in ("deepspeed", "deepspeed.utils", "deepspeed.comm"):
            continue
        if not any(part in name for part in NOT_PARSING):
            digest.update(ast.dump(found.tree).encode())
    return digest.hexdigest()


# Keys read after parsing


def _reads_of(tree: ast.Module, constants: dict[str, set[str]]) -> set[str]:
    """Strings used as a key: d[K], d.get(K), K in d, K == key."""

    def texts(node: ast.AST) -> Iterable[str]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name):
            yield from constants.get(node.id, ())

    out: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            out.update(texts(node.slice))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "pop")
        ):
            if node.args:
                out.update(texts(node.args[0]))
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("get_")
        ):
            for argument in node.args[1:2]:
                out.update(texts(argument))
        elif isinstance(node, ast.Compare):
            out.update(texts(node.left))
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                if key is not None:
                    out.update(texts(key))
    return out


def runtime(root: FilePath) -> dict[Path, dict[str, str]]:
    """Those keys of knowledge.RUNTIME that the release reads, with the file that does."""
    constants: dict[str, set[str]] = {}
    trees: dict[str, ast.Module] = {}
    wanted = {k for keys in knowledge.RUNTIME.values() for k in keys}
    files = [f for f in sorted(root.rglob("*.py")) if "/inference/" not in f.as_posix()]
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        relevant = (
            file.name == "constants.py" or any(k in text for k in wanted) or "constants import *" in text
        )
        if not relevant:
            continue
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        trees[file.relative_to(root.parent).as_posix()] = tree
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                if isinstance(node.value.value, str):
                    for target in node.targets:
                        if isinstance(target, ast.Name):
                            constants.setdefault(target.id, set()).add(node.value.value)
    found: dict[str, list[str]] = {}
    for name, tree in trees.items():
        for key in _reads_of(tree, constants) & wanted:
            found.setdefault(key, []).append(name)
    out: dict[Path, dict[str, str]] = {}
    for dotted, keys in knowledge.RUNTIME.items():
        path = tuple(dotted.split(".")) if dotted else ()
        for key in keys:
            places = [p for p in found.get(key, []) if any(h in p for h in _hints(dotted, key))]
            if places:
                out.setdefault(path, {})[key] = places[0]
    return out


def _hints(dotted: str, key: str) -> tuple[str, ...]:
    """Parts of the path of files that may read a key of this section."""
    for prefix, hints in knowledge.RUNTIME_FILES.items():
        if f"{dotted}.{key}".strip(".").startswith(prefix):
            return hints
    return ("deepspeed/",)


def vocabulary(root: FilePath) -> list[str]:
    """Words that files of constants and the config module spell out: candidates for the values of a key."""
    out: dict[str, None] = {}
    for file in [root / ENTRY[0], *sorted(root.rglob("constants.py"))]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and 1 < len(node.value) <= 24:
                if node.value.replace("-", "_").isidentifier() and node.value != "auto":
                    out[node.value] = None
    return list(out)


def compare(static: dict[Path, dict[str, str]], dynamic: dict[Path, Any]) -> list[str]:
    """What one reading lists and the other does not."""
    notes: list[str] = []
    for path in sorted({*static, *dynamic}):
        left, right = set(static.get(path, ())), set(dynamic.get(path, ()))
        where = ".".join(path) or "top level"
        notes.extend(f"only static: {where}: {key}" for key in sorted(left - right))
        notes.extend(f"only dynamic: {where}: {key}" for key in sorted(right - left))
    return notes
