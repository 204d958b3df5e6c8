"""kill -9 at any moment loses at most the time since the last checkpoint, and the model ends bit-equal."""

from __future__ import annotations

import json
import random
import signal
import time
from contextlib import suppress

import pytest
from safetensors.numpy import load_file

EPOCHS = 20
OPTIONS = ("--epochs", EPOCHS, "--batch", 64, "--width", 32, "--warmup", 10)
OPTIONS += ("--device", "cpu", "--checkpoint-every", 0.05)
STAGES = {
    "ngame": ("encoder", "classifiers"),
    "unidec": ("joint",),
    "oak": ("encoder", "classifiers", "plain-classifier"),
}
MORE = {
    "ngame": ("--classifier-epochs", EPOCHS),
    "unidec": (),
    "oak": ("--classifier-epochs", EPOCHS, "--linker-epochs", 4),
}


def arrays(run):
    model = run / "model"
    return {
        f"{path.relative_to(model)} {name}": array
        for path in sorted(model.rglob("*.safetensors"))
        for name, array in load_file(path).items()
    }


def changed(folder):
    """When the newest checkpoint or finished stage was written, or 0."""
    times = []
    with suppress(FileNotFoundError):  # of a temporary folder that goes meanwhile
        # of the run, and of the runs of linkers in it
        times.extend(path.stat().st_mtime_ns for path in folder.rglob("stages/*.safetensors"))
    return max(times, default=0)


def kill_in_the_middle(process, run, delay):
    """Wait until a run has made some progress, and a while longer, then kill it."""
    before = changed(run)
    deadline = time.monotonic() + 120
    while process.poll() is None and changed(run) == before and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(delay)
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=pytest.mark.slow if name != "unidec" else ()) for name in STAGES]
)
def test_a_run_killed_at_random_moments_ends_as_an_unbroken_one(
    recipe, planted_folder, longtail, start_longtail, tmp_path
):
    options = (*OPTIONS, *MORE[recipe])
    status, _, errors = longtail("train", recipe, planted_folder, "--out", tmp_path / "whole", *options)
    assert status == 0, errors

    killed, moments = tmp_path / "killed", random.Random(0)
    deaths = 0
    for _ in range(3):
        if (killed / "run.json").exists():
            process = start_longtail("resume", killed, "--checkpoint-every", 0.05)
        else:
            process = start_longtail("train", recipe, planted_folder, "--out", killed, *options)
        deaths += kill_in_the_middle(process, killed, moments.uniform(0, 0.4))
    assert deaths >= 2
    status, _, errors = longtail("resume", killed)
    assert status == 0, errors

    whole, again = arrays(tmp_path / "whole"), arrays(killed)
    assert whole.keys() == again.keys()
    for name, array in whole.items():
        assert (array == again[name]).all(), name
    lines = [json.loads(line) for line in (killed / "metrics.jsonl").read_text().splitlines()]
    expected = [(stage, epoch + 1) for stage in STAGES[recipe] for epoch in range(EPOCHS)]
    assert [(line["stage"], line["epoch"]) for line in lines if "epoch" in line] == expected
    assert not list(killed.rglob(".*partial*"))
    assert not (killed / "tokens").exists()
