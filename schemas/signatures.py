"""Optimizers and schedulers that a release knows by name, and the parameters each takes.

DeepSpeed's own code that builds the optimizer is run with constructors that only note what they
were called with; nothing is compiled and no optimizer is made.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, ClassVar

EMPTY = inspect.Parameter.empty
KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Called(BaseException):
    """Raised by a constructor under observation."""

    def __init__(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]):
        super().__init__()
        self.cls, self.args_seen, self.kwargs = cls, args, kwargs
        self.popped = set(Spy.popped)


class Spy(dict):  # type: ignore[type-arg]
    """A dict that tells which keys were taken out of it."""

    popped: ClassVar[set[Any]] = set()

    def pop(self, key: Any, *default: Any) -> Any:
        if key in self:
            Spy.popped.add(key)
        return super().pop(key, *default)


def keywords(cls: type, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """Keyword parameters of a constructor with their defaults."""
    signature = inspect.signature(cls.__init__)
    out = {}
    for name, parameter in list(signature.parameters.items())[2:]:
        if parameter.kind in KEYWORDS and name not in skip:
            out[name] = parameter.default
    return out


def plain(value: Any) -> Any:
    """A default as JSON."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return None


def _constants(function: Any) -> Iterator[str]:
    """Strings that a function mentions, by literal or by constant."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value
        elif isinstance(node, ast.Name) and isinstance(scope.get(node.id), str):
            yield scope[node.id]


def _contains(value: Any, sentinel: object) -> bool:
    if isinstance(value, dict):
        return any(_contains(v, sentinel) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(_contains(v, sentinel) for v in value)
    return value is sentinel


class _Bench:
    """DeepSpeed's optimizer construction with everything around it replaced."""

    def __init__(self) -> None:
        import torch
        from deepspeed.runtime import engine

        self.engine = engine
        self.torch = torch
        self.classes: list[type] = []
        modules = ["ops.adam", "ops.adagrad", "ops.lamb", "ops.lion", "runtime.fp16.onebit.adam"]
        modules += [
            "runtime.fp16.onebit.lamb",
            "runtime.fp16.onebit.zoadam",
            "runtime.zero.muon.original_muon",
        ]
        modules += ["runtime.zero.muon.muon_optimizer"]
        for name in modules:
            try:
                module = __import__("deepspeed." + name, fromlist=["x"])
            except ImportError:
                continue
            self.classes += [
                c
                for c in vars(module).values()
                if inspect.isclass(c)
                and issubclass(c, torch.optim.Optimizer)
                and c is not torch.optim.Optimizer
            ]
        self.classes += list(torch_optimizers(torch).values())
        self.signatures = {c: keywords(c) for c in self.classes}
        cls = engine.DeepSpeedEngine
        helpers = [v for k, v in vars(cls).items() if "muon" in k or k == "get_optimizer_configuration"]
        helpers = [h.__func__ if isinstance(h, staticmethod) else h for h in helpers if callable(h) or
                   isinstance(h, staticmethod)]  # fmt: skip
        import deepspeed

        if hasattr(deepspeed, "set_optimizer_flags"):
            helpers.append(deepspeed.set_optimizer_flags)
        self.flags = _flags()
        self.mentioned = sorted(
            {w for f in [cls._configure_basic_optimizer, *helpers] for w in _constants(f)}
        )
        for value in vars(cls).values():
            if isinstance(value, tuple) and value and all(isinstance(v, str) for v in value):
                self.mentioned = sorted({*self.mentioned, *value})

    def call(self, name: str, params: dict[str, Any], offload: bool) -> _Called | BaseException | None:
        """What is constructed for an optimizer of this name."""
        torch = self.torch
        base = self.engine.DeepSpeedEngine

        def make(cls: type) -> Any:
            def init(_: Any, *args: Any, **kwargs: Any) -> None:
                raise _Called(cls, args, kwargs)

            return init

        class Fake(base):  # type: ignore[misc, valid-type]
            def __init__(self) -> None:
                torch.nn.Module.__init__(self)

            def optimizer_name(self) -> str:
                return name

            def optimizer_params(self) -> dict[str, Any]:
                return Spy(params)

            def zero_use_cpu_optimizer(self) -> bool:
                return offload

            def zero_cpu_offload(self) -> bool:
                return offload

            def zero_optimization(self) -> bool:
                return False

            def zero_optimization_stage(self) -> int:
                return 0

            def fp16_enabled(self) -> bool:
                return False

            def bf16_optimizer_states(self) -> bool:
                return False

        fake = Fake()
        for attribute, value in {"has_moe_layers": False, "zenflow": False, "overlap_step": False}.items():
            object.__setattr__(fake, attribute, value)
        weights = [torch.nn.Parameter(torch.zeros(2, 2)), torch.nn.Parameter(torch.zeros(2))]
        for flag, weight in zip((True, False), weights, strict=True):
            weight.use_muon = flag
        saved = {c: c.__dict__.get("__init__") for c in self.classes}
        Spy.popped.clear()
        self.engine.dict = Spy
        try:
            for c in self.classes:
                c.__init__ = make(c)  # type: ignore[misc]
            base._configure_basic_optimizer(fake, weights)
        except _Called as called:
            return called
        except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
            return error
        finally:
            del self.engine.dict
            for c, init in saved.items():
                if init is None:
                    del c.__init__
                else:
                    c.__init__ = init  # type: ignore[misc]
        return None

    def parameters(self, name: str, offload: bool, extra: dict[str, Any]) -> tuple[type, list[str]] | None:
        """(class, parameter names) for an optimizer of this name."""
        first = self.call(name, extra, offload)
        if not isinstance(first, _Called) or first.cls not in self.signatures:
            return None
        signature = list(self.signatures[first.cls])[len(first.args_seen) - 1 :]
        injected = set(first.kwargs)
        taken = []
        for candidate in [*signature, *(m for m in self.mentioned if m not in signature)]:
            sentinel = object()
            result = self.call(name, {**extra, candidate: sentinel}, offload)
            if not isinstance(result, _Called):
                continue
            if candidate in result.popped or candidate in self.flags.get(name, ()):
                taken.append(candidate)
            elif result.kwargs.get(candidate) is sentinel:
                if candidate in signature and candidate not in injected:
                    taken.append(candidate)
            elif _contains([result.args_seen, result.kwargs], sentinel):
                taken.append(candidate)
        return first.cls, sorted({*taken} - {"max_grad_norm"}, key=lambda n: (n not in signature, n))


