"""``longtail distil`` in a real process."""

from __future__ import annotations

import gzip
import json


def test_a_student_is_a_run_of_its_teacher(longtail, planted_folder, tmp_path):
    teacher, student, texts = tmp_path / "teacher", tmp_path / "student", tmp_path / "texts.txt"
    texts.write_text("a text\nanother\n", encoding="utf-8")
    quick = ("--epochs", 1, "--batch", 64, "--width", 16, "--warmup", 5, "--validation", 0.2, "--no-refit")
    status, _, errors = longtail("train", "unidec", planted_folder, "--out", teacher, *quick)
    assert status == 0, errors
    into = "unidec:width=8,epochs=1,batch=64,memory=false,refit=false"
    command = ("distil", teacher, "--into", into, "--texts", texts, "--out", student)
    status, output, errors = longtail(*command, "--dry-run")
    assert status == 0, errors
    assert "asking the teacher" in output
    assert not student.exists()
    status, output, errors = longtail(*command)
    assert status == 0, errors
    said = " ".join(output.split())
    with gzip.open(planted_folder / "lbl.json.gz") as labels:
        texts_in_all = 480 + len(labels.readlines()) + 2  # documents that are not held out, labels, and the file
    assert f"about {texts_in_all} documents, once" in said
    assert "it ranks by its fused score" in said
    settings = json.loads((student / "run.json").read_text())
    assert settings["recipe"] == "unidec"
    assert settings["arguments"]["width"] == 8
    assert settings["arguments"]["validation"] == 0.2
    assert settings["arguments"]["teacher"] == str(teacher)
    assert settings["arguments"]["augment"] == f"unlabelled:texts={texts}"
    assert longtail("predict", student, stdin="some text\n")[0] == 0
    status, _, errors = longtail("distil", teacher, "--into", "renee", "--out", tmp_path / "other")
    assert status == 1
    assert "--into: expected an encoder, or one of depsl, unidec, found renee" in " ".join(errors.split())


def test_whoever_distils_a_transformer_alone_is_told_of_a_better_teacher(longtail, planted_folder, tiny_bert, tmp_path):
    quick = ("--encoder", tiny_bert, "--max-length", 8, "--epochs", 0, "--validation", 0.2, "--no-refit")
    status, _, errors = longtail("train", "unidec", planted_folder, "--out", tmp_path / "teacher", *quick)
    assert status == 0, errors
    for into, told in (("bag", True), ("lstm", False)):
        command = ("distil", tmp_path / "teacher", "--into", into, "--out", tmp_path / "student", "--dry-run")
        status, output, errors = longtail(*command)
        assert status == 0, errors
        assert ("an ensemble of it and a bag likely teaches more" in " ".join(output.split())) == told
