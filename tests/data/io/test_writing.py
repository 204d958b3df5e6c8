"""Labels of a model as they are kept."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from longtail.data.io.tables import read_table
from longtail.data.io.writing import read_labels, write_csv, write_labels
from longtail.data.texts import Texts
from longtail.errors import BadInput


def test_labels_come_back(tmp_path: Path) -> None:
    labels = Texts.of(["a\u2028b", "\x01", ""], uids=["u\n", "v", ""])
    write_labels(tmp_path / "labels.jsonl", labels)
    assert read_labels(tmp_path / "labels.jsonl").digest() == labels.digest()


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff", b"[]\n", b"5\n", b'{"uid": "a"}\n', b'{"uid": 1, "text": "a"}\n', b"[" * 100_000, None],
    ids=["cut", "no UTF-8", "a list", "a number", "no text", "a uid that is a number", "too deep", "missing"],
)
def test_labels_that_are_none_are_refused_in_one_line(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "labels.jsonl").write_bytes(content)
    with pytest.raises(
        BadInput, match=r"labels\.jsonl: expected labels with uid and text, .*; copy the folder again"
    ) as e:
        read_labels(tmp_path / "labels.jsonl")
    assert len(str(e.value).splitlines()) == 1


def test_a_table_opens_in_a_spreadsheet_as_what_it_is(tmp_path: Path) -> None:
    texts = ["=1+1", "+a", "-a", "@a", " =a", "\uff1da", "a=1", 'a,"b"', "two\nlines\t\x1b[31m", "été", "", "'a"]
    rows = [{"text": text, "number": number, "left out": "x"} for text, number in zip(texts, [-1, 0.5, None] * 4)]  # noqa: B905
    write_csv(tmp_path / "a.csv", ["number", "text"], rows)
    raw = (tmp_path / "a.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbfnumber,text\r\n")
    assert raw.count(b"\n") == len(texts) + 1
    with (tmp_path / "a.csv").open(encoding="utf-8-sig", newline="") as file:
        numbers, cells = zip(*list(csv.reader(file))[1:], strict=True)
    safe = [
        "'=1+1",
        "'+a",
        "'-a",
        "'@a",
        "' =a",
        "'\uff1da",
        "a=1",
        'a,"b"',
        r"two\u000alines\u0009\u001b[31m",
        *texts[9:],
    ]
    assert list(cells) == safe
    assert numbers[:3] == ("-1", "0.5", "")
    assert [record["text"] for _, record in read_table(tmp_path / "a.csv")] == safe
