"""With a graph as dense as the paper's the regulariser is ahead of its base by a wide margin; its answer is planted."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import evaluate, recipes
from longtail.testing.planted_graph import SAID, planted_graph

SMALL = {"batch": 64, "random_negatives": 64, "width": 32, "warmup": 20, "learning_rate": 0.02, "epochs": 6}


@pytest.fixture(scope="module")
def data():
    return planted_graph(0, documents=800)


def test_the_densities_are_those_of_the_paper(data):
    graph = data.graphs["page"]
    assert graph.train.nnz / len(data.train) == pytest.approx(38.87, rel=0.03)
    assert graph.train.nnz / len(graph.nodes) == pytest.approx(10.96, rel=0.03)
    assert graph.label.nnz / len(data.labels) == pytest.approx(7.71, rel=0.05)
    assert data.train.targets.nnz / len(data.labels) == pytest.approx(4.67, rel=0.01)
    thin = planted_graph(0, documents=800, links=3.2, documents_per_node=2.4)
    assert thin.graphs["page"].train.nnz / len(data.train) == pytest.approx(3.2, rel=0.05)


def test_right_edges_lead_to_nodes_that_share_words_and_the_text_of_a_label_shares_none():
    data = planted_graph(1, documents=200, right_links=0.4)
    said = [set(text.split()) for text in data.train.documents.fields["title"]]
    nodes = [set(text.split()) for text in data.graphs["page"].nodes]
    labels = set(" ".join(data.labels.fields["title"]).split())
    assert all(len(node) == SAID for node in nodes)
    assert not any(labels & text for text in said + nodes)
    rows, columns = data.graphs["page"].train.nonzero()
    linked = np.mean([bool(said[i] & nodes[j]) for i, j in zip(rows, columns, strict=True)])
    anyhow = np.mean([bool(text & node) for text in said for node in nodes[::5]])
    assert anyhow < 0.05
    assert linked > 0.2


@pytest.mark.parametrize("base", ["ance", "ngame"])
def test_ramen_is_ahead_of_its_base_in_every_metric(data, base):
    def found(**options):
        bundle = recipes.ramen(data, base=base, classifier_epochs=0, **SMALL, **options)
        return evaluate(bundle, data).kinds["encoder"]

    plain, regular = found(graphs=("none",)), found(graph_weights="fixed:0.3")
    for name in ("P@1", "PSP@1", "PSP@5", "R@5"):
        assert regular[name] > plain[name] + 2, name
