"""Token tables: rows of differing length in flat arrays, in memory and on disk."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from longtail.errors import BadInput
from longtail.text.ragged import Ragged


def ragged(*rows: list[int]) -> Ragged:
    """Ids as given; each weighs a tenth of itself."""
    flat = [i for row in rows for i in row]
    offsets = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    return Ragged(np.asarray(flat, np.int32), offsets, np.asarray(flat, np.float32) / 10)


def lists(table: Ragged) -> list[list[int]]:
    return [table.ids[start:end].tolist() for start, end in pairwise(table.offsets)]


def assert_same(one: Ragged, other: Ragged) -> None:
    for name in Ragged.__slots__:
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


TABLE = ragged([10, 11], [], [30], [40, 41, 42])


def test_length_counts_rows() -> None:
    assert len(TABLE) == 4
    assert len(ragged()) == 0


def test_take_any_order_and_repeats() -> None:
    taken = TABLE.take(np.array([3, 1, 0, 3]))
    assert lists(taken) == [[40, 41, 42], [], [10, 11], [40, 41, 42]]
    np.testing.assert_allclose(taken.weights, taken.ids / 10, rtol=1e-6)


def test_take_nothing() -> None:
    assert_same(TABLE.take(np.zeros(0, np.int64)), ragged())


def test_take_without_weights() -> None:
    table = Ragged(TABLE.ids, TABLE.offsets, np.zeros(0, np.float32))
    taken = table.take(np.array([2, 0]))
    assert lists(taken) == [[30], [10, 11]]
    assert len(taken.weights) == 0


def test_concatenated_is_the_rows_in_order() -> None:
    parts = [ragged([10, 11], []), ragged(), ragged([30], [40, 41, 42])]
    assert_same(Ragged.concatenated(parts), TABLE)
    assert_same(Ragged.concatenated([]), ragged())


@pytest.mark.parametrize("table", [TABLE, ragged(), ragged([], [])], ids=["rows", "no rows", "empty rows"])
def test_saved_and_loaded(tmp_path: Path, table: Ragged) -> None:
    table.save(tmp_path / "new" / "table")
    loaded = Ragged.load(tmp_path / "new" / "table")
    assert isinstance(loaded.ids, np.memmap)
    assert not loaded.ids.flags.writeable
    assert_same(loaded, table)
    every = np.arange(len(table))
    assert_same(loaded.take(every), table)
    assert all(getattr(loaded.take(every), name).flags.writeable for name in Ragged.__slots__)


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    TABLE.save(tmp_path / "table")
    with pytest.raises(BadInput, match="not empty"):
        ragged([1]).save(tmp_path / "table")
    assert_same(Ragged.load(tmp_path / "table"), TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["table"]
