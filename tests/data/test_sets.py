"""What the scripts of `benchmarks/sets/` share: packages, sides, filters, folders; and what the documentation says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from packages import ROOT, SETS, debian, script, unpacked, wheel

from longtail.data.dataset import Dataset, Propensity
from longtail.errors import BadInput

NAMES = tuple(sorted(path.stem for path in SETS.glob("*.py") if "SOURCE = Source(" in path.read_text(encoding="utf-8")))
making = script("making")
Text = making.Text


@pytest.mark.parametrize("make", [wheel, debian, unpacked])
def test_files_of_a_package_in_each_of_its_forms(make: Callable[..., Path], tmp_path: Path) -> None:
    package = make(tmp_path / "package", {"usr/b/x.txt": b"2", "usr/a/x.txt": b"1", "usr/y.txt": b"\xff"})
    assert list(making.files(package, "*/x.txt")) == [("usr/a/x.txt", b"1"), ("usr/b/x.txt", b"2")]
    assert making.file(package, "usr/y.*") == b"\xff"
    with pytest.raises(BadInput, match=r"expected one file '\*\.txt', found usr/a/x.txt, usr/b/x.txt, usr/y.txt"):
        making.file(package, "*.txt")
    with pytest.raises(BadInput, match="found none"):
        making.file(package, "x.txt")


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such file"):
        making.file(tmp_path / "none", "*")
    other = tmp_path / "other"
    for content in (b"", b"a text", b"!<arch>\n", debian(tmp_path / "deb", {"x": b"1"}).read_bytes()[:100]):
        other.write_bytes(content)
        with pytest.raises(BadInput, match=r"neither a zip archive nor a \.deb"):
            making.file(other, "*")


def test_the_side_is_that_of_the_title_and_a_quarter_is_tested_on() -> None:
    sides = [making.on_test_side(f"Title {i}") for i in range(4_000)]
    assert 0.22 < np.mean(sides) < 0.28
    assert sides == [making.on_test_side(f"TITLE {i}") for i in range(4_000)]


def source(read: Callable[..., object] = lambda: None, packages: tuple[str, ...] = ()) -> object:
    return making.Source("tiny", "A tiny set.", "CC0", packages, read)


def rows(split: object, labels: list[str]) -> dict[str, list[str]]:
    """Labels of each document, by uid."""
    ends = split.targets.indptr
    found = [[labels[j] for j in split.targets.indices[a:b]] for a, b in pairwise(ends)]
    return dict(zip(split.documents.uids, found, strict=True))


def pairs_of(split: object, labels: list[str]) -> set[tuple[str, str]]:
    uids = list(split.documents.uids)
    return {(uids[i], labels[j]) for i, j in zip(*split.filtered.nonzero(), strict=True)}


@pytest.fixture
def tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are tested on whose title ends in an exclamation mark."""
    monkeypatch.setattr(making, "on_test_side", lambda title: title.endswith("!"))


@pytest.mark.usefixtures("tested")
def test_sides_labels_and_filters_where_labels_are_documents() -> None:
    """The case of `test_debian_packages.py`, with a label that nothing has and one that is not known."""
    texts = {uid: Text(f" {uid}\n {uid}{'!' if uid in 'cd' else ''}") for uid in "edcbaf"} | {"": Text("")}
    pairs = {"a": ["b", "c", "a"], "b": ["d", "?"], "c": ["a", "d"], "d": ["b"], "f": ["?"], "": ["a"]}
    data = making.made(source(), making.Material(texts, texts, pairs))
    labels = list(data.labels.uids)
    assert labels == ["b", "c", "d"]
    assert list(data.labels.fields["title"]) == ["b b", "c c!", "d d!"]
    assert rows(data.train, labels) == {"a": ["b", "c"], "b": ["d"]}
    assert rows(data.test, labels) == {"c": ["d"]}, "c -> a and d -> b are training pairs turned round"
    assert pairs_of(data.train, labels) == {("b", "b")}
    assert pairs_of(data.test, labels) == {("c", "c")}
    assert data.one_way
    assert data.propensity == Propensity(0.55, 1.5)


