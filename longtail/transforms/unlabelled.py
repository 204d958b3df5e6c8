"""Texts without labels as training rows: for who learns from a teacher what labels they may have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.io.records import read_lines
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput


def unlabelled(dataset: Dataset, *, seed: int, texts: str = "", most: int | None = None) -> Dataset:
    """Texts of a file as training rows without labels.

    Losses that are defined by true pairs leave them out; a teacher (`longtail.stages.teacher`) says what it thinks of
    them.

    Args:
        dataset: N training documents.
        seed: of which texts are taken.
        texts: the file, a title a line.
        most: how many of them are taken, at random; all if left out.

    Raises:
        BadInput: there is no such file.
    """
    if not texts:
        problem = "expected a file with a text a line, found none"
        raise BadInput("augment unlabelled:texts", problem, remedy="write --augment unlabelled:texts=FILE")
    lines = read_lines(Path(texts))
    if most is not None and most < len(lines):
        lines = lines.take(np.sort(np.random.default_rng([seed, 0, 0, 0, 10]).permutation(len(lines))[:most]))
    labels = len(dataset.labels)
    rows = Texts(Strings.of([""] * len(lines)), {"title": lines})
    return dataset.with_rows(Split(rows, csr_of_lists([[]] * len(lines), labels)))
