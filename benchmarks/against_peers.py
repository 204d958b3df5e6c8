"""Comparisons of several data sets as one table for the documentation: each method's headline score, set by set.

    longtail compare SET unidec --peers pecos,napkinxc,neighbours,bm25 --peer-python peers/bin/python --out COMPARISON
    python benchmarks/against_peers.py COMPARISON ...

The best figure of a set is bold; with more than one seed a figure is their mean.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from longtail.files import read_json

METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5", "R@5", "C@5")


def lines(results: dict[str, Any]) -> list[str]:
    """The rows of one set, the best first in each column being bold."""
    found = {}
    for name, row in results["rows"].items():
        kind = row["kinds"][row["headline"]]
        label = f"`{name}`, {row['headline']}" if row["headline"] != "peer" else name
        found[label] = (len(kind["P@1"]["seeds"]), [kind[metric]["mean"] for metric in METRICS])
    best = [max(round(values[i], 1) for _, values in found.values()) for i in range(len(METRICS))]
    rows = []
    for position, (label, (seeds, values)) in enumerate(found.items()):
        cells = (f"{value:.1f}" for value in values)
        shown = (f"**{cell}**" if float(cell) == top else cell for cell, top in zip(cells, best, strict=True))
        rows.append(f"| {'' if position else results['data']['name']} | {label} | {seeds} | {' | '.join(shown)} |")
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparisons", nargs="+", type=Path, metavar="COMPARISON")
    print("| set | method | seeds |", " | ".join(METRICS), "|")
    print("|---|---|---|" + "---|" * len(METRICS))
    for folder in parser.parse_args().comparisons:
        print("\n".join(lines(read_json(folder / "results.json", remedy="run the comparison"))))


if __name__ == "__main__":
    main()
