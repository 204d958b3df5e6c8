"""The paragraphs that recipes share, one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from longtail import Dataset, recipes
from longtail.data.dataset import Split
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Texts
from longtail.recipes.fusing import fuse
from longtail.recipes.stages import mine
from longtail.topk import FloatArray

LABELS = np.eye(4, dtype=np.float32)
DOCUMENTS = np.array([[4, 3, 2, 1], [1, 2, 3, 4]], np.float32)  # label 0 is nearest to the first, label 3 to the second


def test_mined_negatives_are_the_nearest_labels_that_are_neither_true_nor_filtered() -> None:
    split = Split(Texts.of(["a", "b"]), csr_of_lists([[0], [1, 3]], 4), csr_of_lists([[2], []], 4))
    ids = mine(split, DOCUMENTS, LABELS, 3, device=torch.device("cpu"))
    assert ids.tolist() == [[1, 3, -1], [2, 0, -1]]


def test_mined_negatives_without_a_filter() -> None:
    split = Split(Texts.of(["a", "b"]), csr_of_lists([[], [3]], 4), None)
    assert mine(split, DOCUMENTS, LABELS, 2, device=torch.device("cpu")).tolist() == [[0, 1], [2, 1]]


def test_a_fusion_is_not_led_astray_by_labels_that_no_scorer_finds() -> None:
    """One label without training points is found, and is true; 200 others like it are found by no scorer.

    What is learned from the one alone puts all of them first.
    """
    n, seen, unseen = 200, 400, 200
    words = [f"word{i}" for i in range(n)]
    texts = Texts.of([f"common {word}" for word in words])
    model = recipes.dpr(Dataset.from_texts(list(texts.joined(("title",))), [[0]] * n, ["common", *words]), epochs=0)
    x = model.encode(texts)[:, :-1]  # (n, D), all of them alike
    rng = np.random.default_rng(0)
    bias = np.repeat([[0], [-3]], [seen, 1 + unseen], 0)

    def noisy() -> FloatArray:
        near = x[np.arange(seen) % n] + 4 * rng.normal(size=(seen, x.shape[1])) / x.shape[1] ** 0.5
        return np.concatenate([near, x[:1], np.zeros((unseen, x.shape[1]))]).astype(np.float32)

    z, w = noisy(), np.concatenate([noisy(), bias], 1).astype(np.float32)
    frequency = np.repeat([5, 0], [seen, 1 + unseen])
    labels = Texts.of([str(label) for label in range(len(z))])
    model = replace(model, labels=labels, vectors={"encoder": z, "classifier": w}, _indexes={})
    truth = csr_of_lists([[seen], *([i, i + n] for i in range(1, n))], len(z))
    fused = fuse(model, Split(texts, truth, None), csr_of_lists([np.flatnonzero(frequency)] * 5, len(z)))

    def right(kind: str) -> int:
        first = fused.search(fused.encode(texts), 1, kind=kind).ids[:, 0]
        return int(np.asarray(truth[np.arange(n), first]).sum())

    assert right("fused") >= right("encoder") > n / 2
