"""Approximate search finds most of what exact search finds, and says how much."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import numpy as np
import pytest

from longtail.cards import write_card
from longtail.errors import BadInput, LongtailError, NotWritten
from longtail.search import INDEXES, build_index, open_index
from longtail.search.exact import Exact
from longtail.search.faiss import exact_in_blocks, recall
from longtail.topk import TopK

pytest.importorskip("faiss", reason="the extra longtail[faiss] is not installed")


def clustered(rows, seed, width=13):
    """Vectors around 40 centres, of different lengths."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(9).standard_normal((40, width))
    vectors = centres[generator.integers(40, size=rows)] + 0.5 * generator.standard_normal((rows, width))
    return (vectors * generator.uniform(0.8, 1.2, (rows, 1))).astype(np.float32)


@pytest.fixture(scope="module", params=[name for name, kind in INDEXES.items() if kind.load is not None])
def made(request):
    """An index over 3,000 vectors, the table, and queries that it was not built with."""
    table = clustered(3000, 1)
    index = build_index(table.__getitem__, len(table), clustered(200, 2), method=request.param, target=0.9)
    return index, table, clustered(100, 3)


def test_it_finds_what_it_says(made):
    index, table, queries = made
    truth = Exact(table).search(queries, 10)
    found = index.search(queries, 10)
    assert index.measured.recall >= 0.85
    assert recall(found, truth.ids) >= 0.85
    np.testing.assert_array_equal(exact_in_blocks(table.__getitem__, len(table), queries, 10), truth.ids)


def test_scores_are_exact_and_ranked(made):
    index, table, queries = made
    top = index.search(queries, 7)
    assert top.ids.dtype == np.int64
    assert top.scores.dtype == np.float32
    np.testing.assert_allclose(top.scores, np.einsum("qkw,qw->qk", table[top.ids], queries), rtol=1e-5)
    assert (np.diff(top.scores, axis=1) <= 0).all()
    assert all(len(set(row)) == 7 for row in top.ids.tolist())


def test_no_queries_and_more_than_there_is(made):
    index, _, queries = made
    assert index.search(queries[:0], 4).ids.shape == (0, 4)
    few = build_index(clustered(30, 4).__getitem__, 30, clustered(10, 5), method="hnsw")
    top = few.search(queries[:2], 50)
    assert top.ids.shape == (2, 50)
    assert (top.ids[:, 30:] == -1).all()
    assert np.isneginf(top.scores[:, 30:]).all()


def test_saved_and_opened(made, tmp_path):
    index, table, queries = made
    index.save(tmp_path / "index")
    opened = open_index(tmp_path / "index", table.__getitem__)
    assert opened.measured == index.measured
    np.testing.assert_array_equal(opened.search(queries, 5).ids, index.search(queries, 5).ids)
    card = tmp_path / "index" / "index.json"
    said = {key: value for key, value in json.loads(card.read_text()).items() if key not in ("sha256", "digest")}
    card.unlink()
    write_card(card, said | {"labels": 5})
    with pytest.raises(BadInput, match="expected 5 vectors of width 13, found 3000 of 16"):
        open_index(tmp_path / "index", table.__getitem__)
    (tmp_path / "index" / "index.faiss").write_bytes(b"nothing")
    card.unlink()
    write_card(card, said)
    with pytest.raises(BadInput, match="expected an index of faiss"):
        open_index(tmp_path / "index", table.__getitem__)


def test_memory_decides_the_method():
    table, queries = clustered(1000, 1), clustered(50, 2)
    assert build_index(table.__getitem__, 1000, queries, target=0.5, memory=1.0).measured.method == "hnsw"
    assert build_index(table.__getitem__, 1000, queries, target=0.5, memory=0.0001).measured.method == "ivfpq"
    assert build_index(table.__getitem__, 1000, queries, target=0.5, memory=1e-6).measured.method == "ivfpq-disk"


def lists_of(index):
    """The ids and codes of each cell."""
    faiss = pytest.importorskip("faiss")
    lists = index.invlists
    sizes = [lists.list_size(cell) for cell in range(lists.nlist)]
    ids = [faiss.rev_swig_ptr(lists.get_ids(i), n).tolist() for i, n in enumerate(sizes) if n]
    codes = [faiss.rev_swig_ptr(lists.get_codes(i), n * lists.code_size).tolist() for i, n in enumerate(sizes) if n]
    return ids, codes