@pytest.mark.usefixtures("tested")
def test_a_set_is_written_as_the_library_reads_it(tmp_path: Path, monkeypatch, capsys) -> None:
    """Labels of another kind: no filter. The same packages give the same bytes."""
    documents = {"d1": Text("one", "first"), "d2": Text("two!"), "d3": Text("three")}
    labels = {"l2": Text("odd", "not even"), "l1": Text("even"), "l3": Text("never")}
    material = making.Material(documents, labels, {"d1": ["l2"], "d2": ["l1"], "d3": ["l2", "l1"]})
    given = []
    tiny = source(lambda package: given.append(package) or material, ("package",))
    for out in ("a", "b"):
        monkeypatch.setattr(sys, "argv", ["tiny.py", "it.whl", str(tmp_path / out)])
        making.main(tiny, "About.")
    assert given == [Path("it.whl")] * 2
    assert "a: 2 training and 1 test documents, 2 labels" in capsys.readouterr().out
    contents = [{path.name: path.read_bytes() for path in (tmp_path / out).iterdir()} for out in ("a", "b")]
    assert contents[0] == contents[1]
    assert set(contents[0]) == {"trn.json.gz", "tst.json.gz", "lbl.json.gz", "dataset.json"}
    data = Dataset.read(tmp_path / "a")
    assert rows(data.train, list(data.labels.uids)) == {"d1": ["l2"], "d3": ["l1", "l2"]}
    assert rows(data.test, list(data.labels.uids)) == {"d2": ["l1"]}
    assert list(data.labels.fields["content"]) == ["", "not even"]
    assert (data.name, data.description, data.licence, data.one_way) == ("tiny", "A tiny set.", "CC0", False)
    assert data.fields == ("title",)


def test_an_error_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["phenotypes.py", str(tmp_path / "none.whl"), str(tmp_path / "out")])
    with pytest.raises(SystemExit, match=r"^phenotypes: .*none\.whl: there is no such file or folder[^\n]*$"):
        making.main(script("phenotypes").SOURCE, None)
    one = making.Material({"d": Text("one")}, {"l": Text("one")}, {"d": ["l"]})
    with pytest.raises(BadInput, match="expected some of both"):
        making.made(source(), one)
    assert not list(tmp_path.iterdir())


def test_the_shape_of_a_set(tmp_path: Path, monkeypatch, capsys) -> None:
    labels = ["one word", "two", "three", "four"]
    data = Dataset.from_texts(["a b c", "a b", "a"], [[0, 1, 2], [0], [0]], labels)
    test = Dataset.from_texts(["t", "t u"], [[3], [0, 2, 3]], labels).train
    Dataset("shape", data.train, data.labels, test).write(tmp_path / "shape")
    monkeypatch.setattr(sys, "argv", ["table.py", str(tmp_path / "shape")])
    script("table").main()
    head, rule, row = capsys.readouterr().out.splitlines()
    assert row == "| `shape` | 3 | 2 | 4 | 1.7, 1 | 1.7, 1 | 33.3 %, 50.0 % | 2.0, 1.2 | 0.0, 0.0 |"
    assert head.count("|") == rule.count("|") == row.count("|")


def test_every_set_has_its_row_in_the_documentation() -> None:
    lines = (ROOT / "docs" / "reference" / "data.md").read_text(encoding="utf-8").splitlines()
    assert {"phenotypes", "wordnet"} <= set(NAMES)
    for name in NAMES:
        assert script(name).SOURCE.name == name
        about, shape = (line for line in lines if line.startswith(f"| `{name}` |"))
        assert shape.count("|") == 10
        fetched = [line.strip() for line in script(name).__doc__.splitlines() if "download " in line]
        assert all(f"| `{line}` |" in about for line in fetched), "the packages are those of the script"
        assert len(fetched) == (name != "depends"), "which is made of the example"
