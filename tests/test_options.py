"""What can be asked of a recipe: values that it cannot use are refused in one line, before anything is written."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

import longtail
from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.options import COUNT, POSITIVE, Option, Range, option, options_of, parsed, seconds_of, stored, time_of
from longtail.recipes import RECIPES
from longtail.stages.recipe import options_class


def options_of_recipe(recipe: str) -> list[Option]:
    return list(options_of(options_class(RECIPES[recipe])).values())


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_number_has_a_range_and_each_default_is_a_value(recipe):
    for known in options_of_recipe(recipe):
        assert known.kind in (str, bool) or known.range is not None, known.name
        assert known.value(known.default) == known.default


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


@pytest.mark.parametrize("recipe", [name for name in RECIPES if "batch" in options_of(options_class(RECIPES[name]))])
def test_what_is_no_value_is_refused_before_anything_is_written(recipe, tmp_path):
    data = Dataset.from_texts(["red", "blue"], [[0], [1]], ["warm", "cold"])
    for name, value, message in [
        ("batch", 0, r"^batch: expected at least 1, found 0; it is: "),
        ("learning_rate", math.nan, r"^learning_rate: expected above 0, found nan; "),
        ("batch", "many", r"^batch: expected an integer, found many; "),
        ("batch", 1.5, r"^batch: expected an integer, found 1.5; "),
        ("batch", True, r"^batch: expected an integer, found True; "),
        ("fields", 3, r"^fields: expected a list of a text, found 3; "),
        ("epohcs", 3, rf"^{recipe}: has no option epohcs; did you mean epochs"),
    ]:
        with pytest.raises(BadInput, match=message):
            RECIPES[recipe](data, out=tmp_path / "run", **{name: value})
    assert not list(tmp_path.iterdir())


def test_a_path_stands_for_its_text(tiny_bert, tmp_path):
    data = Dataset.from_texts(["red", "blue"], [[0], [1]], ["warm", "cold"])
    small = {"epochs": 1, "batch": 2, "max_length": 4, "device": "cpu"}
    RECIPES["dpr"](data, encoder=tiny_bert, out=tmp_path / "run", **small)
    said = json.loads((tmp_path / "run" / "run.json").read_text())["arguments"]["encoder"]
    assert said == str(tiny_bert)
    with pytest.raises(BadInput, match="batch: expected an integer, found"):
        RECIPES["dpr"](data, batch=tmp_path)


@pytest.mark.parametrize("given", ["data", None, ["red", "blue"]])
def test_what_is_no_data_set_is_refused(given, trained, tmp_path):
    said = f"dataset: expected a Dataset, found {type(given).__name__}; Dataset.read"
    for train in (
        RECIPES["dpr"],
        partial(RECIPES["unidec"], preset="paper"),
        partial(longtail.weigh, trained),
        partial(longtail.rerank, trained),
        partial(longtail.ensemble, trained, trained),
    ):
        with pytest.raises(BadInput, match=said):
            train(given)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What is shared."""

    size: int = option(3, "of it", within=COUNT)
    names: Sequence[str] = option(("a",), "of them", choices=("a", "b"))


@dataclass(frozen=True, kw_only=True)
class Own(Shared):
    """What is its own."""

    rate: float | None = option(None, "of learning", within=POSITIVE)
    size: int = 5


def test_own_options_come_first_and_a_default_stated_anew_is_the_same_option():
    known = options_of(Own)
    assert [(name, of.default, of.group) for name, of in known.items()] == [
        ("rate", None, "What is its own"),
        ("size", 5, "What is shared"),
        ("names", ("a",), "What is shared"),
    ]
    assert known["names"].about == "of them (a, b)"
    assert known["size"].about == "of it (at least 1)"


def test_a_text_stands_for_a_value_and_json_comes_back():
    o = parsed(Own, "own", {"rate": "0.5", "names": "a, b", "size": 4})
    assert o == Own(rate=0.5, names=("a", "b"), size=4)
    assert parsed(Own, "own", json.loads(json.dumps(stored(o)))) == o
    assert parsed(Own, "own", {"size": np.int64(2)}).size == 2
    for given in ({"rate": 0}, {"names": "c"}, {"names": ["a", 1]}, {"size": None}):
        with pytest.raises(BadInput, match="expected"):
            parsed(Own, "own", given)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("45", 45), ("2 m", 120)])
def test_a_budget_is_read(text, seconds):
    assert seconds_of("budget", text) == seconds
    assert seconds_of("budget", time_of(seconds)) == seconds


def test_a_budget_is_written():
    assert [time_of(seconds) for seconds in (0.5, 90, 600, 5400, 7200)] == ["0.5s", "90s", "10m", "90m", "2h"]


@pytest.mark.parametrize("text", ["", "m", "10d", "-1", "0", "0m", "1e3"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(BadInput, match=r"^budget: expected a time such as 90s, 10m or 2h"):
        seconds_of("budget", text)
