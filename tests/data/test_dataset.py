from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from longtail import recipes
from longtail.data.dataset import Dataset, Propensity
from longtail.data.sparse import csr_of_lists
from longtail.errors import BadInput

TARGETS = [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def strings(texts: object) -> dict[str, list[str]]:
    return {name: list(column) for name, column in texts.fields.items()}


def same(left: Dataset, right: Dataset) -> bool:
    return left.fingerprint() == right.fingerprint()


def test_json_lines(fruit: Path) -> None:
    dataset = Dataset.read(fruit)
    assert (dataset.name, dataset.licence, dataset.description) == ("fruit", "CC0", "What fruit is it?")
    assert dataset.propensity == Propensity(0.55, 1.5)
    assert list(dataset.train.documents.uids) == ["d0", "d1", "d2", "d3"]
    assert strings(dataset.train.documents) == {
        "title": ["red apple", "green pear", "blue plum", "pear"],
        "content": ["a fruit", "", "", ""],
    }
    assert strings(dataset.labels) == {"title": ["apple", "pear", "plum", ""]}  # no label has a content
    np.testing.assert_array_equal(dataset.train.targets.toarray(), TARGETS)  # 0.5 counts, 0.0 does not
    np.testing.assert_array_equal(dataset.test.targets.toarray(), [[1, 0, 0, 0], [0, 1, 1, 0]])
    np.testing.assert_array_equal(dataset.test.filtered.toarray(), [[0, 0, 1, 0], [1, 0, 0, 0]])
    assert dataset.train.filtered.toarray()[3, 1] == dataset.train.filtered.nnz == 1
    graph = dataset.graphs["tree"]
    assert list(graph.nodes) == ["malus", "pyrus", "prunus"]
    np.testing.assert_array_equal(graph.train.toarray(), [[1, 0, 0], [0, 1, 0.5], [0, 0, 0], [0, 2, 0]])
    np.testing.assert_array_equal(graph.label.toarray(), [[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]])


def test_matrices_and_raw_texts_say_the_same(fruit: Path, plain: Path) -> None:
    one, other = Dataset.read(fruit, fields=("title",)), Dataset.read(plain)
    assert other.name == "plain"
    assert other.propensity is None
    for left, right in ((one.train, other.train), (one.test, other.test)):
        assert strings(left.documents) == strings(right.documents)
        np.testing.assert_array_equal(left.targets.toarray(), right.targets.toarray())
        np.testing.assert_array_equal(left.filtered.toarray(), right.filtered.toarray())
    assert strings(one.labels) == strings(other.labels)
    assert list(other.labels.uids) == [""] * 4
    np.testing.assert_array_equal(one.graphs["tree"].train.toarray(), other.graphs["tree"].train.toarray())


def test_the_older_matrix_format(plain: Path) -> None:
    before = Dataset.read(plain)
    (plain / "trn_X_Y.txt").unlink()
    (plain / "train.txt").write_text("4 5 4\n0,2 0:1\n1 4:0.5\n2 1:1\n 3:1\n")
    (plain / "tst_X_Y.txt.gz").unlink()
    (plain / "test.txt").write_text("2 5 4\n0 0:1\n2,1 4:0.5\n")
    assert same(before, Dataset.read(plain))


def test_json_lines_are_read_where_both_layouts_are_there(fruit: Path, plain: Path) -> None:
    before = Dataset.read(fruit)
    shutil.copy(plain / "trn_X_Y.txt", fruit)
    assert same(before, Dataset.read(fruit))


def test_files_may_be_plain_and_filters_have_the_names_of_other_codes(fruit: Path) -> None:
    import gzip

    before = Dataset.read(fruit)
    for path in [*fruit.glob("*.gz")]:
        if "tree" not in path.name:
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
    (fruit / "filter_labels_test.txt").rename(fruit / "tst_filter_labels.txt")
    assert same(before, Dataset.read(fruit))


def test_the_encoding_is_that_of_dataset_json(plain: Path) -> None:
    (plain / "raw_data/label.raw.txt").write_bytes(b"apple\np\xeache\nplum\n\n")
    (plain / "dataset.json").write_text('{"encoding": "latin-1"}')
    assert list(Dataset.read(plain).labels.fields["title"]) == ["apple", "p\u00eache", "plum", ""]


def test_what_an_encoding_makes_of_bytes_must_be_text(plain: Path) -> None:
    (plain / "raw_data/label.raw.txt").write_bytes(b"apple\na +2AA- b\nplum\n\n")
    (plain / "dataset.json").write_text('{"encoding": "utf-7"}')
    with pytest.raises(BadInput, match=r"label.raw.txt, line 2: expected text that UTF-8 can hold, .* 'a \\ud800 b'"):
        Dataset.read(plain)


def test_a_test_split_filters_uids_and_weights_are_optional(fruit: Path) -> None:
    for name in ("tst.json.gz", "filter_labels_train.txt", "filter_labels_test.txt", "dataset.json"):
        (fruit / name).unlink()
    (fruit / "trn.json.gz").unlink()
    (fruit / "trn.json").write_text('{"title": "x", "uid": 7, "target_ind": [3, 3, 1], "other": 1}\n')
    (fruit / "tree_trn_X_Y.txt").write_text("1 3\n\n")
    dataset = Dataset.read(fruit)
    assert dataset.test is None
    assert dataset.train.filtered is None
    assert dataset.propensity is None
    assert list(dataset.train.documents.uids) == ["7"]
    np.testing.assert_array_equal(dataset.train.targets.toarray(), [[0, 1, 0, 1]])


def test_only_what_is_asked_for_is_read(fruit: Path) -> None:
    dataset = Dataset.read(fruit, fields=("title",), test=False, graphs=[])
    assert set(dataset.train.documents.fields) == {"title"}
    assert dataset.test is None
    assert dataset.graphs == {}


@pytest.mark.parametrize("layout", ["fruit", "plain"])
def test_what_is_written_is_read_again(request: pytest.FixtureRequest, tmp_path: Path, layout: str) -> None:
    dataset = Dataset.read(request.getfixturevalue(layout))
    dataset.write(tmp_path / "copy")
    copy = Dataset.read(tmp_path / "copy")
    assert same(dataset, copy)
    assert replace(copy, folder=None, train=None, test=None, labels=None, graphs={}) == replace(
        dataset, folder=None, train=None, test=None, labels=None, graphs={}
    )
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_any_text_is_written_and_read_again(tmp_path: Path) -> None:
    titles = ["a\nb\r\n", "", "\u2028 \u00e9 \U0001f600", '"\\', "\x01\x1b\ufffe"]
    dataset = Dataset.from_texts(titles, [[0], [], [], [], []], ["a\nb"])
    dataset.write(tmp_path / "copy")
    assert list(Dataset.read(tmp_path / "copy").train.documents.fields["title"]) == titles


@pytest.mark.parametrize("key", ["name", "description", "licence"])
def test_what_no_file_can_hold_is_not_written(fruit: Path, tmp_path: Path, key: str) -> None:
    dataset = replace(Dataset.read(fruit), **{key: "a\ud800"})
    with pytest.raises(BadInput, match=f"^{key}: expected text that UTF-8 can hold, without NUL, found"):
        dataset.write(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("name", ["../../escaped", "a/b", "", ".hidden", "a\0b", "a\ud800", "a\nb", "x" * 101])
def test_a_graph_whose_name_is_no_file_name_is_not_written(fruit: Path, tmp_path: Path, name: str) -> None:
    dataset = Dataset.read(fruit)
    with pytest.raises(BadInput, match=r"^graphs: expected a name of letters, digits.* found .*; give it another name"):
        replace(dataset, graphs={name: dataset.graphs["tree"]}).write(tmp_path / "copy" / "deeper")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == []


@pytest.mark.parametrize("name", ["tree", "also bought", "größe_2.x-y", "7"])
def test_a_graph_of_any_other_name_is_written(fruit: Path, tmp_path: Path, name: str) -> None:
    dataset = Dataset.read(fruit)
    replace(dataset, graphs={name: dataset.graphs["tree"]}).write(tmp_path / "copy")
    assert list(Dataset.read(tmp_path / "copy").graphs) == [name]


def test_graphs_found_by_their_files_have_names_of_the_same_kind(fruit: Path) -> None:
    (fruit / "dataset.json").unlink()
    for name in (".hidden", "a+b"):
        shutil.copy(fruit / "tree_trn_X_Y.txt", fruit / f"{name}_trn_X_Y.txt")
        shutil.copy(fruit / "raw_data/tree.raw.txt", fruit / f"raw_data/{name}.raw.txt")
    with pytest.raises(BadInput, match=r"fruit: expected a name of letters, digits.* found 'a\+b'"):
        Dataset.read(fruit)
    (fruit / "a+b_trn_X_Y.txt").unlink()
    assert list(Dataset.read(fruit).graphs) == ["tree"]


def test_writing_leaves_a_folder_alone_that_holds_something(fruit: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in fruit.rglob("*")}
    dataset = Dataset.read(fruit)
    with pytest.raises(BadInput, match="is there already, and is not empty"):
        dataset.write(fruit)
    assert {path: path.stat().st_mtime_ns for path in fruit.rglob("*")} == before


def test_a_fingerprint_changes_with_the_part_that_changes(fruit: Path) -> None:
    before = Dataset.read(fruit).fingerprint()
    assert set(before) == {
        *("labels", "train.documents", "train.targets", "train.filtered", "graph.tree.nodes", "graph.tree.train"),
        *("test.documents", "test.targets", "test.filtered", "graph.tree.label"),
    }
    (fruit / "filter_labels_train.txt").write_text("3 2\n")
    after = Dataset.read(fruit).fingerprint()
    assert {part for part in before if before[part] != after[part]} == {"train.filtered"}


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([[0]], "targets: expected one list of label ids a document, found 1 for 2 documents; give"),
        ([[0], [3]], r"targets: label id 3 of document 1 is not an integer in \[0, 3\); ids are positions"),
        ([[-1], [0]], r"targets: label id -1 of document 0 is not an integer in \[0, 3\)"),
        ([[0], [1.0]], r"targets: label id 1.0 of document 1 is not an integer in \[0, 3\)"),
        ([[0], ["a"]], r"targets: label id 'a' of document 1 is not an integer in \[0, 3\)"),
        ([[0], [True]], r"targets: label id True of document 1 is not an integer in \[0, 3\)"),
        ([[0], None], "targets: expected a list of label ids for each document, found None for document 1; give"),
        (
            [1, [0]],
            r"targets: expected a list of label ids .*, found 1 for document 0; give \[\] to a document without",
        ),
        (np.array([1, 0]), "targets: expected a list of label ids .* for document 0"),
        (None, "targets: expected a list of label ids for each document, found None for documents"),
        (sparse.csr_array(np.eye(2)), "targets: label id .* of document 0 is not an integer"),
    ],
)
def test_lists_that_do_not_fit(targets: list[list[int]], message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        Dataset.from_texts(["x", "y"], targets, ["a", "b", "c"])
    assert "\n" not in str(caught.value)


def test_what_is_read_once_is_a_data_set_too() -> None:
    made = Dataset.from_texts((text for text in "xy"), ((i for i in row) for row in ([2, 0], [])), iter("abc"))
    assert made.fingerprint() == Dataset.from_texts(["x", "y"], [[2, 0], []], ["a", "b", "c"]).fingerprint()


@pytest.mark.parametrize(("texts", "found"), [("ab", "one"), ({"title": "a"}, "one"), (None, "NoneType"), (7, "int")])
def test_one_text_is_no_list_of_texts(texts: object, found: str) -> None:
    said = f"expected several texts, found {found}; put them into a list"
    with pytest.raises(BadInput, match=f"documents: {said}"):
        Dataset.from_texts(texts, [[0], [1]], ["a", "b"])
    with pytest.raises(BadInput, match=f"labels: {said}"):
        Dataset.from_matrix(["x", "y"], np.eye(2), texts)


def test_lists_that_fit() -> None:
    dataset = Dataset.from_texts(["x", "y"], [[2, 0], []], ["a", "b", "c"])
    np.testing.assert_array_equal(dataset.train.targets.toarray(), [[1, 0, 1], [0, 0, 0]])
    assert dataset.folder is None


RELEVANT = np.array([[1, 0, 1], [0, 0, 0]])


@pytest.mark.parametrize("form", [*("csr", "csc", "coo", "lil", "dok", "bsr"), None])
@pytest.mark.parametrize("dtype", [bool, np.int32, np.float64])
def test_a_matrix_of_any_kind_is_a_data_set(form: str | None, dtype: type) -> None:
    dense = RELEVANT.astype(dtype)
    kinds = (
        [dense, dense.tolist()]
        if form is None
        else [kind(dense) for kind in (getattr(sparse, f"{form}_matrix"), getattr(sparse, f"{form}_array"))]
    )
    for targets in kinds:
        made = Dataset.from_matrix(["a", "b"], targets, ["x", "y", "z"])
        lists = Dataset.from_texts(["a", "b"], [[0, 2], []], ["x", "y", "z"])
        assert made.fingerprint() == lists.fingerprint()
    half = Dataset.from_matrix(["a", "b"], RELEVANT.astype(np.float16), ["x", "y", "z"])  # which scipy does not know
    assert half.train.targets.toarray().tolist() == [[1, 0, 1], [0, 0, 0]]


def test_values_of_a_matrix_are_not_graded() -> None:
    pairs = sparse.coo_array(([0.2, 3.0, 0.0, 1.0], ([0, 1, 1, 1], [2, 0, 1, 0])), shape=(2, 3))
    made = Dataset.from_matrix(["a", "b"], pairs, ["x", "y", "z"])
    np.testing.assert_array_equal(made.train.targets.toarray(), [[0, 0, 1], [1, 0, 0]])
    assert made.train.targets.nnz == 2


def test_texts_may_have_content_and_uids() -> None:
    documents = [{"title": "a", "content": "long a", "uid": "d1", "year": 1999}, "b", {"title": "c"}]
    made = Dataset.from_matrix(documents, np.eye(3), [{"title": "x", "uid": "l1"}, "y", "z"])
    assert list(made.train.documents.joined(("title", "content"))) == ["a long a", "b", "c"]
    assert list(made.train.documents.uids) == ["d1", "", ""]
    assert list(made.labels.uids) == ["l1", "", ""]
    assert list(made.labels.fields) == ["title"]
    lists = Dataset.from_texts(documents, [[0], [1], [2]], [{"title": "x", "uid": "l1"}, "y", "z"])
    assert made.fingerprint() == lists.fingerprint()


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.zeros((3, 3)), r"targets: expected 2 documents x 3 labels, found shape \(3, 3\); give a row for each"),
        (RELEVANT.T, r"targets: expected 2 documents x 3 labels, found shape \(3, 2\)"),
        (np.zeros(3), r"targets: expected 2 documents x 3 labels, found shape \(3,\)"),
        ([[0, 1, np.nan], [0, 0, 0]], r"targets: expected a finite number of at least 0, found nan at \(0, 2\) and"),
        (sparse.csr_array([[0, 0, 0], [0, -1.0, np.inf]]), r"found -1 at \(1, 1\) and at 1 more places; give 1 for"),
        (np.full((2, 3), "1"), r"targets: expected numbers, found <U1"),
        (sparse.coo_array(([1, -1], ([0, 0], [1, 1])), shape=(2, 3)), r"found -1 at \(0, 1\) and at 0 more places"),
    ],
)
def test_matrices_that_do_not_fit(targets: object, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        Dataset.from_matrix(["a", "b"], targets, ["x", "y", "z"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (["a", 7], "documents: expected a string or a dict of strings with a title, found '7' at 1; give"),
        (["a", {"content": "b"}], "documents: expected a string or a dict of strings with a title, found .* at 1"),
        ([{"title": None}, "b"], "documents: expected a string or a dict of strings with a title, found .* at 0"),
        ([{"title": "a", "uid": "u"}, {"title": "b", "uid": "u"}], "documents: uid 'u' is given at 0 and at 1; give"),
        (["a", "b\ud800"], r"documents: expected text that UTF-8 can hold, without NUL, found 'b\\ud800' at 1; take"),
        ([{"title": "a", "uid": "u\0"}, "b"], r"documents: expected text .* without NUL, found 'u\\x00' at 0; take"),
    ],
)
def test_texts_that_are_none(documents: list[object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Dataset.from_matrix(documents, np.ones((2, 1)), ["x"])


@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True), (True, True)])
def test_further_rows_keep_the_filter_of_either(first: bool, second: bool) -> None:
    data = Dataset.from_matrix(["a", "b"], np.eye(2), ["x", "y"])
    given = [csr_of_lists([[1], [0]], 2) if there else None for there in (first, second)]
    whole = replace(data, train=replace(data.train, filtered=given[0]))
    made = whole.with_rows(replace(data.train, filtered=given[1])).train
    expected = np.concatenate([np.zeros((2, 2)) if one is None else one.toarray() for one in given])
    assert (made.filtered is None) == (not first and not second)
    np.testing.assert_array_equal(np.zeros((4, 2)) if made.filtered is None else made.filtered.toarray(), expected)


