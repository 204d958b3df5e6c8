"""Labels that a graph suggests for documents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Strings
from longtail.transforms import augmented


def made() -> Dataset:
    """Document 0 has nodes 0 and 1, document 1 node 1; label 0 has node 0, label 1 node 1, label 2 nodes 0 and 2."""
    nodes = Strings.of(["a", "b", "c"])
    graph = Graph(nodes, csr_of_lists([[0, 1], [1], []], 3), csr_of_lists([[0], [1], [0, 2]], 3))
    one_sided = Graph(nodes, csr_of_lists([[2], [2], [2]], 3), None)
    data = Dataset.from_texts(["x", "y", "z"], [[1], [0], [2]], ["p", "q", "r"])
    return replace(data, graphs={"both": graph, "one": one_sided})


def test_a_document_gets_the_labels_that_share_a_node_with_it() -> None:
    data = augmented(made(), "propagation", seed=0)
    np.testing.assert_array_equal(data.train.targets.toarray(), [[1, 1, 1], [1, 1, 0], [0, 0, 1]])


def test_filtered_pairs_stay_out_and_hubs_join_nothing() -> None:
    data = made()
    data = replace(data, train=replace(data.train, filtered=csr_of_lists([[2], [], []], 3)))
    np.testing.assert_array_equal(
        augmented(data, "propagation", seed=0).train.targets.toarray(), [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    )
    np.testing.assert_array_equal(  # nodes 0 and 1 have two neighbours on one of the sides
        augmented(data, "propagation:hub_degree=1", seed=0).train.targets.toarray(), made().train.targets.toarray()
    )
    np.testing.assert_array_equal(data.train.targets.toarray(), made().train.targets.toarray())
