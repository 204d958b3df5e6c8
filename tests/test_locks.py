"""One process at a time works in a run; what a dead one left holds nobody up."""

from __future__ import annotations

import subprocess
import sys

import pytest
from waiting import until

from longtail import recipes
from longtail.errors import BadInput
from longtail.locks import LOCK, alone
from longtail.model.label_set import LabelSet
from longtail.stages.make_ensemble import ensemble
from longtail.testing.planted import planted

HOLDER = """
import pathlib, sys
from longtail.locks import alone
with alone(pathlib.Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def hold():
    """Start a process that works in a folder."""
    held = []

    def start(folder):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        held.append(subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], **pipes))
        assert held[-1].stdout.readline() == "mine\n"
        return held[-1]

    yield start
    for process in held:
        process.kill()
        process.communicate()


def test_another_process_is_named_until_it_ends(hold, tmp_path):
    process = hold(tmp_path / "run")
    line = rf"run: process {process.pid} works in this folder; wait for it, or end it$"
    with pytest.raises(BadInput, match=line), alone(tmp_path / "run"):
        pass
    process.kill()
    process.wait()
    assert (tmp_path / "run" / LOCK).exists()  # and holds nobody up
    with alone(tmp_path / "run"):
        pass
    assert not [*(tmp_path / "run").iterdir()]


def test_a_folder_into_which_nothing_came_goes_again(tmp_path):
    with alone(tmp_path / "new"):
        assert (tmp_path / "new" / LOCK).exists()
    assert not (tmp_path / "new").exists()
    with alone(None):
        pass
    with alone(tmp_path / "new"):
        (tmp_path / "new" / "x").touch()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x"]


def test_whoever_changes_a_run_as_a_whole_is_kept_out_and_labels_are_not(hold, run):
    data = planted(0, documents=400, test_documents=50, labels=120).dataset
    hold(run)
    labels = LabelSet(run, device="cpu")
    options = {"epochs": 2, "classifier_epochs": 2, "batch": 64, "width": 32, "validation": 0.2, "device": "cpu"}
    for change in (
        lambda: recipes.ngame(data, out=run, **options),
        lambda: ensemble(run, run, data, out=run, device="cpu"),
        labels.compact,
        labels.index,
    ):
        with pytest.raises(BadInput, match=r"process \d+ works in this folder"):
            change()
    labels.remove([labels.model.labels.uids[0]])
    labels.close()


STARTER = """
import sys
from longtail import recipes
from longtail.errors import LongtailError
from longtail.testing.planted import planted
from longtail.train.run import Run
from pathlib import Path

class Waiting(Run):
    def train(self, *arguments, **options):
        if self.plan is None:
            sys.stdin.readline()
        super().train(*arguments, **options)

data = planted(0, documents=100, test_documents=10, labels=16).dataset
print("ready", flush=True)
sys.stdin.readline()
run = Waiting(Path(sys.argv[1]), cache=Path(sys.argv[2]))
try:
    recipes.dpr(data, out=run, epochs=1, batch=64, width=16, device="cpu", seed=int(sys.argv[3]))
except LongtailError as error:
    sys.exit(str(error))
"""


def together(*arguments, until_one_has_ended=False):
    """Start processes, let them go at once, and wait for their ends: (status, errors) of each.

    They train at once as well, or not until one of them has ended.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", STARTER, *map(str, own)], **pipes) for own in arguments]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("\n" if until_one_has_ended else "\n\n")
            process.stdin.flush()
        if until_one_has_ended:
            until(lambda: any(process.poll() is not None for process in processes))
        said = [process.communicate(timeout=120)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return sorted((process.returncode, errors) for process, errors in zip(processes, said, strict=True))


def test_two_trainings_that_start_together(tmp_path):
    """With one cache both go well; for one folder one of them does."""
    cache = tmp_path / "cache"
    assert together(*((tmp_path / f"run-{seed}", cache, seed) for seed in range(2))) == [(0, ""), (0, "")]
    assert all(path.name.startswith("tokens-") for path in cache.iterdir())
    both = [(tmp_path / "one", cache, 0)] * 2
    (won, nothing), (lost, line) = together(*both, until_one_has_ended=True)
    assert (won, nothing, lost) == (0, "", 1)
    assert line.count("\n") == 1
    assert "works in this folder; wait for it" in line
