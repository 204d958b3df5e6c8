"""A first try is a tiny one: where the right answers are plain, they are found."""

from __future__ import annotations

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from stopping import stopped_in_the_middle

from longtail import Dataset, recipes
from longtail.data.shape import Shape
from longtail.report.commands import BY_BEST, BY_SHAPE
from longtail.stages.recipe import options_class
from longtail.train.log import LOG, Log
from longtail.train.run import Run

BOTH = ("title", "content")
PRODUCTS = {
    "red running shoes": ["sport", "clothing"],
    "two-person tent": ["outdoor"],
    "steel cooking pot": ["kitchen"],
    "wool winter coat": ["clothing"],
    "oak dining table": ["furniture"],
    "cast iron frying pan": ["kitchen"],
}
MORE = {
    "trail running jacket": ["sport", "clothing"],
    "camping gas stove": ["outdoor", "kitchen"],
    "leather office chair": ["furniture"],
    "bread knife": ["kitchen"],
    "football boots": ["sport", "clothing"],
    "pine bookshelf": ["furniture"],
    "rain coat": ["clothing"],
    "tennis racket": ["sport"],
    "wooden desk": ["furniture"],
    "kettle": ["kitchen"],
    "linen shirt": ["clothing"],
    "dining chair": ["furniture"],
    "tent pegs": ["outdoor"],
}
PLAIN = {
    "cooking pot": "kitchen",
    "winter coat": "clothing",
    "iron pan": "kitchen",
    "oak desk": "furniture",
    "tent for two": "outdoor",
}


def of_rows(rows: dict[str, list[str]]) -> Dataset:
    labels = sorted({label for row in rows.values() for label in row})
    return Dataset.from_texts(list(rows), [[labels.index(label) for label in row] for row in rows.values()], labels)


@pytest.mark.parametrize("recipe", ["unidec", "dpr", "ngame", "astec"])
@pytest.mark.parametrize("rows", [PRODUCTS, PRODUCTS | MORE], ids=["6 rows", "19 rows"])
def test_what_shares_a_word_with_one_document_gets_its_label(recipe, rows):
    found = getattr(recipes, recipe)(of_rows(rows), device="cpu").predict(list(PLAIN), k=1)
    titles = {text: labels[0].text for text, labels in zip(PLAIN, found, strict=True)}
    assert titles == PLAIN
    assert (found.scores > 0).all()


def test_two_documents_are_enough_for_the_example_of_the_readme():
    tiny = Dataset.from_texts(["red shoes", "oak table"], [[0], [1]], ["footwear", "furniture"])
    found = recipes.dpr(tiny, device="cpu").predict(["blue shoes", "oak desk"], k=1)
    assert found.ids[:, 0].tolist() == [0, 1]
    assert (found.scores > 0.1).all()


@pytest.mark.parametrize("labels", [[[0]], [[0], []]], ids=["one row", "another without labels"])
def test_no_link_is_predicted_where_the_other_documents_have_none_to_learn_from(labels):
    tiny = Dataset.from_texts(["red shoes", "oak table"][: len(labels)], labels, ["footwear", "furniture"])
    found = recipes.pina(tiny, device="cpu").predict(["red boots"], k=1)
    assert found.ids.tolist() == [[0]]


@pytest.mark.parametrize(
    ("given", "kept"),
    [({}, {"batch": 32, "validation": 0.0}), ({"batch": 3, "validation": 0.5}, {"batch": 3, "validation": 0.5})],
)
def test_what_suits_few_documents_is_a_default(given, kept, tmp_path):
    recipes.unidec(of_rows(PRODUCTS), out=tmp_path / "run", device="cpu", epochs=1, **given)
    arguments = json.loads((tmp_path / "run" / "run.json").read_text())["arguments"]
    assert {name: arguments[name] for name in kept} == kept


def test_many_documents_have_the_usual_defaults(tmp_path):
    rows = Dataset.from_texts([f"word{i % 50} other{i % 7}" for i in range(10_000)], [[0]] * 10_000, ["a label"])
    recipes.unidec(rows, out=tmp_path / "run", device="cpu", epochs=0, width=2, memory=False)
    arguments = json.loads((tmp_path / "run" / "run.json").read_text())["arguments"]
    assert (arguments["batch"], arguments["validation"], arguments["refit"]) == (256, 0.1, True)


