"""Static word vectors, from which an encoder's table can start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from longtail.arrays import read_array
from longtail.data.io.formats import lines
from longtail.errors import BadInput
from longtail.modules.table import Table


def start_from(table: Table, names: Sequence[str], path: Path) -> tuple[int, int]:
    """Start the rows of known words from static vectors. Their mean length becomes 1.

    Args:
        table: (V, D), changed in place.
        names: V names of its rows; words are in lower case.
        path: an ``.npy`` file, (n, D) float32; beside it a ``.txt`` file of the same name with its n words, one a line,
            in lower case.

    Returns:
        How many rows have a name that is among the words, and V.

    Raises:
        BadInput: a file is missing, or the shapes disagree with each other or with the table.
    """
    words = path.with_suffix(".txt")
    for file in (path, words):
        if not file.is_file():
            raise BadInput(file, "there is no such file", remedy="static vectors are an .npy file and a .txt file")
    vectors = read_array(path, remedy="write the file again")
    vocabulary = [*lines(words)]
    if vectors.shape != (len(vocabulary), table.width):
        problem = f"expected ({len(vocabulary)}, {table.width}), by its words and the width, found {vectors.shape}"
        raise BadInput(path, problem, remedy="give the words of these vectors, and their width")
    index = {name: i for i, name in enumerate(names)}
    known = [(index[word], i) for i, word in enumerate(vocabulary) if word in index]
    if known:
        at, source = (torch.tensor(ids) for ids in zip(*known, strict=True))
        chosen = torch.from_numpy(vectors[source.numpy()].astype(np.float32))
        chosen /= chosen.norm(dim=1).mean().clamp(min=1e-12)
        for part, rows in table.blocks():
            here = (at >= part.start) & (at < part.stop)
            rows[at[here] - part.start] = chosen[here]
    return len(known), len(table)
