"""LEVER: label texts as training rows, with the labels that a trained model thinks near as soft targets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR, csr
from longtail.errors import BadInput
from longtail.model.bundle import Bundle
from longtail.search.cells import Near
from longtail.topk import IntArray
from longtail.transforms.label_rows import Choose, Rows, with_label_rows


def lever(
    dataset: Dataset,
    *,
    seed: int,
    run: str = "",
    threshold: float = 0.8,
    nearest: int = 4,
    labels: int | None = None,
    choose: Choose = "tail",
    rows: Rows = "all",
) -> Dataset:
    """Label texts as training rows, with the labels that a teacher thinks near as soft targets.

    The teacher is a finished run whose encoder reads texts of labels, of these or of others. The row of label l has
    target (1 + cos(z_l, z_m)) / 2 for its nearest labels m, where that is above the threshold, and 1 for l itself. So a
    label with few documents borrows those of its neighbours. Source: LEVER (Buvanesh et al., ICLR 2024); departures:
    docs/explanation/methods/gandalf.md.

    Args:
        dataset: N training documents and L labels.
        seed: of what is drawn.
        run: the folder of the teacher.
        threshold: at least 0 and below 1; a target is above it.
        nearest: the most labels that a row has beside its own.
        labels: how many labels become rows; all of them if left out.
        choose: where these are fewer than all: at random, or tail labels first, as of `gandalf`.
        rows: "all", "surrogate" or "sample", as of `gandalf`.

    Raises:
        BadInput: there is no such run, or it is not finished, or the threshold is no such number.
    """
    if not run:
        problem = "expected the folder of a finished run, the teacher, found none"
        raise BadInput("augment lever:run", problem, remedy="write --augment lever:run=RUN")
    if not 0 <= threshold < 1:
        problem = f"expected at least 0 and below 1, found {threshold:g}"
        raise BadInput("augment lever:threshold", problem, remedy="a label's target for itself is 1")
    teacher = Bundle.load(Path(run) / "model", device=torch.device("cpu"))
    z = teacher.of_labels(dataset.labels)  # (L, D)

    def targets(chosen: IntArray) -> CSR:
        itself = csr(np.arange(len(chosen)), chosen, (len(chosen), len(z)))
        generator = np.random.default_rng([seed, 0, 0, 0, 9])  # the 9 parts it from other draws
        top, _ = Near(z, device=teacher.device, generator=generator).search(z[chosen], nearest, exclude=itself)
        soft = np.float32(0.5) * (1 + top.scores)
        there, places = np.nonzero((top.ids >= 0) & (soft > threshold))
        related = csr(there, top.ids[there, places], itself.shape, soft[there, places])
        related.data = np.minimum(related.data, 1)  # a cosine may be above 1 by a rounding
        return (related + itself).tocsr()

    return with_label_rows(dataset, targets, labels, choose, rows, seed)
