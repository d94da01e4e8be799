"""The JSON reader against DeepSpeed's own loader (hjson), and what it says where that one fails."""

from __future__ import annotations

import collections
import io
import json
import time
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dslint.document import Document, Node, Path, Problem, plain, walk
from dslint.formats import decode, read_bytes, read_json
from dslint.formats.hjson_reader import MAX_DEPTH, read_hjson
from dslint.formats.json_cursor import MAX_DEPARTURES, MAX_PROBLEMS
from dslint.formats.json_reader import MAX_SIZE
from dslint.formats.strict import MAX_DEPTH as MAX_LEVELS
from dslint.formats.strict import Unread, strictly


def read(text: str) -> Document:
    return read_json(text, "ds_config.json")


def rules(found: list[Problem]) -> list[str]:
    return [problem.rule for problem in found]


def written(doc: Document, at: Problem | Node) -> str:
    return doc.text[at.span.start : at.span.end]


# Against hjson


@pytest.fixture(scope="module")
def hjson() -> ModuleType:
    return pytest.importorskip("hjson")


def deepspeed_reads(hjson: ModuleType, text: str) -> tuple[bool, Any]:
    """Whether DeepSpeed's loader accepts a file, and what it makes of it or says against it."""

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated = [key for key, count in collections.Counter(key for key, _ in pairs).items() if count > 1]
        if repeated:
            raise ValueError(f"duplicate keys {repeated}")
        return dict(pairs)

    try:
        as_opened = io.StringIO(text, newline=None).read()
        return True, hjson.loads(as_opened, object_pairs_hook=no_duplicates)
    except Exception as error:
        return False, error


def check_against_loaders(hjson: ModuleType, text: str) -> None:
    """The reader accepts what DeepSpeed's loader accepts, with equal values, and knows strict JSON."""
    doc = read(text)
    value = None if doc.root is None else plain(doc.root)
    accepted, expected = deepspeed_reads(hjson, text)
    if not accepted:
        assert doc.problems, f"{text!r} is refused ({expected}), but read as {value!r}"
    else:
        assert repr(value) == repr(expected), f"{text!r} is {expected!r}, but read as {value!r}"
        if not isinstance(expected, dict):
            assert rules(doc.problems) in (["not-an-object"], ["binary-file"]), f"{text!r}: {doc.problems}"
        elif doc.problems:
            assert rules(doc.problems) == ["empty-file"] and not expected, f"{text!r}: {doc.problems}"
    check_strict_json(doc, value)
    check_places(doc)
    check_against_slow_reader(doc)


def check_against_slow_reader(doc: Document) -> bool:
    """What is read as strict JSON at once is to the character what the reader of all texts makes of it."""
    if not isinstance(doc.root, Unread):
        return False
    slow = Document(doc.name, doc.text, None)
    read_hjson(slow)
    assert slow.root is not None and not isinstance(slow.root, Unread)
    assert slow.problems == doc.problems and not slow.departures and not doc.departures, doc.text
    assert set(rules(doc.problems)) <= {"duplicate-key"}, doc.text
    assert seen(doc.root) == seen(slow.root), doc.text
    assert repr(plain(doc.root)) == repr(plain(slow.root)), doc.text
    return True


def seen(root: Node) -> list[tuple[Any, ...]]:
    return [
        (place.path, place.node.kind, place.node.span, place.span, repr(place.node.value))
        for place in walk(root)
    ]


def check_strict_json(doc: Document, value: Any) -> None:
    if doc.problems or doc.departures:
        return
    try:
        strict = json.loads(doc.text)
    except ValueError as error:
        pytest.fail(f"{doc.text!r} has no departure, but strict JSON says {error}")
    assert strict == value, f"{doc.text!r} has no departure, but is {strict!r} to strict JSON"


