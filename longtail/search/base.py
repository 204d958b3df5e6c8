"""What an index is, and what a row of the table of indexes says of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from longtail.data.sparse import CSR
from longtail.errors import BadInput
from longtail.topk import FloatArray, IntArray, TopK

Rows: TypeAlias = Callable[[IntArray], FloatArray]
"""Label ids to rows of a table of vectors."""


class Index(Protocol):
    """What ranks labels for queries: by the inner product with their vectors, or by more than that."""

    def search(self, queries: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        """Rank the labels of each query.

        What is found for a query does not depend on the others that it is searched with.

        Args:
            queries: (Q, D) float32, finite; Q may be 0.
            k: places to fill, at least 1; a row with fewer labels is padded with -1 and -inf.
            exclude: (Q, L) pairs that are never ranked: all stored entries, whatever their value.

        Raises:
            BadInput: the width is not the table's, the shape of ``exclude`` is not (Q, L), or k is below 1.
        """
        ...


@dataclass(frozen=True, slots=True)
class IndexKind:
    """A row of `longtail.search.INDEXES`.

    Attributes:
        build: makes an `Index` of `Rows` that read the (L, D) table, of L, and of (n, D) queries like those that will
            be asked. One that is approximate takes the keywords of `longtail.search.faiss.build` too.
        about: one line of help.
        load: opens one that was saved, from its folder and `Rows`; None where it is made anew each time.
    """

    build: Callable[..., Any]
    about: str
    load: Callable[..., Any] | None = None


def check_search(queries: tuple[int, ...], table: tuple[int, ...], k: int, exclude: CSR | None) -> None:
    """Refuse a search whose shapes do not fit.

    Args:
        queries: the shape of the queries, (Q, D).
        table: the shape of the table, (L, D).
        k: of the search.
        exclude: of the search.

    Raises:
        BadInput: see `Index.search`.
    """
    (count, width), (labels, expected) = queries, table
    if width != expected:
        problem = f"expected vectors of width {expected}, found {width}"
        raise BadInput("queries", problem, remedy="use the encoder of this index")
    if exclude is not None and exclude.shape != (count, labels):
        problem = f"expected shape {(count, labels)}, found {exclude.shape}"
        raise BadInput("exclude", problem, remedy="give one row for each query")
    if k < 1:
        raise BadInput("k", f"expected at least 1, found {k}", remedy="ask for one label or more")
