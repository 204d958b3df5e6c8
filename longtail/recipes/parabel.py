"""Parabel: balanced trees of labels, with a sparse linear separator for every node and label."""

from __future__ import annotations

from longtail.data.dataset import Dataset
from longtail.model.linear import Linear
from longtail.recipes.linear_papers import PARABEL
from longtail.stages.recipe import recipe
from longtail.stages.separators import TreeOptions, linear_model, read_words, solved_trees
from longtail.train.run import Run


@recipe(TreeOptions, paper=PARABEL)
def parabel(run: Run, dataset: Dataset, o: TreeOptions) -> Linear:
    """Train balanced trees of labels: sparse linear separators for every node and label, over the words of documents.

    Source: Parabel (Prabhu et al., 2018). There is no encoder: a text is its tf-idf weights. A label is the mean of its
    documents, and labels are halved until at most 100 are left. Each half, and each label in the last ones, has a
    separator from its siblings, which minimises the squared hinge over the documents of all of these. A text goes down
    to the ten best nodes of each depth; a label's score is the product of probabilities on its path, averaged over
    three trees. Departures and their measurements: docs/explanation/methods/parabel.md.
    """
    words = read_words(run, dataset, o)
    return linear_model(run, dataset, words, solved_trees(run, words, o), o, o.beam)
