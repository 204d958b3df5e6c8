"""A score kind is a value: one that is no inner product, added from outside, is a class with a search."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from longtail import load
from longtail.data.sparse import csr_of_lists
from longtail.errors import BadInput
from longtail.model import Bundle, Ensemble, label_set
from longtail.model import scorers as module
from longtail.model.scorers import Scorer, inner_product
from longtail.search.exact import Exact
from longtail.serve.app import application
from longtail.serve.service import Settings
from longtail.topk import rank


class Nearest:
    """Ranks labels by how near they are to a text, which is no inner product."""

    def __init__(self, table):
        self.table = table

    def search(self, queries, k, *, exclude=None):
        distances = np.linalg.norm(queries[:, None] - self.table[None], axis=2).astype(np.float32)
        if exclude is not None:
            distances[exclude.toarray() > 0] = np.inf
        return rank(np.broadcast_to(np.arange(len(self.table)), distances.shape), -distances, k)


@pytest.fixture
def third_kind(monkeypatch):
    """Every model of one encoder ranks by another kind, too, and best."""
    plain = Bundle._scorers

    def with_nearest(self):
        mixed, scorers = plain(self)
        return mixed, (*scorers, Scorer("nearest", mixed[0].columns, Nearest(mixed[0].table())))

    monkeypatch.setattr(Bundle, "_scorers", with_nearest)


def test_a_third_kind_is_known_wherever_kinds_are(third_kind, run):
    model = load(run, device="cpu")
    assert model.kinds == ("encoder", "classifier", "fused", "nearest")
    titles = [*model.labels.fields["title"]][:3]
    found = model.predict(titles, k=3)
    assert found.ids[:, 0].tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.scores[:, 0], 0, atol=1e-3)
    with pytest.raises(BadInput, match="expected one of encoder, classifier, fused, found nearest"):
        model.table("nearest")
    with pytest.raises(BadInput, match="expected an inner product, found nearest"):
        model.scorer("nearest").table()
    second = Ensemble(model, model).predict(titles, k=3, kind="second")
    np.testing.assert_array_equal(second.ids, found.ids)
    np.testing.assert_allclose(second.scores, found.scores, atol=1e-6)
    labels = label_set.LabelSet(run, device="cpu")
    labels.add([label_set.NewLabel("new", titles[0])])
    labels.remove([model.labels.uids[0]])
    assert [row[0].uid for row in labels.refresh().predict(titles, k=3)] == ["new", *[*model.labels.uids][1:3]]
    with pytest.raises(BadInput, match="expected one of encoder, classifier, fused, found nearest"):
        labels.index("nearest")
    labels.close()
    with TestClient(application(Settings(run, device="cpu"))) as client:
        asked = {"texts": titles[:1], "k": 2, "explain": True}
        (row,) = client.post("/v1/predict", json=asked).json()["results"]
        assert row["labels"][0]["uid"] == "new"
        assert row["labels"][0]["scores"].keys() == set(model.kinds)


def test_scorers_are_made_once(run):
    model = load(run, device="cpu")
    assert model.scorers is model.scorers
    assert model.scorer() is model.scorers[-1]
    assert model.scorer("encoder").index is model.index("encoder")
    assert model.mixed == model.scorers[:2]


@pytest.fixture
def large(monkeypatch):
    """More than 5 texts are very many, and 64 labels a large table."""
    monkeypatch.setattr(module, "MANY", 5)
    monkeypatch.setattr(module, "ROWS", 64)


@pytest.mark.parametrize("labels", [63, 64, 65, 128, 150])
def test_very_many_texts_are_ranked_in_passing_as_by_a_table_that_is_kept(large, labels):
    draws = np.random.default_rng(labels)
    table = draws.integers(-3, 4, size=(labels, 4)).astype(np.float32)  # many scores are equal
    queries = draws.integers(-3, 4, size=(9, 4)).astype(np.float32)
    exclude = csr_of_lists([np.unique(draws.integers(labels, size=40)) for _ in queries], labels)
    read = []

    def rows(ids):
        read.append(len(table[ids]))
        return table[ids]

    scorer = inner_product("a", slice(0, 4), rows, torch.device("cpu"))
    for hidden in (exclude, None):
        expected = Exact(table).search(queries, 30, exclude=hidden)
        found = scorer.search(queries, 30, exclude=hidden)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.scores, expected.scores)
    assert max(read) == labels
    assert max(read[:-1], default=0) <= 64
    assert len(read) == (1 if labels < 64 else -(-labels // 64) + 2)  # parts, an end, and all, which stay
    scorer.search(queries, 30)
    scorer.search(queries[:1], 3)
    assert read[-1] == labels


def test_few_texts_have_a_table_that_is_kept(large):
    table = np.eye(200, dtype=np.float32)
    scorer = inner_product("a", slice(0, 200), lambda ids: table[ids], torch.device("cpu"))
    assert scorer.search(table[:5], 1).ids[:, 0].tolist() == [*range(5)]
    assert scorer.index._made is not None
