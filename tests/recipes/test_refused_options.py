"""Values that a recipe refuses: before anything is trained, and without taking the run folder."""

from __future__ import annotations

import inspect
import json
from typing import get_type_hints

import pytest

from longtail import LongtailError, load, recipes
from longtail.testing.planted import planted

QUICK = {"epochs": 1, "width": 8, "device": "cpu"}


@pytest.fixture(scope="module")
def dataset():
    return planted(0, documents=60, test_documents=16, labels=16).dataset


def names_of(recipe):
    """The arguments of a recipe that take a name."""
    hints = get_type_hints(recipe)
    return [
        key
        for key in inspect.signature(recipe).parameters
        if key not in {"dataset", "out"} and "str" in str(hints[key])
    ]


@pytest.mark.parametrize(
    ("recipe", "name"), [(recipe, name) for recipe, function in recipes.RECIPES.items() for name in names_of(function)]
)
def test_a_name_that_means_nothing_leaves_the_folder_free(recipe, name, dataset, tmp_path):
    default = inspect.signature(recipes.RECIPES[recipe]).parameters[name].default
    nonsense = ("nonsense",) if isinstance(default, tuple) else "nonsense"
    with pytest.raises(LongtailError, match="nonsense"):
        recipes.RECIPES[recipe](dataset, out=tmp_path / "run", **QUICK | {name: nonsense})
    assert not (tmp_path / "run" / "run.json").exists()
    assert not (tmp_path / "run" / "stages").exists()


@pytest.mark.parametrize("recipe", ["unidec", "ngame", "ramen"])
def test_a_corrected_call_takes_the_folder(recipe, dataset, tmp_path):
    train = recipes.RECIPES[recipe]
    with pytest.raises(LongtailError, match="expected one of triplet"):
        train(dataset, out=tmp_path / "run", classifier_loss="nonsense", **QUICK)
    train(dataset, out=tmp_path / "run", **QUICK)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["arguments"]["classifier_loss"] != "nonsense"
    assert load(tmp_path / "run", device="cpu").recipe == recipe
