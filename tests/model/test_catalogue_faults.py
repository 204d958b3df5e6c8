"""Any byte of a catalogue may be wrong, or all of it gone: the changes are the same, or it is refused in one line."""

from __future__ import annotations

import json
import shutil
import sqlite3

import pytest
from broken import flipped, outcome

from longtail import Dataset, recipes
from longtail.errors import BadInput
from longtail.model import LabelSet, load
from longtail.model.catalogue import Correction
from longtail.model.integrity import RESTORE, Unusable, sign
from longtail.model.label_set import NewLabel, changes_made

EVERY = 64  # bytes
NAME, KNOWN, BACKUP = "labels.sqlite", "labels.json", "labels.backup.sqlite"
DATA = Dataset.from_texts(["red shoes", "oak table", "hat"], [[0], [1], [2]], ["footwear", "furniture", "headwear"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with changes: two folders, the log of writes merged into the catalogue, and as a crash left it."""
    run = tmp_path_factory.mktemp("catalogue") / "closed"
    recipes.dpr(DATA, out=run, epochs=1, width=8, device="cpu")
    label_set = LabelSet(run, device="cpu")
    uids = list(label_set.snapshot.base.labels.uids)
    for i in range(12):
        label_set.add([NewLabel(f"n{i}", f"new {i}", [{"title": "an example"}])])
    label_set.remove([uids[0], "n3"])
    label_set.add([NewLabel("n4", "another text")])
    label_set.correct([Correction({"title": "red table"}, uids[1], False)])
    crashed = shutil.copytree(run, run.with_name("crashed"))
    label_set.close()
    assert (crashed / f"{NAME}-wal").stat().st_size
    assert not (run / f"{NAME}-wal").exists()
    return run, crashed


def changes(run):
    """Everything that a run says of its changes."""
    label_set = LabelSet(run, device="cpu")
    try:
        said = [(c.uid, c.text, list(c.examples), c.id, str(c.rows)) for c in label_set.changes()]
        said += [one[:3] for one in label_set.snapshot.corrections.kept.values()]
        return said, label_set.model.predict(["red table"], 100), label_set.state
    finally:
        label_set.close()


def outcome_of(run, content, expected):
    """What becomes of a run whose files beside the model have some content."""
    for path in run.glob("labels.*"):
        path.unlink()
    for name, data in content.items():
        (run / name).write_bytes(data)
    return outcome(lambda: changes(run), expected)


def content_of(run):
    return {path.name: path.read_bytes() for path in run.glob("labels.*") if not path.name.endswith("-shm")}


@pytest.mark.parametrize(("which", "every"), [(0, EVERY), (1, 8 * EVERY + 8)], ids=["closed", "crashed"])
def test_a_flipped_byte_is_refused_or_changes_nothing(whole, tmp_path, which, every):
    run, expected = shutil.copytree(whole[which], tmp_path / "run"), changes(whole[0])
    content, counts = content_of(run), {"refused": 0, "same": 0}
    assert outcome_of(run, content, expected) == "same"
    for name, data in content.items():
        for at in range(0, len(data), every):
            said = outcome_of(run, content | {name: flipped(data, at, at // every % 8)}, expected)
            assert said in counts, (name, at, said)
            counts[said] += 1
    assert outcome_of(run, content, expected) == "same"
    assert counts["refused"] > 50, counts


@pytest.mark.parametrize("left", [None, 0, 1, 2])
def test_a_catalogue_that_is_gone_emptied_or_cut_is_refused(whole, tmp_path, left):
    run, expected = shutil.copytree(whole[0], tmp_path / "run"), changes(whole[0])
    content = content_of(run)
    changed = {name: data[: len(data) * (left or 0) // 3] if name == NAME else data for name, data in content.items()}
    if left is None:
        del changed[NAME]
    assert outcome_of(run, changed, expected) == "refused"
    assert outcome_of(run, changed, expected) == "refused"  # to look at it did not make a new one
    for made in (changes_made, load):
        restored = f"remove {NAME}-wal, {NAME}-shm and {KNOWN}, and copy {BACKUP}, .* to {NAME}, or remove {NAME}, too"
        with pytest.raises(BadInput, match=f"{NAME}: .*; {restored}"):
            made(run)
    known = {**content, KNOWN: content[KNOWN][: len(content[KNOWN]) * (left or 0) // 3]}
    assert outcome_of(run, known, expected) == "refused"
    del known[KNOWN]
    assert outcome_of(run, known, expected) == "same"


def test_a_log_of_writes_that_is_gone_is_refused(whole, tmp_path):
    run, expected = shutil.copytree(whole[1], tmp_path / "run"), changes(whole[0])
    content = content_of(run)
    del content[f"{NAME}-wal"]
    assert outcome_of(run, content, expected) == "refused"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE labels SET text = 'other' WHERE uid = 'n1'",
        "UPDATE labels SET number = 100 WHERE uid = 'n1'",
        "UPDATE labels SET examples = '[]' WHERE uid = 'n1'",
        "UPDATE labels SET rows = zeroblob(8) WHERE uid = 'n1'",
        "UPDATE ids SET id = 99 WHERE uid = 'n1'",
        "DELETE FROM labels WHERE uid = 'n1'",
        "DELETE FROM ids WHERE uid = 'n1'",
        "DELETE FROM state",
        "UPDATE corrections SET is_right = 1",
        "DELETE FROM corrections",
        "UPDATE state SET folded = 3",
        "UPDATE state SET folder = 'model-000000003'",
        "UPDATE state SET identity = ''",
        "DROP TABLE ids",
    ],
)
def test_a_row_that_is_not_as_it_was_written_is_refused(whole, tmp_path, statement):
    run = shutil.copytree(whole[0], tmp_path / "run")
    connection = sqlite3.connect(run / NAME)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(
        BadInput, match=f"{NAME}: expected .*; remove {NAME}-wal, {NAME}-shm and {KNOWN}, and copy {BACKUP}"
    ):
        LabelSet(run, device="cpu")


def test_a_change_of_a_row_while_it_is_served_is_refused(whole, tmp_path):
    run = shutil.copytree(whole[0], tmp_path / "run")
    served = LabelSet(run, device="cpu")
    connection = sqlite3.connect(run / NAME)
    connection.execute("UPDATE labels SET text = 'other', number = 100 WHERE uid = 'n1'")
    connection.commit()
    with pytest.raises(BadInput, match="expected a row with the digest"):
        served.refresh()
    connection.close()
    served.close()


def compacted(whole, tmp_path):
    """A compacted copy of a run, its labels, and what it says of its changes."""
    run = shutil.copytree(whole, tmp_path / "run")
    label_set = LabelSet(run, device="cpu")
    label_set.compact()
    label_set.close()
    expected = changes(run)
    return run, LabelSet(run, device="cpu"), expected


def test_the_copy_of_the_last_compaction_restores_a_run(whole, tmp_path):
    run, label_set, expected = compacted(whole[0], tmp_path)
    label_set.add([NewLabel("later", "text")])
    label_set.close()
    (run / NAME).write_bytes(b"")
    with pytest.raises(BadInput, match="found none"):
        LabelSet(run, device="cpu")
    shutil.copy(run / BACKUP, run / NAME)
    with pytest.raises(BadInput, match="found one of 16 changes, where 17 were made"):
        LabelSet(run, device="cpu")
    (run / KNOWN).unlink()
    assert changes(run) == expected


def test_a_log_that_is_left_does_not_come_over_a_restored_catalogue(whole, tmp_path):
    run, label_set, expected = compacted(whole[0], tmp_path)
    label_set.add([NewLabel(f"later {i}", "text") for i in range(50)])
    crashed = shutil.copytree(run, tmp_path / "crashed")
    label_set.close()
    assert (crashed / f"{NAME}-wal").stat().st_size
    for name in (f"{NAME}-wal", f"{NAME}-shm", KNOWN):
        assert name in RESTORE
        (crashed / name).unlink()
    shutil.copy(crashed / BACKUP, crashed / NAME)
    assert changes(crashed) == expected


def test_to_open_a_run_writes_nothing_into_what_it_knows_of_its_catalogue(whole, tmp_path):
    run = shutil.copytree(whole[0], tmp_path / "run")
    before = (run / KNOWN).stat().st_mtime_ns
    load(run)
    assert (run / KNOWN).stat().st_mtime_ns == before


def test_a_broken_card_is_not_taken_for_another_model(whole, tmp_path):
    run = shutil.copytree(whole[0], tmp_path / "run")
    card = run / "model" / "bundle.json"
    card.write_text(card.read_text().replace('"dpr"', '"dqr"'))
    with pytest.raises(BadInput, match=r"bundle\.json: expected the digest"):
        LabelSet(run, device="cpu")


def test_the_run_knows_how_many_changes_there_are(whole):
    said = json.loads((whole[0] / KNOWN).read_text())
    assert said["last"] == changes_made(whole[0]) == 16


def test_a_catalogue_that_another_process_holds_is_not_said_to_be_broken(whole, tmp_path, monkeypatch):
    """Who follows the remedy of a broken one would lose changes."""
    run = shutil.copytree(whole[0], tmp_path / "run")
    monkeypatch.setattr("longtail.model.catalogue_file._BUSY", 0.05)
    other = sqlite3.connect(run / NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(
        BadInput, match="found database is locked; nothing of it is lost: see that this process may write"
    ):
        LabelSet(run, device="cpu")
    other.close()
    assert changes(run) == changes(whole[0])


def test_a_change_that_finds_no_room_is_one_line_and_loses_nothing(whole, tmp_path):
    run = shutil.copytree(whole[0], tmp_path / "run")
    label_set, before = LabelSet(run, device="cpu"), changes(run)
    connection = label_set._writer._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Unusable, match=r"labels\.sqlite: .* full; nothing of it is lost") as refused:
        label_set.add([NewLabel("large", "red " * 10_000)])
    assert "\n" not in str(refused.value)
    assert changes(run) == before
    connection.execute("PRAGMA max_page_count = 100000")
    label_set.add([NewLabel("large", "red " * 10_000)])
    label_set.close()
    assert len(changes(run)[0]) == len(before[0]) + 1


@pytest.mark.parametrize("content", [b"", b'{"identity": "', b'{"identity": "0", "last": 15}'])
def test_where_the_run_alone_is_wrong_about_its_catalogue_no_change_is_given_up(whole, tmp_path, content):
    run = shutil.copytree(whole[0], tmp_path / "run")
    (run / KNOWN).write_bytes(content)
    with pytest.raises(
        BadInput, match=r"labels\.json: .*; remove it, if labels\.sqlite is this run's own, which is whole"
    ):
        LabelSet(run, device="cpu")
    (run / KNOWN).unlink()
    assert changes(run) == changes(whole[0])
    assert (run / KNOWN).read_bytes() == (whole[0] / KNOWN).read_bytes()


@pytest.mark.parametrize("folder", ["../../elsewhere", "/etc", "model-1/../../elsewhere", "", "elsewhere", b"model"])
def test_a_catalogue_leads_to_no_model_but_those_of_its_run(whole, tmp_path, folder):
    """Also one whose digests agree: who can write one can sign it."""
    run = shutil.copytree(whole[0], tmp_path / "run")
    connection = sqlite3.connect(run / NAME, isolation_level=None)
    connection.execute("UPDATE state SET folder = ?", (folder,))
    sign(connection, 0)
    connection.close()
    with pytest.raises(
        BadInput, match=r"labels\.sqlite: expected the catalogue that this run has written, found one on"
    ):
        load(run, device="cpu")
