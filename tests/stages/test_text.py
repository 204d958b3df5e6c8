"""The paragraphs that recipes share, one by one."""

from __future__ import annotations

import numpy as np
import torch

from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.stages.text import mine

LABELS = np.eye(4, dtype=np.float32)
DOCUMENTS = np.array([[4, 3, 2, 1], [1, 2, 3, 4]], np.float32)  # label 0 is nearest to the first, label 3 to the second


def test_mined_negatives_are_the_nearest_labels_that_are_neither_true_nor_filtered() -> None:
    split = Split(Texts.of(["a", "b"]), csr_of_lists([[0], [1, 3]], 4), csr_of_lists([[2], []], 4))
    ids = mine(split, DOCUMENTS, LABELS, 3, device=torch.device("cpu"))
    assert ids.tolist() == [[1, 3, -1], [2, 0, -1]]


def test_mined_negatives_without_a_filter() -> None:
    split = Split(Texts.of(["a", "b"]), csr_of_lists([[], [3]], 4), None)
    assert mine(split, DOCUMENTS, LABELS, 2, device=torch.device("cpu")).tolist() == [[0, 1], [2, 1]]
