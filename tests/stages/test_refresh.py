"""What is renewed between epochs, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail import recipes
from longtail.batches.samplers import Clustered
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.stages.refresh import ClusterOptions, mine, regroup
from longtail.testing.planted import planted
from longtail.train import fit as fit_module
from longtail.train.renewal import Moment
from longtail.train.run import Run

LABELS = np.eye(4, dtype=np.float32)
DOCUMENTS = np.array([[4, 3, 2, 1], [1, 2, 3, 4]], np.float32)  # label 0 is nearest to the first, label 3 to the second


def test_mined_negatives_are_the_nearest_labels_that_are_neither_true_nor_filtered() -> None:
    split = Split(Texts.of(["a", "b"]), csr_of_lists([[0], [1, 3]], 4), csr_of_lists([[2], []], 4))
    ids = mine(Run(), split, DOCUMENTS, LABELS, 3)
    assert ids.tolist() == [[1, 3, -1], [2, 0, -1]]


def test_mined_negatives_without_a_filter() -> None:
    split = Split(Texts.of(["a", "b"]), csr_of_lists([[], [3]], 4), None)
    assert mine(Run(), split, DOCUMENTS, LABELS, 2).tolist() == [[0, 1], [2, 1]]


def test_regrouping_comes_from_seed_epoch_and_step() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)

    def clusters(seed: int, epoch: int, step: int = 0) -> list[int]:
        run, sampler = Run(), Clustered(50, 8, seed=seed)
        run.seed = seed
        regroup(run, sampler, vectors, ClusterOptions(cluster_size=4), Moment(epoch, step, 1))
        return sampler.state_dict()["clusters"].tolist()

    assert clusters(0, 1) == clusters(0, 1)
    assert clusters(0, 1) != clusters(0, 2)
    assert clusters(0, 1) != clusters(1, 1)
    assert clusters(0, 1) != clusters(0, 1, 2)


def test_clusters_double_from_the_epochs_that_are_named() -> None:
    """Source: RAMEN, Table 10; NGAME's code: [10, 20, ...]."""
    sizes, options = [], ClusterOptions(cluster_size=2, cluster_doubles=(3, 5))
    for epoch in range(7):
        sampler = Clustered(48, 8, seed=0)
        regroup(Run(), sampler, np.eye(48, dtype=np.float32), options, Moment(epoch, 0, 1))
        sizes.append(int(np.bincount(sampler.state_dict()["clusters"].numpy()).max()))
    assert sizes == [2, 2, 2, 3, 3, 6, 6]  # halves of 48: at most 4 is 3


@pytest.mark.parametrize("recipe", ["unidec", "ance", "ngame", "ramen"])
def test_a_run_that_renews_within_epochs_goes_on_where_it_was_killed(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = planted(0, documents=200, labels=40).dataset
    asked = {"batch": 40, "epochs": 3, "width": 8, "refresh_steps": 2, "random_negatives": 2}
    first = {"ance": "mine_from", "ngame": "cluster_from"}.get(recipe, "refresh_from")
    asked |= {first: 1, "device": "cpu"} | ({} if recipe == "ance" else {"validation": 0.0})
    asked |= {"refit": False} if recipe == "unidec" else {}
    usual = {name: value for name, value in asked.items() if name != "refresh_steps"}
    whole, between_epochs = (recipes.RECIPES[recipe](data, **given) for given in (asked, usual))
    assert not np.array_equal(whole.vectors["encoder"], between_epochs.vectors["encoder"])
    take, steps = fit_module.take_step, 0

    def killed(*given: Any, **more: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps in {4, 9, 14}:  # of 15: before there is any, and within epochs
            raise KeyboardInterrupt
        return take(*given, **more)

    monkeypatch.setattr(fit_module, "take_step", killed)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            recipes.RECIPES[recipe](data, out=Run(tmp_path / "run", interval=0.0), **asked)
    model = recipes.RECIPES[recipe](data, out=Run(tmp_path / "run", interval=0.0), **asked)
    np.testing.assert_array_equal(model.vectors["encoder"], whole.vectors["encoder"])
