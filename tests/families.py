"""Documents whose labels only documents near to them say."""

from __future__ import annotations

import numpy as np

from longtail import Dataset

FAMILIES, OF_A_FAMILY, LABELS, A_DOCUMENT = 150, 8, 300, 8


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
