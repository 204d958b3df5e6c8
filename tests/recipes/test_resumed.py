"""Recipes that no other file of `make test` stops: a run that is stopped ends as an unbroken one, bit by bit."""

from __future__ import annotations

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


@pytest.mark.parametrize("recipe", MORE)
def test_a_run_that_is_stopped_twice_ends_as_an_unbroken_one(
    recipe: str, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, stops, plain = 0, set[int](), fit_module.take_step

    def step(*arguments: object, **options: object) -> dict[str, float]:
        nonlocal taken
        if options["seed"]:  # the plan's trial steps have seed 0
            if taken in stops:
                stops.remove(taken)
                raise Stop
            taken += 1
        return plain(*arguments, **options)  # type: ignore[arg-type]

    def train(run: str) -> dict[str, bytes]:
        RECIPES[recipe](data, out=Run(tmp_path / run, interval=0.0), **SMALL, **MORE[recipe])
        model = tmp_path / run / "model"
        return {str(file.relative_to(model)): file.read_bytes() for file in model.rglob("*") if file.is_file()}

    monkeypatch.setattr(fit_module, "take_step", step)
    whole = train("whole")
    steps, taken = taken, 0
    stops.update((steps // 3, 3 * steps // 4))  # in the encoder or a linker, and behind it
    for _ in range(2):
        with pytest.raises(Stop):
            train("broken")
    assert train("broken") == whole
    assert taken == steps  # nothing was done twice
