"""A pipe, a folder or a device in place of a file is refused in one line and never waited for; a link is a file."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from signal import ITIMER_REAL, SIGALRM, setitimer, signal

import numpy as np
import pytest

from longtail.arrays import load_arrays, read_archive, read_array, save_arrays
from longtail.cli.labels import _read
from longtail.cli.places import must_take
from longtail.data.check import check
from longtail.data.dataset import Dataset
from longtail.data.io.imports import import_tables
from longtail.data.io.writing import write_lines
from longtail.errors import BadInput
from longtail.files import kept, read_json, write_json
from longtail.model import load
from longtail.model.label_set import LabelSet, NewLabel
from longtail.report.outcome import Outcome
from longtail.train.checkpoint import load_state
from longtail.train.log import read_log
from longtail.train.progress import settings_of

SECONDS = 20


class Waits(BaseException):
    """Nothing that a reader may take for an error of a file."""


@contextmanager
def in_time():
    def late(*_):
        raise Waits("for a pipe")

    before = signal(SIGALRM, late)
    timer = setitimer(ITIMER_REAL, SECONDS)  # that of the limit of the whole test, which goes on
    try:
        yield
    finally:
        setitimer(ITIMER_REAL, *timer)
        signal(SIGALRM, before)


def put(path: Path, what: str) -> None:
    """Something that is no file, in the place of one."""
    path.unlink(missing_ok=True)
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")


def refused(verb) -> str:
    with in_time(), pytest.raises(BadInput) as caught:
        verb()
    assert "\n" not in str(caught.value)
    return str(caught.value)


KINDS = ["a pipe", "a folder", "a device"]


@pytest.mark.parametrize("what", KINDS)
def test_in_a_data_folder(tmp_path, what):
    dataset = Dataset.from_texts(["red apple", "pear"], [[0, 1], [1]], ["red", "fruit"])
    dataset.write(tmp_path / "whole")
    (tmp_path / "whole" / "filter_labels_train.txt").write_text("1 0\n")
    for name in ("trn.json.gz", "lbl.json.gz", "dataset.json", "filter_labels_train.txt"):
        shutil.copytree(tmp_path / "whole", tmp_path / "copy")
        put(tmp_path / "copy" / name, what)
        found = refused(lambda: Dataset.read(tmp_path / "copy"))
        assert name in found
        with in_time():
            assert found in [finding.message for finding in check(tmp_path / "copy")[0]]
        shutil.rmtree(tmp_path / "copy")
    for name in ("table.csv", "table.jsonl.gz", "table.parquet", "labels.txt"):
        put(tmp_path / name, what)
    tables = ["table.csv", "table.jsonl.gz"]
    pytest.importorskip("pyarrow", reason="the extra longtail[parquet] is not installed")
    for name in [*tables, "table.parquet"]:
        assert name in refused(lambda: import_tables(tmp_path / name, separator=";"))  # noqa: B023
    assert "labels.txt" in refused(lambda: import_tables(tmp_path / "table.csv", labels=tmp_path / "labels.txt"))
    assert "table.jsonl" in refused(lambda: _read(tmp_path / "table.jsonl.gz", "labels", dict))


@pytest.mark.parametrize("what", KINDS)
def test_in_a_run_folder(run, what):
    label_set = LabelSet(run, device="cpu")
    label_set.add([NewLabel("new", "a new label")])
    label_set.close()
    (run / "metrics.jsonl").touch()
    readers = {
        "run.json": lambda: settings_of(run),
        "cost.json": lambda: Outcome.of(run, {}, {}, seed=0, command=""),
        "metrics.jsonl": lambda: read_log(run / "metrics.jsonl"),
        "labels.json": lambda: load(run, device="cpu"),
        "labels.sqlite": lambda: load(run, device="cpu"),
        "stages/encoder.safetensors": lambda: load_state(run / "stages" / "encoder.safetensors"),
        **{
            f"model/{name}": lambda: load(run, device="cpu", changes=False)
            for name in ("bundle.json", "labels.jsonl", "labels.safetensors", "encoder/bag.json")
        },
    }
    for name, reader in readers.items():
        path = run / name
        path.rename(path.with_name("aside"))
        put(path, what)
        assert path.name in refused(reader)
        path.rmdir() if what == "a folder" else path.unlink()
        path.with_name("aside").rename(path)
    load(run, device="cpu")


@pytest.mark.parametrize("what", KINDS)
def test_in_a_cache(tmp_path, what):
    folder = tmp_path / "cache" / "tokens"
    for name in ("checksums.json", "ids.npy"):
        save_arrays(folder, {"ids": np.arange(3)})
        put(folder / name, what)
        again = []

        def save(again=again):
            again.append(1)
            save_arrays(folder, {"ids": np.arange(3)})

        with in_time():  # what a cache holds is made again
            (ids,) = kept(folder, save, lambda path: load_arrays(path, ["ids"]))
        assert (again, ids.tolist()) == ([1], [0, 1, 2])
        shutil.rmtree(folder)
    put(tmp_path / "array", what)
    assert "expected a file" in refused(lambda: read_array(tmp_path / "array", remedy="make it again"))
    assert "expected a file" in refused(lambda: read_archive(tmp_path / "array", ["ids"], remedy="make it again"))
    assert "expected a file" in refused(lambda: read_json(tmp_path / "array", remedy="make it again"))


@pytest.mark.parametrize("what", KINDS)
def test_in_the_place_of_a_file_that_is_written(tmp_path, what):
    """Who may write in /dev would have a file in the place of its null."""
    path = tmp_path / "out"
    put(path, what)
    before = path.lstat()
    for write in (lambda: write_json(path, {}), lambda: must_take(path), lambda: write_lines(path, ["a"])):
        assert "expected a file" in refused(write)
    assert [*tmp_path.iterdir()] == [path]
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="a name of an open file is one of Linux")
def test_the_name_of_an_open_file_is_not_replaced(tmp_path):
    with (tmp_path / "open").open("w") as file:
        (tmp_path / "stdout").symlink_to(f"/proc/self/fd/{file.fileno()}")
        assert "expected a file to write, found a pipe" in refused(lambda: must_take(tmp_path / "stdout"))


def test_a_link_to_a_file_is_a_file(run, tmp_path):
    """Also out of the folder: its hash says whether it is the one that was written."""
    expected = load(run, device="cpu", changes=False).predict(["red"])
    outside = tmp_path / "outside"
    for path in [path for path in (run / "model").rglob("*") if path.is_file()]:
        to = outside / path.relative_to(run)
        to.parent.mkdir(parents=True, exist_ok=True)
        path.rename(to)
        path.symlink_to(to)
    assert load(run, device="cpu", changes=False).predict(["red"]) == expected
    told = json.loads((outside / "model" / "encoder" / "bag.json").read_text())
    (outside / "model" / "encoder" / "bag.json").write_text(json.dumps(told | {"ngram": told["ngram"] + 1}))
    assert "expected SHA-256" in refused(lambda: load(run, device="cpu", changes=False))


def test_what_a_left_link_leads_to_stays(tmp_path):
    from longtail.files import remove_folder, remove_partial

    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".model.0.partial").symlink_to(tmp_path / "precious")
    (tmp_path / "run" / "model-1").symlink_to(tmp_path / "precious")
    remove_partial(tmp_path / "run")
    remove_folder(tmp_path / "run" / "model-1")
    assert [*(tmp_path / "run").iterdir()] == []
    assert (tmp_path / "precious" / "file").exists()
