"""`python -m dslint`."""

from dslint.cli import entry

entry()
