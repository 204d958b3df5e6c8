"""Recipes whose documents meet every label: stopped and resumed, with bad input, and what their logs say."""

from __future__ import annotations

import json

import numpy as np
import pytest

from longtail import LongtailError, recipes
from longtail.testing.planted import planted
from longtail.train import fit as module
from longtail.train.log import Log
from longtail.train.run import Run

SMALL = {"batch": 64, "width": 16, "warmup": 5, "epochs": 2, "seed": 3, "device": "cpu"}
OPTIONS = {"renee": {"start_epochs": 1, "bfloat16": True, "momentum": 0.9}, "dexml": {}}


class Crash(Exception):
    pass


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=400, labels=100).dataset


@pytest.mark.parametrize(("recipe", "crash_at"), [("renee", 3), ("renee", 9), ("dexml", 7)])
def test_a_run_that_was_stopped_ends_bit_equal(recipe, crash_at, data, tmp_path, monkeypatch):
    """Renee starts for 6 steps, and trains jointly for 12."""
    train, settings = recipes.RECIPES[recipe], {**SMALL, **OPTIONS[recipe]}
    whole = train(data, **settings)
    plain, taken = module.take_step, []

    def step(*arguments, seed):
        if seed and len(taken) == crash_at:  # the plan's trial steps have seed 0
            raise Crash
        taken.extend([seed] if seed else [])
        return plain(*arguments, seed=seed)

    with monkeypatch.context() as patch:
        patch.setattr(module, "take_step", step)
        with pytest.raises(Crash):
            train(data, out=Run(tmp_path / "run", interval=0.0), **settings)
    again = train(data, out=Run(tmp_path / "run", interval=0.0), **settings)
    assert whole.vectors.keys() == again.vectors.keys()
    for kind, vectors in whole.vectors.items():
        np.testing.assert_array_equal(vectors, again.vectors[kind])


@pytest.mark.parametrize("recipe", OPTIONS)
def test_the_log_says_that_the_pool_is_every_label(recipe, data, tmp_path):
    path = tmp_path / "metrics.jsonl"
    recipes.RECIPES[recipe](data, out=Run(None, Log(path)), **{**SMALL, **OPTIONS[recipe], "epochs": 1})
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["pool"] == 100


@pytest.mark.parametrize("recipe", OPTIONS)
def test_a_loss_that_there_is_not_is_said_before_training(recipe, data, monkeypatch):
    monkeypatch.setattr(module, "take_step", lambda *_, **__: pytest.fail("a step was taken"))
    with pytest.raises(LongtailError, match="expected one of decoupled_softmax, sup_con, binary_cross_entropy, found"):
        recipes.RECIPES[recipe](data, loss="triplet", **SMALL)


def test_the_bias_of_renee_is_in_the_scores_of_its_classifiers(data):
    """Ranks are those of the logits: inner product over temperature, plus the bias."""
    bundle = recipes.renee(data, **SMALL, start_epochs=1, temperature=0.1, bias=-3.0, classifier_learning_rate=0.0)
    assert bundle.vectors["classifier"].shape == (100, 17)
    np.testing.assert_allclose(bundle.vectors["classifier"][:, -1], -0.3, rtol=1e-6)
    norms = np.linalg.norm(bundle.vectors["classifier"][:, :-1], axis=1)
    assert ((np.abs(norms - 1) < 1e-5) | (norms == 0)).all()  # where they started: at the texts


def test_a_step_of_renees_classifiers_goes_with_the_batch(data, monkeypatch):
    """The gradient is that of a mean over documents, so that the rate is that of a sum times the batch."""
    plain, rates = module.take_step, set()

    def step(objective, batch, optimizer, *, seed):
        if seed:
            rates.add(optimizer.param_groups[-1]["initial_lr"])
        return plain(objective, batch, optimizer, seed=seed)

    monkeypatch.setattr(module, "take_step", step)
    for batch in (32, 64):
        options = {**SMALL, "epochs": 1, "batch": batch, "start_epochs": 0, "classifier_learning_rate": 0.001}
        recipes.renee(data, **options)
    assert {0.032, 0.064} <= rates
