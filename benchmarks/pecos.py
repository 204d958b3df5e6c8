"""A recipe against PECOS XR-Linear: training and prediction time, size and accuracy, as ratios from one comparison.

    python benchmarks/pecos.py DATA --peer-python peers/bin/python --out FOLDER [--recipe unidec]

Both are run by `longtail compare`, one after the other, each in a process of its own, on the same features and split.
Times of PECOS are with its features. Ratios are the recipe's value divided by that of PECOS.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def measured(row: dict[str, Any]) -> dict[str, float]:
    """What is compared of a row of ``results.json``."""
    (run,), found = row["runs"], row["kinds"][row["headline"]]
    return {
        "training, s": run["seconds"],
        "prediction, ms a text": run["milliseconds_a_text"][row["headline"]],
        "model, MiB": run["model_bytes"] / 2**20,
        **{name: found[name]["mean"] for name in ("P@1", "P@5", "PSP@5", "C@5")},
    }


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--recipe", default="unidec")
    options = parser.parse_args()
    peers = ["--peers", "pecos", "--peer-python", options.peer_python]
    command = ["compare", options.data, options.recipe, *peers, "--seeds", "1", "--out", str(options.out)]
    subprocess.run([sys.executable, "-m", "longtail", *command], check=True)
    rows = json.loads((options.out / "results.json").read_text(encoding="utf-8"))["rows"]
    ours, theirs = (measured(rows[name]) for name in (options.recipe, "pecos"))
    for name, value in ours.items():
        print(
            f"{name:22s} {options.recipe} {value:9.3f}   pecos {theirs[name]:9.3f}   ratio {value / theirs[name]:7.2f}"
        )


if __name__ == "__main__":
    main()
