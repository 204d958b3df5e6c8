"""A score kind is a value: one that is no inner product, added from outside, is a class with a search."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient

from longtail import load
from longtail.errors import BadInput
from longtail.model import Bundle, Ensemble, label_set
from longtail.model.scorers import Scorer
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
