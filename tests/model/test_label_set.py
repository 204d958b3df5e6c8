"""The catalogue of changes: durable, shared between processes, folded while others read."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

from longtail import recipes
from longtail.data.dataset import Dataset
from longtail.data.texts import Texts
from longtail.errors import BadInput, LongtailError
from longtail.model import LabelSet, integrity, load
from longtail.model.catalogue import Catalogue, Change
from longtail.model.integrity import BACKUP, NAME
from longtail.model.label_set import NewLabel, fingerprint


def uids(snapshot):
    return {label.uid for label in snapshot.predict(["x"], 1000, kind="encoder")[0]}


def test_a_change_is_on_the_disk_when_it_is_acknowledged(label_set, run):
    label_set.add([NewLabel("a", "first text", [{"title": "an example"}]), NewLabel("b", "second")])
    label_set.remove(["b"])
    again = LabelSet(run, device="cpu")
    assert uids(again.snapshot) == uids(label_set.refresh())
    assert [(c.uid, c.text, list(c.examples)) for c in again.changes()] == [
        ("a", "first text", [{"title": "an example"}]),
        ("b", None, []),
    ]
    again.close()


def test_the_catalogue_writes_as_it_says(run):
    catalogue = Catalogue(run)
    connection = catalogue._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    catalogue.close()


def test_others_see_a_change_at_once(label_set, run):
    other = LabelSet(run, device="cpu")
    for i in range(5):
        label_set.add([NewLabel(f"n{i}", f"text {i}")])
        assert f"n{i}" in uids(other.refresh())
        other.remove([f"n{i}"])
        assert f"n{i}" not in uids(label_set.refresh())
    before = label_set.snapshot
    assert label_set.refresh() is before  # nothing has changed
    other.close()


def test_of_two_that_remove_a_label_one_is_told_that_it_did(label_set, run):
    label_set.add([NewLabel("a", "text"), NewLabel("b", "text")])
    other = LabelSet(run, device="cpu")
    trained = label_set.snapshot.base.labels.uids[0]
    assert label_set.remove(["a", trained]) == 2
    last = label_set.refresh().number
    assert (other.remove(["a", trained]), other.remove(["a", "b"])) == (0, 1)
    assert label_set.refresh().number == last + 1
    other.add([NewLabel("a", "text")])
    assert label_set.remove(["a"]) == 1
    other.close()


def test_changes_are_all_there_or_none_is(label_set):
    rows = {name: array[:1] for name, array in label_set.snapshot.base.per_label().items()}
    with pytest.raises(sqlite3.Error):
        label_set._writer.put([Change("good", "text", (), rows), Change(None, "text", (), rows)])
    assert "good" not in uids(label_set.refresh())
    label_set.add([NewLabel("later", "text")])  # and the catalogue goes on
    assert "later" in uids(label_set.refresh())


@pytest.mark.parametrize(
    "labels",
    [
        [NewLabel("a", "x"), NewLabel("a", "y")],
        [NewLabel("", "x")],
        [NewLabel("a", "  ")],
        [NewLabel("a", "nul \0")],
        [NewLabel("a", "\ud800")],
        [NewLabel("a", "x", [{"title": "\udfff"}])],
    ],
    ids=["twice", "no uid", "no text", "nul", "surrogate", "surrogate in an example"],
)
def test_what_cannot_be_kept_is_refused(label_set, labels):
    with pytest.raises(BadInput):
        label_set.add(labels)
    assert label_set.changes() == []


def test_compacting_keeps_every_answer(label_set, run):
    names = list(label_set.snapshot.base.labels.uids)
    label_set.add([NewLabel("a", "some text", [{"title": "an example"}]), NewLabel(names[3], "another text")])
    label_set.remove(names[:3])
    texts = ["some text", "another text"]
    before = label_set.refresh().predict(texts, 50, kind="fused")
    label_set.compact()
    assert label_set.refresh().predict(texts, 50, kind="fused") == before
    assert label_set.compacted
    again = LabelSet(run, device="cpu")
    assert len(again.snapshot.segments) == 1
    after = again.snapshot.predict(texts, 50, kind="fused")
    assert [[label.uid for label in row] for row in after] == [[label.uid for label in row] for row in before]
    assert again.snapshot.counts == {"model": 118, "hidden": 0, "added": 0}
    assert again.changes() == []
    assert not again.compacted
    again.compact()  # there is nothing to do
    assert again.refresh() is again.snapshot
    assert [path.name for path in run.glob("model-*")] == [again.state.folder]
    again.close()


def test_a_reader_of_the_old_table_sees_what_comes_after_two_compactions(label_set, run):
    other = LabelSet(run, device="cpu")
    for i in range(2):
        label_set.add([NewLabel(f"n{i}", f"text {i}")])
        writer = LabelSet(run, device="cpu")
        writer.compact()
        writer.close()
    label_set.add([NewLabel("last", "text")])
    assert {"n0", "n1", "last"} <= uids(other.refresh())
    other.close()


def test_a_reader_that_is_overtaken_by_two_compactions_while_it_reads_misses_nothing(label_set, run, monkeypatch):
    label_set.add([NewLabel("first", "text")])
    label_set.close()
    reader, read = LabelSet(run, device="cpu"), Catalogue.state
    writer = Catalogue(run)
    writer.put([Change("removed")])

    def state(catalogue):
        found = read(catalogue)
        if catalogue is reader._reader:
            monkeypatch.undo()
            for name in ("second", "third"):
                other = LabelSet(run, device="cpu")
                other.add([NewLabel(name, "text")])
                other.compact()
                other.close()
        return found

    monkeypatch.setattr(Catalogue, "state", state)
    reader.refresh()
    assert {"first", "second", "third"} <= uids(reader.refresh())
    writer.close()
    reader.close()


def test_changes_that_are_made_while_a_catalogue_is_only_read_are_no_fault_of_it(label_set, run, monkeypatch):
    label_set.add([NewLabel("a", "text")])
    read = integrity.read_json

    def overtaken(*given, **asked):
        label_set.add([NewLabel("b", "text")])
        return read(*given, **asked)

    monkeypatch.setattr(integrity, "read_json", overtaken)
    monkeypatch.setattr("os.access", lambda *_: False)
    catalogue = Catalogue(run)
    assert {change.uid for change in catalogue.since(0)[1]} == {"a", "b"}
    catalogue.close()


def test_a_crash_while_compacting_changes_nothing(label_set, run, monkeypatch):
    label_set.add([NewLabel("a", "text")])
    label_set.refresh()
    monkeypatch.setattr(Catalogue, "fold", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        label_set.compact()
    monkeypatch.undo()
    again = LabelSet(run, device="cpu")
    assert again.state.folder == "model"
    assert "a" in uids(again.snapshot)
    again.compact()
    again.close()


def test_a_crash_before_the_copy_of_the_catalogue_leaves_it_to_the_next_compaction(label_set, run, monkeypatch):
    label_set.add([NewLabel("new", "a new label")])
    monkeypatch.setattr(Catalogue, "back_up", lambda _: pytest.fail("killed"))
    with pytest.raises(pytest.fail.Exception):
        label_set.compact()
    monkeypatch.undo()
    assert not (run / BACKUP).exists()
    again = LabelSet(run, device="cpu")
    again.compact()
    again.close()
    assert (run / BACKUP).exists()


def test_of_two_that_compact_one_is_told(label_set, run):
    label_set.add([NewLabel("a", "text")])
    label_set.refresh()
    other = LabelSet(run, device="cpu")
    other.compact()
    with pytest.raises(LongtailError, match="another process has compacted"):
        label_set._writer.fold(label_set.state, 1, "model-000000001")
    other.close()


def test_who_opened_the_labels_before_they_were_compacted_removes_nothing(label_set, run, monkeypatch):
    label_set.add([NewLabel("a", "text")])
    label_set.refresh()
    other = LabelSet(run, device="cpu")
    other.compact()
    other.close()
    before = sorted(run.rglob("*"))
    monkeypatch.setattr(LabelSet, "folded", lambda *_: pytest.fail("killed"))
    for work in (label_set.compact, label_set.index):
        with pytest.raises(LongtailError, match="were compacted after"):
            work()
    assert sorted(run.rglob("*")) == before
    again = LabelSet(run, device="cpu")
    assert "a" in uids(again.snapshot)
    again.close()


def test_predictions_of_the_command_line_have_the_changes(label_set, run):
    titles = label_set.snapshot.base.labels.fields["title"]
    text = f"{titles[0].split()[0]} {titles[50].split()[-1]}"
    label_set.add([NewLabel("a", text)])
    label_set.remove([label_set.snapshot.base.labels.uids[0]])
    bundle = load(run, device="cpu")
    assert len(bundle.labels) == 120
    assert bundle.predict([text], k=1, kind="encoder")[0][0].uid == "a"
    assert len(load(run, device="cpu", changes=False).labels) == 120  # the trained model is as it was
    assert list(load(run, device="cpu", changes=False).labels.uids) == list(label_set.snapshot.base.labels.uids)


def test_without_changes_no_catalogue_is_made(trained):
    assert len(load(trained, device="cpu").labels) == 120
    assert not (trained / NAME).exists()


def test_the_changes_of_another_model_are_refused(label_set, run):
    label_set.add([NewLabel("a", "text")])
    label_set.close()
    card = run / "model" / "bundle.json"
    said = json.loads(card.read_text())
    del said["digest"]  # as an earlier version wrote it
    card.write_text(json.dumps(said | {"recipe": "other"}))
    with pytest.raises(BadInput, match="expected changes of this model"):
        LabelSet(run, device="cpu")


def test_what_is_no_catalogue_is_refused(run):
    (run / NAME).write_text("this is no database, and long enough to be taken for one" * 20)
    with pytest.raises(BadInput, match=f"{NAME}: expected a catalogue"):
        LabelSet(run, device="cpu")
    with pytest.raises(BadInput, match="expected a trained model"):
        LabelSet(run / "model", device="cpu")


def test_a_run_without_a_model_is_trained_or_resumed(tmp_path):
    with pytest.raises(BadInput, match="expected a trained model, found none; train one into this folder"):
        LabelSet(tmp_path, device="cpu")
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(BadInput, match=f"expected a trained model, found none; longtail resume {tmp_path} goes on"):
        LabelSet(tmp_path, device="cpu")


def test_labels_without_uids_are_known_by_their_numbers(tmp_path):
    data = Dataset.from_texts(["red shoes", "oak table"], [[0], [1]], ["footwear", "furniture"])
    recipes.dpr(data, out=tmp_path / "run", epochs=1, device="cpu")
    label_set = LabelSet(tmp_path / "run", device="cpu")
    label_set.remove(["1"])
    label_set.add([NewLabel("new", "hats")])
    assert uids(label_set.refresh()) == {"0", "new"}
    label_set.compact()
    again = LabelSet(tmp_path / "run", device="cpu")
    assert uids(again.snapshot) == {"0", "new"}
    label_set.close()
    again.close()


def test_the_fingerprint_follows_a_link(run, tmp_path):
    link = tmp_path / "current"
    link.symlink_to(run)
    before = fingerprint(link)
    assert fingerprint(link) == before
    (tmp_path / "next").symlink_to(tmp_path / "other")
    (tmp_path / "other" / "model").mkdir(parents=True)
    (tmp_path / "other" / "model" / "bundle.json").write_text("{}")
    (tmp_path / "next").replace(link)
    assert fingerprint(link) != before


def test_vectors_come_back_bit_for_bit(label_set):
    label_set.add([NewLabel("a", "some text", [{"title": "an example"}])])
    (change,) = label_set.changes()
    made = label_set.snapshot.base.new_labels(
        Texts.of(["some text"], uids=["a"]), Texts.of(["an example"]), np.array([0])
    ).per_label()
    assert change.rows.keys() == made.keys()
    for name, array in made.items():
        np.testing.assert_array_equal(change.rows[name], array)


def test_a_uid_of_an_array_is_a_uid_like_any_other(label_set, run):
    uid = label_set.snapshot.predict(["x"], 1).uids[0, 0]
    label_set.remove([uid])
    label_set.add([NewLabel(uid, "a new text")])
    again = LabelSet(run, device="cpu")
    assert [(change.uid, change.text) for change in again.changes()] == [(uid, "a new text")]
    again.close()
