"""The documentation's site: builds without network, has a page for every rule and key, and no dead link."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from pages import ROOT, blocks, follow

from dslint import schema as schemas
from dslint.explain import paths_of
from dslint.history import known_paths
from dslint.links import SITE, rule_url
from dslint.rules import load

pytestmark = pytest.mark.slow

NO_NETWORK = "import socket\ndef closed(*a, **k): raise OSError('no network')\nsocket.socket.connect = closed\nsocket.getaddrinfo = closed\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly where Python reaches no network."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(NO_NETWORK)
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build.py"), str(folder / "out")],
        env={"PATH": "", "PYTHONPATH": str(folder), "HOME": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return folder / "out"


def text_of(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_every_rule_has_the_page_that_findings_link_to(site: Path) -> None:
    for rule in load():
        page = site / rule_url(rule.code).removeprefix(SITE) / "index.html"
        text = text_of(page)
        assert rule.name in text and rule.severity in text, rule.code
        assert "What it speaks about" in text or rule.check, rule.code
    assert "ds_config.json" in text_of(site / "add-a-rule" / "index.html")


def test_a_rule_page_shows_what_dslint_says(site: Path) -> None:
    text = text_of(site / "rules" / "DS204" / "index.html")
    assert "error[DS204] batch-equation" in text and "the batch equation fails" in text


def test_every_key_has_an_anchor(site: Path) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in site.glob("keys/**/index.html"))
    anchors = set(re.findall(r'<h3 id="([^"]+)"', pages))
    assert {*paths_of(schemas.load(schemas.newest())), *known_paths()} <= anchors


def test_pictures_are_of_this_very_version_and_load_nothing(site: Path) -> None:
    pictures = sorted(path.name for path in (site / "pictures").iterdir())
    assert pictures == ["estimate.svg", "explain.svg", "lint.svg"]
    for name in pictures:
        svg = (site / "pictures" / name).read_text(encoding="utf-8")
        assert svg.startswith("<svg") and "dslint" in svg
        assert not re.search(r"https?://(?!www\.w3\.org|www\.textualize\.io)", svg)
    lint = unescape((site / "pictures" / "lint.svg").read_text(encoding="utf-8")).replace("\xa0", " ")
    assert "DS102" in lint and "misspelled-key" in lint


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]+)"', html)
        loaded += re.findall(r'<link[^>]* rel="(?:stylesheet|preconnect)"[^>]* href="([^"]+)"', html)
        assert not [url for url in loaded if "//" in url], path


def test_no_link_leads_out_of_the_source(site: Path) -> None:
    """Links to files of the repository have become links to pages."""
    for path in site.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        assert not re.search(r'href="[^"]*\.(?:yaml|md|py)"', html), path


def test_the_search_knows_rules_and_keys(site: Path) -> None:
    index = json.dumps(json.loads((site / "search.json").read_text(encoding="utf-8")))
    assert "offload-param-needs-stage-3" in index and "stage3_prefetch_bucket_size" in index


EDITORS = "docs/editors.md"


def test_the_schema_for_vs_code_is_written_as_the_page_says(tmp_path: Path) -> None:
    steps = blocks(EDITORS, "VS Code without an extension")
    assert follow(steps, tmp_path) == 2
    settings = json.loads(next(block.text for block in steps if block.language == "json"))
    (entry,) = settings["json.schemas"]
    schema = json.loads((tmp_path / entry["url"]).read_text(encoding="utf-8"))
    assert schema["properties"]["zero_optimization"]["properties"]["stage"]["maximum"] == 3
    assert "ds_config*.json" in entry["fileMatch"]


def test_editor_settings_are_well_formed_and_start_the_server() -> None:
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib

    (helix,) = blocks(EDITORS, "Helix")
    assert tomllib.loads(helix.text)["language-server"]["dslint"] == {
        "command": "dslint",
        "args": ["--server"],
    }
    (code,) = blocks(EDITORS, "VS Code")
    settings = json.loads(code.text)
    assert [settings["glspc.server.command"], *settings["glspc.server.commandArguments"]] == [
        "dslint",
        "--server",
    ]
    neovim = [block for block in blocks(EDITORS, "Neovim") if block.language == "lua"]
    assert len(neovim) == 2  # of today, and before 0.11
    assert all('cmd = { "dslint", "--server" }' in block.text for block in neovim)
