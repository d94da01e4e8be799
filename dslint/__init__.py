"""dslint: the linter for DeepSpeed configs."""

__version__ = "0.1.0"
