"""A table of texts keeps what it has, cell by cell, and gets labels behind it."""

from __future__ import annotations

import csv
import json

import pytest

from longtail import Ranker
from longtail.bulk.tables import predict_table
from longtail.data.io.tables import csv_rows
from longtail.errors import BadInput


def ranked(run, folder, table):
    (folder / "t.csv").write_text(table, encoding="utf-8")
    count = predict_table(Ranker(run, k=1, device="cpu"), folder / "t.csv", folder / "out.csv", batch=2)
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert count == len(rows)
    return header, rows


def test_columns_without_a_name_are_kept_each(trained, tmp_path):
    header, rows = ranked(trained, tmp_path, ",title,,more\n1,a,left,x\n2,b,,y\n3,c,last,\n")
    assert header == ["", "title", "", "more", "labels", "scores"]
    assert [row[:4] for row in rows] == [["1", "a", "left", "x"], ["2", "b", "", "y"], ["3", "c", "last", ""]]
    assert all(len(json.loads(row[4])) == 1 for row in rows)


def test_no_row_of_one_column_is_passed_over(trained, tmp_path):
    _, rows = ranked(trained, tmp_path, 'title\na\n""\nb\n\n')
    assert [row[0] for row in rows] == ["a", "", "b"]
    (tmp_path / "out.csv").unlink()
    with pytest.raises(BadInput, match=r't\.csv, line 3: .* found a blank line; take it out, or write ""'):
        ranked(trained, tmp_path, "title\na\n\n\nb\n")
    assert not (tmp_path / "out.csv").exists()


def test_a_cell_with_a_return_is_written_so_that_it_can_be_read_again(trained, tmp_path):
    cells = ["a\rb", "c\nd", "e\r\nf", 'g "h", i', "j"]
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["title"], *([cell] for cell in cells)])
    predict_table(Ranker(trained, k=1, device="cpu"), tmp_path / "t.csv", tmp_path / "out.csv", batch=2)
    assert [row[0] for _, row in csv_rows(tmp_path / "out.csv")] == ["title", *cells]
    assert (tmp_path / "out.csv").read_bytes().endswith(b"]\n")
