"""A data set: documents with their labels, labels with their text, graphs; read from and written to a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.filters import identity_pairs, reciprocal_pairs, union, without
from longtail.data.graph import Graph
from longtail.data.io.folder import Folder, Side
from longtail.data.io.graphs import write_graph
from longtail.data.io.huggingface import Wanted, read_splits
from longtail.data.io.manifest import FIELDS, NAME
from longtail.data.io.writing import write_pairs, write_records, write_sparse
from longtail.data.sparse import CSR, csr, csr_of_ids, csr_of_relevance, digest, row_of_entry, stacked
from longtail.data.split import Split
from longtail.data.texts import MEND_TEXT, STORABLE, GivenText, Texts, storable
from longtail.errors import BadInput
from longtail.files import new_folder, write_json
from longtail.topk import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Propensity:
    """The constants A and B of the propensity model (Jain et al., 2016, eq. 3). They are never defaulted."""

    A: float
    B: float

    @classmethod
    def parsed(cls, text: str) -> Propensity:
        """The constants in a text, as ``"0.55,1.5"``.

        Raises:
            BadInput: it is not two numbers.
        """
        parts = [float(part) for part in text.split(",") if re.fullmatch(r"\s*\d+(\.\d+)?\s*", part)]
        if len(parts) != 2 or text.count(",") != 1:
            problem, remedy = f"expected two finite numbers A,B >= 0, found {text}", "for example 0.55,1.5"
            raise BadInput("propensity", problem, remedy=remedy)
        return cls(*parts)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Training documents, labels, and what else a data set folder holds.

    Attributes:
        name: the name in ``dataset.json``, or the folder's.
        train: the N training documents.
        labels: the L labels.
        test: the test documents, for `longtail.evaluate` only: nothing in `longtail.train` or a recipe reads them.
        graphs: metadata graphs by name.
        propensity: A and B, or None where ``dataset.json`` does not give them (no PSP can be computed then).
        licence: of the data, as ``dataset.json`` says.
        description: one sentence.
        one_way: whether no test pair is the way back of a training pair (``docs/guides/filters.md``).
        fields: those of a text that are read where no others are asked for; () leaves it to `longtail.data.shape`.
        folder: it was read from; None where it was made in memory.
    """

    name: str
    train: Split
    labels: Texts
    test: Split | None = None
    graphs: Mapping[str, Graph] = field(default_factory=dict)
    propensity: Propensity | None = None
    licence: str = ""
    description: str = ""
    one_way: bool = False
    fields: tuple[str, ...] = ()
    folder: Path | None = None

    @classmethod
    def from_texts(
        cls, documents: Iterable[GivenText], targets: Iterable[Iterable[int]], labels: Iterable[GivenText]
    ) -> Dataset:
        """A data set from plain lists.

        Args:
            documents: N texts: titles, or dicts with ``title``, ``content`` and ``uid``.
            targets: N lists of label ids in [0, L).
            labels: L texts, in the same form.

        Raises:
            BadInput: there is not a list a document, an id is not in [0, L), or a text is not one (`Texts.given`).
        """
        rows, known = Texts.given(documents, "documents"), Texts.given(labels, "labels")
        return cls("lists", Split(rows, csr_of_ids(targets, (len(rows), len(known)))), known)

    @classmethod
    def from_matrix(cls, documents: Iterable[GivenText], targets: Any, labels: Iterable[GivenText]) -> Dataset:
        """A data set from a matrix of documents by labels.

        Args:
            documents: N texts: titles, or dicts with ``title``, ``content`` and ``uid``.
            targets: (N, L) relevance, a scipy matrix or array of any format, or what numpy makes an array of. A label
                is relevant where the value is above 0; values are not graded.
            labels: L texts, in the same form as documents.

        Raises:
            BadInput: shapes do not agree, a value is no finite number of at least 0, or a text is not one.
        """
        rows, known = Texts.given(documents, "documents"), Texts.given(labels, "labels")
        return cls("matrix", Split(rows, csr_of_relevance(targets, (len(rows), len(known)))), known)

    @classmethod
    def from_hf(
        cls,
        source: Any,
        *,
        text: str = "text",
        labels: str = "labels",
        content: str | None = None,
        uid: str | None = None,
        test: Any = "test",
        label_texts: Mapping[str, GivenText] | None = None,
    ) -> Dataset:
        """A data set of the package ``datasets`` (Hugging Face).

        Args:
            source: a ``datasets.Dataset``, a ``DatasetDict`` with a split ``train``, or a name to load.
            text: the column of the documents' texts.
            labels: the column of their labels: lists of strings, of numbers or of a ``ClassLabel``, or one a row. Of a
                ``ClassLabel``, -1 is no label.
            content: a column of longer texts.
            uid: a column of the documents' names.
            test: the name of the test split, or a ``datasets.Dataset``; none if it is not there, or None.
            label_texts: by label; one that is not there is its own text. Labels have their names for uids.

        Raises:
            BadInput: there is no such split or column, or it holds something else.
            MissingExtra: a name is given, and the package is not installed.
        """
        return cls(*read_splits(source, test, Wanted(text, labels, content, uid), label_texts or {}))

    @classmethod
    def read(
        cls,
        folder: str | Path,
        *,
        fields: Collection[str] = FIELDS,
        test: bool = True,
        graphs: Collection[str] | None = None,
    ) -> Dataset:
        """Read a data set folder, in either layout of the XMC repository (``docs/reference/data.md``).

        Args:
            folder: with ``trn.json.gz``, ``lbl.json.gz`` and what else it has, or ``trn_X_Y.txt`` and ``raw_data/``.
            fields: columns to keep; ``("title",)`` leaves the content out, ``"market"`` takes a further one in.
            test: whether to read the test split, if there is one.
            graphs: names of the graphs to read; all of them by default.

        Raises:
            BadInput: something in the folder is not as it must be; the first problem, by file and line.
        """
        source = Folder.open(Path(folder))
        manifest = source.manifest
        names = manifest.graphs if graphs is None else graphs
        if unknown := set(names) - set(manifest.graphs):
            known = ", ".join(manifest.graphs) or "none"
            raise BadInput(folder, f"has no graph {', '.join(sorted(unknown))}", remedy=f"its graphs are: {known}")
        labels = source.labels(fields)

        def split(side: Side) -> Split:
            documents, targets = source.documents(side, len(labels), fields)
            return Split(documents, targets, source.filtered(side, targets.shape))

        train = split("train")
        read = {name: source.graph(name, len(train), len(labels)) for name in names}
        return assembled(source, train, labels, split("test") if test and source.has("test") else None, read)

    def write(self, folder: str | Path, *, test_links: Mapping[str, CSR] | None = None) -> None:
        """Write a data set folder, as JSON lines; it appears whole or not at all.

        Args:
            folder: to write.
            test_links: edges of the test documents by graph, for ``<graph>_tst_X_Y.txt.gz``, which `read` leaves aside.

        Raises:
            BadInput: the folder is there already, and not empty, or a name is none that a file can hold.
        """
        for key in ("name", "description", "licence"):
            if not storable(getattr(self, key)):
                raise BadInput(key, f"{STORABLE}, found {getattr(self, key)!r}", remedy=MEND_TEXT)
        with new_folder(Path(folder)) as path:
            write_records(path / "lbl.json.gz", _records(self.labels))
            for split, short, side in ((self.train, "trn", "train"), (self.test, "tst", "test")):
                if split is not None:
                    write_records(path / f"{short}.json.gz", _records(split.documents, split.targets))
                    if split.filtered is not None:
                        write_pairs(path / f"filter_labels_{side}.txt", split.filtered)
            said = {
                "name": self.name,
                "description": self.description,
                "licence": self.licence,
                "one_way": self.one_way,
                "fields": self.fields,
                "propensity": self.propensity and {"A": self.propensity.A, "B": self.propensity.B},
            }
            graphs = {name: write_graph(path, name, graph) for name, graph in self.graphs.items()}
            for name, edges in (test_links or {}).items():
                write_sparse(path / f"{name}_tst_X_Y.txt.gz", edges)
            content = {key: value for key, value in said.items() if value} | {"encoding": "utf-8", "graphs": graphs}
            write_json(path / NAME, content)

    def holdout(self, out: IntArray) -> tuple[Dataset, Split]:
        """Cut some of the training documents out.

        They become like test documents: they have no edges in the graphs, also where they are labels, and where the
        data set has a filter, their reciprocal pairs are in it: all of them where no test pair is one (`one_way`), else
        those that are not in their truth.

        Args:
            out: rows to hold out, ascending, each once, in [0, N): `rows_at_random` for a split on which things are as
                they are on the test split, unseen labels included; `rows_to_hold_out` to keep labels trainable.

        Returns:
            The data set without these rows, and these rows.
        """
        kept = np.delete(np.arange(len(self.train)), out)
        train, held = self.train.take(kept), self.train.take(out)
        itself = identity_pairs(self.train.documents, self.labels)
        if held.filtered is not None:
            back = reciprocal_pairs(itself[out], itself[kept], train.targets)
            truth = without(held.targets, back) if self.one_way else held.targets
            proposed = without(union(itself[out], back), truth)
            held = replace(held, targets=truth, filtered=union(held.filtered, proposed))
        themselves = np.bincount(itself[out].indices, minlength=len(self.labels)) > 0

        def cut(graph: Graph) -> Graph:
            label = None if graph.label is None else _without_rows(graph.label, themselves)
            return Graph(graph.nodes, None if graph.train is None else graph.train[kept], label)

        graphs = {name: cut(graph) for name, graph in self.graphs.items()}
        return replace(self, train=train, graphs=graphs), held

    def with_rows(self, extra: Split) -> Dataset:
        """The data set with more training rows behind its own; they have no edges in graphs."""

        def padded(matrix: CSR) -> CSR:
            return stacked([matrix, CSR((len(extra), matrix.shape[1]), dtype=np.float32)])

        return replace(self, train=self.train.followed_by(extra), graphs=self._graphs(padded))

    def only_rows(self, rows: IntArray) -> Dataset:
        """The data set with the training rows at ``rows``, and their edges in graphs."""
        return replace(self, train=self.train.take(rows), graphs=self._graphs(lambda matrix: matrix[rows]))

    def _graphs(self, of_train: Callable[[CSR], CSR]) -> dict[str, Graph]:
        """The graphs with other edges of the training documents."""
        return {
            name: Graph(graph.nodes, None if graph.train is None else of_train(graph.train), graph.label)
            for name, graph in self.graphs.items()
        }

    def fingerprint(self) -> dict[str, str]:
        """What a run was trained on: SHA-256 of each part, in hexadecimal, and `one_way` where it is true."""
        parts = {"labels": self.labels.digest()} | ({"one_way": "true"} if self.one_way else {})
        for side, split in (("train", self.train), ("test", self.test)):
            if split is not None:
                parts |= {f"{side}.documents": split.documents.digest(), f"{side}.targets": digest(split.targets)}
                if split.filtered is not None:
                    parts[f"{side}.filtered"] = digest(split.filtered)
        for name, graph in self.graphs.items():
            parts[f"graph.{name}.nodes"] = graph.nodes.digest()
            edges = {"train": graph.train, "label": graph.label}
            parts |= {f"graph.{name}.{side}": digest(matrix) for side, matrix in edges.items() if matrix is not None}
        return parts


