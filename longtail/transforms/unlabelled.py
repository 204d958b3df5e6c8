"""Texts without labels as training rows: for who learns from a teacher what labels they may have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.filters import identity_pairs
from longtail.data.io.records import read_lines
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts


def unlabelled(dataset: Dataset, *, seed: int, texts: str = "", most: int | None = None) -> Dataset:
    """The texts of labels, and those of a file, as training rows without labels.

    Losses that are defined by true pairs leave them out; a teacher (`longtail.stages.teacher`) says what it thinks of
    them, which were no documents when it was trained. A label that has the text of a row is in the row's filter: that
    it says the same is known, and a teacher that is sure of it would say nothing of other labels.

    Args:
        dataset: N training documents and L labels.
        seed: of which texts are taken.
        texts: a file of further texts, a title a line.
        most: how many of all these are taken, at random; all if left out.

    Raises:
        BadInput: there is no such file.
    """
    known = dataset.train.documents.fields
    columns = {name: column for name, column in dataset.labels.fields.items() if name in known}
    rows = Texts.of_columns(columns)
    if texts:
        rows = rows.followed_by(Texts.of_columns({"title": read_lines(Path(texts))}))
    if most is not None and most < len(rows):
        rows = rows.take(np.sort(np.random.default_rng([seed, 0, 0, 0, 12]).permutation(len(rows))[:most]))
    none = csr_of_lists([[]] * len(rows), len(dataset.labels))
    return dataset.with_rows(Split(rows, none, identity_pairs(rows, dataset.labels)))
