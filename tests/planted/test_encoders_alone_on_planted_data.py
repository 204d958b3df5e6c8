"""An encoder alone learns on held-out documents, too: how frequent labels count, what documents near a text say."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from in_families import families, with_new_labels
from stopping import stopped_in_the_middle

from longtail import Dataset, load, recipes
from longtail.metrics.ranking import metrics_of
from longtail.stages.make_ensemble import ensemble
from longtail.stages.weigh import weigh
from longtail.testing.planted import planted
from longtail.train.log import Log, read_log
from longtail.train.run import Run

ALONE = {
    "dpr": {},
    "ance": {"mine_from": 1},
    "depsl": {"refresh_from": 1},
    "dexml": {"refresh_from": 1},
    "ngame": {"classifier_epochs": 0},
    "dexa": {"classifier_epochs": 0},
    "ramen": {"base": "ance", "graphs": "none"},
}
SMALL = {"epochs": 2, "batch": 64, "width": 32, "validation": 0.2, "warmup": 10, "device": "cpu"}
LABELS, COMMON = 200, 0.7


def one_is_common(seed: int) -> Dataset:
    """Each document names its label, and one more label, which nothing in its text says, is right for seven in ten."""
    rng = np.random.default_rng(seed)
    names = ["other"] + [f"name{i}" for i in range(LABELS)]

    def rows(count: int) -> tuple[list[str], list[list[int]]]:
        named, common = 1 + rng.integers(LABELS, size=count), rng.random(count) < COMMON
        titles = [f"{names[i]} kind{j}" for i, j in zip(named, rng.integers(50, size=count), strict=True)]
        return titles, [[i, 0] if both else [i] for i, both in zip(named.tolist(), common, strict=True)]

    train, test = (Dataset.from_texts(*rows(count), names) for count in (1000, 300))
    return Dataset("one is common", train.train, train.labels, test.train)


@pytest.fixture(scope="module")
def data():
    return one_is_common(0)


def at(data: Dataset, model, kind: str, k: int) -> float:
    return metrics_of(model.rank(data.test.documents, k, kind=kind), data.test.targets, ks=[k])[f"P@{k}"]


@pytest.mark.parametrize("recipe", ALONE)
def test_what_no_text_says_is_learned_of_held_out_documents(data, recipe, tmp_path):
    """Cosines have no way to say that a label is right for most texts; the fusion's constant of it is one."""
    model = recipes.RECIPES[recipe](data, out=tmp_path / "run", memory=False, **SMALL, **ALONE[recipe])
    assert model.kinds == ("encoder", "fused")
    assert set(model.calibrations) == {"encoder", "fused"}
    assert at(data, model, "encoder", 2) < 65
    assert at(data, model, "fused", 2) > 80  # of 85 that are possible
    opened, texts = load(tmp_path / "run", device="cpu"), data.test.documents.take(np.arange(20))
    np.testing.assert_array_equal(opened.rank(texts, 5).ids, model.rank(texts, 5).ids)


@pytest.mark.parametrize("recipe", ["dpr", "ance", "depsl", "dexml", "ramen"])
def test_nothing_is_learned_where_nothing_is_held_out(data, recipe):
    model = recipes.RECIPES[recipe](data, **SMALL | {"validation": 0.0}, **ALONE[recipe])
    assert model.kinds == ("encoder",)
    assert not model.calibrations


@pytest.mark.parametrize("recipe", ["dpr", "ance", "depsl", "dexml"])
def test_epochs_may_end_by_themselves_and_curves_are_drawn(data, recipe, tmp_path):
    run = Run(tmp_path / "run", Log(tmp_path / "run" / "metrics.jsonl"))
    recipes.RECIPES[recipe](data, out=run, **SMALL | {"epochs": "auto", "learning_rate": 5e-4}, evaluate_every=1)
    lines = [line for line in read_log(tmp_path / "run" / "metrics.jsonl") if "epoch" in line]
    assert [line["epoch"] for line in lines if "held_out" in line] == list(range(1, len(lines) + 1))
    assert len(lines) < 24
    assert max(line["held_out"] for line in lines) > lines[0]["held_out"]


