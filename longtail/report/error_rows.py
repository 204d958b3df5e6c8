"""The errors of a run as rows: labels and documents by their places, names and texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.describe import words
from longtail.data.histogram import histogram
from longtail.data.repeats import cut
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.metrics.annotations import Doubt
from longtail.metrics.bins import by_bin, label_bins
from longtail.metrics.label_errors import Confusion, LabelErrors
from longtail.metrics.places import Placed, divide
from longtail.metrics.ranking import score
from longtail.model.evaluation import must_have_test
from longtail.stages.unseen import Part
from longtail.topk import IntArray

Row: TypeAlias = dict[str, Any]
COLUMNS = {  # of each table
    "confusions": (
        *("missed", "missed_uid", "missed_text", "missed_training_documents", "missed_test_documents"),
        *("predicted", "predicted_uid", "predicted_text", "predicted_training_documents"),
        *("documents", "share", "example", "example_uid", "example_text"),
    ),
    "never_found": (
        *("label", "label_uid", "label_text", "training_documents"),
        *("test_documents", "typical_rank", "best_rank"),
    ),
    "found_too_often": (
        *("label", "label_uid", "label_text", "training_documents"),
        *("test_documents", "given", "rightly_given"),
    ),
    "annotations": (
        *("doubt", "split", "document", "document_uid", "document_text", "label", "label_uid", "label_text"),
        *("training_documents", "probability", "typical_probability", "rank"),
    ),
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Makes rows of what was found in a data set.

    Attributes:
        dataset: with a test split.
        frequency: (L,) training documents of each label.
    """

    dataset: Dataset
    frequency: IntArray

    def confusions(self, found: Sequence[Confusion], labels: LabelErrors) -> list[Row]:
        """Rows of ``confusions``."""
        test = must_have_test(self.dataset)
        return [
            {
                **self._label(one.missed, "missed"),
                "missed_training_documents": int(self.frequency[one.missed]),
                "missed_test_documents": int(labels.true[one.missed]),
                **self._label(one.predicted, "predicted"),
                "predicted_training_documents": int(self.frequency[one.predicted]),
                "documents": one.documents,
                "share": round(one.documents / int(labels.true[one.missed]), 4),
                **_named(test.documents, one.example, "example"),
            }
            for one in found
        ]

    def never_found(self, chosen: IntArray, labels: LabelErrors) -> list[Row]:
        """Rows of ``never_found``; a rank beyond those that were looked at is None."""
        ranks = {"typical_rank": labels.typical, "best_rank": labels.best}
        return [self._counted(i, labels) | {name: _rank(of[i]) for name, of in ranks.items()} for i in chosen.tolist()]

    def found_too_often(self, chosen: IntArray, labels: LabelErrors) -> list[Row]:
        """Rows of ``found_too_often``."""
        counts = {"given": labels.given, "rightly_given": labels.in_place}
        return [self._counted(i, labels) | {name: int(of[i]) for name, of in counts.items()} for i in chosen.tolist()]

    def annotations(self, found: Sequence[Doubt], parts: Sequence[Part]) -> list[Row]:
        """Rows of ``annotations``; a rank is None where the label is not among those that were looked at."""
        test = must_have_test(self.dataset)
        places = [(part.split, int(row)) for part in parts for row in part.rows]
        rows = []
        for doubt in found:
            split, row = places[doubt.document]
            rows.append(
                {
                    "doubt": doubt.kind,
                    "split": split,
                    **_named((self.dataset.train if split == "train" else test).documents, row, "document"),
                    **self._label(doubt.label),
                    "training_documents": int(self.frequency[doubt.label]),
                    "probability": round(doubt.chance, 4),
                    "typical_probability": round(doubt.typical, 4),
                    "rank": doubt.rank or None,
                }
            )
        return rows

    def _counted(self, i: int, labels: LabelErrors) -> Row:
        counts = {"training_documents": int(self.frequency[i]), "test_documents": int(labels.true[i])}
        return self._label(i) | counts

    def _label(self, i: int, name: str = "label") -> Row:
        return _named(self.dataset.labels, i, name)


def _named(texts: Texts, i: int, name: str) -> Row:
    return {name: i, f"{name}_uid": texts.uids[i], f"{name}_text": cut(texts.fields["title"][i])}


def _rank(rank: float) -> int | None:
    return int(rank) if math.isfinite(rank) else None


def by_frequency(pairs: Placed, labels: LabelErrors, dataset: Dataset, k: int) -> list[Row]:
    """Errors by how frequent labels are in training: five bins of the same volume, and unseen labels."""
    bins = label_bins(dataset.train.targets)
    recall = by_bin(pairs, bins, ks=(k,))[f"R@{k}"]
    tested, never = (
        np.bincount(bins.of_label[chosen], minlength=len(bins.names))
        for chosen in (labels.true > 0, (labels.true > 0) & (labels.found == 0))
    )
    true, given = (np.bincount(bins.of_label, of, minlength=len(bins.names)) for of in (labels.true, labels.given))
    return [
        {
            "bin": name,
            "labels": int(bins.labels[b]),
            "documents_a_label": round(float(bins.frequency[b]), 2),
            "tested_labels": int(tested[b]),
            "never_found": int(never[b]),
            "test_pairs": int(true[b]),
            f"R@{k}": round(float(recall[b]), 2),
            "given": int(given[b]),
        }
        for b, name in enumerate(bins.names)
    ]


def by_length(pairs: Placed, test: Split, fields: Sequence[str], k: int) -> list[Row]:
    """Accuracy by how many words of a document the model may read, those of all of its fields."""
    counts = np.sum([words(test.documents.fields[name]) for name in fields if name in test.documents.fields], axis=0)
    metrics = {name: ratio for name, ratio in score(pairs, ks=(1, k)).items() if name in {"P@1", f"R@{k}"}}
    rows = []
    for bar in histogram(counts, wide=True):
        inside = (counts >= bar.least) & (counts <= bar.most)
        values = {
            name: 100 * float(divide(of.gained[inside].sum(), of.possible[inside].sum()))
            for name, of in metrics.items()
        }
        rows.append({"words": bar.name, "documents": bar.number, **{name: round(v, 2) for name, v in values.items()}})
    return rows
