"""Example documents of a comparison: what each method ranks first, and where one is ahead of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from longtail.data.texts import Texts
from longtail.metrics.propensity import label_frequency
from longtail.report.judge import Judge
from longtail.topk import Float64Array, IntArray, TopK

SHOWN = 5  # labels of a ranking
QUALITY = "nDCG@5"  # by which one method is ahead of another on a document


@dataclass(frozen=True, slots=True)
class MethodRanking:
    """What is shown of a method.

    Attributes:
        name: of the method.
        top: (n, K) ranked labels of the test documents.
        quality: (n,) nDCG@5 of each document, in percent.
    """

    name: str
    top: TopK
    quality: Float64Array


def wins(methods: Sequence[MethodRanking]) -> list[list[float]]:
    """The share of test documents, in percent, on which the method of a row is ahead of that of a column."""
    return [[float(100 * (one.quality > other.quality).mean()) for other in methods] for one in methods]


def examples(
    methods: Sequence[MethodRanking], judge: Judge, labels: Texts, *, fields: Sequence[str] = ("title",), each: int = 8
) -> dict[str, Any]:
    """Documents to show, with the rankings of all methods.

    They are drawn at random, not picked: ``each`` of all test documents with labels, and as many of those on which one
    method is ahead of another, for each pair of methods.

    Args:
        methods: what is compared.
        judge: has the test split.
        labels: L texts.
        fields: of a document's text.
        each: documents of a view.

    Returns:
        ``{"methods": names, "wins": percent by row and column, "views": {"random" or "i,j": positions in "documents"},
        "documents": [{"text", "true": label ids, "tops": [label ids by method]}], "labels": {id: [text, training
        documents]}}``.
    """
    generator = np.random.default_rng(0)
    truth = judge.test.targets
    known = np.flatnonzero(np.diff(truth.indptr))
    rows = {"random": _draw(known, each, generator)}
    for i, j in permutations(range(len(methods)), 2):
        ahead = np.flatnonzero(methods[i].quality > methods[j].quality)
        rows[f"{i},{j}"] = _draw(ahead, each, generator)
    shown = np.unique(np.concatenate(list(rows.values())))
    documents = judge.test.documents.take(shown)
    content = [
        {
            "text": text,
            "true": truth.indices[truth.indptr[row] : truth.indptr[row + 1]].tolist(),
            "tops": [[i for i in method.top.ids[row, :SHOWN].tolist() if i >= 0] for method in methods],
        }
        for row, text in zip(shown.tolist(), documents.joined(fields), strict=True)
    ]
    return {
        "methods": [method.name for method in methods],
        "wins": wins(methods),
        "views": {name: np.searchsorted(shown, of).tolist() for name, of in rows.items()},
        "documents": content,
        "labels": _named(content, labels, judge),
    }


def _draw(rows: IntArray, count: int, generator: np.random.Generator) -> IntArray:
    return np.sort(generator.permutation(rows)[:count])


def _named(content: Sequence[Mapping[str, Any]], labels: Texts, judge: Judge) -> dict[int, tuple[str, int]]:
    """Text and number of training documents of every label that is shown."""
    frequency, titles = label_frequency(judge.train), labels.fields["title"]
    ids = sorted({i for one in content for row in (one["true"], *one["tops"]) for i in row})
    return {i: (titles[i], int(frequency[i])) for i in ids}
