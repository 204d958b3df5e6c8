"""Trackers: what each is told, that a resumed run goes on there, and that none of them can end a training."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

from longtail.cli.train import resume, train_app
from longtail.errors import BadInput, MissingExtra
from longtail.files import write_json
from longtail.testing.planted import planted
from longtail.train.log import Log, read_log
from longtail.train.progress import SCHEMA
from longtail.train.trackers import TRACKERS, Tracking, trackers_named, trackers_of

LINE = {"stage": "joint", "epoch": 1, "step": 7, "seconds": 2.0, "terms": {"encoder": 0.5}, "score": 61.0}
VALUES = {"joint/epoch": 1, "joint/step": 7, "joint/seconds": 2, "joint/encoder": 0.5, "joint/score": 61}


@pytest.fixture
def folder(tmp_path):
    said = {"recipe": "unidec", "arguments": {"epochs": 2}, "hashes": {}, "data": "shop", "schema": SCHEMA}
    write_json(tmp_path / "run" / "run.json", said)
    return tmp_path / "run"


class Calls(list):
    """Stands for a module: keeps the calls of some of its functions."""

    def function(self, name, answer=None):
        def called(*args, **kwargs):
            self.append((name, args, kwargs))
            return answer

        return called


@pytest.fixture
def mlflow(monkeypatch):
    calls = Calls()
    started = calls.function("start_run", SimpleNamespace(info=SimpleNamespace(run_id="of-mlflow")))
    others = {name: calls.function(name) for name in ("log_params", "log_metrics", "end_run")}
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(__spec__=object(), start_run=started, **others))
    return calls


@pytest.fixture
def wandb(monkeypatch):
    calls = Calls()
    run = SimpleNamespace(id="of-wandb", **{name: calls.function(name) for name in ("define_metric", "log", "finish")})
    module = SimpleNamespace(__spec__=object(), init=calls.function("init", run))
    monkeypatch.setitem(sys.modules, "wandb", module)
    return calls


def track(folder, *names, lines=(LINE,), finished=True):
    said = []
    tracking = Tracking(folder, names, said.append)
    for line in lines:
        tracking.line(line)
    tracking.end(finished=finished)
    return said


def test_mlflow(folder, mlflow):
    assert track(folder, "mlflow", finished=False) == []
    arguments = {"recipe": "unidec", "data": "shop", "epochs": 2}
    told = [("log_metrics", (VALUES,), {"step": 7}), ("end_run", ("KILLED",), {})]
    first = ("start_run", (), {"run_id": None, "run_name": "run"})
    assert mlflow == [first, ("log_params", (arguments,), {}), *told]
    mlflow.clear()
    track(folder, "mlflow")  # the same run, which was resumed
    assert mlflow == [
        ("start_run", (), {"run_id": "of-mlflow", "run_name": "run"}),
        told[0],
        ("end_run", ("FINISHED",), {}),
    ]


def test_weights_and_biases(folder, wandb):
    assert track(folder, "wandb") == []
    started = {"resume": "allow", "name": "run", "dir": str(folder)}
    config = {"recipe": "unidec", "data": "shop", "epochs": 2}
    assert wandb == [
        ("init", (), {"id": None, "config": config, **started}),
        ("define_metric", ("joint/*",), {"step_metric": "joint/step"}),
        ("log", (VALUES,), {}),
        ("finish", (), {"exit_code": 0}),
    ]
    wandb.clear()
    track(folder, "wandb", finished=False)
    assert wandb[0][2]["id"] == "of-wandb"
    assert wandb[-1] == ("finish", (), {"exit_code": 1})


def scalars(folder):
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_tensorboard(folder):
    assert track(folder, "tensorboard") == []
    assert scalars(folder) == {name: [(7, value)] for name, value in VALUES.items()}
    assert track(folder, "tensorboard", lines=[{**LINE, "epoch": 2, "step": 14}]) == []
    assert scalars(folder)["joint/encoder"] == [(7, 0.5), (14, 0.5)]
    assert trackers_of(folder) == ("tensorboard",)


def test_lines_that_close_no_epoch_are_none_of_theirs_and_nothing_begins_without_one(folder, mlflow):
    track(folder, "mlflow", lines=[{"plan": {}}, {"stage": "joint", "step": 3, "clusters": 5}])
    assert mlflow == []
    assert not (folder / "tracked.json").exists()


@pytest.mark.parametrize("where", ["make", "epoch", "end"])
def test_one_that_fails_is_left_out_with_one_line_and_the_others_go_on(folder, mlflow, monkeypatch, where):
    class Failing:
        def __init__(self, run):
            self._fail("make")

        def _fail(self, here):
            if here == where:
                raise SystemError("no\nnetwork")

        def epoch(self, values, step):
            self._fail("epoch")

        def end(self, *, finished):
            self._fail("end")

    monkeypatch.setitem(TRACKERS, "wandb", TRACKERS["wandb"]._replace(make=Failing))
    said = track(folder, "wandb", "mlflow", lines=[LINE, {**LINE, "epoch": 2}])
    assert said == ["warning: wandb is told no more of this run (no network); metrics.jsonl has all of it"]
    assert [name for name, *_ in mlflow] == ["start_run", "log_params", "log_metrics", "log_metrics", "end_run"]


def test_the_log_tells_its_listener_also_of_runs_within(tmp_path):
    told = []
    log = Log(None, None, SimpleNamespace(line=lambda fields, within: told.append((within, fields))))
    log.write(stage="a", epoch=1)
    log.within(tmp_path / "metrics.jsonl", "linker").write(stage="b", epoch=1)
    log.within(None, "linker").within(None, "refit").write(stage="c", epoch=1)
    assert [(within, fields["stage"]) for within, fields in told] == [
        ("", "a"),
        ("linker/", "b"),
        ("linker/refit/", "c"),
    ]
    assert read_log(tmp_path / "metrics.jsonl") == [{"stage": "b", "epoch": 1}]


def test_names_are_checked_before_anything_begins(monkeypatch):
    assert trackers_named(None) == ()
    assert trackers_named("tensorboard, tensorboard") == ("tensorboard",)
    with pytest.raises(BadInput, match="track: expected some of tensorboard, mlflow, wandb, found comet"):
        trackers_named("tensorboard,comet")
    monkeypatch.setitem(TRACKERS, "wandb", TRACKERS["wandb"]._replace(package="no_such_package"))
    with pytest.raises(MissingExtra, match=r"tracking by wandb needs .* pip install 'longtail\[wandb\]'"):
        trackers_named("wandb")


def test_a_run_is_tracked_from_the_command_line_and_when_it_is_resumed(tmp_path, mlflow, monkeypatch):
    planted(0, documents=200, test_documents=20, labels=32).dataset.write(tmp_path / "data")
    run = tmp_path / "run"
    words = ["dpr", str(tmp_path / "data"), "--out", str(run), "--epochs", "2", "--width", "16", "--device", "cpu"]
    done = CliRunner().invoke(train_app, [*words, "--track", "tensorboard,mlflow"])
    assert done.exit_code == 0, done.exception
    found, lines = scalars(run), [line for line in read_log(run / "metrics.jsonl") if "epoch" in line]
    assert [step for step, _ in found["encoder/triplet"]] == [line["step"] for line in lines]
    assert [round(value, 4) for _, value in found["encoder/triplet"]] == [
        round(line["terms"]["triplet"], 4) for line in lines
    ]
    assert json.loads((run / "tracked.json").read_text()) == {"tensorboard": "tensorboard", "mlflow": "of-mlflow"}
    assert [name for name, *_ in mlflow] == ["start_run", "log_params", "log_metrics", "log_metrics", "end_run"]
    mlflow.clear()
    (run / "stages" / "encoder.safetensors").unlink()
    for left in (run / "model").iterdir():
        left.unlink() if left.is_file() else None
    resume(run)
    assert mlflow[0] == ("start_run", (), {"run_id": "of-mlflow", "run_name": "run"})
    assert len(scalars(run)["encoder/triplet"]) == 4
