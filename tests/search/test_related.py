"""What goes with texts that are labels: by hand, against loops, and as labels come and go."""

from __future__ import annotations

import numpy as np
import torch

from longtail.arrays import map_arrays, save_model_arrays
from longtail.data.sparse import CSR
from longtail.data.texts import Texts
from longtail.model.remembering import LabelTexts
from longtail.search.keys import Keys
from longtail.search.memory import Memory
from longtail.search.related import Related
from longtail.search.remembering import Part, Remembering
from longtail.topk import FloatArray

CPU = torch.device("cpu")
KEYS = np.eye(6, dtype=np.float32)[:5]


def shares() -> CSR:
    return CSR(np.array([[0, 0.5, 1, 0], [0, 0, 0, 0], [0.25, 0, 0, 1], [0, 1, 0, 0], [0, 0.75, 0, 0.5]], np.float32))


def test_a_text_is_known_again_by_its_key() -> None:
    related = Related.of(KEYS, shares())
    noisy = KEYS[[2, 0]] + np.float32(1e-7)
    unknown = np.full((1, 6), 6**-0.5, np.float32)
    found = related.votes(np.concatenate([noisy, unknown, KEYS[[1]], np.zeros((1, 6), np.float32)]))
    np.testing.assert_array_equal(found.toarray(), [[0.25, 0, 0, 1], [0, 0.5, 1, 0], [0] * 4, [0] * 4, [0] * 4])
    assert len(related.marks) == 4  # nothing goes with the second
    assert found.has_sorted_indices
    assert Related.of(KEYS[:0], shares()[:0]).votes(KEYS).nnz == 0


def test_texts_of_equal_keys_are_one_with_the_larger_shares_and_a_text_of_zeros_is_none() -> None:
    keys = KEYS.copy()
    keys[4], keys[3] = keys[0], 0
    related = Related.of(keys, shares())
    np.testing.assert_array_equal(related.votes(keys[[0]]).toarray(), [[0, 0.75, 1, 0.5]])
    assert related.votes(keys[[3]]).nnz == 0
    assert len(related.marks) == 2


def test_labels_come_and_go() -> None:
    related = Related.of(KEYS, shares())
    rows = np.array([3, 1])
    np.testing.assert_array_equal(related[rows].votes(KEYS).toarray(), shares().toarray()[:, rows])
    wider = np.pad(shares().toarray(), ((0, 0), (0, 2)))
    np.testing.assert_array_equal(related.over(6).votes(KEYS).toarray(), wider)
    np.testing.assert_array_equal(related.followed_by(related.of_new(2)).votes(KEYS).toarray(), wider)
    both = related.followed_by(Related.of(KEYS[[1, 0]], CSR(np.array([[0.5], [0.125]], np.float32))))
    expected = np.pad(shares().toarray(), ((0, 0), (0, 1)))
    expected[[1, 0], 4] = [0.5, 0.125]
    np.testing.assert_array_equal(both.votes(KEYS).toarray(), expected)


def test_what_is_saved_comes_back(tmp_path) -> None:
    weights = np.arange(15.0).reshape(5, 3)
    memory = Memory(Keys(KEYS, CPU), shares(), weights, Related.of(KEYS, shares()))
    for one in (memory, memory.of_documents(np.zeros(0, np.int64)), memory.of_parts([KEYS[:1], KEYS[:0]])):
        one.save(tmp_path)
        again = Memory.in_folder(tmp_path, one.labels.shape[1], CPU)
        np.testing.assert_array_equal(again.related.votes(KEYS).toarray(), one.related.votes(KEYS).toarray())
        np.testing.assert_array_equal(again.keys.vectors, one.keys.vectors)
        np.testing.assert_array_equal(again.weights, weights)
    save_model_arrays(tmp_path / "related", memory.related.arrays())
    found = Related.of_arrays(map_arrays(tmp_path / "related"), 4)
    np.testing.assert_array_equal(found.shares.toarray(), memory.related.shares.toarray())


def test_both_votes_add_up_each_with_weights_of_its_own() -> None:
    weights = np.zeros((5, 3))
    weights[2:4] = [[2, 0, 0], [3, 1, 0]]  # of s, and of r, which also depends on the frequency
    memory = Memory(Keys(KEYS, CPU), CSR(np.eye(5, 4, dtype=np.float32)), weights, Related.of(KEYS, shares()))
    frequency = np.array([0, 1, 2, 3])
    np.testing.assert_allclose(memory.shares(frequency), [[2] * 4, 3 + np.log1p(frequency)], rtol=1e-6)
    np.testing.assert_array_equal(memory.linear(frequency).weights, weights[[0, 1, 4]])

    def voted(memory: Memory) -> FloatArray:
        asked = Remembering([Part(memory, memory.shares(frequency))], slice(0, 6), 4)
        return asked.votes(asked.neighbours(KEYS), KEYS).toarray()

    documents = Memory(memory.keys, memory.labels, weights[[0, 1, 2, 4]])
    expected = voted(documents) + shares().toarray() * (3 + np.log1p(frequency)).astype(np.float32)
    np.testing.assert_allclose(voted(memory), expected, rtol=1e-5)
    nobody = memory.of_documents(np.zeros(0, np.int64))
    np.testing.assert_allclose(voted(nobody), expected - voted(documents), rtol=1e-4, atol=1e-6)


def test_what_goes_with_labels_is_what_loops_say() -> None:
    """The way back counts in full; else the share of documents with one label that have the other, above a tenth."""
    rng = np.random.default_rng(4)
    labels = Texts.of([f"page {i}" for i in range(12)])
    of_documents = rng.permutation(20)[:16]  # some documents are labels, others are not
    documents = Texts.of([f"page {i}" for i in of_documents])
    truth = rng.random((16, 12)) < 0.25
    keys = np.eye(12, dtype=np.float32)
    found = LabelTexts(labels, keys).related(documents, CSR(truth.astype(np.float32))).votes(keys).toarray()
    expected = np.zeros((12, 12))
    for one in range(12):
        having = np.flatnonzero(truth[:, one])
        for other in range(12):
            share = truth[having, other].mean() if len(having) else 0
            back = any(of_documents[i] == other for i in having)
            expected[one, other] = 0 if one == other else 1 if back else share * (share > 0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (expected == 1).any()
    assert ((expected > 0) & (expected < 1)).any()
