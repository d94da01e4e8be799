"""The formats of dslint.report on hand-made reports: exact output, and nothing in a file gets out of hand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dslint import __version__
from dslint.document import Document
from dslint.finding import PHASES, SEVERITIES, Edit, FileReport, Finding, Fix
from dslint.links import rule_url
from dslint.report import FORMATS, renderer
from dslint.report import words as report_words
from dslint.report.escape import visible
from dslint.report.text import WIDTH, frame
from dslint.settings import Target

ROOT = Path(__file__).resolve().parent.parent
TARGET = Target("0.19.8", release_reason="installed")
CONFIG = """\
{
  "zero_optimization": {
    "stage": 2,
    "offload_param": {"device": "cpu"}
  },
  "train_batch_sise": 8
}
"""


def find(text: str, what: str, severity: str = "error", **changes: object) -> Finding:
    """A finding about the first place where `what` stands in `text`."""
    start = text.index(what)
    values: dict[str, object] = {
        "code": "DS101",
        "name": "unknown-key",
        "severity": severity,
        "phase": "config",
        "message": "no such key",
        "key": "a.b",
        "start": start,
        "end": start + len(what),
    }
    return Finding(**{**values, **changes})  # type: ignore[arg-type]


def sample() -> list[FileReport]:
    """A file with a warning that has an unsafe fix and an error, and a clean file."""
    offload = find(
        CONFIG,
        '"offload_param"',
        "warning",
        code="DS401",
        name="offload-param-needs-stage-3",
        phase="run",
        message="offload_param has no effect in ZeRO stage 2; only stage 3 partitions parameters",
        key="zero_optimization.offload_param",
        cure="set zero_optimization.stage to 3",
        fix=Fix("set zero_optimization.stage to 3", False, (Edit(41, 42, "3"),)),
        releases="0.9.0 to 0.18.9",
    )
    typo = find(
        CONFIG,
        '"train_batch_sise"',
        phase="run",
        message="nobody reads train_batch_sise",
        key="train_batch_sise",
        cure="write train_batch_size",
    )
    broken = Document("ds.json", CONFIG, None)
    return [
        FileReport(broken, TARGET, [offload, typo]),
        FileReport(Document("ok.json", "{}", None), TARGET, []),
    ]


def one(text: str, finding: Finding, name: str = "ds.json", target: Target = TARGET) -> list[FileReport]:
    return [FileReport(Document(name, text, None), target, [finding])]


def show(name: str, reports: list[FileReport], color: bool = False) -> str:
    return renderer(name)(reports, color=color)


def underlined(text: str, what: str) -> tuple[str, str]:
    """The source line as the text format shows it, and the carets below it."""
    finding = find(text, what)
    source, before, carets = frame(Document("ds.json", text, None), finding.start, finding.end)
    return source, " " * before + "^" * carets


class TestText:
    def test_snapshot(self) -> None:
        assert (
            show("text", sample())
            == """\
ds.json:4:5 warning[DS401] offload-param-needs-stage-3
  offload_param has no effect in ZeRO stage 2; only stage 3 partitions parameters (in DeepSpeed 0.9.0 to 0.18.9)
  4 |     "offload_param": {"device": "cpu"}
    |     ^^^^^^^^^^^^^^^ runs, but not as meant
  help: set zero_optimization.stage to 3

ds.json:6:3 error[DS101] unknown-key
  nobody reads train_batch_sise
  6 |   "train_batch_sise": 8
    |   ^^^^^^^^^^^^^^^^^^ runs, but not as meant
  help: write train_batch_size

