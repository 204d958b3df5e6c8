"""What `runs` and `show` say of folders: finished, stopped, trained just now, broken, and none at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from longtail.files import write_json
from longtail.report.run_summary import RunSummary, runs_below
from longtail.units import elapsed, spark

EVALUATION = {"n": 50, "kinds": {"fused": {"P@1": 61.254, "P@3": 40.0, "PSP@5": 7.0}, "encoder": {"P@1": 33.0}}}


@pytest.fixture
def folder(trained, tmp_path):
    """A finished run, a stopped one in a folder of its own, and what is none."""
    shutil.copytree(trained, tmp_path / "runs" / "done")
    shutil.copytree(trained, tmp_path / "runs" / "others" / "stopped")
    shutil.rmtree(tmp_path / "runs" / "others" / "stopped" / "model")
    (tmp_path / "runs" / "notes").mkdir()
    write_json(tmp_path / "runs" / "done" / "evaluation.json", EVALUATION)
    return tmp_path / "runs"


def test_a_summary_is_what_the_run_was(folder, trained):
    run = RunSummary.of(folder / "done")
    assert (run.recipe, run.state, run.data, run.labels) == ("ngame", "finished", None, 120)
    assert run.arguments == {
        "epochs": 2, "classifier_epochs": 2, "batch": 64, "width": 32, "validation": 0.2, "tail_price": 0.0,
        "device": "cpu",
    }  # fmt: skip
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    terms = [line["terms"] for line in lines if line.get("stage") == "encoder"]
    assert len(terms) == 2
    assert run.curves["encoder"] == {name: [one[name] for one in terms] for name in terms[0]}
    assert set(run.epochs.values()) == {2}
    assert run.kinds == ["encoder", "classifier", "fused"]
    assert run.headline == ("fused", {"P@1": 61.254, "PSP@5": 7.0})
    assert run.bytes == sum(path.stat().st_size for path in (folder / "done").rglob("*") if path.is_file())
    assert 0 <= run.age < 3600
    assert RunSummary.of(folder / "others" / "stopped").state == "stopped"
    assert RunSummary.of(folder / "others" / "stopped").headline == ("", {})


def test_a_run_that_a_process_works_on_is_in_training(folder):
    run = folder / "others" / "stopped"
    (run / ".lock").write_text("999999999\n")
    assert RunSummary.of(run).state == "stopped"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        (run / ".lock").write_text(f"{process.pid}\n")
        assert RunSummary.of(run).state == "training"


def test_a_run_of_a_comparison_is_finished_without_a_model(folder):
    run = folder / "others" / "stopped"
    (run / "prediction.json").write_text("{}")  # of a peer, or of a run whose model was removed for its room
    assert RunSummary.of(run).state == "finished"


def test_runs_within_a_run_are_a_part_of_it(folder):
    shutil.copytree(folder / "others" / "stopped", folder / "done" / "linker")
    assert [path.name for path in runs_below(folder)] == ["done", "stopped"]
    assert {"encoder", "linker/encoder"} <= RunSummary.of(folder / "done").curves.keys()
    assert [path.name for path in runs_below(folder / "done")] == ["done"]


def test_runs_are_listed_the_newest_last_with_their_scores(folder, longtail):
    os.utime(folder / "done" / "run.json", (0, 0))
    for name in ("metrics.jsonl", "cost.json"):
        os.utime(folder / "done" / name, (time.time() - 7200 * 5,) * 2)
    status, output, errors = longtail("runs", folder)
    assert (status, errors) == (0, "")
    done, stopped = (line.split() for line in output.splitlines() if "ngame" in line)
    assert done[0] == "done"
    assert "finished" in done
    assert "61.25" in done
    assert done[-2:] == ["10", "h"]
    assert "stopped" in stopped
    assert "others/stopped" in "".join(output.split())
    assert output.index("done") < output.index("others")
    status, output, errors = longtail("runs", folder, "--json", "-")
    found = json.loads(output)
    assert [(one["state"], one["headline"]) for one in found] == [
        ("finished", {"P@1": 61.254, "PSP@5": 7.0}), ("stopped", {})
    ]  # fmt: skip
    assert found[0]["cost"]["seconds"] > 0


def test_show_prints_the_card_and_what_to_do_next(folder, longtail):
    status, output, errors = longtail("show", folder / "done")
    assert (status, errors) == (0, "")
    for said in ("ngame, finished", "epochs 2", "classifier_epochs 2", "120 labels", "fused", "P@1 61.25", "█"):
        assert said in output
    assert "Next:" not in output
    (folder / "done" / "evaluation.json").unlink()
    assert "Next: longtail evaluate" in longtail("show", folder / "done")[1]
    assert (
        f"Next: longtail resume {folder / 'others' / 'stopped'}" in longtail("show", folder / "others" / "stopped")[1]
    )
    assert json.loads(longtail("show", folder / "done", "--json", "-")[1])["recipe"] == "ngame"


def test_what_is_broken_is_a_warning_among_runs_and_refused_alone(folder, longtail, tmp_path):
    (folder / "others" / "stopped" / "run.json").write_text("{")
    status, output, errors = longtail("runs", folder)
    assert status == 0
    assert "done" in output
    assert errors.startswith("warning: ")
    assert errors.count("\n") == 1
    assert longtail("show", folder / "others" / "stopped")[0] == 1
    assert longtail("runs", tmp_path / "nothing")[0] == 1
    assert longtail("runs", folder / "notes")[1] == f"no runs in {folder / 'notes'}\n"


def test_curves_and_ages_for_people():
    assert spark([3.0, 2.0, 1.0]) == "█▅▁"
    assert spark([1.0]) == "▁"
    assert spark([2.0, 2.0]) == "▁▁"
    many = spark([float(i) for i in range(1000)])
    assert len(many) == 40
    assert (many[0], many[-1]) == ("▁", "█")
    assert [elapsed(seconds) for seconds in (5, 600, 36_000, 400_000)] == ["5 s", "10.0 min", "10 h", "5 days"]