@pytest.mark.parametrize(
    ("recipe", "documents", "given", "usual"),
    [
        ("unidec", 100_000, {}, {}),
        ("unidec", 99_999, {}, {"batch": 256, "refit": True}),
        ("unidec", 10_000, {"encoder": "minilm"}, {}),
        ("unidec", 10_000, {"encoder": "bag"}, {"batch": 256, "validation": 0.1, "refit": True}),
        ("unidec", 30_000, {}, {"batch": 256, "validation": 0.067, "refit": True}),
        ("unidec", 40_000, {}, {"batch": 256, "refit": True}),
        ("unidec", 10_000, {"start": "run"}, {"batch": 256, "refit": True}),
        ("unidec", 10_000, {"augment": "lever:run=run"}, {"batch": 256, "refit": True}),
        ("unidec", 10_000, {"augment": "none", "refit": True}, {"batch": 256, "validation": 0.1, "refit": True}),
        ("unidec", 10_000, {"refit": False}, {"batch": 256, "refit": True}),
        ("unidec", 10_000, {"enrich": None}, {"batch": 256}),
        ("unidec", 10_000, {"enrich": "none"}, {"batch": 256, "validation": 0.1, "refit": True}),
        ("unidec", 10_000, {"budget": 60}, {"batch": 256, "refit": True}),
        ("unidec", 10_000, {"epochs": "auto"}, {"batch": 256}),
        ("unidec", 25_000, {"teacher": "run", "encoder": "bag"}, {"batch": 256, "epochs": 18, "refit": True}),
        ("unidec", 25_000, {"teacher": "run"}, {"batch": 256, "epochs": 18, "refit": True}),
        ("unidec", 25_000, {"teacher": "run", "encoder": "minilm"}, {}),
        ("unidec", 24_999, {"teacher": "run", "encoder": "bag"}, {"batch": 256, "refit": True}),
        ("unidec", 25_000, {"teacher": None, "encoder": "bag"}, {"batch": 256, "validation": 0.08, "refit": True}),
        ("unidec", 8_000, {}, {"epochs": 12, "validation": 0.062, "refit": True}),
        ("unidec", 9_999, {}, {"epochs": 12, "validation": 0.05, "refit": True}),
        ("unidec", 8_000, {"epochs": "auto"}, {"epochs": 12, "validation": 0.062, "refit": False}),
        ("unidec", 1_000, {}, {"batch": 250, "epochs": 12, "validation": 0.2, "refit": True}),
        ("unidec", 100, {}, {"batch": 32, "epochs": 12, "validation": 0.0}),
        ("ngame", 4_096, {}, {}),
        ("ngame", 1_000, {}, {"batch": 125}),
        ("ngame", 499, {}, {"batch": 62, "validation": 0.0}),
        ("dpr", 100, {}, {"validation": 0.0, "batch": 16}),
        ("simcse", 100, {}, {"batch": 16}),
        ("depsl", 4_000, {}, {"batch": 500}),
    ],
)
def test_defaults_of_few_documents(recipe, documents, given, usual):
    assert options_class(recipes.RECIPES[recipe]).for_shape(Shape(documents), given) == usual


def test_a_run_that_is_resumed_keeps_the_defaults_that_it_began_with(tmp_path):
    """Twice the epochs, more held out and a second run."""
    rows = Dataset.from_texts(
        [f"word{i % 50} other{i % 7}" for i in range(600)], [[i % 7] for i in range(600)], [*"abcdefg"]
    )
    small = {"width": 8, "device": "cpu", "memory": False}
    whole = recipes.unidec(rows, **small)
    stopped_in_the_middle(lambda run: recipes.unidec(rows, out=run, **small), tmp_path / "run", steps=30)
    again = recipes.unidec(rows, out=tmp_path / "run", **small)
    chosen = {"epochs": 12, "batch": 150, "validation": 0.2, "refit": True}
    arguments = json.loads((tmp_path / "run" / "run.json").read_text())["arguments"]
    assert {name: arguments[name] for name in chosen} == chosen
    np.testing.assert_array_equal(again.vectors["encoder"], whole.vectors["encoder"])
    np.testing.assert_array_equal(again.fusion.weights, whole.fusion.weights)


