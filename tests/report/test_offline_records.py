"""Tables that a run is judged by: what their rows are read as."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from longtail.data.dataset import Dataset
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.report.offline_records import read_records

LABELS = ["x", "y", "z"]
TEST = Dataset.from_texts(["q", "r"], [[0], [1]], LABELS).train
DATA = replace(Dataset.from_texts(["a", "b"], [[0], [1]], LABELS), test=TEST)


def put(path: Path, *lines: list[object]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


@pytest.mark.parametrize(
    ("events", "searches"),
    [(None, [3, 1]), (["", "", "", ""], [3, 1]), (["1", "1", "", "1"], [2, 1]), (["1", "1", "2", ""], [2, 1])],
)
def test_a_row_of_a_log_without_an_event_is_a_search_by_itself(
    tmp_path: Path, events: list[str] | None, searches: list[int]
) -> None:
    rows = [["q", "x", 0.5], ["q", "y", 0.5], ["q", "z", 0.5], ["r", "x", 0.5]]
    header = ["query", "keyword", "propensity"]
    if events is not None:
        header, rows = [*header, "event"], [[*row, event] for row, event in zip(rows, events, strict=True)]
    log = read_records(DATA, None, None, put(tmp_path / "log.csv", header, *rows), None).log
    assert log is not None
    assert log.searches.tolist() == searches


@pytest.mark.parametrize("clicks", ["1_0", "\uff12", "nan", "-1"])
def test_what_only_python_takes_for_a_number_is_none(tmp_path: Path, clicks: str) -> None:
    log = put(tmp_path / "log.csv", ["query", "keyword", "propensity", "clicks"], ["q", "x", 0.5, clicks])
    with pytest.raises(BadInput, match=f"of at least 0 in column .clicks., found '{clicks}'"):
        read_records(DATA, None, None, log, None)


def test_names_are_found_with_blanks_around_them_and_in_any_normal_form(tmp_path: Path) -> None:
    test = Dataset.from_texts([" caf\u00e9 ", "the\u0301"], [[0], [1]], LABELS).train
    data = replace(DATA, test=test, labels=Texts.of(["x ", "\u00e9", "z"]))
    rows = [["cafe\u0301", "x", 1], [" caf\u00e9", "e\u0301", 2], ["th\u00e9 ", " x ", 3]]
    table = put(tmp_path / "judged.csv", ["query", "keyword", "grade"], *rows)
    found = read_records(data, None, table, None, None).judged
    assert found is not None
    assert list(zip(found.rows.tolist(), found.labels.tolist(), found.grades, strict=True)) == [
        (0, 0, "1"),
        (0, 1, "2"),
        (1, 0, "3"),
    ]
