"""Labels in segments rank as one table of the labels that are there would."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import LongtailError
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Texts
from longtail.model.label_set import NewLabel
from longtail.model.segments import Segment


def naive(snapshot, text, k, kind):
    """The ranking of one bundle of all labels that are there."""
    bundle = snapshot.folded
    return [(label.uid, label.score) for label in bundle.predict([text], k=k, kind=kind)[0]]


def ranked(snapshot, text, k, kind, excluded=()):
    rows = [snapshot.find(uid) for uid in excluded]
    exclude = csr_of_lists([[row for row in rows if row is not None]], len(snapshot)) if excluded else None
    top = snapshot.rank(Texts.of([text]), k, kind=kind, exclude=exclude)
    return [(label.uid, label.score) for label in snapshot.named(top)[0]]


def same(found, expected):
    assert [uid for uid, _ in found] == [uid for uid, _ in expected]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], atol=1e-5)


@pytest.fixture
def changed(label_set):
    """40 labels added one after the other, some of them with examples, some replaced, and 30 of the model removed."""
    uids = list(label_set.snapshot.base.labels.uids)
    titles = list(label_set.snapshot.base.labels.fields["title"])
    for i in range(40):
        examples = [{"title": titles[i]}] * (i % 3)
        label_set.add([NewLabel(f"new-{i}", f"{titles[2 * i]} {titles[i]}", examples)])
        label_set.refresh()
    label_set.remove([*uids[:30], "new-0", "new-39", "nothing"])
    label_set.add([NewLabel("new-5", f"{titles[50]} {titles[7]}"), NewLabel(uids[60], f"{titles[61]} {titles[8]}")])
    label_set.refresh()
    return label_set.snapshot, uids, titles


@pytest.mark.parametrize("kind", ["encoder", "classifier", "fused"])
def test_the_segments_rank_as_one_table(changed, kind):
    snapshot, _, titles = changed
    assert len(snapshot.segments) > 2
    for text in (titles[0], titles[50], titles[61], "nothing that anybody said"):
        for k in (1, 7, 500):
            same(ranked(snapshot, text, k, kind), naive(snapshot, text, k, kind))


def test_what_was_removed_or_replaced_is_gone(changed):
    snapshot, uids, titles = changed
    everything = {label.uid: label.text for label in snapshot.predict(["x"], 500, kind="encoder")[0]}
    assert len(everything) == len(snapshot) == 120 - 30 + 40 - 2
    assert not {*uids[:30], "new-0", "new-39"} & everything.keys()
    assert everything["new-5"] == f"{titles[50]} {titles[7]}"
    assert everything[uids[60]] == f"{titles[61]} {titles[8]}"
    assert snapshot.find("new-0") is None
    assert snapshot.is_added(snapshot.find(uids[60]))
    assert snapshot.counts == {"model": 120, "hidden": 31, "added": 39}


def test_excluded_labels_make_room_for_the_next(changed):
    snapshot, _, titles = changed
    first = ranked(snapshot, titles[70], 12, "fused")
    out = [uid for uid, _ in first[:5]]
    same(ranked(snapshot, titles[70], 7, "fused", excluded=[*out, "unknown"]), first[5:])


def test_labels_are_found_by_a_part_of_their_text(changed):
    snapshot, _, titles = changed
    word = titles[50].split()[0]
    expected = [i for i, title in enumerate(titles) if word.lower() in title.lower() and i >= 30 and i != 60]
    base = snapshot.segments[0]

    def found(query, limit):
        """Places in the model that was trained."""
        return base.places(np.array(base.containing(query, limit), np.int64)).tolist()

    assert found(word.upper(), 500) == expected
    assert found(word, 1) == expected[:1]
    assert found("", 500) == [i for i in range(30, 120) if i != 60]
    assert found(titles[40][-3:] + titles[41][:3], 500) == []  # not from one text into the next


def test_all_labels_may_go(label_set):
    uids = list(label_set.snapshot.base.labels.uids)
    label_set.remove(uids)
    assert label_set.refresh().predict(["x"], 5, kind="fused") == [[]]
    label_set.add([NewLabel("one", "a label")])
    assert ranked(label_set.refresh(), "a label", 5, "fused")[0][0] == "one"
    label_set.remove(["one"])
    assert len(label_set.refresh()) == 0


def test_what_is_added_leaves_the_model_where_it_is(label_set):
    before = label_set.snapshot.base
    for i in range(20):
        label_set.add([NewLabel(f"n{i}", f"text {i}")])
        label_set.remove([before.labels.uids[i]])
        label_set.refresh()
    assert label_set.snapshot.base is before
    assert before.scorer().index is label_set.snapshot.segments[0].model.scorer().index
    assert "labels" not in vars(label_set.snapshot)  # nothing was put together


@pytest.mark.parametrize("kind", ["encoder", "fused"])
def test_a_snapshot_is_a_model_like_any_other(changed, kind, tmp_path):
    snapshot, _, titles = changed
    one = snapshot.folded
    assert list(snapshot.labels.uids) == list(one.labels.uids)
    assert snapshot.ids.tolist() == one.ids.tolist()
    np.testing.assert_array_equal(snapshot.table(kind), one.table(kind))
    rows = np.array([len(snapshot) - 1, 0, 50, len(snapshot) - 2, 3])
    np.testing.assert_array_equal(snapshot.table(kind, rows), one.table(kind, rows))
    assert list(snapshot.take(rows).labels.uids) == list(one.labels.take(rows).uids)
    np.testing.assert_array_equal(snapshot.take(rows).table(kind), one.take(rows).table(kind))
    assert [snapshot.label(row) for row in rows.tolist()] == [one.label(row) for row in rows.tolist()]
    assert all(snapshot.find(uid) == row for row, uid in enumerate(one.labels.uids))
    exclude = csr_of_lists([[3, 5], [], [len(snapshot) - 1]], len(snapshot))
    texts = Texts.of(titles[3:6])
    found, expected = (model.rank(texts, 30, kind=kind, exclude=exclude) for model in (snapshot, one))
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    with pytest.raises(LongtailError, match="exclude: expected shape"):
        snapshot.rank(texts, 3, exclude=exclude[:2])


def test_few_segments_after_many_changes(label_set):
    for i in range(300):
        label_set.snapshot = label_set.snapshot.changed(i + 1, _change(label_set, i))
    assert len(label_set.snapshot.segments) <= 4
    assert label_set.snapshot.counts["added"] == 300
    assert isinstance(label_set.snapshot.segments[-1], Segment)


def _change(label_set, i):
    from longtail.model.catalogue import Change

    rows = {name: array[:1] for name, array in label_set.snapshot.base.per_label().items()}
    return [Change(f"n{i}", f"text {i}", (), rows)]
