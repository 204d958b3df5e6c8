"""What only the nodes of a document determine is found by OAK through predicted links, and each ablation loses."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import recipes
from longtail.testing.planted import NODES, planted_links

SMALL = {"batch": 128, "random_negatives": 64, "width": 48, "warmup": 20, "learning_rate": 0.02, "epochs": 6}
OAK = {**SMALL, "train_links": "true", "bank_learning_rate": 0.05, "calibration_weight": 0.1}
SLOW = pytest.mark.slow  # some seconds each; every one is trained, for less, by tests of its own kind
OAK |= {"classifier_epochs": 3, "linker": "ngame"}


@pytest.fixture(scope="module")
def data():
    return planted_links(0)


def precision(bundle, data, kind, links=None):
    """P@1 of each block."""
    test = data.dataset.test
    best = bundle.search(bundle.encode(test.documents, links), 1, kind=kind).ids[:, 0]
    right = test.targets.toarray()[np.arange(len(best)), best] > 0
    return {block: 100 * right[data.blocks == block].mean() for block in "AD"}


def test_text_alone_does_not_find_the_block_of_the_links(data):
    bundle = recipes.ngame(data.dataset, **SMALL, classifier_epochs=3)
    for kind in ("encoder", "classifier"):
        found = precision(bundle, data, kind)
        assert found["A"] > 95, kind
        assert found["D"] < 10, kind


@pytest.fixture(scope="module")
def oak(data):
    return recipes.oak(data.dataset, **OAK)


def test_oak_finds_through_predicted_links_what_only_the_nodes_determine(data, oak):
    assert oak.kinds == ("plain", "encoder", "plain-classifier", "classifier", "product", "fused")
    for kind, least in (("encoder", 85), ("classifier", 90), ("product", 85)):
        found = precision(oak, data, kind)
        assert found["A"] > 95, kind
        assert found["D"] > least, kind
    assert precision(oak, data, "plain")["D"] < 10


def test_true_links_find_it_too_and_wrong_ones_do_not(data, oak):
    right = NODES * data.dataset.test.targets.indices[:, None] + np.arange(NODES)
    assert precision(oak, data, "classifier", right)["D"] > 85
    assert precision(oak, data, "classifier", np.roll(right, 7, axis=0))["D"] < 20
    assert precision(oak, data, "classifier", np.full_like(right, -1))["D"] < 10


def test_the_linker_finds_the_nodes(data, oak):
    top = oak.linked.linker.rank(data.dataset.test.documents, NODES).ids
    assert (top // NODES == data.dataset.test.targets.indices[:, None]).mean() > 0.95


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        ({"bank": False}, 80, 100),
        pytest.param({"combiner": "mean"}, 90, 100, marks=SLOW),  # all links are right: nothing to choose from
        pytest.param({"combiner": "early"}, 90, 100, marks=SLOW),
        pytest.param({"base": "dpr"}, 85, 100, marks=SLOW),
        pytest.param({"share_encoder": True}, 40, 90, marks=SLOW),  # an encoder of labels alone links less well
        pytest.param({"bank_row_wise": True, "attention_heads": 4}, 85, 100, marks=SLOW),
        # from a text of common words alone no node can be predicted
        pytest.param({"train_links": "out-of-fold"}, 0, 10, marks=SLOW),
    ],
    ids=str,
)
def test_variants_of_oak_keep_or_lose_the_block_of_the_links(data, options, least, most):
    found = precision(recipes.oak(data.dataset, **{**OAK, "classifier_epochs": 0, **options}), data, "encoder")
    assert found["A"] > 95
    assert least <= found["D"] <= most


@pytest.mark.parametrize(
    ("wrong", "least", "most"),
    [pytest.param(0.3, 65, 90, marks=SLOW), (0.6, 12, 45), pytest.param(0.9, 0, 8, marks=SLOW)],
)
def test_wrong_links_cost_what_they_are_and_no_more(wrong, least, most):
    """Where few links are right, few are predicted; what needs none is found as before."""
    noisy = planted_links(0, wrong_links=wrong)
    found = precision(recipes.oak(noisy.dataset, **{**OAK, "classifier_epochs": 0}), noisy, "encoder")
    assert found["A"] > 95
    assert least <= found["D"] <= most


def test_unidec_finds_it_too_when_it_is_enriched_and_not_without(data):
    unidec = {**SMALL, "epochs": 4, "linker": "ngame", "linker_epochs": 6, "train_links": "true", "memory": False}
    unidec |= {"bank_learning_rate": 0.05, "refit": False, "refresh_from": 9, "validation": 0.05}
    bundle = recipes.unidec(data.dataset, **unidec, enrich="kin")
    for kind, least in (("encoder", 80), ("classifier", 80)):
        found = precision(bundle, data, kind)
        assert found["A"] > 95, kind
        assert found["D"] > least, kind
    for kind in ("plain", "plain-classifier"):
        assert precision(bundle, data, kind)["D"] < 10, kind


@pytest.mark.parametrize(("recipe", "least"), [("graphsage", 90), pytest.param("graphformers", 65, marks=SLOW)])
def test_a_graph_encoder_finds_it_by_its_neighbours_and_not_without_them(data, recipe, least):
    options = {**SMALL, "train_links": "true", "linker": "ngame", "classifier_epochs": 0}
    bundle = getattr(recipes, recipe)(data.dataset, **options)
    found, alone = (precision(bundle, data, kind) for kind in ("encoder", "plain"))
    assert found["A"] > 95
    assert alone["A"] > 95
    assert found["D"] > least
    assert alone["D"] < 10
