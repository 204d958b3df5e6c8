"""DiSMEC: a sparse linear separator of each label from all other documents."""

from __future__ import annotations

import numpy as np

from longtail.data.dataset import Dataset
from longtail.model.linear import Linear
from longtail.recipes.linear_papers import DISMEC
from longtail.stages.recipe import recipe
from longtail.stages.separators import SeparatorOptions, linear_model, read_words, solved_tree
from longtail.train.run import Run


@recipe(SeparatorOptions, paper=DISMEC)
def dismec(run: Run, dataset: Dataset, o: SeparatorOptions) -> Linear:
    """Train a sparse linear separator for every label, one versus all, over the words of documents.

    Source: DiSMEC (Babbar and Schoelkopf, 2017). There is no encoder: a text is its tf-idf weights, and a label's score
    is their inner product with its separator, which minimises the squared hinge. Labels are solved some at a time, and
    weights below a threshold are left out, so that no more than the model is ever held. Departures and their
    measurements: docs/explanation/methods/dismec.md.
    """
    words = read_words(run, dataset, o)
    root, has_documents = np.full(1, -1), np.diff(words.targets.indptr) > 0
    tree = solved_tree(run, "separators", words, root, np.where(has_documents, 0, -1), o)
    return linear_model(run, dataset, words, [tree], o)
