"""Labels that attend to states: against loops, by hand, the same in training, and down a tree."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from longtail.data.sparse import CSR
from longtail.modules.attended import Attended, attended
from longtail.modules.encoders.recurrent import RecurrentEncoder
from longtail.search.attention import Attention
from longtail.search.tree import Level, Tree, TreeSearch
from longtail.text.words import WordTokenizer
from longtail.topk import FloatArray

TEXTS = ["red fish", "blue fish red bird", "", "one", "a word that is not known", "bird one bird one bird one bird one"]
E, V = 6, 4


def model() -> Attended:
    generator = torch.Generator().manual_seed(0)
    encoder = RecurrentEncoder(WordTokenizer(("red", "fish", "blue", "bird", "one"), 5), E, generator=generator)
    return Attended(encoder, V, generator=generator).eval()


def encoded(attended: Attended) -> FloatArray:
    tokens = attended.tokenizer.batch(attended.tokenizer(TEXTS), np.arange(len(TEXTS)))
    with torch.no_grad():
        found: FloatArray = np.pad(attended(tokens).numpy(), ((0, 0), (0, 1)), constant_values=1)
    return found


def vectors(count: int) -> FloatArray:
    return np.random.default_rng(1).normal(size=(count, E + 1)).astype(np.float32) * 3


def naive(text: FloatArray, label: FloatArray) -> float:
    """The score by loops over states and numbers."""
    states = [text[at : at + E + V].tolist() for at in range(E, len(text) - 1, E + V)]
    states = [state for state in states if any(state)]
    *a, bias = label.tolist()
    weights = [math.exp(sum(x * y for x, y in zip(a, state, strict=False))) for state in states]
    score = bias
    for at in range(V):
        m = sum(w * state[E + at] for w, state in zip(weights, states, strict=True)) / (sum(weights) or 1)
        score += max(m, 0) if at < V // 2 else -max(m, 0)
    return score


def test_scores_are_those_of_loops() -> None:
    texts, labels = encoded(model()), vectors(7)
    rng = np.random.default_rng(2)
    pairs = CSR((rng.random((len(texts), 7)) < 0.6).astype(np.float32))
    found = Attention(E, V).scores(pairs, texts, labels)
    rows = np.repeat(np.arange(len(texts)), np.diff(pairs.indptr))
    expected = [naive(texts[row], labels[label]) for row, label in zip(rows, pairs.indices, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_two_words_and_a_label_by_hand() -> None:
    """The label looks three times as much at the first word, which speaks for it as much as the second one against."""
    keys, values = np.array([[1, 0], [0, 1]]), np.array([[2, 0], [0, 2]])
    text = np.concatenate([np.zeros(2), np.concatenate([keys, values], 1).ravel(), np.zeros(4), [1]])
    label = np.array([[math.log(3), 0, 0.25]])
    pairs = CSR(np.ones((1, 1), np.float32))
    found = Attention(2, 2).scores(pairs, text[None].astype(np.float32), label.astype(np.float32))
    np.testing.assert_allclose(found, [0.75 * 2 - 0.25 * 2 + 0.25], rtol=1e-6)


def test_training_scores_as_the_search_does() -> None:
    made, labels = model(), vectors(7)
    texts = encoded(made)
    tokens = made.tokenizer.batch(made.tokenizer(TEXTS), np.arange(len(TEXTS)))
    keys, values = made.states(tokens)
    every = attended(keys, values, torch.from_numpy(labels), None)
    pairs = CSR(np.ones((len(TEXTS), 7), np.float32))
    expected = Attention(E, V).scores(pairs, texts, labels).reshape(-1, 7)
    np.testing.assert_allclose(every.detach(), expected, rtol=1e-4, atol=1e-5)
    places = torch.tensor([[6, 0, -1]] * len(TEXTS))
    own = attended(keys, values, torch.from_numpy(labels), places)
    np.testing.assert_allclose(own[:, :2].detach(), expected[:, [6, 0]], rtol=1e-4, atol=1e-5)
    own[:, :2].sum().backward()  # type: ignore[no-untyped-call]
    assert all(torch.isfinite(one.grad.to_dense()).all() for one in made.parameters() if one.grad is not None)


def test_a_tree_of_labels_that_attend_multiplies_their_probabilities(tmp_path: Path) -> None:
    texts, clusters, labels = encoded(model()), vectors(2), vectors(4)[::-1].copy()
    links = CSR(np.array([[1, 1, 0, 0], [0, 0, 1, 1]], np.float32))
    tree = Tree((Level(clusters, 0, links, 1),), 0, Attention(E, V))
    tree.save(tmp_path)
    opened = Tree.in_folder(tmp_path, 4)
    assert opened is not None
    assert opened.attention == tree.attention
    for one in (tree, opened):
        top = TreeSearch(one, labels, texts.shape[1]).search(texts, 4)
        for text, ids, scores in zip(texts, top.ids, top.scores, strict=True):
            odds = [1 / (1 + math.exp(-naive(text, cluster))) for cluster in clusters]
            best = int(np.argmax(odds))
            below = {2 * best + i: odds[best] / (1 + math.exp(-naive(text, labels[2 * best + i]))) for i in (0, 1)}
            assert ids.tolist() == [*sorted(below, key=lambda label: -below[label]), -1, -1]
            np.testing.assert_allclose(scores[:2], sorted(below.values(), reverse=True), rtol=1e-4)


def test_what_is_not_there_does_not_show() -> None:
    """A text has the columns of as many words as the longest may have, and zeros where it has none."""
    texts = encoded(model())
    assert texts.shape == (len(TEXTS), E + 5 * (E + V) + 1)
    states = texts[:, E:-1].reshape(-1, 5, E + V)
    assert (states.any(2).sum(1) == [2, 4, 0, 1, 0, 5]).all()
    assert not states[0, 2:].any()
    np.testing.assert_allclose(np.linalg.norm(texts[[0, 1, 3, 5], :E], axis=1), 1, rtol=1e-5)


def test_gradients_of_labels_that_many_texts_share_are_the_same_each_time(set_threads):
    """To the bit, with several threads: each label is a candidate of hundreds of texts, whose gradients are summed."""
    set_threads(2)
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(256, 3, 16, generator=generator), torch.randn(256, 3, 4, generator=generator)
    places = torch.randint(0, 8, (256, 64), generator=generator)
    w = torch.randn(8, 17, generator=generator, requires_grad=True)
    found = [torch.autograd.grad(attended(keys, values, w, places).sum(), w)[0] for _ in range(10)]
    assert all(torch.equal(gradient, found[0]) for gradient in found)
