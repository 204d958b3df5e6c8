"""``longtail compare``: recipes side by side on one data set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.json_file import JsonFile, console_beside, keep_json
from longtail.compare.comparison import compare as run
from longtail.compare.methods import Method
from longtail.compare.peers import PEERS, about
from longtail.ending import at_the_end
from longtail.options import seconds_of
from longtail.report.names import short_names
from longtail.report.selection import unfinished
from longtail.report.terminal import summary

_THERE_ARE = "; ".join(f"{name}: {about(name)}" for name in PEERS)


def compare(
    data: Annotated[Path, typer.Argument(help="A data set folder with a test split.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder of the comparison; one that was stopped goes on.")],
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            help="What to compare: recipe, recipe:argument=value,... or label=recipe:argument=value,...; or the folder "
            "of a finished run with a / in it, as runs/mine or label=runs/mine-{seed}.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each recipe, with the seeds 0, 1, and so on.")] = 3,
    peers: Annotated[str, typer.Option(help=f"Other tools, with commas; also peer:argument=value. {_THERE_ARE}.")] = "",
    peer_python: Annotated[
        str, typer.Option(help="A Python that has the peers' packages.", show_default="this one")
    ] = sys.executable,
    budget: Annotated[
        str | None, typer.Option(help="Stop a run after so long: 90s, 10m, 2h. Given more, it goes on.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Train recipes and peers with several seeds each, and judge them and finished runs alike on the test split.

    Writes report.html, results.md and results.json, anew after every run; the first recipe is the baseline.
    What is done is not done again: the same command goes on with a comparison that was stopped, and does what was added
    to it.
    """
    console = console_beside(json_file)
    methods = [Method.parse(text) for text in recipes or ()] + Method.parse_peers(peers)
    limit = None if budget is None else seconds_of("budget", budget)
    with at_the_end(lambda: "the same command goes on with what is left"):
        results = run(data, methods, out, seeds=seeds, budget=limit, peer_python=peer_python, console=console)
    console.print(summary(results))
    keep_json(json_file, results)
    for label, name in short_names(results["rows"]).items():
        if name != label:
            console.print(f"{name} is {label}", highlight=False, markup=False)
    for what, label, seed, why in unfinished(results):
        style = "red" if what == "failed" else "yellow"
        console.print(f"{label}, seed {seed}, {what}: {why}", style=style, highlight=False, markup=False)
    files = ", ".join(str(out / name) for name in ("report.html", "results.md", "results.json"))
    console.print(f"Report, tables and numbers: {files}", highlight=False, markup=False)
    runs = out / "runs"
    console.print(f"Next: longtail predict, evaluate or serve with a run below {runs}", highlight=False, markup=False)
    if results["failed"]:
        raise typer.Exit(1)
