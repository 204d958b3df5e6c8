"""The report: one HTML page that needs nothing else, for a comparison or for a single run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from operator import methodcaller
from typing import Any

from longtail.metrics.ranking import columns, metric_of
from longtail.report.costs import NOTE, costs
from longtail.report.figures import (
    Series,
    bars,
    cost_plots,
    graph_curves,
    kept,
    noted_of_graphs,
    reliability_plot,
    training_curves,
)
from longtail.report.groups import groups_of_row
from longtail.report.html_parts import breakable, cell_of, document, figure_card, grid, paragraph, row_of, table_of
from longtail.report.names import short_names
from longtail.report.selection import best_of, differing, unfinished
from longtail.units import duration, half_width, is_sure, size


def series_of(rows: Mapping[str, Mapping[str, Any]]) -> list[Series]:
    """The headline of each method; where there is but one method, all its score kinds."""
    if len(rows) == 1:
        ((label, row),) = rows.items()
        names = [kind if len(row["kinds"]) > 1 else label for kind in row["kinds"]]
        return [Series(name, row, kind, i) for i, (name, kind) in enumerate(zip(names, row["kinds"], strict=True))]
    return [Series(label, row, row["headline"], i) for i, (label, row) in enumerate(rows.items())]


def page(results: Mapping[str, Any], logs: Mapping[str, Sequence[Mapping[str, Any]]], shown: Mapping[str, Any]) -> str:
    """The page.

    Args:
        results: what ``results.json`` holds.
        logs: the lines of ``metrics.jsonl`` of a run of each method that has them.
        shown: what `longtail.report.examples.examples` returns; empty where nothing is done.
    """
    names, data = short_names(results["rows"]), results["data"]
    results = {**results, **{part: _renamed(results[part], names) for part in ("rows", "differences")}}
    rows, logs = results["rows"], _renamed(logs, names)
    if shown:
        shown = {**shown, "methods": [names.get(method, method) for method in shown["methods"]]}
    sections = {"": _unfinished(results)}
    if rows:
        sections |= _sections(results, logs, shown)
        sections[""] += _names(names)
    only = f": {next(iter(rows))}" if len(rows) == 1 else ""
    return document(f"{data['name']}{only}", _about(results), sections, shown)


def _renamed(rows: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names[label]: row for label, row in rows.items()}


def _names(names: Mapping[str, str]) -> str:
    """What the methods are whose names on the page are short."""
    inside = "".join(
        f'<dt title="{escape(label)}">{escape(name)}</dt><dd>{breakable(label)}</dd>'
        for label, name in names.items()
        if name != label
    )
    return f'<dl class="names">{inside}</dl>' if inside else ""


def _sections(
    results: Mapping[str, Any], logs: Mapping[str, Sequence[Mapping[str, Any]]], shown: Mapping[str, Any]
) -> dict[str, str]:
    """What the page says of runs that are done, by title."""
    rows, series = results["rows"], series_of(results["rows"])
    sections = {
        "": _unfinished(results) + _cards(series),
        "Accuracy": _accuracy(results) + _differences(results),
        "Head to tail": bars(series, results["bins"]),
        "By query": groups_of_row(next(iter(rows.values()))) if len(rows) == 1 else "",
        "Probabilities": reliability_plot(series),
        "Accuracy against cost": cost_plots(series) if len(rows) > 1 else "",
        "Costs": _costs(rows),
        "Training": training_curves(logs),
        "Graphs": _graphs(logs),
        "Examples": _examples(shown),
        "How this was made": _provenance(results),
    }
    return {title: body for title, body in sections.items() if body}


def _about(results: Mapping[str, Any]) -> str:
    data, machine = results["data"], results["machine"]
    counts = ("documents", "training documents"), ("test_documents", "test documents"), ("labels", "labels")
    sizes = ", ".join(f"{data[key]:,} {name}" for key, name in counts)
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['gpu'] or 'no GPU'}"
    return f'<p class="muted">{sizes}. {results["date"]}, {escape(where)}.</p>'


def _unfinished(results: Mapping[str, Any]) -> str:
    return "".join(
        f'<div class="{what}"><b>{escape(label)}</b>, seed {seed}, {what}: {escape(why)}</div>'
        for what, label, seed, why in unfinished(results)
    )


def _cards(series: Sequence[Series]) -> str:
    """Who is best at what; of a single run, what it predicts with is worth."""
    alone = len({id(one.row) for one in series}) == 1
    among = [one for one in series if one.kind == one.row["headline"]] if alone else series
    cards = []
    for name, metric in columns(lambda metric: metric.card, series[0].metrics).items():
        best = max(among, key=lambda one: one.metrics[name]["mean"])
        cards.append(figure_card(f"{name}, {metric.best}", f"{best.metrics[name]['mean']:.1f} %", _key(best)))
    for what, name, write in (("shortest training", "seconds", duration), ("smallest model", "model_bytes", size)):
        least = min(among, key=methodcaller("cost", name))
        cards.append(figure_card(what.split()[1] if alone else what, write(least.cost(name)), _key(least)))
    return grid(cards, "small")


def _key(of: Series) -> str:
    return f'<div class="who"><span class="key" style="--c:var(--s{of.colour % 10})"></span>{breakable(of.name)}</div>'


def _accuracy(results: Mapping[str, Any]) -> str:
    rows, data = results["rows"], results["data"]
    best, lines = best_of(rows), []
    for label, row in rows.items():
        kinds = row["headline"], *(kind for kind in row["kinds"] if kind != row["headline"])
        for kind in kinds:
            of, head = row["kinds"][kind], kind == row["headline"]
            cells = [
                cell_of(f"{of[name]['mean']:.2f}", f"±{half_width(of[name]):.2f}", of[name]["mean"] == value, name)
                for name, value in best.items()
            ]
            lines.append(row_of(label if head else "", cells, "head" if head else "other", kind))
    constants = (
        "" if data["A"] is None else f" PSP with A = {data['A']:g}, B = {data['B']:g}, N = {data['documents']:,}."
    )
    note = (
        f"Percent on the test split, filtered: {_seeds(rows)}, with half the width of the 95 % interval "
        "over test documents. Under a method is the score that it predicts with, dimmed are its others; the best of a "
        f"column is bold.{constants}"
    )
    return paragraph(note) + table_of(["method and score", *best], lines, _tips(best))


def _tips(names: Iterable[str]) -> dict[str, str]:
    """What each metric is, for the header of its column."""
    return {name: metric_of(name).about for name in names}


def _seeds(rows: Mapping[str, Any]) -> str:
    """What the numbers are means of."""
    counts = sorted({len(row["runs"]) for row in rows.values()})
    return "one seed" if counts == [1] else f"means over {' or '.join(map(str, counts))} seeds"


def _differences(results: Mapping[str, Any]) -> str:
    if not results["differences"]:
        return ""
    names = differing(results["differences"])
    lines = []
    for label, of in results["differences"].items():
        cells = (cell_of(f"{of[n]['mean']:+.2f}", f"±{half_width(of[n]):.2f}", is_sure(of[n])) for n in names)
        lines.append(row_of(label, cells))
    first = breakable(next(iter(results["rows"])))
    note = (
        f"Against the baseline, {first}, in percentage points, with paired 95 % intervals; bold where 0 is not in the "
        "interval."
    )
    return f"<h3>Differences</h3>{paragraph(note)}{table_of(['method', *names], lines, _tips(names))}"


def _costs(rows: Mapping[str, Any]) -> str:
    found = costs(rows)
    lines = []
    for label, of in found.items():
        below = (f"<small>{one.ratio}</small>" if one.ratio and len(rows) > 1 else "" for one in of.values())
        cells = (f"<td>{one.said}{ratio}</td>" for one, ratio in zip(of.values(), below, strict=True))
        lines.append(row_of(label, cells))
    note = f"Each run in a process of its own; {_seeds(rows)}. {NOTE}"
    return paragraph(note) + table_of(["method", *next(iter(found.values()))], lines)


def _graphs(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """What bandits and pruning did to the metadata graphs of the runs that have them."""
    noted = {label: found for label, log in logs.items() if (found := noted_of_graphs(log))}
    if not noted:
        return ""
    lines = []
    for label, graphs in noted.items():
        for name, of in graphs.items():
            (_, first), (_, last) = of[0], of[-1]
            weights = f"<td>{first['weight']:.3f}</td><td>{last['weight']:.3f}</td>"
            edges = f"<td>{last['of']:,}</td><td>{last['edges']:,}</td><td>{kept(last):.1f} %</td>"
            lines.append(row_of(label, [weights, edges], below=name))
    note = (
        "A loss term a graph and side draws documents, or labels, to their neighbours in the graph. Its weight is the "
        "mean of a bandit, which rises where the term helps the task. Pruning drops edges whose ends the encoder finds "
        "unlike; dropped edges may come back. The last values are those of the last epoch, of the run with the first "
        "seed."
    )
    header = ["method, graph and side", "first weight", "last weight", "edges", "kept at last", "share"]
    return paragraph(note) + graph_curves(noted) + table_of(header, lines)


def _examples(shown: Mapping[str, Any]) -> str:
    methods = shown["methods"] if shown else []
    if not methods:
        return ""
    note = (
        "Drawn at random, not picked. True labels that a method found are bold. &times; counts the training documents "
        'of a label; <span class="unseen">unseen</span> labels have none. Ahead: a higher nDCG@5.'
    )
    if len(methods) == 1:
        return f'{paragraph(note)}<div id="documents"></div>'
    options = [f'<option value="{i}">{escape(name)}</option>' for i, name in enumerate(methods)]
    last = len(methods) - 1
    other = "".join(options[:last]) + options[last].replace(" value", " selected value")
    choose = (
        f'<label>method<select id="first">{"".join(options)}</select></label>'
        f'<label>beside<select id="second">{other}</select></label><label>documents<select id="view">'
        '<option value="random">of all</option><option value="first"></option><option value="second"></option>'
        "</select></label>"
    )
    lines = []
    for i, name in enumerate(methods):
        cells = (f"<td>{share:.1f}</td>" if i != j else "<td></td>" for j, share in enumerate(shown["wins"][i]))
        lines.append(row_of(name, cells))
    counted = "Percent of the test documents on which the method of a row is ahead of that of a column."
    table = f"{paragraph(counted)}{table_of(['', *methods], lines)}"
    wins = f"<details><summary>Wins and losses of all pairs</summary>{table}</details>"
    return f'{paragraph(note)}{wins}<div class="choose">{choose}</div><div id="documents"></div>'


def _provenance(results: Mapping[str, Any]) -> str:
    runs = [run for row in results["rows"].values() for run in row["runs"]]
    commands = "".join(f'<code class="line">{escape(run["command"])}</code>' for run in runs)
    versions = {", ".join(f"{name} {number}" for name, number in run["versions"].items()): None for run in runs}
    threads = results["machine"]["threads"]
    hashes = "\n".join(f"{name} {value}" for name, value in results["data"]["hashes"].items())
    lines = [*versions, f"{threads} thread" + "s" * (threads != 1)]
    return (
        f"<h3>Commands</h3><pre>{commands}</pre>"
        f"<h3>Versions</h3><pre><code>{escape(chr(10).join(lines))}</code></pre>"
        f"<details><summary>SHA-256 of the data</summary><pre><code>{escape(hashes)}</code></pre></details>"
    )
