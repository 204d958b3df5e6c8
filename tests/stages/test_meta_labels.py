"""Clusters and labels that are trained together: the parts by hand, and runs that were stopped and taken up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from longtail import recipes
from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.losses.softmax import decoupled_softmax
from longtail.metrics.propensity import log_odds
from longtail.stages import meta_labels
from longtail.stages.meta_labels import MetaLabelOptions, train_with_meta_labels
from longtail.stages.text import read_text
from longtail.testing.planted import planted
from longtail.train import fit as module
from longtail.train.run import Run

SMALL = {"batch": 64, "width": 16, "warmup": 5, "epochs": 3, "detached_epochs": 1, "seed": 3, "device": "cpu"}


class Crash(Exception):
    pass


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=400, labels=100).dataset


def together(data, *, label_texts=False, run=None, clusters=None, **options):
    torch.manual_seed(0)
    settings = {
        "width": 16,
        "max_length": 8,
        "detached_epochs": 0,
        "epochs": 0,
        "batch": 100,
        "random_negatives": 8,
        "beam": 2,
        "shortlist_negatives": 2,
        "refresh_every": 1,
        "learning_rate": 4e-3,
        "warmup": 1,
        "dropout": 0.0,
    }
    o = MetaLabelOptions(**{**settings, **options})
    text = read_text(run or Run(), data, o)
    clusters = np.arange(len(data.labels)) // 4 if clusters is None else clusters
    return text, train_with_meta_labels(text, data.train, clusters, o, label_texts=label_texts)


def steps(monkeypatch):
    """What each step had: the terms, the gradients of the encoder's parameters, and the pool."""
    seen, plain = [], module.take_step

    def step(objective, batch, optimizer, *, seed):
        values = plain(objective, batch, optimizer, seed=seed)
        gradients = [p.grad for p in optimizer.param_groups[0]["params"]]
        seen.append((values, gradients, set(batch.label_ids.tolist())))
        return values

    monkeypatch.setattr(module, "take_step", step)
    return seen


def test_the_task_of_labels_has_no_gradient_to_the_encoder_while_it_is_detached(data, monkeypatch):
    seen = steps(monkeypatch)
    for stage, there in (("detached_epochs", False), ("epochs", True)):
        seen.clear()
        together(data, **{stage: 1}, meta_weight=0.0)  # so that all gradients are those of labels
        assert {"meta", "label"} == seen[0][0].keys()
        values = [g.coalesce().values() if g.is_sparse else g for g in seen[-1][1] if g is not None]
        assert any((value != 0).any() for value in values) == there


def test_a_label_is_its_text_its_cluster_and_what_is_its_own(data):
    text, w = together(data, label_texts=True)
    np.testing.assert_array_equal(w, np.pad(text.embed(text.labels), ((0, 0), (0, 1))))  # before training
    alone = np.arange(len(data.labels)) % 2  # two clusters
    _, w = together(data, clusters=alone, epochs=1, shortlist_negatives=0, random_negatives=0)
    unseen = np.asarray(data.train.targets.sum(0)).ravel() == 0  # never in a pool
    for cluster in (0, 1):
        of_cluster = w[unseen & (alone == cluster)]
        assert np.abs(of_cluster).max() > 0
        assert (of_cluster == of_cluster[0]).all()
    assert len(np.unique(w[~unseen], axis=0)) == (~unseen).sum()


def test_a_true_cluster_is_true_whichever_of_its_labels_is_in_the_pool(monkeypatch):
    """Both documents draw one label of theirs: often the mate of another label of the other one's, in its cluster."""
    lists = Dataset.from_texts(["red apple", "green pear"], [[0, 3], [1, 2]], ["apple", "pear", "plum", "quince"])
    data = replace(lists, train=replace(lists.train, filtered=csr_of_lists([[1], [0]], 4)))
    seen = []

    def loss(scores, targets, mask):
        seen.append((targets.tolist(), mask.tolist()))
        return decoupled_softmax(scores, targets, mask)

    monkeypatch.setattr(meta_labels, "loss_named", lambda *_, **__: loss)
    o = MetaLabelOptions(width=16, max_length=8, detached_epochs=0, epochs=6, batch=2, random_negatives=0)
    text = read_text(Run(), data, o)
    train_with_meta_labels(text, data.train, np.array([0, 0, 1, 1]), o, positives=1)
    of_clusters = seen[::2]  # then the same of labels
    both = [targets for targets, _ in of_clusters if len(targets[0]) == 2]
    assert both
    assert all(targets == [[1, 1], [1, 1]] for targets in both)
    assert all(all(map(all, mask)) for _, mask in of_clusters)


