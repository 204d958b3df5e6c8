"""A trained run that is weighed anew has what it would have learned with the same preference, and trains nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from longtail import LongtailError, load, recipes, weigh
from longtail.files import remove_folder
from longtail.model.reranker import Reranker
from longtail.modules.cross_encoder import CrossEncoder
from longtail.stages.make_ensemble import ensemble
from longtail.stages.refit import before_refit
from longtail.testing.planted import planted
from longtail.train import fit as training
from longtail.train.progress import settings_of

SMALL = {"width": 16, "epochs": 2, "batch": 64, "warmup": 5, "validation": 0.25, "device": "cpu"}
PREFERENCES = [{"prefer": "tail"}, {"prefer": "coverage"}, {"tail_price": 5.0}, {"memory": False}]


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=800, test_documents=40, labels=100).dataset


@pytest.fixture(scope="module", params=[False, True], ids=["once", "refit"])
def trained(request, data, tmp_path_factory):
    """A run, and the options that it was trained with; of both runs of a refit, vectors are narrowed."""
    options = SMALL | {"refit": request.param}
    folder = tmp_path_factory.mktemp("trained") / "run"
    recipes.unidec(data, out=folder, **options)
    return folder, options


def same(one, other, data):
    assert one.kinds == other.kinds
    np.testing.assert_array_equal(one.fusion.weights, other.fusion.weights)
    for kind in one.kinds:
        a, b = (model.rank(data.test.documents, 7, kind=kind) for model in (one, other))
        np.testing.assert_array_equal(a.ids, b.ids)
        np.testing.assert_allclose(a.scores, b.scores, atol=1e-5)
        assert (one.calibrations.get(kind) is None) == (other.calibrations.get(kind) is None)
        if kind in one.calibrations:
            np.testing.assert_array_equal(one.calibrations[kind].weights, other.calibrations[kind].weights)


@pytest.mark.parametrize("given", PREFERENCES, ids=str)
def test_it_is_what_training_with_the_preference_gives(data, trained, given, tmp_path, monkeypatch):
    folder, options = trained
    expected = recipes.unidec(data, out=tmp_path / "trained", **options, **given)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(training, "take_step", lambda *_, **__: pytest.fail("a step of training"))
        found = weigh(folder, data, **given, out=tmp_path / "weighed", device="cpu")
    same(found, expected, data)
    same(load(tmp_path / "weighed", device="cpu"), expected, data)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert settings_of(tmp_path / "weighed")["arguments"]["validation"] == options["validation"]
    unseen = [before_refit(tmp_path / name, found.device) for name in ("weighed", "trained")]
    if options["refit"]:
        same(*unseen, data)
        again = weigh(tmp_path / "weighed", data, **given, device="cpu")  # what was weighed can be weighed
        same(again, expected, data)
    else:
        assert unseen == [None, None]


def test_nothing_given_gives_the_run_itself(data, trained, tmp_path):
    folder, options = trained
    same(weigh(folder, data, device="cpu"), load(folder, device="cpu"), data)
    own = {"prefer": "tail", "tail_price": 5.0, "memory": False}
    tail = recipes.unidec(data, out=tmp_path / "tail", **options, **own)
    same(weigh(tmp_path / "tail", data, out=tmp_path / "again", device="cpu"), tail, data)
    arguments = settings_of(tmp_path / "again")["arguments"]
    assert {name: arguments[name] for name in own} == own


def test_a_weighed_run_that_has_seen_all_documents_starts_no_other(data, trained, tmp_path):
    folder, options = trained
    weigh(folder, data, prefer="tail", out=tmp_path / "tail", device="cpu")
    start = {"start": str(tmp_path / "tail"), "epochs": 0, "refit": False}
    if options["refit"]:
        with pytest.raises(LongtailError, match="expected a run that has not seen the held-out documents, found one"):
            recipes.unidec(data, **{**options, **start})
    else:
        recipes.unidec(data, **{**options, **start})


def test_an_ensemble_is_weighed_too(data, trained, tmp_path):
    folder, options = trained
    recipes.ngame(data, out=tmp_path / "ngame", classifier_epochs=1, **{**options, "refit": False})
    ensemble(folder, tmp_path / "ngame", data, out=tmp_path / "both", device="cpu")
    plain = load(tmp_path / "both", device="cpu")
    same(weigh(tmp_path / "both", data, device="cpu"), plain, data)
    tail = weigh(tmp_path / "both", data, tail_price=5.0, device="cpu")
    assert not np.array_equal(tail.fusion.weights, plain.fusion.weights)


def test_what_cannot_be_weighed_is_one_line(data, trained, tiny_bert, tmp_path):
    folder, _ = trained
    other = planted(1, documents=800, test_documents=40, labels=100).dataset
    recipes.dpr(data, out=tmp_path / "dpr", width=8, epochs=1, validation=0.0, device="cpu")
    remove_folder(Path(shutil.copytree(folder, tmp_path / "reranked")) / "model")
    cross_encoder, weights = CrossEncoder(str(tiny_bert), max_length=16), np.eye(3)
    Reranker(load(folder, device="cpu"), cross_encoder, weights, 4, {}).save(tmp_path / "reranked" / "model")
    refused = [
        ((folder, other), {}, "expected a run of planted, found one of other data"),
        ((tmp_path / "dpr", data), {}, "expected a model that has learned a fusion .* found one that ranks by encoder"),
        ((folder, data), {"prefer": "head"}, "prefer: expected one of precision, tail, coverage, found head"),
        ((tmp_path / "gone", data), {}, "expected the settings of a run, found no such file"),
        ((tmp_path / "reranked", data), {}, "expected a run without a cross-encoder, found one that has one"),
    ]
    for positional, given, problem in refused:
        with pytest.raises(LongtailError, match=problem) as raised:
            weigh(*positional, **given, out=tmp_path / "out", device="cpu")
        assert "\n" not in str(raised.value)
        assert not (tmp_path / "out" / "run.json").exists()
