"""Fixes: edits that keep what they do not mean, a loop that never leaves a file worse, whole files written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dslint.cli import main
from dslint.document import plain, walk
from dslint.finding import Edit, FileReport
from dslint.fixing.build import fix_of
from dslint.fixing.changes import Change, Move, Remove, Rename, Set, carried_out, same
from dslint.fixing.edits import Pieces, edited
from dslint.fixing.loop import Judge, Outcome, fix_text
from dslint.fixing.reading import fix_of_all
from dslint.formats import read_bytes
from dslint.lint import Options, lint
from dslint.rules import load
from tests import fix_properties
from tests.fix_properties import broken, layout
from tests.oracle.generate import generate

RULES = load()


def changed(text: str, *changes: Change, name: str = "ds.json") -> str | None:
    """The text after the fix that makes some changes; None where there is none."""
    fix = fix_of(read_bytes(text.encode(), name), changes, True)
    return None if fix is None else edited(text, fix.edits)


CONFIG = """\
{
  "train_batch_size": 8, // per step
  "zero_optimization": {
    "stage": 2, # two
    /* only one */
    "offload_optimizer": {"device": "cpu"}
  },
  "fp16": {}
}
"""


def with_lines(*changes: tuple[str, str], text: str = CONFIG) -> str:
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


Z = "zero_optimization"


@pytest.mark.parametrize(
    "change, expected",
    [
        (Set((Z, "stage"), 3), with_lines(("2, #", "3, #"))),
        (
            Set((Z, "overlap_comm"), True),
            with_lines(('"cpu"}\n', '"cpu"},\n    "overlap_comm": true\n')),
        ),
        (Set(("fp16", "enabled"), True), with_lines(("{}", '{\n    "enabled": true\n  }'))),
        (
            Set(("bf16", "enabled"), True),
            with_lines(("{}", '{},\n  "bf16": {\n    "enabled": true\n  }')),
        ),
        (
            Set((Z, "offload_optimizer", "pin_memory"), True),
            with_lines(('"cpu"}', '"cpu", "pin_memory": true}')),
        ),
        (
            Set((Z, "offload_param"), {"device": "nvme", "nvme_path": "/é"}),
            with_lines(
                (
                    '"cpu"}\n',
                    '"cpu"},\n    "offload_param": {\n      "device": "nvme",\n      "nvme_path": "/é"\n    }\n',
                )
            ),
        ),
        (
            Remove((Z, "offload_optimizer")),
            with_lines(("2, #", "2 #"), ('    "offload_optimizer": {"device": "cpu"}\n', "")),
        ),
        (Remove((Z, "stage")), with_lines(('    "stage": 2, # two\n', ""))),
        (Remove(("fp16",)), with_lines(("  },\n", "  }\n"), ('  "fp16": {}\n', ""))),
        (Remove((Z, "offload_optimizer", "device")), with_lines(('{"device": "cpu"}', "{}"))),
        (Rename(("train_batch_size",), "batch"), with_lines(("train_batch_size", "batch"))),
        (
            Move((Z, "offload_optimizer"), ("fp16", "opt")),
            with_lines(
                ("2, #", "2 #"),
                ('    "offload_optimizer": {"device": "cpu"}\n', ""),
                ("{}", '{\n    "opt": {"device": "cpu"}\n  }'),
            ),
        ),
    ],
    ids=str,
)
def test_edits_follow_the_neighbours_and_keep_comments(change: Change, expected: str) -> None:
    assert changed(CONFIG, change) == expected


@pytest.mark.parametrize(
    "text, change, expected",
    [
        ('{"a": 1}', Set(("b",), 2), '{"a": 1, "b": 2}'),
        ('{"a": 1}', Set(("b", "c"), "x"), '{"a": 1, "b": {"c": "x"}}'),
        ('{"a": 1}', Set(("b",), {"c": "x", "d": {}}), '{"a": 1, "b": {"c": "x", "d": {}}}'),
        ('{"a": {}}', Set(("a", "b"), {"c": 1}), '{"a": {"b": {"c": 1}}}'),
        ("{}", Set(("b",), None), '{"b": null}'),
        ('{"a": 1, "b": 2}', Remove(("a",)), '{"b": 2}'),
        ('{"a": 1, "b": 2}', Remove(("b",)), '{"a": 1}'),
        ('{\n\t"a" : 1,\n}', Set(("b",), 2), '{\n\t"a" : 1,\n\t"b" : 2,\n}'),
        ('{\r\n  "a": 1\r\n}\r\n', Set(("b",), 2), '{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n'),
        ('{\r\n  "a": 1,\r\n  "b": 2\r\n}', Remove(("b",)), '{\r\n  "a": 1\r\n}'),
        ('\ufeff{"a": 1}', Set(("b",), 2), '\ufeff{"a": 1, "b": 2}'),
        ('{\n  "a": 1, // comma, here\n  "b": 2\n}', Remove(("b",)), '{\n  "a": 1 // comma, here\n}'),
        ('{"a": 1 /* , */, "b": 2}', Remove(("b",)), '{"a": 1 /* , */ }'),
        ("{\n  a: hello\n  b: 3\n}", Set(("c",), 1), "{\n  a: hello\n  b: 3\n  c: 1\n}"),
        ("{\n  a: hello\n  b: 3\n}", Remove(("b",)), "{\n  a: hello\n}"),
        ("a: hello\nb: 3", Set(("c",), 1), "a: hello\nb: 3\nc: 1"),
        ("{a: hello\n}", Rename(("a",), "b"), "{b: hello\n}"),
        ("{'a': 1}", Rename(("a",), "b"), "{'b': 1}"),
        ('{"a": 1}', Rename(("a",), "b c"), '{"b c": 1}'),
        ('{"a": {"b": 1}, "c": 2}', Move(("a", "b"), ("b",)), '{"a": {}, "c": 2, "b": 1}'),
        ('{"a": 1, "b": {}}', Move(("a",), ("b", "a")), '{"b": {"a": 1}}'),
        ('{"a": 5e8}', Move(("a",), ("b", "a")), '{"b": {"a": 5e8}}'),
        ('{"a": 1}', Set(("b",), 1e-5), '{"a": 1, "b": 1e-05}'),
    ],
)
def test_edits_of_other_styles(text: str, change: Change, expected: str) -> None:
    assert changed(text, change) == expected


@pytest.mark.parametrize(
    "text, change",
    [
        ('{"a": 1}', Remove(("b",))),
        ('{"a": 1, "b": 2}', Rename(("a",), "b")),
        ('{"a": 1, "b": 2}', Move(("a",), ("b",))),
        ('{"a": 1}', Set(("a", "b"), 2)),
        ('{"a": null}', Set(("a", "b"), 2)),
        ('{"a": 1}', Set(("a",), float("inf"))),
        ('{"a": 1}', Set(("a",), 1)),
        ('{"a": hello}', Set(("b",), 1)),  # the bracket belongs to the text
        ('{"a": 1', Set(("b",), 1)),
        ("[1]", Set(("b",), 1)),
        ("", Set(("b",), 1)),
    ],
)
def test_no_fix_where_it_cannot_be_made_surely(text: str, change: Change) -> None:
    assert changed(text, change) is None


YAML = """\
# head
a: 1  # one
z:
  stage: 2
  off:
    device: cpu
    # inner
    pin: true
