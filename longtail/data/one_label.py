"""A label among the others: those that documents have with it, and those whose texts are nearest to its own."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.near_labels import folded, trigrams
from longtail.data.repeats import cut
from longtail.errors import BadInput
from longtail.topk import Float64Array, IntArray

MOST = 10  # labels of a table


@dataclass(frozen=True, slots=True)
class Label:
    """A label.

    Attributes:
        label: its place in the data.
        uid: its name; empty where it has none.
        text: its title, cut where it is long.
        documents: training documents that have it.
    """

    label: int
    uid: str
    text: str
    documents: int


@dataclass(frozen=True, slots=True)
class Other(Label):
    """Another label.

    Attributes:
        together: those of them that have the label that was asked about, too.
        correlation: the share of that label's documents that have this one.
        similarity: of the texts, in [0, 1]: the trigrams of characters that both have, over those that one has.
    """

    together: int
    correlation: float
    similarity: float


@dataclass(frozen=True, slots=True)
class OneLabel(Label):
    """A label and others that are near to it.

    Attributes:
        test_documents: test documents that have it; None without a test split.
        correlated: labels that its training documents have too, those of most of them first.
        alike: labels with the most similar texts.
    """

    test_documents: int | None
    correlated: tuple[Other, ...]
    alike: tuple[Other, ...]


def describe_label(dataset: Dataset, name: str, *, most: int = MOST) -> OneLabel:
    """Describe a label by what it occurs with (thesis, figure 1.2) and by what it reads like.

    Args:
        dataset: that has it.
        name: its uid, or else its title.
        most: others of each kind.

    Raises:
        BadInput: no label has this name.
    """
    label = _label_of(dataset, name)
    targets = dataset.train.targets
    frequency = np.bincount(targets.indices, minlength=len(dataset.labels))
    own = targets[targets[:, [label]].nonzero()[0]]
    together = np.bincount(own.indices, minlength=len(dataset.labels))
    similarity = _similarity(dataset, label)
    uids, titles = dataset.labels.uids, dataset.labels.fields["title"]

    def others(score: Float64Array | IntArray) -> tuple[Other, ...]:
        chosen = np.lexsort((frequency, -score))[: most + 1]
        return tuple(
            Other(
                i,
                uids[i],
                cut(titles[i]),
                int(frequency[i]),
                int(together[i]),
                round(float(together[i] / max(frequency[label], 1)), 4),
                round(float(similarity[i]), 4),
            )
            for i in chosen.tolist()
            if i != label and score[i] > 0
        )[:most]

    test = dataset.test
    return OneLabel(
        label,
        uids[label],
        cut(titles[label]),
        int(frequency[label]),
        None if test is None else int((test.targets.indices == label).sum()),
        others(together),
        others(similarity),
    )


def _label_of(dataset: Dataset, name: str) -> int:
    titles = list(dataset.labels.fields["title"])
    for names in (list(dataset.labels.uids), titles):
        if name and name in names:
            return names.index(name)
    near = get_close_matches(name, titles, n=1)
    remedy = f"did you mean {cut(near[0])}?" if near else "give its uid, or its title as it is in the data"
    raise BadInput("label", f"expected the uid or the title of a label, found {name}", remedy=remedy)


def _similarity(dataset: Dataset, label: int) -> Float64Array:
    """(L,) Jaccard similarity of each title's trigrams with those of a label."""
    grams = trigrams([folded(title) for title in dataset.labels.fields["title"]])
    sizes = np.diff(grams.indptr)
    common = np.asarray((grams @ grams[[label]].T).todense()).ravel()
    similarity: Float64Array = common / np.maximum(sizes + sizes[label] - common, 1)
    return similarity
