from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from longtail.data.check import check
from longtail.data.dataset import Dataset


def warnings(folder: Path) -> list[str]:
    findings, dataset = check(folder)
    assert dataset is not None
    assert {finding.severity for finding in findings} <= {"warning"}
    return [finding.message.removeprefix(f"{folder}") for finding in findings]


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """A folder of which there is nothing to say: documents and labels have nothing in common."""
    folder = tmp_path / "clean"
    records = [{"uid": f"d{i}", "title": f"text {i}", "target_ind": [i % 2]} for i in range(4)]
    folder.mkdir()
    put(folder / "trn.json", records[:3])
    put(folder / "tst.json", records[3:])
    put(folder / "lbl.json", [{"uid": f"l{j}", "title": f"label {j}"} for j in range(2)])
    (folder / "dataset.json").write_text('{"propensity": {"A": 0.5, "B": 0.4}}')
    return folder


def put(path: Path, records: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_nothing_to_say(clean: Path) -> None:
    assert warnings(clean) == []


def test_the_data_set_is_that_of_reading(fruit: Path) -> None:
    _, dataset = check(fruit)
    assert dataset.fingerprint() == Dataset.read(fruit).fingerprint()


def test_two_layouts(clean: Path, plain: Path) -> None:
    shutil.copy(plain / "trn_X_Y.txt", clean)
    (layouts,) = warnings(clean)
    assert layouts.startswith(": two layouts are there, trn.json and trn_X_Y.txt; the JSON lines are read; remove")


def test_no_constants_and_no_test_split(clean: Path) -> None:
    (clean / "dataset.json").unlink()
    (clean / "tst.json").unlink()
    constants, test = warnings(clean)
    assert constants.startswith("/dataset.json: the propensity constants A and B are missing, so no PSP")
    assert test == ": there is no test split; 'longtail data split' cuts one"


def test_a_test_document_that_is_in_training(clean: Path) -> None:
    put(
        clean / "tst.json",
        [{"uid": "t", "title": "x", "target_ind": [0]}, {"uid": "d1", "title": "x", "target_ind": [0]}],
    )
    (leak,) = warnings(clean)
    assert leak.startswith(": 1 of 2 test documents have the uid of a training document, the first is 'd1'; take them")


def test_texts_and_labels_that_are_missing(clean: Path) -> None:
    put(clean / "lbl.json", [{"title": "label"}, {"title": "", "content": ""}])
    put(clean / "tst.json", [{"title": "", "target_ind": [1]}, {"title": "x", "content": "y", "target_ind": []}])
    assert [message.split(";")[0] for message in warnings(clean)] == [
        ": 1 of 2 labels have no text, the first is row 1",
        ": 1 of 2 test documents have no text, the first is row 0",
        ": 1 of 2 test documents have no label, the first is row 1",
    ]


def test_a_graph_without_edges(clean: Path) -> None:
    (clean / "dataset.json").write_text(
        '{"propensity": {"A": 1, "B": 1}, "graphs": {"g": {"nodes": "n.txt", "train": "e.txt"}}}'
    )
    (clean / "n.txt").write_text("node\n")
    (clean / "e.txt").write_text("3 1\n\n\n0:0\n")
    assert warnings(clean) == [
        ": graph g has 0 edges from its 3 training documents; leave that side out of dataset.json"
    ]


def test_filters_that_are_missing_or_lack_pairs(clean: Path) -> None:
    put(clean / "lbl.json", [{"uid": "d0", "title": "text 0"}, {"uid": "d3", "title": "text 3"}])
    missing = warnings(clean)
    assert (
        missing
        == [
            # document 0 has the label 0, itself, so that pair is true; the same is so of document 3, the label 1
        ]
    )
    put(clean / "trn.json", [{"uid": "d0", "title": "text 0", "target_ind": [1]}])
    put(clean / "tst.json", [{"uid": "d3", "title": "text 3", "target_ind": [1]}])
    train, test = warnings(clean)
    assert train.startswith("/filter_labels_train.txt: the file is missing, and there are 1 identity pairs; 'longtail")
    assert test.startswith(
        "/filter_labels_test.txt: the file is missing, and there are 1 identity and reciprocal pairs"
    )
    (clean / "filter_labels_train.txt").write_text("0 0\n")
    (clean / "filter_labels_test.txt").write_text("0 1\n")
    true, lacking = warnings(clean)
    assert true.startswith(
        "/filter_labels_test.txt: 1 of 1 pairs are in the truth, the first is '0 1'; a filtered pair"
    )
    assert lacking.startswith(
        "/filter_labels_test.txt: 0 of 1 identity and reciprocal pairs are in the file; the others"
    )


def test_uids_that_are_equal_by_accident(clean: Path) -> None:
    put(clean / "lbl.json", [{"uid": f"d{j}", "title": f"label {j}"} for j in range(2)])
    assert any(
        "2 train documents have the uid of a label, and only 0 of these its title too" in m for m in warnings(clean)
    )
