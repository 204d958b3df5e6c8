"""A recipe that trains as long as a budget allows."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console
from stopping import stopped_after

from longtail import recipes
from longtail.compare.methods import Method
from longtail.errors import BadInput
from longtail.stages.finished import Finished, arguments_of
from longtail.stages.start import must_not_have_seen
from longtail.stages.unseen import why_none_held_out
from longtail.testing.planted import planted
from longtail.train.log import Log
from longtail.train.plan import Plan, Planned
from longtail.train.progress import settings_of
from longtail.train.run import Run

SMALL = {"batch": 64, "random_negatives": 16, "width": 8, "warmup": 5, "device": "cpu"}
STEP = 1000.0  # seconds, so that what a test itself takes is nothing beside it
SLACK = 1.25  # what a budget has to have for each second of a plan


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=320, labels=60).dataset


@pytest.fixture
def measured(monkeypatch):
    """Each step takes the same, and all else nothing; what is measured is counted."""
    counted = []

    def step(*_):
        counted.append("step")
        return STEP

    monkeypatch.setattr("longtail.train.plan.seconds_a_step", step)
    monkeypatch.setattr("longtail.train.rates.timed", lambda action, device: 0.0)
    return counted


def stages_of(data, recipe="dpr", run=None, **options):
    """The stages that the plan of a dry run has."""
    plans = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "table", lambda plan: plans.append(plan) or "")
        with pytest.raises(Planned):
            recipes.RECIPES[recipe](data, out=run or Run(None, dry=True), **{**SMALL, **options})
    return plans[-1].stages


def epochs_of(data, recipe="dpr", run=None, **options):
    """The epochs of these stages."""
    return {stage.stage: stage.epochs for stage in stages_of(data, recipe, run, **options)}


@pytest.mark.parametrize(
    ("epochs", "budget", "chosen"),
    [
        (6, 5, 1),  # 320 documents are 5 steps of 64
        (6, 9, 1),
        (6, 27, 5),
        (6, 30, 6),
        (6, 1e6, 12),  # twice as many, and no more
        (3, 1e6, 6),
    ],
)
def test_the_most_epochs_that_fit_are_chosen(data, measured, epochs, budget, chosen):
    assert epochs_of(data, epochs=epochs, budget=(budget * SLACK + 0.5) * STEP) == {"encoder": chosen}
    assert measured == ["step"]  # once, however many plans were made


def test_a_budget_is_for_all_stages(data, measured):
    """5 steps of an epoch of the encoder, and 5 in each of two epochs of the classifiers."""
    held_out = {"validation": 0.0, "classifier_epochs": 2}
    assert epochs_of(data, "ngame", budget=26 * SLACK * STEP, **held_out) == {"encoder": 3, "classifiers": 2}


def runs_of(data, **options):
    """The epochs of a run and of those on all documents, as a plan has them."""
    stages = stages_of(data, "unidec", **options)
    assert [stage.stage for stage in stages] == ["joint", "refit joint"][: len(stages)]
    return [stage.epochs for stage in stages for _ in range(stage.times)]


@pytest.mark.parametrize(
    ("options", "budget", "chosen"),
    [
        ({}, 21, [4]),  # an epoch of 304 or 320 documents is 5 steps
        ({}, 59, [6]),  # in place of 5 epochs of two runs, which fit, too
        ({}, 61, [6, 6]),
        ({}, 91, [6, 6, 6]),
        ({}, 1e6, [6, 6, 6, 6]),
        ({"epochs": 2}, 21, [2, 2]),
        ({"epochs": 2, "refits": 4}, 39, [2, 2, 2]),
        ({"epochs": 1, "refits": 5}, 1e6, [1, 1, 1, 1, 1, 1]),  # more than a budget takes by itself
        ({"refit": False}, 59, [11]),
        ({"refit": False}, 1e6, [12]),
        ({"validation": 0.0}, 1e6, [12]),  # nothing is held out that could be given back
        ({"projection": 4}, 1e6, [6, 6]),  # two such runs do not rank together
        ({"fields_apart": True, "fields": ("title", "content")}, 1e6, [6, 6]),
    ],
)
def test_a_budget_is_for_further_runs_once_one_has_its_epochs(data, measured, options, budget, chosen):
    options = {"refit": True, "validation": 0.05, "epochs": 6} | options
    assert runs_of(data, budget=budget * SLACK * STEP, **options) == chosen


def test_of_a_transformer_a_budget_takes_one_run_on_all_documents(data, measured, tiny_bert):
    options = {"refit": True, "validation": 0.05, "encoder": str(tiny_bert), "width": 32, "max_length": 16, "epochs": 6}
    assert runs_of(data, budget=1e6 * STEP, **options) == [6, 6]


def test_time_that_has_passed_is_a_part_of_the_budget(data, measured):
    run = Run(None, dry=True)
    run.since -= 10 * STEP
    assert epochs_of(data, run=run, budget=(21 * SLACK + 10) * STEP) == {"encoder": 4}


def test_auto_within_a_budget_is_at_most_what_fits(data, measured):
    found = epochs_of(data, "unidec", epochs="auto", validation=0.05, budget=26 * SLACK * STEP)
    assert str(found["joint"]) == "at most 5"
    assert str(epochs_of(data, "unidec", epochs="auto", validation=0.05, budget=1e6 * STEP)["joint"]) == "at most 24"


def test_what_does_not_fit_is_one_line_and_leaves_the_folder_free(data, measured, tmp_path):
    with pytest.raises(BadInput) as refused:
        recipes.dpr(data, out=tmp_path / "run", budget="10m", **SMALL)
    assert str(refused.value) == (
        "budget: expected at least 104.2 min, which one epoch with all that comes before and after it takes, found "
        "10m; give more, or make the run smaller"
    )
    assert not (tmp_path / "run" / "run.json").exists()


def test_the_choice_is_said_and_kept_beside_what_was_asked(data, measured, tmp_path):
    told = io.StringIO()
    run = Run(tmp_path / "run", Log(tmp_path / "run" / "metrics.jsonl", Console(file=told, width=120)))
    model = recipes.dpr(data, out=run, budget=11 * SLACK * STEP, **SMALL)
    assert "\nbudget of 13750s: epochs=2, about 2.8 h\n" in told.getvalue()
    settings = settings_of(tmp_path / "run")
    assert (settings["arguments"]["budget"], settings["arguments"]["epochs"]) == (11 * SLACK * STEP, 6)
    assert settings["chosen"] == {"epochs": 2}
    np.testing.assert_array_equal(model.vectors["encoder"], recipes.dpr(data, epochs=2, **SMALL).vectors["encoder"])
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chosen": {"epochs": 3}}))
    with pytest.raises(BadInput, match=r"run\.json: expected another recipe, arguments, hashes"):
        settings_of(tmp_path / "run")


@pytest.mark.parametrize(
    "steps", [pytest.param(0, marks=pytest.mark.slow), 4, pytest.param(12, marks=pytest.mark.slow), 24]
)
def test_a_run_with_a_budget_that_was_stopped_measures_nothing_again(data, monkeypatch, tmp_path, steps):
    monkeypatch.setattr("longtail.train.plan.seconds_a_step", lambda *_: STEP)
    monkeypatch.setattr("longtail.train.rates.timed", lambda action, device: 0.0)
    options = {**SMALL, "budget": 32 * SLACK * STEP, "refit": True, "epochs": 2, "validation": 0.05, "refresh_from": 1}
    stopped_after(steps, lambda: recipes.unidec(data, out=Run(tmp_path / "run", interval=0.0), **options))
    monkeypatch.setattr("longtail.train.plan.seconds_a_step", lambda *_: 2 * STEP)
    again = recipes.unidec(data, out=tmp_path / "run", **options)
    assert settings_of(tmp_path / "run")["chosen"] == {"epochs": 2, "refits": 2}
    unbroken = recipes.unidec(data, **{**options, "budget": None, "refits": 2})
    for kind, vectors in unbroken.vectors.items():
        np.testing.assert_array_equal(again.vectors[kind], vectors)
    np.testing.assert_array_equal(again.fusion.weights, unbroken.fusion.weights)


def test_a_run_whose_budget_left_further_runs_out_has_not_seen_what_it_held_out(data, measured, tmp_path):
    """So another run may start from it, be joined to it, or rerank it, whatever ``refit`` was asked for."""
    run, options = tmp_path / "run", {**SMALL, "refit": True, "epochs": 2, "validation": 0.1}
    model = recipes.unidec(data, out=run, budget=11 * SLACK * STEP, **options)
    settings = settings_of(run)
    assert (settings["chosen"], settings["arguments"]["refit"]) == ({"epochs": 2, "refit": False}, True)
    assert arguments_of(run, data)["refit"] is False
    np.testing.assert_array_equal(Finished.of(run, data, "cpu").before.fusion.weights, model.fusion.weights)
    must_not_have_seen(run, data, 0.1, 0)
    assert why_none_held_out(settings, model, None, data) is None


def test_a_comparison_reads_it():
    method = Method.parse("one=unidec:budget=10m")
    assert method.arguments == {"budget": 600.0}
    assert Method.parse(method.text).arguments == method.arguments