def check_places(doc: Document) -> None:
    size = len(doc.text)
    for problem in doc.problems + doc.departures:
        assert 0 <= problem.span.start <= problem.span.end <= size, f"{doc.text!r}: {problem}"
        assert problem.message and problem.cure and "\n" not in problem.message + problem.cure, problem
    if doc.root is None or doc.problems:
        return
    for place in walk(doc.root):
        literal = written(doc, place.node)
        if place.node.kind in ("number", "boolean", "null"):
            assert plain(read(f"[{literal}]").root) == [place.node.value], f"{doc.text!r}: {literal!r}"
        elif place.node.kind == "array" or (place.node.kind == "object" and place.path):
            assert literal[0] + literal[-1] in ("{}", "[]"), f"{doc.text!r}: {literal!r}"


PIECES = [
    *"{}[],:\"'#/\\\n \t=;-0eE.ax",
    *("'''", "\r\n", "\r", "//", "/*", "*/", "\\u", "\\ud83d", "\\ude00", "\\u00e9", "\\n", "\\'", "\\u-001"),
    *("true", "false", "null", "True", "False,", "None", "NaN", "-Infinity", "0", "1", "-0", "-0.0", "1e5"),
    *("5e8", "1e10", "1.5", ".5", "5.", "01", "+1", "0x10", "1e999", "9" * 25, "\u0663", "\xa0", "\u2028"),
    *("\x0b", "\x1c", "\x85", "\x00", "\ufeff", '"a"', "'b'", "a:", "b :", '"a":', '"b": ', "{}", "[]", '""'),
    *("'''a\n  b\n'''", "\n    ", '"a": 1,\n', '"a": 1 "b": 2', '{"b": true}', "<<<<<<< ", "\xef\xbb\xbf"),
]
FRAMES = ["{}", "{{{}}}", "{{a:{}\n}}", '{{\n  "k": {},\n  "z": 1\n}}\n', "[{}]", "  k: {}\n", "\ufeff{{{}}}"]
soups = st.builds(
    lambda frame, pieces: frame.format("".join(pieces)),
    st.sampled_from(FRAMES),
    st.lists(st.sampled_from(PIECES), max_size=12),
)
texts = st.text(st.sampled_from("ab \n\t\"'\\/#{}[],:0\xe9\U0001f600\x01\u2028"), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(texts, v, max_size=4), max_leaves=8
)
configs = st.dictionaries(texts, values, max_size=5)

CONFIG = """{
  // effective batch: 32
  "train_batch_size": 32,
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.8, 0.999], "eps": 1e-8}},
  "fp16": {
    "enabled": true,
    "loss_scale": 0
  },
  "zero_optimization": {
    stage: 3
    offload_optimizer: { "device": 'cpu', "pin_memory": true, },
    "reduce_bucket_size": 5e8
  },
  "_note": '''
    two
    lines
  ''',
  "wall_clock_breakdown": false
}
"""

