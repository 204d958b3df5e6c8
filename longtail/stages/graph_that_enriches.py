"""Which graph has the nodes that enrich documents: one of the data set, or that of its own labels and documents."""

from __future__ import annotations

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import csr, row_of_entry, take_entries, widened
from longtail.errors import BadInput
from longtail.topk import IntArray

JOINT = "joint"


def graph_that_enriches(dataset: Dataset, name: str | None, rows: IntArray) -> Graph | None:
    """The graph that is meant, which links training documents; None for none.

    Args:
        dataset: has the graphs.
        name: of a graph, ``none``, ``joint`` for the `joint_graph`, or None for the only one.
        rows: the training documents whose labels may be known.

    Raises:
        BadInput: there is no such graph, there are several to choose from, or it links no training document.
    """
    if name == "none":
        return None
    if name == JOINT and JOINT not in dataset.graphs:
        return joint_graph(dataset, rows)
    known = ", ".join(dataset.graphs) or "none"
    if name is None:
        if len(dataset.graphs) != 1:
            problem = f"the data set has {len(dataset.graphs)} graphs: {known}"
            raise BadInput("enrich", problem, remedy="name the one whose nodes are to enrich documents, or none")
        (name,) = dataset.graphs
    if name not in dataset.graphs:
        raise BadInput("enrich", f"the data set has no graph {name}", remedy=f"its graphs are: {known}")
    edges = dataset.graphs[name].train
    if edges is None or not edges.nnz:
        raise BadInput("enrich", f"graph {name} links no training document", remedy="name another, or none")
    return dataset.graphs[name]


def joint_graph(dataset: Dataset, rows: IntArray) -> Graph:
    """The graph whose nodes are the L labels and, after them, the N training documents, with true pairs for edges.

    A document is linked to the nodes of its labels, and a label to the node of its own text and those of its documents.

    Source: PINA (Chien et al., 2023) and GalaXC (Saini et al., 2021).

    Args:
        dataset: of these.
        rows: the documents whose labels may be known; others have no edges but to what they say themselves.
    """
    titles, targets = dataset.labels.fields["title"], dataset.train.targets
    N, L = targets.shape
    pairs = take_entries(targets, np.isin(row_of_entry(targets), rows))
    own, of_labels = np.arange(L), pairs.T.tocsr()
    label = csr(
        np.concatenate([own, row_of_entry(of_labels)]), np.concatenate([own, L + of_labels.indices]), (L, L + N)
    )
    return Graph(titles.followed_by(dataset.train.documents.fields["title"]), widened(targets, L + N), label)
