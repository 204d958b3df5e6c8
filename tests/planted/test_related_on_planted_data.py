"""Pages that name each other, whose words say nothing: only what training says of a page as a label tells which."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from stopping import stopped_in_the_middle

from longtail import Dataset, load, recipes
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Texts
from longtail.metrics.ranking import metrics_of
from longtail.model.label_set import LabelSet, NewLabel
from longtail.stages.make_ensemble import ensemble
from longtail.train.progress import settings_of

PAGES, NAMED = 1000, 4
SMALL = {"epochs": 1, "batch": 128, "width": 16, "validation": 0.2, "refit": False, "warmup": 10, "device": "cpu"}


def pages(seed: int, *, both_ways: bool = True) -> Dataset:
    """Pages that name others by lot, and are named by these if both ways; one in five is a test document."""
    rng = np.random.default_rng(seed)
    names = np.zeros((PAGES, PAGES), bool)
    for i in range(PAGES):
        names[i, rng.choice(PAGES, NAMED, replace=False)] = True
    names = (names | names.T) if both_ways else names
    np.fill_diagonal(names, False)
    titles = [" ".join(f"word{word}" for word in rng.choice(400, 4, replace=False)) for _ in range(PAGES)]
    targets = [np.flatnonzero(row).tolist() for row in names]
    whole = Dataset.from_texts(titles, targets, titles)
    train, test = (whole.train.take(np.flatnonzero((np.arange(PAGES) % 5 == 0) == is_test)) for is_test in (0, 1))
    return Dataset("pages", train, whole.labels, test)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    data = pages(0)
    folder = tmp_path_factory.mktemp("pages") / "run"
    return data, folder, recipes.unidec(data, out=folder, **SMALL)


def at_1(data, model, kind=None):
    return metrics_of(model.rank(data.test.documents, 5, kind=kind), data.test.targets, ks=[1])["P@1"]


def test_the_way_back_is_found_and_said(trained):
    data, folder, model = trained
    assert model.kinds[-2:] == ("fused", "memory")
    assert at_1(data, model) > 80
    assert at_1(data, model, "fused") < 20
    noted = settings_of(folder)["related-labels"]
    assert noted["kept"]
    assert noted["with"] > noted["without"] + 20
    without = recipes.unidec(data, memory=False, **SMALL)
    assert without.kinds[-1] == "fused"


def test_it_needs_no_documents_and_knows_those_that_were_held_out(trained):
    data, folder, model = trained
    assert not settings_of(folder)["memory"]["kept"]
    assert not len(model.memory.keys.vectors)
    titles, labels = data.train.documents.fields["title"], list(data.labels.fields["title"])
    votes = model.memory.related.votes(model.encode(data.train.documents)[:, model.key_columns])
    for i in range(0, len(titles), 40):  # a training page, and what names it
        naming = {labels.index(titles[int(j)]) for j in data.train.targets[:, [labels.index(titles[i])]].nonzero()[0]}
        assert naming == set(votes[[i]].indices[votes[[i]].data == 1].tolist())


def test_one_way_says_nothing_and_is_dropped(tmp_path):
    data = pages(3, both_ways=False)
    model = recipes.unidec(data, out=tmp_path / "run", **SMALL)
    assert model.kinds[-1] == "fused"
    assert not settings_of(tmp_path / "run")["related-labels"]["kept"]


def test_texts_that_are_no_label_are_ranked_as_without(trained):
    data, _, model = trained
    titles = [*data.test.documents.fields["title"]][:6]
    texts = [titles[0], "word1 word2", titles[1], titles[2], "nothing", "word3 word4 word5"]
    vectors, scorer = model.encode(Texts.of(texts)), model.scorer("memory")
    assert scorer.memory.says_of(vectors).tolist() == [True, False, True, True, False, False]
    exclude = csr_of_lists([[0], [1], [2], [3], [4], [5]], PAGES)
    together = scorer.search(vectors, 5, exclude=exclude)
    silent = replace(scorer, memory=None).search(vectors, 5, exclude=exclude)
    for i in range(len(texts)):
        alone = scorer.search(vectors[[i]], 5, exclude=exclude[[i]])
        np.testing.assert_array_equal(together.ids[[i]], alone.ids)
        assert np.array_equal(together.ids[[i]], silent.ids[[i]]) == (i in (1, 4, 5))


def test_it_is_saved_and_a_resumed_run_has_the_same(trained):
    data, folder, model = trained
    opened = load(folder, device="cpu")
    np.testing.assert_array_equal(opened.rank(data.test.documents, 5).ids, model.rank(data.test.documents, 5).ids)
    again = recipes.unidec(data, out=folder, **SMALL)
    np.testing.assert_array_equal(again.memory.related.marks, model.memory.related.marks)


def test_a_run_that_was_stopped_in_training_goes_on_to_say_the_same(trained, tmp_path):
    data, _, model = trained
    stopped_in_the_middle(lambda run: recipes.unidec(data, out=run, **SMALL), tmp_path / "run", steps=3)
    again = recipes.unidec(data, out=tmp_path / "run", **SMALL)
    assert again.kinds == model.kinds
    np.testing.assert_array_equal(again.memory.weights, model.memory.weights)
    np.testing.assert_array_equal(again.memory.related.marks, model.memory.related.marks)
    np.testing.assert_array_equal(again.rank(data.test.documents, 5).ids, model.rank(data.test.documents, 5).ids)


def test_a_refit_and_an_ensemble_know_it_by_their_own_encoders(trained, tmp_path):
    data, folder, model = trained
    refit = recipes.unidec(data, **SMALL | {"refit": True})
    np.testing.assert_array_equal(refit.memory.weights, model.memory.weights)
    assert at_1(data, refit) > 80
    recipes.ngame(data, out=tmp_path / "ngame", classifier_epochs=1, memory=False, **SMALL)
    both = ensemble(folder, tmp_path / "ngame", data, out=tmp_path / "both", device="cpu")
    assert both.kinds[-1] == "memory"
    assert at_1(data, both) > 80


def test_labels_come_and_go_beside_it(trained, tmp_path):
    data, folder, _ = trained
    labels = LabelSet(shutil.copytree(folder, tmp_path / "run"), device="cpu")
    title = data.test.documents.fields["title"][0]
    first = labels.snapshot.predict([title], k=1)[0][0].uid
    labels.add([NewLabel("new", "nothing", [{"title": title}]), NewLabel("other", "word1 word2")])
    labels.remove([first])
    snapshot = labels.refresh()
    titles = list(data.test.documents.take(np.arange(20)).fields["title"])
    assert first not in [label.uid for label in snapshot.predict([title], k=9)[0]]
    said = snapshot.scorer("memory").memory.says_of(snapshot.encode(Texts.of([*titles, "word3 word4"])))
    assert said.tolist() == [True] * 20 + [False], "the example is not asked, as documents are worth nothing here"
    one, many = (model.predict(titles, k=7) for model in (snapshot.folded, snapshot))
    np.testing.assert_array_equal(one.uids, many.uids)
    np.testing.assert_allclose(one.scores, many.scores, atol=1e-5)
    labels.compact()
    np.testing.assert_array_equal(labels.refresh().predict(titles, k=7).uids, many.uids)