1 fixable with --fix --unsafe-fixes
1 error, 1 warning in 1 of 2 files (DeepSpeed 0.19.8: installed; trainer raw; GPUs unknown)
"""
        )

    def test_colours_add_only_ansi_codes(self) -> None:
        coloured = show("text", sample(), color=True)
        assert "\x1b[1;31merror[DS101]\x1b[0m" in coloured
        assert "\x1b[1;33m^^^^^^^^^^^^^^^ runs, but not as meant\x1b[0m" in coloured
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == show("text", sample())

    def test_clean_and_empty(self) -> None:
        clean = [FileReport(Document("a.json", "{}", None), Target("0.16.4", "hf", 8), [])]
        assert show("text", clean) == "No findings in 1 file (DeepSpeed 0.16.4; trainer hf; 8 GPUs)\n"
        assert show("text", []) == ""

    def test_files_judged_for_different_targets(self) -> None:
        reports = [
            FileReport(Document("a.json", "{}", None), Target("0.19.8", "hf", 1, trainer_reason="auto"), []),
            FileReport(Document("b.json", "{}", None), Target("0.19.8", "raw", 1), []),
        ]
        assert show("text", reports) == (
            "No findings in 2 files (DeepSpeed 0.19.8; trainer hf or raw; 1 GPU)\n"
        )

    def test_the_closing_line_repeats_nothing(self) -> None:
        targets = [
            Target("0.19.8", "raw", None, "installed", "no value is left to a trainer"),
            Target("0.19.8", "hf", None, "installed", 'train_batch_size is "auto"'),
            Target("0.19.8", "hf", 8, "installed", 'gradient_clipping is "auto"'),
        ]
        reports = [FileReport(Document("a.json", "{}", None), target, []) for target in targets]
        assert show("text", reports) == (
            "No findings in 3 files (DeepSpeed 0.19.8: installed; trainer raw or hf; GPUs unknown or 8 GPUs)\n"
        )

    def test_advice_says_what_to_write_and_shows_no_source(self) -> None:
        advice = find("{}", "{", "info", cure="write it down")
        assert show("text", one("{}", advice)).startswith(
            "ds.json:1:1 info[DS101] unknown-key\n  no such key\n  help: write it down\n\n"
        )

    def test_a_teams_rule_has_no_page(self) -> None:
        report = one("{}", find("{}", "{", code="ACME001"))
        assert json.loads(show("json", report))["files"][0]["findings"][0]["url"] == ""
        (rule,) = json.loads(show("sarif", report))["runs"][0]["tool"]["driver"]["rules"]
        assert "helpUri" not in rule and "help" not in rule

    def test_a_fix_is_the_cure_where_there_is_no_other(self) -> None:
        finding = find("{}", "{", fix=Fix("remove the key", True, ()))
        assert "  help: remove the key\n" in show("text", one("{}", finding))
        assert "help:" not in show("text", one("{}", find("{}", "{")))

    def test_every_phase_and_severity_has_its_words(self) -> None:
        assert tuple(report_words.PHASES) == PHASES
        for severity in SEVERITIES:
            report = one("{}", find("{}", "{", severity))
            assert show("text", report, True) and show("github", report)

    def test_empty_file_and_end_of_file(self) -> None:
        finding = find("", "")
        assert "  1 |\n    | ^ DeepSpeedConfig raises\n" in show("text", one("", finding))
        text = '{"a": 1\n'
        assert frame(Document("a", text, None), len(text), len(text)) == ("", 0, 1)
        assert frame(Document("a", text, None), 7, 8) == ('{"a": 1', 7, 1)

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_line_ends(self, end: str) -> None:
        text = f"{{{end}  'a': 1,{end}}}{end}"
        assert underlined(text, "'a'") == ("  'a': 1,", "  ^^^")
        assert underlined(text, f",{end}}}") == ("  'a': 1,", "        ^")
        at_end = text.index("1,") + 1 + len(end)  # on the last character of the line end
        assert frame(Document("a", text, None), at_end, at_end + 1)[0] == "  'a': 1,"

    def test_a_span_over_lines_underlines_its_first(self) -> None:
        text = '{"a": {   \n  "b": 1\n}}'
        assert underlined(text, text[6:]) == ('{"a": {   ', "      ^")

    @pytest.mark.parametrize(
        ("line", "shown", "carets"),
        [
            ('\t"a": 1', '    "a": 1', "    ^^^"),
            ('\t\t"b"\t"a": 1', '        "b"    "a": 1', "               ^^^"),
            ('"日本": "a"', '"日本": "a"', "        ^^^"),
            ('"é": "a"', '"é": "a"', "     ^^^"),  # a letter and a combining accent
            ('"🚀": "a"', '"🚀": "a"', "      ^^^"),
            ('"\x1b[31m": "a"', '"\\u001b[31m": "a"', "              ^^^"),
            ('"\u202e": "a"', '"\\u202e": "a"', "          ^^^"),
            ('\xa0"a"', '\\u00a0"a"', "      ^^^"),
            ('"\x00": "a"', '"\\u0000": "a"', "          ^^^"),
        ],
    )
    def test_the_caret_stands_right(self, line: str, shown: str, carets: str) -> None:
        assert underlined(f"{{\n{line}\n}}", '"a"') == (shown, carets)

    def test_wide_and_combining_spans(self) -> None:
        assert underlined('{"日本語": 1}', '"日本語"')[1] == " ^^^^^^^^"
        assert underlined("{e\u0301: 1}", "e\u0301")[1] == " ^"
        assert underlined("{e\u0301: 1}", "\u0301")[1] == "  ^"

    def test_long_lines_are_cut_around_the_span(self) -> None:
        text = '{"x": [' + "1, " * 500 + '"here", ' + "2, " * 500 + "]}"
        source, carets = underlined(text, '"here"')
        assert source.startswith("...") and source.endswith("...")
        assert WIDTH - 6 < len(source) <= WIDTH + 6
        assert source[carets.index("^") : len(carets)] == '"here"'
        source, carets = underlined(text, '{"x"')
        assert source.startswith('{"x": [1, ') and source.endswith("...") and carets == "^^^^"
        source, carets = underlined(text, "]}")
        assert source.startswith("...") and source.endswith("]}") and carets.endswith("^^")
        source, carets = underlined(text, text[4:-4])
        assert len(carets) <= WIDTH + 3 and source.startswith('{"x": ')

    def test_a_huge_line_is_not_read_for_every_finding(self) -> None:
        text = '{"x": "' + "\u0301" * 2_000_000 + '"}'
        document = Document("a.json", text, None)
        findings = [find(text, '"x"', start=i, end=i + 5) for i in range(0, 2_000_000, 400)]
        output = show("text", [FileReport(document, TARGET, findings)])
        assert len(output) < 10_000 * len(findings)

    @settings(deadline=None)  # a busy machine is no fault
    @given(st.text(min_size=1), st.integers(0, 400), st.integers(0, 400))
    def test_no_text_breaks_the_frame(self, text: str, start: int, length: int) -> None:
        start = min(start, len(text))
        source, before, carets = frame(Document("a", text, None), start, min(len(text), start + length), 40)
        assert source.isprintable() and before >= 0 and carets >= 1
        assert before + carets <= 40 + 3 + len("\\U0010ffff") + 1


class TestConcise:
    def test_snapshot(self) -> None:
        assert show("concise", sample(), color=True) == (
            "ds.json:4:5: DS401 warning offload_param has no effect in ZeRO stage 2; "
            "only stage 3 partitions parameters (in DeepSpeed 0.9.0 to 0.18.9)\n"
            "ds.json:6:3: DS101 error nobody reads train_batch_sise\n"
        )

    def test_clean(self) -> None:
        assert show("concise", sample()[1:]) == "" == show("concise", [])


class TestJson:
    def test_contract(self) -> None:
        report = json.loads(show("json", sample()))
        assert list(report) == ["dslint", "files"] and report["dslint"] == __version__
        first, second = report["files"]
        assert list(first) == ["path", "deepspeed", "trainer", "gpus", "findings", "deepspeed_reason"]
        assert (first["path"], first["deepspeed"], first["trainer"], first["gpus"]) == (
            "ds.json",
            "0.19.8",
            "raw",
            None,
        )
        assert second["findings"] == []
        offload, typo = first["findings"]
        assert list(offload.items()) == [
            ("code", "DS401"),
            ("name", "offload-param-needs-stage-3"),
            ("severity", "warning"),
            ("phase", "run"),
            ("message", "offload_param has no effect in ZeRO stage 2; only stage 3 partitions parameters"),
            ("key", "zero_optimization.offload_param"),
            ("line", 4),
            ("column", 5),
            ("end_line", 4),
            ("end_column", 20),
            (
                "fix",
                {
                    "title": "set zero_optimization.stage to 3",
                    "safe": False,
                    "edits": [{"start": 41, "end": 42, "text": "3"}],
                },
            ),
            ("help", "set zero_optimization.stage to 3"),
            ("releases", "0.9.0 to 0.18.9"),
            ("url", rule_url("DS401")),
        ]
        assert typo["fix"] is None

    def test_layout(self) -> None:
        output = show("json", sample()[1:])
        assert output == (
            f'{{"dslint": "{__version__}", "files": [\n'
            '{"path": "ok.json", "deepspeed": "0.19.8", "trainer": "raw", "gpus": null, "findings": [], '
            '"deepspeed_reason": "installed"}\n]}\n'
        )
        assert show("json", []) == f'{{"dslint": "{__version__}", "files": []}}\n'
        assert len(show("json", sample()).splitlines()) == 7

    def test_columns_count_characters_and_ends_may_stand_on_other_lines(self) -> None:
        text = '{\r\n"é🚀": [\r\n1]}'
        finding = json.loads(show("json", one(text, find(text, "[\r\n1]"))))["files"][0]["findings"][0]
        assert [finding[k] for k in ("line", "column", "end_line", "end_column")] == [2, 7, 3, 3]

    @pytest.mark.parametrize(
        "nasty",
        [
            "\u2028",
            "\u2029",
            "\udcff",
            "\x00",
            "\x1b[2J",
            "\x7f",
            "\x85",
            "\u202e",
            "\U000e0041",
            "##[group]",
            '"\\',
        ],
    )
    def test_round_trip_of_what_does_not_print(self, nasty: str) -> None:
        finding = find("{}", "{", message=f"<{nasty}>", key=nasty, cure=nasty)
        output = show("json", one("{}", finding, name=f"é{nasty}.json"))
        output.encode()  # UTF-8 takes it
        assert output.replace("\n", "").isprintable() and "é" in output and "##[" not in output
        report = json.loads(output)["files"][0]
        assert report["path"] == f"é{nasty}.json"
        assert report["findings"][0]["message"] == f"<{nasty}>"
        assert report["findings"][0]["key"] == nasty

    @settings(deadline=None)
    @given(st.text(st.characters(codec=None)))
    def test_any_message_survives(self, message: str) -> None:
        output = show("json", one("{}", find("{}", "{", message=message)))
        # Two lone surrogates that happen to make a pair are one character to every JSON reader.
        joined = message.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        assert json.loads(output)["files"][0]["findings"][0]["message"] == joined


def parse_command(line: str) -> tuple[str, dict[str, str], str]:
    """Name, properties and data of a workflow command, read in the way of GitHub's runner."""
    assert line.startswith("::")
    info, _, data = line[2:].partition("::")
    name, _, listed = info.partition(" ")
    properties = dict(pair.split("=", 1) for pair in listed.split(",") if pair)

    def unescape(text: str, *codes: str) -> str:
        for code in (*codes, "25"):  # the percent sign last, as the runner does
            text = text.replace(f"%{code}", chr(int(code, 16)))
        return text

    unescaped = {key: unescape(value, "0D", "0A", "3A", "2C") for key, value in properties.items()}
    return name, unescaped, unescape(data, "0D", "0A")


