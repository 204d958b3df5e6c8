"""Labels of a model as they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtail.data.io.writing import read_labels, write_labels
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
