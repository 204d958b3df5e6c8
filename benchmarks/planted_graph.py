"""What RAMEN gains over its base on planted data, with a graph as dense as that of the paper and with a thin one.

    python benchmarks/planted_graph.py [--base ance] [--documents 1000] [--seeds 0 1 2]

`longtail.testing.planted_graph.planted_graph`; a bag 48 wide, 8 epochs, the encoder alone. The first row is the base;
the others are gains over it: P@1, PSP@5 and R@5, as means over seeds, with the standard deviation of the gain.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
from wrong_edges import ENCODER

from longtail import Dataset, evaluate, recipes
from longtail.testing.planted_graph import planted_graph

GRAPHS: Mapping[str, Mapping[str, Any]] = {
    "39 links, 11 documents a node (Wikipedia)": {},
    "3.2 links, 2.4 documents a node (as MSDocs)": {"links": 3.2, "documents_per_node": 2.4, "label_links": 2.0},
}
ROWS: Mapping[str, Mapping[str, Any]] = {
    "base (`--graphs none`)": {"graphs": ("none",)},
    "`--graph-weights bandit:0.03`": {"graph_weights": "bandit:0.03"},
    "`--graph-weights fixed:0.03`": {"graph_weights": "fixed:0.03"},
    "`--graph-weights fixed:0.1`": {"graph_weights": "fixed:0.1"},
    "`--graph-weights fixed:0.3`": {"graph_weights": "fixed:0.3"},
    "`--graph-weights fixed:1`": {"graph_weights": "fixed:1"},
    "`--no-prune`": {"prune": False},
    "`--graph-sides documents`": {"graph_sides": ("documents",)},
    "`--graph-sides labels`": {"graph_sides": ("labels",)},
}
METRICS = ("P@1", "PSP@5", "R@5")


def measured(dataset: Dataset, base: str, options: Mapping[str, Any]) -> list[float]:
    """The metrics of the encoder, in percent."""
    found = evaluate(recipes.ramen(dataset, base=base, **{**ENCODER, **options}), dataset).kinds["encoder"]
    return [found[name] for name in METRICS]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="ance")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    sets = {
        name: [planted_graph(seed, documents=options.documents, **graph) for seed in options.seeds]
        for name, graph in GRAPHS.items()
    }
    print(f"| {', '.join(METRICS)} | {' | '.join(sets)} |")
    print("|---|" + "---|" * len(sets), flush=True)
    bases: dict[str, Any] = {}
    for row, given in ROWS.items():
        cells = []
        for name, seeds in sets.items():
            values = np.array([measured(dataset, options.base, given) for dataset in seeds])  # (seeds, 3)
            gains = values - bases.setdefault(name, values)
            pairs = zip(gains.mean(0), gains.std(0), strict=True)
            said = values.mean(0) if not gains.any() else [f"{mean:+.1f} ± {spread:.1f}" for mean, spread in pairs]
            cells.append(", ".join(value if isinstance(value, str) else f"{value:.1f}" for value in said))
        print(f"| {row} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
