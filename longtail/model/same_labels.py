"""Whether data has the labels of a model: a label is a row of a matrix, so that others are counted as if they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longtail.data.io.formats import excerpt
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.model.base import Model

_REMEDY = (
    "give the data set that the model was trained on, or import this one again by longtail data import, with --labels "
    "and the label file of that data set (lbl.json.gz)"
)


def has_labels(model: Model, labels: Texts) -> bool:
    """Whether labels are those of a model, in its order."""
    return len(labels) == len(model.labels) and _first_other(model, labels) is None


def must_be_labels(model: Model, labels: Texts, where: str | Path) -> None:
    """Make sure that labels are those of a model, in its order.

    Two labels are one that have the same uid, or the same title, where either has no uid but the number of its row.

    Args:
        model: as it is asked.
        labels: of the data that it is asked about.
        where: the folder of the data, or the argument that holds it.

    Raises:
        BadInput: there are more or fewer, or one differs.
    """
    must_be_as_many(model, len(labels), where)
    row = _first_other(model, labels)
    if row is not None:
        expected, found = (_name(texts, row) for texts in (model.labels, labels))
        raise BadInput(
            where, f"expected the labels of the model, {expected} in row {row}, found {found}", remedy=_REMEDY
        )


def must_be_as_many(model: Model, labels: int, where: str | Path) -> None:
    """Make sure that there are as many labels as a model has.

    Raises:
        BadInput: there are more or fewer.
    """
    if labels != len(model.labels):
        problem = f"expected the {len(model.labels)} labels of the model, found {labels}"
        raise BadInput(where, problem, remedy=_REMEDY)


def _first_other(model: Model, labels: Texts) -> int | None:
    """The first row whose label is not that of a model; None where there is none."""
    if all(map(_equal, (model.labels.uids, model.labels.fields["title"]), (labels.uids, labels.fields["title"]))):
        return None
    columns = (column for texts in (model.labels, labels) for column in (texts.uids, texts.fields["title"]))
    for row, (uid, title, other_uid, other_title) in enumerate(zip(*columns, strict=True)):
        by_uid = not {uid, other_uid} & {"", str(row)}
        if (uid != other_uid) if by_uid else (title != other_title):
            return row
    return None


def _equal(one: Strings, other: Strings) -> bool:
    return np.array_equal(one.offsets, other.offsets) and np.array_equal(one.blob, other.blob)


def _name(labels: Texts, row: int) -> str:
    """A label as messages call it: by its title, and its uid where it has one of its own."""
    uid, title = labels.uids[row], excerpt(labels.fields["title"][row])
    return title if uid in {"", str(row)} else f"{title} ({excerpt(uid)})"
