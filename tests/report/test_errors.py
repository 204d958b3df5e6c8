"""The page of a run's errors, and what it says of whom it judged."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from whole_page import Whole

from longtail.data.dataset import Dataset
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.model import load
from longtail.report.error_rows import COLUMNS
from longtail.report.errors import FILES, Asked, errors_of_run
from longtail.report.errors_page import page_of_errors, whom
from longtail.testing.planted import planted

HOSTILE = '=HYPERLINK("x")</script><b>'


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    found = planted(0, documents=400, test_documents=50, labels=120).dataset
    titles = list(found.labels.fields["title"])
    return replace(found, name="A & B", labels=Texts.of([HOSTILE] * len(titles), uids=list(found.labels.uids)))


@pytest.fixture(scope="module")
def found(trained, dataset):
    model = load(trained, device="cpu", changes=False)
    return errors_of_run(trained, model, dataset, k=5)


def test_the_page_is_whole_and_needs_nothing_else(found):
    text = page_of_errors(found)
    whole = Whole(text)
    ids = {value for _, name, value in whole.attributes if name == "id"}
    assert {value[1:] for _, name, value in whole.attributes if name == "href"} <= ids
    assert "<script" not in text
    assert HOSTILE.partition("=")[2] in "".join(whole.texts)
    for wanted in ("A & B: errors", "Confusions", "Labels that are likely missing", "1 head"):
        assert wanted in whole.texts, wanted


def test_bins_and_lengths_add_up(found, dataset):
    assert sum(row["test_pairs"] for row in found.by_frequency) == dataset.test.targets.nnz
    assert sum(row["given"] for row in found.by_frequency) == dataset.test.targets.nnz  # as many as are true
    assert sum(row["tested_labels"] for row in found.by_frequency) == found.labels
    assert sum(row["never_found"] for row in found.by_frequency) == found.counts["never_found"]
    assert sum(row["documents"] for row in found.by_length) == found.documents == 50
    mean = sum(row["documents"] * row["P@1"] for row in found.by_length) / 50
    assert mean == pytest.approx(found.scores["P@1"], abs=0.02)


def test_tables_have_their_columns_and_are_safe_in_a_spreadsheet(found, tmp_path):
    found.write_tables(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(FILES.values())
    for name, header in COLUMNS.items():
        with (tmp_path / FILES[name]).open(encoding="utf-8-sig", newline="") as file:
            first, *rows = csv.reader(file)
        assert tuple(first) == header
        assert len(rows) == len(found.tables[name])
        assert not [cell for row in rows for cell in row if cell.startswith("=")]
        assert all(set(row) == set(header) for row in found.tables[name])
    assert found.tables["confusions"]


def test_whom_it_judged(found):
    other = "Judged were 50 test documents and no training document: the run was trained on other data."
    assert whom(found.asked) == other
    all_of_them = whom(Asked(9, 9, 5, "", more=False))
    assert all_of_them == "Judged were all 9 training documents, fold by fold, and 5 test documents."
    some = whom(Asked(2, 9, 0, "it is so", more=True))
    assert some == (
        "Judged were no test document (they are too few) and 2 of 9 training documents: it is so. --folds 5 trains "
        "five times more, and judges all of them."
    )


def test_data_of_other_labels_are_refused(trained):
    model = load(trained, device="cpu", changes=False)
    other = planted(0, documents=100, test_documents=50, labels=40).dataset
    with pytest.raises(BadInput, match="expected the 120 labels of the model, found 40"):
        errors_of_run(trained, model, other)
