"""Two models as one: a fused score is a sum over the scorers of both, and the vector of a text serves all of them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from longtail import Dataset, LongtailError, recipes
from longtail.data.texts import Texts
from longtail.model import Ensemble, open_model
from longtail.search.fusion import Fusion

TEXTS = Texts.of(["red shoes", "oak table", "grey hat"])
SHARES = np.array([0.5, 2.0, -1.0, 3.0, 0.25])  # of four scorers, and what is added


@pytest.fixture
def models():
    documents = ["red shoes", "oak table", "blue shoes", "pine table", "green hat", "grey hat"]
    data = Dataset.from_texts(documents, [[0], [1], [0], [1], [2], [2]], ["footwear shoes", "furniture", "headwear"])
    options = {"epochs": 2, "validation": 0.34, "device": "cpu"}
    return recipes.unidec(data, width=8, **options), recipes.ngame(data, width=16, **options)


def all_scores(model, kind):
    """(n, L) the scores of all labels, in their order."""
    top = model.rank(TEXTS, len(model.labels), kind=kind)
    return np.take_along_axis(top.scores, np.argsort(top.ids, axis=1), axis=1)


def test_the_fused_score_is_the_sum_of_all_scorers(models):
    pair = Ensemble(*models).fused_by(Fusion(np.outer(SHARES, [1.0, 0, 0]), np.zeros(3, np.int64)))
    each = [all_scores(model, kind) for model in models for kind in ("encoder", "classifier")]
    expected = sum(share * scores for share, scores in zip(SHARES, [*each, np.ones((3, 3))], strict=True))
    np.testing.assert_allclose(all_scores(pair, "fused"), expected, atol=1e-5)


def test_each_side_ranks_as_it_does_alone(models):
    pair = Ensemble(*models)
    assert pair.kinds == ("first", "second")
    assert pair.width == 2 * 8 + 16
    for kind, model in zip(pair.kinds, models, strict=True):
        np.testing.assert_allclose(all_scores(pair, kind), all_scores(model, "fused"), atol=1e-6)


def test_an_ensemble_can_be_a_member_of_another(models):
    inner = Ensemble(*models).fused_by(Fusion(np.outer(SHARES, [1.0, 0, 0]), np.zeros(3, np.int64)))
    outer = Ensemble(inner, models[1])
    assert outer.mixed[0].name == "first-first-encoder"
    fusion = Fusion(np.outer([*SHARES[:4], 0, 0, SHARES[4]], [1.0, 0, 0]), np.zeros(3, np.int64))
    np.testing.assert_allclose(all_scores(outer.fused_by(fusion), "fused"), all_scores(inner, "fused"), atol=1e-5)
    np.testing.assert_allclose(all_scores(outer, "first"), all_scores(inner, "fused"), atol=1e-5)


def test_a_saved_ensemble_of_which_a_side_is_another_model_is_refused(models, tmp_path):
    Ensemble(*models).save(tmp_path / "model")
    card = json.loads((tmp_path / "model" / "bundle.json").read_text())
    assert card["sha256"].keys() == {"ensemble.safetensors", "first/bundle.json", "second/bundle.json"}
    shutil.rmtree(tmp_path / "model" / "first")
    models[1].save(tmp_path / "model" / "first")
    with pytest.raises(LongtailError, match=r"first/bundle\.json: expected SHA-256"):
        open_model(tmp_path / "model", device=torch.device("cpu"))


def test_a_kind_that_is_neither_s_is_refused(models):
    for kind in ("encoder", "first-best", "third", "fused"):
        with pytest.raises(LongtailError, match=f"kind: expected one of first, second, found {kind}"):
            Ensemble(*models).rank(TEXTS, 1, kind=kind)


def test_an_ensemble_of_an_earlier_version_is_opened(models, tmp_path):
    both = Ensemble(*models).fused_by(Fusion(np.outer(SHARES, [1.0, 0, 0]), np.zeros(3, np.int64)))
    both.save(tmp_path / "model")
    card = json.loads((tmp_path / "model" / "bundle.json").read_text())
    del card["digest"]
    card["sha256"]["pair.safetensors"] = card["sha256"].pop("ensemble.safetensors")
    (tmp_path / "model" / "bundle.json").write_text(json.dumps(card))
    (tmp_path / "model" / "ensemble.safetensors").rename(tmp_path / "model" / "pair.safetensors")
    opened = open_model(tmp_path / "model", device=torch.device("cpu"))
    np.testing.assert_array_equal(all_scores(opened, "fused"), all_scores(both, "fused"))
