"""PECOS XR-Linear and napkinXC PLT on a data set folder: same split, same filter, same metrics as `longtail evaluate`.

pip install 'numpy<2' 'scipy<1.14' libpecos napkinxc    # PECOS 1.2.8 needs these, so give it an environment of its own
python benchmarks/linear_peers.py DATA
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from napkinxc.models import PLT
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from scipy import sparse

from longtail.data.bag import BagTokenizer
from longtail.data.dataset import Dataset, Split
from longtail.evaluate.metrics import evaluate
from longtail.evaluate.propensity import inverse_propensity
from longtail.topk import TopK, rank

COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "C@5")
DEPTH = 60  # predictions a document, so that five are left when filtered pairs are taken out


def features(dataset: Dataset) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """The features of the bag encoder (tf-idf), without label texts, which these methods cannot read."""
    assert dataset.test is not None
    tokenizer = BagTokenizer.fit(dataset.train.documents.joined(["title"]))
    tables = [tokenizer(split.documents.joined(["title"])) for split in (dataset.train, dataset.test)]
    train, test = (
        sparse.csr_matrix((table.weights, table.ids, table.offsets.astype(np.int32)), (len(table), len(tokenizer)))
        for table in tables
    )
    return train, test


def ranked(rows: sparse.csr_matrix, test: Split) -> TopK:
    """The five best labels of each row whose pair is not filtered."""
    rows = sparse.csr_matrix(rows, copy=True)
    if test.filtered is not None:
        hidden = sparse.csr_matrix(test.filtered).astype(bool)
        rows = rows - rows.multiply(hidden)
        rows.eliminate_zeros()
    width = int(np.diff(rows.indptr).max())
    ids = np.full((rows.shape[0], width), -1, np.int64)
    scores = np.full((rows.shape[0], width), -np.inf, np.float32)
    place = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], np.diff(rows.indptr))
    at = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    ids[at, place], scores[at, place] = rows.indices, rows.data
    return rank(ids, scores, 5)


def xr_linear(x: sparse.csr_matrix, y: sparse.csr_matrix, test: sparse.csr_matrix) -> sparse.csr_matrix:
    """PECOS XR-Linear with its documented defaults: PIFA embeddings, hierarchical k-means, beam 10."""
    labels = LabelEmbeddingFactory.create(y, x, method="pifa")
    model = XLinearModel.train(x, y, C=Indexer.gen(labels, indexer_type="hierarchicalkmeans"))
    return model.predict(test, only_topk=DEPTH, beam_size=10)


def plt(x: sparse.csr_matrix, y: sparse.csr_matrix, test: sparse.csr_matrix) -> sparse.csr_matrix:
    """A napkinXC probabilistic label tree with its defaults."""
    with tempfile.TemporaryDirectory() as folder:
        model = PLT(folder, verbose=False)
        model.fit(x, [row.indices.tolist() for row in y])
        predictions = model.predict_proba(test, top_k=DEPTH)
    pairs = [(i, label, score) for i, row in enumerate(predictions) for label, score in row]
    rows, columns, scores = zip(*pairs, strict=True)
    return sparse.csr_matrix((np.asarray(scores, np.float32), (rows, columns)), shape=(test.shape[0], y.shape[1]))


def main() -> None:
    """Print a row a peer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a data set folder with a test split")
    dataset = Dataset.read(parser.parse_args().data, fields=("title",))
    assert dataset.test is not None
    assert dataset.propensity is not None
    x, test = features(dataset)
    y = sparse.csr_matrix(dataset.train.targets).astype(np.float32)
    y.indices, y.indptr = y.indices.astype(np.int32), y.indptr.astype(np.int32)
    weights = inverse_propensity(dataset.train.targets, dataset.propensity.A, dataset.propensity.B)
    print(f"{'':18}" + "".join(f"{name:>8}" for name in COLUMNS) + "   seconds")
    for name, train in (("PECOS XR-Linear", xr_linear), ("napkinXC PLT", plt)):
        start = time.perf_counter()
        predicted = train(x, y, test)
        seconds = time.perf_counter() - start
        metrics = evaluate(ranked(predicted, dataset.test), dataset.test.targets, inverse_propensity=weights)
        print(f"{name:18}" + "".join(f"{metrics[column]:8.2f}" for column in COLUMNS) + f"{seconds:10.1f}")


if __name__ == "__main__":
    main()
