"""What only the graph knows is found by RAMEN and not by its bases, and each ablation loses what it should."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import recipes
from longtail.testing.planted import GROUP, planted

SMALL = {"batch": 128, "random_negatives": 128, "width": 48, "warmup": 20, "learning_rate": 0.02, "epochs": 8}
GRAPH = {**SMALL, "graph_weights": "fixed:1.5"}  # a term is a mean over all rows: a fifth of the documents are linked


@pytest.fixture(scope="module")
def data():
    return planted(0)


def precision(bundle, data, kind):
    """P@1 of each block."""
    test = data.dataset.test
    best = bundle.rank(test.documents, 1, kind=kind, exclude=test.filtered).ids[:, 0]
    right = test.targets.toarray()[np.arange(len(best)), best] > 0
    return {block: 100 * right[data.blocks == block].mean() for block in "ABC"}


def test_ance_finds_labels_by_their_text_and_only_those(data):
    bundle = recipes.ance(data.dataset, **SMALL)
    assert bundle.vectors.keys() == {"encoder"}
    assert bundle.kinds[:2] == ("encoder", "fused")
    found = precision(bundle, data, "encoder")
    assert found["A"] > 95
    assert found["B"] < 100 / GROUP + 10
    assert found["C"] < 10


def test_ramen_finds_what_only_the_graph_knows_and_all_that_its_base_finds(data):
    bundle = recipes.ramen(data.dataset, **GRAPH)
    assert bundle.kinds == ("encoder", "classifier", "fused")
    for kind in ("classifier", "fused"):
        found = precision(bundle, data, kind)
        assert found["A"] > 95, kind
        assert found["B"] > 80, kind
    assert precision(bundle, data, "encoder")["C"] > 85


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        ({"graphs": ("none",)}, 0, 10),
        ({"base": "ance"}, 85, 100),
        ({"base": "ance", "graphs": ("none",)}, 0, 10),
        ({"graph_sides": ("documents",)}, 85, 100),  # the documents of block C are what has to move
        ({"graph_sides": ("labels",)}, 0, 10),
        ({"graph_weights": "bandit"}, 50, 100),  # starts at 0.1, and is drawn at random
        ({"walk_restart": 1.0, "graph_loss": "decoupled_softmax"}, 70, 100),
        ({"graphs": ("none",), "augment": "propagation"}, 85, 100),  # AugGT, where most edges are right
    ],
    ids=str,
)
def test_variants_of_ramen_keep_or_lose_the_block_of_the_graph(data, options, least, most):
    bundle = recipes.ramen(data.dataset, **{**GRAPH, "classifier_epochs": 0, "validation": 0.0, **options})
    found = precision(bundle, data, "encoder")
    assert found["A"] > 95
    assert least <= found["C"] <= most


@pytest.mark.slow  # 8,000 documents
def test_of_a_graph_with_many_wrong_edges_a_walk_over_those_that_are_left_keeps_most():
    """60 % of the edges lead to random nodes."""
    noisy = planted(0, documents=8000, random_edges=0.6)
    bundle = recipes.ramen(noisy.dataset, **GRAPH, classifier_epochs=0, walk_again=True)
    assert precision(bundle, noisy, "encoder")["C"] > 80


def test_unidec_takes_the_terms_too(data):
    bundle = recipes.unidec(data.dataset, **GRAPH, graphs=("topic",), refit=False)
    assert precision(bundle, data, "encoder")["C"] > 70
    assert precision(bundle, data, "combined")["B"] > 85
