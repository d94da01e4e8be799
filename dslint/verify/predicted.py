"""What the memory model foretold of a run, beside what the run showed. Pure; the memory model is imported
only where there is one and a shape is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dslint.config import Config
from dslint.verify.plan import Plan


@dataclass(slots=True)
class Forecast:
    """A prediction. `data`: as --estimate's JSON has it; `steady`: bytes by item between steps."""

    data: dict[str, Any]
    steady: dict[str, float]

    def rows(self, results: Mapping[int, Mapping[str, Any]], device: str) -> list[dict[str, Any]]:
        """Measured against predicted, an item a row."""
        return []

    def advice(self) -> list[str]:
        """What to change, by predicted saving."""
        return []


def forecast(
    config: Config, model: Any, plan: Plan, ranks: int, measured: Mapping[str, Any] | None
) -> Forecast | None:
    """The prediction for a run, or None where there is no memory model."""
    return None
