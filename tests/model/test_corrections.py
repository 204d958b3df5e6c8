"""What people say of texts and labels: at once in effect, for every process, until it is taken back."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import load
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.model import LabelSet
from longtail.model.catalogue import Correction
from longtail.model.corrections import Corrections
from longtail.model.explanation import explain
from longtail.model.label_set import NewLabel
from longtail.search.keys import keys_of
from longtail.serve.answers import Predict, answers
from longtail.testing.planted import planted

DATA = planted(0, documents=400, test_documents=50, labels=120).dataset
TITLES = DATA.train.documents.fields["title"]
TEXT = {"title": f"{TITLES[0].split()[0]} {TITLES[9].split()[1]}"}  # of words that the model knows


@pytest.fixture
def remembering(run_with_memory):
    opened = LabelSet(run_with_memory, device="cpu")
    yield opened
    opened.close()


def scores(label_set, text=TEXT):
    return {label.uid: label.score for label in label_set.refresh().predict([text], 1000)[0]}


def explained(label_set, uid):
    """The titles of the nearest documents with a label."""
    snapshot = label_set.refresh()
    return [near.title for near in explain(snapshot, TEXT, np.array([snapshot.find(uid)]))[0].near]


def nearest(label_set, uid):
    return explained(label_set, uid)[0]


def test_a_text_with_its_label_is_remembered_at_once_and_forgotten_again(remembering, run_with_memory):
    other = LabelSet(run_with_memory, device="cpu")
    before = scores(remembering)
    uid = list(before)[-1]
    ((_, _, _, vector, number),) = remembering.correct([Correction(TEXT, uid, True)])
    assert len(vector) == 32
    after = scores(other)
    assert after[uid] > before[uid] + 1  # the nearest document has it, and is the text itself
    assert other.withdraw(number)
    assert not other.withdraw(number)
    assert scores(remembering) == before
    other.close()


@pytest.mark.parametrize("kind", ["encoder", "fused"])
def test_a_label_that_is_wrong_is_given_to_other_texts_alone(label_set, kind):
    before = label_set.snapshot.predict([TEXT, "another text"], 5, kind=kind)
    uid = before[0][0].uid
    (kept,) = label_set.correct([Correction({**TEXT, "content": ""}, uid, False)])
    after = label_set.refresh().predict([TEXT, "another text"], 4, kind=kind)
    assert after.uids[0].tolist() == before.uids[0, 1:].tolist()
    assert after.uids[1].tolist() == before.uids[1, :4].tolist()
    asked = [Predict([TEXT], 5, kind, allowed=[uid, before[0][1].uid]), Predict([TEXT], 5, kind, excluded=["none"])]
    among, without = answers(label_set.snapshot, asked)
    assert [label["uid"] for label in among.labels[0]] == [before[0][1].uid]
    assert uid not in [label["uid"] for label in without.labels[0]]
    assert load(label_set.run).predict([TEXT], 1, kind=kind)[0][0].uid == before[0][1].uid
    assert load(label_set.run, changes=False).predict([TEXT], 1, kind=kind)[0][0].uid == uid
    label_set.withdraw(kept.number)
    again = label_set.refresh().predict([TEXT], 5, kind=kind)
    assert again.uids.tolist() == before.uids[:1].tolist()


def test_a_text_is_the_same_however_its_letters_are_written(label_set):
    composed, apart = "caf\u00e9", "cafe\u0301"
    before = label_set.snapshot.predict([composed, apart], 2, kind="encoder")
    assert before.uids[0].tolist() == before.uids[1].tolist()
    label_set.correct([Correction({"title": apart}, before[0][0].uid, False)])
    after = label_set.refresh().predict([composed, apart], 1, kind="encoder")
    assert after.uids.tolist() == [[before[0][1].uid]] * 2


@pytest.mark.parametrize(
    ("first", "second"),
    [({"title": "caf\u00e9"}, {"title": "cafe\u0301"}), ({"title": "t", "content": "not read"}, {"title": "t"})],
    ids=["letters in two ways", "a field that is not read"],
)
def test_the_newest_counts_of_texts_that_the_model_sees_as_the_same(first, second):
    for is_right in (True, False):
        both = Correction(first, "u", not is_right, number=1), Correction(second, "u", is_right, number=2)
        other = Correction(second, "v", False, number=3)
        corrections = Corrections().updated([1, 2, 3], [*both, other])
        found = corrections.wrong(("title",), {"u": 4, "v": 5}.get)
        assert [*found.values()] == ([[5]] if is_right else [[4, 5]])


def test_a_text_that_is_right_again_gets_its_label_and_one_that_is_wrong_later_is_forgotten(remembering):
    before = scores(remembering)
    uid = list(before)[-1]
    with_content = {**TEXT, "content": "which the model does not read"}
    assert "content" not in remembering.snapshot.fields
    remembering.correct([Correction(with_content, uid, False)])
    assert uid not in scores(remembering)
    remembering.correct([Correction(TEXT, uid, True)])
    assert scores(remembering)[uid] > before[uid] + 1
    remembering.correct([Correction(with_content, uid, False)])
    after = remembering.refresh()
    assert uid not in scores(remembering)
    assert len(after.scorer("memory").memory.parts) == 1


def test_they_outlast_compaction_and_go_with_their_label_and_come_back_with_it(remembering, run_with_memory):
    remembering.add([NewLabel("new", "a new label", [{"title": "its example"}])])
    before = explained(remembering, remembering.refresh().base.labels.uids[3])
    remembering.correct([Correction(TEXT, "new", True), Correction({"title": "its example"}, "new", False)])
    for _ in range(2):
        remembering.compact()
        with_them = LabelSet(run_with_memory, device="cpu")
        assert nearest(with_them, "new") == TEXT["title"]
        assert explained(with_them, with_them.snapshot.base.labels.uids[3]) == before
        assert "new" not in scores(with_them, {"title": "its example"})
        assert [one.is_right for one in with_them.snapshot.corrections.kept.values()] == [True, False]
        with_them.remove(["new"])
        assert "new" not in scores(with_them)
        assert with_them.corrected_texts() == []
        with_them.add([NewLabel("new", "a new label")])
        assert nearest(with_them, "new") == TEXT["title"]
        remembering.close()
        remembering = with_them
    remembering.close()


def test_the_newest_of_a_text_and_a_label_stays(label_set):
    uid = label_set.snapshot.base.labels.uids[0]
    first = label_set.correct([Correction(TEXT, uid, True), Correction({"title": "other"}, uid, True)])
    second = label_set.correct([Correction(TEXT, uid, False)])
    assert [one.number for one in (*first, *second)] == [1, 2, 3]
    kept = label_set.refresh().corrections.kept
    assert {number: one.is_right for number, one in kept.items()} == {2: True, 3: False}
    again = LabelSet(label_set.run, device="cpu")
    assert [one[:3] for one in again.snapshot.corrections.kept.values()] == [one[:3] for one in kept.values()]
    again.close()


def test_of_a_text_whose_letters_are_written_in_two_ways_the_newest_stays(label_set):
    uid = label_set.snapshot.base.labels.uids[0]
    for is_right, title in ((True, "cafe\u0301"), (False, "caf\u00e9"), (True, "cafe\u0301")):
        ((document, *_),) = label_set.correct([Correction({"title": title, "content": title}, uid, is_right)])
        (kept,) = label_set.refresh().corrections.kept.values()
        assert (kept.document, kept.is_right) == (document, is_right)
        (listed,) = label_set.corrected_texts()
        assert (listed["title"], listed["uids"], listed["wrong_uids"]) == (
            ("caf\u00e9", [uid], []) if is_right else ("caf\u00e9", [], [uid])
        )


def test_what_a_label_or_text_is_not_is_refused_and_nothing_is_written(label_set):
    uid = label_set.snapshot.base.labels.uids[0]
    for document, of, problem in (
        (TEXT, "none", "uid: expected that of a label, found 'none'"),
        ({"title": " "}, uid, "text: expected a text, found none"),
        ({"title": "\ud800"}, uid, "text: expected text that UTF-8 can hold"),
    ):
        with pytest.raises(BadInput, match=problem):
            label_set.correct([Correction(TEXT, uid, True), Correction(document, of, True)])
    assert label_set.refresh().corrections.kept == {}


def test_documents_that_have_a_label_are_those_of_a_search_by_hand(remembering):
    title, rows, model = TITLES[7], DATA.train.targets[[7]].indices, remembering.snapshot
    remembering.correct([Correction({"title": f"{title} indeed"}, model.base.labels.uids[rows[0]], True)])
    model = remembering.refresh()
    vectors = keys_of(model.encode(Texts.of([title, f"{title} indeed", *TITLES])), model.key_columns)
    cosines = vectors[1:] @ vectors[0]
    for row, why in zip(rows, explain(model, {"title": title}, rows), strict=True):
        having = [i for i in range(400) if DATA.train.targets[i, row]]
        expected = [(cosines[i + 1], TITLES[i]) for i in having]
        expected += [(cosines[0], f"{title} indeed")] if row == rows[0] else []
        expected = sorted({text: cosine for cosine, text in expected}.items(), key=lambda one: -one[1])[:5]
        assert why.near[0].title == title
        np.testing.assert_allclose([near.similarity for near in why.near], [c for _, c in expected], atol=1e-5)
        assert {near.title for near in why.near} <= {text for text, _ in expected}


def test_a_text_of_words_that_the_model_does_not_know_is_near_to_none(remembering):
    (kept,) = remembering.correct([Correction({"title": "qqqq"}, remembering.snapshot.base.labels.uids[0], True)])
    assert len(kept.vector) == 0
    assert all(len(part.memory.keys.vectors) > 1 for part in remembering.refresh().scorer("memory").memory.parts)


def test_a_model_without_a_memory_and_titles_that_are_gone_or_broken(label_set, run_with_memory):
    row = np.array([3])
    assert explain(label_set.snapshot, TEXT, row)[0].near is None
    many = explain(load(run_with_memory), TEXT, np.arange(12))
    assert [why.near is None for why in many] == [False] * 10 + [True] * 2
    (run_with_memory / "documents" / "blob.npy").write_bytes(b"broken")
    with pytest.raises(BadInput, match=r"documents.*rankings are then explained without titles"):
        LabelSet(run_with_memory, device="cpu")
    for path in (run_with_memory / "documents").iterdir():
        path.unlink()
    (run_with_memory / "documents").rmdir()
    opened = LabelSet(run_with_memory, device="cpu")
    assert {near.title for near in explain(opened.snapshot, TEXT, row)[0].near} == {None}
    opened.close()
