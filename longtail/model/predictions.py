"""What a model is asked, and what it answers: texts as people have them, and ranked labels with their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, overload

import numpy as np

from longtail.data.texts import MEND_TEXT, STORABLE, storable
from longtail.errors import BadInput
from longtail.topk import AnyArray, FloatArray, IntArray, Prediction, TopK

Text: TypeAlias = "str | Mapping[str, Any]"  # a title, or an object with a title, a content, or both
FIELDS = ("title", "content")


def text_by_field(text: object, where: str, line: int | None = None) -> dict[str, str]:
    """A text by field; a plain one is a title, and what else an object holds is left aside.

    Args:
        text: a string, or a mapping with a title, a content, or both.
        where: it came from, for an error.
        line: of a file.

    Raises:
        BadInput: it is neither, or a title or content is no string, or none that is `storable`.
    """
    text = {"title": text} if isinstance(text, str) else text
    remedy = "mend it" if line is None else "mend the line"
    if not isinstance(text, Mapping):
        problem = f"expected a text or an object with a title, found {_kind(text)}"
    elif not (found := {name: text[name] for name in FIELDS if name in text}):
        problem = f"expected an object with a title, found one with {', '.join(map(str, text)) or 'nothing'}"
    elif wrong := [f"{_kind(value)} for {name}" for name, value in found.items() if not isinstance(value, str)]:
        problem = f"expected strings for title and content, found {' and '.join(wrong)}"
    elif not all(map(storable, found.values())):
        problem, remedy = STORABLE, MEND_TEXT
    else:
        return found
    raise BadInput(where, problem, remedy=remedy, line=line)


def _kind(value: object) -> str:
    """A value as JSON names it."""
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return "an object" if isinstance(value, Mapping) else names.get(type(value), f"a {type(value).__name__}")


class Predictions(Sequence[list[Prediction]]):
    """The k best labels of n texts, best first: a sequence of n lists, and the same as arrays.

    Args:
        top: (n, k) ranked rows of the model's labels.
        ids: gives the (L,) int64 stable ids of the labels.
        label: gives the id, the uid and the text of the label in a row.
        probabilities: gives the (n, k) float32 probabilities of the ranked labels.
    """

    def __init__(
        self,
        top: TopK,
        ids: Callable[[], IntArray],
        label: Callable[[int], tuple[int, str, str]],
        probabilities: Callable[[], FloatArray],
    ) -> None:
        self.rows, self.scores = top.ids, top.scores
        self._ids, self._label, self._probabilities = ids, label, probabilities

    rows: IntArray  # (n, k) int64 rows of the model's labels; -1 where a place is empty
    scores: FloatArray  # (n, k) float32; -inf where a place is empty

    @property
    def ids(self) -> IntArray:
        """(n, k) int64 ids, stable for the life of a run; -1 where there are fewer than k labels."""
        ids = self._ids()
        return np.where(self.rows < 0, -1, ids[self.rows] if len(ids) else -1)

    @property
    def uids(self) -> AnyArray:
        """(n, k) strings; empty where there are fewer than k labels."""
        rows, places = np.unique(self.rows, return_inverse=True)
        uids = np.array(["" if row < 0 else self._label(row)[1] for row in rows.tolist()], np.str_)
        return uids[places.reshape(self.rows.shape)] if len(uids) else np.zeros(self.rows.shape, np.str_)

    @cached_property
    def probabilities(self) -> FloatArray:
        """(n, k) float32 in [0, 1], how probable it is that each label is right; 0 where a place is empty.

        Raises:
            BadInput: the model has learned none.
        """
        return self._probabilities()

    def above(self, threshold: float | None) -> Predictions:
        """Those whose probability is at least a threshold, in the same order; all of them without one."""
        if threshold is None:
            return self
        chosen = (self.rows >= 0) & (self.probabilities >= threshold)
        order = np.argsort(~chosen, axis=1, kind="stable")  # the others go to the end, where a place is empty
        there = np.take_along_axis(chosen, order, 1)
        rows = np.where(there, np.take_along_axis(self.rows, order, 1), -1)
        scores = np.where(there, np.take_along_axis(self.scores, order, 1), np.float32(-np.inf))
        chances = np.where(there, np.take_along_axis(self.probabilities, order, 1), np.float32(0))
        return Predictions(TopK(rows, scores), self._ids, self._label, lambda: chances)

    def as_dicts(self, *, probabilities: bool) -> list[list[dict[str, Any]]]:
        """The labels of each text as JSON has them: id, uid, text, score and, where it is asked for, probability."""
        found = [[label._asdict() for label in labels] for labels in self]
        if probabilities:
            for labels, chances in zip(found, self.probabilities.tolist(), strict=True):
                for label, chance in zip(labels, chances, strict=False):  # empty places come last
                    label["probability"] = chance
        return found

    @cached_property
    def _lists(self) -> list[list[Prediction]]:
        names = {row: self._label(row) for row in np.unique(self.rows).tolist() if row >= 0}
        return [
            [Prediction(*names[row], score) for row, score in zip(rows, scores, strict=True) if row >= 0]
            for rows, scores in zip(self.rows.tolist(), self.scores.tolist(), strict=True)
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[list[Prediction]]:
        return iter(self._lists)

    @overload
    def __getitem__(self, i: int) -> list[Prediction]: ...
    @overload
    def __getitem__(self, i: slice) -> list[list[Prediction]]: ...
    def __getitem__(self, i: int | slice) -> list[Prediction] | list[list[Prediction]]:
        return self._lists[i]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._lists == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._lists)
