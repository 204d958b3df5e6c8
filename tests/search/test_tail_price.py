"""`benchmarks/tail_price.py`: what it lowers the scores of frequent labels by."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from longtail import Dataset, recipes
from longtail.search.fusion import FEATURES, Fusion

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from tail_price import lowered


@pytest.mark.parametrize("features", [3, FEATURES])
def test_a_label_loses_t_times_the_logarithm_of_its_frequency_and_one(features: int) -> None:
    """Of a fusion of today and of an earlier one."""
    data = Dataset.from_texts(["red shoes", "oak table", "blue hat"], [[0], [1], [2]], ["shoes", "tables", "hats"])
    model, frequency = recipes.dpr(data, epochs=0, device="cpu"), np.array([0, 3, 20])
    weights = np.random.default_rng(0).normal(size=(len(model.mixed) + 1, features))
    fused = model.fused_by(Fusion(weights, frequency))
    before, after = (
        one.search(one.encode(data.train.documents), 3, kind="fused") for one in (fused, lowered(fused, 0.2))
    )
    of_label = [np.take_along_axis(top.scores, top.ids.argsort(1), 1) for top in (before, after)]
    np.testing.assert_allclose(of_label[0] - of_label[1], [0.2 * np.log1p(frequency)] * 3, atol=1e-5)
