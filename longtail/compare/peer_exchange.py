"""A run of a peer: what it is given, its process, and its ranking as that of a recipe's run."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import read_archive
from longtail.compare import peers
from longtail.compare.peers import PEERS
from longtail.compare.peers.base import Peer
from longtail.data.dataset import Dataset
from longtail.data.sparse import holds
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.files import read_json
from longtail.text.bag import RUN, BagTokenizer, words_of
from longtail.topk import TopK, rank

_AGAIN = "give the same command again: the peer is then run again"
_SAID = ("seconds", "peak_memory", "peak_gpu_memory", "prediction_seconds", "versions")


def must_be_there(names: Sequence[str], python: str) -> None:
    """Refuse peers whose packages a Python does not have.

    Args:
        names: of the peers.
        python: the interpreter that is to run them.

    Raises:
        BadInput: a package is missing, or this is no Python.
    """
    if not names:
        return
    packages = [package for name in dict.fromkeys(names) if (package := PEERS[name]().package) is not None]
    wanted = [f"{distribution}={module}" for distribution, module in packages]
    try:
        found = subprocess.run(  # noqa: S603 - our own program, without a shell
            [*program(python), "--missing", *wanted], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        problem = f"expected a Python with numpy and scipy, found {type(error).__name__}"
        raise BadInput(python, problem, remedy="give another peer_python") from None
    if missing := found.stdout.split():
        problem = f"has no {', '.join(missing)}, which the peers need"
        raise BadInput(python, problem, remedy="pip install 'longtail[peers]' there, or give another peer_python")


def program(python: str) -> list[str]:
    """The program of peers under an interpreter, with nothing of this one's on its path."""
    return [python, "-I", str(Path(peers.__file__).resolve().with_name("__main__.py"))]


def prepare(given: Path, peer: Peer, dataset: Dataset) -> tuple[float, float]:
    """Write what a peer reads into a new folder; no label of a test document is in it.

    Features are those of the bag encoder, fitted on the training documents alone, as linear peers cannot read labels.

    Args:
        given: the folder.
        peer: who reads it.
        dataset: with a test split.

    Returns:
        Seconds that what was made of the training documents (and labels) took, and of the test documents.
    """
    assert dataset.test is not None
    given.mkdir(parents=True)
    targets = dataset.train.targets
    _save(given / "targets.npz", targets.indices, targets.indptr, np.ones(targets.nnz), targets.shape)
    train, test, labels = dataset.train.documents, dataset.test.documents, dataset.labels
    tokenizer = None
    start = time.perf_counter()
    if "features" in peer.reads:
        tokenizer = BagTokenizer.fit(train.joined(peer.fields))
    _write(given / "labels", labels, peer, None)
    _write(given / "train", train, peer, tokenizer)
    middle = time.perf_counter()
    _write(given / "test", test, peer, tokenizer)
    return middle - start, time.perf_counter() - middle


def _write(path: Path, texts: Texts, peer: Peer, tokenizer: BagTokenizer | None) -> None:
    """Texts as a peer reads them: the features that a tokeniser makes, words or the texts themselves, or both."""
    if tokenizer is not None:
        table = tokenizer(texts.joined(peer.fields))
        _save(path.with_suffix(".npz"), table.ids, table.offsets, table.weights, (len(table), len(tokenizer)))
    if "words" in peer.reads or "texts" in peer.reads:
        joined = texts.joined(peer.fields)
        read = [_words(text) for text in joined] if "words" in peer.reads else list(joined)
        path.with_suffix(".json").write_text(json.dumps(read), encoding="utf-8")


def _words(text: str) -> str:
    return " ".join(word for run in RUN.findall(text) for word in words_of(run))


def _save(path: Path, columns: Any, offsets: Any, values: Any, shape: tuple[int, int]) -> None:
    """A CSR matrix of the kind that all peers take."""
    parts = (values.astype(np.float32), columns.astype(np.int32), offsets.astype(np.int32))
    sparse.save_npz(path, sparse.csr_matrix(parts, shape), compressed=False)


def collect(given: Path, test: Split, depth: int) -> tuple[TopK, dict[str, Any]]:
    """The ranking of a peer that is done, and what else it said of its run.

    Args:
        given: the folder of `prepare`, where the answer lies, too.
        test: the test split, whose filtered pairs are left out.
        depth: labels kept of each document.
    """
    ids, scores = read_archive(given / "answer.npz", ["ids", "scores"], remedy=_AGAIN)
    ids = ids.astype(np.int64)
    if test.filtered is not None:
        ids = np.where(holds(test.filtered, ids), -1, ids)
    said = read_json(given / "answer.json", remedy=_AGAIN, keys=_SAID)
    return rank(ids, scores, depth), said
