"""A recipe that trains as long as held-out documents gain."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console
from stopping import stopped_after

from longtail import recipes
from longtail.compare.methods import Method
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.stages.held_out import held_out_score
from longtail.testing.planted import planted
from longtail.topk import TopK
from longtail.train.log import Log, read_log
from longtail.train.progress import settings_of
from longtail.train.run import Run

SMALL = {"batch": 64, "random_negatives": 16, "width": 8, "warmup": 5, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=320, labels=60).dataset


def test_a_comparison_reads_it():
    method = Method.parse("one=unidec:epochs=auto")
    assert method.arguments == {"epochs": "auto"}
    assert Method.parse(method.text).arguments == method.arguments


def test_auto_ends_by_itself_and_is_kept_as_it_was_asked_for(data, tmp_path):
    options = {**SMALL, "epochs": "auto", "validation": 0.3, "learning_rate": 0.05, "classifier_learning_rate": 0.05}
    told = io.StringIO()
    run = Run(tmp_path / "whole", Log(tmp_path / "whole" / "metrics.jsonl", Console(file=told, width=200)))
    whole = recipes.unidec(data, out=run, **options)
    assert "at most 24 epochs of" in told.getvalue()
    assert "joint: epoch 1 of at most 24, " in told.getvalue()
    assert settings_of(tmp_path / "whole")["arguments"]["epochs"] == "auto"
    lines = [line for line in read_log(tmp_path / "whole" / "metrics.jsonl") if "epoch" in line]
    scores = [line["held_out"] for line in lines]
    assert 3 < len(scores) < 24
    assert max(scores) > scores[0] >= 0

    def ended(log):
        return [(line["epoch"], line["terms"], line["held_out"]) for line in read_log(log) if "epoch" in line]

    path, steps = tmp_path / "run" / "metrics.jsonl", 4 * (len(scores) - 1) + 2  # while the rate falls
    stopped_after(steps, lambda: recipes.unidec(data, out=Run(path.parent, Log(path), interval=0.0), **options))
    again = recipes.unidec(data, out=Run(path.parent, Log(path)), **options)
    for kind, vectors in whole.vectors.items():
        np.testing.assert_array_equal(again.vectors[kind], vectors)
    assert ended(path) == ended(tmp_path / "whole" / "metrics.jsonl")


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("dpr", {}),
        ("astec", {}),
        ("unidec", {"validation": 0.0}),
        ("unidec", {"refit": True}),
        ("ngame", {"classifier_epochs": 0}),
    ],
)
def test_auto_is_refused_where_nothing_is_held_out_that_could_end_it(data, tmp_path, recipe, options):
    with pytest.raises(BadInput, match=r"^epochs: expected a number, found auto, and no held-out .*; give a number$"):
        recipes.RECIPES[recipe](data, out=tmp_path / "run", epochs="auto", **SMALL, **options)
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("recipe", ["ngame", "siamesexml", "oak", "ramen", "renee"])
def test_recipes_that_hold_documents_out_end_by_themselves(data, recipe, tmp_path, monkeypatch):
    """With documents held out that no epoch can do better for, the best is the first."""
    monkeypatch.setattr("longtail.stages.task.held_out_score", lambda *_: 1.0)
    options = dict.fromkeys(("classifier_epochs", "linker_epochs", "start_epochs"), 1)
    known = recipes.RECIPES[recipe].__annotations__
    run = Run(tmp_path / "run", Log(tmp_path / "run" / "metrics.jsonl"))
    given = {**SMALL, "validation": 0.05, **{n: v for n, v in options.items() if n in known}}
    recipes.RECIPES[recipe](data, out=run, epochs="auto", **given)
    lines = [line for line in read_log(tmp_path / "run" / "metrics.jsonl") if "held_out" in line]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    assert len({line["stage"] for line in lines}) == 1


def test_scores_every_so_many_epochs_are_in_the_log_and_change_nothing(data, tmp_path):
    options = {**SMALL, "epochs": 3, "validation": 0.3}
    plain = recipes.unidec(data, **options)
    run = Run(tmp_path / "run", Log(tmp_path / "run" / "metrics.jsonl"))
    model = recipes.unidec(data, out=run, evaluate_every=2, **options)
    lines = [line for line in read_log(tmp_path / "run" / "metrics.jsonl") if "epoch" in line]
    assert [line["epoch"] for line in lines if "held_out" in line] == [2, 3]
    assert all(1 <= line["positives"] <= line["pool"] for line in lines)
    for kind, vectors in plain.vectors.items():
        np.testing.assert_array_equal(model.vectors[kind], vectors)


@pytest.mark.parametrize(("recipe", "options"), [("astec", {}), ("unidec", {"validation": 0.0})])
def test_scores_are_refused_where_there_are_none(data, tmp_path, recipe, options):
    with pytest.raises(BadInput, match=r"^evaluate_every: no stage of the recipe ranks held-out documents"):
        recipes.RECIPES[recipe](data, out=tmp_path / "run", epochs=1, evaluate_every=1, **SMALL, **options)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


class Ranks:
    """A model that ranks as it is told, by two score kinds, and counts the documents that it is asked for."""

    kinds = ("encoder", "classifier")

    def __init__(self, **ids):
        self.ids, self.asked, self.excluded = {kind: np.array(rows) for kind, rows in ids.items()}, 0, []

    def encode(self, texts):
        self.asked += len(texts)
        return np.zeros((len(texts), 3), np.float32)

    def search(self, vectors, k, *, kind, exclude):
        self.excluded.append(exclude)
        ids = np.resize(self.ids[kind], (len(vectors), k))
        return TopK(ids, np.zeros(ids.shape, np.float32))


def test_a_held_out_score_by_hand():
    """P@1, P@3 and P@5 are 1/2, (1/3 + 2/3)/2 and (1/5 + 2/5)/2 by one kind, and 0, 0 and 1/10 by the other."""
    held_out = Split(Texts.of(["one", "two"]), csr_of_lists([[0], [2, 3]], 9), csr_of_lists([[8], []], 9))
    model = Ranks(encoder=[[0, 5, 6, 7, 1], [1, 2, 3, 0, 5]], classifier=[[4, 5, 6, 7, 1], [1, 4, 5, 6, 2]])
    assert held_out_score(Run(), model, held_out) == pytest.approx(100 * (1 / 2 + 1 / 2 + 3 / 10 + 1 / 10) / 6)
    assert model.excluded == [held_out.filtered] * 2


def test_no_more_than_2000_held_out_documents_are_asked():
    held_out = Split(Texts.of([str(i) for i in range(2500)]), csr_of_lists([[i % 9] for i in range(2500)], 9))
    model = Ranks(encoder=[[0, 1, 2, 3, 4]], classifier=[[0, 1, 2, 3, 4]])
    held_out_score(Run(), model, held_out)
    assert model.asked == 2000
