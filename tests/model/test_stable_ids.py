"""The id of a label stays with it: over removals and compactions, in saved models, and in runs of earlier versions."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from longtail.data.texts import Texts
from longtail.files import write_json
from longtail.hashes import hashes
from longtail.model import LabelSet, load
from longtail.model.catalogue import Catalogue, Change
from longtail.model.integrity import KNOWN, NAME
from longtail.model.label_set import NewLabel
from longtail.model.uids import with_uids


def ids(run):
    """The stable ids by uid."""
    model = load(run, device="cpu")
    return dict(zip(model.labels.uids, model.ids.tolist(), strict=True))


def as_an_earlier_version_left_it(run):
    """Take out of a run what earlier versions did not write: the ids of its catalogue, and of its compacted model."""
    connection = sqlite3.connect(run / NAME)
    columns = "only INTEGER PRIMARY KEY, trained TEXT NOT NULL, last INTEGER NOT NULL, folded INTEGER NOT NULL"
    connection.executescript(
        f"""
        DROP TABLE ids;
        ALTER TABLE labels DROP COLUMN digest;
        ALTER TABLE state RENAME TO new;
        CREATE TABLE state ({columns}, dropped INTEGER NOT NULL, folder TEXT NOT NULL);
        INSERT INTO state SELECT only, trained, last, folded, dropped, folder FROM new;
        DROP TABLE new;
        """
    )
    connection.close()
    (run / KNOWN).unlink()
    for folder in run.glob("model-*"):
        arrays = {name: array for name, array in load_file(folder / "labels.safetensors").items() if name != "ids"}
        save_file(arrays, folder / "labels.safetensors")
        card = json.loads((folder / "bundle.json").read_text())
        del card["digest"]
        (folder / "bundle.json").unlink()
        write_json(folder / "bundle.json", card | {"sha256": hashes(folder, card="bundle.json")})


def test_a_label_that_comes_again_has_its_id_again(label_set, run):
    uids = list(label_set.snapshot.base.labels.uids)
    label_set.add([NewLabel("a", "x"), NewLabel("b", "x")])
    label_set.remove(["a", uids[5], "nobody"])
    label_set.add([NewLabel("c", "x"), NewLabel(uids[9], "another text")])
    found = ids(run)
    assert (found["b"], found["c"], found[uids[9]], found[uids[119]]) == (121, 122, 9, 119)
    assert "a" not in found
    label_set.add([NewLabel("nobody", "x"), NewLabel("a", "y"), NewLabel(uids[5], "y")])
    found = ids(run)
    assert (found["a"], found[uids[5]], found["nobody"]) == (120, 5, 123)
    label_set.refresh()
    label_set.compact()
    assert ids(run) == found


def test_some_labels_of_a_model_keep_their_ids(label_set, tmp_path):
    label_set.add([NewLabel("a", "x")])
    label_set.remove([label_set.snapshot.base.labels.uids[0]])
    some = label_set.refresh().take(np.array([119, 0, 50]))
    assert some.ids.tolist() == [120, 1, 51]
    some.save(tmp_path / "model")
    assert load(tmp_path, device="cpu").ids.tolist() == [120, 1, 51]
    assert some.new_labels(Texts.of(["x"], uids=["y"]), Texts.of([]), np.zeros(0, np.int64)).ids.tolist() == [121]


@pytest.mark.parametrize("compacted", [False, True])
def test_the_changes_of_an_earlier_version_get_ids_when_the_run_is_opened(label_set, run, compacted):
    uids = list(label_set.snapshot.base.labels.uids)
    label_set.add([NewLabel("a", "x"), NewLabel("b", "x")])
    label_set.remove([uids[5], uids[119]])
    label_set.add([NewLabel(uids[9], "another text")])
    if compacted:
        label_set.refresh()
        label_set.compact()
    label_set.close()
    as_an_earlier_version_left_it(run)
    label_set = LabelSet(run, device="cpu")
    expected = {"a": 120, "b": 121, **{uid: i for i, uid in enumerate(uids) if i not in (5, 119)}}
    assert ids(run) == expected
    label_set.add([NewLabel("c", "x"), NewLabel(uids[119], "x")])
    expected |= {"c": 122, uids[119]: 119}
    assert ids(run) == expected
    label_set.refresh()
    label_set.compact()
    assert ids(run) == expected
    label_set.add([NewLabel(uids[5], "x")])
    assert ids(run) == expected | {uids[5]: 5}
    label_set.close()


def test_two_processes_never_give_one_id_twice(label_set, run):
    other = LabelSet(run, device="cpu")
    for i in range(5):
        label_set.add([NewLabel(f"a{i}", "x")])
        other.add([NewLabel(f"b{i}", "x")])
    found = ids(run)
    assert sorted(found.values()) == list(range(130))
    assert [found[f"{name}{i}"] for i in range(5) for name in "ab"] == list(range(120, 130))
    other.close()


def test_a_refused_change_gives_no_id(run):
    catalogue = Catalogue(run)
    with pytest.raises(sqlite3.Error):
        catalogue.put([Change("good", "text"), Change(None, "text")])
    catalogue.put([Change("later", "text")])
    assert [(change.uid, change.id) for change in catalogue.since(0)[1]] == [("later", 0)]
    catalogue.close()


def test_a_uid_that_is_made_up_is_of_no_other_label():
    labels = with_uids(Texts.of(["x"] * 5, uids=["2", "", "", "#2", ""]), np.array([0, 1, 2, 3, 7]))
    assert list(labels.uids) == ["2", "1", "##2", "#2", "7"]
    named = Texts.of(["x"], uids=["a"])
    assert with_uids(named, np.array([0])) is named
