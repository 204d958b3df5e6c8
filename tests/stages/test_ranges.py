"""Numbers that a recipe cannot use are refused in one line, before anything is trained or written."""

from __future__ import annotations

import inspect
import math
from typing import get_args, get_type_hints

import pytest

from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.recipes import RECIPES
from longtail.stages.ranges import RANGES, Range


def numbers_of(recipe: str) -> dict[str, object]:
    """The arguments of a recipe that are numbers, with their defaults."""
    hints = get_type_hints(RECIPES[recipe])
    arguments = inspect.signature(RECIPES[recipe]).parameters
    return {name: arguments[name].default for name in arguments if {*get_args(hints[name]), hints[name]} & {int, float}}


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_number_has_a_range_that_its_default_is_in(recipe):
    numbers = numbers_of(recipe)
    assert set(numbers) <= set(RANGES)
    assert not [name for name, default in numbers.items() if default is not None and default not in RANGES[name]]


def test_no_range_is_of_an_argument_that_is_gone():
    assert set(RANGES) == {name for recipe in RECIPES for name in numbers_of(recipe)}


@pytest.mark.parametrize(
    ("kind", "inside", "outside", "words"),
    [
        (Range(1), [1, 2, 1e9], [0, -1, math.nan, math.inf], "at least 1"),
        (Range(0, open="low"), [1e-9, 3], [0, -1, math.nan], "above 0"),
        (Range(0, 1, open="high"), [0, 0.999], [1, -1e-9], "at least 0 and below 1"),
        (Range(0, 1, open="low"), [1e-9, 1], [0, 1.001], "above 0 and at most 1"),
        (Range(-1, 1), [-1, 1], [-1.1, 1.1], "at least -1 and at most 1"),
        (Range(-math.inf), [-14, 0], [math.inf, -math.inf, math.nan], "a finite number"),
    ],
)
def test_a_range_knows_its_ends_and_says_them(kind, inside, outside, words):
    assert all(number in kind for number in inside)
    assert not any(number in kind for number in outside)
    assert str(kind) == words


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_number_out_of_range_is_refused_before_anything_is_written(recipe, tmp_path):
    data = Dataset.from_texts(["red", "blue"], [[0], [1]], ["warm", "cold"])
    with pytest.raises(BadInput, match=r"^--batch: expected at least 1, found 0; longtail train RECIPE --help says"):
        RECIPES[recipe](data, out=tmp_path / "run", batch=0)
    with pytest.raises(BadInput, match=r"^--learning-rate: expected above 0, found nan; "):
        RECIPES[recipe](data, out=tmp_path / "run", learning_rate=math.nan)
    assert not list(tmp_path.iterdir())
