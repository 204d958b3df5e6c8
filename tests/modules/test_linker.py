"""Where a document gets its nodes from, and what becomes of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from longtail.data.sparse import CSR
from longtail.data.texts import Texts
from longtail.modules.combiners import Design, make_combiner
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.enrichment import Enrichment
from longtail.modules.linker import Chances, Linked, with_one
from longtail.text.bag import BagTokenizer
from longtail.topk import FloatArray, IntArray, TopK, rank

TEXTS = Texts.of(["red fish", "blue bird", "one"])
X = np.eye(3, 4, dtype=np.float32)
LINKS = np.array([[1, 0], [-1, -1], [2, -1]])


def encoder() -> BagEncoder:
    return BagEncoder(BagTokenizer.fit(["red fish", "blue bird"]), 4, generator=torch.Generator())


class Told:
    """A linker that says what it was asked."""

    def __init__(self, own: BagEncoder) -> None:
        self.encoder, self.labels = own, Texts.of(["water", "air", "number"])
        self.asked: list[FloatArray] = []

    def encode(self, texts: Texts) -> FloatArray:
        return np.full((len(texts), 5), 7, np.float32)

    def search(self, vectors: FloatArray, k: int, *, exclude: CSR | None = None) -> TopK:
        self.asked.append(vectors)
        every: IntArray = np.tile(np.arange(3), (len(vectors), 1))
        return rank(every, 1 - every - 9 * exclude.toarray() if exclude is not None else 1.0 - every, k)

    def save(self, folder: Path, *, encoder: bool = True) -> None:
        raise AssertionError("nothing is saved here")


def test_a_linker_with_an_encoder_of_its_own_encodes_and_one_that_shares_it_does_not() -> None:
    of_model, linker = encoder(), Told(encoder())
    assert Linked(linker, 2, None).find(TEXTS, X, of_model).ids.tolist() == [[0, 1]] * 3
    assert (linker.asked[-1] == 7).all()
    Linked(linker, 2, None).find(TEXTS, X, linker.encoder)
    np.testing.assert_array_equal(linker.asked[-1], with_one(X))
    assert with_one(X).tolist() == [[1, 0, 0, 0, 1], [0, 1, 0, 0, 1], [0, 0, 1, 0, 1]]


def test_no_text_is_linked_to_a_node_of_the_same_text() -> None:
    texts, none = Texts.of(["water", "blue bird", "air", ""]), Texts.by_field([{"content": "water"}], ["content"])
    assert Linked(Told(encoder()), 2, None).find(texts).ids.tolist() == [[1, 2], [0, 1], [0, 2], [0, 1]]
    assert Linked(Told(encoder()), 2, None).find(none).ids.tolist() == [[0, 1]]


def test_chances_are_as_often_right_as_they_say() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(7, 3, (2000, 4)).astype(np.float32)
    right = rng.random(scores.shape) < 1 / (1 + np.exp(-(0.8 * scores - 6)))
    ids = np.tile(np.arange(4), (2000, 1))
    ids[:, 3] = -1
    chances = Chances.learn(TopK(ids, scores), CSR(right.astype(np.float32)))
    assert chances is not None
    assert chances.slope == pytest.approx(0.8, abs=0.1)
    assert chances.offset == pytest.approx(-6, abs=0.6)
    found = chances(TopK(ids, scores))
    assert found.dtype == np.float32
    assert float(found[:, :3].mean()) == pytest.approx(right[:, :3].mean(), abs=0.02)


def test_chances_can_be_learned_where_all_links_are_right_and_not_where_there_are_none() -> None:
    top = TopK(np.zeros((3, 1), np.int64), np.ones((3, 1), np.float32))
    certain = Chances.learn(top, CSR(np.ones((3, 2), np.float32)))
    assert certain is not None
    assert 0.9 < certain(top).min() < 1
    nothing = TopK(np.full((3, 1), -1), np.full((3, 1), -np.inf, np.float32))
    assert Chances.learn(nothing, CSR((3, 2))) is None
    assert not np.isnan(certain(nothing)).any()


def test_found_links_count_as_far_as_they_are_probable_and_given_ones_fully() -> None:
    enrichment = Enrichment(np.eye(3, 4, dtype=np.float32)[::-1].copy(), make_combiner(4, Design("mean"))).eval()
    top = TopK(LINKS, np.where(LINKS < 0, -np.inf, LINKS).astype(np.float32))
    doubtful = Linked(Told(encoder()), 2, enrichment, Chances(1.0, -1.0))
    _, weights = doubtful.weigh(X, top, enrichment)
    p, q = 1 / 2, 1 / (1 + np.e)  # of scores 1 and 0
    whole = (p + q + (1 - p) * (1 - q)) / 2
    np.testing.assert_allclose(weights[0], [p / 2 / whole, q / 2 / whole], atol=1e-6)
    for given in (doubtful.weigh(X, LINKS, enrichment), replace(doubtful, chances=None).weigh(X, top, enrichment)):
        np.testing.assert_allclose(given[1], [[0.5, 0.5], [0, 0], [1, 0]], atol=1e-6)


def test_without_an_enrichment_the_texts_of_nodes_are_appended() -> None:
    seen: list[str] = []

    def embed(texts: Texts) -> FloatArray:
        seen.extend(texts.fields["title"])
        return X

    Linked(Told(encoder()), 2, None).enrich(TEXTS, X, LINKS, embed)
    assert seen == ["red fish air water", "blue bird", "one number"]


def test_with_one_the_bank_is_read() -> None:
    enrichment = Enrichment(np.eye(3, 4, dtype=np.float32)[::-1].copy(), make_combiner(4, Design("mean"))).eval()
    found = Linked(Told(encoder()), 2, enrichment).enrich(TEXTS, X, LINKS, lambda _: X)
    expected = np.stack([X[0] + (X[1] + X[2]) / 2, X[1], X[2] + X[0]])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
