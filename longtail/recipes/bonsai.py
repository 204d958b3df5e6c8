"""Bonsai: shallow trees of labels, with a sparse linear separator for every node and label."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.data.dataset import Dataset
from longtail.model.linear import Linear
from longtail.recipes.linear_papers import BONSAI
from longtail.stages.recipe import recipe
from longtail.stages.separators import TreeOptions, linear_model, read_words, solved_trees
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(TreeOptions):
    """Bonsai."""

    branching: int = 100
    balanced: bool = False
    leaf: int = 1000


@recipe(Options, paper=BONSAI)
def bonsai(run: Run, dataset: Dataset, o: Options) -> Linear:
    """Train shallow trees of labels: `parabel` with up to 100 nodes below a node, of any size.

    Source: Bonsai (Khandagale et al., 2020), with labels as means of their documents (Bonsai-i). Fewer decisions stand
    above a label, and rare labels need not fill a half of equal size. Departures and their measurements:
    docs/explanation/methods/parabel.md.
    """
    words = read_words(run, dataset, o)
    return linear_model(run, dataset, words, solved_trees(run, words, o), o, o.beam)
