"""Recipes that search down a tree of labels: what they read, stopped and resumed, dry, served, with other labels."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from starlette.testclient import TestClient

from longtail import Dataset, LongtailError, load, recipes
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Texts
from longtail.model import Bundle, LabelSet
from longtail.model.explanation import explain
from longtail.model.label_set import NewLabel
from longtail.model.learning import Lessons, taught
from longtail.recipes.elias import best_paths
from longtail.search.tree import Tree
from longtail.serve.app import application
from longtail.serve.service import Settings
from longtail.testing.planted import planted
from longtail.train import fit as module
from longtail.train.log import Log
from longtail.train.plan import Planned
from longtail.train.run import Run

SMALL: dict[str, Any] = {"batch": 64, "width": 16, "warmup": 5, "epochs": 2, "cluster_size": 4, "beam": 4}
SMALL |= {"learning_rate": 0.02, "device": "cpu"}
MORE: dict[str, dict[str, Any]] = {"lightxml": {}, "cascadexml": {"branching": 2}}
MORE |= {"elias": {"start_epochs": 1, "links": 8, "link_scale": 4.0, "shortlist": 30}}
MORE |= {"attentionxml": {"levels": 2, "branching": 2, "hidden": 8}}
every_tree = pytest.mark.parametrize("recipe", MORE)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return planted(0, documents=240, test_documents=40, labels=60).dataset


@pytest.fixture(scope="module")
def trained(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Bundle]]:
    """A run of each recipe, and the model that it gave."""
    folder = tmp_path_factory.mktemp("trees")
    return {
        name: (folder / name, recipes.RECIPES[name](data, out=folder / name, **SMALL, **more))
        for name, more in MORE.items()
    }


class Crash(Exception):
    pass


@every_tree
def test_a_run_that_was_stopped_ends_bit_equal(
    recipe: str, data: Dataset, trained: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = module.take_step
    taken: list[int] = []

    def step(*arguments: Any, seed: int) -> dict[str, float]:
        if seed and len(taken) == 6:  # the plan's trial steps have seed 0
            raise Crash
        taken.extend([seed] if seed else [])
        return plain(*arguments, seed=seed)

    def again() -> Bundle:
        made: Bundle = recipes.RECIPES[recipe](data, out=Run(tmp_path / "run", interval=0.0), **SMALL, **MORE[recipe])
        return made

    with monkeypatch.context() as patch:
        patch.setattr(module, "take_step", step)
        with pytest.raises(Crash):
            again()
    whole, resumed = trained[recipe][1], again()
    for kind, vectors in whole.vectors.items():
        np.testing.assert_array_equal(vectors, resumed.vectors[kind])
    assert whole.tree is not None
    assert resumed.tree is not None
    for level, other in zip(whole.tree.levels, resumed.tree.levels, strict=True):
        np.testing.assert_array_equal(level.vectors, other.vectors)
        np.testing.assert_array_equal(level.children.toarray(), other.children.toarray())


@every_tree
def test_it_is_opened_and_served_as_it_was_trained(recipe: str, data: Dataset, trained: dict[str, Any]) -> None:
    run, model = trained[recipe]
    assert model.kinds == ("encoder", "tree")
    assert data.test is not None
    texts = list(data.test.documents.fields["title"])[:20]
    expected, opened = model.predict(texts, k=4), load(run, device="cpu").predict(texts, k=4)
    np.testing.assert_array_equal(expected.ids, opened.ids)
    np.testing.assert_array_equal(expected.scores, opened.scores)
    assert (expected.scores[:, 0] <= 1).all()
    with TestClient(application(Settings(run, device="cpu"))) as client:
        answer = client.post("/v1/predict", json={"texts": texts, "k": 4}).json()
    for row, predicted in zip(answer["results"], expected, strict=True):
        assert [label["id"] for label in row["labels"]] == [label.id for label in predicted]
        np.testing.assert_allclose([one["score"] for one in row["labels"]], [one.score for one in predicted], atol=1e-6)


@every_tree
def test_what_words_are_worth_is_known_of_labels_that_a_search_does_not_reach(
    recipe: str, data: Dataset, trained: dict[str, Any]
) -> None:
    model = trained[recipe][1]
    assert data.test is not None
    text = data.test.documents.fields["title"][0]
    top = model.predict([text], k=60)[0]
    missed = np.setdiff1d(np.arange(60), [label.id for label in top])
    rows = np.append([label.id for label in top], missed)
    explained = explain(model, {"title": text}, rows)
    expected = [label.score for label in top] + [0.0] * len(missed)
    np.testing.assert_allclose([one.scores["tree"] for one in explained], expected, atol=1e-6)
    assert all(np.isfinite([lost for _, lost in one.words]).all() for one in explained)


@every_tree
def test_labels_change_while_it_runs(recipe: str, data: Dataset, trained: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    model = trained[recipe][1]
    model.save(run / "model")
    assert data.test is not None
    text, *others = list(data.test.documents.fields["title"])[:20]
    before = model.predict([text, *others], k=60)
    first = before[0][0]
    labels = LabelSet(run, device="cpu")
    labels.add([NewLabel("new", text), NewLabel("taught", "nothing that is known", examples=[{"title": text}])])
    labels.remove([first.uid])

    def ranked(of: Any) -> dict[str, float]:
        return {label.uid: label.score for label in of.predict([text], k=62)[0]}

    changed = ranked(load(run, device="cpu"))
    assert {"new", "taught"} <= changed.keys()
    assert changed.keys() - {"new", "taught"} == {label.uid for label in before[0][1:]}
    assert all(changed[label.uid] == pytest.approx(label.score, abs=1e-6) for label in before[0][1:])
    labels.compact()
    assert ranked(load(run, device="cpu")) == pytest.approx(changed, abs=1e-6)


@every_tree
def test_it_is_taught_labels_and_those_that_it_was_trained_with_stay(
    recipe: str, data: Dataset, trained: dict[str, Any]
) -> None:
    model, text = trained[recipe][1], data.train.documents.fields["title"][0]
    counts = np.bincount(data.train.targets.indices, minlength=60)
    rare = int(np.flatnonzero(counts)[0])  # as if no training document had it: it is in the middle, and made anew
    lessons = Lessons(np.arange(60) != rare, *Lessons.none(data.train.targets)[1:])
    targets = csr_of_lists([[60], [rare, 60, 3]], 61)
    made, _ = taught(model, Texts.of(["zebra"], uids=["z"]), Texts.of([text, "zebra"]), targets, lessons)
    stayed = np.delete(np.arange(60), rare)
    for name, rows in made.per_label().items():
        known, now = model.per_label()[name][stayed], rows[stayed]
        if isinstance(now, Tree):
            known, now = known.links.toarray(), now.links.toarray()
        np.testing.assert_array_equal(now, known)
    expected = model.new_labels(
        Texts.of([data.labels.fields["title"][rare], "zebra"], uids=[data.labels.uids[rare], "z"]),
        Texts.of([text, "zebra", "zebra"]),
        np.array([1, 0, 1]),
    )
    np.testing.assert_allclose(made.vectors["tree"][[rare, 60]], expected.vectors["tree"], atol=1e-6)
    assert made.tree is not None
    assert expected.tree is not None
    np.testing.assert_array_equal(made.tree.links[:, [rare, 60]].toarray(), expected.tree.links.toarray())
    assert "z" in made.predict(["zebra", text], 61).uids  # its node is the best one of one of its texts


@every_tree
def test_a_dry_run_writes_nothing(recipe: str, data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(Planned):
        recipes.RECIPES[recipe](data, out=Run(tmp_path / "run", dry=True), **SMALL, **MORE[recipe])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("recipe", "joined"), [("lightxml", 2), ("cascadexml", 4)])
def test_a_transformer_has_a_vector_of_its_own_for_each_level(
    recipe: str, joined: int, data: Dataset, tiny_bert: Path, tmp_path: Path
) -> None:
    options = {**SMALL, **MORE[recipe], "epochs": 1, "encoder": str(tiny_bert), "max_length": 8}
    model = recipes.RECIPES[recipe](data, out=tmp_path / "run", **options)
    assert model.tree is not None
    assert model.width == 32 * joined  # of two layers, the first is read by all levels but the last
    read = [(level.start, level.vectors.shape[1] - 1) for level in model.tree.levels]
    read.append((model.tree.start, model.vectors["tree"].shape[1] - 1))
    assert read == ([(0, 64), (0, 64)] if recipe == "lightxml" else [(0, 64), (64, 32), (96, 32)])
    assert load(tmp_path / "run", device="cpu").predict(["red fish"]).ids.shape == (1, 5)


def test_an_encoder_without_layers_says_so_in_one_line(data: Dataset) -> None:
    console = Console(file=io.StringIO(), width=200)
    recipes.cascadexml(data, out=Run(None, Log(None, console)), **{**SMALL, "epochs": 0})
    assert console.file.getvalue().count("all levels read one vector, as the encoder has no layers") == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"encoder": "bag"}, "encoder: expected lstm, whose states labels attend to, found bag"),
        ({"temperature": 0.1}, "temperature: expected 1, as scores are no cosines, found 0.1"),
        (
            {"fields": ("title", "content"), "fields_apart": True},
            "fields_apart: labels attend to the words of one text here",
        ),
        ({"hidden": 7}, "hidden: expected an even number, half of which count against a label, found 7"),
    ],
)
def test_what_labels_cannot_attend_to_is_refused(given: dict[str, Any], problem: str, data: Dataset) -> None:
    with pytest.raises(LongtailError, match=problem):
        recipes.attentionxml(data, **SMALL, **given)


@every_tree
def test_scores_that_are_no_logits_are_refused(recipe: str, data: Dataset) -> None:
    with pytest.raises(LongtailError, match="loss: expected one that asks of each label by itself"):
        recipes.RECIPES[recipe](data, **SMALL, loss="triplet")


def test_of_several_paths_to_a_label_the_best_counts() -> None:
    ids = torch.tensor([[3, 5, 3, -1, 7], [1, 1, 1, 1, 2]])
    paths = torch.tensor([[0.1, 0.3, 0.4, 0.9, 0.2], [0.5, 0.7, 0.6, 0.7, 0.1]])
    found, worth = best_paths(ids, paths, 2)
    assert found.tolist() == [[3, 5], [1, 2]]
    np.testing.assert_allclose(worth, [[0.4, 0.3], [0.7, 0.1]])


def test_two_runs_of_elias_with_several_threads_are_one_to_the_bit(set_threads):
    """Many texts share a cluster, and the gradients of its links are summed, in an order that threads do not change."""
    set_threads(2)
    data = planted(0, documents=3000, test_documents=100, labels=200).dataset
    one, other = (recipes.elias(data, epochs=1, start_epochs=1, batch=512, width=16, device="cpu") for _ in range(2))
    for kind, vectors in one.vectors.items():
        np.testing.assert_array_equal(vectors, other.vectors[kind])
