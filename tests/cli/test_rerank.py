"""``longtail rerank`` in real processes."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from ordered import NAMES, ordered
from safetensors.numpy import load_file
from tiny_bert import write_fresh_bert

QUICK = ("--candidates", 4, "--negatives", 3, "--batch", 32, "--learning-rate", 3e-3, "--max-length", 16)


@pytest.fixture(scope="module")
def runs(longtail, tmp_path_factory):
    """A folder with data, a fresh transformer, and a run."""
    folder = tmp_path_factory.mktemp("runs")
    ordered(400).write(folder / "data")
    write_fresh_bert(folder / "bert", NAMES)
    given = ("--epochs", 3, "--width", 16, "--batch", 64, "--validation", 0.25, "--no-refit", "--no-memory")
    status, _, errors = longtail("train", "unidec", folder / "data", "--out", folder / "base", *given)
    assert status == 0, errors
    return folder


def test_a_reranked_run_is_a_run(runs, longtail, tmp_path):
    command = ("rerank", runs / "base", "--encoder", runs / "bert", "--epochs", 12, *QUICK)
    status, output, errors = longtail(*command, "--dry-run", "--out", tmp_path / "run")
    assert status == 0, errors
    said = " ".join(output.split())
    assert "pairs of held-out documents" in said
    assert "hard negatives" in said
    assert "stage cross-encoder 12 epochs" in said
    assert not (tmp_path / "run").exists()
    status, output, errors = longtail(*command, "--out", tmp_path / "run")
    assert status == 0, errors
    said = " ".join(output.split())
    assert "cross-encoder kept: the mean of P@1, P@3 and P@5" in said
    assert "pairs a second" in said
    assert "it ranks by its reranked score" in said
    status, _, errors = longtail("evaluate", tmp_path / "run", "--json", tmp_path / "found.json", "--report", tmp_path)
    assert status == 0, errors
    kinds = json.loads((tmp_path / "found.json").read_text())["kinds"]
    assert kinds["reranked"]["P@1"] > kinds["fused"]["P@1"] + 10
    again = f"longtail rerank {runs / 'base'} --encoder {runs / 'bert'} --candidates 4 --epochs 12 --negatives 3"
    assert again in (tmp_path / "report.html").read_text()
    status, output, errors = longtail("predict", tmp_path / "run", stdin=f"{NAMES[2]} {NAMES[4]}\n")
    assert status == 0, errors
    assert NAMES[2] in output
    assert longtail("show", tmp_path / "run")[0] == 0
    assert longtail("errors", tmp_path / "run", "--out", tmp_path / "errors.html")[0] == 0


def arrays(run):
    files = sorted((run / "model").rglob("*.safetensors"))
    return {f"{path.relative_to(run)} {name}": array for path in files for name, array in load_file(path).items()}


def test_a_reranking_that_is_killed_ends_as_an_unbroken_one(runs, longtail, start_longtail, tmp_path):
    command = ("rerank", runs / "base", "--encoder", runs / "bert", "--epochs", 6, *QUICK, "--device", "cpu")
    status, _, errors = longtail(*command, "--out", tmp_path / "whole")
    assert status == 0, errors
    killed = tmp_path / "killed"
    process = start_longtail(*command, "--out", killed, "--checkpoint-every", 0.05)
    deadline = time.monotonic() + 120
    while process.poll() is None and not list(killed.glob("stages/*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert not (killed / "model").exists()
    status, _, errors = longtail("resume", killed)
    assert status == 0, errors
    whole, again = arrays(tmp_path / "whole"), arrays(killed)
    assert whole.keys() == again.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(array, again[name], err_msg=name)


def test_what_cannot_be_reranked_is_said_in_a_line(runs, longtail, tmp_path):
    for given, words in (
        ((runs / "base", "--encoder", "bag", "--out", tmp_path / "run"), "--encoder: expected a transformer"),
        ((runs / "base", "--encoder", runs / "bert"), "--out: expected a folder for the run, found none"),
        ((runs / "base", "--encoder", runs / "bert", "--out", runs / "base"), "expected a new folder, found a run"),
        ((tmp_path, "--encoder", runs / "bert", "--out", tmp_path / "run"), "expected the settings of a run"),
        (
            (runs / "base", "--encoder", runs / "bert", "--epochs", 0, "--out", tmp_path / "run"),
            "--epochs: expected a cross-encoder to be taken as it is",
        ),
    ):
        status, _, errors = longtail("rerank", *given)
        assert status == 1
        assert words in " ".join(errors.split())
        assert len(errors.strip().splitlines()) == 1
        assert not (tmp_path / "run" / "run.json").exists()
