"""What is shipped: wheel and sdist hold what they must, and the wheel runs where there is no checkout."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from dslint import __version__

pytest.importorskip("hatchling")

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path = ROOT, **env: str) -> str:
    """The output of a program; its errors are shown when it fails."""
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def build(source: Path, out: Path, target: str) -> Path:
    """A distribution made without network: no build environment, the hatchling that is installed."""
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out, cwd=source)
    (made,) = out.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def unpacked_sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build(ROOT, folder, "sdist")) as archive:
        archive.extractall(folder)
    return folder / f"deepspeed_lint-{__version__}"


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_the_package_its_schemas_and_its_rules(wheel: Path) -> None:
    package = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("dslint/**/*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    schemas = {f"dslint/schemas/{path.name}" for path in ROOT.glob("schemas/*.json")}
    assert schemas and "dslint/rules.json" in package
    assert names(wheel) == package | schemas
    assert wheel.stat().st_size < 2_000_000


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"deepspeed_lint-{__version__}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert metadata["Name"] == "deepspeed-lint" and metadata["Version"] == __version__
    assert "dslint = dslint.cli:entry" in entry_points
    # Every dependency here is installed by every pre-commit user; torch weighs gigabytes.
    always = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = sorted(re.split("[>=]", line)[0] for line in always)
    assert names == ["jsonschema", "ruamel-yaml", "tomli"]  # tomli on Python 3.10 only


def test_the_sdist_holds_every_file_and_builds_the_same_wheel(
    wheel: Path, unpacked_sdist: Path, tmp_path: Path
) -> None:
    if shutil.which("git") and (ROOT / ".git").exists():
        tracked = set(run("git", "ls-files", "-z").split("\0")) - {""}
        tracked = {name for name in tracked if (ROOT / name).exists()}
        assert not {name for name in tracked if not (unpacked_sdist / name).exists()}
    assert names(build(unpacked_sdist, tmp_path, "wheel")) == names(wheel)


def test_the_wheel_runs_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--no-deps", "--no-index", "--no-compile", "--target", site, wheel)
    away = Path(tmp_path.anchor)
    found = run(sys.executable, "-c", "import dslint; print(dslint.__file__)", cwd=away, PYTHONPATH=str(site))
    assert Path(found.strip()) == site / "dslint" / "__init__.py"
    version = run(sys.executable, "-m", "dslint", "--version", cwd=away, PYTHONPATH=str(site))
    assert __version__ in version
    config = tmp_path / "ds_config.json"
    config.write_text('{"train_batch_size": 8, "gradient_clipping": 1.0}')
    report = run(
        sys.executable, "-m", "dslint", str(config), "--format", "json", cwd=away, PYTHONPATH=str(site)
    )
    assert '"findings": []' in report
