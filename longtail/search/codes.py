"""Label vectors in fewer bits, all of which are looked at: half the bytes, a quarter, or a thirtieth.

No graph and no cells: a query is compared with the code of every label, and the best of them are scored exactly, by
their rows of the table, as many as the recall that was asked for needs. So the memory that a search takes is that of
the codes, and only what they leave out is lost. In 16 and 8 bits each number has a code (faiss's scalar quantisers, in
8 bits with a range for each column); a bit a number is RaBitQ (Gao and Long, 2024), after a random rotation.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from longtail.search.base import Rows
from longtail.search.faiss import Method, columns_of, fill, load_faiss, padded

_SAMPLE = 65_536  # rows that ranges and means are learned from


def _coded(codes: str, rows: Rows, labels: int, width: int, generator: np.random.Generator) -> Any:
    """An index without vectors, by the name that faiss gives its codes, with ``{d}`` for the width."""
    faiss, columns = load_faiss(), columns_of(width)
    index = faiss.index_factory(columns, codes.format(d=columns), faiss.METRIC_INNER_PRODUCT)
    index.train(padded(rows(np.sort(generator.permutation(labels)[:_SAMPLE]))))
    return index


def _look_at_all(_index: Any, _effort: int, _wanted: int) -> None:
    """Every code is looked at; the effort is how many labels are scored exactly."""


def _method(name: str, codes: str) -> Method:
    return Method(name, partial(_coded, codes), rescored=None, set_effort=_look_at_all, fill=fill)


FLOAT16 = _method("float16", "SQfp16")
INT8 = _method("int8", "SQ8")
BINARY = _method("binary", "RR{d},RaBitQ")
