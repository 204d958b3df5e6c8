"""Published data sets at their own size; see the fixture ``benchmarks`` for how to run these."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from longtail.data.check import check
from longtail.data.dataset import Dataset
from longtail.data.filters import identity_pairs, proposed_filter
from longtail.data.holdout import rows_to_hold_out
from longtail.data.io.formats import read_pairs, read_sparse


@pytest.fixture(scope="module")
def msdocs(benchmarks: Path) -> Dataset:
    folder = benchmarks / "MSDocs-SeeAlso"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    start = time.process_time()
    dataset = Dataset.read(folder, fields=("title",))
    assert time.process_time() - start < 15  # about 3 s on an idle core
    return dataset


def test_msdocs_is_read_as_its_page_says(msdocs: Dataset) -> None:
    assert (len(msdocs.train), len(msdocs.test), len(msdocs.labels)) == (67_087, 28_752, 53_073)
    frequency = np.bincount(msdocs.train.targets.indices, minlength=53_073)
    assert (frequency == 0).sum() == 7_688
    assert round((frequency[msdocs.test.targets.indices] == 0).mean(), 2) == 0.13
    nodes = {name: len(graph.nodes) for name, graph in msdocs.graphs.items()}
    assert nodes == {"hyperlink": 89_638, "category": 1_712}
    assert (msdocs.graphs["hyperlink"].train.nnz, msdocs.graphs["hyperlink"].label.nnz) == (214_070, 152_671)
    assert (msdocs.graphs["category"].train.nnz, msdocs.graphs["category"].label.nnz) == (92_149, 59_114)


def test_the_filter_of_msdocs_is_the_proposed_one(msdocs: Dataset) -> None:
    _, test = proposed_filter(msdocs.train, msdocs.test, msdocs.labels)
    assert test.nnz == 20_617
    assert test.multiply(msdocs.test.filtered).nnz == test.nnz == msdocs.test.filtered.nnz
    itself = identity_pairs(msdocs.train.documents, msdocs.labels)
    assert itself.multiply(msdocs.train.filtered).nnz == itself.nnz == msdocs.train.filtered.nnz == 27_268


def test_no_label_of_held_out_msdocs_rows_is_lost(msdocs: Dataset) -> None:
    kept, held = msdocs.holdout(rows_to_hold_out(msdocs.train.targets, 10_000, 0))
    assert (len(kept.train), len(held)) == (57_087, 10_000)
    frequency = np.bincount(kept.train.targets.indices, minlength=53_073)
    assert (frequency[held.targets.indices] > 0).all()


def test_a_check_of_msdocs_has_nothing_to_say(msdocs: Dataset) -> None:
    findings, dataset = check(msdocs.folder)
    assert findings == []
    assert dataset.fingerprint()["train.targets"] == msdocs.fingerprint()["train.targets"]


def test_text_is_in_memory_once(msdocs: Dataset) -> None:
    tracemalloc.start()
    try:
        dataset = Dataset.read(msdocs.folder, test=False, graphs=())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    texts = [dataset.train.documents, dataset.labels]
    size = sum(column.blob.nbytes for text in texts for column in (text.uids, *text.fields.values()))
    assert size > 45e6
    assert peak < 1.5 * size


def test_files_of_the_131k_fragment(benchmarks: Path) -> None:
    folder = benchmarks / "LF-AmazonTitles-131K-fragment"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    truth = read_sparse(folder / "tst_X_Y.txt.gz", what="label id")
    assert truth.shape == (134_835, 131_073)
    assert truth.nnz == 284_746
    assert np.diff(truth.indptr).min() == 1
    test = read_pairs(folder / "tst_filter_labels.txt.gz", (134_835, 131_073))
    train = read_pairs(folder / "trn_filter_labels.txt.gz", (294_805, 131_073))
    assert (test.nnz, train.nnz) == (79_663, 75_144)
    assert test.multiply(truth).nnz == 0
    assert np.diff(train.indptr).max() == np.bincount(train.indices).max() == 1
