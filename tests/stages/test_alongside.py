"""Further runs that other processes train at the same time."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console
from waiting import until

from longtail import Dataset, recipes
from longtail.errors import LongtailError
from longtail.recipes.unidec import Options
from longtail.stages import alongside as module
from longtail.testing.planted import planted
from longtail.train import fit
from longtail.train.log import Log, read_log
from longtail.train.processes import Process
from longtail.train.run import Run

SMALL = {
    "batch": 256,
    "random_negatives": 32,
    "width": 8,
    "warmup": 5,
    "epochs": 2,
    "validation": 0.2,
    "refit": True,
    "refits": 2,
    "device": "cpu",
}
LOCK = ".lock"
NAMES = ("refit", "refit-2")


class Told:
    """A listener that keeps which run each line was of."""

    def __init__(self):
        self.runs = []

    def line(self, fields, within=""):
        self.runs.append((within, fields.get("stage")))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "planted"
    planted(0, documents=200, test_documents=16, labels=64).dataset.write(folder)
    return Dataset.read(folder)


@pytest.fixture(scope="module")
def in_turn(data):
    """The model of the same runs, trained by one process."""
    return recipes.unidec(data, **SMALL)


@pytest.fixture
def at_once(monkeypatch):
    """Two threads, and further runs in another process however small the data is."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(module, "_FEWEST", 0)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def trained(data, folder, told=None):
    """The model of a run in a folder, and what it said."""
    said = io.StringIO()
    log = Log(folder / "metrics.jsonl", Console(file=said, width=200), told)
    return recipes.unidec(data, **SMALL, out=Run(folder, log)), said.getvalue()


def must_be_the_same(model, other):
    for kind in ("encoder", "classifier"):
        np.testing.assert_array_equal(model.vectors[kind], other.vectors[kind])
    np.testing.assert_array_equal(model.fusion.weights, other.fusion.weights)


@pytest.mark.usefixtures("at_once")
def test_runs_at_once_are_those_that_one_process_trains_in_turn(data, in_turn, tmp_path, monkeypatch):
    told, ran, plain = Told(), [], Process.run

    def run(self, command, folder, **options):
        plain(self, command, folder, **options)
        ran.append(command[4])

    monkeypatch.setattr(Process, "run", run)
    model, said = trained(data, tmp_path / "run", told)
    must_be_the_same(model, in_turn)
    assert "2 runs at once, of 1 thread each" in said
    assert all((tmp_path / "run" / name / "cost.json").exists() for name in NAMES)
    assert ran == [str(tmp_path / "run" / "refit-2")]
    assert not any("plan" in line for line in read_log(tmp_path / "run" / "refit-2" / "metrics.jsonl"))
    assert {("", "joint"), ("refit/", "joint"), ("refit-2/", "joint")} <= set(told.runs)
    assert not [*(tmp_path / "run").glob("**/.lock"), *(tmp_path / "run").glob("refit*/model")]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("as_large", [1, 5])
def test_runs_are_trained_in_turn_where_memory_is_short(data, in_turn, tmp_path, monkeypatch, as_large):
    monkeypatch.setattr(module, "free_memory_bytes", lambda: as_large * module.resident_bytes())
    model, said = trained(data, tmp_path / "run")
    must_be_the_same(model, in_turn)
    assert "at once" not in said


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("error", [LongtailError("no room"), OSError("no such program")], ids=["failed", "not begun"])
def test_what_another_process_could_not_train_is_trained_here(data, in_turn, tmp_path, monkeypatch, error):
    def run(*_, **__):
        raise error

    monkeypatch.setattr(Process, "run", run)
    model, said = trained(data, tmp_path / "run")
    must_be_the_same(model, in_turn)
    assert f"the process that trained it failed ({error}); it goes on here" in said


@pytest.mark.usefixtures("at_once")
def test_another_process_ends_with_a_run_that_fails(data, in_turn, tmp_path, monkeypatch):
    lock, worker = tmp_path / "run" / "refit-2" / LOCK, []

    def stopped(*_, **__):
        until(lambda: lock.exists() and lock.read_text().strip())
        worker.append(int(lock.read_text()))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fit, "_taken", stopped)
        with pytest.raises(KeyboardInterrupt):
            trained(data, tmp_path / "run")
    with pytest.raises(ProcessLookupError):
        os.kill(worker[0], 0)
    must_be_the_same(trained(data, tmp_path / "run")[0], in_turn)


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a process outlives the one that started it and is killed"
)
def test_another_process_ends_with_a_run_that_is_killed_and_loses_nothing(data, in_turn, tmp_path):
    run, lock = tmp_path / "run", tmp_path / "run" / "refit-2" / LOCK
    arguments = [f"{name}={value!r}" for name, value in SMALL.items()]
    program = f"""
from longtail import Dataset, recipes
from longtail.stages import alongside
alongside._FEWEST = 0
recipes.unidec(Dataset.read({str(data.folder)!r}), out={str(run)!r}, {", ".join(arguments)})
"""
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "OMP_NUM_THREADS": "2"})
    try:
        until(lambda: lock.exists() and lock.read_text().strip())
        worker = int(lock.read_text())
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: not runs(worker))
    finally:
        process.kill()
    must_be_the_same(recipes.unidec(data, **SMALL, out=run), in_turn)


def runs(number):
    """Whether a process is there, and no dead one that nobody has asked about."""
    stat = Path(f"/proc/{number}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def asked(**different):
    device = SimpleNamespace(type=different.pop("device", "cpu"))
    run = SimpleNamespace(folder=different.pop("out", "run"), dry=False, ranks=SimpleNamespace(world=1), shards=None)
    run.device = device
    data = SimpleNamespace(folder=different.pop("data", "data"), train=range(different.pop("documents", 10_000)))
    return run, data, Options(encoder=different.pop("encoder", "bag")), different.pop("further", 3)


@pytest.mark.parametrize(
    ("different", "count"),
    [
        ({}, 3),
        ({"further": 1}, 2),
        ({"further": 0}, 1),
        ({"documents": 9_999}, 1),
        ({"out": None}, 1),
        ({"data": None}, 1),
        ({"device": "cuda"}, 1),
        ({"encoder": "lstm"}, 1),
    ],
    ids=str,
)
def test_runs_are_trained_at_once_where_threads_are_idle_and_others_can_read_the_same(monkeypatch, different, count):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert module.runs_at_once(*asked(**different)) == count
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert module.runs_at_once(*asked(**different)) == 1
