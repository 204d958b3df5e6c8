"""GalaXC and PINA: what they read of neighbours, what they must not have seen, and labels that come and go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longtail import Dataset, load, recipes
from longtail.data.texts import Texts
from longtail.model import Bundle
from longtail.stages.graph_that_enriches import joint_graph
from longtail.stages.linking import LinkOptions, links_of
from longtail.testing.planted import Planted, planted
from longtail.train.run import Run

SMALL = {"batch": 64, "random_negatives": 32, "width": 16, "epochs": 2, "device": "cpu", "validation": 0.1}
GALAXC = {**SMALL, "classifier_epochs": 2, "warmup": 5}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return planted(0, documents=240, test_documents=40, labels=60).dataset


@pytest.fixture(scope="module")
def galaxc(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("galaxc") / "run"
    recipes.galaxc(data, out=folder, **GALAXC)
    return folder


def test_hops_are_read_as_an_inner_product_and_labels_come_and_go(data: Dataset, galaxc: Path) -> None:
    model = load(galaxc, device="cpu")
    assert isinstance(model, Bundle)
    assert model.kinds == ("plain", "encoder", "classifier", "fused")
    assert model.table("classifier").shape == (60, 4 * 16)
    assert data.test is not None
    x = model.encode(data.test.documents)
    assert x.shape == (40, 16 + 4 * 16 + 1)
    np.testing.assert_array_equal(model.queries(x, "plain"), model.queries(x, "encoder"))
    new = model.new_labels(Texts.of(["one"], uids=["x"]), data.train.documents.take(np.arange(2)), np.zeros(2, int))
    grown = model.take(np.arange(5)).followed_by(new)
    assert grown.kinds == model.kinds
    best = grown.predict([data.train.documents.fields["title"][0]], k=6, kind="classifier")[0][0]
    assert best.uid == "x"


PLANTED = {"batch": 64, "random_negatives": 64, "width": 48, "warmup": 20, "learning_rate": 0.02, "epochs": 4}
PLANTED |= {"validation": 0.1, "device": "cpu"}


def by_links(model: Bundle, given: Planted) -> tuple[dict[str, float], dict[str, float]]:
    """P@1 of the classifiers by block, in percent, with the nodes that are found and with those of other documents."""
    test = given.dataset.test
    assert test is not None
    assert model.linked is not None
    links, scores = model.linked.find(test.documents).ids, []
    for some in (links, np.roll(links, 7, axis=0)):
        best = model.search(model.encode(test.documents, some), 1, kind="classifier").ids[:, 0]
        right = test.targets.toarray()[np.arange(len(best)), best] > 0
        scores.append({block: float(100 * right[given.blocks == block].mean()) for block in "AB"})
    return scores[0], scores[1]


def test_galaxc_reads_the_neighbourhood_of_a_document() -> None:
    """Four labels of block B share one text, so that their neighbourhoods and classifiers have to tell them apart."""
    given = planted(0, documents=600, labels=120)
    right, wrong = by_links(recipes.galaxc(given.dataset, **PLANTED, classifier_epochs=4), given)
    assert right["A"] > 85
    assert right["B"] > 80
    assert wrong["A"] < 50
    assert wrong["B"] < 40


def test_pina_reads_predicted_neighbours_best_if_training_predicts_them_too() -> None:
    given = planted(0, documents=600, labels=120)
    options = {**PLANTED, "classifier_epochs": 2, "linker": "dpr", "linker_epochs": 4}
    right, wrong = by_links(recipes.pina(given.dataset, **options), given)
    leaked, _ = by_links(recipes.pina(given.dataset, **options, train_links="true"), given)
    assert right["A"] > 90
    assert wrong["A"] < 85
    assert wrong["B"] < 50
    assert right["B"] > max(85, leaked["B"] + 5)


def test_a_labels_row_for_a_linker_has_no_document_that_it_must_not_have_seen(data: Dataset) -> None:
    seen: list[Dataset] = []

    def linker(given: Dataset, **_: object) -> Bundle:
        seen.append(given)
        return recipes.dpr(given, epochs=0, width=4, device="cpu")

    o = LinkOptions(enrich="joint", label_rows=True, train_links="out-of-fold", folds=3, links=2)
    linking = links_of(Run(), data, linker, o, validation=0.1)
    assert linking is not None
    links = linking.links_to_train_with()
    assert links.shape == (216, 60 + 240)
    whole, *folds = seen
    labelled = np.diff(linking.train.targets.indptr) > 0
    assert len(whole.train) == labelled.sum() + np.count_nonzero(np.diff(linking.of_labels.indptr))
    titles = np.array(list(data.train.documents.fields["title"]))
    for given in folds:
        documents = np.isin(np.array(list(given.train.documents.fields["title"])), titles)
        read = set(np.array(list(given.train.documents.fields["title"]))[documents])
        pairs = given.train.targets[np.flatnonzero(~documents)]  # of the rows of labels
        known = {titles[node - 60] for node in pairs.indices if node >= 60}
        assert known
        assert known <= read
        assert 0 < len(read) < len(whole.train)


def test_the_joint_graph_by_hand() -> None:
    data = Dataset.from_texts(documents=["a b", "c", "d"], targets=[[0], [0, 1], [1]], labels=["x", "y"])
    graph = joint_graph(data, np.array([0, 1]))
    assert list(graph.nodes) == ["x", "y", "a b", "c", "d"]
    assert graph.train is not None
    assert graph.label is not None
    assert graph.train.toarray().tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 0, 0, 0]]
    assert graph.label.toarray().tolist() == [[1, 0, 1, 1, 0], [0, 1, 0, 1, 0]]  # what d has is not known
