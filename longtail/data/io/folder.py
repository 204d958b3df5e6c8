"""A data set folder part by part: which layout it has, and its documents, labels, filters and graphs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from longtail.data.graph import Graph, read_graph
from longtail.data.io.formats import (
    CUT_AGAIN,
    Report,
    Rows,
    excerpt,
    json_lines,
    lines,
    read_pairs,
    read_points,
    read_sparse,
    stop,
)
from longtail.data.io.manifest import Manifest, part, read_manifest
from longtail.data.sparse import CSR
from longtail.data.texts import Strings, Texts, TextsCollector
from longtail.errors import BadInput
from longtail.topk import IntArray

Side = Literal["train", "test"]
SIDES: tuple[Side, ...] = ("train", "test")
FIELDS = ("title", "content")
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
            fields: which texts to keep; the title always is.
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
        if not len(texts):
            raise BadInput(path, "the file is empty, expected at least 1 document", remedy="write one document a line")
        if not targets.nnz:
            problem = f"no document has a label: {len(texts)} documents, {targets.nnz} pairs"
            report(BadInput(path, problem, remedy="give the documents label ids, or leave the file out"))
        targets.data[:] = 1
        return texts, targets

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
        titles = Strings.of(lines(path, self.manifest.encoding, report))
        return Texts(Strings.of("" for _ in range(len(titles))), {"title": titles})

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


def read_records(
    path: Path, *, encoding: str, fields: Collection[str], columns: int | None, report: Report = stop
) -> tuple[Texts, CSR]:
    """Read ``trn.json``, ``tst.json`` or ``lbl.json``: ``uid``, ``title``, ``content``, ``target_ind``, ``target_rel``.

    Args:
        path: of the file; line i is row i - 1.
        encoding: of the file.
        fields: which texts to keep; the title always is, and a column without any text never.
        columns: L; None for a file of labels, which has no targets.
        report: gets the problems that reading can go on after.
    """
    collector = TextsCollector(fields)
    rows = Rows()
    example = '{"title": "..."}' if columns is None else '{"title": "...", "target_ind": [3], "target_rel": [1.0]}'
    for number, found in enumerate(json_lines(path, encoding, report), 1):
        record = {"title": "", "target_ind": []} if found is None else found
        problems: list[str] = []
        collector.add([_string(record, key, problems) for key in collector.keys])
        if columns is not None:
            _add_targets(rows, record, problems)
        for problem in problems:
            report(BadInput(path, problem, line=number, remedy=f"write a line like {example}"))
    texts = collector.texts()
    report_repeats(path, texts.uids, np.arange(1, len(texts) + 1), report)
    return texts, rows.matrix(path, columns or 0, first_line=1, what="label id", report=report)


def _string(record: dict[str, Any], key: str, problems: list[str]) -> str:
    """The string of a record; only the title has to be there, and a uid may be a number."""
    value = record.get(key)
    if isinstance(value, str):
        return value
    if value is None and key == "title":
        problems.append('there is no "title"')
    elif key == "uid" and isinstance(value, int):
        return str(value)
    elif value is not None:
        problems.append(f'expected a string as "{key}", found {excerpt(value)}')
    return ""


def _add_targets(rows: Rows, record: dict[str, Any], problems: list[str]) -> None:
    """Add the targets of a record; none of them where they are malformed."""
    ids, weights = record.get("target_ind"), record.get("target_rel")
    try:
        rows.add(ids, weights)  # type: ignore[arg-type]
    except ValueError:
        rows.add()
        problems.append(f'"target_ind" has {len(ids)} ids and "target_rel" {len(weights)} weights')  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        rows.add()
        wrong, found = ("target_rel", weights) if _integers(ids) else ("target_ind", ids)
        numbers = "label ids" if wrong == "target_ind" else "weights"
        problems.append(f'expected a list of {numbers} as "{wrong}", found {excerpt(found)}')


def _integers(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(number, int) and abs(number) < 2**63 for number in value)


def report_repeats(path: Path, uids: Strings, numbers: IntArray, report: Report = stop) -> None:
    """Report a uid that was given twice.

    Args:
        path: where the uids are from.
        uids: n of them; empty ones do not count.
        numbers: (n,) int64, the line of each.
        report: gets the problem.
    """
    given = np.flatnonzero(np.diff(uids.offsets))
    keys = np.fromiter(map(hash, uids), np.int64, len(uids))[given]
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    pairs = given[order[np.stack([same, same + 1], 1)]]  # (n, 2) rows, those of one uid ascending
    repeats = sorted((j, i) for i, j in pairs.tolist() if uids[i] == uids[j])
    if repeats:
        (j, i), more = repeats[0], f" (and {len(repeats) - 1} more repeats)" if len(repeats) > 1 else ""
        problem = f"uid {excerpt(uids[i])} is that of line {numbers[i]} too{more}"
        report(BadInput(path, problem, line=int(numbers[j]), remedy="give every text its own uid, or none"))
