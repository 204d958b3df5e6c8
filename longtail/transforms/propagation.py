"""Labels of training documents that a metadata graph suggests: label propagation, as a transform of a data set."""

from __future__ import annotations

from dataclasses import replace

from longtail.data.dataset import Dataset
from longtail.data.filters import union, without
from longtail.transforms.walk import without_hubs


def with_propagated_labels(dataset: Dataset, *, seed: int, hub_degree: int = 500) -> Dataset:  # noqa: ARG001
    """The data set with more true pairs: a document gets every label that shares a neighbour with it in a graph.

    Source: RAMEN (Mittal et al., 2025), section 4, the ablation "AugGT". Filtered pairs stay out.

    Args:
        dataset: N documents, L labels; a graph that lacks a side adds nothing.
        seed: of nothing: it draws nothing.
        hub_degree: a node with more neighbours than this on a side is left out of it: it would join everything.

    Returns:
        The same documents and labels.
    """
    targets = dataset.train.targets
    for graph in dataset.graphs.values():
        if graph.train is not None and graph.label is not None:
            reached = without_hubs(graph.train, hub_degree) @ without_hubs(graph.label, hub_degree).T  # (N, L)
            if dataset.train.filtered is not None:
                reached = without(reached, dataset.train.filtered)
            targets = union(targets, reached)
    return replace(dataset, train=replace(dataset.train, targets=targets))