def must_be_dataset(given: Any) -> None:
    """Refuse, with `BadInput`, what is no data set where one is to be learned from."""
    if not isinstance(given, Dataset):
        problem = f"expected a Dataset, found {type(given).__name__}"
        raise BadInput("dataset", problem, remedy="Dataset.read(folder) reads one; from_texts and from_matrix make one")


def assembled(source: Folder, train: Split, labels: Texts, test: Split | None, graphs: Mapping[str, Graph]) -> Dataset:
    """The data set of a folder, from its parts and what ``dataset.json`` says."""
    manifest = source.manifest
    return Dataset(
        name=manifest.name,
        train=train,
        labels=labels,
        test=test,
        graphs=graphs,
        propensity=None if manifest.A is None or manifest.B is None else Propensity(manifest.A, manifest.B),
        licence=manifest.licence,
        one_way=manifest.one_way,
        fields=manifest.fields,
        description=manifest.description,
        folder=source.path,
    )


def _records(texts: Texts, targets: CSR | None = None) -> Iterator[dict[str, object]]:
    """The JSON lines of documents or labels."""
    for i, (uid, *values) in enumerate(zip(texts.uids, *texts.fields.values(), strict=True)):
        record: dict[str, object] = {"uid": uid} if uid else {}
        record |= dict(zip(texts.fields, values, strict=True))
        if targets is not None:
            ids = targets.indices[targets.indptr[i] : targets.indptr[i + 1]].tolist()
            record |= {"target_ind": ids, "target_rel": [1.0] * len(ids)}
        yield record


def _without_rows(matrix: CSR, rows: BoolArray) -> CSR:
    """A matrix with some rows emptied."""
    kept = ~rows[row_of_entry(matrix)]
    return csr(row_of_entry(matrix)[kept], matrix.indices[kept], matrix.shape, matrix.data[kept])
