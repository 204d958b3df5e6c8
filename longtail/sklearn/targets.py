"""The labels of documents as callers of scikit-learn give them, and answers in the same form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Number
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from longtail.data.sparse import CSR, csr, csr_of_lists, csr_of_relevance, offsets_of, row_of_entry
from longtail.data.texts import GivenText
from longtail.errors import BadInput
from longtail.topk import AnyArray, IntArray

Form: TypeAlias = Literal["lists", "single", "dense", "sparse"]
LabelTexts: TypeAlias = "Mapping[Any, GivenText] | Sequence[GivenText] | None"


class BadValue(BadInput, ValueError):
    """A `BadInput` that scikit-learn knows as a ValueError, too."""


@contextmanager
def value_errors() -> Iterator[None]:
    """Raise what is a `BadInput` as a `BadValue`."""
    try:
        yield
    except BadInput as error:
        raise BadValue(error.where, error.problem, remedy=error.remedy, line=error.line) from error


@dataclass(frozen=True, slots=True)
class Targets:
    """Which documents have which labels.

    Attributes:
        form: lists of labels, a single label a document, or an indicator that is dense or sparse.
        classes: L labels, in the order of the columns; a range, where a matrix does not name them.
        matrix: (n, L) CSR of ones.
    """

    form: Form
    classes: Sequence[Any]
    matrix: CSR

    @classmethod
    def read(cls, y: Any, documents: int) -> Targets:
        """Labels as they are given.

        Args:
            y: a scipy matrix (n, L), a 2-dimensional array (n, L) of 0 and 1, such a table of pandas whose columns are
                the labels, n lists of labels, or n labels, of which each is that of one document.
            documents: n.

        Raises:
            BadInput: it is nothing of that, or of another length.
        """
        if y is None:
            problem = "requires y to be passed, but the target y is None"
            raise BadValue("y", problem, remedy="give the labels of the documents")
        is_table = hasattr(y, "columns") or sparse.issparse(y)
        y = np.asarray(y) if hasattr(y, "__array__") and not is_table else y
        is_matrix = is_table or (isinstance(y, np.ndarray) and y.ndim == 2)
        found = cls._indicator(y) if is_matrix else cls._names(y)
        if found.matrix.shape[0] != documents:
            problem = f"expected the labels of {documents} documents, found those of {found.matrix.shape[0]}"
            raise BadValue("y", problem, remedy="give [] to a document without labels")
        return found

    @classmethod
    def _indicator(cls, y: Any) -> Targets:
        classes = y.columns.tolist() if hasattr(y, "columns") else range(y.shape[1])
        if len(classes) != len({*classes}):
            twice = next(label for i, label in enumerate(classes) if label in classes[:i])
            problem = f"expected a column for each label, found several named {twice!r}"
            raise BadValue("y", problem, remedy="give each a name of its own")
        if sparse.issparse(y):
            return cls("sparse", classes, csr_of_relevance(y, y.shape))
        values = np.asarray(y)
        is_one = values.astype(np.float64) if values.dtype.kind in "biuf" else np.full(values.shape, np.nan)
        wrong = np.argwhere((is_one != 0) & (is_one != 1))
        if len(wrong):
            (row, column), (n, L) = wrong[0], values.shape
            problem = f"expected 0 or 1 for each of {n} documents x {L} labels, found {values[row, column]!s:.40}"
            remedy = "of rows that are labels themselves make lists, as y.tolist() does"
            raise BadValue("y", f"{problem} at ({row}, {column})", remedy=remedy)
        return cls("dense", classes, csr_of_relevance(values, values.shape))

    @classmethod
    def _names(cls, y: Iterable[Any]) -> Targets:
        rows = y.tolist() if isinstance(y, np.ndarray) else [*y]
        is_single = all(isinstance(row, (str, Number, np.generic)) for row in rows)
        if is_single:
            assert_all_finite(np.asarray(rows), input_name="y")
            check_classification_targets(np.asarray(rows))
        elif not all(isinstance(row, Iterable) and not isinstance(row, str) for row in rows):
            problem = "expected labels, or lists of labels, found both, or neither"
            raise BadValue("y", problem, remedy="give each document a list of labels, [] for none")
        named = [[row] for row in rows] if is_single else [[*row] for row in rows]
        classes = in_order(label for row in named for label in row)
        columns = columns_of(classes)
        matrix = csr_of_lists([[columns[label] for label in row] for row in named], len(classes))
        return cls("single" if is_single else "lists", classes, matrix)

    def over(self, classes: Mapping[Any, int]) -> CSR:
        """(n, L) the same over other classes, by their columns; labels that are not among them are left out."""
        columns = np.array([classes.get(label, -1) for label in self.classes], np.int64)[self.matrix.indices]
        there = columns >= 0
        return csr(row_of_entry(self.matrix)[there], columns[there], (self.matrix.shape[0], len(classes)))

    def of(self, labels: Sequence[Any]) -> CSR:
        """(n, L) the same over the labels of an estimator, in whose order the columns of an unnamed matrix are.

        Raises:
            BadInput: such a matrix has more or fewer columns.
        """
        if not isinstance(self.classes, range):
            return self.over(columns_of(labels))
        if len(self.classes) != len(labels):
            problem = f"expected a column for each of the {len(labels)} labels, found {len(self.classes)}"
            raise BadValue("y", problem, remedy="give them in the order of classes_, or a table that names them")
        return self.matrix


def columns_of(classes: Sequence[Any]) -> dict[Any, int]:
    """The column of each label."""
    return {label: i for i, label in enumerate(classes)}


def in_order(labels: Iterable[Any]) -> list[Any]:
    """Distinct labels, ascending.

    Raises:
        BadInput: they are not all texts, nor all numbers.
    """
    distinct = set(labels)
    if not (all(isinstance(label, str) for label in distinct) or all(isinstance(one, Number) for one in distinct)):
        found = sorted({type(label).__name__ for label in distinct})
        raise BadValue(
            "y", f"expected labels that are all strings or all numbers, found {', '.join(found)}", remedy=_AS
        )
    return sorted(distinct)


_AS = "make them strings"


def label_records(classes: Sequence[Any], texts: LabelTexts) -> list[dict[str, str]]:
    """The uid and the text of each label.

    Args:
        classes: the labels.
        texts: by label, where those that are not there are their own text; or one a label, in their order.

    Raises:
        BadInput: there are more or fewer.
    """
    given: Iterable[GivenText]
    if texts is None or isinstance(texts, Mapping):
        given = [(texts or {}).get(label, str(label)) for label in classes]
    elif len(texts) == len(classes):
        given = texts
    else:
        problem = f"expected a text for each of {len(classes)} labels, found {len(texts)}"
        raise BadValue("label_texts", problem, remedy="give one for each column, or a dict of texts by label")
    records = ({"title": text} if isinstance(text, str) else {**text} for text in given)
    return [{**record, "uid": str(label)} for record, label in zip(records, classes, strict=True)]


def texts_in(X: Any) -> list[GivenText]:
    """The texts of a caller: strings, or objects with a title, or a table of pandas with such a column.

    Raises:
        BadInput: it is one text.
    """
    if isinstance(X, (str, Mapping)):
        raise BadValue("X", "expected several texts, found one", remedy="put it into a list")
    return [*(X.to_dict("records") if hasattr(X, "columns") else X)]


def matrix_of(rows: IntArray, values: AnyArray, labels: int) -> Any:
    """A CSR array (n, labels) of ranked labels, of the dtype that their values have.

    Args:
        rows: (n, k) columns of the labels; -1 where there is none.
        values: (n, k); one that is 0 is stored, too.
        labels: L.
    """
    there = rows >= 0
    matrix = sparse.csr_array((values[there], rows[there], offsets_of(there.sum(1))), shape=(len(rows), labels))
    matrix.sort_indices()
    return matrix


def array_of(rows: IntArray, values: AnyArray, labels: int) -> AnyArray:
    """The same as an array; a label that is not ranked has 0, or less than all that are, if one of them is below 0."""
    there = rows >= 0
    least = np.min(values, axis=1, where=there, initial=0)  # (n,)
    found = np.repeat(np.where(least < 0, least - 1, 0).astype(values.dtype)[:, None], labels, axis=1)
    found[there.nonzero()[0], rows[there]] = values[there]
    return found