@pytest.fixture(scope="module")
def remembering(tmp_path_factory):
    """Documents of families with words of their own and the same labels, which no text of a label says."""
    data, titles = families(0)
    folder = tmp_path_factory.mktemp("families") / "run"
    return data, titles, folder, recipes.depsl(data, out=folder, **SMALL)


def test_documents_near_a_text_are_asked_for_what_an_encoder_cannot_know(remembering):
    data, titles, folder, model = remembering
    assert model.kinds == ("encoder", "fused", "memory")
    assert at(data, model, "memory", 5) > at(data, model, "fused", 5) + 20
    opened = load(folder, device="cpu")
    for kind in model.kinds:
        np.testing.assert_array_equal(
            opened.predict(titles[:9], kind=kind).ids, model.predict(titles[:9], kind=kind).ids
        )


def test_a_run_that_was_stopped_goes_on_to_the_same_model(remembering, tmp_path):
    data, _, _, whole = remembering
    stopped_in_the_middle(lambda run: recipes.depsl(data, out=run, **SMALL), tmp_path / "run")
    again = recipes.depsl(data, out=tmp_path / "run", **SMALL)
    assert again.kinds == whole.kinds
    np.testing.assert_array_equal(again.vectors["encoder"], whole.vectors["encoder"])
    np.testing.assert_array_equal(again.fusion.weights, whole.fusion.weights)
    np.testing.assert_array_equal(again.memory.keys.vectors, whole.memory.keys.vectors)


def test_labels_come_with_examples_and_go(remembering, tmp_path):
    _, titles, folder, _ = remembering
    labels = with_new_labels(shutil.copytree(folder, tmp_path / "run"), titles)
    before = labels.snapshot.predict(titles[:20], k=7)
    labels.compact()
    labels.close()
    np.testing.assert_array_equal(load(tmp_path / "run", device="cpu").predict(titles[:20], k=7).uids, before.uids)


def test_a_second_run_on_all_documents_ranks_together_with_the_first(remembering):
    data, _, _, model = remembering
    both = recipes.depsl(data, refit=True, **SMALL)
    assert both.kinds == model.kinds
    assert both.encoder.width == 2 * model.encoder.width
    np.testing.assert_array_equal(both.fusion.weights, model.fusion.weights)
    assert at(data, both, "memory", 5) > at(data, model, "memory", 5) - 2


def test_two_encoders_are_one_ensemble_and_one_is_weighed_anew(remembering, tmp_path):
    data, titles, folder, _ = remembering
    recipes.dpr(data, out=tmp_path / "dpr", **SMALL)
    both = ensemble(folder, tmp_path / "dpr", data, out=tmp_path / "both", device="cpu")
    assert both.kinds == ("first", "second", "fused", "memory")
    weighed = weigh(tmp_path / "dpr", data, prefer="tail", out=tmp_path / "weighed", device="cpu")
    assert weighed.kinds[:2] == ("encoder", "fused")
    for model, run in ((both, "both"), (weighed, "weighed")):
        opened = load(tmp_path / run, device="cpu")
        np.testing.assert_array_equal(opened.predict(titles[:9]).ids, model.predict(titles[:9]).ids)


def test_enriched_documents_without_classifiers_mix_both_views(tmp_path):
    data = planted(0, documents=320, labels=60).dataset
    given = {"enrich": "topic", "epochs": 1, "linker_epochs": 1, "base": "dpr", "validation": 0.2}
    model = recipes.oak(data, out=tmp_path / "run", **SMALL | given)
    assert model.kinds[:3] == ("plain", "encoder", "fused")
    assert model.fusion.weights.shape == (3, 5)
    opened, texts = load(tmp_path / "run", device="cpu"), data.test.documents.take(np.arange(20))
    np.testing.assert_array_equal(opened.rank(texts, 5).ids, model.rank(texts, 5).ids)
