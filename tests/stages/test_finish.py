"""The end of a run: what a kill there leaves is found complete, or is made whole."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from broken import flipped
from safetensors.numpy import load_file

from longtail import recipes
from longtail.errors import BadInput
from longtail.model import load
from longtail.model.label_set import LabelSet, NewLabel
from longtail.testing.planted import planted

OPTIONS = {"epochs": 1, "classifier_epochs": 1, "batch": 32, "width": 8, "validation": 0.2, "device": "cpu"}

OPTIONS_OF_DPR = {"epochs": 1, "batch": 32, "width": 8, "device": "cpu"}


class Killed(BaseException):
    """Ends whatever is done."""


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=100, test_documents=10, labels=40).dataset


@contextmanager
def killed_while_removing(files):
    """A run in this context is killed when so many files of its token tables are removed."""
    plain = shutil.rmtree

    def rmtree(folder, *arguments, **options):
        if "tokens" not in Path(folder).name or not Path(folder).is_dir():
            return plain(folder, *arguments, **options)
        for path in sorted(path for path in Path(folder).rglob("*") if path.is_file())[:files]:
            path.unlink()
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", rmtree)
        with pytest.raises(Killed):
            yield


def model_of(run):
    return {path.name: load_file(path) for path in (run / "model").rglob("*.safetensors")}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, arrays in one.items():
        for key, array in arrays.items():
            np.testing.assert_array_equal(array, other[name][key])


@pytest.mark.parametrize("files", [0, 1, 3, 5])
@pytest.mark.parametrize("before", [True, False], ids=["the model is there", "the model is broken"])
def test_a_run_killed_while_its_token_tables_go_is_found_complete(data, tmp_path, files, before):
    run = tmp_path / "run"
    with killed_while_removing(files):
        recipes.ngame(data, out=run, **OPTIONS)
    expected = model_of(run)
    written = (run / "model" / "bundle.json").stat().st_mtime_ns
    if not before:
        (run / "model" / "labels.safetensors").write_bytes(b"broken")
    recipes.ngame(data, out=run, **OPTIONS)
    assert_same(model_of(run), expected)
    assert ((run / "model" / "bundle.json").stat().st_mtime_ns == written) == before
    assert not (run / "tokens").exists()


def test_half_a_token_table_is_made_again(data, tmp_path):
    """As the end of a run of an earlier version may have left it."""
    run = tmp_path / "run"
    recipes.ngame(data, out=tmp_path / "whole", **OPTIONS)
    shutil.copytree(tmp_path / "whole", run)
    shutil.rmtree(run / "model")
    with killed_while_removing(0):
        recipes.ngame(data, out=run, **OPTIONS)
    (left,) = run.glob(".tokens*") if not (run / "tokens").is_dir() else [run / "tokens"]
    shutil.rmtree(run / "model")
    left.rename(run / "tokens")
    for table in (run / "tokens").iterdir():
        (table / "ids.npy").unlink()
    recipes.ngame(data, out=run, **OPTIONS)
    assert_same(model_of(run), model_of(tmp_path / "whole"))


@pytest.mark.parametrize("verb", ["train", "resume", "labels add", "labels compact", "index"])
def test_a_verb_that_writes_removes_what_killed_processes_left(data, tmp_path, verb):
    run = tmp_path / "run"
    if verb != "train":
        recipes.ngame(data, out=run, **OPTIONS)
    for place in (run, run / "stages"):
        place.mkdir(parents=True, exist_ok=True)
        (place / ".model-2.1000000000.partial").mkdir()
        (place / ".model-2.1000000000.partial" / "labels.safetensors").write_text("half")
    if verb in ("train", "resume"):
        if verb == "train":
            (run / "stages" / ".model-2.1000000000.partial").rename(run / ".stages.1000000000.partial")
            (run / "stages").rmdir()
        recipes.ngame(data, out=run, **OPTIONS)
    else:
        labels = LabelSet(run, device="cpu")
        if verb == "index":
            pytest.importorskip("faiss", reason="the extra longtail[faiss] is not installed")
            labels.index()
        else:
            labels.add([NewLabel("new", "a label")])
        if verb == "labels compact":
            labels.compact()
        labels.close()
    assert not [*run.rglob("*.partial")]


def test_what_earlier_versions_left_in_a_killed_run_is_removed(data, tmp_path):
    recipes.ngame(data, out=tmp_path / "run", **OPTIONS)
    (tmp_path / "run" / "stages" / ".tmpbYWSTb").write_text("half")
    recipes.ngame(data, out=tmp_path / "run", **OPTIONS)
    assert {path.name for path in (tmp_path / "run" / "stages").iterdir()} == {
        "encoder.safetensors",
        "classifiers.safetensors",
    }
    (tmp_path / "run" / "stages" / ".tmpbYWSTb").write_text("half")
    with pytest.raises(BadInput, match=r"run\.json: the run was made with arguments"):
        recipes.ngame(data, out=tmp_path / "run", **OPTIONS | {"width": 16})


@pytest.mark.parametrize("fault", ["flipped", "cut", "emptied"])
def test_a_finished_run_whose_card_is_broken_makes_its_model_again(data, tmp_path, fault):
    whole = tmp_path / "whole"
    recipes.dpr(data, out=whole, **OPTIONS_OF_DPR)
    content = (whole / "model" / "bundle.json").read_bytes()
    for at in (0, 9, len(content) // 2, len(content) - 9) if fault == "flipped" else (len(content) // 2,):
        run = shutil.copytree(whole, tmp_path / f"run-{at}")
        broken = {"flipped": flipped(content, at, 2), "cut": content[:at], "emptied": b""}[fault]
        (run / "model" / "bundle.json").write_bytes(broken)
        with pytest.raises(BadInput, match=r"bundle\.json: expected "):
            load(run, device="cpu")
        recipes.dpr(data, out=run, **OPTIONS_OF_DPR)
        assert_same(model_of(run), model_of(whole))
        assert (run / "model" / "bundle.json").read_bytes() == content
