"""The cross-entropy that a fusion is learned by, beside the same by automatic differentiation, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.search.cross_entropy import CrossEntropy
from longtail.search.fusion import Candidates, features_of


def drawn(documents: int) -> tuple[Candidates, np.ndarray]:
    """Documents with up to nine of 30 labels, two scorers, and two true labels or none."""
    rng = np.random.default_rng(documents)
    ids = np.stack([rng.choice(30, 9, replace=False) for _ in range(documents)])
    truth = rng.random(ids.shape) < 0.3
    truth[::7] = False
    truth[:, :1] |= (np.arange(documents) % 7 != 0)[:, None]
    left_out = (rng.random(ids.shape) < 0.2) & ~truth
    return Candidates(np.where(left_out, -1, ids), rng.normal(size=(2, *ids.shape)).astype(np.float32), truth), (
        rng.integers(0, 6, 30) ** 2
    )


def entropy_of(candidates: Candidates, frequency: np.ndarray, worth: np.ndarray | None, weights: torch.Tensor):
    """The same in double precision, one document after the other."""
    scored = candidates.truth.any(1)
    worths = [np.ones(30) if worth is None else worth] * len(scored)
    shares = [worths[i][ids[truth]] / truth.sum() for i, (ids, truth) in enumerate(_rows(candidates)) if scored[i]]
    scale = scored.sum() / np.concatenate(shares).sum()
    total = 1e-6 * weights.square().sum()
    for i, (ids, truth) in enumerate(_rows(candidates)):
        if not scored[i]:
            continue
        there = ids >= 0
        features = torch.from_numpy(features_of(frequency[ids[there]])[: weights.shape[1]])
        inputs = np.concatenate([candidates.scores[:, i, there], np.ones((1, there.sum()))]).astype(np.float64)
        logs = ((weights @ features) * torch.from_numpy(inputs)).sum(0).log_softmax(0)
        share = torch.from_numpy(scale * worths[i][ids[there]][truth[there]] / truth.sum())
        total = total - (share * logs[torch.from_numpy(truth[there])]).sum() / len(scored)
    return total


def _rows(candidates: Candidates):
    return zip(candidates.ids, candidates.truth, strict=True)


@pytest.mark.parametrize("worth", [None, np.linspace(0.5, 3, 30)], ids=["alike", "worth"])
@pytest.mark.parametrize(("documents", "features"), [(40, 3), (200, 5)])
def test_value_gradient_and_curvature_are_those_of_automatic_differentiation(documents, features, worth):
    candidates, frequency = drawn(documents)
    asked = CrossEntropy.of(candidates, frequency, worth)
    assert len(asked.features) == features
    weights = np.random.default_rng(1).normal(size=(3, features))
    at = torch.from_numpy(weights).requires_grad_()

    def entropy(weights: torch.Tensor) -> torch.Tensor:
        return entropy_of(candidates, frequency, worth, weights)

    value, gradient = asked.loss(weights.ravel())
    assert value == pytest.approx(entropy(at).item(), abs=1e-12)
    np.testing.assert_allclose(gradient, torch.autograd.grad(entropy(at), at)[0].numpy().ravel(), atol=1e-12)
    expected = torch.autograd.functional.hessian(entropy, at).numpy().reshape(3 * features, -1)
    np.testing.assert_allclose(asked.curvature(weights.ravel()), expected, atol=1e-11)
