"""A memory of documents: votes of neighbours by hand, a naive twin of what is ranked, and when it is worth keeping."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.data.sparse import CSR, csr_of_lists
from longtail.errors import BadInput
from longtail.search import remembering as module
from longtail.search.exact import Exact
from longtail.search.fusion import Candidates, by_frequency
from longtail.search.keys import Keys, keys_of
from longtail.search.memory import Memory
from longtail.search.remembering import Part, Remembering
from longtail.search.weighing import Gained, learn_one_more
from longtail.topk import Float64Array, FloatArray, IntArray

CPU = torch.device("cpu")
WEIGHTS = np.array([[1.0, 0, 0], [0.5, 0.1, 0], [2, 0.5, 1], [0.1, 0, 0]])  # two scorers, the memory, the constant


def unit(*shape: int, seed: int) -> FloatArray:
    rows = np.random.default_rng(seed).normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def drawn(documents: int, labels: int, seed: int) -> CSR:
    rng = np.random.default_rng(seed)
    return csr_of_lists([sorted(rng.choice(labels, 3, replace=False).tolist()) for _ in range(documents)], labels)


def made(documents: int = 80, labels: int = 40, width: int = 6, seed: int = 0) -> Memory:
    return Memory(Keys(unit(documents, width, seed=seed), CPU), drawn(documents, labels, seed), WEIGHTS)


def naive_votes(queries: FloatArray, memory: Memory, shares: FloatArray) -> FloatArray:
    """(n, L), text by text and neighbour by neighbour."""
    found = np.zeros((len(queries), memory.labels.shape[1]))
    for i, query in enumerate(queries):
        cosines = memory.keys.vectors @ query
        near = np.argsort(-cosines)[: module.NEIGHBOURS]
        weights = np.exp((cosines[near] - cosines[near].max()) / module.TEMPERATURE)
        for j, weight in zip(near, weights / weights.sum(), strict=True):
            found[i] += weight * memory.labels[[j]].toarray()[0] * shares
    return found


def remembering(memory: Memory, frequency: IntArray) -> Remembering:
    return Remembering([Part(memory, memory.shares(frequency))], slice(0, 6), memory.labels.shape[1])


def voted(remembering: Remembering, queries: FloatArray) -> CSR:
    return remembering.votes(remembering.neighbours(queries), queries)


def test_votes_of_two_documents_by_hand() -> None:
    keys = np.array([[1, 0], [0, 1]], np.float32)
    memory = Memory(Keys(keys, CPU), csr_of_lists([[0, 2], [2]], 3), WEIGHTS)
    query = np.array([[0.8, 0.6]], np.float32)
    p = 1 / (1 + np.exp(-0.2 / module.TEMPERATURE))  # of the first: cosines are 0.8 and 0.6
    part = Part(memory, np.array([[2, 3, 10]], np.float32))
    votes = voted(Remembering([part], slice(0, 2), 3), query).toarray()
    np.testing.assert_allclose(votes, [[2 * p, 0, 10]], rtol=1e-5)


def test_the_weight_of_a_label_depends_on_its_frequency() -> None:
    frequency = np.array([0, 1, 9])
    expected = [2 + 1, 2 + 0.5 * np.log(2), 2 + 0.5 * np.log(10)]
    np.testing.assert_allclose(made(labels=3).shares(frequency), [expected], rtol=1e-6)
    linear = made(labels=3).linear(frequency)
    np.testing.assert_array_equal(linear.weights, WEIGHTS[[0, 1, 3]])


def test_what_is_ranked_is_what_a_naive_twin_ranks() -> None:
    memory, queries, table = made(), unit(9, 6, seed=1), unit(40, 6, seed=2)
    frequency = np.asarray(memory.labels.sum(0)).ravel().astype(np.int64)
    exclude = drawn(9, 40, 3)
    scores = queries @ table.T + naive_votes(queries, memory, memory.shares(frequency)[0])
    scores[exclude.nonzero()] = -np.inf

    def inner(texts: IntArray, labels: IntArray) -> FloatArray:
        return np.asarray((queries[texts] * table[labels]).sum(1), np.float32)

    for shortlist in (5, 40):  # of the inner product; what the neighbours have is found in any case
        top = Exact(table).search(queries, shortlist, exclude=exclude)
        found = remembering(memory, frequency).rescored(queries, top, inner, 3, exclude)
        np.testing.assert_array_equal(found.ids, np.argsort(-scores, axis=1)[:, :3])
        np.testing.assert_allclose(found.scores, -np.sort(-scores, axis=1)[:, :3], atol=1e-5)


def test_parts_vote_as_one_memory_and_hidden_labels_get_no_vote() -> None:
    first, second, queries = made(60, 20, seed=0), made(70, 15, seed=5), unit(7, 6, seed=1)
    whole = first.followed_by(second)
    frequency = np.asarray(whole.labels.sum(0)).ravel().astype(np.int64)
    shares = whole.shares(frequency)
    hidden = 4

    def shown(places: IntArray) -> IntArray:
        return np.where(places == hidden, -1, places - (places > hidden))

    parts = [Part(first, shares[:, :20], shown), Part(second, shares[:, 20:], lambda places: places + 19)]
    votes = voted(Remembering(parts, slice(0, 6), 34), queries).toarray()
    expected = np.delete(naive_votes(queries, whole, shares[0]), hidden, axis=1)
    np.testing.assert_allclose(votes, expected, atol=1e-5)


def test_documents_of_equal_keys_are_one_with_the_labels_of_all() -> None:
    keys = unit(4, 6, seed=0)
    noisy = keys + np.random.default_rng(0).normal(size=keys.shape).astype(np.float32) * np.float32(1e-8)
    near = keys[:1] + np.float32(0.003)  # another document
    vectors = np.concatenate([keys, noisy[[2, 0]], near, keys[[2]]])
    labels = csr_of_lists([[0], [1], [2], [], [3], [0, 4], [1], [2, 3]], 5)
    merged = Memory(Keys(vectors, CPU), labels, WEIGHTS).merged()
    np.testing.assert_array_equal(merged.keys.vectors, vectors[[0, 1, 2, 3, 6]])
    assert merged.labels.toarray().tolist() == [
        [1, 0, 0, 0, 1],
        [0, 1, 0, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
    ]


def test_copies_of_an_example_leave_the_other_neighbours_their_votes() -> None:
    """As one memory, and where the copies are in a part of their own, and equal a document of the other part."""
    memory, query = made(), unit(1, 6, seed=1)
    copies = memory.of_parts([np.repeat(memory.keys.vectors[[7]], 60, axis=0)])
    assert copies.by_label()[0].shape == (1, 6)
    shares = memory.shares(np.full(40, 5))
    parts = [Part(memory, shares), Part(copies, shares[:, :1], lambda places: places + 40)]
    of_parts = voted(Remembering(parts, slice(0, 6), 41), query).toarray()
    both = memory.followed_by(copies)
    whole = voted(Remembering([Part(both, np.append(shares, shares[:, :1], axis=1))], slice(0, 6), 41), query).toarray()
    expected = naive_votes(query, memory, shares[0])
    for found in (of_parts, whole):
        np.testing.assert_allclose(found[:, :40], expected, atol=1e-5)
    np.testing.assert_allclose(of_parts, whole, atol=1e-5)
    assert len(both.keys.vectors) == len(memory.keys.vectors)


def test_a_memory_without_documents_says_nothing() -> None:
    empty = made().of_parts([np.zeros((0, 6), np.float32)] * 4)
    assert voted(remembering(empty, np.zeros(4, np.int64)), unit(3, 6, seed=0)).nnz == 0


def test_examples_of_new_labels_are_documents_of_theirs() -> None:
    examples = [unit(2, 6, seed=0), np.zeros((0, 6), np.float32), unit(1, 6, seed=1)]
    memory = made().of_parts(examples)
    assert memory.labels.toarray().tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    for found, given in zip(memory.by_label(), examples, strict=True):
        np.testing.assert_array_equal(found, given)
    assert memory[np.array([2, 0])].labels.toarray().tolist() == [[0, 1], [0, 1], [1, 0]]


def test_keys_are_unit_rows_and_nothing_stays_nothing() -> None:
    found = keys_of(np.array([[9, 3, 4], [1, 0, 0]], np.float32), slice(1, 3))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]])


def test_a_memory_comes_back_from_its_file(tmp_path) -> None:
    memory = made()
    assert Memory.in_folder(tmp_path, 40, CPU) is None
    memory.save(tmp_path)
    again = Memory.in_folder(tmp_path, 40, CPU)
    assert again is not None
    np.testing.assert_array_equal(again.keys.vectors, memory.keys.vectors)
    np.testing.assert_array_equal(again.weights, memory.weights)
    assert (again.labels != memory.labels).nnz == 0
    with pytest.raises(BadInput, match="expected labels below 39, found 0 to 39"):
        Memory.in_folder(tmp_path, 39, CPU)


def candidates(n: int, informative: bool, seed: int) -> Candidates:
    """Of 5 labels a document, one is true; the two scorers know a little, the memory knows it or nothing."""
    rng = np.random.default_rng(seed)
    truth = np.arange(5) == rng.integers(5, size=(n, 1))
    scores = rng.normal(size=(3, n, 5)) + truth * np.array([0.5, 0.5, 3.0 * informative])[:, None, None]
    return Candidates(np.tile(np.arange(5), (n, 1)), scores.astype(np.float32), truth)


def test_a_memory_that_knows_is_kept_and_one_that_guesses_is_not() -> None:
    frequency = np.full(5, 10)
    trial = learn_one_more(candidates(600, True, 0), frequency)
    assert trial is not None
    weights, gain, _ = trial
    assert weights is not None
    assert gain.difference > 0.1
    assert weights.shape == (4, 5)
    *scorers, memory, _ = by_frequency(weights, frequency)[:, 0]
    assert memory > max(scorers) > 0
    trials = [learn_one_more(candidates(600, False, seed), frequency) for seed in range(6)]
    assert sum(trial.weights is not None for trial in trials) <= 2
    assert all((trial.weights is not None) == (trial.gain.difference > 0.001) for trial in trials)
    nothing = candidates(600, True, 0)
    assert learn_one_more(Candidates(nothing.ids, nothing.scores, np.zeros_like(nothing.truth)), frequency) is None


@pytest.mark.parametrize("least", [0.001, 0.01])
def test_a_scorer_is_kept_if_it_gains_more_than_the_least(least: float) -> None:
    """It knows next to nothing: some trials gain a tenth of a point, some a point, and some nothing."""
    frequency, gains = np.full(5, 10), []
    for seed in range(8):
        some = candidates(600, True, seed)
        some.scores[2] *= 0.2
        some.scores[2] += np.random.default_rng(seed).normal(size=some.truth.shape) * 3
        trial = learn_one_more(some, frequency, least=least)
        gains.append(trial.gain.difference)
        assert (trial.weights is not None) == (gains[-1] > least)
    assert min(gains) < least < max(gains)


@pytest.mark.parametrize(
    ("head", "n", "kept"), [(1, 4000, True), (1_000, 4000, False), (1_000, 200, True), (5_000, 200, False)]
)
def test_a_memory_that_pays_the_head_with_the_tail_is_not_kept(head: int, n: int, kept: bool) -> None:
    """Of labels 0 and 1 one is true of most documents. The scorers cannot say which, and the memory can.

    But it says one of both of the other documents, too, whose labels now come second. Where all labels are worth the
    same, what is gained counts more. Where labels 0 and 1 are frequent and the others are rare, these are worth more.
    Of few documents a loss of 1.5 points may be chance.
    """
    rng = np.random.default_rng(0)
    likely = rng.integers(2, size=n)
    true = np.where(rng.random(n) < 0.6, likely, rng.integers(2, 5, n))
    truth = np.arange(5) == true[:, None]
    known = (truth & (np.arange(5) > 1)) + 0.45 * rng.normal(size=(2, n, 5))
    scores = np.concatenate([known, (np.arange(5) == likely[:, None])[None]]).astype(np.float32)
    trial = learn_one_more(Candidates(np.tile(np.arange(5), (n, 1)), scores, truth), np.array([head, head, 1, 1, 1]))
    assert (trial.weights is not None) == kept
    assert trial.gain.difference > 0.001
    assert (trial.tail.difference >= -0.005 - trial.tail.error) == kept
    assert (trial.tail.difference >= -0.005) == (head == 1)


@pytest.mark.parametrize("worth", [None, np.array([1.0, 2.0, 3.0, 4.0, 5.0])])
def test_the_error_of_a_gain_is_that_of_paired_documents(worth: Float64Array | None) -> None:
    """With ten times the documents it is smaller by the root of ten."""
    few, many = (learn_one_more(candidates(n, True, 0), np.full(5, 10), worth).gain.error for n in (400, 4000))
    assert few / many == pytest.approx(10**0.5, rel=0.15)
    gained = Gained.of(np.array([0.0, 1, 0, 0]), np.array([0.0, 1, 1, 0]))
    assert (gained.without, gained.with_it, gained.difference) == (0.25, 0.5, 0.25)
    assert gained.error == pytest.approx(0.75**0.5 / 4)  # one of four differs by 1: a spread of sqrt(1/4 - 1/16)
