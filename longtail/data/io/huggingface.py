"""Data sets of the package ``datasets``: its columns as documents and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import GivenText, Texts
from longtail.errors import BadInput, MissingExtra


class Wanted(NamedTuple):
    """Which columns hold what.

    Attributes:
        title: the text of a document.
        labels: of a document.
        content: a longer text; None for none.
        uid: a name of a document; None for none.
    """

    title: str
    labels: str
    content: str | None = None
    uid: str | None = None


class Read(NamedTuple):
    """What was read.

    Attributes:
        name: of the data set.
        train: N documents.
        labels: L texts, of which each has its name for a uid.
        test: n documents, if there are some.
    """

    name: str
    train: Split
    labels: Texts
    test: Split | None


def read_splits(source: Any, test: Any, columns: Wanted, label_texts: Mapping[str, GivenText]) -> Read:
    """The documents and labels of a data set of ``datasets``.

    Args:
        source: a ``datasets.Dataset``, whose rows are training documents; a ``DatasetDict`` with a split ``train``; or
            what ``datasets.load_dataset`` finds by this name.
        test: a ``Dataset``, or the name of a split, which may be missing; None for no test documents.
        columns: which hold what.
        label_texts: by label; one that is not there is its own text.

    Raises:
        BadInput: there is no such split or column, or a column holds something else than texts or labels.
        MissingExtra: a name is given, and the package is not installed.
    """
    name = source if isinstance(source, str) else ""
    found = _loaded(source) if isinstance(source, str) else source
    if isinstance(found, Mapping):
        if "train" not in found:
            raise BadInput("source", f"expected a split train, found {', '.join(found)}", remedy="give one of them")
        train, rest = found["train"], found.get(test) if isinstance(test, str) else test
    else:
        train, rest = found, None if isinstance(test, str) else test
    splits = [part for part in (train, rest) if part is not None]
    for part, column in product(splits, filter(None, columns)):
        _must_have(part, column)
    tagged = [[*_labels(part, columns.labels)] for part in splits]
    declared = _declared(train, columns.labels)
    names = declared or [*dict.fromkeys(label for rows in tagged for row in rows for label in row)]
    made = [_split(part, columns, rows, names) for part, rows in zip(splits, tagged, strict=True)]
    if not made[0].targets.nnz:
        problem = f"no document has a label: {len(made[0])} documents, 0 pairs"
        raise BadInput(columns.labels, problem, remedy="name the column of the labels")
    texts = (label_texts.get(label, label) for label in names)
    records = ({"title": text} if isinstance(text, str) else text for text in texts)
    labels = Texts.given([{**record, "uid": label} for record, label in zip(records, names, strict=True)], "labels")
    title = name or getattr(train.info, "dataset_name", None) or "datasets"
    return Read(title, made[0], labels, made[1] if len(made) > 1 else None)


def _loaded(name: str) -> Any:
    try:
        datasets = import_module("datasets")
    except ImportError:
        raise MissingExtra("datasets", extra="datasets", purpose="a data set of Hugging Face") from None
    try:
        return datasets.load_dataset(name)
    except (OSError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())[:200]
        raise BadInput("source", f"expected a data set, found none at {name} ({said})", remedy="check it") from error


def _must_have(part: Any, column: str) -> None:
    if column not in part.features:
        problem = f"there is no such column, the columns are: {', '.join(part.features)}"
        raise BadInput(column, problem, remedy='name one of them: text="...", labels="..."')


def _declared(part: Any, column: str) -> list[str] | None:
    """The labels that a column declares, if it is one of class labels."""
    feature = part.features[column]
    of_one = feature[0] if isinstance(feature, list) else getattr(feature, "feature", feature)
    names: list[str] | None = getattr(of_one, "names", None)
    return names


def _labels(part: Any, column: str) -> Iterator[list[str]]:
    """The labels of each document, be they a list, one, or none; of declared labels, -1 is none, too."""
    names = _declared(part, column)
    for i, row in enumerate(part[column]):
        labels = row if isinstance(row, list) else [] if row is None else [row]
        for label in labels:
            if isinstance(label, bool) or not isinstance(label, (str, int)) or label == "":
                problem = f"expected labels as strings or numbers, found {str(label)[:40]!r} in row {i}"
                raise BadInput(column, problem, remedy="name the column of the labels")
            if names and isinstance(label, int) and not -1 <= label < len(names):
                problem = f"expected a number in [0, {len(names)}), or -1 for no label, found {label} in row {i}"
                raise BadInput(column, problem, remedy="mend it, or declare the label")
        there = (label for label in labels if not names or label != -1)
        yield [names[label] if names and isinstance(label, int) else str(label) for label in there]


def _split(part: Any, columns: Wanted, tagged: Sequence[Sequence[str]], names: Sequence[str]) -> Split:
    """The documents of a split, of which each is tagged with some of the labels with these names."""
    rows = {label: i for i, label in enumerate(names)}
    if unknown := next((label for row in tagged for label in row if label not in rows), None):
        problem = f"expected labels of the training documents, found {unknown!r}"
        raise BadInput(columns.labels, problem, remedy="give both splits the same labels")
    keys = {"title": columns.title, "content": columns.content, "uid": columns.uid}
    given = {key: part[column] for key, column in keys.items() if column is not None}
    records = (dict(zip(given, values, strict=True)) for values in zip(*given.values(), strict=True))
    documents = Texts.given(records, columns.title)
    return Split(documents, csr_of_lists([[rows[label] for label in row] for row in tagged], len(names)))