def test_pools_hold_labels_of_the_clusters_near_to_a_document(data, monkeypatch):
    seen = steps(monkeypatch)
    options = {"epochs": 1, "batch": 10, "random_negatives": 0, "beam": 1}
    together(data, **options, shortlist_negatives=0)
    plain = [pool for _, _, pool in seen]
    seen.clear()
    together(data, **options, shortlist_negatives=3)
    hard = [pool for _, _, pool in seen]
    assert all(one <= other for one, other in zip(plain, hard, strict=True))
    assert sum(map(len, hard)) > sum(map(len, plain))


@pytest.mark.parametrize("recipe", ["inceptionxml", "inceptionxml_lf"])
@pytest.mark.parametrize("crash_at", [3, 15])
def test_a_run_that_was_stopped_ends_bit_equal(recipe, crash_at, data, tmp_path, monkeypatch):
    """Detached for 6 steps, joint for 18. Running means and singular vectors are a part of a checkpoint."""
    train = recipes.RECIPES[recipe]
    train(data, out=Run(tmp_path / "whole"), **SMALL)
    plain, taken = module.take_step, []

    def step(*arguments, seed):
        if seed and len(taken) == crash_at:  # the plan's trial steps have seed 0
            raise Crash
        taken.extend([seed] if seed else [])
        return plain(*arguments, seed=seed)

    with monkeypatch.context() as patch:
        patch.setattr(module, "take_step", step)
        with pytest.raises(Crash):
            train(data, out=Run(tmp_path / "run", interval=0.0), **SMALL)
    train(data, out=Run(tmp_path / "run", interval=0.0), **SMALL)
    for file in ("labels.safetensors", "encoder/convolution.safetensors"):
        whole, again = (load_file(tmp_path / run / "model" / file) for run in ("whole", "run"))
        assert whole.keys() == again.keys()
        for name, array in whole.items():
            np.testing.assert_array_equal(array, again[name])
    assert np.any(whole["mixed.running_mean"] != 0)


def test_rows_meet_the_labels_of_their_own_clusters_and_random_ones_before(data, monkeypatch):
    seen, plain = [], module.take_step

    def step(objective, batch, optimizer, *, seed):
        if seed:
            seen.extend(((batch.places >= 0) & (batch.targets == 0)).sum(1).tolist())
        return plain(objective, batch, optimizer, seed=seed)

    monkeypatch.setattr(module, "take_step", step)
    together(data, detached_epochs=1, epochs=1, own_shortlists=True, loss="binary_cross_entropy", cluster_size=4)
    assert len(seen) == 2 * len(data.train)
    assert all(0 < wrong <= 8 for wrong in seen)  # two clusters of four labels


def test_of_few_labels_drawn_at_random_a_row_meets_each_once(data, monkeypatch):
    few, seen, plain = Dataset("few", data.train.take(np.arange(50)), data.labels), [], module.take_step

    def step(objective, batch, optimizer, *, seed):
        for places, targets in zip(batch.places.tolist(), batch.targets.tolist(), strict=True):
            met = [place for place in places if place >= 0]
            assert len(met) == len({*met})
            seen.append((len(met), sum(targets)))
        return plain(objective, batch, optimizer, seed=seed)

    monkeypatch.setattr(module, "take_step", step)
    together(few, detached_epochs=1, own_shortlists=True, beam=100, cluster_size=8)  # 800 draws of 100 labels
    assert len(seen) >= 50
    assert all(true < met <= 100 for met, true in seen)
    assert np.mean([met for met, _ in seen]) > 95


def test_under_binary_cross_entropy_a_label_starts_with_its_own_odds(data):
    _, w = together(data, loss="binary_cross_entropy")
    np.testing.assert_allclose(w[:, -1], 0.1 * log_odds(data.train.targets), rtol=1e-5)
    assert np.abs(w[:, :-1]).max() == 0
