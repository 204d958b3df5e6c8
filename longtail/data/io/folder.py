"""A data set folder part by part: which layout it has, and its documents, labels, filters and graphs."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from longtail.data.graph import Graph
from longtail.data.io.formats import CUT_AGAIN, Report, json_lines, read_pairs, read_points, read_sparse, stop
from longtail.data.io.graphs import read_graph
from longtail.data.io.manifest import FIELDS, Manifest, part, read_manifest
from longtail.data.io.records import read_lines, read_records
from longtail.data.sparse import CSR
from longtail.data.texts import Texts
from longtail.errors import BadInput

Side = Literal["train", "test"]
SIDES: tuple[Side, ...] = ("train", "test")
OWN = ("uid", *FIELDS, "target_ind", "target_rel")  # keys of a record that are no further columns
_SHORT = {"train": "trn", "test": "tst"}


@dataclass(frozen=True, slots=True)
class Folder:
    """A data set folder whose layout is known and whose other files are still to be read.

    Attributes:
        path: of the folder.
        manifest: what ``dataset.json`` says.
        json: whether the texts and targets are in ``trn.json.gz``; otherwise they are in ``trn_X_Y.txt`` and
            ``raw_data/``. Where both are there, the JSON lines are read.
    """

    path: Path
    manifest: Manifest
    json: bool

    @classmethod
    def open(cls, path: Path, report: Report = stop) -> Folder:
        """Find out which layout a folder has.

        Raises:
            BadInput: there is no such folder, or neither layout is in it.
        """
        if path.is_file():
            remedy = "make one of a table with 'longtail data import'; that of a run on a table is RUN/data"
            raise BadInput(path, "expected the folder of a data set, found a file", remedy=remedy)
        if not path.is_dir():
            raise BadInput(path, "there is no such folder", remedy="check the path")
        json, text = part(path, "trn.json"), part(path, "trn_X_Y.txt", "train.txt")
        if json is None and text is None:
            names = ", ".join(sorted(file.name for file in path.iterdir())[:8]) or "nothing"
            problem = f"expected trn.json.gz or trn_X_Y.txt, found {names}"
            raise BadInput(path, problem, remedy="name a data set folder, or make one with 'longtail data import'")
        return cls(path, read_manifest(path, report), json is not None)

    def labels(self, fields: Collection[str] = FIELDS, report: Report = stop) -> Texts:
        """The L labels."""
        if self.json:
            path = self._need("lbl.json")
            texts, _ = read_records(path, encoding=self.manifest.encoding, fields=fields, columns=None, report=report)
        else:
            path = self._need("raw_data/label.raw.txt")
            texts = self._raw(path, report)
        if not len(texts):
            raise BadInput(path, "the file is empty, expected at least 1 label", remedy="write one label a line")
        return texts

    def has(self, side: Side) -> bool:
        """Whether the folder has this split."""
        return part(self.path, *self._names(side)) is not None

    def documents(
        self, side: Side, labels: int, fields: Collection[str] = FIELDS, report: Report = stop
    ) -> tuple[Texts, CSR]:
        """The n documents of a split, and their (n, L) targets, CSR of ones.

        Args:
            side: which split.
            labels: L.
            fields: which columns to keep; the title always is.
            report: gets the problems that reading can go on after.

        Raises:
            BadInput: a file is missing or malformed, or holds no document, or no document has a label.
        """
        path = self._need(*self._names(side))
        if self.json:
            encoding = self.manifest.encoding
            texts, targets = read_records(path, encoding=encoding, fields=fields, columns=labels, report=report)
        else:
            texts, targets = self._raw_documents(path, side, labels, report)
            texts = self._with_columns(texts, side, set(fields) - set(FIELDS), report)
        if not len(texts):
            raise BadInput(path, "the file is empty, expected at least 1 document", remedy="write one document a line")
        if not targets.nnz:
            problem = f"no document has a label: {len(texts)} documents, {targets.nnz} pairs"
            report(BadInput(path, problem, remedy="give the documents label ids, or leave the file out"))
        targets.data[:] = 1
        return texts, targets

    def columns(self, side: Side) -> list[str]:
        """The further columns of a split, by its first record, or by the files ``raw_data/<side>.<column>.txt``."""
        if self.json:
            record = next(iter(json_lines(self._need(*self._names(side)), self.manifest.encoding)), None) or {}
            return [name for name in record if name not in OWN]
        pattern = re.compile(rf"{side}\.(.+)\.txt(\.gz)?")
        found = (pattern.fullmatch(path.name) for path in sorted((self.path / "raw_data").glob(f"{side}.*.txt*")))
        return [name[1] for name in found if name is not None and name[1] != "raw"]

    def filtered(self, side: Side, shape: tuple[int, int], report: Report = stop) -> CSR | None:
        """The (n, L) pairs of a filter file, or None where there is none."""
        path = part(self.path, f"filter_labels_{side}.txt", f"{_SHORT[side]}_filter_labels.txt")
        return None if path is None else read_pairs(path, shape, report=report)

    def graph(self, name: str, documents: int, labels: int, report: Report = stop) -> Graph:
        """A graph by its name, for N training documents and L labels."""
        files, encoding = self.manifest.graphs[name], self.manifest.encoding
        return read_graph(files, documents=documents, labels=labels, encoding=encoding, report=report)

    def _names(self, side: Side) -> tuple[str, ...]:
        return (f"{_SHORT[side]}.json",) if self.json else (f"{_SHORT[side]}_X_Y.txt", f"{side}.txt")

    def _need(self, *names: str) -> Path:
        path = part(self.path, *names)
        if path is None:
            problem = f"{names[0]} and {names[0]}.gz are both missing"
            raise BadInput(self.path, problem, remedy="a data set needs trn, lbl and, to be evaluated, tst")
        return path

    def _raw(self, path: Path, report: Report) -> Texts:
        return Texts.of_columns({"title": read_lines(path, self.manifest.encoding, report)})

    def _with_columns(self, texts: Texts, side: Side, names: Collection[str], report: Report) -> Texts:
        """The same texts with further columns, one value a line; those without a file are left out."""
        columns = dict(texts.fields)
        for name in sorted(names):
            if path := part(self.path, f"raw_data/{side}.{name}.txt"):
                columns[name] = read_lines(path, self.manifest.encoding, report)
                if len(columns[name]) != len(texts):
                    problem = f"holds {len(columns[name])} lines for {len(texts)} documents"
                    raise BadInput(path, problem, remedy="write one value a line, an empty line for none")
        return Texts(texts.uids, columns)

    def _raw_documents(self, path: Path, side: Side, labels: int, report: Report) -> tuple[Texts, CSR]:
        old = path.name.startswith(side)
        targets = read_points(path, report=report) if old else read_sparse(path, what="label id", report=report)
        if targets.shape[1] != labels:
            problem = f"the header says {targets.shape[1]} labels, and the label file has {labels} lines"
            raise BadInput(path, problem, line=1, remedy=CUT_AGAIN)
        raw = self._need(f"raw_data/{side}.raw.txt")
        texts = self._raw(raw, report)
        if len(texts) != targets.shape[0]:
            problem = f"holds {len(texts)} lines for {targets.shape[0]} rows of {path.name}"
            raise BadInput(raw, problem, remedy="a text is one line: take line breaks out of the texts")
        return texts, targets
