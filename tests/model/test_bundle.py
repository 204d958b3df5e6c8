"""A model whose label set changes: labels it was not trained with, some of its labels, and two sets as one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from broken import flipped

from longtail import Dataset, LongtailError
from longtail.data.texts import Texts
from longtail.model import Bundle, Ensemble, open_model
from longtail.recipes import RECIPES
from longtail.search.fusion import Fusion

DOCUMENTS = ["red shoes", "oak table", "blue shoes", "pine table", "green hat", "grey hat"]
LABELS = ["footwear shoes", "furniture table", "headwear hat"]
NONE = np.zeros(0, np.int64)


DATA = Dataset.from_texts(DOCUMENTS, [[0], [1], [0], [1], [2], [2]], LABELS)
OPTIONS = {"dpr": {}, "ngame": {"validation": 0.34}, "unidec": {"validation": 0.34}}
PAIRS = {"a pair": ("unidec", "ngame"), "a pair with one that does not fuse": ("unidec", "dpr")}


def train(name):
    return RECIPES[name](DATA, epochs=2, device="cpu", **OPTIONS[name])


@pytest.fixture(params=[*OPTIONS, *PAIRS])
def trained(request):
    if request.param in OPTIONS:
        return train(request.param)
    both = Ensemble(*map(train, PAIRS[request.param]))
    weights = np.random.default_rng(0).normal(size=(len(both.mixed) + 1, 3))
    return both.fused_by(Fusion(weights, np.array([2, 2, 2])))


def bundles(model):
    """What a model is made of."""
    return [model] if isinstance(model, Bundle) else [model.first, model.second]


def scores(bundle, text, kind):
    """The score of every label of a text."""
    top = bundle.rank(Texts.of([text]), len(bundle.labels), kind=kind)
    return top.scores[0, np.argsort(top.ids[0])]


def test_queries_times_table_are_the_scores(trained):
    vectors = trained.encode(Texts.of(DOCUMENTS))
    for kind in trained.kinds:
        product = trained.queries(vectors, kind) @ trained.table(kind).T
        found = np.stack([scores(trained, text, kind) for text in DOCUMENTS])
        np.testing.assert_allclose(found, product, atol=1e-5)
    with pytest.raises(LongtailError, match="kind: expected one of"):
        trained.table("best")


def test_another_fusion_scores_by_its_own_weights(trained):
    vectors = trained.encode(Texts.of(DOCUMENTS))
    for seed in range(2):
        weights = np.random.default_rng(seed).normal(size=(len(trained.mixed) + 1, 3))
        fused = trained.fused_by(Fusion(weights, np.array([0, 2, 3])))
        top = fused.search(vectors, 3, kind="fused")
        product = fused.queries(vectors, "fused") @ fused.table("fused").T
        np.testing.assert_allclose(np.sort(top.scores), np.sort(product), atol=1e-5)


def test_some_labels_and_then_the_others_score_as_before(trained):
    order = np.array([2, 0, 1])
    moved = trained.take(order[:1]).followed_by(trained.take(order[1:]))
    assert list(moved.labels.fields["title"]) == [LABELS[i] for i in order]
    for kind in trained.kinds:
        np.testing.assert_allclose(
            scores(moved, "red table", kind), scores(trained, "red table", kind)[order], rtol=1e-6, atol=1e-6
        )


def test_a_new_label_without_examples_is_its_text(trained):
    new = trained.new_labels(Texts.of(["table of oak", "hat"], uids=["t", "h"]), Texts.of([]), NONE)
    assert list(new.labels.uids) == ["t", "h"]
    assert new.kinds == trained.kinds
    for bundle in bundles(new):
        text = bundle.queries(bundle.encode(new.labels), "encoder")
        for vectors in bundle.vectors.values():
            np.testing.assert_allclose(vectors[:, : text.shape[1]], text, atol=1e-6)
            assert not vectors[:, text.shape[1] :].any()
    if isinstance(trained, Bundle):  # the weights of the pairs here are random
        assert new.predict(["oak table"], k=1)[0][0].uid == "t"


def test_examples_draw_a_new_label_to_them(trained):
    labels = Texts.of(["something else", "another thing"], uids=["a", "b"])
    new = trained.new_labels(labels, Texts.of(["blue shoes", "pine table"]), np.array([1, 1]))
    plain = trained.new_labels(labels, Texts.of([]), NONE)
    for taught, untaught in zip(bundles(new), bundles(plain), strict=True):
        for kind in set(taught.kinds) & {"classifier"}:
            gain = scores(taught, "blue shoes", kind) - scores(untaught, "blue shoes", kind)
            assert gain[0] == pytest.approx(0, abs=1e-6)
            assert gain[1] > 0.1
        np.testing.assert_array_equal(taught.vectors["encoder"], untaught.vectors["encoder"])
    for model in (new, *bundles(new)):
        if model.fusion is not None:
            assert model.fusion.frequency.tolist() == [0, 2]


def test_a_model_of_new_labels_is_saved_and_opened(trained, tmp_path):
    grown = trained.followed_by(trained.new_labels(Texts.of(["desk table"], uids=["d"]), Texts.of([]), NONE))
    grown.save(tmp_path / "model")
    opened = open_model(tmp_path / "model", device=torch.device("cpu"))
    assert type(opened) is type(grown)
    assert opened.kinds == grown.kinds
    assert opened.predict(["pine table", "hat"], k=4) == grown.predict(["pine table", "hat"], k=4)


@pytest.mark.parametrize("part", ["labels.safetensors", "labels.jsonl", "encoder/bag.safetensors"])
def test_a_model_that_was_changed_on_the_disk_is_refused(trained, tmp_path, part):
    trained.save(tmp_path / "model")
    part = part if isinstance(trained, Bundle) else f"second/{part}"
    path = tmp_path / "model" / part
    path.write_bytes(flipped(path.read_bytes(), -2))
    with pytest.raises(LongtailError, match=f"{part}: expected SHA-256"):
        open_model(tmp_path / "model", device=torch.device("cpu"))
    path.unlink()
    with pytest.raises(LongtailError, match="found no such file"):
        open_model(tmp_path / "model", device=torch.device("cpu"))
