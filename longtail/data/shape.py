"""What defaults go by: how many documents a data set has, with how many labels, which fields are read, and graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from longtail.data.dataset import Dataset
from longtail.data.describe import words
from longtail.data.holdout import rows_evenly
from longtail.data.texts import Strings
from longtail.errors import BadInput

_TITLE, _CONTENT = "title", "content"
_TELLS, _SHORT = 8, 64  # words of a content on average: fewer cost rare labels on one set of two, more take long
_COUNTED = 10_000  # documents whose words are counted, and nodes, and labels
_WORD = re.compile(r"\w+")


class Shape(NamedTuple):
    """The shape of a data set.

    Attributes:
        documents: N, of training.
        fields: those that are read where no others are asked for (`fields_read`).
        graphs: whether there are some whose nodes say something: a word of some of the texts.
        labels: of a document, on average.
    """

    documents: int
    fields: tuple[str, ...] = (_TITLE,)
    graphs: bool = False
    labels: float = 0.0

    @classmethod
    def of(cls, dataset: Dataset) -> Shape:
        """Of a data set as it was read."""
        graphs = bool(dataset.graphs) and _nodes_say_something(dataset)
        labels = dataset.train.targets.nnz / max(1, len(dataset.train))
        return cls(len(dataset.train), fields_read(dataset), graphs, labels)


def fields_read(dataset: Dataset) -> tuple[str, ...]:
    """The fields of a data set's texts that are read where no others are asked for.

    Those that ``dataset.json`` names; else title and content, where most training documents have a content, and that
    has 8 to 64 words on average; else the title. What this is worth is in docs/guides/long-text.md.
    """
    there = dataset.train.documents.fields
    if dataset.fields or not len(there.get(_CONTENT, ())):
        return tuple(name for name in dataset.fields if name in there) or (_TITLE,)
    content = there[_CONTENT]
    counts = words(content.take(rows_evenly(len(content), _COUNTED)))
    some = counts[counts > 0]
    short = 2 * len(some) > len(counts) and _TELLS <= some.mean() <= _SHORT
    return (_TITLE, _CONTENT) if short else (_TITLE,)


def _nodes_say_something(dataset: Dataset) -> bool:
    """Whether a node of a graph has a word of a title, of some thousands of each."""
    titles = (split.fields[_TITLE] for split in (dataset.train.documents, dataset.labels))
    known = {word for texts in titles for word in _words(texts)}
    return any(not known.isdisjoint(_words(graph.nodes)) for graph in dataset.graphs.values())


def _words(texts: Strings) -> Iterator[str]:
    """The words of some of the texts."""
    for text in texts.take(rows_evenly(len(texts), _COUNTED)):
        yield from _WORD.findall(text.lower())


def must_have_fields(dataset: Dataset, fields: Sequence[str]) -> None:
    """Refuse fields to read that the training documents do not have; the content may be missing, as papers read it.

    Raises:
        BadInput: one is missing.
    """
    there = dataset.train.documents.fields
    if lacking := [name for name in fields if name not in there and name != _CONTENT]:
        problem = f"expected fields that were read of the training documents ({', '.join(there)})"
        remedy = "leave it out; no model reads further columns of a data set folder (docs/reference/data.md)"
        raise BadInput("fields", f"{problem}, found {', '.join(lacking)}", remedy=remedy)
