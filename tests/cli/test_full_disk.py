"""A disk that is full costs one clear line, and nothing that was finished."""

from __future__ import annotations

import pytest

OPTIONS = ("--epochs", 2, "--batch", 64, "--width", 32, "--warmup", 10, "--device", "cpu")


@pytest.mark.parametrize(("largest", "then"), [(10_000, "train"), (400_000, "resume")])  # bytes that a file may have
def test_training_says_so_and_goes_on_once_there_is_room(planted_folder, longtail, tmp_path, largest, then):
    run = tmp_path / "run"
    whole = ("train", "dpr", planted_folder, "--out", run, *OPTIONS)
    status, _, errors = longtail(*whole, largest=largest)
    assert status == 1
    assert errors.startswith(f"longtail: {run}")  # the file
    assert errors.endswith("; make room, or choose another folder, and try again\n")
    assert len(errors.splitlines()) == 1
    assert not [*tmp_path.rglob("*.partial")]
    status, _, errors = longtail(*(whole if then == "train" else ("resume", run)))
    assert (status, errors) == (0, "")


def test_a_folder_that_cannot_be_made_is_named(planted_folder, longtail, tmp_path):
    (tmp_path / "file").write_text("no folder")
    status, _, errors = longtail("train", "dpr", planted_folder, "--out", tmp_path / "file" / "run", *OPTIONS)
    assert status == 1
    assert errors.startswith(f"longtail: {tmp_path / 'file'}")
    assert len(errors.splitlines()) == 1