several = settings(
    deadline=None,
    max_examples=250,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@several
@given(config=values, indent=st.sampled_from([None, 0, 2, 4, "\t"]), ascii_only=st.booleans())
def test_strict_json_has_no_departures(hjson: ModuleType, config: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps({"a": config}, indent=indent, ensure_ascii=ascii_only)
    check_against_loaders(hjson, text)
    doc = read(text)
    assert not doc.problems or "1e" in text or "e+" in text
    assert not doc.departures
    assert check_against_slow_reader(doc) or doc.problems


@settings(several, max_examples=600)
@given(
    config=configs,
    indent=st.sampled_from([None, 0, 2, "\t"]),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    at=st.floats(0, 1),
    length=st.integers(0, 3),
    piece=st.sampled_from(PIECES),
)
def test_damaged_strict_json(
    hjson: ModuleType, config: dict[str, Any], indent: Any, line_end: str, at: float, length: int, piece: str
) -> None:
    text = json.dumps(config, indent=indent)
    start = int(at * len(text))
    check_against_loaders(hjson, (text[:start] + piece + text[start + length :]).replace("\n", line_end))


def test_members_are_looked_up_alike() -> None:
    text = '{"a": {"b": [1, {"c": 2}]}, "d": "a"}'
    quick, slow = read(text), Document("", text, None)
    read_hjson(slow)
    paths: list[Path] = [
        (), ("a",), ("a", "b"), ("a", "b", 1), ("a", "b", 1, "c"), ("d",), ("e",), ("a", "e"), ("d", "a"),
        ("a", "b", "c"), ("a", "b", 2), ("a", "b", -1), ("a", 0), ("d", 0), ("a", "b", 1, "c", "e"),
    ]  # fmt: skip
    for path in paths:
        one, other = quick.nearest(path), slow.nearest(path)
        assert one is not None and other is not None
        assert (one.path, one.span) == (other.path, other.span)
        assert (quick.find(path) is None) == (slow.find(path) is None), path


@several
@given(config=configs)
def test_what_hjson_writes(hjson: ModuleType, config: dict[str, Any]) -> None:
    check_against_loaders(hjson, hjson.dumps(config))


@settings(several, max_examples=1200)
@given(text=soups)
def test_soups_of_tokens(hjson: ModuleType, text: str) -> None:
    check_against_loaders(hjson, text)


@settings(several, max_examples=500)
@given(
    cuts=st.lists(
        st.tuples(st.integers(0, len(CONFIG)), st.integers(0, 3), st.sampled_from(["", *PIECES])), max_size=3
    ),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_damaged_configs(hjson: ModuleType, cuts: list[tuple[int, int, str]], line_end: str) -> None:
    text = CONFIG
    for start, length, piece in cuts:
        text = text[:start] + piece + text[start + length :]
    check_against_loaders(hjson, text.replace("\n", line_end))


@pytest.mark.parametrize("end", range(0, len(CONFIG), 7))
def test_cut_off_configs(hjson: ModuleType, end: int) -> None:
    check_against_loaders(hjson, CONFIG[:end])


# What DeepSpeed reads: every surprise of its loader

READS = [
    ('{"a": 5e8}', {"a": 500000000}),
    ('{"a": 1.0}', {"a": 1}),
    ('{"a": -0.0}', {"a": 0}),
    ('{"a": 1e10}', {"a": 1e10}),
    ('{"a": 12345678901234567890}', {"a": 12345678901234567890}),
    ('{"a": False,\n"b": 1}', {"a": "False,", "b": 1}),
    ('{"a": NaN\n}', {"a": "NaN"}),
    ('{"a": 01\n}', {"a": "01"}),
    ('{"a": +1\n}', {"a": "+1"}),
    ('{"a": 1 "b": 2,\n"c": 3}', {"a": '1 "b": 2,', "c": 3}),
    ('{"a": 1 # one\n}', {"a": 1}),
    ('{"a": x # one\n}', {"a": "x # one"}),
    ('{"a": "x""b": "y"}', {"a": "x", "b": "y"}),
    ("a: 1\nb: 2", {"a": 1, "b": 2}),
    ("{a#b: 1}", {"a#b": 1}),
    ("{'a': 'it\\'s'}", {"a": "it's"}),
    ('{"a": "\\ud83d\\ude00\\u  12"}', {"a": "\U0001f600\x12"}),
    ("{\n  a: '''\n    x\n      y\n  '''\n}", {"a": "x\n y"}),
    ("{\r\n  a: '''\r\n  x\r\n  y'''\r\n}", {"a": "x\ny"}),
    ("{a: '''x'''}\n", {"a": "x"}),
    ('\ufeff{"a": 1}', {"a": 1}),
    ('{"a": [1\n2,\n]}', {"a": [1, 2]}),
    ('{"a": true\xa0}', {"a": True}),
    ("", {}),
    ("# nothing\n", {}),
]


@pytest.mark.parametrize(("text", "value"), READS, ids=[text for text, _ in READS])
def test_surprises(hjson: ModuleType, text: str, value: dict[str, Any]) -> None:
    doc = read(text)
    assert doc.root is not None
    assert repr(plain(doc.root)) == repr(value)
    check_against_loaders(hjson, text)


# What DeepSpeed refuses: rule, place, words of the message and the cure

REFUSED = [
    ('{"a": 1 "b": 2}', "syntax-error", (1, 8), "no comma after 1", "put a comma after 1"),
    ('{"a": [1 2]}', "syntax-error", (1, 9), "no comma after 1", "put a comma after 1"),
    ('{"a": 1; "b": 2}', "syntax-error", (1, 8), "no comma", "write , instead of ;"),
    ('{"a": True}', "syntax-error", (1, 7), "True is Python", "write true"),
    ('{"a": {"b": None}, "c": 1}', "syntax-error", (1, 13), "None is Python", "write null"),
    ('{"a": NaN}', "syntax-error", (1, 7), "NaN is no number", "finite number"),
    ('{"a": 10**8}', "syntax-error", (1, 7), "no JSON number", "write a plain number"),
    ('{"a": cpu}', "syntax-error", (1, 7), "cpu has no quotes", 'write "cpu"'),
    ('{"a": (1, 2)}', "syntax-error", (1, 7), "(1, 2) has no quotes", "write [1, 2]"),
    ('{"a": 500,000}', "syntax-error", (1, 10), "commas in it", "without commas"),
    ('{"a": 1,, "b": 2}', "syntax-error", (1, 9), "no pair before", "remove the comma"),
    ('{"a": [1,, 2]}', "syntax-error", (1, 10), "no value before", "remove the comma"),
    ('{"a": }', "syntax-error", (1, 6), 'no value for "a"', "write a value"),
    ('{"a": 1, "b"}', "syntax-error", (1, 10), '"b" has no value', "colon and a value"),
    ('{"a" 1}', "syntax-error", (1, 5), 'no colon after the key "a"', 'write "a":'),
    ('{"a" {"b": 1}}', "syntax-error", (1, 5), 'no colon after the key "a"', 'write "a":'),
    ('{"a" = 1}', "syntax-error", (1, 6), "= instead of a colon", "write : instead of ="),
    ("{a = 1}", "syntax-error", (1, 4), "= instead of a colon", "write : instead of ="),
    ("{a b: 1}", "syntax-error", (1, 2), "spaces and no quotes", 'write "a b"'),
    ("{a # b {\n: 1}", "syntax-error", (1, 2), "comment between a and its colon", 'write "a"'),
    ('{"a":: 1}', "syntax-error", (1, 6), "second colon", "remove one"),
    ('{"a": [1, 2\n', "syntax-error", (1, 12), "2 brackets, opened on lines 1 to 1", "write ]} at the end"),
    ('{\n"a": 1', "syntax-error", (2, 7), "the { opened on line 1 is not closed", "write } at the end"),
    ('{"a": [1, 2}', "syntax-error", (1, 12), "before the [ opened on line 1 is closed", "write ] before it"),
    ('{"a": {"b": 1], "c": 2}', "syntax-error", (1, 14), "cannot close the {", "write } instead"),
    ('{"a": [1, "b": 2}', "syntax-error", (1, 11), "is not closed before the key", "write ] before it"),
    ('{"a": 1}\n}', "syntax-error", (2, 1), "closes nothing", "remove it"),
    ('"a": 1\n}', "syntax-error", (2, 1), "closes nothing", "open the file with {"),
    ('{"a": {}},\n"b": 1}', "syntax-error", (1, 10), "more keys follow", "bracket on line 1"),
    (
        '{"a": "x\n}',
        "syntax-error",
        (1, 7),
        "not closed before the end of its line",
        'close the string with "',
    ),
    ('{"a": "x', "syntax-error", (1, 7), "not closed before the end of the file", 'close the string with "'),
    ('{"a": "\t"}', "syntax-error", (1, 8), "raw tab", "write \\t"),
    ('{"a": "C:\\Users"}', "syntax-error", (1, 10), "no escape \\U", "\\\\ for a backslash"),
    ("{'a': 'it's'}", "syntax-error", (1, 11), "follows the end of a string", "write \\ before a quote"),
    ('{"a": 1e999}', "syntax-error", (1, 7), "too large", "smaller number"),
    ('{"a": ' + "1" * 5000 + "}", "syntax-error", (1, 7), "4300 digits", "smaller number"),
    ('{"a": /* b }', "syntax-error", (1, 7), "never closed", "close it with */"),
    ("{\na: '''b\n}", "syntax-error", (2, 4), "never closed", "close it with '''"),
    ("{a: '''b'''}", "syntax-error", (1, 5), "single line", "double quotes"),
    ('{"a": {{ b }}}', "syntax-error", (1, 8), "template", "fill in"),
    ('{\n<<<<<<< HEAD\n"a": 1\n}', "syntax-error", (2, 1), "merge", "resolve"),
    ("<html>\n<body>\n</html>", "syntax-error", (1, 1), "web page", "download"),
    ("Some words\nof prose\n", "syntax-error", (1, 5), "no colon", "Some:"),
    (
        '{"a": 1}\n{"a": 2}\n',
        "several-documents",
        (2, 1),
        "the one that ends on line 1",
        "one config in a file",
    ),
    ('{"a": 1, "b": 2,\n"a": 3}', "duplicate-key", (2, 1), "first on line 1", "remove one"),
    ("[1, 2]", "not-an-object", (1, 1), "the config is a list", "take the [ ] away"),
    ("null", "not-an-object", (1, 1), "the config is null", "{"),
    ("a: 1, b: {c: True}", "not-an-object", (1, 14), "for a string", "write true"),
    ("", "empty-file", (1, 1), "holds nothing", "train_batch_size"),
    ("// x\n", "empty-file", (1, 1), "only comments", "train_batch_size"),
    ("\ufeff\n", "empty-file", (1, 1), "cannot read it", "train_batch_size"),
    ('{"a": 1}\x00\x00', "binary-file", (1, 9), "zero bytes", "restore it"),
]


@pytest.mark.parametrize(
    ("text", "rule", "place", "message", "cure"), REFUSED, ids=[case[0][:30] for case in REFUSED]
)
def test_cures(
    hjson: ModuleType, text: str, rule: str, place: tuple[int, int], message: str, cure: str
) -> None:
    doc = read(text)
    assert rules(doc.problems) == [rule], doc.problems
    problem = doc.problems[0]
    assert doc.position(problem.span.start) == place, problem
    assert message in problem.message, problem
    assert cure in problem.cure, problem
    check_against_loaders(hjson, text)


def test_indentation_tells_which_bracket_is_open() -> None:
    doc = read('{\n  "zero": {\n    "stage": 2,\n  "fp16": {\n    "enabled": true\n  }\n}\n')
    assert [problem.message for problem in doc.problems] == [
        "the { opened on line 2 is not closed, by the indentation of what follows"
    ]


def test_python_dict_gets_a_problem_for_every_literal() -> None:
    doc = read("{'a': True, 'b': {'c': None}, 'd': 'x'}")
    assert [written(doc, problem) for problem in doc.problems] == ["True", "None"]
    assert doc.root is not None
    assert plain(doc.root) == {"a": True, "b": {"c": None}, "d": "x"}


def test_reading_goes_on_after_a_fault() -> None:
    doc = read('{"a": 1,, "b": "x\n, "c": [1, "d": {"e" 2}, "f": 3}')
    assert doc.root is not None
    assert plain(doc.root) == {"a": 1, "b": "x", "c": [1], "d": {"e": 2}, "f": 3}
    assert rules(doc.problems) == ["syntax-error"] * 4


def test_duplicate_keys_survive_with_path_and_both_places() -> None:
    doc = read('{"a": {"b": 1,\n"c": 2,\n\'b\': 3, b: 4}}')
    assert [(p.rule, p.path, written(doc, p)) for p in doc.problems] == [
        ("duplicate-key", ("a", "b"), "'b'"),
        ("duplicate-key", ("a", "b"), "b"),
    ]
    assert doc.root is not None
    members = doc.root.members[0].node.members
    assert [(m.key, m.node.value) for m in members] == [("b", 1), ("c", 2), ("b", 3), ("b", 4)]


# What strict JSON readers hold against a file

DEPARTURES = [
    ('{"a": 1} # x', "comment", "# x"),
    ('{"a": /* x */ 1}', "comment", "/* x */"),
    ('{"a": 1 // x\n}', "comment", "// x"),
    ('{"a": 1,}', "trailing-comma", ","),
    ('{"a": [1,]}', "trailing-comma", ","),
    ('{"a": 1\n"b": 2}', "missing-comma", ""),
    ("{a: 1}", "unquoted-key", "a"),
    ("{\u201ca\u201d: 1}", "unquoted-key", "\u201ca\u201d"),
    ('{"a": x y \n}', "unquoted-string", "x y"),
    ("{'a': 1}", "single-quoted-string", "'a'"),
    ("{\"a\": 'b'}", "single-quoted-string", "'b'"),
    ("{\"a\": '''b'''}\n", "multi-line-string", "'''b'''"),
    ('\ufeff{"a": 1}', "byte-order-mark", "\ufeff"),
    ('"a": 1', "missing-root-braces", ""),
    ('{"a": NaN,\n"b": 1}', "nan-or-infinity", "NaN,"),
    ('{"a": -Infinity\n}', "nan-or-infinity", "-Infinity"),
    ('{"a": 01\n}', "number-format", "01"),
    ('{"a": 1_000,\n"b": 1}', "number-format", "1_000,"),
    ('{"a": True\n}', "python-literal", "True"),
    ('{"a": False,\n"b": 1}', "python-literal", "False,"),
    ('{"a": cpu,\n"b": 1}', "swallowed-comma", "cpu,"),
    ('{"a": 1 "b": 2\n}', "swallowed-comma", '1 "b": 2'),
    ('{"a": cpu # x\n}', "swallowed-comment", "cpu # x"),
    ('{"a": "\\\'"}', "escape-sequence", "\\'"),
    ('{"a": true\xa0}', "odd-whitespace", "\xa0"),
]


@pytest.mark.parametrize(("text", "rule", "literal"), DEPARTURES, ids=[case[0] for case in DEPARTURES])
def test_departures(hjson: ModuleType, text: str, rule: str, literal: str) -> None:
    doc = read(text)
    assert [(d.rule, written(doc, d)) for d in doc.departures] == [(rule, literal)]
    assert not doc.problems
    check_against_loaders(hjson, text)


def test_departures_know_their_path() -> None:
    doc = read('{"a": [{"b": 1, c: True\n}]}')
    assert [(d.rule, d.path) for d in doc.departures] == [
        ("unquoted-key", ("a", 0)),
        ("python-literal", ("a", 0, "c")),
    ]


# Places


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_every_literal_is_where_its_span_says(line_end: str) -> None:
    doc = read(CONFIG.replace("\n", line_end))
    assert doc.root is not None and not doc.problems
    literals = {".".join(map(str, p.path)): (p.member, p.node) for p in walk(doc.root)}
    seen = {
        path: (member and doc.text[member.key_span.start : member.key_span.end], written(doc, node))
        for path, (member, node) in literals.items()
    }
    assert seen["zero_optimization.stage"] == ("stage", "3")
    assert seen["zero_optimization.offload_optimizer.device"] == ('"device"', "'cpu'")
    assert seen["zero_optimization.reduce_bucket_size"] == ('"reduce_bucket_size"', "5e8")
    assert seen["optimizer.params.betas"] == ('"betas"', "[0.8, 0.999]")
    assert seen["optimizer.params.betas.1"] == (None, "0.999")
    assert seen["_note"] == ('"_note"', "'''\n    two\n    lines\n  '''".replace("\n", line_end))
    assert seen["fp16"][1].startswith("{") and seen["fp16"][1].endswith("}")
    assert written(doc, doc.root) == doc.text.rstrip()
    assert literals["_note"][1].value == "two\nlines"


def test_unquoted_text_is_pointed_at_without_the_space_around_it() -> None:
    doc = read("{a: \xa0 some text \t\n}")
    assert doc.root is not None
    assert written(doc, doc.root.members[0].node) == "some text"


# Bytes


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        ('{"a": 1}'.encode("utf-16"), "utf16"),
        ('{"a": 1}'.encode("utf-16-le"), "utf16"),
        ('{"a": 1}'.encode("utf-16-be"), "utf16"),
        ('{"a": 1}'.encode("utf-32"), "utf16"),
        ('{"a": 1}'.encode("utf-32-be"), "utf16"),
        (b'{"a": "\xe9"}', "not-utf8"),
        (b"PK\x03\x04\xff\xfe\x00\x00", "binary-file"),
        (b"\x00" * 64, "binary-file"),
    ],
)
def test_bytes_that_are_no_text(raw: bytes, rule: str) -> None:
    doc = read_bytes(raw, "ds_config.json")
    assert rules(doc.problems) == [rule]
    assert doc.problems[0].cure


def test_the_first_byte_that_is_not_utf8_is_pointed_at() -> None:
    doc = read_bytes('{"\xe9":\n"'.encode() + b'\xe9"}', "ds_config.json")
    assert doc.position(doc.problems[0].span.start) == (2, 2)
    assert "0xe9" in doc.problems[0].message


def test_decoding_drops_and_translates_nothing() -> None:
    raw = b'\xef\xbb\xbf{"\xc3\xa9": 1,\r\n"b":\r2}\n'
    text, problems = decode(raw)
    assert not problems
    assert text.encode() == raw


# Hostile input


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 40_000, "[" * 100_000 + "]" * 100_000, "a: " + "[" * 9_999]
)
def test_deep_nesting_ends_in_one_problem(text: str) -> None:
    doc = read(text)
    assert "nesting-too-deep" in rules(doc.problems)
    assert len(doc.problems) <= 2


