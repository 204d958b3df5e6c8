"""kill -9 at any moment loses at most the time since the last checkpoint, and the model ends bit-equal."""

from __future__ import annotations

import json
import random
import time

import pytest
from safetensors.numpy import load_file

OPTIONS = ("--epochs", 12, "--classifier-epochs", 12, "--batch", 64, "--width", 32, "--warmup", 10)
OPTIONS += ("--device", "cpu", "--checkpoint-every", 0.05)


def arrays(run):
    model = run / "model"
    return {
        f"{path.relative_to(model)} {name}": array
        for path in sorted(model.rglob("*.safetensors"))
        for name, array in load_file(path).items()
    }


@pytest.mark.parametrize("seed", [0])
def test_a_run_killed_at_random_moments_ends_as_an_unbroken_one(
    planted_folder, longtail, start_longtail, tmp_path, seed
):
    began = time.monotonic()
    status, _, errors = longtail("train", "ngame", planted_folder, "--out", tmp_path / "whole", *OPTIONS)
    assert status == 0, errors
    length = time.monotonic() - began

    killed, moments = tmp_path / "killed", random.Random(seed)
    deaths = 0
    for _ in range(4):
        if (killed / "run.json").exists():
            process = start_longtail("resume", killed, "--checkpoint-every", 0.05)
        else:
            process = start_longtail("train", "ngame", planted_folder, "--out", killed, *OPTIONS)
        time.sleep(length * moments.uniform(0.4, 0.95))
        process.kill()
        process.communicate()
        deaths += process.returncode == -9
    assert deaths >= 2
    status, _, errors = longtail("resume", killed)
    assert status == 0, errors

    whole = arrays(tmp_path / "whole")
    again = arrays(killed)
    assert whole.keys() == again.keys()
    for name, array in whole.items():
        assert (array == again[name]).all(), name
    steps = [
        (line["stage"], line["step"]) for line in map(json.loads, (killed / "metrics.jsonl").read_text().splitlines())
    ]
    assert len(set(steps)) == len(steps) == 24
    assert not list(killed.rglob(".*partial*"))
    assert not (killed / "tokens").exists()
