"""Documents that were held out for the fusion are given back."""

from __future__ import annotations

import gc
import json
import shutil
import weakref

import numpy as np
import pytest
import torch

from longtail import load, recipes
from longtail.errors import BadInput
from longtail.model.narrowing import narrowed
from longtail.model.side_by_side import side_by_side
from longtail.report.errors import errors_of_run
from longtail.stages.held_out import FusionOptions
from longtail.stages.make_ensemble import ensemble
from longtail.stages.refit import before_refit
from longtail.testing.planted import planted
from longtail.train.fit import fit
from longtail.train.log import Log
from longtail.train.run import Run

SMALL = {
    "batch": 256,
    "random_negatives": 32,
    "width": 8,
    "warmup": 5,
    "epochs": 1,
    "device": "cpu",
    "validation": 0.05,
}


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=200, test_documents=16, labels=64).dataset


def test_a_refit_is_beside_a_run_on_every_document_with_the_fusion_of_the_first(data, tmp_path):
    first = recipes.unidec(data, **SMALL, refit=False)
    whole = recipes.unidec(
        data, **{**SMALL, "validation": 0.0, "seed": FusionOptions(refit=True).for_refit()[0]["seed"]}
    )
    both = side_by_side(first, whole)
    run = Run(tmp_path / "run", Log(tmp_path / "run" / "metrics.jsonl"))
    refit = recipes.unidec(data, **SMALL, refit=True, out=run)
    for kind in ("encoder", "classifier"):
        np.testing.assert_array_equal(refit.vectors[kind], both.vectors[kind])
        assert not np.array_equal(both.vectors[kind][:, :8], first.vectors[kind][:, :8])
    assert refit.kinds == first.kinds
    np.testing.assert_array_equal(refit.fusion.weights, first.fusion.weights)
    np.testing.assert_array_equal(refit.fusion.frequency, np.asarray((data.train.targets > 0).sum(0)).ravel())
    assert refit.fusion.frequency.sum() > first.fusion.frequency.sum()
    # resumed from its stages it is the same, and its plan has both parts
    assert not (tmp_path / "run" / "refit" / "model").exists()
    (tmp_path / "run" / "model" / "labels.safetensors").unlink()
    again = recipes.unidec(data, **SMALL, refit=True, out=tmp_path / "run")
    np.testing.assert_array_equal(again.vectors["classifier"], refit.vectors["classifier"])
    np.testing.assert_array_equal(again.fusion.frequency, refit.fusion.frequency)
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    plan = next(line["plan"] for line in lines if "plan" in line)
    assert [stage["stage"] for stage in plan["stages"]] == ["joint", "refit joint"]
    assert plan["stages"][1]["rows"] == len(data.train) > plan["stages"][0]["rows"]


