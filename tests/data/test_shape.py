"""What defaults go by: the number of documents, and the fields that are read where no others are asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from longtail import Dataset
from longtail.data.graph import Graph
from longtail.data.shape import Shape, fields_read, must_have_fields
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput

TITLE, BOTH = ("title",), ("title", "content")


def of_contents(counts: list[int]) -> Dataset:
    """Documents whose contents have so many words."""
    texts = [{"title": f"title {i}", "content": " ".join(["word"] * count)} for i, count in enumerate(counts)]
    return Dataset.from_texts(texts, [[0]] * len(counts), ["a label"])


@pytest.mark.parametrize(
    ("counts", "fields"),
    [
        ([8, 8, 8], BOTH),
        ([64, 64, 64], BOTH),
        ([2, 2, 200], TITLE),  # 68 on average
        ([7, 7, 9], TITLE),
        ([65, 65, 65], TITLE),
        ([20, 20, 0], BOTH),
        ([20, 20, 0, 0], TITLE),  # half of them have none
        ([100, 28, 0], BOTH),  # those that have one have 64 on average
        ([0, 0, 0], TITLE),
    ],
    ids=str,
)
def test_short_contents_are_read(counts: list[int], fields: tuple[str, ...]) -> None:
    assert fields_read(of_contents(counts)) == fields
    assert Shape.of(of_contents(counts)) == Shape(len(counts), fields, labels=1.0)


def test_labels_of_a_document_are_counted_on_average() -> None:
    assert Shape.of(Dataset.from_texts(["a", "b"], [[0, 1], [1]], ["x", "y"])).labels == 1.5
    assert Shape.of(Dataset.from_texts([], [], ["a label"])).labels == 0


@pytest.mark.parametrize(
    ("nodes", "say"), [(["#", "Wood?"], True), (["#", "wooden"], False), (["LABEL"], True)], ids=str
)
def test_graphs_count_whose_nodes_have_a_word_of_the_texts(nodes: list[str], say: bool) -> None:
    data = Dataset.from_texts(["oak and wood", "a nail"], [[0], [0]], ["a label"])
    edges = csr_of_lists([[0], [0]], len(nodes))
    graphs = {"codes": Graph(Strings.of(["c1"]), csr_of_lists([[0], [0]], 1), None)}
    graphs["words"] = Graph(Strings.of(nodes), edges, None)
    assert Shape.of(replace(data, graphs=graphs)).graphs == say
    assert not Shape.of(data).graphs


def test_documents_without_a_content_and_no_documents_have_titles() -> None:
    assert fields_read(Dataset.from_texts(["a title"], [[0]], ["a label"])) == TITLE
    assert fields_read(Dataset.from_texts([], [], ["a label"])) == TITLE


def test_what_a_data_set_says_comes_first_and_is_kept(tmp_path: Path) -> None:
    short = of_contents([20, 20])
    said = replace(short, fields=TITLE)
    assert fields_read(said) == TITLE
    assert fields_read(replace(of_contents([100, 100]), fields=BOTH)) == BOTH
    titles = Texts(short.train.documents.uids, {"title": short.train.documents.fields["title"]})
    without = replace(short, fields=BOTH, train=replace(short.train, documents=titles))
    assert fields_read(without) == TITLE  # as they were read without the content
    said.write(tmp_path / "said")
    short.write(tmp_path / "short")
    assert Dataset.read(tmp_path / "said").fields == TITLE
    assert Dataset.read(tmp_path / "short").fields == ()
    assert '"fields"' not in (tmp_path / "short" / "dataset.json").read_text()
    rest, _ = Dataset.read(tmp_path / "said").holdout(said.train.targets.indices[:1])
    assert rest.fields == TITLE
    assert said.fingerprint() == short.fingerprint()


def test_words_of_many_documents_are_counted_in_some(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [20, 500, 20, 500, 20]
    assert fields_read(of_contents(counts)) == TITLE
    monkeypatch.setattr("longtail.data.shape._COUNTED", 3)  # the first, the last, and the one between
    assert fields_read(of_contents(counts)) == BOTH


def test_fields_that_documents_do_not_have_are_refused_but_for_the_content() -> None:
    titles = Dataset.from_texts(["a title"], [[0]], ["a label"])
    must_have_fields(titles, BOTH)
    must_have_fields(of_contents([20]), BOTH)
    message = (
        r"fields: expected fields that were read of the training documents \(title\), found market, contnet; leave"
    )
    with pytest.raises(BadInput, match=message):
        must_have_fields(titles, ("title", "market", "contnet"))
