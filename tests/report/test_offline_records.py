"""Tables that a run is judged by: what their rows are read as."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from longtail.data.dataset import Dataset
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
