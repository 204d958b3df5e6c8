"""The example data: the committed snapshot, read with plain json and gzip, and the script on a tiny package index."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from longtail.data.dataset import Dataset, Propensity
from longtail.data.filters import proposed_filter

FOLDER = Path(__file__).parents[2] / "examples" / "debian-packages"
GRAPHS = ("depends", "tag", "section", "source")

INDEX = """\
Package: editor
Version: 2.0
Filename: pool/e/editor_2.0.deb
Section: editors
Depends: libui (>= 1.2), python3:any,
 fonts-a [amd64] | fonts-b <!nocheck>
Pre-Depends: libc6
Recommends: editor-doc (= 2.0) | handbook, spell:any
Suggests: www-browser, editor, spell
Tag: role::program,
 works-with::text
Description: text editor
 It edits.

Package: editor
Version: 1.0
Filename: pool/e/editor_1.0.deb
Section: oldlibs
Description: an older version

Package: editor-doc
Source: editor (2.0-1)
Filename: pool/e/editor-doc_2.0.deb
Section: doc
Enhances: editor
Description: manual of  the editor

Package: handbook
Filename: pool/h/handbook.deb
Section: doc
Description: manuál

Package: local
Description: installed by hand
Recommends: editor

Package: spell
Filename: pool/s/spell.deb
Section: text
Depends: libui
Recommends: editor
Description: spelling checker

