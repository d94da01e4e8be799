"""SARIF, GitLab, JUnit and rdjson as their readers take them, and what a hostile file can do in any format."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from dslint import schema as schemas
from dslint.cli import main
from dslint.document import Document
from dslint.finding import Edit, FileReport, Finding, Fix, Suppressed
from dslint.lint import Options, lint, prepare
from dslint.report import FORMATS, renderer
from dslint.rules import load
from dslint.settings import Target
from dslint.show import show_config

ROOT = Path(__file__).parent
RULES = load()
CONFIG = """\
{
  "train_batch_size": 8, "gradient_clipping": 1.0,
  "é🚀": 1, "steps_per_prnt": 5,
  "zero_optimization": {"stage": 2, "overlap_comms": true}
}
"""


@cache
def sarif_schema() -> Draft4Validator:
    text = (ROOT / "vendored/sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")
    return Draft4Validator(json.loads(text), format_checker=Draft4Validator.FORMAT_CHECKER)


def report(text: str = CONFIG, name: str = "conf/ds.json", trainer: str = "raw") -> FileReport:
    return lint(
        text.encode("utf-8", "surrogatepass"), name, Options(schemas.newest(), trainer=trainer), RULES
    )


def made(document: Document, **changes: Any) -> FileReport:
    """A report with one finding at the beginning of a document."""
    values: dict[str, Any] = {"code": "DS101", "name": "unknown-key", "severity": "error", "phase": "config",
                              "message": "m", "key": "k", "start": 0, "end": 1}  # fmt: skip
    return FileReport(document, Target("0.19.8"), [Finding(**{**values, **changes})])


class TestSarif:
    def run(self, *reports: FileReport) -> dict[str, Any]:
        log = json.loads(renderer("sarif")(list(reports)))
        assert [error.message for error in sarif_schema().iter_errors(log)] == []
        return log["runs"][0]

    def test_results_say_where_and_what(self) -> None:
        run = self.run(report())
        assert run["columnKind"] == "unicodeCodePoints" and run["tool"]["driver"]["name"] == "dslint"
        typo = next(r for r in run["results"] if r["ruleId"] == "DS102")
        place = typo["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {"uri": "conf/ds.json", "uriBaseId": "%SRCROOT%"}
        assert place["region"] == {"startLine": 3, "startColumn": 12, "endLine": 3, "endColumn": 28}
        assert CONFIG.splitlines()[2][11:27] == '"steps_per_prnt"'
        assert "steps_per_prnt" in typo["message"]["text"] and "steps_per_print?" in typo["message"]["text"]
        assert typo["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "steps_per_prnt"
        rule = run["tool"]["driver"]["rules"][typo["ruleIndex"]]
        assert (rule["id"], rule["name"]) == ("DS102", "misspelled-key")
        assert rule["helpUri"].endswith("/rules/DS102/") and rule["help"]["text"] and rule["fullDescription"]

    def test_a_fix_replaces_what_its_edits_do(self) -> None:
        result = next(r for r in self.run(report())["results"] if r["ruleId"] == "DS102")
        (change,) = result["fixes"][0]["artifactChanges"]
        text = CONFIG
        for replacement in change["replacements"]:
            region, lines = replacement["deletedRegion"], text.splitlines(keepends=True)
            starts = [sum(map(len, lines[:i])) for i in range(len(lines))]
            begin = starts[region["startLine"] - 1] + region["startColumn"] - 1
            end = starts[region["endLine"] - 1] + region["endColumn"] - 1
            text = text[:begin] + replacement["insertedContent"]["text"] + text[end:]
        assert '"steps_per_print": 5' in text

    def test_fingerprints_outlive_lines_and_tell_findings_apart(self) -> None:
        twice = '{"train_batch_size": 8, "a": 1, "a": 1, "a": 1, "gradient_clipping": 1.0}'
        prints = [r["partialFingerprints"] for r in self.run(report(twice))["results"]]
        assert len(prints) >= 2 and len({str(p) for p in prints}) == len(prints)
        moved = self.run(report("\n\n" + twice.replace(", ", ",\n")))["results"]
        assert [r["partialFingerprints"] for r in moved] == prints
        other = self.run(report(twice, "conf/other.json"))["results"]
        assert not {str(r["partialFingerprints"]) for r in other} & {str(p) for p in prints}

    def test_what_is_suppressed_is_there_as_such(self) -> None:
        text = CONFIG.replace("5,", "5, // dslint: ignore[DS102] our fork reads it\n")
        found = report(text)
        found.suppressed.append(Suppressed(found.findings.pop(), "known to the baseline", "baseline"))
        results = self.run(found)["results"]
        suppressions = {r["ruleId"]: r["suppressions"][0] for r in results if "suppressions" in r}
        assert suppressions["DS102"] == {"kind": "inSource", "justification": "our fork reads it"}
        assert {s["kind"] for s in suppressions.values()} == {"inSource", "external"}

    def test_every_rule_can_be_told(self) -> None:
        document = Document("a.json", "{}", None)
        reports = [
            made(document, code=r.code, name=r.name, severity=r.severity, phase=r.phase) for r in RULES
        ]
        assert len(self.run(*reports)["tool"]["driver"]["rules"]) == len(RULES)
        (rule,) = self.run(made(document, code="TEAM001", name="ours"))["tool"]["driver"]["rules"]
        assert rule["id"] == "TEAM001" and "helpUri" not in rule

    def test_clean_and_empty(self) -> None:
        assert self.run(report('{"train_batch_size": 8, "gradient_clipping": 1.0}'))["results"] == []
        assert self.run()["results"] == []

    @pytest.mark.parametrize(
        "name, uri",
        [
            ("a b/ü#?.json", "a%20b/%C3%BC%23%3F.json"),
            ("./x.json", "x.json"),
            ("a/../x.json", "x.json"),
            ("<stdin>", "%3Cstdin%3E"),
            ("a\udcff.json", "a%FF.json"),
            ("/somewhere/else.json", "file:///somewhere/else.json"),
            (os.path.join(os.getcwd(), "here.json"), "here.json"),
        ],
    )
    def test_paths(self, name: str, uri: str) -> None:
        run = self.run(made(Document(name, "{}", None)))
        assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri

    def test_no_key_makes_a_link(self) -> None:
        run = self.run(made(Document("a", "{}", None), message="no key [here](https://example.org)"))
        assert run["results"][0]["message"]["text"] == r"no key \[here\](https://example.org)"


def test_gitlab() -> None:
    issues = json.loads(renderer("gitlab")([report(name="./conf/ds.json"), report(name="b.json")]))
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert not issue["location"]["path"].startswith("./") and issue["location"]["lines"]["begin"] >= 1
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) >= 4
    assert json.loads(renderer("gitlab")([])) == []


def test_junit() -> None:
    root = ElementTree.fromstring(renderer("junit")([report(), report("{}", "empty.json"),
                                                     report('{"train_batch_size": 8, "gradient_clipping": 1.0}')]))  # fmt: skip
    assert root.tag == "testsuites" and len(root) == 3
    cases, failures = root.findall(".//testcase"), root.findall(".//failure")
    assert int(root.get("tests", "")) == len(cases) and int(root.get("failures", "")) == len(failures) >= 3
    for suite in root:
        assert int(suite.get("tests", "")) == len(suite) and int(suite.get("failures", "")) == len(
            suite.findall("testcase/failure")
        )
    assert root[2][0].get("name") == "no findings" and len(root[2][0]) == 0
    advice = made(Document("a", "{}", None), severity="info")
    assert ElementTree.fromstring(renderer("junit")([advice])).find(".//system-out") is not None


def test_rdjson_counts_bytes() -> None:
    result = json.loads(renderer("rdjson")([report()]))
    typo = next(d for d in result["diagnostics"] if d["code"]["value"] == "DS102")
    span = typo["location"]["range"]
    line = CONFIG.splitlines()[span["start"]["line"] - 1].encode()
    assert line[span["start"]["column"] - 1 : span["end"]["column"] - 1] == b'"steps_per_prnt"'
    assert typo["severity"] == "ERROR" and typo["suggestions"][0]["text"].strip('"') == "steps_per_print"
    several = made(Document("a", "{}", None), fix=Fix("t", True, (Edit(0, 1, "x"), Edit(1, 2, "y"))))
    assert "suggestions" not in json.loads(renderer("rdjson")([several]))["diagnostics"][0]


class TestOutputs:
    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
        monkeypatch.chdir(tmp_path)
        Path("ds.json").write_text(CONFIG)

    def test_several_at_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        names = list(FORMATS)
        code = main(["ds.json", *(f"--output={name}={name}.out" for name in names)])
        out, err = capsys.readouterr()
        assert code == 1 and err == "" and "error[DS102]" in out
        for name in names:
            main(["ds.json", "--format", name])
            assert Path(f"{name}.out").read_text() == capsys.readouterr().out

    def test_a_plain_file_takes_the_report_itself(self, capsys: pytest.CaptureFixture[str]) -> None:
        main(["ds.json", "--output", "sarif=a.sarif", "--format", "concise", "--output", "b.txt"])
        assert capsys.readouterr().out == ""
        assert Path("b.txt").read_text().startswith("ds.json:") and "$schema" in Path("a.sarif").read_text()

    @pytest.mark.parametrize(
        "argv, says",
        [
            (["--output", "sarf=x"], "no format is called sarf; did you mean sarif?"),
            (["--output", "pdf=x"], "no format is called pdf; known: text"),
            (["--output", "a", "--output", "b"], "each needs its format"),
            (["--output", "sarif=a", "--output", "a"], "writes a twice"),
            (["--output", "html=a"], "needs --estimate"),
            (["--output", ""], "names no file"),
            (["--output", "sarif="], "names no file"),
            (["--output", "sarif=ds.json"], "would replace the config"),
            (["--output", "sarif=no/such/x"], "no/such/x: No such file"),
        ],
    )
    def test_what_cannot_be_written(
        self, capsys: pytest.CaptureFixture[str], argv: list[str], says: str
    ) -> None:
        assert main(["ds.json", *argv]) == 2
        err = capsys.readouterr().err
        assert says in err and err.count("\n") == 1

    def test_equals_signs_in_paths(self, capsys: pytest.CaptureFixture[str]) -> None:
        main(["ds.json", "--output", "./a=b.txt"])
        assert Path("a=b.txt").exists()


ATTACKS = [
    "\x1b[2J\x1b]0;title\x07",
    "::error file=a::x",
    "\n::error::x",
    "\r\n::set-output name=a::b",
    "%0A::error::x%0D",
    "##[error]x",
    "##vso[task.setvariable]x",
    "##teamcity[buildProblem]",
    "]]>",
    "</testsuite><script>alert(1)</script>",
    "&lt;!ENTITY x \"'",
    "<![CDATA[",
    "\u202e\u2066abc\u2069",
    "\x00",
    "\x7f\x85\u2028\u2029\ufeff\ufffe",
    "\ud800",
    "\udcff",
    "[x](javascript:alert(1))",
    "\\\"',;`$(x)",
]

DANGEROUS = re.compile(r"##\w*\[|^\s*::(?!error file=|warning file=|notice file=)", re.MULTILINE)


def hostile(attack: str) -> list[FileReport]:
    """What dslint itself says about a file that has an attack as name, key, value, comment and path."""
    key, value = json.dumps(attack), json.dumps(attack)
    configs = [
        f'{{"train_batch_size": {value}, {key}: {value}, "zero_optimization": {{"stage": {value}, {key}: 1}}}}',
        f'{{"train_batch_size": 8, {key}: 1, {key}: 2, "optimizer": {{"type": {value}, "params": {{{key}: 1}}}}}}',
        json.dumps({"train_batch_size": 8, "dslint": {"ignore": {attack: attack, f"DS102@{attack}": ""}, attack: 1}}),
        f"{{ // dslint: ignore[{attack}] {attack}\n {attack}: {attack} }}",
        f"{{'train_batch_size': 8, 'x{attack}': 1,}}{attack}",
    ]  # fmt: skip
    return [
        lint(
            text.encode("utf-8", "surrogatepass"),
            f"conf/{attack}.json",
            Options(schemas.newest(), trainer=trainer),
            RULES,
        )
        for text in configs
        for trainer in ("raw", "hf")
    ]


def check(name: str, output: str) -> None:
    """An output is printable, holds no command of a CI runner, and is what its format says."""
    output.encode("utf-8")  # no lone surrogate
    assert all(line.isprintable() for line in output.split("\n")), name
    if name != "github":
        assert not re.search(r"^\s*::", output, re.MULTILINE), name
    assert not DANGEROUS.search(output), name
    if name in ("json", "sarif", "gitlab", "rdjson"):
        data = json.loads(output)
        if name == "sarif":
            assert [e.message for e in sarif_schema().iter_errors(data)] == []
    if name == "junit":
        root = ElementTree.fromstring(output)
        assert {element.tag for element in root.iter()} <= {
            "testsuites", "testsuite", "testcase", "failure", "system-out",
        }  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_no_attack_gets_through_a_format(name: str) -> None:
    for attack in ATTACKS:
        reports = hostile(attack)
        assert any(found.findings for found in reports)
        check(name, renderer(name)(reports))


def test_a_github_command_is_one_line_a_finding() -> None:
    for attack in ATTACKS:
        reports = hostile(attack)
        output = renderer("github")(reports)
        commands = [line for line in output.split("\n") if line.lstrip().startswith("::")]
        assert len(commands) == sum(len(found.findings) for found in reports)
        for command in commands:
            # ::name key=value,...::data with % escaped, as in GitHub's "Workflow commands"
            head, _, data = command[2:].partition("::")
            kind, _, listed = head.partition(" ")
            properties = dict(pair.split("=", 1) for pair in listed.split(","))
            assert kind in ("error", "warning", "notice")
            assert set(properties) <= {"file", "line", "endLine", "col", "endColumn", "title"}
            assert not re.search(r"%(?!25|0A|0D|3A|2C)", command) and unquote(data)


def test_no_attack_gets_through_the_other_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(tmp_path)
    for attack in ATTACKS:
        for i, found in enumerate(hostile(attack)):
            Path("ds.json").write_bytes(found.document.text.encode("utf-8", "surrogatepass"))
            options = Options(schemas.newest())
            raw = Path("ds.json").read_bytes()
            check("--show-config", show_config(prepare(raw, f"{attack}.json", options)))
            if i % 2:
                continue
            for argv in (
                ["--diff", "--unsafe-fixes", "ds.json"],
                ["--explain", attack],
                ["--select", attack, "ds.json"],
                ["--config", f"{attack}.toml", "ds.json"],
                ["--baseline", f"{attack}.json", "ds.json"],
                ["--output", f"no/{attack}/x", "ds.json"],
                ["--show-settings", f"x{attack}"],
            ):
                main(argv)
                out, err = capsys.readouterr()
                check(argv[0], out)
                check(argv[0], err)


def test_no_attack_gets_through_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ds.json").write_text(CONFIG)
    for attack in ATTACKS:
        text = json.dumps(attack.encode("utf-8", "replace").decode()).replace("\\ud800", "?")
        for line in (f"{text} = 1", f"trainer = {text}", f"model = {text}", f"deepspeed = {text}",
                     f"select = [{text}]", f"[[files]]\nmatch = {text}\ntrainer = 'hf'"):  # fmt: skip
            Path("dslint.toml").write_text(line)
            main(["--show-settings", "ds.json"])
            out, err = capsys.readouterr()
            check("--show-settings", out)
            check("--show-settings", err)


def test_no_attack_gets_through_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for attack in ATTACKS:
        if any(c in attack for c in "\x00/\ud800"):  # no file has such a name
            continue
        name = f"{attack}.json"
        Path(name).write_text(json.dumps({"train_batch_size": 8, attack: attack}))
        flags = ["--model", "llama-7b", "--gpus", "8", "--gpu-type", "a100-80gb", "--estimate"]
        main(["--output", "html=page.html", *flags, name])
        page = Path("page.html").read_text(encoding="utf-8")
        assert "<script>alert" not in page and "</testsuite>" not in page
        assert not any(c in page for c in "\x1b\x07\x00\u202e\u2066\x7f\x85")
        check("--estimate", capsys.readouterr().out)


@settings(max_examples=60)
@given(st.text(st.characters(codec=None), max_size=30), st.sampled_from(FORMATS))
def test_no_text_gets_through(text: str, name: str) -> None:
    found = made(Document(text, text, None), message=text, key=text, cure=text)
    found.suppressed.append(Suppressed(found.findings[0], text))
    check(name, renderer(name)([found]))
