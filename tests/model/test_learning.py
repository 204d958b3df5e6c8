"""What a model learns without training: in parts what it learns at once, and nothing that was trained moves."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import recipes
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Texts
from longtail.model.learning import Lessons, taught
from longtail.model.remembering import remember
from longtail.testing.planted import planted

DATA = planted(0, documents=400, test_documents=50, labels=40).dataset
ONE, OTHER, THIRD = list(DATA.train.documents.fields["title"])[:3]
LABELS = Texts.of([f"zebra {ONE}", f"quagga {OTHER}"], uids=["z", "q"])


@pytest.fixture(scope="module")
def model():
    made = recipes.unidec(DATA, epochs=2, batch=64, width=32, validation=0.2, refit=False, warmup=5, device="cpu")
    weights = np.zeros((len(made.mixed) + 2, 3))
    weights[:, 0] = 1
    return made.fused_by(made.fusion, remember(made, DATA.train.documents, DATA.train.targets, weights))


def lesson(*rows):
    documents = Texts.of([text for text, _ in rows])
    return documents, csr_of_lists([labels for _, labels in rows], 42)


FIRST = (ONE, [40]), (f"{ONE} {OTHER}", [40, 3])
SECOND = (THIRD, [41, 40]), (OTHER, [3])


def test_in_two_lessons_it_learns_what_it_learns_in_one(model):
    none = Lessons.none(DATA.train.targets)
    at_once, learned = taught(model, LABELS, *lesson(*FIRST, *SECOND), none)
    first, lessons = taught(model, LABELS, *lesson(*FIRST), none)
    second, lessons = taught(first, Texts.of([], uids=[]), *lesson(*SECOND), lessons)
    for name in ("encoder", "frequency"):
        np.testing.assert_allclose(second.per_label()[name], at_once.per_label()[name], atol=1e-6)
    one, other = second.vectors["classifier"][40:, :-1], at_once.vectors["classifier"][40:, :-1]
    cosines = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    np.testing.assert_allclose(cosines, 1, atol=1e-6)  # as long as the classifiers are that are there already
    np.testing.assert_allclose(second.memory.keys.vectors, at_once.memory.keys.vectors, atol=1e-6)
    np.testing.assert_array_equal(second.memory.labels.toarray(), at_once.memory.labels.toarray())
    assert lessons.targets.toarray().tolist() == learned.targets.toarray().tolist()
    assert list(learned.examples.fields["title"]) == [ONE, f"{ONE} {OTHER}", THIRD]
    assert len(none.examples) == 0


def test_new_labels_are_made_as_an_added_one_is_and_trained_ones_keep_their_vectors(model):
    made, _ = taught(model, LABELS, *lesson(*FIRST, *SECOND), Lessons.none(DATA.train.targets))
    examples = Texts.of([ONE, f"{ONE} {OTHER}", THIRD, THIRD])
    expected = model.new_labels(LABELS, examples, np.array([0, 0, 0, 1])).per_label()
    trained = np.bincount(DATA.train.targets.indices, minlength=40) > 0
    for name, rows in made.per_label().items():
        if name != "memory":
            np.testing.assert_allclose(rows[40:], expected[name], atol=1e-6)
            np.testing.assert_array_equal(rows[:40][trained], model.per_label()[name][trained])
    assert made.ids.tolist() == [*range(42)]
    assert [made.label(row)[1:] for row in (40, 41)] == [("z", f"zebra {ONE}"), ("q", f"quagga {OTHER}")]


def test_a_document_of_a_trained_label_is_remembered(model):
    def score(of):
        found = of.predict([ONE], 40, kind="memory")
        return found.scores[0, found.rows[0].tolist().index(7)]

    documents, targets = Texts.of([ONE] * 60), csr_of_lists([[7]] * 60, 40)
    made, lessons = taught(model, Texts.of([], uids=[]), documents, targets, Lessons.none(DATA.train.targets))
    assert score(made) > score(model) + 0.1
    assert made.memory.labels.shape == model.memory.labels.shape  # it was there, and has one more label now
    assert made.memory.labels.nnz == model.memory.labels.nnz + 1
    assert len(lessons.examples) == 0


def test_a_label_that_no_training_document_had_is_made_of_its_examples(model):
    targets = DATA.train.targets
    unseen = int(np.flatnonzero(np.bincount(targets.indices, minlength=40) == 0)[0])
    documents, further = Texts.of([ONE]), csr_of_lists([[unseen]], 40)
    made, _ = taught(model, Texts.of([], uids=[]), documents, further, Lessons.none(targets))
    assert made.fusion.frequency[unseen] == 1
    assert not np.allclose(made.vectors["classifier"][unseen], model.vectors["classifier"][unseen])


def test_documents_are_remembered_in_blocks_as_at_once(model, monkeypatch):
    weights = model.memory.weights
    monkeypatch.setattr("longtail.model.remembering._BLOCK", 150)
    parts = remember(model, DATA.train.documents, DATA.train.targets, weights)
    np.testing.assert_array_equal(parts.keys.vectors, model.memory.keys.vectors)
    assert (parts.labels != model.memory.labels).nnz == 0
