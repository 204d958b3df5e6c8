"""Documents of two words, of which the first is the label: no inner product of bags of words can see which it is.

Where they are to know the ends of a text, they can; here a first stage does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts

NAMES = [f"w{letter}" for letter in "abcdefghijkl"]
_SMALL: dict[str, Any] = {"epochs": 4, "width": 16, "batch": 64, "warmup": 5, "validation": 0.2, "device": "cpu"}
FIRST_STAGE = {**_SMALL, "ends": False}
CROSS: dict[str, Any] = {"candidates": 4, "negatives": 3, "batch": 32, "learning_rate": 3e-3, "max_length": 16}


def split(documents: int, seed: int) -> Split:
    """So many documents, each of two different words."""
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(len(NAMES), 2, replace=False).tolist() for _ in range(documents)]
    titles = [f"{NAMES[i]} {NAMES[j]}" for i, j in drawn]
    return Split(Texts.of(titles), csr_of_lists([[i] for i, _ in drawn], len(NAMES)))


def ordered(documents: int = 800) -> Dataset:
    """The data set, with 200 test documents."""
    labels = Texts.of(NAMES, uids=[f"uid-{name}" for name in NAMES])
    return Dataset("ordered", split(documents, 0), labels, split(200, 1))
