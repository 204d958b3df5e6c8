"""What the README shows: lists in, ranked labels out, with either encoder, in memory and from a run folder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longtail import Dataset, LongtailError, load, recipes
from longtail.data.graph import Graph
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Strings
from longtail.stages.recipe import options_class
from longtail.stages.text import TextOptions
from longtail.train.plan import Planned
from longtail.train.run import Run

DOCUMENTS = ["red shoes", "oak table", "blue shoes", "pine table"]
LABELS = ["footwear shoes", "furniture table"]
WITH_ENCODER = [name for name in recipes.RECIPES if issubclass(options_class(recipes.RECIPES[name]), TextOptions)]


@pytest.fixture
def tiny():
    graph = Graph(
        Strings.of(["red shoes", "blue table"]), csr_of_lists([[0], [1], [0], []], 2), csr_of_lists([[0], [1]], 2)
    )
    return replace(Dataset.from_texts(DOCUMENTS, [[0], [1], [0], [1]], LABELS), graphs={"kind": graph})


def test_lists_in_ranked_labels_out(tiny):
    bundle = recipes.dpr(tiny, epochs=2)
    ((first, second),) = bundle.predict(["green shoes"], k=5)  # there are two labels
    assert (first.id, first.uid, first.text) == (0, "0", "footwear shoes")  # known by its id
    assert first.score > second.score
    assert bundle.predict([]) == []


@pytest.mark.parametrize(
    ("recipe", "encoder"),
    [
        (recipe, encoder)
        for recipe in WITH_ENCODER
        for encoder in ("transformer", "convolution", "lstm")
        if recipe != "attentionxml" or encoder == "lstm"  # whose labels read the states of one
    ],
)
def test_a_run_folder_gives_the_same_model_with_any_encoder(recipe, encoder, tiny, tiny_bert, tmp_path):
    options = {"encoder": str(tiny_bert) if encoder == "transformer" else encoder, "max_length": 16, "width": 8}
    options |= {"epochs": 1, "batch": 2, "random_negatives": 1}
    trained = recipes.RECIPES[recipe](tiny, out=tmp_path / "run", device="cpu", **options)
    opened = load(tmp_path / "run", device="cpu")
    assert opened.recipe == recipe
    for before, after in zip(trained.predict(DOCUMENTS), opened.predict(DOCUMENTS), strict=True):
        assert [label.id for label in before] == [label.id for label in after]
        np.testing.assert_array_equal([label.score for label in before], [label.score for label in after])


@pytest.mark.parametrize("recipe", WITH_ENCODER)
def test_rates_rise_and_fall_as_they_are_asked_to(recipe, tiny, monkeypatch):
    plain, seen = Run.train, []

    def train(self, *arguments, pace, **options):
        seen.append((self.recipe, pace.schedule, pace.warmup))
        plain(self, *arguments, pace=pace, **options)

    monkeypatch.setattr(Run, "train", train)
    with pytest.raises(Planned):
        recipes.RECIPES[recipe](tiny, out=Run(None, dry=True), schedule="cosine", warmup=7, batch=2, device="cpu")
    assert (recipe, "cosine", 7) in seen


def test_a_finished_run_is_not_trained_again(tiny, tmp_path, monkeypatch):
    first = recipes.ngame(tiny, out=tmp_path / "run", epochs=2, validation=0.25)
    monkeypatch.setattr("longtail.train.fit.take_step", lambda *_, **__: pytest.fail("a step was taken"))
    again = recipes.ngame(tiny, out=tmp_path / "run", epochs=2, validation=0.25)
    for kind in first.vectors:
        np.testing.assert_array_equal(first.vectors[kind], again.vectors[kind])
    with pytest.raises(LongtailError, match=r"arguments \{'epochs': 2\}, asked for now is \{'epochs': 3\}"):
        recipes.ngame(tiny, out=tmp_path / "run", epochs=3, validation=0.25)


def test_static_vectors_start_the_words_that_they_know(tiny, tmp_path):
    np.save(tmp_path / "words.npy", np.eye(2, 8, dtype=np.float32))
    (tmp_path / "words.txt").write_text("shoes\ntable\n")
    path = str(tmp_path / "words.npy")
    bundle = recipes.dpr(tiny, width=8, epochs=0, static_vectors=path, device="cpu")
    index = {name: i for i, name in enumerate(bundle.encoder.tokenizer.features)}
    np.testing.assert_array_equal(bundle.encoder.table.weight.detach()[index["shoes"]], np.eye(8)[0])
    with pytest.raises(LongtailError, match=r"expected \(2, 16\), by its words and the width, found \(2, 8\)"):
        recipes.dpr(tiny, width=16, static_vectors=path)
    with pytest.raises(LongtailError, match=r"nothing\.npy: there is no such file"):
        recipes.dpr(tiny, static_vectors=str(tmp_path / "nothing.npy"))