class TestGithub:
    def test_snapshot(self) -> None:
        assert show("github", sample()) == (
            "::warning file=ds.json,line=4,col=5,endLine=4,endColumn=20,"
            "title=DS401 offload-param-needs-stage-3::ds.json:4:5: DS401 offload_param has no effect in "
            "ZeRO stage 2; only stage 3 partitions parameters (in DeepSpeed 0.9.0 to 0.18.9)"
            "%0Aruns, but not as meant"
            "%0Ahelp: set zero_optimization.stage to 3\n"
            "::error file=ds.json,line=6,col=3,endLine=6,endColumn=21,title=DS101 unknown-key::"
            "ds.json:6:3: DS101 nobody reads train_batch_sise%0Aruns, but not as meant"
            "%0Ahelp: write train_batch_size\n"
            "1 error, 1 warning in 1 of 2 files (DeepSpeed 0.19.8: installed; trainer raw; GPUs unknown)\n"
        )

    def test_what_the_message_says_of_the_phase_is_not_said_again(self) -> None:
        finding = find("{}", "{", message="the key: DeepSpeedConfig raises on it")
        assert show("github", one("{}", finding)).count("DeepSpeedConfig raises") == 1

    def test_info_is_a_notice(self) -> None:
        assert show("github", one("{}", find("{}", "{", "info"))).startswith("::notice file=ds.json,line=1,")

    def test_no_columns_for_a_span_over_lines(self) -> None:
        text = "{\n}"
        line = show("github", one(text, find(text, text))).splitlines()[0]
        assert line.startswith("::error file=ds.json,line=1,endLine=2,title=")

    def test_file_names(self) -> None:
        line = show("github", one("{}", find("{}", "{"), name="./a,b:c%0A/x=y.json")).splitlines()[0]
        assert "file=a%2Cb%3Ac%250A/x=y.json,line=1," in line
        _, properties, data = parse_command(line)
        assert properties["file"] == "a,b:c%0A/x=y.json"
        assert data.startswith("a,b:c%0A/x=y.json:1:1: DS101 ")

    @settings(deadline=None)
    @given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None), min_size=1))
    def test_the_runner_reads_back_what_was_meant(self, message: str, name: str) -> None:
        name = name.removeprefix("./")
        output = show("github", one("{}", find("{}", "{", message=message, cure="a: b, 100%"), name=name))
        command, _ = output.splitlines()
        kind, properties, data = parse_command(command)
        assert kind == "error" and properties["file"] == visible(name)
        assert data == (
            f"{visible(name)}:1:1: DS101 {visible(message)}\nDeepSpeedConfig raises\nhelp: a: b, 100%"
        )

    def test_empty(self) -> None:
        assert show("github", []) == ""


