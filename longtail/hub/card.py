"""The model card of a run: the README.md of its repository, with the front matter that a hub reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from longtail.metrics.ranking import columns
from longtail.options import text_of
from longtail.report.run_summary import RunSummary
from longtail.units import duration, printable

_TAGS = ("extreme-multi-label-classification", "multi-label-classification")


def model_card(run: RunSummary, repo: str, *, labels: int, front_matter: str) -> str:
    """The card as Markdown.

    Args:
        run: the run.
        repo: ``owner/name``.
        labels: that the model has now, L.
        front_matter: YAML, as `front_matter` makes it.
    """
    name = repo.rpartition("/")[2]
    about = f"It ranks {labels:,} labels for a text, and was trained by longtail's recipe `{run.recipe}`."
    use = (
        f"    pip install 'longtail[hub]'\n    longtail pull {repo} --out {name}\n    longtail predict {name} --k 5\n\n"
        f'```python\nimport longtail\n\nmodel = longtail.load("{name}")\nmodel.predict(["a text"], k=5)\n```'
    )
    training = [
        ("data", "lists of texts" if run.data is None else Path(run.data).name),
        ("arguments", ", ".join(f"{name} {text_of(value)}" for name, value in run.arguments.items()) or "the defaults"),
        ("time", duration(run.cost.seconds)),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())),
    ]
    parts = [f"---\n{front_matter.strip()}\n---\n# {name}", about, "## How to use it", use]
    if run.evaluation:
        parts += ["## How good it is", "\n".join(_scores(run)), _said_of(run)]
    parts += ["## How it was trained", "\n".join(_table(("", ""), training)), "## What it holds", _holds(run)]
    return "\n\n".join(parts) + "\n"


def front_matter(hub: Any, run: RunSummary, repo: str, licence: str | None) -> str:
    """What a hub reads of a card: library, task, tags, licence, and the metrics of the best score kind.

    Args:
        hub: the package ``huggingface_hub``.
        run: the run.
        repo: ``owner/name``.
        licence: of the model, as the hub calls it; None leaves it open.
    """
    _, metrics = run.headline
    data = "" if run.data is None else Path(run.data).name
    results = [
        hub.EvalResult(
            task_type="text-classification",
            dataset_type="custom",
            dataset_name=data or "unnamed",
            dataset_split="test",
            metric_type=name,
            metric_value=round(value, 2),
        )
        for name, value in metrics.items()
    ]
    said = hub.ModelCardData(
        library_name="longtail",
        pipeline_tag="text-classification",
        tags=[*_TAGS, run.recipe],
        license=licence,
        model_name=repo.rpartition("/")[2] if results else None,
        eval_results=results or None,
    )
    return str(said.to_yaml())


def _scores(run: RunSummary) -> Iterator[str]:
    kinds: Mapping[str, Mapping[str, float]] = run.evaluation["kinds"]
    names = columns(lambda metric: metric.summary, {name for metrics in kinds.values() for name in metrics})
    rows = ((name, *(f"{of[name]:.2f}" if name in of else "" for of in kinds.values())) for name in names)
    yield from _table(("", *kinds), rows)


def _said_of(run: RunSummary) -> str:
    found = run.evaluation
    constants = "" if found.get("A") is None else f"; PSP with A = {found['A']:g} and B = {found['B']:g}"
    return f"In percent, on {found['n']:,} test documents{constants}. The first column is what predictions rank by."


def _holds(run: RunSummary) -> str:
    said = (
        "An encoder, and the texts and vectors of all labels. No file of it is a pickle; hashes vouch for every file."
    )
    if not run.remembers:
        return said
    return (
        f"{said} It has a memory, too: the vector and the labels of every training document, so that who has it can "
        "tell whether a text was among them."
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head = [*header]
    yield _row(head)
    yield "|" + "---|" * len(head)
    yield from map(_row, rows)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(printable(cell).replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |"