@pytest.mark.parametrize(
    ("contents", "fields", "said"),
    [
        (["one", "two", "three"], ("title",), True),
        (["one", "two", "three"], ("title", "content"), False),
        (["one", "", ""], ("title",), False),
        (["", "", ""], ("title",), False),
    ],
)
def test_contents_that_are_not_read_are_said(contents, fields, said, tmp_path):
    texts = [{"title": f"title {i}", "content": content} for i, content in enumerate(contents)]
    rows = Dataset.from_texts(texts, [[0]] * 3, ["a label"])
    console = Console(file=StringIO(), width=200)
    recipes.dpr(rows, out=Run(tmp_path, Log(tmp_path / LOG, console)), epochs=0, width=4, fields=fields, device="cpu")
    line = "3 documents have a content, which is not read; fields=title,content reads it (docs/guides/long-text.md)"
    assert (line in console.file.getvalue()) == said


@pytest.mark.parametrize("recipe", recipes.RECIPES)
def test_the_command_of_a_run_tells_each_default_that_goes_by_the_data(recipe):
    """Else the command in a report would train another run."""
    kind = options_class(recipes.RECIPES[recipe])
    for documents in (100, 400, 1_000, 8_000, 12_000, 30_000, 90_000, 1_000_000):
        shape = Shape(documents, BOTH, graphs=True)
        for given in ({}, {"teacher": "run"}, {"epochs": "auto"}):
            assert kind.for_shape(shape, given).keys() <= BY_SHAPE
            assert (kind.best(shape, given) or {}).keys() <= BY_SHAPE | BY_BEST


@pytest.mark.parametrize(
    ("recipe", "given", "usual"),
    [
        ("dpr", {}, {"fields": BOTH}),
        ("dpr", {"encoder": "bag"}, {"fields": BOTH}),
        ("dpr", {"encoder": "minilm"}, {}),
        ("dpr", {"start": "run"}, {}),
        ("dismec", {}, {"fields": BOTH}),
        ("inceptionxml", {}, {}),
    ],
    ids=str,
)
def test_bags_read_short_contents(recipe, given, usual):
    """Not what another run has trained on titles, nor encoders that read so many words and no more."""
    found = options_class(recipes.RECIPES[recipe]).for_shape(Shape(100_000, BOTH), given)
    assert {name: value for name, value in found.items() if name == "fields"} == usual
    assert "fields" not in options_class(recipes.RECIPES[recipe]).for_shape(Shape(100_000), given)


def test_a_run_on_short_contents_reads_them_and_says_so(tmp_path):
    content = "one two three four five six seven eight"
    texts = [{"title": f"title {i}", "content": f"{content} {i % 2}"} for i in range(4)]
    rows = Dataset.from_texts(texts, [[i % 2] for i in range(4)], ["a label", "another"])
    for name, given in (("usual", {}), ("titles", {"fields": ("title",)})):
        console = Console(file=StringIO(), width=200)
        run = Run(tmp_path / name, Log(tmp_path / name / LOG, console))
        model = recipes.dpr(rows, out=run, batch=4, epochs=1, width=4, device="cpu", **given)
        assert model.fields == given.get("fields", BOTH)
        chosen = "validation=0.0" + ("" if given else ", fields=title,content")
        assert f"4 training documents: {chosen} (docs/guides/choosing.md)" in console.file.getvalue()


def test_a_run_names_the_defaults_of_few_documents_and_a_preset_has_none(tmp_path):
    rows = of_rows(PRODUCTS)
    for name, preset in (("usual", None), ("paper", "paper")):
        console = Console(file=StringIO(), width=200)
        run = Run(tmp_path / name, Log(tmp_path / name / LOG, console))
        recipes.unidec(rows, out=run, encoder="bag", epochs=1, device="cpu", preset=preset)
        said = "6 training documents: validation=0.0, batch=32 (docs/guides/choosing.md)" in console.file.getvalue()
        assert said == (preset is None)
