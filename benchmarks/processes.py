"""A recipe in one process of N threads beside N processes of one thread, in turns: documents a second, and a ratio.

    python benchmarks/processes.py DATA [--recipe unidec] [--processes 2] [--rounds 3] [-- --refresh-from 9 ...]

Each round trains for two epochs, once in either way, and reads what the log of the run says of the second one, which
starts warm. What stands behind ``--`` are options of the recipe; those that put off what is done between epochs leave
the steps alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from longtail.train.log import LOG, read_log


def documents_a_second(launcher: list[str], threads: int, data: str, recipe: str, options: list[str]) -> float:
    """Of the second epoch of a run's first stage."""
    folder = Path(tempfile.mkdtemp())
    command = [sys.executable, "-m", *launcher, "longtail", "train", recipe, data, "--out", str(folder / "run")]
    command += ["--epochs", "2", "--threads", str(threads), "--no-refit", *options]
    try:
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": str(threads)}
        )
        epochs = [line for line in read_log(folder / "run" / LOG) if line.get("epoch") == 2]
        return float(epochs[0]["rows_per_second"])
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Print each round, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--recipe", default="unidec")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    o, rest = parser.parse_known_args()
    options = [option for option in rest if option != "--"]
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(o.processes), "-m"]
    found: list[tuple[float, float]] = []
    for number in range(o.rounds):
        together = documents_a_second(torchrun, 1, o.data, o.recipe, options)
        alone = documents_a_second([], o.processes, o.data, o.recipe, options)
        found.append((together, alone))
        print(
            f"round {number + 1}: {together:,.0f} and {alone:,.0f} documents a second: {together / alone:.2f}",
            flush=True,
        )
    ratios = [together / alone for together, alone in found]
    median = statistics.median(ratios)
    print(f"{o.processes} processes of 1 thread have {median:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) of the")
    print(f"documents a second of 1 process of {o.processes} threads")


if __name__ == "__main__":
    main()
