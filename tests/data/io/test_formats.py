from __future__ import annotations

import gc
import gzip
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.data.io.formats import json_lines, lines, read_pairs, read_points, read_sparse
from longtail.data.io.writing import write_lines, write_pairs, write_sparse
from longtail.data.sparse import CSR, csr, csr_of_lists
from longtail.errors import BadInput

HEAVY = CSR(np.array([[0, 0.1, 0, 7], [0, 0, 0, 0], [1 / 3, 0, 0, 1e-20]], np.float32))


@pytest.mark.parametrize("name", ["m.txt", "m.txt.gz"])
def test_a_matrix_survives_a_file_to_the_bit(tmp_path: Path, name: str) -> None:
    write_sparse(tmp_path / name, HEAVY)
    read = read_sparse(tmp_path / name, what="node id")
    assert read.shape == (3, 4)
    np.testing.assert_array_equal(read.toarray(), HEAVY.toarray())
    assert (read.indices.dtype, read.indptr.dtype, read.data.dtype) == (np.int64, np.int64, np.float32)


def test_a_matrix_is_written_as_the_repository_does(tmp_path: Path) -> None:
    write_sparse(tmp_path / "m.txt", csr_of_lists([[1, 3], [], [0]], 4))
    assert (tmp_path / "m.txt").read_text() == "3 4\n1:1 3:1\n\n0:1\n"


def test_entries_of_weight_0_go_and_the_larger_of_two_stays(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("2 3 5\n2:0 1:1 0:0.5\n1:0.25 1:0.75\n")
    read = read_sparse(tmp_path / "m.txt", what="label id")
    np.testing.assert_array_equal(read.toarray(), [[0.5, 1, 0], [0, 0.75, 0]])
    assert read.nnz == 3
    np.testing.assert_array_equal(read.indices, [0, 1, 1])


def test_pairs_survive_a_file(tmp_path: Path) -> None:
    pairs = csr(np.array([3, 0, 3]), np.array([1, 2, 0]), (5, 4))
    write_pairs(tmp_path / "p.txt", pairs)
    assert (tmp_path / "p.txt").read_text() == "0 2\n3 0\n3 1\n"
    np.testing.assert_array_equal(read_pairs(tmp_path / "p.txt", (5, 4)).toarray(), pairs.toarray())


def test_a_filter_file_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("")
    pairs = read_pairs(tmp_path / "p.txt", (5, 4))
    assert (pairs.shape, pairs.nnz) == ((5, 4), 0)


def test_the_older_format_gives_its_labels(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("4 9 3\n2,0 1:0.5 8:1\n 3:1\n0:1 2:1\n1\n")
    read = read_points(tmp_path / "train.txt")
    np.testing.assert_array_equal(read.toarray(), [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0]])


def test_in_the_older_format_a_tab_may_stand_before_the_features(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("4 9 3\n1,2\t0:0.5 3:1\n\t3:1\n0:1e-3\t2:1\n0\t\n")
    read = read_points(tmp_path / "train.txt")
    np.testing.assert_array_equal(read.toarray(), [[0, 1, 1], [0, 0, 0], [0, 0, 0], [1, 0, 0]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("2 3\n0 1:1\n", "line 1: expected a header 'points features labels', found '2 3'"),
        ("2 9 3\n0 1:1\n", "line 1: the header says 2 rows, and 1 follow"),
        ("1 9 3\n0,x 1:1\n", "line 2: expected a line like '3,8 0:0.5 7:1', found '0,x 1:1'"),
        ("1 9 3\n1,2:1\n", "line 2: expected a line like '3,8 0:0.5 7:1', found '1,2:1'"),
        ("1 9 3\n0:1_0\n", "line 2: expected a line like '3,8 0:0.5 7:1', found '0:1_0'"),
        ("1 9 3\n3 1:1\n", r"line 2: label id 3 is not in \[0, 3\)"),
    ],
)
def test_the_older_format_can_be_wrong(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "train.txt").write_text(content)
    with pytest.raises(BadInput, match=f"train.txt, {message}"):
        read_points(tmp_path / "train.txt")


def test_a_line_ends_at_a_line_feed_only(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes("\ufeffa\u2028b\x0bc\r\n\x85\u00e9\nlast".encode())
    assert list(lines(tmp_path / "t.txt")) == ["a\u2028b\x0bc", "\x85\u00e9", "last"]


def test_equal_lines_give_equal_bytes(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.gz", ["x", "\u00e9\ud800"])
    write_lines(tmp_path / "b.gz", ["x", "\u00e9\ud800"])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).decode() == "x\n\u00e9?\n"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    def failing() -> object:
        yield "new"
        raise KeyError

    write_lines(tmp_path / "t.txt", ["old"])
    with pytest.raises(KeyError):
        write_lines(tmp_path / "t.txt", failing())
    assert (tmp_path / "t.txt").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t.txt"]


@pytest.mark.parametrize("read", [json_lines, lines], ids=["of JSON", "of text"])
def test_a_file_that_is_refused_is_closed_at_once(read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that held itself would keep the file open until the collector comes by."""
    opened: list[Any] = []
    path, plain = tmp_path / "texts.gz", Path.open
    path.write_bytes(gzip.compress(b"{}\n\xff\n{}\n" * 3))

    def noted(self: Path, *given: Any, **options: Any) -> Any:
        opened.append(plain(self, *given, **options))
        return opened[-1]

    monkeypatch.setattr(Path, "open", noted)
    gc.disable()
    try:
        with suppress(BadInput):
            list(read(path))
        assert [file.closed for file in opened] == [True]
    finally:
        gc.enable()