def test_held_out_rows_leave_everything_but_the_labels(fruit: Path) -> None:
    dataset = Dataset.read(fruit)
    kept, held = dataset.holdout(np.array([2]))
    assert list(held.documents.uids) == ["d2"]
    assert list(kept.train.documents.uids) == ["d0", "d1", "d3"]
    np.testing.assert_array_equal(held.targets.toarray(), [TARGETS[2]])
    np.testing.assert_array_equal(kept.train.targets.toarray(), [TARGETS[0], TARGETS[1], TARGETS[3]])
    assert held.filtered.nnz == 0
    assert kept.train.filtered.toarray()[2, 1] == kept.train.filtered.nnz == 1
    np.testing.assert_array_equal(kept.graphs["tree"].train.toarray(), [[1, 0, 0], [0, 1, 0.5], [0, 2, 0]])
    np.testing.assert_array_equal(kept.graphs["tree"].label.toarray(), dataset.graphs["tree"].label.toarray())
    assert kept.test is dataset.test


def test_held_out_rows_are_like_test_rows(tmp_path: Path, fruit: Path) -> None:
    """Documents a, b and c are the labels 0, 1 and 2; a -> 1 and b -> 0, c -> 0."""
    records = [("a", [1]), ("b", [0, 3]), ("c", [0, 3]), ("d", [1, 3]), ("e", [3])]
    lines = [json.dumps({"uid": uid, "title": "x", "target_ind": ids}) for uid, ids in records]
    labels = [json.dumps({"uid": uid, "title": "y"}) for uid in "abcz"]
    (fruit / "trn.json.gz").unlink()
    (fruit / "trn.json").write_text("\n".join(lines) + "\n")
    (fruit / "lbl.json.gz").unlink()
    (fruit / "lbl.json").write_text("\n".join(labels) + "\n")
    (fruit / "tree_trn_X_Y.txt").write_text("5 3\n0:1\n1:1\n2:1\n0:1\n1:1\n")
    (fruit / "tree_lbl_X_Y.txt.gz").unlink()
    (fruit / "tree_lbl_X_Y.txt").write_text("4 3\n0:1\n1:1\n2:1\n0:1\n")
    (fruit / "filter_labels_train.txt").write_text("0 0\n1 1\n2 2\n")
    said = json.loads((fruit / "dataset.json").read_text())
    said["graphs"]["tree"]["label"] = "tree_lbl_X_Y.txt"
    (fruit / "dataset.json").write_text(json.dumps(said))
    dataset = Dataset.read(fruit)
    kept, held = dataset.holdout(np.array([0, 4]))
    assert list(held.documents.uids) == ["a", "e"]
    # a is the label 0; it is filtered, and so is c, which has the label a (b has it too, but a -> b is true)
    np.testing.assert_array_equal(held.filtered.toarray(), [[1, 0, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(kept.graphs["tree"].label.toarray(), [[0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(dataset.graphs["tree"].label.toarray()[0], [1, 0, 0])
    # where no test pair is the way back of a training pair, a -> b is none either, since b -> a is left in training
    _, held = replace(dataset, one_way=True).holdout(np.array([0, 4]))
    np.testing.assert_array_equal(held.targets.toarray(), [[0, 0, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(held.filtered.toarray(), [[1, 1, 1, 0], [0, 0, 0, 0]])


def test_a_run_tells_whether_the_truth_is_one_way(fruit: Path, tmp_path: Path) -> None:
    """It decides what is held out. Data that does not say so has the fingerprint that it always had."""
    dataset, out = Dataset.read(fruit), tmp_path / "run"
    assert "one_way" not in dataset.fingerprint()
    options = {"out": out, "epochs": 0, "width": 4, "device": "cpu"}
    recipes.dpr(dataset, **options)
    said = json.loads((fruit / "dataset.json").read_text())
    (fruit / "dataset.json").write_text(json.dumps(said | {"one_way": True}))
    with pytest.raises(BadInput, match=r"hashes \{\}, asked for now is \{'one_way': 'true'\}; give the run another"):
        recipes.dpr(Dataset.read(fruit), **options)
    (fruit / "dataset.json").write_text(json.dumps(said | {"one_way": False}))
    recipes.dpr(Dataset.read(fruit), **options)
