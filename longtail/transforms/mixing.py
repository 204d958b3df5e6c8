"""Augmentations that Gandalf is compared with (thesis, table 1.6): mixed texts, and texts with near words.

Each adds one row a document. They work on words, so that any encoder can read the rows. The thesis does not give their
settings; what is said here of shares and of Beta distributions is ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

import numpy as np
from scipy import sparse

from longtail.data.dataset import Dataset
from longtail.data.filters import union, without
from longtail.data.sparse import CSR, csr
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.topk import FloatArray, IntArray

_WORD = re.compile(r"\w+")
_ROWS_AT_ONCE = 1024
_FREQUENT, _WORDS = 5, 20_000  # texts that a word must be in, and the most words, most frequent first


def mixup(dataset: Dataset, *, seed: int, alpha: float = 0.4) -> Dataset:
    """For each document a row that mixes it with another one, and its labels with the other's. Zhang et al., 2018.

    The row has a share lambda of the words of the document and 1 - lambda of those of the other, at least one of each;
    its targets are lambda y + (1 - lambda) y'. What is filtered for either is so for the row, unless it is a label of
    it. MixUp mixes vectors; the vector of a bag of mixed words is such a mix but for its length.

    Args:
        dataset: N training documents.
        seed: of pairs, shares and words.
        alpha: lambda is drawn from Beta(alpha, alpha); above 0.
    """
    generator, share = _shares(len(dataset.train), alpha, seed)
    other = generator.permutation(len(dataset.train))
    return _with_mixed_rows(dataset, dataset.train.take(other), share, generator)


def label_mixup(dataset: Dataset, *, seed: int, alpha: float = 0.4) -> Dataset:
    """For each document a row that mixes it with the text of a label, and its labels with that one. Thesis, table 1.6.

    The label is drawn from all L, and its own target is itself alone; the rest is as in `mixup`.

    Args:
        dataset: N training documents and L labels.
        seed: of labels, shares and words.
        alpha: lambda is drawn from Beta(alpha, alpha); above 0.
    """
    generator, share = _shares(len(dataset.train), alpha, seed)
    other = generator.integers(len(dataset.labels), size=len(dataset.train))
    itself = csr(np.arange(len(other)), other, dataset.train.targets.shape)
    return _with_mixed_rows(dataset, Split(dataset.labels.take(other), itself), share, generator)


def synonyms(dataset: Dataset, *, seed: int, share: float = 0.3, similarity: float = 0.6) -> Dataset:
    """For each document a row in which some words are replaced by near words; its labels and filtered pairs stay.

    The thesis picks synonyms by the similarity of BERT's vectors. Here they come from the data set itself, without
    anything to download: see `near_words`.

    Args:
        dataset: N training documents; the near words are learned from them and from the labels.
        seed: of the words that are replaced.
        share: of the words that have a near word, how many are replaced; in [0, 1].
        similarity: cosine in [0, 1] from which two words count as near.
    """
    if max(share, similarity) > 1:
        problem = f"expected share and similarity of at most 1, found {share:g} and {similarity:g}"
        raise BadInput("augment synonyms", problem, remedy="give shares")
    generator = _generator(seed)
    documents = dataset.train.documents
    near = near_words([*documents.joined(("title",)), *dataset.labels.joined(("title",))], similarity=similarity)

    def said_otherwise(text: str) -> str:
        return _WORD.sub(
            lambda word: near.get(word[0].lower(), word[0]) if generator.random() < share else word[0], text
        )

    fields = {name: Strings.of(map(said_otherwise, column)) for name, column in documents.fields.items()}
    rows = replace(dataset.train, documents=Texts.of_columns(fields))
    return dataset.with_rows(rows)


def near_words(texts: Iterable[str], *, similarity: float, width: int = 64) -> dict[str, str]:
    """The nearest other word of each frequent word, by the company it keeps.

    Words are near if they occur with the same words: the cosine of the rows of U sqrt(S), the truncated singular value
    decomposition of the positive pointwise mutual information of words in one text (Levy, Goldberg and Dagan, 2015).

    Args:
        texts: read once.
        similarity: a word whose nearest one is less similar has none.
        width: numbers of a word's vector.
    """
    words = [{word.lower() for word in _WORD.findall(text)} for text in texts]
    frequency = Counter(word for text in words for word in text)
    ranked = sorted(frequency, key=lambda word: (-frequency[word], word))[:_WORDS]
    names = [word for word in ranked if frequency[word] >= _FREQUENT]
    if len(names) <= 2:
        return {}
    index = {word: i for i, word in enumerate(names)}
    pairs = np.array([(i, index[word]) for i, text in enumerate(words) for word in text if word in index], np.int64)
    vectors = _word_vectors(csr(pairs[:, 0], pairs[:, 1], (len(words), len(names))), min(width, len(names) - 1))
    near: dict[str, str] = {}
    for start in range(0, len(names), _ROWS_AT_ONCE):
        cosines = vectors[start : start + _ROWS_AT_ONCE] @ vectors.T
        own = np.arange(len(cosines))
        cosines[own, own + start] = -1
        for i, j in zip(own.tolist(), cosines.argmax(1).tolist(), strict=True):
            if cosines[i, j] >= similarity:
                near[names[start + i]] = names[j]
    return near


def _word_vectors(words_of_texts: CSR, width: int) -> FloatArray:
    """(V, width) unit vectors of words, from the (n, V) words of texts."""
    together = sparse.coo_array(words_of_texts.T @ words_of_texts)
    row, column = together.coords
    other = row != column
    row, column, counts = row[other], column[other], together.data[other].astype(np.float64)
    totals = np.bincount(row, counts, minlength=words_of_texts.shape[1])
    information = np.maximum(np.log(counts * totals.sum() / (totals[row] * totals[column])), 0)
    matrix = CSR((information, (row, column)), shape=together.shape)
    left, values, _ = sparse.linalg.svds(matrix, k=width, v0=np.ones(matrix.shape[0]))
    vectors = left * np.sqrt(np.maximum(values, 0))
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: FloatArray = (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)
    return units


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 0, 0, 0, 11])  # the 11 parts it from what batches and label rows draw


def _shares(rows: int, alpha: float, seed: int) -> tuple[np.random.Generator, FloatArray]:
    if alpha <= 0:
        raise BadInput("augment alpha", f"expected a number above 0, found {alpha:g}", remedy="give 0.4, say")
    generator = _generator(seed)
    return generator, generator.beta(alpha, alpha, rows).astype(np.float32)


def _with_mixed_rows(dataset: Dataset, other: Split, share: FloatArray, generator: np.random.Generator) -> Dataset:
    """The data set with a row for each document and its partner: ``share`` of the one, the rest of the other."""
    documents = dataset.train.documents
    names = dict.fromkeys([*documents.fields, *other.documents.fields])
    nothing = Strings.of([""] * len(share))

    def column(name: str) -> Strings:
        left, right = (texts.fields.get(name, nothing) for texts in (documents, other.documents))
        return Strings.of(
            " ".join([*_some(a, part, generator), *_some(b, 1 - part, generator)])
            for a, b, part in zip(left, right, share.tolist(), strict=True)
        )

    texts = Texts(nothing, {name: column(name) for name in names})
    mixed = _scaled(dataset.train.targets, share) + _scaled(other.targets, 1 - share)
    mixed.eliminate_zeros()
    mixed.sort_indices()
    known = [split.filtered for split in (dataset.train, other) if split.filtered is not None]
    filtered = without(reduce(union, known), mixed) if known else None
    return dataset.with_rows(Split(texts, CSR(mixed), filtered))


def _some(text: str, share: float, generator: np.random.Generator) -> list[str]:
    """A share of the words of a text, in order, at least one."""
    words = text.split()
    if not words:
        return words
    drawn: IntArray = np.sort(generator.permutation(len(words))[: max(1, round(share * len(words)))])
    return [words[i] for i in drawn]


def _scaled(matrix: CSR, factors: FloatArray) -> CSR:
    return CSR((matrix.data * np.repeat(factors, np.diff(matrix.indptr)), matrix.indices, matrix.indptr), matrix.shape)