Package: libui
Filename: pool/l/libui.deb
Section: libs
Description: user interface
"""


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("debian_packages_build", FOLDER / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module


build = load_script()


def read_lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def read_pairs(path: Path) -> set[tuple[int, int]]:
    return {(int(row), int(label)) for row, label in (line.split() for line in path.read_text().splitlines())}


class Raw:
    """A data set folder, parsed without the library."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, list[dict[str, Any]]] = {
            stem: [json.loads(line) for line in read_lines(folder / f"{stem}.json.gz")]
            for stem in ("trn", "tst", "lbl")
        }
        self.uids = {stem: [row["uid"] for row in rows] for stem, rows in self.rows.items()}

    def named(self, stem: str) -> dict[str, set[str]]:
        return {row["uid"]: {self.uids["lbl"][label] for label in row["target_ind"]} for row in self.rows[stem]}

    def filtered(self, side: str, stem: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {uid: set() for uid in self.uids[stem]}
        for row, label in read_pairs(self.folder / f"filter_labels_{side}.txt"):
            found[self.uids[stem][row]].add(self.uids["lbl"][label])
        return found

    def graph(self, name: str, stem: str) -> dict[str, set[str]]:
        """Node texts of each row."""
        texts = read_lines(self.folder / "raw_data" / f"{name}.raw.txt.gz")
        header, *lines = read_lines(self.folder / f"{name}_{stem}_X_Y.txt.gz")
        assert header == f"{len(self.uids[stem])} {len(texts)}"
        entries = [[entry.split(":") for entry in line.split()] for line in lines]
        assert {weight for row in entries for _, weight in row} <= {"1"}
        return {uid: {texts[int(i)] for i, _ in row} for uid, row in zip(self.uids[stem], entries, strict=True)}


@pytest.fixture(scope="module")
def raw() -> Raw:
    return Raw(FOLDER)


def test_counts_are_those_of_the_readme(raw: Raw) -> None:
    train = Counter(label for row in raw.rows["trn"] for label in row["target_ind"])
    unseen = [label not in train for row in raw.rows["tst"] for label in row["target_ind"]]
    counts = {
        "training documents": f"{len(raw.rows['trn']):,}",
        "test documents": f"{len(raw.rows['tst']):,}",
        "labels": f"{len(raw.rows['lbl']):,}",
        "pairs in training": f"{train.total():,}",
        "labels a training document": f"{train.total() / len(raw.rows['trn']):.2f}",
        "labels named in training": f"{len(train):,}",
        "of these, named once": f"{sum(n == 1 for n in train.values()):,}",
        "test pairs with a label not named in training": f"{np.mean(unseen):.0%}".replace("%", " %"),
        "most frequent label, documents": f"{max(train.values()):,}",
    }
    rows = [line.split("|") for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith("|")]
    table = {cells[1].strip(): cells[2].strip() for cells in rows[2:]}
    assert table == counts


def test_snapshot_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 6_000_000


def test_every_document_has_labels_in_range_and_a_text_that_opens_with_its_name(raw: Raw) -> None:
    for stem, rows in raw.rows.items():
        for row in rows:
            assert row["title"].startswith(f"{row['uid']}: ")
            if stem != "lbl":
                ids = row["target_ind"]
                assert ids
                assert ids == sorted(set(ids))
                assert 0 <= ids[0] <= ids[-1] < len(raw.rows["lbl"])
                assert row["target_rel"] == [1.0] * len(ids)


def test_splits_are_disjoint_near_80_to_20_and_uids_unique(raw: Raw) -> None:
    for uids in raw.uids.values():
        assert len(set(uids)) == len(uids)
    assert not set(raw.uids["trn"]) & set(raw.uids["tst"])
    share = len(raw.uids["tst"]) / (len(raw.uids["trn"]) + len(raw.uids["tst"]))
    assert 0.17 < share < 0.22


def test_every_label_is_in_use_and_none_is_its_own_document(raw: Raw) -> None:
    named = raw.named("trn") | raw.named("tst")
    assert set().union(*named.values()) == set(raw.uids["lbl"])
    assert not [uid for uid, labels in named.items() if uid in labels]


@pytest.mark.parametrize(("side", "stem"), [("train", "trn"), ("test", "tst")])
def test_filter_is_all_identity_and_reciprocal_pairs_and_none_of_the_truth(raw: Raw, side: str, stem: str) -> None:
    train, truth, filtered = raw.named("trn"), raw.named(stem), raw.filtered(side, stem)
    labels = set(raw.uids["lbl"])
    for uid in raw.uids[stem]:
        assert not filtered[uid] & truth[uid]
        if uid in labels:
            assert uid in filtered[uid]
        for other in filtered[uid] - {uid}:
            assert uid in train[other]
    for other, named in train.items():
        for uid in named & truth.keys():
            assert other not in labels or other in filtered[uid] | truth[uid]
    if stem == "tst":
        assert not [uid for uid in truth for other in truth[uid] if uid in train.get(other, set())]


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_has_edges_on_both_sides_and_none_of_a_test_package(raw: Raw, name: str) -> None:
    test = set(raw.uids["tst"])
    train, label = raw.graph(name, "trn"), raw.graph(name, "lbl")
    assert sum(map(bool, train.values())) > 6_000
    assert sum(map(bool, label.values())) > 8_000
    assert not [uid for uid in test & label.keys() if label[uid]]
    assert all(train[uid] == label[uid] for uid in train.keys() & label.keys())
    texts = read_lines(FOLDER / "raw_data" / f"{name}.raw.txt.gz")
    assert len(set(texts)) == len(texts)
    assert set(texts) == set().union(*train.values(), *label.values())


def test_graphs_hold_known_edges(raw: Raw) -> None:
    uid = "gimp"
    assert uid in raw.uids["lbl"]
    stem = "trn" if uid in raw.uids["trn"] else "lbl"
    assert raw.graph("section", stem)[uid] == {"graphics"}
    assert "role::program" in raw.graph("tag", stem)[uid]
    assert raw.graph("source", stem)[uid] == {"gimp"}
    assert any(text.startswith("gimp-data: ") for text in raw.graph("depends", stem)[uid])


def test_dataset_json_names_files_that_exist() -> None:
    about = json.loads((FOLDER / "dataset.json").read_text())
    assert about["propensity"] == {"A": 0.55, "B": 1.5}
    assert about["encoding"] == "utf-8"
    assert about["licence"]
    assert tuple(about["graphs"]) == GRAPHS
    for files in about["graphs"].values():
        assert set(files) == {"nodes", "train", "label"}
        for file in files.values():
            assert (FOLDER / file).is_file()


def test_names_are_bare_and_alternatives_all_count() -> None:
    text = "a-b (>= 1.2~rc), c:any | libd+e1.0 (= 2:1), f [!i386] |g<!nocheck>,\nh"
    assert build.names({"Depends": text}, ["Depends"]) == {"a-b", "c", "libd+e1.0", "f", "g", "h"}
    assert build.names({}, ["Depends"]) == frozenset()


def test_packages_are_read_as_the_index_says() -> None:
    packages = build.read_packages(INDEX.splitlines())
    assert list(packages.texts) == ["editor", "editor-doc", "handbook", "libui", "spell"]
    assert packages.texts["editor"] == "editor: text editor"
    assert packages.texts["editor-doc"] == "editor-doc: manual of the editor"
    assert packages.relations["recommends"]["editor"] == {"editor-doc", "handbook", "spell"}
    assert packages.relations["recommends"]["editor-doc"] == {"editor"}
    assert packages.relations["depends"]["editor"] == {"libui"}
    assert packages.tags["editor"] == {"role::program", "works-with::text"}
    assert packages.tags["libui"] == frozenset()
    assert packages.sections["editor"] == {"editors"}
    assert packages.sources["editor-doc"] == {"editor"}
    assert packages.sources["spell"] == {"spell"}


def seed_with(test: set[str], names: set[str]) -> int:
    """The first seed that tests on exactly these packages."""
    return next(seed for seed in range(100_000) if {name for name in names if build.on_test_side(name, seed)} == test)


def test_reversed_training_pairs_leave_the_test_truth() -> None:
    """The editor is trained on: spell -> editor is known from editor -> spell, and spell has no other label."""
    points = build.read_packages(INDEX.splitlines()).relations["recommends"]
    split = build.split_packages(points, seed_with({"spell"}, {"editor", "editor-doc", "spell"}))
    assert set(split.train.targets) == {"editor", "editor-doc"}
    assert not split.test.targets
    assert split.held_out == {"spell"}
    assert split.labels == ["editor", "editor-doc", "handbook", "spell"]
    assert split.train.filtered == {"editor": {"editor"}, "editor-doc": {"editor-doc"}}


def test_filter_of_both_sides_by_hand() -> None:
    points = {"a": frozenset("bc"), "b": frozenset("d"), "c": frozenset("ad"), "d": frozenset("b"), "e": frozenset()}
    split = build.split_packages(points, seed_with({"c", "d"}, set("abcde")))
    assert split.train.targets == {"a": {"b", "c"}, "b": {"d"}}
    assert split.test.targets == {"c": {"d"}}, "c -> a and d -> b are training pairs turned round"
    assert split.labels == ["b", "c", "d"]
    assert split.train.filtered == {"a": set(), "b": {"b"}}, "a is no label, so neither a -> a nor b -> a can be ranked"
    assert split.test.filtered == {"c": {"c"}}


def test_split_of_a_package_does_not_depend_on_the_others() -> None:
    names = [f"package-{i}" for i in range(2_000)]
    sides = [build.on_test_side(name, 0) for name in names]
    assert 0.16 < np.mean(sides) < 0.24
    assert sides != [build.on_test_side(name, 1) for name in names]


def write_tiny(folder: Path, relation: str) -> dict[str, bytes]:
    names = {"recommends": {"editor", "editor-doc", "spell"}, "depends": {"editor", "spell"}}[relation]
    held_out = {"recommends": "editor-doc", "depends": "spell"}[relation]
    index = INDEX.replace("Enhances: editor", "Enhances: editor\nSuggests: handbook")
    build.build(index.splitlines(), folder, relation=relation, seed=seed_with({held_out}, names), archive="a test")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("relation", ["recommends", "depends"])
def test_building_twice_gives_the_same_bytes(tmp_path: Path, relation: str) -> None:
    first = write_tiny(tmp_path / "first", relation)
    assert first == write_tiny(tmp_path / "second", relation)
    assert len(first) == 6 + 3 * len(GRAPHS)
    assert all(content[4:8] == b"\0\0\0\0" for name, content in first.items() if name.endswith(".gz")), "a time stamp"


def test_tiny_folder_by_hand(tmp_path: Path) -> None:
    write_tiny(tmp_path, "recommends")
    raw = Raw(tmp_path)
    assert raw.uids == {
        "trn": ["editor", "spell"],
        "tst": ["editor-doc"],
        "lbl": ["editor", "editor-doc", "handbook", "spell"],
    }
    assert [row["target_ind"] for row in raw.rows["trn"]] == [[1, 2, 3], [0]]
    assert [row["target_ind"] for row in raw.rows["tst"]] == [[2]]
    assert raw.rows["lbl"][2] == {"uid": "handbook", "title": "handbook: manuál", "content": ""}
    assert read_pairs(tmp_path / "filter_labels_train.txt") == {(0, 0), (1, 3)}
    assert read_pairs(tmp_path / "filter_labels_test.txt") == {(0, 0), (0, 1)}
    ui = {"libui: user interface"}
    assert raw.graph("depends", "trn") == {"editor": ui, "spell": ui}
    assert raw.graph("depends", "lbl") == {"editor": ui, "editor-doc": set(), "handbook": set(), "spell": ui}
    assert raw.graph("source", "lbl")["editor-doc"] == set()
    assert raw.graph("section", "lbl")["handbook"] == {"doc"}


def test_what_a_label_is_never_is_a_graph_too(tmp_path: Path) -> None:
    write_tiny(tmp_path, "depends")
    about = json.loads((tmp_path / "dataset.json").read_text())
    assert list(about["graphs"]) == ["recommends", "tag", "section", "source"]
    assert about["description"].endswith("in its fields Pre-Depends, Depends.")


def test_something_else_than_an_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="0 packages"):
        build.build(["  hello", "world"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_library_reads_what_the_files_hold(raw: Raw) -> None:
    data = Dataset.read(FOLDER)
    assert data.test is not None
    assert data.propensity == Propensity(0.55, 1.5)
    assert list(data.labels.uids) == raw.uids["lbl"]
    for split, side, stem in ((data.train, "train", "trn"), (data.test, "test", "tst")):
        assert list(split.documents.fields["title"]) == [row["title"] for row in raw.rows[stem]]
        assert split.targets.indices.tolist() == [label for row in raw.rows[stem] for label in row["target_ind"]]
        assert split.filtered is not None
        pairs = zip(*(part.tolist() for part in split.filtered.nonzero()), strict=True)
        assert set(pairs) == read_pairs(FOLDER / f"filter_labels_{side}.txt")
    for name, graph in data.graphs.items():
        for matrix, stem in ((graph.train, "trn"), (graph.label, "lbl")):
            assert matrix is not None
            assert matrix.nnz == sum(map(len, raw.graph(name, stem).values()))
    assert tuple(data.graphs) == GRAPHS


def test_the_library_proposes_the_same_filters() -> None:
    """Two ways to find identity and reciprocal pairs: by names in build.py, by sparse products in the library."""
    data = Dataset.read(FOLDER, graphs=())
    assert data.test is not None
    for split, proposed in zip(
        (data.train, data.test), proposed_filter(data.train, data.test, data.labels), strict=True
    ):
        assert proposed is not None
        assert split.filtered is not None
        assert proposed.nnz == split.filtered.nnz > 0
        assert abs(proposed - split.filtered).max() == 0
