"""Bandits: what they draw, what they learn, and that their state goes into a checkpoint whole."""

from __future__ import annotations

import json

import pytest
import torch

from longtail.losses.weights import Bandits, accuracy


def test_fixed_weights_stay() -> None:
    weights = Bandits(["a", "b"], mean=0.3, deviation=0)
    assert not weights.learn
    for _ in range(100):
        weights.observe(1.0)
    assert weights.weight("a") == weights.weight("b") == weights.means["a"] == 0.3


def test_weights_are_drawn_anew_each_window_and_never_below_zero() -> None:
    weights = Bandits(["a"], window=4, learning_rate=0, seed=5)
    seen = []
    for _ in range(800):
        seen.append(weights.weight("a"))
        weights.observe(0.5)
    windows = [seen[i : i + 4] for i in range(0, 800, 4)]
    assert all(len(set(window)) == 1 for window in windows)
    drawn = [window[0] for window in windows]
    assert min(drawn) == 0.0
    assert len(set(drawn)) > 100
    assert 0.1 < sum(drawn) / 200 < 0.13  # 0.108, as the floor lifts the mean of 0.1
    assert weights.means["a"] == 0.1


def test_one_update_by_hand() -> None:
    """The first window sets the average; the second is 0.2 better: mean += rate * 0.2 * (draw - mean) / 0.01."""
    weights = Bandits(["a"], window=2, learning_rate=0.01, momentum=0.75, seed=0)
    for reward in (0.4, 0.6):
        weights.observe(reward)
    assert weights.means["a"] == 0.1
    drawn = weights.state_dict()["draws"]["a"]
    for _ in range(2):
        weights.observe(0.7)
    assert weights.means["a"] == pytest.approx(max(0, 0.1 + 0.01 * 0.2 * (drawn - 0.1) / 0.01))
    assert weights.state_dict()["usual"] == pytest.approx(0.75 * 0.5 + 0.25 * 0.7)


def test_the_mean_of_a_helpful_term_rises_and_of_a_harmful_one_falls() -> None:
    weights = Bandits(["helps", "harms", "neither"], mean=0.5, window=1, learning_rate=0.01, seed=0)
    for _ in range(400):
        weights.observe(0.5 + 0.5 * weights.weight("helps") - 0.5 * weights.weight("harms"))
    means = weights.means
    assert means["helps"] > 0.7
    assert means["harms"] < 0.3
    assert abs(means["neither"] - 0.5) < 0.2


def test_a_state_taken_back_goes_on_the_same() -> None:
    def go_on(weights: Bandits, steps: int) -> list[float]:
        seen = []
        for step in range(steps):
            seen += [weights.weight("a"), weights.means["b"]]
            weights.observe(step % 7 / 7)
        return seen

    unbroken = Bandits(["a", "b"], window=3, seed=1)
    go_on(unbroken, 10)
    resumed = Bandits(["a", "b"], window=3, seed=1)
    resumed.load_state_dict(json.loads(json.dumps(unbroken.state_dict())))
    assert go_on(resumed, 20) == go_on(unbroken, 20)
    unbroken.restart()
    assert go_on(unbroken, 20) == go_on(Bandits(["a", "b"], window=3, seed=1), 20)


def test_accuracy_counts_rows_whose_best_seen_label_is_true() -> None:
    scores = torch.tensor([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1], [0.0, -0.5, -0.2], [0.2, 0.1, 0.3]])
    targets = torch.tensor([[0.0, 1, 0], [0, 1, 1], [0, 0, 0.5], [1, 0, 0]])
    mask = torch.ones(4, 3, dtype=torch.bool)
    assert accuracy(scores, targets, mask) == 0.25
    mask[2, 0] = mask[3, 2] = False
    assert accuracy(scores, targets, mask) == 0.75
