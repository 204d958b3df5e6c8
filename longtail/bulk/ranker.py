"""What ranks labels for a batch of rows, wherever the batch comes from: files here, Ray, Spark or Dask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from threading import RLock
from typing import Any, TypeAlias

import numpy as np

from longtail.data.io.parquet import MEND_BYTES, pyarrow, undecodable
from longtail.errors import BadInput
from longtail.hashes import sha256
from longtail.model import Model, load
from longtail.model.label_set import changes_made
from longtail.model.predictions import text_by_field
from longtail.model.saved import CARD
from longtail.model.thresholds import must_be_threshold

Batch: TypeAlias = Any  # columns by name: a dict, a pandas.DataFrame, or a table or record batch of pyarrow
State: TypeAlias = dict[str, "str | int"]

_ADDED = ("labels", "label_texts", "scores", "probabilities")
_STRINGS = {"labels", "label_texts"}
_turns = RLock()  # threads of a process take turns: PyTorch has threads of its own


class BadRow(BadInput):
    """A row of a batch has no text that can be read.

    Attributes:
        row: 0-based row of the batch.
    """

    def __init__(self, row: int, problem: str, *, remedy: str) -> None:
        self.row = row
        super().__init__(f"row {row + 1} of a batch", problem, remedy=remedy)


@dataclass(frozen=True)
class Ranker:
    """Ranks labels for batches of rows: ``ray.data.Dataset.map_batches(Ranker, fn_constructor_args=[run])``.

    It is pickled as its arguments, and opens the run when it is first called: once a process, however many copies of it
    come there. The run folder must be there under the same path.

    Args:
        run: the run folder.
        text: the column of the texts, or of their titles.
        content: the column of what a model reads beside a title; where it is left out, ``content`` if there is one.
        k: labels a text, at most; 5 if left out, and 20 with a threshold.
        kind: the score kind; the best one if left out.
        threshold: in [0, 1]; of the k best labels, only those with at least this probability.
        probabilities: whether to add how probable each label is.
        label_texts: whether to add the texts of labels, too.
        prefix: of the columns that are added.
        skip_null: give a text that is null no labels, in place of an error.
        device: a torch device, or ``auto`` for a GPU where there is one.
        exact: leave aside the approximate indexes that are kept with the model.
    """

    run: str | Path
    _: KW_ONLY
    text: str = "title"
    content: str | None = None
    k: int | None = None
    kind: str | None = None
    threshold: float | None = None
    probabilities: bool = False
    label_texts: bool = False
    prefix: str = ""
    skip_null: bool = False
    device: str = "auto"
    exact: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", Path(self.run).resolve())  # a worker has another working folder

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __call__(self, batch: Batch) -> Batch:
        """The same rows with further columns, each a list a row: ``labels`` (uids), ``scores`` and what was asked for.

        A list has at most k entries, the best label first, and is empty for a text without labels.

        Args:
            batch: a dict of columns (arrays or lists), a ``pandas.DataFrame``, or a table or record batch of pyarrow.

        Returns:
            The same kind of batch. Of pyarrow, uids are ``list<string>`` and scores ``list<float>``.

        Raises:
            BadInput: the batch lacks the column of texts, or has one of those that are added.
            BadRow: a text is null, without ``skip_null``, or is none that the model can read.
        """
        columns = self.columns(batch)
        if hasattr(batch, "append_column"):
            arrow = pyarrow("a batch of pyarrow")
            for name, values in columns.items():
                is_text = name.removeprefix(self.prefix) in _STRINGS
                kind = arrow.list_(arrow.string() if is_text else arrow.float32())
                batch = batch.append_column(name, arrow.array(values, kind))
            return batch
        return batch.assign(**columns) if hasattr(batch, "assign") else {**batch, **columns}

    def columns(self, batch: Batch) -> dict[str, list[list[Any]]]:
        """The columns that a call adds, by name.

        Args:
            batch: of n rows, as for a call.

        Raises:
            BadInput: as a call does.
        """
        texts = self.read(batch)
        given = [text for text in texts if text is not None]
        with _turns:
            found = self.model.predict(given, self.k, kind=self.kind, threshold=self.threshold)
            rows, places = np.unique(found.rows, return_inverse=True)
            labels = [(-1, "", "") if row < 0 else self.model.label(row) for row in rows.tolist()]
        places = places.reshape(found.rows.shape)
        uids, names = (np.array([label[i] for label in labels], object)[places] for i in (1, 2))
        values = {"labels": uids, "label_texts": names, "scores": found.scores}
        if self.probabilities:
            values["probabilities"] = found.probabilities
        ends = (found.rows >= 0).sum(1).tolist()  # empty places come last
        answers = {}
        for name in self.added:
            lists = (row[:end] for row, end in zip(values[name.removeprefix(self.prefix)].tolist(), ends, strict=True))
            answers[name] = [[] if text is None else next(lists) for text in texts]
        return answers

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the columns that it adds."""
        asked = {"label_texts": self.label_texts, "probabilities": self.probabilities}
        return tuple(self.prefix + name for name in _ADDED if asked.get(name, True))

    @cached_property
    def model(self) -> Model:
        """The model of the run, as it is when this is first asked for.

        Raises:
            BadInput: the run has no trained model, or none with this score kind or with probabilities.
        """
        with _turns:
            model = _opened(Path(self.run), self.device, self.exact, tuple(self.state.items()))
        model.scorer(self.kind)
        if self.threshold is not None:
            must_be_threshold(self.threshold)
        if self.probabilities or self.threshold is not None:
            model.calibration(self.kind)
        return model

    @property
    def state(self) -> State:
        """What the run answers with now: its model, the number of changes of its labels, its indexes and exports."""
        run = Path(self.run)
        built = [*run.glob("model*/**/onnx/*.json"), *(() if self.exact else run.glob("model*/index/*/*.json"))]
        card = run / "model" / CARD
        trained = sha256(card) if card.is_file() else ""  # without one it cannot be opened
        return {"model": trained, "changes": changes_made(run), "indexes": " ".join(map(sha256, sorted(built)))}

    def must_fit(self, names: Sequence[str], where: str) -> None:
        """Refuse columns without one of texts, or with one that is added.

        Args:
            names: of the columns.
            where: they are, for the error.

        Raises:
            BadInput: they are not as they must be.
        """
        for column, option in ((self.text, "text"), (self.content, "content")):
            if column is not None and column not in names:
                problem = f'there is no column "{column}", the columns are: {", ".join(names)}'
                raise BadInput(where, problem, remedy=f"name the one of the {option} with --{option}")
        if there := [name for name in self.added if name in names]:
            problem = f'expected no column of a name that is added, found "{there[0]}"'
            raise BadInput(where, problem, remedy="give a prefix for those that are added, as --prefix predicted_")

    def read(self, batch: Batch) -> list[dict[str, str] | None]:
        """The texts of a batch, by field; None for one that is null, with ``skip_null``.

        Args:
            batch: of n rows, as for a call.

        Raises:
            BadInput: as a call does.
        """
        names = list(batch.column_names if hasattr(batch, "column_names") else batch)
        self.must_fit(names, "batch")
        content = self.content or ("content" if "content" in names else None)
        if "content" not in self.model.fields:
            content = None
        titles = _values(batch, self.text)
        contents: list[Any] = [None] * len(titles) if content is None else _values(batch, content)
        return [self._text(row, *fields) for row, fields in enumerate(zip(titles, contents, strict=True))]

    def _text(self, row: int, title: Any, content: Any) -> dict[str, str] | None:
        if _is_null(title) and self.skip_null:
            return None
        if _is_null(title):
            problem = f'expected text in column "{self.text}", found null'
            raise BadRow(row, problem, remedy="write text into it, or give --skip-null")
        try:
            return text_by_field({"title": title} if _is_null(content) else {"title": title, "content": content}, "")
        except BadInput as error:
            raise BadRow(row, error.problem, remedy=error.remedy) from None


@lru_cache(maxsize=2)
def _opened(run: Path, device: str, exact: bool, _: tuple[tuple[str, str | int], ...]) -> Model:  # noqa: FBT001
    """A model, which copies of a ranker share as long as the run answers the same."""
    return load(run, device=device, exact=exact)


def _values(batch: Batch, column: str) -> list[Any]:
    is_arrow = hasattr(batch, "append_column")
    values = batch.column(column) if is_arrow else batch[column]
    try:
        return list(values.to_pylist() if is_arrow else values)
    except UnicodeDecodeError:  # pandas keeps strings as pyarrow does
        row, problem = undecodable(pyarrow().table({column: values}))
        raise BadRow(row, problem, remedy=MEND_BYTES) from None


def _is_null(value: Any) -> bool:
    """Whether a value is missing: also the NaN and NA that pandas has in its place."""
    return value is None or (not isinstance(value, str) and str(value) in {"nan", "<NA>"})