def test_nesting_below_the_limit_is_read(hjson: ModuleType) -> None:
    depth = MAX_DEPTH - 1
    doc = read('{"a": ' + "[" * depth + "]" * depth + "}")
    assert not doc.problems
    check_against_loaders(hjson, '{"a":' * 200 + "1" + "}" * 200)


def test_deep_json_is_read_by_the_reader_that_passes_over_nothing_twice() -> None:
    for depth, quick in ((MAX_LEVELS - 1, True), (MAX_LEVELS, False)):
        doc = read('{"a": ' + "[" * depth + "]" * depth + "}")
        assert isinstance(doc.root, Unread) is quick and not doc.problems
    assert isinstance(read('{"a": [' + "[]," * 200 + "[]]}").root, Unread)


def test_a_large_file_is_not_read() -> None:
    assert rules(read('{"a": [' + "0," * 5_000_000 + "0]}").problems) == ["file-too-large"]


def test_problems_and_departures_are_bounded() -> None:
    assert len(read("{" + "," * 10_000).problems) == MAX_PROBLEMS
    assert len(read("#\n" * 10_000).departures) == MAX_DEPARTURES


HOSTILE = [
    *(
        "[{}]".format("0," * 9),
        "{}",
        "#\n",
        "/**/",
        "{/*",
        '"',
        "'",
        "'''",
        "{a:'''\n",
        "\\",
        '{"a":"\\',
        "{a:1 ",
    ),
    *(
        "{a: x, ",
        "a b",
        "{a=1,",
        "[\nTrue,\n",
        '["a\n',
        "]",
        "[{",
        "\r\n",
        "\x00",
        "1",
        "1.",
        "- ",
        "{{",
        "\t",
        ": ",
    ),
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_is_linear(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        start = time.process_time()
        read(text)
        return time.process_time() - start

    small, large = min(seconds(MAX_SIZE // 64) for _ in range(2)), seconds(MAX_SIZE // 4)
    assert large < 64 * max(small, 0.001), f"{piece!r}: {small:.4f} s, 16 times as long {large:.4f} s"


def test_time_in_strict_json_is_bounded() -> None:
    levels = MAX_LEVELS - 2
    text = '{"a":' * levels + "[" + "1," * (MAX_SIZE // 2 - 6 * levels) + "1]" + "}" * levels
    doc = read(text)
    assert isinstance(doc.root, Unread)
    start = time.process_time()
    assert len(list(walk(doc.root))) > MAX_SIZE // 3
    assert time.process_time() - start < 5


@pytest.mark.parametrize("levels", [31, 40, 390])
@pytest.mark.parametrize("pair", ['"train_batch_size": 8', '"gradient_clipping": NaN'])
def test_json_that_only_hjson_refuses_is_read_at_any_depth(levels: int, pair: str) -> None:
    text = f'{{"train_batch_size": 8, {pair}, "x": {"[" * levels}{"]" * levels}}}'
    found = strictly(Document("ds.json", text, None))
    assert found is not None and found.root is not None
    assert [member.key for member in found.root.members][-1] == "x"
    assert [departure.rule for departure in found.departures] == ["shadowed-key"] * ("NaN" not in pair)
