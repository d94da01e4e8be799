"""The YAML reader: the values PyYAML gives, with their places."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dslint.document import plain
from dslint.formats import read_bytes
from dslint.formats.yaml_reader import MAX_DEPTH, MAX_NODES, MAX_SIZE, numeric_text, read_yaml, resolve

VALUES: dict[str, Any] = {
    "no": False,
    "No": False,
    "NO": False,
    "yes": True,
    "on": True,
    "off": False,
    "true": True,
    "nO": "nO",
    "y": "y",
    "'no'": "no",
    '"yes"': "yes",
    "5e8": "5e8",
    "1e-5": "1e-5",
    "1E9": "1E9",
    "5e+8": "5e+8",
    "5.0e8": "5.0e8",
    "5.0e+8": 5e8,
    "1.0e-5": 1e-5,
    "1.5": 1.5,
    ".5": 0.5,
    "010": 8,
    "0x10": 16,
    "0b11": 3,
    "1_000": 1000,
    "1:30": 90,
    "08": "08",
    "-3": -3,
    "+7": 7,
    "~": None,
    "null": None,
    "": None,
    ".inf": float("inf"),
    "!!str 5": "5",
    "!!int '5'": 5,
    "!!float 5": 5.0,
    "a b": "a b",
}


@pytest.mark.parametrize("text", VALUES)
def test_a_scalar_means_what_yaml_1_1_says(text: str) -> None:
    document = read_yaml(f"k: {text}\n", "c.yaml")
    assert document.problems == []
    value = plain(document.root)["k"]  # type: ignore[arg-type]
    assert (value, type(value)) == (VALUES[text], type(VALUES[text]))


def test_places_point_at_keys_and_values() -> None:
    text = "a:\n  - b: 1\n    c: [x, yes]\nd: {e: 'f'}\n"
    document = read_yaml(text, "c.yaml")
    shown = {}
    for path in (("a",), ("a", 0, "b"), ("a", 0, "c", 1), ("d", "e")):
        place = document.find(path)
        assert place is not None
        shown[path] = (text[slice(*place.span)], text[slice(*place.node.span)])
    assert shown == {
        ("a",): ("a", "- b: 1\n    c: [x, yes]"),
        ("a", 0, "b"): ("b", "1"),
        ("a", 0, "c", 1): ("yes", "yes"),
        ("d", "e"): ("e", "'f'"),
    }


def test_the_last_of_two_keys_counts_and_both_are_kept() -> None:
    document = read_yaml("a:\n  b: 1\n  b: 2\n", "c.yaml")
    assert plain(document.root) == {"a": {"b": 2}}  # type: ignore[arg-type]
    assert [(d.rule, d.path, document.position(d.span.start)) for d in document.departures] == [
        ("shadowed-key", ("a", "b"), (3, 3))
    ]


def test_merged_keys_may_be_given_again() -> None:
    document = read_yaml("x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  a: 3\n", "c.yaml")
    assert document.departures == []
    assert plain(document.root)["y"] == {"a": 3, "b": 2}  # type: ignore[arg-type]


BAD = {
    "": "empty-file",
    "# nothing\n": "empty-file",
    "- a\n": "not-an-object",
    "text": "not-an-object",
    "a: 1\n---\nb: 2\n": "several-documents",
    "a: [1\n": "syntax-error",
    "a: b: c": "syntax-error",
    "\ta: 1": "syntax-error",
    "a: !python/object x": "syntax-error",
    "a: *b": "syntax-error",
    "&a [*a]": "syntax-error",
    "? [a]\n: b": "syntax-error",
    "a: \x00": "syntax-error",
}


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_loaded_is_one_problem(text: str) -> None:
    assert [problem.rule for problem in read_yaml(text, "c.yaml").problems] == [BAD[text]]


def test_hostile_input_ends_early() -> None:
    laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n"
        for before, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
    for text, rule in (
        ("[" * 50_000, "nesting-too-deep"),
        ("- " * 20_000, "nesting-too-deep"),
        ("\n".join(" " * i + "a:" for i in range(MAX_DEPTH + 5)), "nesting-too-deep"),
        (laughs, "nesting-too-deep"),
        ("a: 1\n" * MAX_SIZE, "file-too-large"),
    ):
        assert [problem.rule for problem in read_yaml(text, "c.yaml").problems] == [rule], text[:20]
    assert MAX_NODES < 10**10


names = st.text("abcdefgh_", min_size=1, max_size=6).filter(lambda name: name.strip("_"))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=8),
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(names, trees, min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_json_is_yaml_but_for_its_numbers(data: dict[str, Any]) -> None:
    document = read_yaml(json.dumps(data, ensure_ascii=False), "c.yaml")
    assert document.problems == []
    assert same(plain(document.root), data)  # type: ignore[arg-type]


def same(found: Any, meant: Any) -> bool:
    if isinstance(meant, dict):
        return set(found) == set(meant) and all(same(found[key], meant[key]) for key in meant)
    if isinstance(meant, list):
        return len(found) == len(meant) and all(map(same, found, meant))
    return found == meant or (isinstance(meant, float) and numeric_text(found))


@given(st.text(max_size=60))
@example("a: &x {b: *x}")
@settings(max_examples=80, deadline=None)
def test_no_text_makes_the_reader_raise(text: str) -> None:
    document = read_yaml(text, "c.yaml")
    for problem in document.problems:
        assert 0 <= problem.span.start <= problem.span.end <= max(len(text), 1)


@given(st.text("0123456789eE+-._:xbnoyaflstrue~NI", max_size=6))
@settings(max_examples=150, deadline=None)
def test_scalars_agree_with_pyyaml(text: str) -> None:
    yaml = pytest.importorskip("yaml")
    try:
        loaded = yaml.safe_load(f"k: {text}\n")
    except (yaml.YAMLError, ValueError):
        return
    value = loaded.get("k") if isinstance(loaded, dict) else None
    if isinstance(loaded, dict) and isinstance(value, (str, int, float, bool, type(None))) and value == value:
        assert resolve(text)[1] == value


def test_a_number_to_people_is_recognized() -> None:
    assert numeric_text("5e8") and numeric_text("1e-5") and numeric_text("5.0e8")
    assert not numeric_text("5.0e+8") and not numeric_text("12") and not numeric_text("e5")


def test_a_yaml_file_is_told_by_its_keys() -> None:
    kinds = {
        "distributed_type: DEEPSPEED\n": "accelerate",
        "deepspeed_config: {}\n": "accelerate",
        "output_dir: x\ndeepspeed: ds.json\n": "arguments",
        "zero_optimization: {stage: 2}\ntrain_batch_size: 8\n": "yaml",
    }
    for text, kind in kinds.items():
        assert read_bytes(text.encode(), "c.yml").format == kind, text
    inline = read_bytes(b"base_model: m\ndeepspeed:\n  zero_optimization: {stage: 2}\n", "c.yaml")
    assert (inline.format, inline.base) == ("yaml", ("deepspeed",))


def test_a_tag_that_pyyaml_knows_is_read() -> None:
    document = read_yaml("a: !!binary aGVsbG8=\nb: !!timestamp 2001-01-01\nc: !!set {x, y}\n", "c.yaml")
    assert document.problems == [] and document.root is not None
    assert plain(document.root)["a"] == "b'hello'"
    [problem] = read_yaml("a: !!binary \u00e4\n", "c.yaml").problems
    assert "base64" in problem.message
