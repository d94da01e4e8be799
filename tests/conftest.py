"""Shared by all tests: property tests draw the same examples everywhere and are never timed."""

from hypothesis import settings

settings.register_profile("dslint", deadline=None, derandomize=True)
settings.load_profile("dslint")
