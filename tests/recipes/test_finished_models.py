"""A model that a recipe returns is ready to be asked: no part of it is in train mode, and threads get one answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from longtail import recipes
from longtail.model import Ensemble, Reranker
from longtail.model.exports import modules_of
from longtail.modules.cross_encoder import CrossEncoder
from longtail.sklearn import LongtailClassifier
from longtail.stages.finished import finish
from longtail.testing.planted import planted, planted_links
from longtail.train.run import Run

DATA = planted(0, documents=120, test_documents=10, labels=40).dataset
LINKS = planted_links(0, documents=120, test_documents=10, labels=40).dataset
TEXTS = [*[*DATA.train.documents.fields["title"]][:48], "red fish", "blue bird", "one two"]
QUICK = {"epochs": 1, "batch": 32, "device": "cpu"}
OAK = {"linker_epochs": 1, "classifier_epochs": 1, "width": 8}


def in_train_mode(model: Any) -> list[str]:
    return [type(part).__name__ for whole in modules_of(model) for part in whole.modules() if part.training]


def modules_in(value: Any, seen: set[int]) -> Iterator[nn.Module]:
    """Every module that hangs on a model, wherever: a twin of `modules_of` that knows nothing of models."""
    if isinstance(value, nn.Module):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from modules_in(one, seen)
    elif isinstance(value, Mapping):
        yield from modules_in([*value.values()], seen)
    elif type(value).__module__.startswith("longtail.") and id(value) not in seen:
        seen.add(id(value))
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        yield from modules_in([getattr(value, name, None) for name in (*slots, *getattr(value, "__dict__", ()))], seen)


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("dpr", {"width": 8}),
        ("dpr", {"encoder": "tiny_bert", "max_length": 8}),
        ("dpr", {"encoder": "convolution", "width": 8}),
        ("unidec", {"width": 8, "validation": 0.2}),
        ("oak", {**OAK, "linker": "unidec"}),
        ("oak", {**OAK, "share_encoder": True}),
        ("attentionxml", {"width": 8}),
        ("galaxc", {"width": 8, "classifier_epochs": 1}),
    ],
)
def test_no_module_of_a_finished_model_is_in_train_mode(
    recipe: str, options: dict[str, Any], tiny_bert: Path, tmp_path: Path
) -> None:
    asked = {name: str(tiny_bert) if value == "tiny_bert" else value for name, value in options.items()}
    data = LINKS if recipe == "oak" else DATA
    model = recipes.RECIPES[recipe](data, out=tmp_path / "run", **QUICK, **asked)
    found = {part for whole in modules_of(model) for part in whole.modules()}
    assert found == {part for whole in modules_in(model, set()) for part in whole.modules()}
    assert in_train_mode(model) == []
    again = recipes.RECIPES[recipe](data, out=tmp_path / "run", **QUICK, **asked)  # it is finished, and opened
    assert in_train_mode(again) == []


def test_nor_of_an_ensemble_of_a_reranked_model_or_of_an_estimator(tiny_bert: Path) -> None:
    one, other = (recipes.dpr(DATA, **QUICK, width=8, seed=seed) for seed in (0, 1))
    cross = CrossEncoder(tiny_bert, max_length=8)
    model = Ensemble(one, Reranker(other, cross, np.zeros((3, 3)), 5, {}))
    for part in (one.encoder, other.encoder, cross):
        part.train()
    finish(Run(), model)
    assert in_train_mode(model) == []
    fitted = LongtailClassifier("dpr", **QUICK).fit(["red fish", "blue bird"] * 8, [["red"], ["blue"]] * 8)
    assert in_train_mode(fitted.model_) == []


@pytest.mark.parametrize("encoder", ["tiny_bert", "convolution"])
def test_threads_get_what_one_gets_and_change_nothing(encoder: str, tiny_bert: Path) -> None:
    asked = {"encoder": str(tiny_bert), "max_length": 8} if encoder == "tiny_bert" else {"encoder": encoder, "width": 8}
    model = recipes.dpr(DATA, **QUICK, **asked)
    alone = model.predict(TEXTS, 5).scores
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: model.predict(TEXTS, 5).scores, range(40)))
    for scores in (*found, model.predict(TEXTS, 5).scores):
        np.testing.assert_array_equal(scores, alone)
