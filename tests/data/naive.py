"""A second reader of data folders, as plain as can be: what a folder says must be what it finds, or be refused."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR

Entries = dict[tuple[int, int], float]


class Wrong(Exception):
    """The folder is broken: whoever reads it must refuse it."""


def need(condition: object) -> None:
    if not condition:
        raise Wrong


def find(folder: Path, *names: str) -> Path | None:
    for name in names:
        found = [path for path in (folder / name, folder / f"{name}.gz") if path.exists()]
        need(len(found) < 2)
        if found:
            return found[0]
    return None


def lines_of(path: Path | None, encoding: str = "utf-8") -> list[str]:
    need(path is not None)
    assert path is not None
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = raw.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    texts = [line.decode(encoding).rstrip("\r") for line in (lines[:-1] if not lines[-1] else lines)]
    need(not any("\0" in text for text in texts))
    return texts


def number(text: str) -> int:
    need(re.fullmatch("[0-9]+", text, re.ASCII))
    return int(text)


def weight(text: str) -> float:
    need(text.isascii() and "_" not in text)
    found = float(text)
    need(0 <= found < float("inf"))
    return found


def put(entries: Entries, row: int, column: int, value: float, width: int) -> None:
    need(column < width)
    if value:
        entries[row, column] = max(value, entries.get((row, column), 0))


def sparse(path: Path, *, points: bool = False) -> tuple[tuple[int, int], Entries]:
    header, *rows = lines_of(path)
    sizes = [number(part) for part in header.split()]
    height, width = (sizes[0], sizes[2]) if points else (sizes[0], sizes[1])
    need(len(sizes) == 3 if points else len(sizes) in (2, 3))
    need(len(rows) == height)
    entries: Entries = {}
    for i, row in enumerate(rows):
        if points:
            first = row.split(" ")[0]
            for part in first.split(",") if first and ":" not in first else []:
                put(entries, i, number(part), 1, width)
        else:
            for part in re.split("[ \t]+", row.strip(" \t")) if row.strip(" \t") else []:
                column, _, value = part.partition(":")
                put(entries, i, number(column), weight(value), width)
    if not points and len(sizes) == 3:
        need(sum(len(row.split()) for row in rows) == sizes[2])
    return (height, width), entries


def records(path: Path | None, encoding: str, width: int | None) -> tuple[list[tuple[str, str, str]], Entries]:
    texts, entries = [], dict[tuple[int, int], float]()
    for i, line in enumerate(lines_of(path, encoding)):
        record = json.loads(line)
        uid, title, content = record.get("uid"), record["title"], record.get("content")
        uid = str(uid) if type(uid) is int else uid
        need(all(isinstance(text, str) for text in (uid or "", title, content or "")))
        need(all(value is None or isinstance(value, str) for value in (uid, content)))
        texts.append((uid or "", title, content or ""))
        need(not any("\0" in text or re.search("[\ud800-\udfff]", text) for text in texts[-1]))
        if width is not None:
            ids, weights = record["target_ind"], record.get("target_rel")
            weights = [1.0] * len(ids) if weights is None else weights
            need(isinstance(ids, list) and len(ids) == len(weights))
            for column, value in zip(ids, weights, strict=True):
                need(type(column) is int and column >= 0 and type(value) in (int, float))
                put(entries, i, column, weight(repr(value)), width)
    uids = [uid for uid, _, _ in texts if uid]
    need(len(set(uids)) == len(uids))
    return texts, entries


def pairs(path: Path, shape: tuple[int, int]) -> Entries:
    entries: Entries = {}
    for line in lines_of(path):
        row, column = map(number, line.split())
        need(row < shape[0])
        put(entries, row, column, 1, shape[1])
    return entries


def read(folder: Path) -> dict[str, Any]:
    """What a folder holds, part by part. Whatever it raises means that the folder is broken."""
    said = json.loads("\n".join(lines_of(path))) if (path := folder / "dataset.json").exists() else {}
    encoding, found = said.get("encoding", "utf-8"), {"name": said.get("name", folder.name)}
    found |= {key: said.get(key, "") for key in ("description", "licence")}
    constants = said.get("propensity")
    found["propensity"] = constants and (float(constants["A"]), float(constants["B"]))
    is_json = find(folder, "trn.json") is not None
    if is_json:
        labels, _ = records(find(folder, "lbl.json"), encoding, None)
    else:
        labels = [("", line, "") for line in lines_of(find(folder, "raw_data/label.raw.txt"), encoding)]
    found["labels"] = labels
    for side, short in (("train", "trn"), ("test", "tst")):
        if is_json:
            if (path_or_none := find(folder, f"{short}.json")) is None:
                continue
            texts, entries = records(path_or_none, encoding, len(labels))
        else:
            if (path_or_none := find(folder, f"{short}_X_Y.txt", f"{side}.txt")) is None:
                continue
            shape, entries = sparse(path_or_none, points=path_or_none.name.startswith(side))
            texts = [("", line, "") for line in lines_of(find(folder, f"raw_data/{side}.raw.txt"), encoding)]
            need(shape == (len(texts), len(labels)))
        need(entries)
        found[side] = texts, dict.fromkeys(entries, 1.0)
        known = find(folder, f"filter_labels_{side}.txt", f"{short}_filter_labels.txt")
        found[f"{side} filter"] = known and pairs(known, (len(texts), len(labels)))
    given = said.get("graphs", {"tree": None})
    for name, named in given.items():
        files = named or {
            "nodes": find(folder, f"raw_data/{name}.raw.txt"),
            "train": find(folder, f"{name}_trn_X_Y.txt"),
            "label": find(folder, f"{name}_lbl_X_Y.txt"),
        }
        if files["nodes"] is None or (files.get("train") is None and files.get("label") is None):
            continue  # a graph that is found by its files
        nodes = lines_of(folder / files["nodes"], encoding)
        edges: list[Any] = []
        for key, rows in (("train", len(found["train"][0])), ("label", len(labels))):
            edges.append(None)
            if files.get(key) is not None:
                shape, edges[-1] = sparse(folder / files[key])
                need(shape == (rows, len(nodes)))
        found[f"graph {name}"] = nodes, *edges
    return found


def _entries(matrix: CSR | None) -> Entries | None:
    if matrix is None:
        return None
    found = matrix.tocoo()
    return dict(zip(zip(found.row.tolist(), found.col.tolist(), strict=True), found.data.tolist(), strict=True))


def _texts(texts: Any) -> list[tuple[str, str, str]]:
    contents = texts.fields.get("content") or [""] * len(texts)
    return list(zip(texts.uids, texts.fields["title"], contents, strict=True))


def same(dataset: Dataset, found: dict[str, Any]) -> bool:
    """Whether a data set is what was found, weights to the seventh digit."""
    constants = dataset.propensity and (dataset.propensity.A, dataset.propensity.B)
    ours: dict[str, Any] = {"propensity": constants, "labels": _texts(dataset.labels)}
    ours |= {key: getattr(dataset, key) for key in ("name", "description", "licence")}
    for side in ("train", "test"):
        if (split := getattr(dataset, side)) is not None:
            ours[side] = _texts(split.documents), _entries(split.targets)
            ours[f"{side} filter"] = _entries(split.filtered)
    for name, graph in dataset.graphs.items():
        ours[f"graph {name}"] = list(graph.nodes), _entries(graph.train), _entries(graph.label)
    return ours.keys() == found.keys() and all(_alike(ours[key], found[key]) for key in ours)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(abs(one[k] - other[k]) <= 1e-6 * abs(other[k]) for k in one)
    return bool(one == other)
