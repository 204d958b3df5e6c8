"""Weights of loss terms: fixed, or learned from the accuracy of the main task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Bandits:
    """One Gaussian bandit a loss term, which learns how much of the term helps the main task.

    Every ``window`` steps a window ends: ``mean += learning_rate * advantage * (draw - mean) / deviation^2``, which is
    REINFORCE for the mean of a Gaussian, with the advantage the accuracy of the window above its moving average; then
    the weights of the next window are drawn from the Gaussians, and are never below 0. The first window gives the
    average its start.

    Source: RAMEN (Mittal et al., 2025), section 1.1 and appendix A, says that weights are adjusted while training, with
    one bandit each and a learning rate of 0.01; the rule is ours where the paper is silent
    (docs/explanation/methods/ramen.md).

    Args:
        names: of the terms.
        mean: where the means start, at least 0.
        deviation: of the Gaussians; 0 keeps every weight at ``mean``.
        learning_rate: of the means.
        window: its steps.
        momentum: of the moving average, in [0, 1).
        seed: of the draws.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        mean: float = 0.1,
        deviation: float = 0.1,
        learning_rate: float = 0.01,
        window: int = 30,
        momentum: float = 0.8,
        seed: int = 0,
    ) -> None:
        self._start, self._deviation, self._rate = mean, deviation, learning_rate
        self._size, self._momentum, self._seed = window, momentum, seed
        self._draws: dict[str, float] = {}
        self.means = dict.fromkeys(names, mean)
        self.restart()

    def restart(self) -> None:
        """Forget everything."""
        self.means = dict.fromkeys(self.means, self._start)
        self._window, self._steps, self._total = 0, 0, 0.0
        self._usual: float | None = None
        self._draw()

    @property
    def learn(self) -> bool:
        """Whether the weights change at all, so that `observe` is worth its cost."""
        return self._deviation > 0

    def weight(self, name: str) -> float:
        """The weight of a term now, at least 0."""
        return max(0.0, self._draws[name])

    def observe(self, accuracy: float) -> None:
        """Count a step: the accuracy of the main task in its batch, in [0, 1]."""
        self._total += accuracy
        self._steps += 1
        if self._steps == self._size and self.learn:
            self._learn(self._total / self._steps)
            self._window, self._steps, self._total = self._window + 1, 0, 0.0
            self._draw()

    def _learn(self, reward: float) -> None:
        usual = reward if self._usual is None else self._usual
        for name, drawn in self._draws.items():
            slope = (drawn - self.means[name]) / self._deviation**2
            self.means[name] = max(0.0, self.means[name] + self._rate * (reward - usual) * slope)
        self._usual = self._momentum * usual + (1 - self._momentum) * reward

    def _draw(self) -> None:
        noise = np.random.default_rng([self._seed, self._window]).standard_normal(len(self.means)).tolist()
        pairs = zip(self.means.items(), noise, strict=True)
        self._draws = {name: mean + self._deviation * number for (name, mean), number in pairs}

    def state_dict(self) -> dict[str, Any]:
        """Means, draws and the window, for a checkpoint."""
        numbers = {"window": self._window, "steps": self._steps, "total": self._total, "usual": self._usual}
        return {"means": dict(self.means), "draws": dict(self._draws), **numbers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the state back from a checkpoint."""
        self.means, self._draws = dict(state["means"]), dict(state["draws"])
        self._window, self._steps = state["window"], state["steps"]
        self._total, self._usual = state["total"], state["usual"]


@torch.no_grad()
def accuracy(scores: Tensor, targets: Tensor, mask: Tensor) -> float:
    """The share of rows whose highest-scored label of the pool is true; masked pairs are not ranked.

    Args:
        scores: (B, P), with B and P at least 1.
        targets: (B, P) in [0, 1].
        mask: (B, P) bool.
    """
    best = scores.masked_fill(~mask, -torch.inf).argmax(1, keepdim=True)  # (B, 1)
    return float((targets.gather(1, best) > 0).float().mean())
