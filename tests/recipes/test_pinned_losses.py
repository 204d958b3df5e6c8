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
    "decaf": {"epochs": 3, "classifier_epochs": 3},
    "siamesexml": {"epochs": 24, "classifier_epochs": 3},
    "astec": {"epochs": 3, "classifier_epochs": 3},
    "dpr": {"epochs": 3},
    "ngame": {"epochs": 3, "cluster_from": 1, "classifier_epochs": 3},
    "depsl": {"epochs": 3, "refresh_from": 1, "refresh_every": 1, "hard_negatives": 2, "symmetric": True},
    "unidec": {"epochs": 3, "refresh_from": 1, "refresh_every": 1, "hard_negatives": 2},
}
PINNED = {
    ("dpr", "triplet"): [
        0.4810475,
        0.5148612,
        0.5016669,
        0.4869592,
        0.4843981,
        0.5716477,
        0.4622142,
        0.4724323,
        0.5139575,
        0.4041702,
        0.3733137,
        0.3022361,
        0.3766973,
        0.3734151,
        0.3197850,
        0.3242637,
        0.3172988,
        0.3230035,
        0.2713914,
        0.2773744,
    ],
    ("ngame", "triplet"): [
        0.5660896,
        0.5106578,
        0.4630361,
        0.4449351,
        0.4048966,
        0.4363216,
        0.4425558,
        0.4361932,
        0.3837270,
        0.3449101,
        0.3132913,
        0.3001392,
        0.3646445,
        0.3127503,
        0.3450139,
        0.2924847,
        0.2761218,
        0.2731367,
        0.2278907,
        0.2782270,
    ],
    ("ngame", "classifier"): [
        4.6959281,
        3.7447178,
        5.0717678,
        4.7095785,
        4.6784363,
        5.0940919,
        3.5257235,
        3.7354183,
        4.5277615,
        4.1244087,
        4.4178681,
        4.7407446,
        4.8022857,
        5.1146936,
        3.8231769,
        4.3022041,
        3.7242825,
        4.3580794,
        4.2836299,
        4.2280169,
    ],
    ("depsl", "encoder"): [
        7.5395365,
        7.0308189,
        6.2535400,
        6.8022761,
        5.9840870,
        6.7344294,
        6.6980581,
        5.9917684,
        4.8933868,
        4.4085379,
        5.0653143,
        4.5819511,
        3.5596132,
        3.8503342,
        4.6695495,
        3.6866546,
        3.2581220,
        2.4463758,
        2.9911838,
        2.5934215,
    ],
    ("unidec", "encoder"): [
        3.9357457,
        3.3758683,
        3.0026207,
        2.8542724,
        2.5456917,
        2.7699401,
        2.7899826,
        2.7062154,
        2.2405798,
        1.9785635,
        1.8409967,
        1.8385670,
        2.4960499,
        1.6777506,
        1.5950761,
        1.7996409,
        1.1199094,
        1.6568956,
        1.2617805,
        1.4475697,
    ],
    ("unidec", "classifier"): [
        3.0452235,
        2.9996638,
        2.6547430,
        2.6279116,
        2.4918299,
        2.3749008,
        2.2756646,
        2.3603106,
        2.1028023,
        1.9067104,
        1.9474177,
        2.0982525,
        2.3339496,
        1.8300463,
        1.7497054,
        1.9567039,
        1.4287279,
        1.8693602,
        1.5937333,
        1.7424440,
    ],
    ("astec", "surrogate"): [
        3.9851873,
        3.9231787,
        3.8915689,
        3.8337107,
        3.7544184,
        3.7733757,
        3.7513039,
        3.7878795,
        3.7027223,
        3.7107980,
        3.6499298,
        3.5718799,
        3.6325192,
        3.5792003,
        3.7128000,
        3.5903723,
        3.5524008,
        3.4700165,
        3.3741181,
        3.3696470,
    ],
    ("astec", "classifier"): [
        1.4428601,
        1.2136054,
        1.5424008,
        1.4634001,
        1.3759292,
        1.3942220,
        1.1780562,
        1.3835812,
        1.4589421,
        1.4227424,
        1.0506966,
        1.2428216,
        1.2841611,
        1.2405939,
        1.7363131,
        1.4286135,
        1.3792520,
        1.3550749,
        1.2661650,
        1.1952994,
    ],
    ("siamesexml", "encoder"): [
        0.4981167,
        0.4758297,
        0.4845353,
        0.4381363,
        0.4200379,
        0.3646513,
        0.3560426,
        0.3571256,
        0.3201787,
        0.3004246,
        0.2545227,
        0.2694301,
        0.2414292,
        0.2301068,
        0.2236608,
        0.2153222,
        0.2200239,
        0.2082851,
        0.2012177,
        0.1891076,
    ],
    ("siamesexml", "classifier"): [
        2.7410893,
        2.3931117,
        2.9135971,
        2.6135705,
        2.3523235,
        2.4816527,
        2.3697677,
        2.2904406,
        2.6764431,
        2.2573562,
        1.9626694,
        2.1758382,
        2.5386071,
        2.4490352,
        2.4235549,
        2.6595769,
        2.1489766,
        2.3907566,
        2.3722992,
        2.0755289,
    ],
    ("decaf", "surrogate"): [
        4.8411121,
        4.3846617,
        4.7668414,
        3.9009700,
        4.0491858,
        4.2002459,
        3.8531032,
        3.4878724,
        3.3627014,
        2.8587766,
        2.9644485,
        2.9864378,
        2.5740743,
        3.0787644,
        2.5896246,
        2.5714555,
        2.1030164,
        3.1183336,
        2.2246010,
        2.0195889,
    ],
    ("decaf", "classifier"): [
        3.6319017,
        3.2920079,
        3.5677407,
        3.3521404,
        3.3461084,
        3.2323897,
        3.2977395,
        2.9520335,
        3.6093194,
        2.8253450,
        3.0426097,
        2.9140646,
        3.2287447,
        3.1819944,
        3.2541337,
        3.4033113,
        2.7437632,
        3.1542344,
        3.0290082,
        3.0187063,
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
