"""The first 20 steps of each recipe's losses: whoever changes them shall know it, and say why."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.data.synthetic import planted
from longtail.recipes import RECIPES
from longtail.train import fit as module

STEPS = 20
OPTIONS = {
    "dpr": {"epochs": 3},
    "ngame": {"epochs": 3, "cluster_from": 1, "classifier_epochs": 3},
}
PINNED = {
    ("dpr", "triplet"): [
        0.4908247,
        0.5277215,
        0.4930696,
        0.4976643,
        0.4808881,
        0.5796677,
        0.4812647,
        0.4629238,
        0.5214800,
        0.4011067,
        0.3669785,
        0.2966623,
        0.3631052,
        0.3545642,
        0.3048353,
        0.3273399,
        0.3090940,
        0.3396035,
        0.2814442,
        0.2941145,
    ],
    ("ngame", "triplet"): [
        0.5742092,
        0.5307464,
        0.4660973,
        0.4401415,
        0.4340374,
        0.4439041,
        0.4395504,
        0.4281887,
        0.4018674,
        0.2838382,
        0.3789888,
        0.3453835,
        0.3532659,
        0.2977544,
        0.3467815,
        0.3101492,
        0.2421322,
        0.2572829,
        0.3041064,
        0.2737353,
    ],
    ("ngame", "classifier"): [
        4.6474924,
        3.8979461,
        4.9683251,
        4.4516535,
        4.6859922,
        5.1881962,
        3.4961848,
        3.8295994,
        4.6161189,
        4.0914721,
        4.5498958,
        4.7025871,
        4.8426614,
        4.8999333,
        3.5704968,
        4.2577209,
        3.5746908,
        4.4912658,
        3.9783013,
        4.2712984,
    ],
}


class Enough(Exception):
    pass


def first_losses(recipe, term, monkeypatch):
    """The values of a loss term in its first steps."""
    seen = []
    plain = module.take_step

    def step(objective, batch, optimizer, *, seed):
        values = plain(objective, batch, optimizer, seed=seed)
        if seed and term in values:  # the plan's trial steps have seed 0
            seen.append(values[term])
        if len(seen) == STEPS:
            raise Enough
        return values

    monkeypatch.setattr(module, "take_step", step)
    data = planted(0, documents=600, labels=120).dataset
    with pytest.raises(Enough):
        RECIPES[recipe](
            data, batch=64, random_negatives=32, width=16, warmup=5, seed=3, device="cpu", **OPTIONS[recipe]
        )
    return seen


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("recipe", "term"), PINNED)
def test_first_losses(recipe, term, monkeypatch, one_thread):
    np.testing.assert_allclose(first_losses(recipe, term, monkeypatch), PINNED[recipe, term], atol=1e-6, rtol=1e-6)


def test_every_recipe_is_pinned():
    assert {recipe for recipe, _ in PINNED} == RECIPES.keys()
