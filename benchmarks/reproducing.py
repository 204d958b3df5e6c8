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
STARTS = re.compile(r"start=OUT/runs/(\w+)/")  # in a recipe: from a run of another, which is trained before it
ABOUT = ("table", "hardware", "data", "row", "recipe", "evaluate", "note")  # what is no figure in a row
START = """# The tables of the papers, as commands

`--preset paper` gives a recipe what its paper sets, by the name of the data set in `dataset.json`; what else is given
comes before it. The figures are published ones, in percent, and not ours: they are what to expect on the official data
sets, with transformers, on the hardware that is named. None of these commands was run by us in full, since we have no
such hardware at hand; what was run, on other data, is in [benchmarks.md](benchmarks.md). Constants of PSP differ
between papers on the sets of Wikipedia ([metrics.md](../reference/metrics.md)). `benchmarks/reproducing.py` writes this
page.

A comparison has a row for each score of a model; where the paper says which one its figures are of, the column `score`
does. LINKS is a file of the true links of the test documents, in the format of a graph: graph encoders have them in the
papers, too (OAK, section 5.3), where the links of OAK are predicted. A row that starts from the run of another is
trained after that, in one command. Batches and pools are in documents and labels, GB of the memory of all GPUs.

"""
ELSEWHERE = (  # tables without a command
    (
        "RAMEN, Tables 1 to 3; OAK, Tables 11 and 12, Figure 4; the thesis, Table 2.7",
        "data and traffic of a search engine, which are not public",
    ),
    (
        "RAMEN, Table 7; OAK, Tables 1 and 13; the thesis, Table 1.5",
        "examples; the report of a comparison has documents on which one method is ahead of another",
    ),
    ("RAMEN, Table 9; OAK, Table 10; the thesis, Tables 1.1 and 2.1", "sizes of data sets: `longtail data describe`"),
    ("RAMEN, Table 10", "settings, [below](#ramen)"),
)


def published() -> Iterator[tuple[tuple[str, str, str], Sequence[Mapping[str, str]]]]:
    """Rows by table, hardware and data set."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for key, some in groupby(rows, key=lambda row: (row["table"], row["hardware"], row["data"])):
        yield key, list(some)


def label(row: Mapping[str, str]) -> str:
    """What `longtail compare` calls a row."""
    return re.sub(r"[^a-z0-9]+", "-", row["row"].lower()).strip("-")


def methods(rows: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """What `longtail compare` takes, by recipe: several scores of a model are one method, called as the first.

    The recipe that a row starts from stands before it, as runs are trained in this order.
    """
    found: dict[str, str] = {}
    for row in rows:
        recipe, _, options = row["recipe"].partition(":")
        found |= {name: f"{name}={name}:preset=paper" for name in STARTS.findall(options) if name not in found}
        if recipe:
            method = f"{label(row)}={recipe}:preset=paper" + (f",{options}" if options else "")
            found.setdefault(row["recipe"], method)
    return found


def table(data: str, rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The commands of a table, and its figures."""
    called = methods(rows)
    yield f"    longtail compare {data} \\"
    yield from (f"        {method} \\" for method in called.values())
    yield "        --seeds 1 --out OUT"
    for row in rows:
        if row["evaluate"]:
            run, _, _ = called[row["recipe"]].partition("=")
            yield f"    longtail evaluate OUT/runs/{run}/seed-0 {row['evaluate']}"
    columns = [name for name in rows[0] if name not in ABOUT and any(row[name] for row in rows)]
    yield from ("", f"| published | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|")
    yield from (f"| {row['row']} | {' | '.join(row[name] for name in columns)} |" for row in rows)
    yield from _notes(rows)


def _notes(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What is to be said of rows, once for those that have the same said of them."""
    said: dict[str, list[str]] = {}
    for row in rows:
        if row["note"]:
            said.setdefault(row["note"], []).append(row["row"])
    if said:
        yield from ("", *(f"- {', '.join(names)}: {note}." for note, names in said.items()))


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
    lines += ["", "## Tables without a command", "| tables | what they have |", "|---|---|"]
    lines += [f"| {tables} | {why} |" for tables, why in ELSEWHERE]
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
