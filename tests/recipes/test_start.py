"""A run that starts its encoder from another run."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import recipes
from longtail.errors import BadInput
from longtail.testing.planted import planted

SMALL = {"epochs": 1, "batch": 128, "width": 8, "device": "cpu"}
HELD_OUT = {"ngame": {"validation": 0.05}, "dpr": {}}
LARGE = {**SMALL, "width": 16}


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=120, test_documents=16, labels=32).dataset


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """An ngame run, which has held documents out, and a dpr run, which has not."""
    folder = tmp_path_factory.mktemp("runs")
    models = {name: recipes.RECIPES[name](data, out=folder / name, **SMALL, **held) for name, held in HELD_OUT.items()}
    return folder, models


def test_an_encoder_starts_where_another_run_ended(data, runs):
    folder, models = runs
    started = recipes.dpr(data, start=str(folder / "ngame"), **{**LARGE, "epochs": 0})  # its width is that of the run
    np.testing.assert_array_equal(started.vectors["encoder"], models["ngame"].vectors["encoder"])
    trained = recipes.dpr(data, start=str(folder / "ngame"), **LARGE)
    assert np.abs(trained.vectors["encoder"] - models["ngame"].vectors["encoder"]).max() > 1e-3


def test_a_transformer_starts_where_another_run_ended(data, tiny_bert, tmp_path):
    asked = {**SMALL, "encoder": str(tiny_bert), "max_length": 8, "learning_rate": 1e-2}
    first = recipes.dpr(data, out=tmp_path / "dpr", **asked)
    untrained = recipes.dpr(data, **{**asked, "epochs": 0})
    assert np.abs(first.vectors["encoder"] - untrained.vectors["encoder"]).max() > 1e-3
    start = {"start": str(tmp_path / "dpr"), "encoder": str(tiny_bert), "device": "cpu"}
    started = recipes.renee(data, **start, start_epochs=0, epochs=0, validation=0.0)
    np.testing.assert_allclose(started.vectors["encoder"], first.vectors["encoder"], atol=1e-6)
    again = recipes.dpr(data, **start, epochs=1, batch=128, learning_rate=1e-2)
    assert np.abs(again.vectors["encoder"] - first.vectors["encoder"]).max() > 1e-3


def test_what_read_no_true_pairs_may_start_what_learns_a_fusion(data, tmp_path):
    recipes.simcse(data, out=tmp_path / "texts", **SMALL)
    start = {"start": str(tmp_path / "texts"), **HELD_OUT["ngame"]}
    assert "fused" in recipes.ngame(data, classifier_epochs=1, **start, **SMALL).kinds


def test_renee_starts_from_ngame_without_the_rows_of_gandalf(data, runs, monkeypatch):
    folder, models = runs
    seen = {}

    def start_from(_, text, bias):
        seen["text"] = text

    monkeypatch.setattr("longtail.modules.classifiers.Classifiers.start_from", start_from)
    start = {"start": str(folder / "ngame"), "start_epochs": 0, "augment": "gandalf"}
    recipes.renee(data, **SMALL, **start)
    np.testing.assert_array_equal(seen["text"], models["ngame"].vectors["encoder"])


def test_heads_are_not_a_part_of_what_is_taken(data, runs, tmp_path):
    unidec = recipes.unidec(data, out=tmp_path / "unidec", projection=4, **SMALL)
    again = recipes.dpr(data, start=str(tmp_path / "unidec"), **{**SMALL, "epochs": 0})
    assert again.vectors["encoder"].shape[1] == unidec.encoder.width == 8


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"start": "dpr"}, "expected a run that has not seen the held-out documents, found one that has seen all"),
        ({"start": "ngame", "seed": 1}, "expected a run that held out the same documents .validation 0.05 and seed 1."),
        (
            {"start": "ngame", "encoder": "convolution"},
            "expected a run with the encoder convolution, found one with bag",
        ),
        (
            {"start": "ngame", "encoder": "minilm", "pooling": "cls"},
            "^pooling: expected none with start, whose encoder reads texts as it was trained to, found cls",
        ),
        ({"start": "none"}, "expected the settings of a run, found no such file"),
    ],
    ids=str,
)
def test_a_start_that_does_not_suit_is_refused(data, runs, tmp_path, options, problem):
    options = {**options, "start": str(runs[0] / options["start"])}
    with pytest.raises(BadInput, match=problem):
        recipes.ngame(data, out=tmp_path / "run", **{**SMALL, **HELD_OUT["ngame"], **options})
    assert not (tmp_path / "run" / "run.json").exists()


def test_what_learns_no_fusion_may_start_from_any_run(data, runs):
    model = recipes.ngame(data, start=str(runs[0] / "dpr"), validation=0.0, classifier_epochs=1, **SMALL)
    assert model.kinds == ("encoder", "classifier")
