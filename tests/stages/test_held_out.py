"""A fusion that is learned on documents that were held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from longtail import Dataset, recipes
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.stages.held_out import fuse
from longtail.topk import FloatArray
from longtail.train.run import Run


def test_a_fusion_is_not_led_astray_by_labels_that_no_scorer_finds() -> None:
    """One label without training points is found, and is true; 200 others like it are found by no scorer.

    What is learned from the one alone puts all of them first.
    """
    n, seen, unseen = 200, 400, 200
    titles = [f"common word{i}" for i in range(n)]
    texts = Texts.of(titles)
    model = recipes.dpr(Dataset.from_texts(titles, [[i] for i in range(n)], titles), epochs=0)
    x = model.encode(texts)[:, :-1]  # (n, D), all of them alike
    rng = np.random.default_rng(0)
    bias = np.repeat([[0], [-3]], [seen, 1 + unseen], 0)

    def noisy() -> FloatArray:
        near = x[np.arange(seen) % n] + 4 * rng.normal(size=(seen, x.shape[1])) / x.shape[1] ** 0.5
        return np.concatenate([near, x[:1], np.zeros((unseen, x.shape[1]))]).astype(np.float32)

    z, w = noisy(), np.concatenate([noisy(), bias], 1).astype(np.float32)
    frequency = np.repeat([5, 0], [seen, 1 + unseen])
    labels = Texts.of([str(label) for label in range(len(z))])
    model = replace(model, labels=labels, vectors={"encoder": z, "classifier": w}, ids=np.arange(len(z)))
    truth = csr_of_lists([[seen], *([i, i + n] for i in range(1, n))], len(z))
    train = Split(texts.take(np.arange(5)), csr_of_lists([np.flatnonzero(frequency)] * 5, len(z)))
    fused = fuse(Run(), model, Split(texts, truth), train, memory=False)

    def right(kind: str) -> int:
        first = fused.search(fused.encode(texts), 1, kind=kind).ids[:, 0]
        return int(np.asarray(truth[np.arange(n), first]).sum())

    assert right("fused") >= right("encoder") > n / 2
