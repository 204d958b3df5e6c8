"""A gradient that is no number ends a run where it shows, is kept nowhere, and costs the time since a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors import safe_open

from longtail import recipes
from longtail.arrays import save_model_arrays
from longtail.errors import BadInput
from longtail.testing.planted import planted
from longtail.train.finite import NotFinite, must_be_finite, not_finite
from longtail.train.in_backward import SGDInBackward
from longtail.train.optimizer import AdamW
from longtail.train.run import Run

COMMON = {"epochs": 2, "batch": 64, "random_negatives": 32, "width": 16, "warmup": 5, "device": "cpu"}
OPTIONS = {
    "depsl": {"refresh_from": 1, "refresh_every": 1, "hard_negatives": 2},
    "dexml": {"random_negatives": None, "labels_at_once": 50},
    "inceptionxml": {"detached_epochs": 1},
    "inceptionxml_lf": {"detached_epochs": 1},
    "ramen": {"refresh_from": 1, "classifier_epochs": 2},
    "renee": {"start_epochs": 1},
    "unidec": {"refresh_from": 1, "refresh_every": 1, "hard_negatives": 2},
}
LINEAR = ("dismec", "parabel", "bonsai")  # which take no steps
QUICK = ("dpr", "dexml", "renee", "unidec", "ramen")  # rows, gradient cache, in the backward pass, two heads, bandits
WAYS = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name in recipes.RECIPES
    if name not in LINEAR
]


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=300, test_documents=20, labels=80).dataset


def train(recipe, data, folder=None):
    return recipes.RECIPES[recipe](data, out=Run(folder, interval=0.0), **{**COMMON, **OPTIONS.get(recipe, {})})


def spoil(monkeypatch, n, value):
    """Put a value into the gradient of the n-th step, and into the n-th slopes of a table that has none.

    Those of a plan, which change nothing, do not count.
    """
    step, call = AdamW.step, SGDInBackward.__call__
    counts = {"step": 0, "call": 0}

    def stepped(self):
        counts["step"] += self.param_groups[0]["lr"] > 0
        if counts["step"] == n:
            gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
            spoilt = gradients[n % len(gradients)]
            (spoilt._values() if spoilt.is_sparse else spoilt).view(-1)[0] = value
        step(self)

    def called(self, rows, weights, slopes, documents):
        counts["call"] += self._optimizer.param_groups[0]["lr"] > 0
        if counts["call"] == n:
            slopes = slopes.clone()
            slopes[0, 0] = value
        call(self, rows, weights, slopes, documents)

    monkeypatch.setattr(AdamW, "step", stepped)
    monkeypatch.setattr(SGDInBackward, "__call__", called)


def tensors(folder):
    for path in sorted(folder.rglob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 - not iterable
                yield f"{path.relative_to(folder)} {name}", file.get_tensor(name)


@pytest.mark.parametrize("recipe", WAYS)
def test_a_gradient_that_is_no_number_is_kept_nowhere(recipe, data, tmp_path, monkeypatch):
    for n, value in ((1, float("inf")), (7, float("nan"))):
        with monkeypatch.context() as patched:
            spoil(patched, n, value)
            with pytest.raises(NotFinite, match=r"^stage \w+, (epoch|end of epoch) \d.* has become NaN or infinite"):
                train(recipe, data, tmp_path)
        assert not [name for name, tensor in tensors(tmp_path) if not tensor.double().isfinite().all()]
        assert not (tmp_path / "model").exists()
    whole, again = train(recipe, data), train(recipe, data, tmp_path)
    assert whole.vectors.keys() == again.vectors.keys()
    for kind, vectors in whole.vectors.items():
        np.testing.assert_array_equal(vectors, again.vectors[kind])


def test_a_rate_that_is_much_too_large_is_one_line(data, tmp_path):
    with pytest.raises(NotFinite, match=r"^stage \w+, epoch 1, .*train with a lower learning rate, [^\n]*$"):
        recipes.inceptionxml(data, out=Run(tmp_path, interval=0.0), **COMMON, learning_rate=1e37)
    assert all(tensor.double().isfinite().all() for _, tensor in tensors(tmp_path))


def test_what_is_not_finite_is_found_by_its_name():
    state = {"encoder": {"weight": torch.ones(3)}, "optimizer": {"state": {0: {"m": torch.ones(2)}}, "groups": [1.0]}}
    assert not_finite(state) is None
    must_be_finite("here", state)
    state["huge"] = {"weight": torch.full((4,), 3e38)}  # whose sum is infinite
    state["counts"] = {"ids": torch.arange(3)}
    assert not_finite(state) is None
    state["optimizer"]["state"][0]["m"][1] = torch.nan
    assert not_finite(state) == "optimizer state 0 m"
    with pytest.raises(NotFinite, match=r"^here: optimizer state 0 m has become NaN or infinite; nothing of this is"):
        must_be_finite("here", state)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_model_that_ranks_by_no_numbers_is_not_written(tmp_path, value):
    with pytest.raises(BadInput, match=r"model\.safetensors: expected finite numbers in x, found NaN or infinity"):
        save_model_arrays(tmp_path / "model.safetensors", {"x": np.array([[1, value]], np.float32)})
    assert not [*tmp_path.iterdir()]
    save_model_arrays(tmp_path / "model.safetensors", {"x": np.full((2, 2), 3e38, np.float32), "ids": np.arange(3)})
