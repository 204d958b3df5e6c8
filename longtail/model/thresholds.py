"""What thresholds of probabilities kept on held-out documents, and which one keeps a precision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.errors import BadInput
from longtail.topk import BoolArray, Float64Array, FloatArray, IntArray

DEPTH = 20  # ranked labels of a document that a threshold chooses among, and that probabilities are learned from
_GRID = np.arange(1, 200) / 200  # thresholds
_FEWEST = 100  # labels above a threshold for its precision to be known to some 6 points (95 %)
_SURE = 1.96  # standard errors on either side that hold 95 %


class Kept(NamedTuple):
    """What a threshold kept on held-out documents.

    Attributes:
        threshold: least probability of a label that is given.
        precision: the share of the given labels that were right, over all documents (micro-averaged).
        recall: the share of the true labels that were given.
        margin: of error of the precision, half of its 95 % interval; None where an earlier model did not count it.
    """

    threshold: float
    precision: float
    recall: float
    margin: float | None = None

    def __str__(self) -> str:
        margin = "" if self.margin is None else f" ± {self.margin:.3f}"
        return f"threshold {self.threshold:g}: precision {self.precision:.3f}{margin}, recall {self.recall:.3f}"


def count_kept(chances: FloatArray, right: BoolArray, documents: IntArray, relevant: int) -> Float64Array:
    """Count what each threshold keeps.

    The interval is that of Wilson (1927) for as many labels as say as much: those of a document are right or wrong
    together, which makes the variance of their mean larger (the design effect; Kish, 1965, by the residuals of each
    document).

    Args:
        chances: (E,) probabilities of ranked labels, of a model that was not learned on their documents.
        right: (E,) whether each is true.
        documents: (E,) row of the document that each is a label of.
        relevant: true labels, found or not.

    Returns:
        (4, T), of thresholds, ascending, that have `_FEWEST` labels above them: threshold, precision, recall, margin.
    """
    kept = []
    for threshold in _GRID:
        above = chances >= np.float32(threshold)
        if (given := int(np.count_nonzero(above))) < _FEWEST:
            break
        hits = int(np.count_nonzero(right & above))
        precision = hits / given
        residuals = np.bincount(documents[above], right[above] - precision)
        alike, variance = float(residuals @ residuals), precision * (1 - precision)
        effective = given / max(1.0, alike / (given * variance)) if variance else given
        wide = _SURE**2 / effective
        margin = (variance * wide + wide**2 / 4) ** 0.5 / (1 + wide)
        kept.append((threshold, precision, hits / max(relevant, 1), margin))
    counted: Float64Array = np.array(kept).reshape(-1, 4).T
    return counted


def lowest_that_kept(kept: Float64Array, precision: float) -> Kept:
    """The lowest threshold that kept a precision on held-out documents.

    Args:
        kept: (4, T) of `count_kept`; (3, T), without the margin, of earlier models.
        precision: above 0, and at most 1.

    Raises:
        BadInput: it is out of range, no threshold kept it, or too few labels were held out to know.
    """
    if not 0 < precision <= 1:  # nor is NaN
        problem = f"expected a number above 0 and at most 1, found {precision:g}"
        raise BadInput("precision", problem, remedy="give for example 0.9")
    reached = np.flatnonzero(kept[1] >= precision)
    if not len(reached):
        if not kept.size:
            problem = f"expected at least {_FEWEST} labels above a threshold on held-out documents, found fewer"
            raise BadInput("precision", problem, remedy="hold more documents out (validation), or give a threshold")
        known = f"{kept[1].max():.3f} at most, over {_FEWEST} labels or more"
        problem = f"expected what a threshold kept on held-out documents, {known}, found {precision:g}"
        raise BadInput("precision", problem, remedy="ask for less, or give a threshold")
    return Kept(*kept[:, reached[0]].tolist())


def must_be_threshold(threshold: float) -> None:
    """Refuse what is no probability.

    Raises:
        BadInput: it is NaN, below 0 or above 1.
    """
    if not 0 <= threshold <= 1:
        problem = f"expected a probability from 0 to 1, found {threshold:g}"
        raise BadInput("threshold", problem, remedy="give for example 0.5")


def at_most(k: int | None, threshold: float | None) -> int:
    """Labels of a text, k; where it is left out, those that people look at, or those that a threshold chooses among."""
    return k if k is not None else 5 if threshold is None else DEPTH
