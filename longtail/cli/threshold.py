"""The least probability that is asked for: as it is, or by the precision that it kept."""

from __future__ import annotations

from rich.console import Console

from longtail.errors import BadInput
from longtail.model import Model
from longtail.model.thresholds import must_be_threshold


def threshold_of(model: Model, kind: str | None, threshold: float | None, precision: float | None) -> float | None:
    """The least probability that is asked for, said where it follows from a precision; None for all labels."""
    if threshold is not None:
        must_be_threshold(threshold)
    if precision is None:
        return threshold
    if threshold is not None:
        problem = "expected one of threshold and precision, found both"
        raise BadInput("precision", problem, remedy="leave one of them out")
    kept = model.calibration(kind).at_precision(precision)
    Console(stderr=True).print(f"{kept} on held-out documents", highlight=False, markup=False)
    return kept.threshold
