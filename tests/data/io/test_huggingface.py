"""Data sets of the package ``datasets``: every kind of label column, and what is wrong in one line."""

from __future__ import annotations

import sys

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

import longtail
from longtail.errors import BadInput, MissingExtra

TEXTS = ["Tomato soup", "Grilled halloumi", "Omelette"]
NAMES = ["soup", "vegetarian", "quick", "dessert"]
ROWS = [[0, 1], [1], []]
CLASSES = ClassLabel(names=NAMES)


def read(*args, **options):
    return longtail.Dataset.from_hf(*args, **options)


def labels_of(found, split="train"):
    names = list(found.labels.uids)
    return [[names[j] for j in row.nonzero()[0]] for row in getattr(found, split).targets.toarray()]


NAMED = [[NAMES[i] for i in row] for row in ROWS]


@pytest.mark.parametrize(
    ("column", "feature", "known"),
    [
        (ROWS, List(ClassLabel(names=NAMES)), NAMES),
        (NAMED, List(Value("string")), ["soup", "vegetarian"]),
        (ROWS, List(Value("int64")), ["0", "1"]),
    ],
    ids=["class labels", "strings", "numbers"],
)
def test_lists_of_labels(column, feature, known):
    features = Features({"text": Value("string"), "labels": feature})
    found = read(Dataset.from_dict({"text": TEXTS, "labels": column}, features=features))
    assert list(found.labels.uids) == list(found.labels.fields["title"]) == known
    assert labels_of(found) == [[known[i] for i in row] for row in ROWS]
    assert list(found.train.documents.fields["title"]) == TEXTS
    assert found.test is None


@pytest.mark.parametrize("feature", [ClassLabel(names=NAMES), None])
def test_one_label_a_row(feature):
    data = Dataset.from_dict({"text": TEXTS, "label": ["soup", "quick", "quick"]})
    data = data if feature is None else data.cast_column("label", feature)
    found = read(data, labels="label")
    assert labels_of(found) == [["soup"], ["quick"], ["quick"]]
    assert len(found.labels) == (2 if feature is None else 4)


def test_of_declared_labels_minus_1_is_no_label_as_in_a_test_split_whose_labels_are_kept_back():
    one, several = (Features({"text": Value("string"), "labels": of}) for of in (CLASSES, List(CLASSES)))
    data = Dataset.from_dict({"text": TEXTS, "labels": [0, -1, 3]}, features=one)
    hidden = Dataset.from_dict({"text": TEXTS, "labels": [-1, -1, -1]}, features=one)
    found = read(data, test=hidden)
    assert labels_of(found) == [["soup"], [], ["dessert"]]
    assert labels_of(found, "test") == [[], [], []]
    data = Dataset.from_dict({"text": TEXTS, "labels": [[0, -1], [-1], [3]]}, features=several)
    assert labels_of(read(data)) == [["soup"], [], ["dessert"]]
    as_they_are = Dataset.from_dict({"text": TEXTS, "labels": [0, -1, 3]})
    assert list(read(as_they_are).labels.uids) == ["0", "-1", "3"]


class HandMade:
    """Stands in for a data set, with features as versions of the package have them."""

    def __init__(self, columns, feature):
        self.columns, self.features, self.info = columns, {"text": Value("string"), "labels": feature}, None

    def __getitem__(self, name):
        return self.columns[name]


@pytest.mark.parametrize("number", [-2, 4])
def test_a_number_that_no_declared_label_has_is_refused(number):
    with pytest.raises(BadInput, match=rf"in \[0, 4\), or -1 for no label, found {number} in row 1"):
        read(HandMade({"text": TEXTS, "labels": [0, number, 1]}, CLASSES))


def test_a_list_of_class_labels_may_be_a_plain_list():
    assert labels_of(read(HandMade({"text": TEXTS, "labels": ROWS}, [CLASSES]))) == NAMED


def test_splits_columns_and_texts_of_labels():
    parts = {
        side: Dataset.from_dict({"name": names, "body": bodies, "id": ids, "tags": tags})
        for side, names, bodies, ids, tags in (
            ("train", ["a", "b"], ["long a", "long b"], ["1", "2"], [["x"], ["x", "y"]]),
            ("validation", ["c"], ["long c"], ["3"], [["y"]]),
            ("test", ["d"], ["long d"], ["4"], [["z"]]),
        )
    }
    options = {"text": "name", "labels": "tags", "content": "body", "uid": "id"}
    found = read(DatasetDict(parts), **options, label_texts={"x": "text of x", "z": {"title": "z", "content": "more"}})
    assert list(found.labels.uids) == ["x", "y", "z"]
    assert list(found.labels.fields["title"]) == ["text of x", "y", "z"]
    assert list(found.train.documents.fields["content"]) == ["long a", "long b"]
    assert list(found.train.documents.uids) == ["1", "2"]
    assert labels_of(found, "test") == [["z"]]
    assert labels_of(read(DatasetDict(parts), **options, test="validation"), "test") == [["y"]]
    assert read(DatasetDict(parts), **options, test=None).test is None
    assert labels_of(read(parts["train"], **options, test=parts["validation"]), "test") == [["y"]]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (
            {"title": TEXTS, "labels": NAMED},
            {},
            "text: there is no such column, the columns are: title, labels; name one",
        ),
        ({"text": TEXTS, "tags": NAMED}, {}, "labels: there is no such column"),
        ({"text": [*TEXTS[:2], None], "labels": NAMED}, {}, "text: expected a string .* at 2"),
        ({"text": TEXTS, "labels": [0.5, 1.0, 2.0]}, {}, "labels: expected labels as strings or numbers, found '0.5'"),
        ({"text": TEXTS, "labels": [[], [], []]}, {}, "labels: no document has a label: 3 documents, 0 pairs"),
        ({"text": TEXTS, "labels": NAMED}, {"test": Dataset.from_dict({"text": TEXTS})}, "labels: there is no such"),
    ],
)
def test_what_is_wrong_is_one_line(columns, options, said):
    with pytest.raises(BadInput, match=said):
        read(Dataset.from_dict(columns), **options)


def test_splits_without_one_to_train_on_and_other_labels_of_the_test_split():
    data = Dataset.from_dict({"text": TEXTS, "labels": NAMED})
    with pytest.raises(BadInput, match="source: expected a split train, found test"):
        read(DatasetDict(test=data))
    one, other = (data.cast_column("labels", List(ClassLabel(names=names))) for names in (NAMES, [*NAMES[:2], "x"]))
    assert labels_of(read(one, test=other), "test") == NAMED
    renamed = Dataset.from_dict({"text": ["a"], "labels": [["x"]]}).cast_column("labels", List(ClassLabel(names=["x"])))
    with pytest.raises(BadInput, match="labels: expected labels of the training documents, found 'x'"):
        read(one, test=renamed)


def test_a_name_is_loaded_and_the_package_is_an_extra(monkeypatch, tmp_path):
    Dataset.from_dict({"text": TEXTS, "labels": NAMED}).to_parquet(tmp_path / "train.parquet")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    found = read(str(tmp_path))
    assert labels_of(found) == NAMED
    with pytest.raises(BadInput, match="source: expected a data set, found none at"):
        read(str(tmp_path / "nothing"))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'longtail\[datasets\]'"):
        read("some/name")
