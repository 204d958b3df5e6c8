"""Labels in parts rank as one table of the labels that are there would."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.texts import Strings, Texts
from longtail.model.label_set import NewLabel
from longtail.model.segments import Names, Part


def naive(view, text, k, kind):
    """The ranking of one bundle of all labels that are there."""
    bundle = view.folded()
    return [(label.uid, label.score) for label in bundle.predict([text], k=k, kind=kind)[0]]


def ranked(view, text, k, kind, excluded=()):
    vectors = view.model.encode(Texts.of([text]))
    return [(label.uid, label.score) for label in view.rank(vectors, k, kind, excluded)[0]]


def same(found, expected):
    assert [uid for uid, _ in found] == [uid for uid, _ in expected]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], atol=1e-5)


@pytest.fixture
def changed(live):
    """40 labels added one after the other, some of them with examples, some replaced, and 30 of the model removed."""
    uids = list(live.view.model.labels.uids)
    titles = list(live.view.model.labels.fields["title"])
    for i in range(40):
        examples = [{"title": titles[i]}] * (i % 3)
        live.add([NewLabel(f"new-{i}", f"{titles[2 * i]} {titles[i]}", examples)])
        live.refresh()
    live.remove([*uids[:30], "new-0", "new-39", "nothing"])
    live.add([NewLabel("new-5", f"{titles[50]} {titles[7]}"), NewLabel(uids[60], f"{titles[61]} {titles[8]}")])
    live.refresh()
    return live.view, uids, titles


@pytest.mark.parametrize("kind", ["encoder", "classifier", "fused"])
def test_the_parts_rank_as_one_table(changed, kind):
    view, _, titles = changed
    assert len(view.parts) > 2
    for text in (titles[0], titles[50], titles[61], "nothing that anybody said"):
        for k in (1, 7, 500):
            same(ranked(view, text, k, kind), naive(view, text, k, kind))


def test_what_was_removed_or_replaced_is_gone(changed):
    view, uids, titles = changed
    everything = {uid: text for uid, text, _ in view.rank(view.model.encode(Texts.of(["x"])), 500, "encoder")[0]}
    assert len(everything) == len(view) == 120 - 30 + 40 - 2
    assert not {*uids[:30], "new-0", "new-39"} & everything.keys()
    assert everything["new-5"] == f"{titles[50]} {titles[7]}"
    assert everything[uids[60]] == f"{titles[61]} {titles[8]}"
    assert view.find("new-0") is None
    assert view.find(uids[60])[0] > 0
    assert view.counts == {"model": 120, "hidden": 31, "added": 39}


def test_excluded_labels_make_room_for_the_next(changed):
    view, _, titles = changed
    first = ranked(view, titles[70], 12, "fused")
    out = [uid for uid, _ in first[:5]]
    same(ranked(view, titles[70], 7, "fused", excluded=[*out, "unknown"]), first[5:])


def test_labels_are_found_by_a_part_of_their_text(changed):
    view, _, titles = changed
    word = titles[50].split()[0]
    expected = [i for i, title in enumerate(titles) if word.lower() in title.lower() and i >= 30 and i != 60]
    assert view.parts[0].containing(word.upper(), 500) == expected
    assert view.parts[0].containing(word, 1) == expected[:1]
    assert view.parts[0].containing("", 500) == [i for i in range(30, 120) if i != 60]
    assert view.parts[0].containing(titles[40][-3:] + titles[41][:3], 500) == []  # not from one text into the next


def test_all_labels_may_go(live):
    uids = list(live.view.model.labels.uids)
    live.remove(uids)
    assert live.refresh().rank(live.view.model.encode(Texts.of(["x"])), 5, "fused") == [[]]
    live.add([NewLabel("one", "a label")])
    assert ranked(live.refresh(), "a label", 5, "fused")[0][0] == "one"
    live.remove(["one"])
    assert len(live.refresh()) == 0


def test_names_finds_each_and_nothing_else():
    words = [f"label {i}" for i in range(1000)] + ["ünï 東京", "🐟"]
    names = Names(Strings.of(words))
    assert [names(word) for word in words] == list(range(len(words)))
    assert names("label") is None
    assert names("") is None
    assert Names(Strings.of([]))("a") is None


def test_names_with_one_hash_for_all(monkeypatch):
    monkeypatch.setattr("longtail.model.segments.hash", lambda _: 7, raising=False)
    names = Names(Strings.of(["a", "b", "c"]))
    assert [names(word) for word in "abcd"] == [0, 1, 2, None]


def test_few_parts_after_many_changes(live):
    for i in range(300):
        live.view = live.view.changed(i + 1, _change(live, i))
    assert len(live.view.parts) <= 4
    assert live.view.counts["added"] == 300
    assert isinstance(live.view.parts[-1], Part)


def _change(live, i):
    from longtail.model.catalogue import Change

    rows = {name: array[:1] for name, array in live.view.model.per_label().items()}
    return [Change(f"n{i}", f"text {i}", (), rows)]
