from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from longtail.data.check import check
from longtail.data.dataset import Dataset
from longtail.errors import BadInput

Content: TypeAlias = str | bytes | dict[str, object] | None
Place: TypeAlias = tuple[str, int | None] | None
TRAIN = [
    {"uid": "d0", "title": "red apple", "content": "a fruit", "target_ind": [0, 2], "target_rel": [1.0, 0.5]},
    {"uid": "d1", "title": "green pear", "target_ind": [1], "target_rel": [1.0]},
    {"uid": "d2", "title": "blue plum", "content": "", "target_ind": [2, 3], "target_rel": [1.0, 0.0]},
    {"uid": "d3", "title": "pear", "target_ind": [], "target_rel": []},
]
TEST = [
    {"uid": "t0", "title": "yellow apple", "content": "too", "target_ind": [0], "target_rel": [1.0]},
    {"uid": "t1", "title": "plum", "content": "", "target_ind": [2, 1], "target_rel": [1.0, 1.0]},
]
LABELS = [{"uid": f"l{i}", "title": title, "content": ""} for i, title in enumerate(["apple", "pear", "plum", ""])]
SAID = {
    "name": "fruit",
    "description": "What fruit is it?",
    "licence": "CC0",
    "propensity": {"A": 0.55, "B": 1.5},
    "encoding": "utf-8",
    "graphs": {"tree": {"nodes": "raw_data/tree.raw.txt", "train": "tree_trn_X_Y.txt", "label": "tree_lbl_X_Y.txt.gz"}},
}


def put(path: Path, content: str | bytes) -> None:
    """Write a file, packed where its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def put_records(path: Path, records: list[dict[str, object]]) -> None:
    put(path, "".join(json.dumps(record) + "\n" for record in records))


def put_graph(folder: Path) -> None:
    put(folder / "raw_data/tree.raw.txt", "malus\npyrus\nprunus\n")
    put(folder / "tree_trn_X_Y.txt", "4 3\n0:1\n1:1 2:0.5\n\n1:2\n")
    put(folder / "tree_lbl_X_Y.txt.gz", "4 3\n0:1\n\n2:1\n\n")


@pytest.fixture
def fruit(tmp_path: Path) -> Path:
    """A folder of JSON lines: 4 training documents, 2 test documents, 4 labels, a graph of 3 nodes, filters."""
    folder = tmp_path / "fruit"
    put_records(folder / "trn.json.gz", TRAIN)
    put_records(folder / "tst.json.gz", TEST)
    put_records(folder / "lbl.json.gz", LABELS)
    put(folder / "filter_labels_train.txt", "3 1\n")
    put(folder / "filter_labels_test.txt", "0 2\n1 0\n")
    put(folder / "dataset.json", json.dumps(SAID, indent=1))
    put_graph(folder)
    return folder


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The same fruit, titles only, as text: matrices and raw texts."""
    folder = tmp_path / "plain"
    put(folder / "trn_X_Y.txt", "4 4\n0:1.00000 2:0.5\n1:1\n2:1 3:0\n\n")
    put(folder / "tst_X_Y.txt.gz", "2 4\n0:1\n2:1 1:1\n")
    put(folder / "raw_data/train.raw.txt", "red apple\ngreen pear\nblue plum\npear\n")
    put(folder / "raw_data/test.raw.txt.gz", "yellow apple\nplum\n")
    put(folder / "raw_data/label.raw.txt", "apple\npear\nplum\n\n")
    put(folder / "filter_labels_train.txt", "3 1\n")
    put(folder / "filter_labels_test.txt", "0 2\n1 0\n")
    put_graph(folder)
    return folder


@pytest.fixture(scope="session")
def benchmarks() -> Path:
    """The folder that holds published data sets: set LONGTAIL_DATA to it to run the tests at real size.

    ``MSDocs-SeeAlso/`` and ``LF-AmazonTitles-131K-fragment/`` are looked for in it.
    """
    folder = os.environ.get("LONGTAIL_DATA")
    if folder is None:
        pytest.skip("LONGTAIL_DATA does not name a folder of published data sets")
    return Path(folder)


@pytest.fixture
def verify() -> Callable[..., None]:
    """Change a file of a folder, and hold the message of reading and checking it against what is expected."""

    def run(folder: Path, name: str, line: int | None, content: Content, parts: str, place: Place = None) -> None:
        edit(folder / name, line, content)
        file, number = place or (Path(name).name, line)
        with pytest.raises(BadInput) as caught:
            Dataset.read(folder)
        message = str(caught.value)
        assert "\n" not in message
        assert f"{file}: " in message if number is None else f"{file}, line {number}: " in message, message
        for part in parts.split(" & "):
            assert part in message, message
        findings, dataset = check(folder)
        assert dataset is None
        assert ("error", message) in [(finding.severity, finding.message) for finding in findings]

    return run


def edit(path: Path, line: int | None, content: Content) -> None:
    """Remove a file, put bytes as they are or text into it, replace a line, or change keys of its JSON object."""
    if content is None:
        path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        put(path, json.dumps(json.loads(path.read_text()) | content))
    elif line is None:
        put(path, content)
    else:
        lines = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode().split("\n")
        lines[line - 1] = content
        put(path, "\n".join(lines))