def _flags() -> dict[str, set[str]]:
    """Parameters that only deepspeed.set_optimizer_flags reads."""
    import deepspeed

    function = getattr(deepspeed, "set_optimizer_flags", None)
    if function is None:
        return {}
    out = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            if node.args and isinstance(node.args[0], ast.Constant):
                out.add(node.args[0].value)
    return {"muon": out}


def torch_optimizers(torch: Any) -> dict[str, type]:
    """Optimizer classes that torch.optim exports."""
    return {
        name: c
        for name, c in sorted(vars(torch.optim).items())
        if inspect.isclass(c) and issubclass(c, torch.optim.Optimizer) and c is not torch.optim.Optimizer
    }


def optimizers(parser: Any) -> dict[str, Any]:
    """Annotations for the section `optimizer`."""
    import torch
    from deepspeed.runtime.zero import utils

    bench = _Bench()
    names = sorted(getattr(parser.module, "DEEPSPEED_OPTIMIZERS", []))
    flags = [w for w in bench.mentioned if w == "torch_adam"]
    sys.unraisablehook = lambda _: None  # half-made optimizers complain when they are deleted
    table: dict[str, Any] = {}
    for name in names:
        entry: dict[str, Any] = {}
        classes: dict[str, str] = {}
        variants = [("gpu", False, {}), ("cpu_offload", True, {})]
        if flags:
            variants.append(("torch_adam", False, {"torch_adam": True}))
        for label, offload, extra in variants:
            found = bench.parameters(name, offload, extra)
            if found is None:
                continue
            if label == "torch_adam" and found[0].__module__.split(".")[0] != "torch":
                continue
            entry[label] = found[1]
            classes[label] = found[0].__name__
            if label == "gpu":
                defaults = {k: plain(v) for k, v in bench.signatures[found[0]].items() if k in found[1]}
                entry["defaults"] = {k: v for k, v in defaults.items() if v is not None}
        if classes.get("torch_adam") == classes.get("gpu"):
            entry.pop("torch_adam", None)
            classes.pop("torch_adam", None)
        table[name] = {**entry, "classes": classes} if classes else {"needs": "mup"}
    with contextlib.suppress(Exception):  # newer releases add Muon when first asked
        utils.is_zero_supported_optimizer(object())
    tested = [c.__name__ for c in utils.ZERO_SUPPORTED_OPTIMIZERS if not c.__module__.startswith("apex")]
    taken = {n: sorted(keywords(c)) for n, c in torch_optimizers(torch).items()}
    return {
        "x-optimizers": table,
        "x-torch-optimizers": taken,
        "x-zero-tested-optimizers": list(dict.fromkeys(tested)),
    }


def schedulers() -> dict[str, Any]:
    """Annotations for the section `scheduler`."""
    import torch
    from deepspeed.runtime import lr_schedules

    table = {}
    for name in lr_schedules.VALID_LR_SCHEDULES:
        cls = getattr(lr_schedules, name, None)
        if cls is None:
            continue
        found = keywords(cls)
        table[name] = {
            "params": {k: plain(v) for k, v in found.items() if v is not EMPTY},
            "required": [k for k, v in found.items() if v is EMPTY],
        }
    module = torch.optim.lr_scheduler
    base = getattr(module, "LRScheduler", None) or module._LRScheduler
    others = [
        n
        for n, c in sorted(vars(module).items())
        if inspect.isclass(c) and issubclass(c, base) and not n.startswith("_") and c is not base
    ]
    return {"x-schedulers": table, "x-torch-schedulers": others}
