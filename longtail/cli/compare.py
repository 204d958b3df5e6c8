"""``longtail compare``: recipes side by side on one data set."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from longtail.compare.compare import compare as run
from longtail.compare.methods import Method
from longtail.compare.tables import summary


def compare(
    data: Annotated[Path, typer.Argument(help="A data set folder with a test split.", show_default=False)],
    recipes: Annotated[
        list[str],
        typer.Argument(
            help="What to compare: recipe, recipe:argument=value,... or label=recipe:argument=value,...",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder of the comparison; one that was stopped goes on.")],
    seeds: Annotated[int, typer.Option(help="Runs of each recipe, with the seeds 0, 1, and so on.")] = 3,
) -> None:
    """Train recipes with several seeds each, one run after the other, and judge them alike on the test split.

    Writes results.json and results.md, anew after every run; differences are taken to the first recipe. What is done is
    not done again: the same command goes on with a comparison that was stopped, and does what was added to it.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the training process ends with this one
    console = Console()
    results = run(data, [Method.parse(text) for text in recipes], out, seeds=seeds, console=console)
    console.print(summary(results))
    console.print(f"The tables are in {out / 'results.md'}, every number in {out / 'results.json'}.", highlight=False)
    if results["failed"]:
        raise typer.Exit(1)
