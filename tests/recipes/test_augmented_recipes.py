"""Recipes on rows that were made: soft targets reach the losses, and nothing else sees the rows."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest

from longtail import LongtailError
from longtail.data.holdout import rows_at_random
from longtail.losses.full.targets import SparseTargets
from longtail.metrics.propensity import label_frequency
from longtail.recipes import RECIPES, ngame
from longtail.testing.planted import planted
from longtail.train import fit as module

SMALL = {"epochs": 1, "width": 8, "seed": 3, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=400, labels=100).dataset


AUGMENTED = [name for name in RECIPES if "augment" in signature(RECIPES[name]).parameters]


@pytest.mark.parametrize("recipe", [name for name in AUGMENTED if name != "simcse"])  # which reads no targets
def test_soft_targets_reach_every_stage(recipe, data, monkeypatch):
    """Rows come from documents and from labels; targets strictly between 0 and 1 from labels alone."""
    plain, seen = module.take_step, {}

    def step(objective, batch, optimizer, *, seed):
        values = plain(objective, batch, optimizer, seed=seed)
        if seed and batch.targets.numel():  # not one of the plan's trial steps, and there is a pool
            for name in values:
                seen.setdefault(name, []).append((batch.rows.numpy(), batch.targets.numpy()))
        return values

    monkeypatch.setattr(module, "take_step", step)
    own: dict[str, dict[str, int]] = {"dexml": {"random_negatives": 16}}  # else all labels
    for name in ("oak", "graphsage", "graphformers", "pina"):
        own[name] = {"linker_epochs": 0}  # rows of documents alone
    holds_out = "validation" in signature(RECIPES[recipe]).parameters
    held = {"validation": 0.05, "refit": False} if holds_out else {}
    RECIPES[recipe](data, augment="gandalf:threshold=0.05", **SMALL, **held, **own.get(recipe, {}))
    held_out = len(data.train) // 20 if holds_out else 0
    documents = len(data.train) - held_out
    assert seen
    for batches in seen.values():
        rows = np.concatenate([rows for rows, _ in batches])
        soft = np.concatenate([((targets > 0) & (targets < 1)).any(1) for _, targets in batches])
        assert soft[rows >= documents].any()
        assert not soft[rows < documents].any()


@pytest.mark.parametrize("recipe", ["renee", "dexml"])
def test_soft_targets_reach_the_losses_over_all_labels(recipe, data, monkeypatch):
    plain, seen = SparseTargets.of, []

    def of(targets, filtered, rows):
        found = plain(targets, filtered, rows)
        seen.append((rows[found.positives.rows].numpy(), found.positives.weights.numpy()))
        return found

    monkeypatch.setattr(SparseTargets, "of", of)
    held = {"validation": 0.05} if recipe == "renee" else {}
    RECIPES[recipe](data, augment="gandalf:threshold=0.05", **SMALL, **held)
    rows, weights = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    documents = len(data.train) - (len(data.train) // 20 if recipe == "renee" else 0)
    assert (weights[rows < documents] == 1).all()
    assert (weights[rows >= documents] < 1).any()


def test_the_fusion_counts_original_documents_alone(data):
    bundle = ngame(data, augment="gandalf", classifier_epochs=1, validation=0.05, **SMALL)
    kept = np.setdiff1d(np.arange(400), rows_at_random(400, 20, 3))
    np.testing.assert_array_equal(bundle.fusion.frequency, label_frequency(data.train.targets[kept]))
    assert len(bundle.labels) == len(data.labels)


def test_a_wrong_augmentation_is_said_before_training(data, monkeypatch):
    monkeypatch.setattr(module, "take_step", lambda *_, **__: pytest.fail("a step was taken"))
    with pytest.raises(LongtailError, match="augment: expected one of none, gandalf"):
        ngame(data, augment="galdalf", **SMALL)