# end of z
b: {x: 1, y: [2]}
"""


@pytest.mark.parametrize(
    "change, expected",
    [
        (Set(("z", "stage"), 3), with_lines(("stage: 2", "stage: 3"), text=YAML)),
        (Set(("z", "new"), "x: y"), with_lines(("pin: true\n", 'pin: true\n  new: "x: y"\n'), text=YAML)),
        (Set(("z", "new"), "no"), with_lines(("pin: true\n", 'pin: true\n  new: "no"\n'), text=YAML)),
        (Set(("m", "n"), {"a": 1e-05}), YAML + "m:\n  n:\n    a: 1.0e-05\n"),
        (Set(("b", "z"), True), with_lines(("[2]}", '[2], z: true}'), text=YAML)),
        (Remove(("b", "x")), with_lines(("{x: 1, ", "{"), text=YAML)),
        (Remove(("a",)), with_lines(("a: 1  # one\n", ""), text=YAML)),
        (Rename(("z",), "zero"), with_lines(("z:\n", "zero:\n"), text=YAML)),
        (
            Move(("z", "off"), ("q", "off")),
            with_lines(
                ("  off:\n    device: cpu\n    # inner\n    pin: true\n", ""),
                text=YAML,
            )
            + "q:\n  off:\n    device: cpu\n    # inner\n    pin: true\n",
        ),
    ],
    ids=str,
)
def test_yaml_edits(change: Change, expected: str) -> None:
    assert changed(YAML, change, name="ds.yaml") == expected


@pytest.mark.parametrize(
    "text, change",
    [
        ("a: &x 1\nb: *x\n", Set(("a",), 2)),  # b would change too
        ("a: &x {c: 1}\nb: *x\n", Set(("a", "c"), 2)),
        ("d: &d\n  c: 1\na:\n  <<: *d\n  e: 1\n", Remove(("a", "c"))),
        ("a:\n  b: 1\n", Remove(("a", "b"))),
        ("a: |\n  text\n", Set(("a",), 2)),
    ],
)
def test_yaml_that_is_left_alone(text: str, change: Change) -> None:
    assert changed(text, change, name="ds.yaml") is None


@given(st.text(max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.text(max_size=5))))
def test_rounds_of_edits_are_one_round(text: str, rounds: list[tuple[int, int, str]]) -> None:
    pieces, expected = Pieces(text), text
    for start, length, new in rounds:
        start = min(start, len(expected))
        edit = Edit(start, min(start + length, len(expected)), new)
        expected = edited(expected, [edit])
        pieces.edit((edit,))
    assert pieces.text == expected
    assert edited(text, pieces.edits()) == expected


KEYS = st.sampled_from(["a", "b", "c d", "stage", "x"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 10**9)
    | st.floats(allow_nan=False, width=32)
    | st.text(st.characters(exclude_characters="#/", exclude_categories=["Cs"]), max_size=6),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=8,
)
STYLES: list[dict[str, Any]] = [
    {"indent": 2},
    {"indent": "\t"},
    {"indent": None},
    {"indent": 4, "separators": (" ,", " : ")},
    {"separators": (",", ":")},
]


@st.composite
def documents_and_changes(draw: st.DrawFn) -> tuple[str, str, Change]:
    data = draw(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5))
    text = json.dumps(data, **draw(st.sampled_from(STYLES)))
    if draw(st.booleans()):
        text = text.replace(",\n", ', // a, "b": {\n')
    name = draw(st.sampled_from(["a.json", "a.yaml"]))
    if name == "a.yaml" and draw(st.booleans()):
        text = yaml.safe_dump(data, default_flow_style=draw(st.sampled_from([None, False, True])))
        if draw(st.booleans()):
            text = text.replace(":\n", ":  # a\n").replace("\n- ", "\n# b\n- ")
    elif name == "a.yaml":
        text = text.replace("//", "#")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    root = read_bytes(text.encode("utf-8", "surrogatepass"), name).root
    paths = [place.path for place in walk(root) if place.path] if root else [("a",)]
    path = draw(st.sampled_from(paths))
    to = draw(st.lists(KEYS, min_size=1, max_size=3).map(tuple))
    change = draw(
        st.sampled_from(
            [Remove(path), Rename(path, to[0]), Move(path, to), Set(path, 7), Set(to, {"k": [1.5]})]
        )
    )
    return text, name, change


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents_and_changes())
def test_a_fix_does_what_it_means_and_nothing_else(case: tuple[str, str, Change]) -> None:
    text, name, change = case
    before = read_bytes(text.encode(), name)
    fix = fix_of(before, [change], True)
    if fix is None:
        return
    after = read_bytes(edited(text, fix.edits).encode(), name)
    assert not after.problems
    assert before.root is not None and after.root is not None
    assert same(plain(after.root), carried_out((change,), plain(before.root)))
    for mark in ("//", "#"):  # of comments only one on a line that went may go
        assert edited(text, fix.edits).count(mark) >= text.count(mark) - text.count("\n")


def test_most_changes_of_plain_json_have_a_fix() -> None:
    """Caution is cheap: this says that it does not eat the feature."""
    made = asked = 0
    for case in generate(seed=11, n=20):
        text = json.dumps(case["config"], indent=2)
        document = read_bytes(text.encode(), "ds.json")
        assert document.root is not None
        for place in walk(document.root):
            if place.member is None:
                continue
            asked += 3
            for change in (
                Remove(place.path),
                Rename(place.path, "new_key"),
                Move(place.path, ("new", "key")),
            ):
                made += changed(text, change) is not None
    assert asked > 300 and made == asked


# The loop


def judge_for(release: str = "0.19.8", trainer: str | None = None, name: str = "ds.json") -> Judge:
    return lambda raw: lint(raw, name, Options(release, trainer=trainer), RULES)


def fixed(config: Any, unsafe: bool = True, **target: Any) -> Outcome:
    text = config if isinstance(config, str) else json.dumps(config, indent=2)
    return fix_text(text.encode(), judge_for(**target), unsafe)


def test_safe_fixes_leave_the_rest() -> None:
    config = {
        "train_batch_size": 8,
        "gradient_cliping": 1,
        "zero_optimization": {"reduce_bucket_size": "5e8"},
    }
    outcome = fixed(config, unsafe=False)
    assert json.loads(outcome.raw)["zero_optimization"] == {"reduce_bucket_size": 500000000}
    assert "gradient_cliping" in json.loads(outcome.raw)
    assert [f.name for f in outcome.fixed] == ["wrong-type"] and outcome.unsafe_left >= 1


def test_a_fix_that_uncovers_an_error_is_not_taken() -> None:
    """Renamed, the key is read, and its value crashes."""
    config = {"train_batch_size": 8, "steps_per_prints": 0, "zero_optimization": {"stage": 1}}
    findings = lint(json.dumps(config).encode(), "ds.json", Options("0.19.8"), RULES).findings
    assert any(f.name == "misspelled-key" and f.fix for f in findings)
    outcome = fixed(config, trainer="raw")
    assert "steps_per_prints" in json.loads(outcome.raw)


@pytest.mark.parametrize("name", ["ds.json", "ds.yaml"])
def test_many_fixes_take_few_looks(name: str) -> None:
    """One of them uncovers an error, two would make one key twice; the others go together."""
    config = {
        "train_batch_size": 8,
        "steps_per_prints": 0,
        "zero_optimization": {"stage": 1, "overlap_com": True, "overlap_comms": True},
        **{f"nobody_reads_{i}": i for i in range(40)},
    }
    text = json.dumps(config, indent=2) if name == "ds.json" else yaml.safe_dump(config)
    judge, looks = judge_for(trainer="raw", name=name), []

    def counted(raw: bytes) -> FileReport:
        looks.append(raw)
        return judge(raw)

    outcome = fix_text(text.encode(), counted, True)
    left = yaml.safe_load(outcome.raw)
    assert left.pop("zero_optimization") == {"stage": 1, "overlap_comm": True}
    assert left == {"train_batch_size": 8, "steps_per_prints": 0}
    assert len(outcome.fixed) == 42 and len(looks) < 30


@pytest.mark.parametrize(
    "text, expected",
    [
        ('{"train_batch_size": 8,}', '{"train_batch_size": 8}'),
        ('{"train_batch_size": 8, "zero_optimization": {"stage": 2,},}', None),
        ('\ufeff{"train_batch_size": 8}', '{"train_batch_size": 8}'),
        ("{'train_batch_size': 8}", '{"train_batch_size": 8}'),
        ("{train_batch_size: 8}", '{"train_batch_size": 8}'),
        (
            '{\n  "train_batch_size": 8\n  "dump_state": true\n}',
            '{\n  "train_batch_size": 8,\n  "dump_state": true\n}',
        ),
        ('{"train_batch_size": 8, "train_batch_size": 8}', '{"train_batch_size": 8}'),
        ('{"train_batch_size": 4, "train_batch_size": 8}', '{"train_batch_size": 8}'),
        (
            '{\n  "train_batch_size": 8,\n  "dump_state": True\n}',
            '{\n  "train_batch_size": 8,\n  "dump_state": true\n}',
        ),
        (
            '{\n  "train_batch_size": 8,\n  "dump_state": False,\n  "bf16": {"enabled": true}\n}',
            '{\n  "train_batch_size": 8,\n  "dump_state": false,\n  "bf16": {"enabled": true}\n}',
        ),
    ],
)
def test_strict_loaders_read_what_was_fixed(text: str, expected: str | None) -> None:
    outcome = fixed(text, unsafe=False, trainer="hf")
    json.loads(outcome.raw)
    if expected is not None:
        assert outcome.raw.decode() == expected


def test_comments_go_for_a_strict_loader_only_when_asked() -> None:
    text = '{\n  // batch\n  "train_batch_size": 8 /* per step */\n}\n'
    assert fixed(text, unsafe=False, trainer="hf").raw.decode() == text
    gone = fixed(text, unsafe=True, trainer="hf").raw.decode()
    assert gone.startswith('{\n  "train_batch_size": 8') and "/" not in gone
    assert fixed(text, unsafe=True, trainer="raw").raw.decode() == text


def test_a_file_that_some_trainers_cannot_read_is_mended_whole_or_not_at_all() -> None:
    """Where nothing tells the trainer, one finding speaks for all that strict JSON refuses."""
    text = '{\n  "train_batch_size": 8, // a\n  "gradient_clipping": 1, # b\n  "dump_state": true,\n}\n'
    assert fixed(text, unsafe=False).raw.decode() == text
    outcome = fixed(text)
    assert json.loads(outcome.raw) and [f.name for f in outcome.fixed] == ["not-strict-json"]
    plain_text = "{train_batch_size: 8, 'gradient_clipping': 1, }"
    assert fixed(plain_text, unsafe=False).raw == b'{"train_batch_size": 8, "gradient_clipping": 1 }'


@pytest.mark.parametrize(
    "config, expected",
    [
        ({"stage": 2, "cpu_offload": True}, {"stage": 2, "offload_optimizer": {"device": "cpu"}}),
        ({"stage": 2, "cpu_offload": False}, {"stage": 2}),
        (
            {"stage": 3, "stage3_gather_fp16_weights_on_model_save": True},
            {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
        ),
        ({"stage": 2, "reduce_bucket_size": "5e8"}, {"stage": 2, "reduce_bucket_size": 500000000}),
        ({"stage": 2, "reduce_bucket_size": None}, {"stage": 2}),
        ({"stage": 2, "overlap_com": True}, {"stage": 2, "overlap_comm": True}),
        ({"stage": 2, "mics_shard_size": -1}, {"stage": 2}),
    ],
)
def test_safe_fixes_of_keys(config: dict[str, Any], expected: dict[str, Any]) -> None:
    whole = {"train_batch_size": 8, "gradient_clipping": 0, "bf16": {"enabled": True}, Z: config}
    assert json.loads(fixed(whole, unsafe=False).raw)[Z] == expected


# The command line


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return tmp_path


BAD = '{\n  "train_batch_size": 8,\n  "gradient_cliping": 1,\n  "amp": {"enabled": false}\n}\n'
SAFELY = '{\n  "train_batch_size": 8,\n  "gradient_cliping": 1\n}\n'
WHOLLY = '{\n  "train_batch_size": 8,\n  "gradient_clipping": 1\n}\n'
CLI = ["--deepspeed", "0.19.8", "--isolated"]


def test_fix_writes_and_says(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ds.json").write_text(BAD)
    assert main(["--fix", "ds.json", *CLI]) == 1
    out = capsys.readouterr().out
    assert Path("ds.json").read_text() == SAFELY
    assert "ds.json: fixed 1 finding (1 more with --unsafe-fixes)" in out and "removed-key" not in out
    assert main(["--fix", "--unsafe-fixes", "ds.json", *CLI]) == 0
    assert Path("ds.json").read_text() == WHOLLY


def test_diff_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ds.json").write_text(BAD)
    assert main(["--diff", "--unsafe-fixes", "ds.json", *CLI]) == 1
    out, err = capsys.readouterr()
    assert Path("ds.json").read_text() == BAD
    assert out == (
        '--- ds.json\n+++ ds.json\n@@ -1,5 +1,4 @@\n {\n   "train_batch_size": 8,\n-  "gradient_cliping": 1,\n'
        '-  "amp": {"enabled": false}\n+  "gradient_clipping": 1\n }\n'
    )
    assert err == "dslint: would fix 2 findings\n"
    Path("ds.json").write_text(WHOLLY)
    assert main(["--diff", "--unsafe-fixes", "ds.json", *CLI]) == 0
    assert capsys.readouterr().out == ""


def test_a_diff_is_what_patch_takes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ds.json").write_bytes(BAD.rstrip("\n").encode())
    main(["--diff", "ds.json", *CLI])
    subprocess.run(["patch", "-s", "ds.json"], input=capsys.readouterr().out.encode(), check=True)
    assert Path("ds.json").read_bytes() == SAFELY.rstrip("\n").encode()


def test_a_diff_steers_no_terminal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ds.json").write_text(BAD.replace('"train', '// \x1b[2J\u202e##[error]\n "train'))
    main(["--diff", "--unsafe-fixes", "ds.json", *CLI])
    out = capsys.readouterr().out
    assert "gradient_clipping" in out and "\x1b" not in out and "\u202e" not in out and "##[" not in out


def test_standard_input_is_printed_fixed(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dslint", "--fix", "-", "--stdin-filename", "x.json", *CLI],
        input=BAD.encode().replace(b"\n", b"\r\n"),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert done.stdout == SAFELY.encode().replace(b"\n", b"\r\n")
    assert b"misspelled-key" in done.stderr and done.returncode == 1
    assert not list(here.iterdir())


def test_standard_output_is_closed(here: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m dslint --fix - >&-', sys.executable],
        input=BAD.encode(),
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert done.stderr == b"dslint: cannot write the report: the stream is closed\n" and done.returncode == 2


@pytest.mark.parametrize(
    "argv, says",
    [
        (["--unsafe-fixes", "ds.json"], "--unsafe-fixes needs --fix or --diff"),
        (["--fix", "--diff", "ds.json"], "give one of --diff and --fix"),
        (["--fix", "--show-config", "ds.json"], "give one of --show-config and --fix"),
    ],
)
def test_flags_that_do_not_go_together(
    here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    Path("ds.json").write_text(BAD)
    assert main(argv) == 2
    assert says in capsys.readouterr().err
    assert Path("ds.json").read_text() == BAD


def test_a_fix_for_a_range_holds_in_all_of_it(here: Path) -> None:
    """In 0.15 the key is called thread_count, in 0.19 intra_op_parallelism: neither name is right in both."""
    text = '{"train_batch_size": 8, "aio": {"thread_count": 4}}'
    Path("ds.json").write_text(text)
    main(["--fix", "ds.json", "--deepspeed", "0.15.0..0.19.8"])
    assert json.loads(Path("ds.json").read_text())["aio"] == {"thread_count": 4}


def test_upgrade_keeps_the_old_behaviour(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "train_batch_size": 8,
        "aio": {"thread_count": 4},
        Z: {"stage": 3, "offload_optimizer": {"device": "cpu"}},
    }
    Path("ds.json").write_text(json.dumps(config, indent=2))
    main(["--fix", "ds.json", "--upgrade-from", "0.15.2", "--deepspeed", "0.19.8"])
    after = json.loads(Path("ds.json").read_text())
    assert after == {
        "train_batch_size": 8,
        "aio": {"intra_op_parallelism": 4},
        Z: {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": False}},
        "gradient_clipping": 0,
    }
    capsys.readouterr()
    assert main(["--diff", "ds.json", "--upgrade-from", "0.15.2", "--deepspeed", "0.19.8"]) == 0


def test_only_named_files_are_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ds.json").write_text(BAD)
    Path("acc.yaml").write_text(
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\nnum_processes: 8\n"
    )
    main(["--fix", "acc.yaml", *CLI])
    assert "ds.json" in capsys.readouterr().out
    assert Path("ds.json").read_text() == BAD


# Writing


def test_symlinks_are_followed_and_modes_kept(here: Path) -> None:
    Path("real").mkdir()
    Path("real/ds.json").write_text(BAD)
    os.chmod("real/ds.json", 0o640)
    os.symlink("real/ds.json", "link.json")
    main(["--fix", "link.json", *CLI])
    assert os.path.islink("link.json") and Path("real/ds.json").read_text() == SAFELY
    assert os.stat("real/ds.json").st_mode & 0o777 == 0o640
    assert os.listdir("real") == ["ds.json"]


def test_nothing_is_written_when_nothing_changes(here: Path) -> None:
    Path("ds.json").write_text(WHOLLY)
    before = os.stat("ds.json")
    main(["--fix", "--unsafe-fixes", "ds.json", *CLI])
    after = os.stat("ds.json")
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_read_only_files_are_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ds.json").write_text(BAD)
    os.chmod("ds.json", 0o444)
    assert main(["--fix", "ds.json", *CLI]) == 2
    out, err = capsys.readouterr()
    assert err == "dslint: ds.json: read-only, so it was not fixed; make it writable first: chmod u+w\n"
    assert "removed-key" in out and Path("ds.json").read_text() == BAD


def test_a_file_that_changed_meanwhile_is_left_alone(here: Path) -> None:
    from dslint.fixing.writing import WriteError, replace

    Path("ds.json").write_text("new")
    with pytest.raises(WriteError, match="changed while it was being fixed"):
        replace("ds.json", b"old", b"fixed")
    assert Path("ds.json").read_text() == "new"


# What holds of every config


@pytest.mark.parametrize("trainer", [None, "raw", "hf"])
@pytest.mark.parametrize("unsafe", [False, True])
def test_properties_on_generated_configs(trainer: str | None, unsafe: bool) -> None:
    """Twice is once, it parses, no error is new, what was fixed is gone: in every layout."""
    count, wrong = 0, []
    for number, case in enumerate(generate(seed=5, n=100)):
        name, raw = layout(case["config"], number)
        fixed, said = broken(raw, judge_for(trainer=trainer, name=name), unsafe)
        count += fixed
        wrong += [(case["id"], said)] if said else []
    assert wrong == []
    assert count > 20


@pytest.mark.parametrize(
    "fixed, said",
    [
        (BAD + " ", "twice"),
        (BAD.replace("\n", "\r\n"), "line ends"),
        (BAD.replace("8", '"x"'), "new errors"),
        (BAD[:-3], "read"),
        (BAD.replace("1", "2"), "still found: ['misspelled-key', 'removed-key']"),
    ],
)
def test_a_promise_that_is_broken_is_said(fixed: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fix(raw: bytes, judge: Judge, unsafe: bool) -> Outcome:
        new = raw + b" " if said == "twice" else fixed.encode()
        return Outcome(new, judge(new), tuple(f for f in judge(raw).findings if f.fix), 0)

    judge = judge_for(trainer="raw")
    assert broken(BAD.encode(), judge, True) == (2, [])
    monkeypatch.setattr(fix_properties, "fix_text", fix)
    count, found = broken(BAD.encode(), judge, True)
    assert count == 2 and any(said in what for what in found), found


def test_a_comma_that_is_missing_before_a_comment_is_put_whatever_the_order_of_hashes() -> None:
    text = '{"train_batch_size": 8 // c\n "fp16": {}}'
    document = read_bytes(text.encode(), "ds.json")
    fix = fix_of_all(document, document.departures)
    assert fix is not None
    assert edited(text, fix.edits) == '{"train_batch_size": 8,\n "fp16": {}}'
