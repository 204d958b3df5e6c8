"""A recipe as an estimator of scikit-learn, for its pipelines and its searches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from longtail.data.dataset import Dataset
from longtail.data.sparse import row_of_entry
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.devices import choose_device
from longtail.files import make_folder, scratch_folder
from longtail.model import Bundle, Model, open_model
from longtail.model.learning import Lessons, taught
from longtail.model.predictions import Predictions
from longtail.recipes import RECIPES
from longtail.sklearn.targets import (
    BadValue,
    Form,
    LabelTexts,
    Targets,
    array_of,
    columns_of,
    in_order,
    label_records,
    matrix_of,
    texts_in,
    value_errors,
)
from longtail.topk import AnyArray, IntArray
from longtail.train.log import LOG, Log
from longtail.train.run import Run

_MODEL = "model_"
_OWN = ("recipe", "label_texts", "k", "threshold", "out", "verbose")  # arguments; the others are of the recipe


class LongtailClassifier(ClassifierMixin, BaseEstimator):
    """Ranks labels for texts with a recipe of longtail, as an estimator of scikit-learn.

    >>> classifier = LongtailClassifier("unidec", epochs=10, label_texts={"soup": "Soups and stews"})
    >>> classifier.fit(["Tomato soup", "Omelette"], [["soup"], ["quick", "eggs"]]).predict(["Leek soup"])

    Labels may be given in five forms, and answers have the form that `fit` was given:

    ==============================  =======================  =======================================================
    y in `fit`                      ``classes_``             `predict`; `decision_function` and `predict_proba`
    ==============================  =======================  =======================================================
    n lists of labels               those labels, ascending  n lists, best label first; sparse, the k best
    scipy matrix (n, L)             0, ..., L - 1            sparse; sparse, the k best
    array (n, L) of 0 and 1         0, ..., L - 1            array; arrays (n, L) over all labels
    table of pandas, the same       its columns              array; arrays (n, L) over all labels
    n labels, one a document        those labels, ascending  n labels; arrays (n, L), as any classifier has them
    ==============================  =======================  =======================================================

    Args:
        recipe: a key of `longtail.recipes.RECIPES`; ``longtail list recipes`` has a line on each.
        label_texts: texts of labels, by label; or in the order of the columns, where y is a matrix. A label without
            one is its own text. With lists, labels that no document has are learned from their texts alone.
        k: labels that are ranked for a text, where answers are sparse or lists.
        threshold: in [0, 1]; `predict` gives those of the ranked labels that are at least this probable. With None, or
            where a model has learned no probabilities (docs/guides/probabilities.md), it gives the best ones, as many
            as a training document has on average.
        out: a run folder for `fit` to make, with the log and the model; a new one each time. Nothing is written if left
            out.
        verbose: whether the progress of `fit` is shown.
        options: of the recipe, by name; their defaults are its own. `fit` checks them.

    Attributes:
        classes_: (L,) the labels, in the order of the columns.
        model_: what was trained, a `longtail.Model`.
    """

    def __init__(
        self,
        recipe: str = "unidec",
        *,
        label_texts: LabelTexts = None,
        k: int = 20,
        threshold: float | None = 0.5,
        out: str | Path | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> None:
        self.recipe = recipe
        self.label_texts = label_texts
        self.k = k
        self.threshold = threshold
        self.out = out
        self.verbose = verbose
        self.set_params(**options)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - of scikit-learn
        """The arguments that it was made with, by name, those of the recipe that were given included."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name[-1] != "_"}

    def set_params(self, **params: Any) -> LongtailClassifier:
        """Set arguments, by name. Those of the recipe are checked when it is trained.

        Raises:
            BadValue: a name is that of a method, or of what is learned.
        """
        for name, value in params.items():
            if hasattr(type(self), name) or name.startswith("_") or name.endswith("_"):
                problem = f"expected an argument of {type(self).__name__} or an option of its recipe, found neither"
                raise BadValue(name, problem, remedy="get_params gives those that are set")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn is to know: it reads texts, and a text may have several labels."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string, tags.input_tags.dict = False, True, True
        tags.target_tags.multi_output = tags.classifier_tags.multi_label = True
        tags.no_validation = True
        return tags

    @value_errors()
    def fit(self, X: Iterable[Any], y: Any) -> LongtailClassifier:
        """Train the recipe.

        Args:
            X: n texts: strings, dicts with a ``title`` and perhaps a ``content``, or a table of pandas with these
                columns. The option ``fields`` says which of them are read.
            y: their labels, in one of the forms above.

        Raises:
            BadValue: an option, a text or a label is not as it must be; it is a ValueError and a `longtail` error.
        """
        return self._fit(X, y, ())

    def _fit(self, X: Iterable[Any], y: Any, further: Iterable[Any]) -> LongtailClassifier:
        documents = Texts.given(texts_in(X), "X")
        targets = Targets.read(y, len(documents))
        classes = self._classes(targets, further)
        matrix = targets.over(columns_of(classes))
        labels = Texts.given(label_records(classes, self.label_texts), "label_texts")
        if self.recipe not in RECIPES:
            raise BadValue("recipe", f"expected one of {', '.join(RECIPES)}, found {self.recipe}", remedy="choose one")
        if not matrix.nnz:
            raise BadValue("y", f"no document has a label: {len(documents)} documents, 0 pairs", remedy="give some")
        options = {name: value for name, value in self.get_params().items() if name not in _OWN}
        out = None if self.out is None else Path(self.out)
        if out is not None and (out / "run.json").exists():
            problem = "expected a new folder, found a run"
            raise BadValue(out, problem, remedy="choose another, or leave it out; longtail.load opens that one")
        run = Run(out, Log(out and out / LOG, Console() if self.verbose else None))
        data = Dataset("texts", Split(documents, matrix), labels)
        self.model_: Model = RECIPES[self.recipe](data, out=run, **options)
        self.classes_ = np.array(classes)
        self._form: Form = targets.form
        self._usual = max(1, round(matrix.nnz / len(documents)))
        self._lessons = Lessons.none(matrix)
        return self

    def _classes(self, targets: Targets, further: Iterable[Any]) -> list[Any]:
        """The labels: those that documents have, and those that are only named."""
        named = self.label_texts if isinstance(self.label_texts, Mapping) else ()
        if targets.form in ("lists", "single"):
            if self.label_texts is not None and not isinstance(self.label_texts, Mapping):
                problem = f"expected a dict of texts by label, found {type(self.label_texts).__name__}"
                raise BadValue("label_texts", problem, remedy="lists are for matrices, whose columns have an order")
            return in_order([*targets.classes, *named, *further])
        if strange := [label for label in named if label not in targets.classes]:
            problem = f"expected columns of y, found {strange[0]!r}"
            raise BadValue("label_texts", problem, remedy="give y a column for each label")
        return [*targets.classes]

    @value_errors()
    def partial_fit(
        self, X: Iterable[Any], y: Any, classes: Iterable[Any] = (), label_texts: LabelTexts = None
    ) -> LongtailClassifier:
        """Learn further documents and labels without training; the first call trains, as `fit` does.

        A label that no document had before is made of its text and of its examples, those of earlier calls included.
        One that was trained keeps its vectors; where the model has a memory (docs/explanation/memory.md), it remembers
        the document with all of its labels.

        Args:
            X: n texts, as for `fit`.
            y: their labels, in the form that `fit` was given; those that are new are appended to ``classes_``. A matrix
                may have more columns than before: those on the right are new.
            classes: further labels, which none of these documents has.
            label_texts: of labels that are new; those that the estimator was made with if left out.

        Raises:
            BadValue: as for `fit`.
        """
        if not hasattr(self, _MODEL):
            return self._fit(X, y, classes)
        documents = Texts.given(texts_in(X), "X")
        targets = Targets.read(y, len(documents))
        known = self.classes_.tolist()
        if targets.form not in ("lists", "single") and targets.matrix.shape[1] < len(known):
            problem = f"expected at least the {len(known)} columns of before, found {targets.matrix.shape[1]}"
            raise BadValue("y", problem, remedy="give a column for each label that is known")
        columns = columns_of(known)
        new = [label for label in dict.fromkeys([*targets.classes, *classes]) if label not in columns]
        in_order([*known, *new])
        texts = label_texts if label_texts is not None else self.label_texts
        if texts is not None and not isinstance(texts, Mapping):
            texts = texts[len(known) :] if len(texts) == len(known) + len(new) else texts
        labels = Texts.given(label_records(new, texts), "label_texts")
        matrix = targets.over(columns_of([*known, *new]))
        if not isinstance(self.model_, Bundle):
            problem = f"expected a model that is taught without training, found one of {self.recipe}"
            raise BadValue("recipe", problem, remedy="fit it again with all documents, or choose another recipe")
        self.model_, self._lessons = taught(self.model_, labels, documents, matrix, self._lessons)
        self.classes_ = np.array([*known, *new])
        return self

    @value_errors()
    def predict(self, X: Iterable[Any]) -> Any:
        """The labels of n texts, in the form that `fit` was given (see the table above)."""
        found = self._ranked(X)
        if self._form == "single":
            return self.classes_[found.rows[:, 0]]
        kind = self.model_.kinds[-1]
        if self.threshold is not None and kind in self.model_.calibrations:
            rows = found.above(self.threshold).rows
        else:
            rows = found.rows[:, : self._usual]
        if self._form == "lists":
            return [self.classes_[row[row >= 0]].tolist() for row in rows]
        return self._matrix(rows, np.ones(rows.shape, np.int64))

    @value_errors()
    def decision_function(self, X: Iterable[Any]) -> Any:
        """The scores of ranked labels by the best score kind of the model; higher is better, within one text.

        Returns:
            A CSR array (n, L) float32 of the k best of each text, or an array (n, L) over all labels (see the table
            above); (n,) of the second label over the first, where there are two and a text has one.
        """
        found = self._ranked(X)
        scores = self._matrix(found.rows, found.scores)
        return scores[:, 1] - scores[:, 0] if self._form == "single" and len(self.classes_) == 2 else scores

    def _has_probabilities(self) -> bool:
        """Whether its model has learned some, or it has no model yet."""
        return not hasattr(self, _MODEL) or self.model_.calibration() is not None

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    @value_errors()
    def predict_proba(self, X: Iterable[Any]) -> Any:
        """How probable ranked labels are, learned on documents that were held out in training.

        Returns:
            As `decision_function`, in [0, 1], of each label by itself. Where a text has one label, a row adds up to 1.

        Raises:
            AttributeError: the model has learned none (docs/guides/probabilities.md).
        """
        found = self._ranked(X)
        chances = self._matrix(found.rows, found.probabilities)
        if self._form != "single":
            return chances
        chances = np.maximum(chances, 1e-9)
        return chances / chances.sum(1, keepdims=True)

    @value_errors()
    def score(self, X: Iterable[Any], y: Any, sample_weight: Any = None) -> float:
        """P@1, in [0, 1]: the share of texts whose best label is one of theirs; accuracy, where each has one.

        Args:
            X: n texts.
            y: their labels, in any form; a label that the estimator does not know is never found. The columns of a
                matrix without names are in the order of ``classes_``.
            sample_weight: (n,) of the texts; 1 each if left out.

        Raises:
            BadValue: a matrix without names has another number of columns.
        """
        texts = texts_in(X)
        truth = Targets.read(y, len(texts)).of(self.classes_.tolist())
        best = self._ranked(texts, 1).rows[:, 0]
        found = np.zeros(len(texts))
        found[row_of_entry(truth)[truth.indices == best[row_of_entry(truth)]]] = 1
        return float(np.average(found, weights=sample_weight))

    def _ranked(self, X: Iterable[Any], k: int | None = None) -> Predictions:
        check_is_fitted(self, _MODEL)
        L = len(self.classes_)
        asked = min(L, self.k) if self._form in ("lists", "sparse") else L
        return self.model_.predict(texts_in(X), k or asked)

    def _matrix(self, rows: IntArray, values: AnyArray) -> Any:
        made = matrix_of if self._form in ("lists", "sparse") else array_of
        return made(rows, values, len(self.classes_))

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the files of the model's folder are in it, so that it can be opened anywhere."""
        state = dict(super().__getstate__())
        if _MODEL in state:
            with scratch_folder("longtail-pickled") as folder:
                self.model_.save(folder / "model")
                files = [path for path in (folder / "model").rglob("*") if path.is_file()]
                state[_MODEL] = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open what `__getstate__` gave, with the same checks as any model folder."""
        files = state.pop(_MODEL, None)
        super().__setstate__(state)
        if files is not None:
            with scratch_folder("longtail-pickled") as folder:
                for name, content in files.items():
                    make_folder((folder / name).parent)
                    (folder / name).write_bytes(content)
                device = choose_device(getattr(self, "device", "auto"))
                self.model_ = open_model(folder / "model", device=device)
