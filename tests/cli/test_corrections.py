"""Corrections from the command line: given, taken back, and exported as what a model is trained on."""

from __future__ import annotations

import json

from longtail import Dataset
from longtail.model import LabelSet
from longtail.model.catalogue import Correction

TEXT = "an utterly new text"


def test_corrections_are_data_to_train_on_and_can_be_carried_to_another_run(
    longtail, label_set, run_with_memory, tmp_path
):
    run, labels, out = label_set.run, label_set.snapshot.base.labels, tmp_path / "corrections.jsonl"
    uids, titles = list(labels.uids), list(labels.fields["title"])
    label_set.correct([Correction({"title": TEXT}, uids[i], True) for i in (3, 5)])
    label_set.close()
    assert longtail("labels", "correct", run, "--uid", uids[4], "--text", TEXT, "--wrong")[0] == 0
    assert longtail("labels", "correct", run, "--uid", uids[4], "--text", "=other")[0] == 0
    assert longtail("labels", "corrections", run, "--out", out)[0] == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[0] == {
        "title": TEXT,
        "labels": [titles[3], titles[5]],
        "uids": [uids[3], uids[5]],
        "wrong": [titles[4]],
        "wrong_uids": [uids[4]],
        "ids": [1, 2, 3],
    }
    assert longtail("data", "import", out, "--out", tmp_path / "data")[0] == 0
    data = Dataset.read(tmp_path / "data")
    assert list(data.train.documents.fields["title"]) == [TEXT, "=other"]
    assert list(data.labels.fields["title"]) == [titles[3], titles[5], titles[4]]
    assert data.train.targets.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert longtail("labels", "correct", run_with_memory, "--input", out)[0] == 0
    printed = longtail("labels", "corrections", run_with_memory)[1]
    assert [json.loads(line) for line in printed.splitlines()] == lines
    assert longtail("labels", "withdraw", run_with_memory, 1, 4)[0] == 0
    again = LabelSet(run_with_memory, device="cpu")
    assert list(again.snapshot.corrections.kept) == [2, 3]
    again.close()


def test_what_is_wrong_is_said_in_one_line(longtail, run, tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"title": "one", "uids": ["0"], "wrong_uids": [1]}')
    for arguments, problem in (
        (["correct", run], "expected --uid and --text, or --input"),
        (["correct", run, "--uid", "none", "--text", "x"], "expected that of a label, found 'none'"),
        (["correct", run, "--input", lines], "line 1: expected a title, and lists of uids and wrong_uids, found"),
        (["withdraw", run, "7"], "expected those of corrections, found 7"),
    ):
        status, _, errors = longtail("labels", *arguments)
        assert status == 1
        assert problem in " ".join(errors.split())
    assert not (run / "labels.sqlite").exists()


def test_labels_are_found_by_a_part_of_their_text_and_by_their_uid(longtail, run_with_memory):
    label_set = LabelSet(run_with_memory, device="cpu")
    labels = label_set.snapshot.base.labels
    label_set.close()
    uid, title = labels.uids[3], labels.fields["title"][3]
    status, output, _ = longtail("labels", "find", run_with_memory, title.upper())
    assert status == 0
    assert {"uid": uid, "text": title} in [json.loads(line) for line in output.splitlines()]
    assert json.loads(longtail("labels", "find", run_with_memory, uid, "--limit", 1)[1]) == {"uid": uid, "text": title}
    nothing = longtail("labels", "find", run_with_memory, "nowhere at all")
    assert nothing == (0, "", "no label has 'nowhere at all' in its text, or as its uid\n")
