"""A memory finds what the training documents nearest to a text know, and no label text or classifier has learned."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from in_families import A_DOCUMENT, ROUNDING, families, with_new_labels
from stopping import stopped_in_the_middle

from longtail import load, recipes
from longtail.data.texts import Texts
from longtail.metrics.ranking import metrics_of
from longtail.model.label_set import LabelSet, NewLabel
from longtail.search.keys import keys_of
from longtail.serve.answers import Predict, answers
from longtail.stages.make_ensemble import ensemble
from longtail.train.progress import settings_of

SMALL = {"epochs": 2, "batch": 64, "width": 32, "validation": 0.15, "refit": False, "warmup": 10, "device": "cpu"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    data, titles = families(0)
    folder = tmp_path_factory.mktemp("families") / "run"
    return data, titles, folder, recipes.unidec(data, out=folder, **SMALL)


def at_5(data, model, kind):
    return metrics_of(model.rank(data.test.documents, 5, kind=kind), data.test.targets, ks=[5])["P@5"]


def distinct(model, data):
    """The keys of the training documents, those that were held out, too, each once."""
    return np.unique(keys_of(model.encode(data.train.documents), model.key_columns), axis=0)


def test_it_is_kept_where_it_knows_more_and_is_not_asked_for_by_no_memory(trained):
    data, _, _, model = trained
    assert model.kinds[-2:] == ("fused", "memory")
    assert at_5(data, model, "memory") > at_5(data, model, "fused") + 20
    keys = distinct(model, data)
    assert {row.tobytes() for row in model.memory.keys.vectors} == {row.tobytes() for row in keys}
    assert model.memory.labels.nnz == A_DOCUMENT * len(keys)  # copies are of one family, and have the same labels
    without = recipes.unidec(data, memory=False, **SMALL)
    assert without.kinds[-1] == "fused"
    np.testing.assert_array_equal(without.fusion.weights, model.fusion.weights)


def test_a_run_says_that_it_was_kept_and_why(trained):
    data, _, folder, _ = trained
    noted = settings_of(folder)["memory"]
    assert noted["kept"]
    assert noted["documents"] == len(data.train) * 3 // 20
    assert noted["counts"] == "the mean of P@1, P@3 and P@5"
    assert noted["with"] > noted["without"] + 20
    assert noted["tail_with"] > noted["tail_without"] - 0.5


def test_it_is_saved_and_a_resumed_run_has_the_same(trained):
    data, titles, folder, model = trained
    opened = load(folder, device="cpu")
    np.testing.assert_array_equal(opened.predict(titles[:9]).ids, model.predict(titles[:9]).ids)
    again = recipes.unidec(data, out=folder, **SMALL)
    np.testing.assert_array_equal(again.memory.keys.vectors, model.memory.keys.vectors)


def test_a_run_knows_the_titles_of_what_its_model_remembers(trained):
    data, _, folder, _ = trained
    labels = LabelSet(folder, device="cpu")
    memory = labels.snapshot.base.memory
    titles = [memory.keys.title(i) for i in range(len(memory.keys.vectors))]
    assert set(titles) <= set(data.train.documents.fields["title"])
    again = keys_of(labels.snapshot.encode(Texts.of(titles)), labels.snapshot.key_columns)
    np.testing.assert_allclose(again, memory.keys.vectors, atol=1e-5)
    labels.close()


@pytest.mark.parametrize("given", [{}, {"prefer": "tail"}, {"prefer": "coverage"}], ids=str)
def test_a_run_that_was_stopped_in_training_goes_on_to_the_same_memory_and_takes_labels(trained, given, tmp_path):
    data, titles, _, _ = trained
    whole = recipes.unidec(data, **SMALL, **given)
    stopped_in_the_middle(lambda run: recipes.unidec(data, out=run, **SMALL, **given), tmp_path / "run")
    again = recipes.unidec(data, out=tmp_path / "run", **SMALL, **given)
    assert again.kinds == whole.kinds
    assert again.kinds[-1] == "memory"
    np.testing.assert_array_equal(again.memory.weights, whole.memory.weights)
    np.testing.assert_array_equal(again.memory.keys.vectors, whole.memory.keys.vectors)
    labels = LabelSet(tmp_path / "run", device="cpu")
    labels.add([NewLabel("new", "nothing", [{"title": titles[0]}])])
    found = labels.refresh().predict(titles[:9], k=9)
    assert "new" in [label.uid for label in found[0]]
    labels.compact()
    labels.close()
    np.testing.assert_array_equal(load(tmp_path / "run", device="cpu").predict(titles[:9], k=9).uids, found.uids)


def test_a_refit_remembers_with_its_own_encoder(trained):
    data, _, _, model = trained
    refit = recipes.unidec(data, **SMALL | {"refit": True})
    assert refit.kinds == model.kinds
    np.testing.assert_array_equal(refit.memory.weights, model.memory.weights)
    np.testing.assert_allclose(np.unique(refit.memory.keys.vectors, axis=0), distinct(refit, data), rtol=0, atol=1e-6)


def test_an_ensemble_has_one_memory_of_its_own(trained, tmp_path):
    data, titles, folder, _ = trained
    recipes.ngame(data, out=tmp_path / "ngame", classifier_epochs=1, memory=False, **SMALL)
    both = ensemble(folder, tmp_path / "ngame", data, out=tmp_path / "both", device="cpu")
    assert both.kinds == ("first", "second", "fused", "memory")
    assert at_5(data, both, "memory") > at_5(data, both, "fused") + 20
    assert both.first.memory is both.second.memory is None
    opened = load(tmp_path / "both", device="cpu")
    np.testing.assert_array_equal(opened.predict(titles[:9]).ids, both.predict(titles[:9]).ids)


def test_a_new_example_is_remembered_at_once(trained, tmp_path):
    """A label whose text says nothing is found by an example of it, and goes with the label."""
    _, titles, folder, _ = trained
    labels = with_new_labels(shutil.copytree(folder, tmp_path / "run"), titles)
    snapshot = labels.snapshot
    first = snapshot.predict(titles[:1], k=3)[0][0].uid
    labels.remove([first, "new"])
    shown = [label.uid for label in labels.refresh().predict(titles[:1], k=300)[0]]
    assert not {first, "new"} & set(shown)
    before = labels.snapshot.predict(titles[:20], k=7)
    labels.compact()
    labels.close()
    after = load(tmp_path / "run", device="cpu").predict(titles[:20], k=7)
    np.testing.assert_array_equal(after.uids, before.uids)
    np.testing.assert_allclose(after.scores, before.scores, atol=1e-5)


def test_allowed_labels_are_ranked_as_they_are_among_all(trained, tmp_path):
    """Against all labels of one model, restricted: whichever segments hold the allowed ones, all documents vote."""
    _, titles, folder, _ = trained
    labels = LabelSet(shutil.copytree(folder, tmp_path / "run"), device="cpu")
    labels.add([NewLabel(f"new{i}", "nothing", [{"title": title}] * 2) for i, title in enumerate(titles[:40])])
    labels.refresh()
    labels.remove(["7", "new3"])
    labels.add([NewLabel("last", "nothing", [{"title": titles[0]}])])
    snapshot, texts = labels.refresh(), [{"title": title} for title in titles[:6]]
    vectors = snapshot.folded.encode(Texts.of(titles[:6]))
    for kind in snapshot.kinds:
        whole = snapshot.folded.search(vectors, len(snapshot), kind=kind)
        for allowed in (["5", "60", "131"], ["new0", "last", "new4"], ["new1"], ["1", "new2", "last", "7", "gone"], []):
            (answer,) = answers(snapshot, [Predict(texts, 3, kind, allowed, probabilities=True, explained=True)])
            rows = [row for row in map(snapshot.find, allowed) if row is not None]
            for ids, scores, found, why in zip(whole.ids, whole.scores, answer.labels, answer.explained, strict=True):
                kept = np.isin(ids, rows)
                assert [label["uid"] for label in found] == [snapshot.label(row)[1] for row in ids[kept][:3].tolist()]
                np.testing.assert_allclose([label["score"] for label in found], scores[kept][:3], atol=1e-5)
                np.testing.assert_allclose([one.scores[kind] for one in why], scores[kept][:3], atol=1e-5)
    remembered, kept = snapshot.among(np.array([5, len(snapshot) - 1])).memory, snapshot.scorer().memory
    pairs = list(zip(remembered.parts, kept.parts, strict=True))
    assert all(one.memory.keys is other.memory.keys for one, other in pairs)  # no vector is copied
    labels.close()


def test_an_example_given_many_times_leaves_other_neighbours_their_votes(trained, tmp_path):
    """Sixty copies of a text are one document: else all that is asked of a text near to it are these."""
    _, titles, folder, _ = trained
    labels = LabelSet(shutil.copytree(folder, tmp_path / "run"), device="cpu")
    once, often = [], []
    for uid, copies, found in (("once", 1, once), ("often", 60, often)):
        labels.add([NewLabel(uid, "nothing", [{"title": titles[0]}] * copies)])
        found += [one.uid for one in labels.refresh().predict([titles[0]], k=10)[0] if one.uid != uid]
        assert len(found) == 9
        labels.remove([uid])
        labels.refresh()
    labels.close()
    assert once == often


def test_examples_go_with_their_label_also_for_who_saw_them_come(trained, tmp_path):
    """Else those of labels that were replaced crowd out all other neighbours, until the run is opened anew."""
    _, titles, folder, _ = trained
    run = shutil.copytree(folder, tmp_path / "run")
    labels = LabelSet(run, device="cpu")
    before = labels.snapshot.predict(titles[:20], k=7)
    example = {"title": titles[0]}
    for given in ([example] * 60, [example]):
        labels.add([NewLabel("new", "nothing", given)])
        labels.refresh()
    for kept in (["new"], []):
        assert [label.uid for label in labels.snapshot.predict(titles[:1], k=300)[0] if label.uid == "new"] == kept
        snapshot, opened = labels.snapshot, load(run, device="cpu")
        for model in (snapshot.folded, opened):
            one, other = (each.predict(titles[:20], k=7) for each in (snapshot, model))
            np.testing.assert_array_equal(one.uids, other.uids)
            np.testing.assert_allclose(one.scores, other.scores, atol=ROUNDING)
        labels.remove(["new"])
        labels.refresh()
    np.testing.assert_allclose(labels.snapshot.predict(titles[:20], k=7).scores, before.scores, atol=1e-5)
    labels.close()
