"""All that is known to gain, by one flag."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from longtail import Dataset, recipes
from longtail.data.graph import Graph
from longtail.data.shape import Shape
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Strings
from longtail.errors import BadInput
from longtail.report.commands import command_of

TEXTS = [f"word{i % 50} other{i % 7}" for i in range(600)]
FOUR = {"refits": 3, "separators": 256}  # further runs that rank together, and the separators of one
DATA = Dataset.from_texts(TEXTS, [[i % 7] for i in range(600)], [*"abcdefg"])


@pytest.mark.parametrize(
    ("documents", "given", "usual"),
    [
        (100, {}, {}),
        (8_000, {}, FOUR),
        (10_000, {}, {"epochs": 9, **FOUR}),
        (10_000, {"refit": False}, {"epochs": 9}),
        (10_000, {"validation": 0.0}, {"epochs": 9}),
        (10_000, {"epochs": "auto"}, {}),
        (10_000, {"epochs": "12"}, {"epochs": 9, **FOUR}),  # as a command line gives it, and it comes first
        (10_000, {"projection": 4}, {"epochs": 9}),
        (10_000, {"projection": 0, "enrich": "none", "fields_apart": False}, {"epochs": 9, **FOUR}),
        (24_999, {}, {"epochs": 9, **FOUR}),
        (25_000, {}, {"epochs": 9, "refits": 3}),
        (25_000, {"teacher": "run"}, {"epochs": 18, "refits": 3}),
        (100_000, {}, {"epochs": 9, "refit": True}),
        (10_000, {"encoder": "minilm"}, {"knowledge": "none", "epochs": 9, "refit": True}),
        (10_000, {"start": "run"}, {"knowledge": "none", "epochs": 9, **FOUR}),
    ],
    ids=str,
)
def test_what_is_best_is_added_to_the_defaults(documents, given, usual, monkeypatch):
    """Graphs where there are some, and what a language model knows where one is installed."""
    for installed in (True, False):
        monkeypatch.setattr("longtail.stages.for_size.is_installed", lambda _, installed=installed: installed)
        for graphs in (True, False):
            shape, known = Shape(documents, graphs=graphs), {"knowledge": "minilm"} if installed else {}
            expected = {**known, **({"graphs": ("all",)} if graphs else {}), **usual}
            expected = {name: value for name, value in expected.items() if value != "none"}
            plain = recipes.unidec.options.for_shape(shape, given)
            assert recipes.unidec.options.best(shape, given) == plain | expected


@pytest.mark.parametrize(("labels", "separators"), [(0.0, 256), (9.9, 256), (10.0, None)])
def test_where_documents_have_many_labels_there_are_no_separators(labels, separators):
    best = recipes.unidec.options.best(Shape(10_000, labels=labels), {})
    assert best.get("separators") == separators
    assert best["refits"] == 3


@pytest.mark.parametrize("recipe", sorted({*recipes.RECIPES} - {"unidec"}))
def test_only_who_knows_what_is_best_takes_that_preset(recipe):
    with pytest.raises(BadInput, match=f"preset: {recipe} has none that is called best; leave it out"):
        recipes.RECIPES[recipe](DATA, preset="best", device="cpu")


def test_a_run_of_what_is_best_is_four_that_rank_together_and_its_command_says_what_is_not(tmp_path):
    """What is given by name is what the recipe takes by itself, but not with the preset: the command has to say it."""
    edges = csr_of_lists([[i % 2] for i in range(600)], 2), csr_of_lists([[0]] * 7, 2)
    data = replace(DATA, graphs={"kind": Graph(Strings.of(["word1", "word2"]), *edges)})
    small = {"width": 8, "device": "cpu", "epochs": 1, "knowledge": "none"}
    made = recipes.unidec(data, out=tmp_path / "run", preset="best", **small)
    assert made.encoder.width == 4 * 8
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert made.vectors["separator"].shape == (7, 256 + 1)
    chosen = {"graphs": ["all"], "refit": True, **FOUR, "knowledge": "none", "preset": "best"}
    assert {name: settings["arguments"][name] for name in chosen} == chosen
    command = " ".join(command_of(settings, Path("data"), Path("run")))
    for told in ("--graphs all", "--refits 3", "--separators 256", "--knowledge none", "--preset best"):
        assert told in command
    settings["arguments"]["separators"] = 0  # as of a run that was to have none
    assert "--separators 0" in " ".join(command_of(settings, Path("data"), Path("run")))
