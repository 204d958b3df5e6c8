"""Data of other labels than a model's, or of the same in another order: nothing is counted by such rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import longtail
from longtail.data.dataset import Dataset
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.model import load
from longtail.model.exporting import _asked
from longtail.model.same_labels import has_labels, must_be_labels
from longtail.report.errors import errors_of_run
from longtail.report.offline import Asked, judge_offline
from longtail.testing.planted import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(0, documents=400, test_documents=50, labels=120).dataset


@pytest.fixture(scope="module")
def turned(dataset) -> Dataset:
    """The same pairs, whose labels are numbered from the last to the first."""
    order = np.arange(len(dataset.labels))[::-1]
    train, test = (replace(split, targets=split.targets[:, order]) for split in (dataset.train, dataset.test))
    return replace(dataset, train=train, test=test, labels=dataset.labels.take(order))


def test_what_counts_by_labels_refuses_them_in_another_order(trained, dataset, turned, tmp_path):
    turned.write(tmp_path / "data")
    model = load(trained, device="cpu", changes=False)
    refused = (
        lambda: longtail.evaluate(model, turned),
        lambda: longtail.evaluate(trained, tmp_path / "data", device="cpu"),
        lambda: errors_of_run(trained, model, turned),
        lambda: judge_offline(trained, model, tmp_path / "data", Asked()),
    )
    expected, found = (texts.uids[0] for texts in (dataset.labels, turned.labels))
    for ask in refused:
        with pytest.raises(BadInput, match=f"{expected}.* in row 0, found .*{found}.*lbl.json.gz"):
            ask()
    assert not _asked(trained, model, _written(dataset, tmp_path / "same"))[1]
    assert _asked(trained, model, tmp_path / "data")[1], "an export is measured by texts of labels then"


def _written(dataset: Dataset, folder) -> str:
    dataset.write(folder)
    return str(folder)


def test_a_label_is_known_by_its_uid_or_by_its_title_where_a_side_has_none(trained, dataset):
    model, titles = load(trained, device="cpu", changes=False), list(dataset.labels.fields["title"])
    rows = [str(i) for i in range(len(titles))]
    uids = list(dataset.labels.uids)
    for same in (
        dataset.labels,
        Texts.of(titles),
        Texts.of(titles, uids=rows),
        Texts.of(["another title", *titles[1:]], uids=uids),
    ):
        must_be_labels(model, same, "data")
        assert has_labels(model, same)
    other = ["another title", *titles[1:]]
    for labels, message in (
        (Texts.of(other), "in row 0, found 'another title';"),
        (Texts.of(other, uids=rows), "in row 0, found 'another title';"),
        (Texts.of(titles, uids=["another", *uids[1:]]), r"in row 0, found .* \('another'\);"),
        (Texts.of(titles[:7]), "expected the 120 labels of the model, found 7;"),
    ):
        assert not has_labels(model, labels)
        with pytest.raises(BadInput, match=message):
            must_be_labels(model, labels, "data")
