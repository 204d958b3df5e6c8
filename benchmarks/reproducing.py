"""The tables of the papers as commands, with the figures to expect: ``docs/explanation/reproducing.md``.

    python benchmarks/reproducing.py --write docs/explanation/reproducing.md

Published figures are in ``published.csv``, as the papers print them; settings come from `longtail.recipes.papers`.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from longtail.options import options_of
from longtail.recipes import RECIPES
from longtail.recipes.papers import PAPERS
from longtail.stages.preset import TEXTS
from longtail.stages.recipe import options_class

PUBLISHED = Path(__file__).with_name("published.csv")
METRICS = ("P@1", "P@5", "PSP@1", "PSP@5")
START = """# The tables of the papers, as commands

`--preset paper` gives a recipe what its paper sets, by the name of the data set in `dataset.json`; what else is given
comes before it. The figures are published ones, in percent, and not ours: they are what to expect on the official data
sets, with transformers, on the hardware that is named. None of these commands was run by us in full, since we have no
such hardware at hand; what was run, on other data, is in [benchmarks.md](benchmarks.md). Constants of PSP differ
between papers on the sets of Wikipedia ([metrics.md](../reference/metrics.md)). `benchmarks/reproducing.py` writes this
page.
"""


def published() -> Iterator[tuple[tuple[str, str, str], Sequence[Mapping[str, str]]]]:
    """Rows by table, hardware and data set."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for key, some in groupby(rows, key=lambda row: (row["table"], row["hardware"], row["data"])):
        yield key, list(some)


def method(row: Mapping[str, str]) -> str:
    """A row as `longtail compare` takes it."""
    recipe, _, options = row["recipe"].partition(":")
    label = re.sub(r"[^a-z0-9]+", "-", row["row"].lower()).strip("-")
    return f"{label}={recipe}:preset=paper" + (f",{options}" if options else "")


def table(data: str, rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The command of a table, and its figures."""
    yield f"    longtail compare {data} \\"
    yield from (f"        {method(row)} \\" for row in rows)
    yield from ("        --seeds 1 --out OUT", "")
    yield f"| published | {' | '.join(METRICS)} |"
    yield "|---|---|---|---|---|"
    yield from (f"| {row['row']} | {' | '.join(row[metric] for metric in METRICS)} |" for row in rows)


def settings(recipe: str) -> Iterator[str]:
    """What a paper sets, beside the default."""
    paper, known = PAPERS[recipe], options_of(options_class(RECIPES[recipe]))
    yield from ("| option | paper | default | source |", "|---|---|---|---|")
    for data, some in {"": paper.settings, **paper.by_data}.items():
        for name, setting in some.items():
            flag = f"`--{name.replace('_', '-')}`" + (f", {data}" if data else "")
            yield f"| {flag} | {shown(setting.value)} | {shown(known[name].default)} | {setting.source} |"
    if paper.departs:
        yield from ("", "Not so here:", "", *(f"- {line}" for line in paper.departs))


def shown(value: object) -> str:
    """A value as it is given on the command line."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)


def texts() -> Iterator[str]:
    """What is read of a text, by data set."""
    yield from ("| data set | `--fields` | `--max-length` |", "|---|---|---|")
    for data, some in TEXTS.items():
        yield f"| {data} | {shown(some['fields'].value)} | {some['max_length'].value} |"


def page() -> str:
    """The page."""
    lines = [START + "## Tables"]
    for (title, hardware, data), rows in published():
        lines += ["", f"### {title}, {data}", f"Hardware: {hardware}.", "", *table(data, rows)]
    lines += ["", "## Settings", *texts()]
    for recipe in PAPERS:
        lines += ["", f"### `{recipe}`", *settings(recipe)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", type=Path, help="the page")
    given = parser.parse_args()
    if given.write is None:
        print(page(), end="")
    else:
        given.write.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