def test_shards_that_are_merged_on_the_disk_are_the_index_of_all(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("longtail.search.on_disk._SHARD", 700)
    monkeypatch.setattr("longtail.search.faiss._BLOCK", 300)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table, queries = clustered(3000, 1), clustered(50, 2)
    whole, merged = (
        build_index(table.__getitem__, 3000, queries, target=0.5, method=method) for method in ("ivfpq", "ivfpq-disk")
    )
    assert lists_of(merged.index) == lists_of(whole.index)
    assert [path.name for path in tmp_path.glob("*/*")] == ["lists.faiss"]  # the shards are gone
    merged.save(tmp_path / "index")
    assert (tmp_path / "index" / "lists.faiss").stat().st_size >= 3000 * (4 + 8)
    assert (tmp_path / "index" / "index.faiss").stat().st_size < (tmp_path / "index" / "lists.faiss").stat().st_size
    (tmp_path / "index").rename(tmp_path / "moved")
    del merged
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]
    opened = open_index(tmp_path / "moved", table.__getitem__)
    effort = whole.measured.effort
    found, expected = opened.with_effort(effort).search(queries, 10), whole.search(queries, 10)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    print("answer")
    assert capfd.readouterr().out == "answer\n"  # and nothing of faiss before it
    del opened  # faiss reads ahead, in threads, what it maps: a file that is cut below it ends the process
    gc.collect()
    (tmp_path / "moved" / "lists.faiss").write_bytes(b"nothing")
    with pytest.raises(BadInput, match=r"lists\.faiss"):
        open_index(tmp_path / "moved", table.__getitem__)


def test_a_target_that_is_not_reached_is_an_error(monkeypatch):
    monkeypatch.setattr("longtail.search.faiss.recall", lambda *_: 0.1)
    with pytest.raises(LongtailError, match=r"stays below a recall@10 of 0\.95"):
        build_index(clustered(100, 1).__getitem__, 100, clustered(10, 2))


def test_recall_by_hand():
    top = TopK(np.array([[3, 1, -1], [0, 2, 4]]), np.zeros((2, 3), np.float32))
    assert recall(top, np.array([[1, 3, -1], [5, 2, 6]])) == pytest.approx(3 / 5)


def test_only_what_is_kept_with_a_model_can_be_built_for_it():
    kept = "hnsw, ivfpq, ivfpq-disk, float16, int8, binary"
    for method in ("exact", "flat"):
        with pytest.raises(BadInput, match=f"method: expected one of {kept}, found {method}; choose"):
            build_index(clustered(300, 1).__getitem__, 300, clustered(10, 2), method=method)
    with pytest.raises(BadInput, match="method: expected 256 labels or more for ivfpq, found 255; take hnsw"):
        build_index(clustered(255, 1).__getitem__, 255, clustered(10, 2), method="ivfpq")


def test_codes_take_the_bytes_that_they_say_and_fewer_bits_ask_for_more_exact_scores(tmp_path):
    table, queries, sizes, efforts = clustered(3000, 1, width=64), clustered(50, 2, width=64), {}, {}
    for method in ("float16", "int8", "binary"):
        index = build_index(table.__getitem__, 3000, queries, target=0.99, method=method)
        index.save(tmp_path / method)
        sizes[method] = (tmp_path / method / "index.faiss").stat().st_size / 3000
        efforts[method] = index.measured.effort
    assert sizes["float16"] == pytest.approx(2 * 64, rel=0.05)
    assert sizes["int8"] == pytest.approx(64, rel=0.05)
    assert sizes["binary"] == pytest.approx(64 / 8 + 8, rel=0.5)  # two numbers beside the bits, and the rotation
    assert efforts["float16"] == 10 <= efforts["int8"] < efforts["binary"] < 3000


def test_the_table_of_indexes_does_not_wait_for_faiss():
    program = "import sys, longtail.search; assert not any(name.split('.')[0] == 'faiss' for name in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_index_that_finds_no_room_is_one_line(made, tmp_path, monkeypatch):
    index, _, _ = made

    def full(*_):
        raise RuntimeError("Error in void faiss::write_index(): Error: 'ret == (1)' failed: no room\n")

    monkeypatch.setattr("faiss.write_index", full)
    with pytest.raises(NotWritten, match=r"index: not written \(no room\); make room"):
        index.save(tmp_path / "index")
    assert not [*tmp_path.iterdir()]
