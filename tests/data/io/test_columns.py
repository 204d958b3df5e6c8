"""Further columns of documents: from tables and records into data sets, through splits, and out again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longtail.data.dataset import Dataset
from longtail.data.holdout import with_test_split
from longtail.data.io import records
from longtail.data.io.folder import Folder
from longtail.data.io.imports import import_tables
from longtail.data.io.manifest import FIELDS
from longtail.errors import BadInput

TABLE = "title,labels,market,clicks,note\na,x,de,12,\nb,x;y,,3,\nc,y,en,0.5,\n"
ALL = (*FIELDS, "market", "clicks")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three documents with a market and clicks, kept from a table."""
    (tmp_path / "t.csv").write_text(TABLE)
    import_tables(tmp_path / "t.csv", separator=";", keep=("market", "clicks")).write(tmp_path / "data")
    return tmp_path / "data"


def columns(dataset: Dataset) -> dict[str, list[str]]:
    fields = dataset.train.documents.fields
    return {name: list(fields[name]) for name in ("market", "clicks") if name in fields}


def test_columns_are_kept_and_read_where_they_are_asked_for(folder: Path) -> None:
    assert Folder.open(folder).columns("train") == ["market", "clicks"]
    assert columns(Dataset.read(folder)) == {}
    whole = Dataset.read(folder, fields=ALL)
    assert columns(whole) == {"market": ["de", "", "en"], "clicks": ["12", "3", "0.5"]}
    assert columns(Dataset.read(folder, fields=("title", "clicks"))) == {"clicks": ["12", "3", "0.5"]}
    plain = import_tables(folder.parent / "t.csv", separator=";")
    assert Dataset.read(folder).fingerprint() == plain.fingerprint(), "a run is known by what it reads"
    assert whole.fingerprint() != plain.fingerprint()


def test_columns_go_through_a_split_and_a_second_writing(folder: Path) -> None:
    made, cut = with_test_split(Dataset.read(folder, fields=ALL), 1, 0, at_random=True)
    made.write(folder.parent / "cut")
    again = Dataset.read(folder.parent / "cut", fields=ALL)
    assert list(again.test.documents.fields["market"]) == [["de", "", "en"][int(cut[0])]]
    assert len(columns(again)["clicks"]) == 2


def test_values_of_records_are_text_numbers_true_and_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = ["de", 7, 0.5, True, None]
    lines = [{"title": "a", "target_ind": [], "v": value} for value in values] + [{"title": "a", "target_ind": []}]
    path = tmp_path / "trn.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = ["de", "7", "0.5", "true", "", ""]
    for _ in range(2):
        texts, _ = records.read_records(path, encoding="utf-8", fields=("title", "v"), columns=3)
        assert list(texts.fields["v"]) == expected
        monkeypatch.setattr(records, "_added", lambda *_: False)  # then line by line


def test_a_list_is_no_value_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "trn.json"
    path.write_text('{"title": "a", "target_ind": [], "v": "x"}\n{"title": "a", "target_ind": [], "v": [1]}\n')
    with pytest.raises(BadInput, match=r"trn\.json, line 2: expected text or a number, found '\[1\]' as \"v\""):
        records.read_records(path, encoding="utf-8", fields=("title", "v"), columns=3)
    table = tmp_path / "t.jsonl"
    table.write_text('{"title": "a", "labels": ["x"], "v": {"a": 1}}\n')
    with pytest.raises(BadInput, match=r"t\.jsonl, line 1: expected text or a number.* in column \"v\""):
        import_tables(table, keep=("v",))


@pytest.mark.parametrize(
    ("keep", "said"),
    [
        ("note", 't.csv: column "note" is missing, or empty in all rows'),
        ("nothing", 't.csv: column "nothing" is missing'),
        ("uid", "keep: expected further columns, found uid"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused(tmp_path: Path, keep: str, said: str) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    with pytest.raises(BadInput, match=said):
        import_tables(tmp_path / "t.csv", separator=";", keep=("market", keep))


def test_a_folder_of_matrices_has_its_columns_beside_its_texts(tmp_path: Path) -> None:
    (tmp_path / "raw_data").mkdir()
    (tmp_path / "trn_X_Y.txt").write_text("2 1\n0:1\n\n")
    for name, lines in {"train.raw": "a\nb\n", "label.raw": "x\n", "train.market": "de\n\n"}.items():
        (tmp_path / "raw_data" / f"{name}.txt").write_text(lines)
    assert Folder.open(tmp_path).columns("train") == ["market"]
    read = Dataset.read(tmp_path, fields=("title", "market", "clicks"))
    assert columns(read) == {"market": ["de", ""]}
    (tmp_path / "raw_data" / "train.market.txt").write_text("de\n")
    with pytest.raises(BadInput, match="holds 1 lines for 2 documents"):
        Dataset.read(tmp_path, fields=("market",))
