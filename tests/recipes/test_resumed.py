"""Recipes that no other file of `make test` stops: a run that is stopped ends as an unbroken one, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longtail import Dataset
from longtail.recipes import RECIPES
from longtail.testing.planted import planted
from longtail.train import fit as fit_module
from longtail.train.run import Run

SMALL: dict[str, Any] = {"batch": 64, "random_negatives": 32, "width": 8, "epochs": 2, "warmup": 5, "device": "cpu"}
LINKED = {"linker": "dpr", "linker_epochs": 1, "cluster_from": 1, "classifier_epochs": 1, "validation": 0.1}
MORE: dict[str, dict[str, Any]] = {
    "simcse": {},
    "dexa": {"cluster_from": 1, "classifier_epochs": 1, "own_vectors": 10, "validation": 0.1},
    "graphsage": LINKED,
    "graphformers": LINKED,
    "pina": LINKED,
    "galaxc": {"classifier_epochs": 2, "validation": 0.1},
}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return planted(0, documents=160, test_documents=10, labels=40).dataset


class Stop(Exception):
    pass


class Steps:
    """Takes steps, and stops a run before some of them.

    Attributes:
        taken: how many.
        stops: the numbers of those that are not taken at first.
    """

    def __init__(self, plain: Callable[..., dict[str, float]]) -> None:
        self.taken, self.stops, self._plain = 0, set[int](), plain

    def __call__(self, *arguments: object, **options: object) -> dict[str, float]:
        if options["seed"]:  # the plan's trial steps have seed 0
            if self.taken in self.stops:
                self.stops.remove(self.taken)
                raise Stop
            self.taken += 1
        return self._plain(*arguments, **options)

    def restarted(self) -> int:
        """Count from 0 again; returns the count."""
        count, self.taken = self.taken, 0
        return count


def trained(recipe: str, data: Dataset, folder: Path, options: dict[str, Any]) -> dict[str, bytes]:
    """The files of the model that a run makes, with a checkpoint after each step."""
    RECIPES[recipe](data, out=Run(folder, interval=0.0), **options)
    model = folder / "model"
    return {str(file.relative_to(model)): file.read_bytes() for file in model.rglob("*") if file.is_file()}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    made = Steps(fit_module.take_step)
    monkeypatch.setattr(fit_module, "take_step", made)
    return made


@pytest.mark.parametrize("recipe", MORE)
def test_a_run_that_is_stopped_twice_ends_as_an_unbroken_one(
    recipe: str, data: Dataset, tmp_path: Path, steps: Steps
) -> None:
    given = {**SMALL, **MORE[recipe]}
    whole = trained(recipe, data, tmp_path / "whole", given)
    count = steps.restarted()
    steps.stops.update((count // 3, 3 * count // 4))  # in the encoder or a linker, and behind it
    for _ in range(2):
        with pytest.raises(Stop):
            trained(recipe, data, tmp_path / "broken", given)
    assert trained(recipe, data, tmp_path / "broken", given) == whole
    assert steps.taken == count  # nothing was done twice


def test_a_run_is_stopped_before_each_step_of_it_and_of_all_runs_within_it(
    data: Dataset, tmp_path: Path, steps: Steps
) -> None:
    """That on all documents trains a linker before its own first step."""
    given = {**SMALL, "batch": 256, "epochs": 1, "enrich": "topic", "linker": "dpr", "linker_epochs": 1}
    given |= {"validation": 0.2, "refit": True}
    whole = trained("unidec", data, tmp_path / "whole", given)
    count = steps.restarted()
    assert (tmp_path / "whole" / "refit" / "linker").is_dir()
    steps.stops.update(range(count))
    for _ in range(count):
        with pytest.raises(Stop):
            trained("unidec", data, tmp_path / "broken", given)
    assert trained("unidec", data, tmp_path / "broken", given) == whole
