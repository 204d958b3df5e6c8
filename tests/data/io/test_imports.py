from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from longtail.data.dataset import Dataset
from longtail.data.io.imports import Columns, import_tables
from longtail.errors import BadInput, MissingExtra

CSV = 'uid,title,labels\n1,"red, ripe\napple",fruit; red\n2,pear,fruit\n3,stone,\n'


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def put_lines(path: Path, *records: object) -> Path:
    return put(path, "".join(json.dumps(record) + "\n" for record in records))


def targets(dataset: Dataset) -> list[list[int]]:
    return dataset.train.targets.toarray().astype(int).tolist()


def titles(dataset: Dataset) -> list[str]:
    return list(dataset.labels.fields["title"])


def test_csv_with_labels_of_its_own(tmp_path: Path) -> None:
    dataset = import_tables(put(tmp_path / "t.csv", CSV), separator=";", name="mine")
    assert dataset.name == "mine"
    assert list(dataset.train.documents.uids) == ["1", "2", "3"]
    assert list(dataset.train.documents.fields["title"]) == ["red, ripe\napple", "pear", "stone"]
    assert set(dataset.train.documents.fields) == {"title"}
    assert titles(dataset) == ["fruit", "red"]
    assert targets(dataset) == [[1, 1], [1, 0], [0, 0]]


def test_labels_of_the_test_table_follow(tmp_path: Path) -> None:
    train = put_lines(tmp_path / "t.jsonl", {"title": "a", "labels": ["x"]}, {"title": "b", "labels": []})
    test = put(tmp_path / "s.tsv", 'title\tlabels\nc\t["y", "x"]\n')
    dataset = import_tables(train, test=test)
    assert titles(dataset) == ["x", "y"]
    assert targets(dataset) == [[1, 0], [0, 0]]
    np.testing.assert_array_equal(dataset.test.targets.toarray(), [[1, 1]])


@pytest.mark.parametrize(
    ("file", "content", "cell", "match"),
    [
        ("l.txt", "x\ny\n", ["y"], None),
        ("l.csv", "title\nx\ny\n", ["y"], None),
        ("l.csv", "uid,title\n7,x\n9,y\n", [9], None),
        ("l.csv", "uid,title\n7,x\n9,y\n", ["y"], "title"),
        ("l.csv", "uid,title\n7,x\n9,y\n", [1], "row"),
        ("l.txt", "x\ny\n", "[1]", "row"),
        ("l.jsonl", '{"title": "x"}\n{"title": "y", "content": "z"}\n', 1, "row"),
    ],
)
def test_label_files(tmp_path: Path, file: str, content: str, cell: object, match: str | None) -> None:
    train = put_lines(tmp_path / "t.jsonl", {"title": "a", "labels": cell})
    dataset = import_tables(train, labels=put(tmp_path / file, content), match=match)
    assert titles(dataset) == ["x", "y"]
    assert targets(dataset) == [[0, 1]]


def test_parquet(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"id": [5, 6], "text": ["a", "b"], "more": ["c", None], "y": [["p", "q"], None]})
    parquet.write_table(table, tmp_path / "t.parquet")
    columns = Columns(title="text", content="more", uid="id", labels="y")
    dataset = import_tables(tmp_path / "t.parquet", columns=columns)
    assert list(dataset.train.documents.uids) == ["5", "6"]
    assert list(dataset.train.documents.fields["content"]) == ["c", ""]
    assert titles(dataset) == ["p", "q"]
    assert targets(dataset) == [[1, 1], [0, 0]]


