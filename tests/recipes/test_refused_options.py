"""Values that a recipe refuses: before anything is trained, and without taking the run folder."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from typing import get_type_hints

import pytest

from longtail import LongtailError, load, recipes
from longtail.data.texts import Strings, Texts
from longtail.testing.planted import planted
from longtail.train.log import Log
from longtail.train.run import Run

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
    known = {key: value for key, value in QUICK.items() if key in inspect.signature(recipes.RECIPES[recipe]).parameters}
    with pytest.raises(LongtailError, match="nonsense"):
        recipes.RECIPES[recipe](dataset, out=tmp_path / "run", **known | {name: nonsense})
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


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        ("eclare", {"neighbours": 0}, r"^neighbours: expected at least 1, found 0"),
        ("dexml", {"hard_negatives": 2}, r"^hard_negatives: expected 0 where every label is in the pool, found 2"),
        ("ngame", {"classifier_loss": "hinge"}, r"^classifier_loss: expected one of triplet, .*found hinge"),
        (
            "unidec",
            {"learned_temperature": True, "loss": "triplet:margin=0.2"},
            r"^loss: expected a loss whose temperature can be learned \(.*\), found triplet:margin=0\.2; choose one of",
        ),
        (
            "unidec",
            {"learned_temperature": True, "classifier_loss": "binary_cross_entropy"},
            r"^classifier_loss: expected a loss whose temperature can be learned .*, found binary_cross_entropy",
        ),
        ("ramen", {"graph_loss": "hinge"}, r"^graph_loss: expected one of triplet, .*found hinge"),
        ("dpr", {"texts_at_once": 8}, r"^texts_at_once: expected none for the encoder bag, .*, found 8; leave it"),
        ("oak", {"linker": "oak"}, r"^linker: expected one of unidec, .*found oak"),
    ],
)
def test_what_would_be_taken_for_something_else_is_refused(recipe, options, message, dataset, tmp_path):
    with pytest.raises(LongtailError, match=message):
        recipes.RECIPES[recipe](dataset, out=tmp_path / "run", **QUICK | options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("recipe", recipes.RECIPES)
def test_a_field_that_the_documents_lack_is_refused(recipe, dataset, tmp_path):
    """It would be left out of training, and be read of test documents that have it."""
    known = {key: value for key, value in QUICK.items() if key in inspect.signature(recipes.RECIPES[recipe]).parameters}
    with pytest.raises(LongtailError, match=r"^fields: expected fields .* \(title\), found market; leave it out"):
        recipes.RECIPES[recipe](dataset, out=tmp_path / "run", fields=("title", "market"), **known)
    assert not (tmp_path / "run").exists()


def test_a_further_column_that_was_read_is_a_field(dataset, tmp_path):
    """Of a data set in memory: training and test documents have it."""
    documents = dataset.train.documents
    columns = Texts(documents.uids, {**documents.fields, "market": Strings.of(["north", "south"] * 30)})
    data = replace(dataset, train=replace(dataset.train, documents=columns))
    assert recipes.dismec(data, fields=("title", "market")).fields == ("title", "market")


def test_without_classifiers_documents_are_held_out_as_they_are_asked_for(dataset, tmp_path):
    """What is learned on them is what the cosines of an encoder alone are worth."""
    run = Run(tmp_path / "run", Log(tmp_path / "run" / "metrics.jsonl"))
    model = recipes.ngame(dataset, out=run, validation=0.3, classifier_epochs=0, **QUICK)
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    (plan,) = (line["plan"] for line in lines if "plan" in line)
    assert plan["stages"][0]["rows"] == len(dataset.train) * 7 // 10
    assert model.kinds == ("encoder", "fused")
