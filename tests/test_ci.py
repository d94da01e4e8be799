"""action.yml, the Dockerfile and the snippets of docs/ci.md, run as a CI would run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dslint import __version__
from dslint.cli import main

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = YAML(typ="safe").load(ROOT / "action.yml")
DOC = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
GOOD = '{"train_batch_size": 8, "gradient_clipping": 1.0, "bf16": {"enabled": true}}'
BAD = GOOD.replace("gradient_clipping", "gradient_cliping")

needs_bash = pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")


def blocks(language: str) -> list[str]:
    """The code blocks of a language in docs/ci.md."""
    return re.findall(rf"^```{language}\n(.*?)^```", DOC, re.MULTILINE | re.DOTALL)


def step(number: int, where: Path, inputs: dict[str, str], **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a step of the action as GitHub's runner does: bash --noprofile --norc -eo pipefail on a file."""
    values = {name: str(given.get("default", "")) for name, given in ACTION["inputs"].items()} | inputs
    known = {f"inputs.{name}": value for name, value in values.items()} | {"github.action_path": str(ROOT)}
    this = ACTION["runs"]["steps"][number]
    given = {}
    for name, value in this["env"].items():
        match = re.fullmatch(r"\$\{\{ ([a-z._]+) \}\}", value)
        assert match, f"{name} is more than one expression"
        given[name] = known[match[1]]
    assert "${{" not in this["run"], "what a pull request puts into an input would be code"
    script = where / f"step{number}.sh"
    script.write_text(this["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=where / "checkout",
        env={"PATH": os.environ["PATH"], "RUNNER_TEMP": str(where), "GITHUB_ACTIONS": "true",
             "GITHUB_OUTPUT": str(where / "output"), "HOME": str(where), **given, **env},
        capture_output=True,
        text=True,
    )  # fmt: skip


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A runner on which dslint is installed, with a checkout that holds a good and a bad config."""
    (tmp_path / "dslint/bin").mkdir(parents=True)
    program = tmp_path / "dslint/bin/dslint"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {sys.executable} -m dslint "$@"\n')
    program.chmod(0o755)
    checkout = tmp_path / "checkout"
    (checkout / "conf igs").mkdir(parents=True)
    (checkout / "ds_good.json").write_text(GOOD)
    (checkout / "conf igs/ds_bad.json").write_text(BAD)
    return tmp_path


def test_the_action_is_valid() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in ACTION["runs"]["steps"])
    if not shutil.which("check-jsonschema"):
        pytest.skip("needs check-jsonschema (the extra bench)")
    subprocess.run(
        ["check-jsonschema", "--builtin-schema", "vendor.github-actions", ROOT / "action.yml"], check=True
    )


@needs_bash
def test_the_action_annotates_and_fails(runner: Path) -> None:
    done = step(1, runner, {})
    assert done.returncode == 1, done.stderr
    (command,) = (line for line in done.stdout.splitlines() if line.startswith("::error"))
    assert command.startswith("::error file=conf igs/ds_bad.json,line=1,") and "DS102" in command
    assert not (runner / "output").exists()


@needs_bash
def test_the_action_takes_paths_and_flags(runner: Path) -> None:
    assert step(1, runner, {"paths": "ds_good.json\n"}).returncode == 0
    done = step(1, runner, {"paths": "ds_good.json\n\nconf igs\n", "args": "--format json --fail-on\nnever"})
    assert done.returncode == 0, done.stderr
    assert [f["path"] for f in json.loads(done.stdout)["files"]] == ["ds_good.json", "conf igs/ds_bad.json"]
    assert step(1, runner, {"paths": "missing.json"}).returncode == 2


@needs_bash
def test_the_action_writes_sarif_and_still_fails(runner: Path) -> None:
    done = step(1, runner, {"sarif": "out.sarif"})
    assert done.returncode == 1 and "::error" in done.stdout
    assert (runner / "output").read_text() == "sarif=out.sarif\n"
    assert json.loads((runner / "checkout/out.sarif").read_text())["version"] == "2.1.0"


@needs_bash
@pytest.mark.parametrize("name", ["paths", "args", "sarif"])
def test_no_input_of_the_action_is_code(runner: Path, name: str) -> None:
    for attack in ("$(touch pwned)", "`touch pwned`", "; touch pwned", '"; touch pwned; "', "' || touch pwned '",
                   "a\nb=$(touch pwned)", "| touch pwned", "${IFS}$(touch${IFS}pwned)", "* --output=pwned"):  # fmt: skip
        step(1, runner, {name: attack})
        assert not list(runner.rglob("pwned")) or name == "args"
        for line in (runner / "output").read_text().splitlines() if (runner / "output").exists() else []:
            assert line.startswith("sarif=")
        (runner / "output").unlink(missing_ok=True)


@needs_bash
@pytest.mark.slow
def test_the_action_installs_its_own_commit(runner: Path) -> None:
    pytest.importorskip("hatchling")
    shutil.rmtree(runner / "dslint")
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0",  # 0: the flag is given

               "PYTHONPATH": os.pathsep.join([sysconfig.get_path("purelib"), *filter(None, sys.path[1:])])}  # fmt: skip
    done = step(0, runner, {"python": sys.executable}, **offline)
    assert done.returncode == 0, done.stderr
    program = runner / "dslint/bin/dslint"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, cwd=runner)
    assert __version__ in told.stdout
    gone = step(0, runner, {"python": sys.executable, "version": "99.0"}, **offline)
    assert gone.returncode != 0 and "99.0" in gone.stderr


def workflows() -> list[dict[str, Any]]:
    return [YAML(typ="safe").load(block) for block in blocks("yaml")]


def test_documented_inputs_exist() -> None:
    uses = [
        step
        for flow in workflows()
        for job in flow.get("jobs", {}).values()
        for step in job["steps"]
        if "/dslint@" in step.get("uses", "")
    ]
    assert len(uses) == 2
    for used in uses:
        assert set(used["with"]) <= set(ACTION["inputs"])
    assert set(re.findall(r"^\| `(\w+)` \|", DOC, re.MULTILINE)) == set(ACTION["inputs"])


def test_documented_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (gitlab,) = (flow["dslint"] for flow in workflows() if "dslint" in flow)
    commands = [*gitlab["script"], *(line for block in blocks("sh") for line in block.splitlines())]
    commands = [line.split(" | ")[0] for line in commands if line.startswith("dslint ")]
    assert len(commands) == 2
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(BAD)
    for command in commands:
        assert main(shlex.split(command)[1:]) == (0 if "--fail-on never" in command else 1)
    capsys.readouterr()
    reports = list(gitlab["artifacts"]["reports"].values())
    assert len(reports) == 2 and all((tmp_path / path).stat().st_size > 100 for path in reports)


def test_snippets_are_valid(tmp_path: Path) -> None:
    if not shutil.which("check-jsonschema"):
        pytest.skip("needs check-jsonschema (the extra bench)")
    for flow, block in zip(workflows(), blocks("yaml"), strict=True):
        schema = "vendor.gitlab-ci" if "dslint" in flow else "vendor.github-workflows"
        (tmp_path / "snippet.yml").write_text(block)
        subprocess.run(
            ["check-jsonschema", "--builtin-schema", schema, tmp_path / "snippet.yml"], check=True
        )


def docker_lines() -> list[str]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_runs_dslint_as_nobody_special() -> None:
    final = docker_lines()[[i for i, line in enumerate(docker_lines()) if line.startswith("FROM")][-1] :]
    (user,) = (line.split()[1] for line in final if line.startswith("USER"))
    (made,) = (line for line in final if "useradd" in line)
    assert user == "dslint" and made.endswith(" dslint")
    assert final.index(f"USER {user}") < final.index('ENTRYPOINT ["dslint"]')
    assert all(line.split()[1].endswith("-slim") for line in docker_lines() if line.startswith("FROM"))


@pytest.mark.slow
def test_the_image_is_given_all_that_the_wheel_needs(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for line in docker_lines():
        if line.startswith("COPY"):
            *sources, target = line.split()[1:]
            for source in sources:
                assert f"!{source}" in ignored
                to = tmp_path / target.lstrip("/")
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    to.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / source, to)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--wheel-dir", tmp_path / "wheels", tmp_path / "src"],
        check=True, capture_output=True,
    )  # fmt: skip
    assert len(list((tmp_path / "wheels").glob("deepspeed_lint-*.whl"))) == 1
