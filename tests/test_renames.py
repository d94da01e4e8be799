"""Renamed keys lead to keys that exist, and are themselves unknown to the newest release."""

from __future__ import annotations

import pytest

from dslint import schema as schemas
from dslint.renames import RENAMED, renamed
from dslint.values import schema_at

NEWEST = schemas.load(schemas.newest())


@pytest.mark.parametrize("old", RENAMED)
def test_a_renamed_key_leads_to_one_that_exists(old: str) -> None:
    target = RENAMED[old][0]
    assert schema_at(NEWEST, tuple(target.split(".")))
    assert not schema_at(NEWEST, tuple(old.split(".")))
    assert target in str(renamed(tuple(old.split(".")), NEWEST))


def test_a_name_nobody_renamed_has_no_cure() -> None:
    assert renamed(("my_own_setting",), NEWEST) is None