ATTACKS = [
    "::error file=x::pwned",
    "\n::error::pwned",
    "\r\n::add-mask::a",
    "  ::stop-commands::x",
    "\u2028::warning::x",
    "%0A::error::x",
    "##[add-path]/tmp/evil",
    "a ##[set-env name=A]b",
    "##vso[task.setvariable variable=a]b",
    "\x1b]8;;http://evil\x07link\x1b]8;;\x07",
    "\x1b[2J\x1b[31m",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2066\u200b\ufeff",
    "\x00\x08\x7f",
    "\udc80\ud800",
    "##\u200b[group]",
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", FORMATS)
def test_content_stays_content(name: str, attack: str) -> None:
    """Whatever a file, its name or a message says, a terminal and a CI runner see only printable text."""
    text = f"{attack}\n{attack}{attack}"
    finding = find("{}", "{", message=attack, cure=attack, key=attack, start=0, end=len(text), phase="load")
    second = find("{}", "{", message=attack + attack, start=len(attack) + 1, end=len(text))
    target = Target(attack, attack, 3, attack, attack)
    output = show(name, [FileReport(Document(attack, text, None), target, [finding, second])])
    output.encode()
    lines = output.split("\n")
    assert lines.pop() == "" and all(line.isprintable() for line in lines)
    assert not re.search(r"##\w*\[", output)
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert len(commands) == (2 if name == "github" else 0)
    assert all(command.startswith("::error file=") for command in commands)


def test_long_messages_are_cut() -> None:
    finding = find("{}", "{", message="x" * 1_000_000)
    for name in ("text", "concise", "github"):
        assert len(show(name, one("{}", finding))) < 3000
    assert len(show("json", one("{}", finding))) > 1_000_000


def test_unknown_format() -> None:
    with pytest.raises(ValueError, match="unknown format 'xml'; known: text, concise, json, github, sarif"):
        renderer("xml")


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_imports_no_other(name: str) -> None:
    code = (
        "import sys; from dslint.report import renderer; renderer(sys.argv[1]);"
        "print(*(m.rpartition('.')[2] for m in sys.modules if m.startswith('dslint.report.')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, name], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(run.stdout.split()) & set(FORMATS) == {name}
