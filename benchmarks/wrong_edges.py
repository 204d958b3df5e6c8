"""P@1 of RAMEN on planted data where only the graph leads to the labels, with right edges and with wrong ones.

    python benchmarks/wrong_edges.py [--documents 2000] [--random 0 0.6] [--seeds 0 1]

Block C of `longtail.testing.planted.planted`, the encoder alone; a bag 48 wide, 8 epochs. The last row drops the wrong
edges before training: no pruning can keep more.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from longtail import recipes
from longtail.data.graph import Graph
from longtail.testing.planted import Planted, planted

ENCODER: Mapping[str, Any] = {  # on planted data, as `planted_graph.py` has it
    "batch": 128,
    "random_negatives": 128,
    "width": 48,
    "warmup": 20,
    "learning_rate": 0.02,
    "epochs": 8,
    "classifier_epochs": 0,
}
SETTINGS: Mapping[str, Any] = {**ENCODER, "graph_weights": "fixed:1.5"}
ROWS: Mapping[str, Mapping[str, Any]] = {
    "base (`--graphs none`)": {"graphs": ("none",)},
    "`ramen`": {},
    "`--no-prune`": {"prune": False},
    "`--walk-restart 1`": {"walk_restart": 1.0},
    "`--walk-again`": {"walk_again": True},
    "`--walk-again --prune-above 0.2`": {"walk_again": True, "prune_above": 0.2},
    "`--walk-again --prune-above 0.4`": {"walk_again": True, "prune_above": 0.4},
    "`--graph-weights fixed:0.5`": {"graph_weights": "fixed:0.5"},
    "`--graph-weights bandit:0.5`": {"graph_weights": "bandit:0.5"},
    "`--graph-sides labels`": {"graph_sides": ("labels",)},
    "AugGT": {"graphs": ("none",), "augment": "propagation"},
}


def precision(data: Planted, options: Mapping[str, Any]) -> float:
    """P@1 of block C, in percent."""
    bundle, test = recipes.ramen(data.dataset, **{**SETTINGS, **options}), data.dataset.test
    assert test is not None
    best = bundle.rank(test.documents, 1, kind="encoder", exclude=test.filtered).ids[:, 0]
    right = test.targets.toarray()[np.arange(len(best)), best] > 0
    return 100 * float(right[data.blocks == "C"].mean())


def without_wrong_edges(noisy: Planted, clean: Planted) -> Planted:
    """The edges of one that the other has, too."""
    one, other = (data.dataset.graphs["topic"] for data in (noisy, clean))
    assert one.train is not None
    assert one.label is not None
    graph = Graph(one.nodes, one.train.multiply(other.train != 0).tocsr(), one.label.multiply(other.label != 0).tocsr())
    return noisy._replace(dataset=replace(noisy.dataset, graphs={"topic": graph}))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--random", type=float, nargs="+", default=[0.0, 0.6])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    clean = [planted(seed, documents=options.documents) for seed in options.seeds]
    noisy = {
        share: [planted(seed, documents=options.documents, random_edges=share) for seed in options.seeds]
        for share in options.random
    }
    print(f"| {options.documents:,} documents | {' | '.join(f'{share:.0%} random edges' for share in noisy)} |")
    print("|---|" + "---|" * len(noisy), flush=True)
    for name, row in ROWS.items():
        cells = (", ".join(f"{precision(data, row):.0f}" for data in every) for every in noisy.values())
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    known = ([without_wrong_edges(*pair) for pair in zip(every, clean, strict=True)] for every in noisy.values())
    cells = (", ".join(f"{precision(data, {}):.0f}" for data in every) for every in known)
    print(f"| wrong edges known and dropped | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
