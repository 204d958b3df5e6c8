"""Every recipe finds what it claims to find, and its ablation does not."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import recipes
from longtail.data.synthetic import GROUP, planted
from longtail.evaluate.metrics import evaluate
from longtail.topk import TopK

SMALL = {"batch": 128, "random_negatives": 128, "width": 48, "warmup": 20, "learning_rate": 0.02, "epochs": 8}


@pytest.fixture(scope="module")
def data():
    return planted(0)


def precision(bundle, data, kind):
    """P@1 of each block."""
    test = data.dataset.test
    top = bundle.rank(test.documents, 1, kind=kind, exclude=test.filtered)
    blocks = {block: np.flatnonzero(data.blocks == block) for block in "ABC"}
    return {
        block: evaluate(TopK(top.ids[rows], top.scores[rows]), test.targets[rows], ks=[1])["P@1"]
        for block, rows in blocks.items()
    }


@pytest.fixture(scope="module")
def ngame(data):
    return recipes.ngame(data.dataset, **SMALL)


def test_dpr_finds_labels_by_their_text_and_only_those(data):
    bundle = recipes.dpr(data.dataset, **SMALL)
    assert bundle.kinds == ("encoder",)
    found = precision(bundle, data, "encoder")
    assert found["A"] > 95
    assert found["B"] < 100 / GROUP + 10  # four labels share one text
    assert found["C"] < 10  # no word and no example


def test_ngame_finds_labels_by_their_examples_too(data, ngame):
    assert ngame.kinds == ("encoder", "classifier", "fused")
    for kind in ("classifier", "fused"):
        found = precision(ngame, data, kind)
        assert found["A"] > 95, kind
        assert found["B"] > 85, kind
        assert found["C"] < 10, kind  # that takes the graph
    assert precision(ngame, data, "encoder")["B"] < 100 / GROUP + 10


def test_ngame_without_classifiers_is_a_dual_encoder(data):
    bundle = recipes.ngame(data.dataset, **SMALL, classifier_epochs=0)
    assert bundle.kinds == ("encoder",)
    assert precision(bundle, data, "encoder")["A"] > 95


def test_ngame_without_held_out_documents_has_no_fusion(data):
    bundle = recipes.ngame(data.dataset, **{**SMALL, "epochs": 2}, validation=0.0, classifier_epochs=1)
    assert bundle.kinds == ("encoder", "classifier")


def test_a_saved_bundle_predicts_the_same(data, ngame, tmp_path):
    import torch

    from longtail.bundle import Bundle

    ngame.save(tmp_path / "model")
    loaded = Bundle.load(tmp_path / "model", device=torch.device("cpu"))
    for kind in ngame.kinds:
        before = ngame.rank(data.dataset.test.documents, 5, kind=kind)
        after = loaded.rank(data.dataset.test.documents, 5, kind=kind)
        assert (before.ids == after.ids).all()
        assert (before.scores == after.scores).all()
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "bundle.json",
        "encoder",
        "labels.jsonl",
        "labels.safetensors",
    ]


def test_the_test_split_is_not_read(data, ngame):
    from dataclasses import replace

    blind = recipes.ngame(replace(data.dataset, test=None), **SMALL)
    assert all((blind.vectors[kind] == ngame.vectors[kind]).all() for kind in ngame.vectors)
    assert (blind.fusion.weights == ngame.fusion.weights).all()