def test_parquet_with_bytes_that_are_no_utf_8(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    raw = pyarrow.array([b"a"] * 4096 + [b"caf\xe9"])
    broken = pyarrow.StringArray.from_buffers(len(raw), *raw.buffers()[1:])
    path = tmp_path / "t.parquet"
    for column, values in (("title", broken), ("labels", pyarrow.ListArray.from_arrays(range(4098), broken))):
        table = pyarrow.table({"title": ["a"] * 4097, "labels": [["p"]] * 4097})
        parquet.write_table(table.set_column(table.column_names.index(column), column, values), path)
        said = f'row 4097: expected UTF-8 text in column "{column}", found byte 0xe9 at position 4; write it as UTF-8$'
        with pytest.raises(BadInput, match=said):
            import_tables(path)


def test_lines_of_fasttext(tmp_path: Path) -> None:
    lines = "__label__soup __label__quick Tomato  soup\nChicken __label__soup stew\nnothing of it\n__label__bare\n"
    dataset = import_tables(put(tmp_path / "t.txt", lines))
    assert titles(dataset) == ["soup", "quick", "bare"]
    assert list(dataset.train.documents.fields["title"]) == ["Tomato soup", "Chicken stew", "nothing of it", ""]
    assert targets(dataset) == [[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]]
    codes = import_tables(tmp_path / "t.txt", labels=put(tmp_path / "l.csv", "uid,title\nquick,q\nbare,b\nsoup,s\n"))
    assert targets(codes) == [[1, 0, 1], [0, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_words_of_fasttext_end_at_the_spaces_that_fasttext_knows(tmp_path: Path) -> None:
    """fastText's Dictionary::readWord; a no-break space, an ideographic one, U+2028 and U+001F are letters to it."""
    lines = "__label__ice\u00a0cream __label__a\u3000b\tone\u2028two\x0bthree\x0c__label__c\x1fd\rfour\n"
    dataset = import_tables(put(tmp_path / "t.txt", lines))
    assert titles(dataset) == ["ice\u00a0cream", "a\u3000b", "c\x1fd"]
    assert list(dataset.train.documents.fields["title"]) == ["one\u2028two three four"]


def test_long_cells_packed_files_and_other_encodings(tmp_path: Path) -> None:
    text = "\u00e9" * 200_000
    path = put(tmp_path / "t.csv.gz", gzip.compress(f'title,labels\n{text},"[""a""]"\n'.encode("latin-1")))
    dataset = import_tables(path, encoding="latin-1")
    assert dataset.train.documents.fields["title"][0] == text


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        MissingExtra, match=r"reading Parquet needs the package pyarrow; pip install 'longtail\[parquet\]'"
    ):
        import_tables(tmp_path / "t.parquet")


HEAD = "title,labels\n"
BAD_TABLES = {
    "empty": ("t.csv", "", "t.csv: the file is empty, expected a header; name"),
    "header alone": ("t.csv", HEAD, "t.csv: holds no record, expected at least 1; write"),
    "cells": ("t.csv", HEAD + "a,[1]\nb,c,d\n", "t.csv, line 3: expected 2 cells as in the header, found 3; put"),
    "quotes": ("t.csv", HEAD + '"a"b,c\n', r"t.csv, line 2: is not CSV \(.*\); mend"),
    "a quote that is left open": (
        *("t.csv", HEAD + 'a,"[""x""]"\n"b,c\nd,e\nf,g\n'),
        r"t.csv, line 3: is not CSV \(unexpected end of data\); mend",
    ),
    "no title": (
        "t.csv",
        "text,labels\na,b\n",
        't.csv, line 2: .* no column "title", the columns are: text, labels; .* --text',
    ),
    "no labels column": (
        "t.csv",
        "title,tags\na,b\n",
        't.csv, line 2: .* no column "labels", .*: title, tags; .* --labels-column',
    ),
    "no label at all": (
        "t.csv",
        HEAD + "a,\nb,\n",
        't.csv: no document has a label: 2 documents, 0 pairs; fill the column "labels"',
    ),
    "no separator": (
        "t.csv",
        HEAD + "a,x;y\n",
        "t.csv, line 2: expected a JSON list of labels, found 'x;y'; .* --separator ';'",
    ),
    "a list that is too deep": (
        *("t.csv", HEAD + f"a,{'[' * 100_000}\n"),
        "t.csv, line 2: expected a JSON list of labels, found '\\[\\[.*; write one",
    ),
    "a column that is no text": (
        "t.jsonl",
        '{"\\ud800": 1, "a\\nb": 2, "c": 3}\n',
        r"""t.jsonl, line 1: there is no column "title", the columns are: '\\ud800', 'a\\nb', c; name""",
    ),
    "half a list": ("t.csv", HEAD + 'a,"[1, 2"\n', r"t.csv, line 2: expected a JSON list of labels, found '\[1, 2'"),
    "object": (
        "t.jsonl",
        '{"title": "a", "labels": {"x": 1}}\n',
        "t.jsonl, line 1: expected label ids or texts, found",
    ),
    "fraction": (
        "t.jsonl",
        '{"title": "a", "labels": [1.5]}\n',
        "t.jsonl, line 1: expected label ids or texts, found '1.5'; write",
    ),
    "empty label": (
        "t.jsonl",
        '{"title": "a", "labels": [""]}\n',
        "t.jsonl, line 1: expected label ids or texts, found ''",
    ),
    "blank label": (
        "t.jsonl",
        '{"title": "a", "labels": ["x", " "]}\n',
        "t.jsonl, line 1: expected label ids or texts, found ' '",
    ),
    "title is a list": (
        "t.jsonl",
        '{"title": [], "labels": [1]}\n',
        "t.jsonl, line 1: expected text in column \"title\", found '\\[\\]'; write",
    ),
    "content is a list": (
        "t.jsonl",
        '{"title": "a", "content": [], "labels": [1]}\n',
        't.jsonl, line 1: expected text in column "content"',
    ),
    "bad JSON": (
        "t.jsonl",
        '{"title": "a", "labels": ["x"]}\n{\n',
        "t.jsonl, line 2: expected one JSON object a line, found '{'",
    ),
    "uid twice": (
        "t.csv",
        'uid,title,labels\n1,"a\nb",[0]\n2,c,[0]\n1,d,[0]\n',
        "t.csv, line 5: uid '1' is that of line 3 too; give",
    ),
    "NUL in a title": (
        "t.jsonl",
        '{"title": "a", "labels": [1]}\n{"title": "b\\u0000", "labels": [1]}\n',
        r"t.jsonl, line 2: expected text that UTF-8 can hold, without NUL, found 'b\\x00'; take out",
    ),
    "a lone surrogate in a title": (
        "t.jsonl",
        '{"title": "\\ud800", "labels": [1]}\n',
        r"t.jsonl, line 1: expected text that UTF-8 can hold, without NUL, found '\\ud800'; take out",
    ),
    "a lone surrogate in a label": (
        "t.jsonl",
        '{"title": "a", "labels": ["b"]}\n{"title": "a", "labels": ["b", "\\ud800"]}\n',
        r"t.jsonl, line 2: expected text that UTF-8 can hold, without NUL, found '\\ud800'; take out",
    ),
    "encoding": (
        "t.csv",
        b"title,labels\np\xe9che,[1]\n",
        "t.csv, line 2: expected utf-8 text, found byte 0xe9 at position 2; .*latin-1",
    ),
    "kind": ("t.xlsx", "x", "t.xlsx: a table of unknown kind, its name ends in '.xlsx'; give a .csv"),
    "parquet": ("t.parquet", "x", "t.parquet: is not readable as Parquet after 0 rows"),
    "no line of fasttext": (
        *("t.txt", "a text\nand one more\n"),
        "t.txt: expected lines with __label__NAME, as of fastText, found none in 2 lines; write",
    ),
    "no line at all": ("t.txt", "", "t.txt: expected lines with __label__NAME, as of fastText, found none in 0 lines"),
    "gzip": ("t.csv.gz", "x", "t.csv.gz: the gzip is broken"),
}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.txt"])
def test_utf_16_is_called_by_its_name(tmp_path: Path, encoding: str, name: str) -> None:
    path = put(tmp_path / name, "\ufefftitle,labels\na,x\n".encode(encoding))
    with pytest.raises(BadInput, match=f"{name}, line 1: expected utf-8 text, found UTF-16; save it as UTF-8"):
        import_tables(path, separator=";")


@pytest.mark.parametrize("case", BAD_TABLES)
def test_tables_that_are_wrong(tmp_path: Path, case: str) -> None:
    name, content, message = BAD_TABLES[case]
    with pytest.raises(BadInput, match=message):
        import_tables(put(tmp_path / name, content))


def test_labels_have_no_blanks_around_them_however_they_are_given(tmp_path: Path) -> None:
    rows = [{"title": "a", "labels": [" x ", "y\t"]}, {"title": "b", "labels": '["x"]'}, {"title": "c", "labels": " "}]
    dataset = import_tables(put_lines(tmp_path / "t.jsonl", *rows))
    assert titles(dataset) == ["x", "y"]
    assert targets(dataset) == [[1, 1], [1, 0], [0, 0]]
    dataset = import_tables(tmp_path / "t.jsonl", labels=put(tmp_path / "l.txt", "y \n x\n"))
    assert targets(dataset) == [[1, 1], [0, 1], [0, 0]]


def test_a_tab_between_labels_may_be_typed(tmp_path: Path) -> None:
    for separator in ("\t", r"\t"):
        dataset = import_tables(put(tmp_path / "t.csv", "title,labels\na,x\ty\nb,y\n"), separator=separator)
        assert titles(dataset) == ["x", "y"]


BAD_LABELS = {
    "unknown uid": (
        "uid,title\n7,x\n",
        ["x"],
        None,
        "t.jsonl, line 1: label 'x' is not one of the 1 uids of l.csv; .* --match title or --match row",
    ),
    "unknown title": ("title\nx\n", ["y"], None, "t.jsonl, line 1: label 'y' is not one of the 1 titles of l.csv"),
    "no such row": ("title\nx\n", [1], "row", "t.jsonl, line 1: label '1' is not a row from 0 to 0 of l.csv"),
    "NUL in a label": ("title\nx\0\n", ["x"], None, "l.csv, line 2: .* NUL"),
    "title twice": ("title\nx\ny\nx\n", ["x"], None, "l.csv: title 'x' is that of labels 0 and 2; name labels by"),
    "uid twice": ("uid,title\n7,x\n7,y\n", ["x"], None, "l.csv, line 3: uid '7' is that of line 2 too"),
    "no labels": ("title\n", ["x"], None, "l.csv: holds no record, expected at least 1"),
    "no title": ("name\nx\n", ["x"], None, 'l.csv, line 2: there is no column "title"'),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_label_files_that_are_wrong(tmp_path: Path, case: str) -> None:
    content, cell, match, message = BAD_LABELS[case]
    train = put_lines(tmp_path / "t.jsonl", {"title": "a", "labels": cell})
    with pytest.raises(BadInput, match=message):
        import_tables(train, labels=put(tmp_path / "l.csv", content), match=match)


def test_files_that_are_missing(tmp_path: Path) -> None:
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        with pytest.raises(BadInput, match=f"{name}: the file is missing; check"):
            import_tables(tmp_path / name)
    train = put_lines(tmp_path / "t.jsonl", {"title": "a", "labels": ["x"]})
    with pytest.raises(BadInput, match=r"l\.txt: the file is empty, expected at least 1 label"):
        import_tables(train, labels=put(tmp_path / "l.txt", ""))
