"""The page of a data set."""

from __future__ import annotations

from dataclasses import replace

import pytest
from whole_page import Whole

from longtail.data.dataset import Dataset
from longtail.data.describe import Description, describe
from longtail.data.texts import Texts
from longtail.report.data_page import page_of_data
from longtail.testing.planted import planted

HOSTILE = '</script><b>"&'


@pytest.fixture(scope="module")
def described() -> Description:
    dataset = planted(0, documents=120, test_documents=30, labels=40).dataset
    titles = list(dataset.labels.fields["title"])
    return describe(replace(dataset, labels=Texts.of([HOSTILE, HOSTILE, *titles[2:]]), name="A & B"))


def test_the_page_is_whole_and_needs_nothing_else(described: Description) -> None:
    text = page_of_data(described)
    whole = Whole(text)
    ids = {value for _, name, value in whole.attributes if name == "id"}
    assert {value[1:] for _, name, value in whole.attributes if name == "href"} <= ids
    assert not {name for _, name, _ in whole.attributes} & {"src", "onclick", "onload"}
    assert "<script" not in text
    assert HOSTILE in whole.texts
    for wanted in ("A & B", "120", "Graphs", "topic", "Labels of a document"):
        assert wanted in whole.texts, wanted


def test_bars_add_up_to_what_they_are_of(described: Description) -> None:
    for split, n in ((described.train, 120), (described.test, 30)):
        assert split is not None
        assert sum(bar.number for bar in split.label_counts) == n
        assert {sum(bar.number for bar in bars) for bars in split.lengths.values()} == {n}
    assert sum(tail.labels for tail in described.frequencies) == 40
    assert sum(tail.train_pairs for tail in described.frequencies) == described.train.pairs
    assert sum(tail.test_pairs or 0 for tail in described.frequencies) == described.test.pairs
    assert described.frequencies[0].labels == described.never
    assert sum(bar.number for bar in described.graphs["topic"].links) == described.graphs["topic"].nodes


def test_what_stands_out_comes_first(described: Description) -> None:
    text = page_of_data(described)
    first = text.partition("Know before you train")[2].partition("</ul>")[0]
    assert 'href="#documents-of-a-label"' in first  # block C is unseen
    bare = describe(Dataset.from_texts(["a", "b"], [[0], [1]], ["x", "y"]))
    assert "There is no test split" in page_of_data(bare)
    assert '<h2 id="graphs">' not in page_of_data(bare)
    leaking = Dataset.from_texts(["a", "b"], [[0], [1]], ["long", "other"])
    page = page_of_data(describe(replace(leaking, test=leaking.train)))
    assert "2 test documents with the text and the labels of a training document" in page


def test_labels_and_pairs_are_counted_as_what_they_are() -> None:
    """Two labels have one title that a third nearly has, and a test document is both of the two."""
    title = "garden furniture and outdoor chairs for kids"
    dataset = Dataset.from_texts(["a", "b"], [[0], [1]], [title, title, title[:-1]])
    test = Dataset.from_texts([title], [[2]], ["x", "y", "z"]).train
    page = page_of_data(describe(replace(dataset, test=test)))
    assert "3 labels have a title that another has, too, or nearly." in page
    assert "2 identity pairs of test documents, which are labels themselves, in no filter." in page


def test_links_that_are_answers_are_counted() -> None:
    dataset = planted(0, documents=120, test_documents=30, labels=40).dataset
    graph = dataset.graphs["topic"]
    labelled = replace(dataset, graphs={"answers": replace(graph, train=dataset.train.targets, label=None)})
    nodes = dataset.labels.uids
    found = describe(replace(labelled, graphs={"answers": replace(labelled.graphs["answers"], nodes=nodes)}))
    assert found.graphs["answers"].answers == dataset.train.targets.nnz
    assert describe(dataset).graphs["topic"].answers == 0
