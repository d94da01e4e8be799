"""What the documentation says is so: its commands are run, its lists compared with the code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pages import ROOT, blocks, follow, matches

from dslint.expression import PATH_FUNCTIONS, VALUE_FUNCTIONS
from dslint.links import SITE
from dslint.rulefile import OPTIONAL, REQUIRED
from dslint.rules import TARGET

RULE_PAGE = "docs/add-a-rule.md"


def test_a_team_rule_is_written_as_the_page_says(tmp_path: Path) -> None:
    assert follow(blocks(RULE_PAGE, "A rule for your team"), tmp_path) == 4


@pytest.mark.slow
def test_a_rule_of_our_own_is_written_as_the_page_says(tmp_path: Path) -> None:
    for name in ("dslint", "rules", "schemas", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert follow(blocks(RULE_PAGE, "A rule for dslint itself"), tmp_path) == 2


def test_the_page_names_every_key_and_function() -> None:
    text = (ROOT / RULE_PAGE).read_text(encoding="utf-8")
    for key in {*REQUIRED, *OPTIONAL} - {"check"}:
        assert f"`{key}`" in text, key
    for name in (*PATH_FUNCTIONS, *VALUE_FUNCTIONS):
        assert f"`{name}(" in text, name
    for name in TARGET:
        assert f"`target.{name}`" in text, name


def test_the_site_has_one_address() -> None:
    assert f'Documentation = "{SITE}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "expected, printed, same",
    [
        ("a\nb", "a\nb", True),
        ("a", "a\nb", False),
        ("a ... c", "a b c", True),
        ("...\nc", "a\nb\nc", True),
        ("...\nc", "c", True),
        ("...\nc", "a\nd", False),
        ("a.c", "abc", False),
        ("", "x", False),
    ],
)
def test_output_is_compared(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same
