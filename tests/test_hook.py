"""The pre-commit hook: which files it is handed, and what it does in a real repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
HOOK: dict[str, Any] = YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")[0]


@pytest.mark.parametrize(
    "name",
    [
        "ds_config.json",
        "DS_Config.JSON",
        "configs/zero3.json",
        "package.json",  # any JSON: --filter looks at the content
        "a/b c/ds.hjson",
        "ds.jsonc",
        "accelerate.yaml",
        "accelerate_config.yml",
        "configs/accelerate/multi_gpu.yaml",
        "configs/deepspeed_zero3.yaml",
        "deepspeed/config.yaml",
        "ds.yaml",
        "ds/config.yaml",
        "conf/ds_z3.yml",
        "zero2.yaml",
        "train/zero_stage3.yaml",
        "zero-3.offload.yaml",
        "default_config.yaml",
        "recipes/my-ds-config.yaml",
        "Accelerate/ZeRO3.YAML",
    ],
)
def test_files_that_the_hook_is_handed(name: str) -> None:
    assert re.search(HOOK["files"], name)


@pytest.mark.parametrize(
    "name",
    [
        "train.py",
        "README.md",
        "ds_config.json.bak",
        "json",
        "dsjson",
        "jsonnet/ds.jsonnet",
        "records.jsonl",
        "accelerate.md",
        "accelerateyaml",
        "docker-compose.yaml",
        ".pre-commit-config.yaml",
        ".github/workflows/ci.yml",
        "dsl/grammar.yaml",
        "ads/config.yaml",
        "nonzero.yaml",
        "zeros.yaml",
        "my_default_config.yaml",
    ],
)
def test_files_that_it_is_not(name: str) -> None:
    assert not re.search(HOOK["files"], name)


def test_pre_commit_knows_such_files_as_text(tmp_path: Path) -> None:
    """`types: [json]` would leave .hjson files out: pre-commit has no type of that name."""
    identify = pytest.importorskip("identify.identify")
    for name in ("a.json", "a.hjson", "a.jsonc", "a.yaml", "a.yml"):
        path = tmp_path / name
        path.write_text("{}")
        assert set(HOOK["types"]) <= identify.tags_from_path(str(path))


CLEAN = '{"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}\n'
FAULTY = '{\n  "train_batch_size": 8,\n  "zero_optimisation": {"stage": 2},\n  "bf16": {"enabled": true}\n}\n'
WARNED = CLEAN.replace('"stage": 2', '"stage": 2, "offload_param": {"device": "cpu"}')
FAULTY_HJSON = "{\n  # batch\n  train_batch_size: 8\n  zero_optimisation: {stage: 2}\n}\n"


class Repository:
    """A git repository whose commits pass through the hook, installed from the working tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "user"
        # Run from a git hook or in Actions, these would point git elsewhere or change the output.
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "PRE_COMMIT", "GITHUB_"))}
        self.env = {
            **kept,
            "PRE_COMMIT_HOME": str(folder / "cache"),
            "PRE_COMMIT_COLOR": "never",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.org",
        }
        self.git("init", "--quiet", at=self.folder)
        dslint = folder / "dslint"
        self.snapshot(dslint)
        rev = self.git("rev-parse", "HEAD", at=dslint).strip()
        self.hooks = f"repos:\n- repo: {dslint.as_posix()}\n  rev: {rev}\n  hooks:\n  - id: dslint\n"
        self.configure("[]")
        self.run(sys.executable, "-m", "pre_commit", "install", "--install-hooks")

    def configure(self, args: str) -> None:
        """Commit a pre-commit configuration that gives the hook these arguments."""
        (self.folder / ".pre-commit-config.yaml").write_text(f"{self.hooks}    args: {args}\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--no-verify", "--message", "hooks")

    def snapshot(self, to: Path) -> None:
        """A repository with one commit that holds the working tree as it is now, committed or not."""
        listed = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", at=ROOT)
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, to / name)
        self.git("init", "--quiet", at=to)
        self.git("add", "--all", "--force", at=to)
        self.git("commit", "--quiet", "--message", "snapshot", at=to)

    def run(self, *command: str, at: Path | None = None, ok: bool = True) -> str:
        at = at or self.folder
        at.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            command, cwd=at, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
        )
        assert (done.returncode == 0) == ok, f"{command} exited with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def git(self, *arguments: str, at: Path | None = None, ok: bool = True) -> str:
        return self.run("git", *arguments, at=at, ok=ok)

    def commit(self, name: str, text: str, ok: bool) -> str:
        """What a commit of one file prints; whether it went through is checked. Leaves no other change."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.git("add", name)
        said = self.git("commit", "--message", "change", ok=ok)
        self.git("reset", "--quiet", "--hard")
        return said


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    pytest.importorskip("pre_commit")
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("needs git and a checkout")
    return Repository(tmp_path_factory.mktemp("hook"))


@pytest.mark.slow
class TestEndToEnd:
    def test_a_clean_config_is_committed(self, repository: Repository) -> None:
        assert re.search(r"dslint\.+Passed", repository.commit("ds_config.json", CLEAN, ok=True))

    def test_a_faulty_config_is_stopped_and_the_finding_shown(self, repository: Repository) -> None:
        said = repository.commit("ds_config.json", FAULTY, ok=False)
        assert re.search(r"dslint\.+Failed", said) and "exit code: 1" in said
        assert re.search(r"^ds_config\.json:3:3 error\[DS1\d\d\]", said, re.M)
        assert '3 |   "zero_optimisation": {"stage": 2}' in said and "zero_optimization" in said

    def test_a_warning_is_worth_stopping_for(self, repository: Repository) -> None:
        assert "warning[DS" in repository.commit("ds_config.json", WARNED, ok=False)

    def test_a_config_of_any_name_is_known_by_its_content(self, repository: Repository) -> None:
        assert "some/where.json:3:3 error" in repository.commit("some/where.json", FAULTY, ok=False)

    def test_json_of_another_kind_passes(self, repository: Repository) -> None:
        package = '{"name": "app", "scripts": {"train": "deepspeed train.js"}}\n'
        said = repository.commit("package.json", package, ok=True)
        assert re.search(r"dslint\.+Passed", said)
        assert re.search(r"dslint\.+Passed", repository.commit("broken.json", "{oops", ok=True))

    def test_an_hjson_config_is_linted(self, repository: Repository) -> None:
        said = repository.commit("ds_config.hjson", FAULTY_HJSON, ok=False)
        assert "ds_config.hjson:4:3 error" in said

    def test_other_files_do_not_start_it(self, repository: Repository) -> None:
        said = repository.commit("train.py", "print()\n", ok=True)
        assert "(no files to check)Skipped" in said

    def test_a_team_can_choose_another_threshold(self, repository: Repository) -> None:
        repository.configure("[--fail-on, error]")
        try:
            assert "Passed" in repository.commit("ds_other.json", WARNED, ok=True)
        finally:
            repository.configure("[]")