def test_several_refits_rank_beside_the_first_and_go_on_where_they_were_stopped(data, tmp_path, monkeypatch):
    asked = {**SMALL, "refit": True, "refits": 3}
    first, made, stages = recipes.unidec(data, **SMALL, refit=False), recipes.unidec(data, **asked), []
    assert made.encoder.width == 4 * first.encoder.width
    parts = np.split(made.vectors["classifier"][:, :32], 4, axis=1)
    np.testing.assert_allclose(2 * parts[0], first.vectors["classifier"][:, :8], rtol=1e-5)
    assert not any(np.allclose(parts[i], parts[j], atol=1e-3) for i in range(4) for j in range(i))
    np.testing.assert_array_equal(made.fusion.weights, first.fusion.weights)

    def stopped(*given, stage, **others):
        stages.append(stage)
        if len(stages) == 3:
            raise KeyboardInterrupt
        fit(*given, stage=stage, **others)

    monkeypatch.setattr("longtail.train.run.fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        recipes.unidec(data, **asked, out=tmp_path / "run")
    again = recipes.unidec(data, **asked, out=tmp_path / "run")
    np.testing.assert_array_equal(again.vectors["classifier"], made.vectors["classifier"])
    assert not [*(tmp_path / "run").glob("refit*/model")]
    assert len([*(tmp_path / "run").glob("refit*")]) == 3


def test_the_models_of_several_refits_are_let_go_once_they_are_one(data, monkeypatch):
    """A model of four bags is as large as they are, so whoever held them would hold everything twice."""
    models, alive = [], []

    def joined(*four):
        models.extend(weakref.ref(one.encoder) for one in four)
        return side_by_side(*four)

    def narrowing(model, documents):
        gc.collect()
        alive.extend(one() is not None for one in models)
        return narrowed(model, documents)

    monkeypatch.setattr("longtail.stages.refit.side_by_side", joined)
    monkeypatch.setattr("longtail.stages.refit.narrowed", narrowing)
    recipes.unidec(data, **SMALL, refit=True, refits=3)
    assert alive == [False] * 4


def test_what_cannot_rank_together_is_refused_before_it_is_trained(data, tmp_path):
    with pytest.raises(BadInput, match="refits: expected refit, and documents that are held out"):
        recipes.unidec(data, **SMALL, refit=False, refits=2)
    with pytest.raises(BadInput, match="refits: only models whose one encoder is a bag of words rank together; leave"):
        recipes.unidec(data, **SMALL, refit=True, refits=2, encoder="lstm", max_length=4, out=tmp_path / "run")
    assert not (tmp_path / "run" / "stages").exists()


def test_what_learns_no_fusion_is_trained_once(data, tmp_path):
    run = Run(tmp_path / "run")
    model = recipes.ngame(data, **SMALL | {"validation": 0.0}, classifier_epochs=0, refit=True, out=run)
    assert model.kinds == ("encoder",)
    assert not (tmp_path / "run" / "refit").exists()


def test_an_encoder_alone_is_trained_again_too(data, tmp_path):
    model = recipes.ngame(data, **SMALL, classifier_epochs=0, refit=True, out=tmp_path / "run")
    assert model.kinds[:2] == ("encoder", "fused")
    assert (tmp_path / "run" / "refit").exists()


def test_an_ensemble_of_refits_learns_on_what_they_were_before(data, tmp_path):
    for name, refit in (("plain", False), ("refit", True)):
        recipes.ngame(data, **SMALL, classifier_epochs=1, refit=refit, out=tmp_path / name)
    recipes.unidec(data, **SMALL, refit=True, out=tmp_path / "other")
    before = ensemble(tmp_path / "plain", tmp_path / "other", data)
    both = ensemble(tmp_path / "refit", tmp_path / "other", data, out=tmp_path / "both")
    np.testing.assert_array_equal(both.fusion.weights, before.fusion.weights, "the refit was the plain run before")
    np.testing.assert_array_equal(both.first.vectors["encoder"], load(tmp_path / "refit").vectors["encoder"])
    assert both.fusion.frequency.sum() == data.train.targets.nnz > load(tmp_path / "plain").fusion.frequency.sum()
    again = ensemble(tmp_path / "both", tmp_path / "other", data)
    assert len(again.mixed) == 6
    shutil.rmtree(tmp_path / "refit" / "held_out")
    with pytest.raises(BadInput, match="found a run of an earlier version"):
        ensemble(tmp_path / "refit", tmp_path / "other", data)


def test_a_refit_that_was_stopped_goes_on(data, tmp_path, monkeypatch):
    unbroken = recipes.ngame(data, **SMALL, classifier_epochs=1, refit=True)
    stages = []

    def stopped(*given, stage, **others):
        stages.append(stage)
        if len(stages) == 4:  # the classifiers of the refit
            raise KeyboardInterrupt
        fit(*given, stage=stage, **others)

    monkeypatch.setattr("longtail.train.run.fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        recipes.ngame(data, **SMALL, classifier_epochs=1, refit=True, out=tmp_path / "run")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("stages/*.safetensors")}
    assert len(kept) == 3
    again = recipes.ngame(data, **SMALL, classifier_epochs=1, refit=True, out=tmp_path / "run")
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert stages == ["encoder", "classifiers"] * 4
    np.testing.assert_array_equal(again.vectors["classifier"], unbroken.vectors["classifier"])
    np.testing.assert_array_equal(again.fusion.weights, unbroken.fusion.weights)


def test_errors_of_a_refit_ask_what_it_was_before_about_documents_held_out(data, tmp_path):
    options = {**SMALL, "classifier_epochs": 1, "validation": 0.2}
    plain, refit = (
        errors_of_run(tmp_path / name, recipes.ngame(data, **options, refit=again, out=tmp_path / name), data)
        for name, again in (("plain", False), ("refit", True))
    )
    assert refit.asked.train == plain.asked.train == 40
    asked = before_refit(tmp_path / "refit", torch.device("cpu"))
    np.testing.assert_array_equal(asked.vectors["classifier"], load(tmp_path / "plain").vectors["classifier"])
