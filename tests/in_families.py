"""Documents whose labels only documents near to them say."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longtail import Dataset
from longtail.model.label_set import LabelSet, NewLabel

FAMILIES, OF_A_FAMILY, LABELS, A_DOCUMENT = 150, 8, 300, 8
ROUNDING = 2e-5  # of scores: near cosines are told apart by a softmax at 0.07, and weighed


def families(seed: int) -> tuple[Dataset, list[str]]:
    """Documents in families: each has words of its own, which its documents share, and labels drawn at random.

    A label is in many families, so that few epochs cannot teach its vector all of their words.
    """
    rng = np.random.default_rng(seed)
    labels = [sorted(rng.choice(LABELS, A_DOCUMENT, replace=False).tolist()) for _ in range(FAMILIES)]

    def titles(family: int, count: int) -> list[str]:
        return [" ".join(f"w{family}x{i}" for i in rng.choice(6, 4, replace=False)) for _ in range(count)]

    train = [(title, labels[f]) for f in range(FAMILIES) for title in titles(f, OF_A_FAMILY)]
    test = [(title, labels[f]) for f in range(FAMILIES) for title in titles(f, 2)]
    names = [f"label{i}" for i in range(LABELS)]
    dataset = Dataset.from_texts([t for t, _ in train], [y for _, y in train], names)
    held = Dataset.from_texts([t for t, _ in test], [y for _, y in test], names)
    return Dataset("families", dataset.train, dataset.labels, held.train), [t for t, _ in test]


def with_new_labels(run: Path, titles: list[str]) -> LabelSet:
    """The labels of a run, and two whose texts say nothing, of which the one with an example is found by it."""
    labels = LabelSet(run, device="cpu")
    labels.add([NewLabel("new", "nothing", [{"title": titles[0]}]), NewLabel("other", "nothing")])
    snapshot = labels.refresh()
    assert "new" in [label.uid for label in snapshot.predict([titles[0]], k=9)[0]]
    for kind in snapshot.kinds:  # the segments rank as one model of all labels
        one, many = (model.predict(titles[:20], k=7, kind=kind) for model in (snapshot.folded, snapshot))
        np.testing.assert_array_equal(one.ids, many.ids)
        np.testing.assert_allclose(one.scores, many.scores, atol=ROUNDING)
    return labels
