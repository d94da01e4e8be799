"""A condition in Python holds where the tree it was translated from is known to hold, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dslint.conditions import HOLDS
from dslint.expression import BINARY, UNARY, UNKNOWN, evaluate, listed
from dslint.facts import Facts, Item
from dslint.lint import Options, prepare
from dslint.rules import ReadyRule, Scope, load
from dslint.translate import ARGUMENTS, certain, refuted

PATHS = [["train_batch_size"], ["fp16", "enabled"], ["zero_optimization", "stage"], ["zero_optimization"], ["x"],
         ["facts", "precision"], ["facts", "stage"], ["target", "gpus"], ["target", "trainer"], ["this"],
         ["this", "key"], ["this", "absent"], ["args", "fp16"], ["accelerate", "x"]]  # fmt: skip
PLACES = [["zero_optimization", "offload_optimizer"], ["this"], ["fp16", "enabled"], ["accelerate", "x"], ["x"]]
CONSTANTS = [0, 1, 2, -1, 0.0, 1.0, 1.5, True, False, None, "auto", "cpu", "", "1", 10**20]
VALUES = [*CONSTANTS, [], ["cpu"], [1, True], {}, {"enabled": True}, {"device": "cpu"}, UNKNOWN]

constants = st.sampled_from(CONSTANTS).map(lambda value: ["const", value])
texts = st.lists(st.sampled_from(["cpu", "auto", ""]).map(lambda text: ["const", text]), max_size=3)
leaves = st.one_of(
    constants,
    st.sampled_from(PATHS).map(lambda path: ["path", path]),
    st.tuples(
        st.sampled_from(["has", "written", "is_auto", "offloads", "at_default"]), st.sampled_from(PLACES)
    ).map(lambda call: ["call", *call]),
    texts.map(lambda items: ["list", *items]),
)
trees = st.recursive(
    leaves,
    lambda below: st.one_of(
        st.lists(below, min_size=1, max_size=3).map(lambda parts: ["and", *parts]),
        st.lists(below, min_size=1, max_size=3).map(lambda parts: ["or", *parts]),
        below.map(lambda tree: ["not", tree]),
        st.tuples(st.sampled_from(sorted(UNARY)), below).map(lambda pair: ["apply", *pair]),
        st.tuples(st.sampled_from(sorted(BINARY)), below, below).map(list),
        st.lists(below, max_size=3).map(lambda items: ["list", *items]),
    ),
    max_leaves=12,
)


class World:
    """A config, its facts and its scope in one, whose values are drawn."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = lambda: data.draw(st.sampled_from(VALUES))
        self.known: dict[Any, Any] = {}
        self.item = Item(("fp16", "enabled"), {"key": self.draw()})
        self.given = {("zero_optimization",): {}, ("x",): self.draw(), ("fp16", "enabled"): self.draw()}

    def __getitem__(self, path: Any) -> Any:
        return self.known.setdefault(path, self.draw())

    def lookup(self, path: tuple[str, ...]) -> Any:
        if path == ("this", "key") or path == ("this", "absent"):
            return self.item.values.get(path[1])
        return self[self.item.path if path == ("this",) else path[1] if path[0] == "facts" else path]

    def call(self, name: str, path: Any) -> Any:
        path = self.item.path if path == ("this",) else path
        if name == "at_default" or path[0] == "accelerate":
            return self["call", name, path]
        if name == "offloads":
            device = self[(*path, "device")]
            return UNKNOWN if device is UNKNOWN else device in ("cpu", "nvme")
        if name == "has":
            return path in self.given
        return self.given.get(path) == "auto" if name == "is_auto" else self.given.get(path)


@given(trees, st.data())
def test_a_translation_says_what_is_known(tree: Any, data: st.DataObject) -> None:
    world = World(data)
    verdict = evaluate(tree, world)
    names = {"A": UNARY, "B": BINARY, "L": listed, "U": UNKNOWN}
    for expected, text in ((True, certain(tree)), (False, refuted(tree))):
        holds = eval(f"lambda {ARGUMENTS}: {text}", names)  # noqa: S307  (drawn here)
        said = holds(world, world, world.given, world.item, world)
        assert bool(said) is (verdict is not UNKNOWN and bool(verdict) is expected), text


def test_every_shipped_condition_says_what_its_tree_does() -> None:
    texts = [{}, {"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}},
             {"train_batch_size": 8, "fp16": {"enabled": True}, "bf16": {"enabled": True}, "optimizer": {"type": "Adam"}}]  # fmt: skip
    rules = [rule for rule in load() if rule.when is not None]
    assert {rule.code for rule in rules} == set(HOLDS)
    for text in texts:
        config = prepare(json.dumps(text).encode(), "ds.json", Options("0.19.8", trainer="raw", gpus=4))
        facts = Facts(config)
        for rule in rules:
            for item in ReadyRule(rule).places(config, facts):
                scope = Scope(config, facts, item)
                verdict = evaluate(rule.when or [], scope)
                said = HOLDS[rule.code](config.values, facts, config.given, item, scope)
                assert bool(said) is (verdict is not UNKNOWN and bool(verdict)), rule.code
