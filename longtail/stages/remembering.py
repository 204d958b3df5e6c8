"""What a memory is worth: of the documents near to a text, and of what goes with the label that it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np

from longtail.data.filters import apart, identity_pairs, reciprocal_pairs
from longtail.data.holdout import without_orphaned_labels
from longtail.data.sparse import CSR, ranked, stacked, values_at
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.model.base import Model
from longtail.model.calibration import Calibration, learn_calibration
from longtail.model.remembering import LabelTexts, remember, remembering
from longtail.model.thresholds import DEPTH
from longtail.search.fusion import Candidates, alone
from longtail.search.keys import keys_of
from longtail.search.memory import Memory
from longtail.search.weighing import Trial, learn_one_more
from longtail.topk import Float64Array, FloatArray, IntArray, TopK

_CANDIDATES = 100  # labels that each scorer finds for a document
_LEAST = 100  # held-out documents that can say whether a memory gains, and that are labels, for what goes with these
_SEARCH = 0.001  # of what counts, that documents near to a text must gain: they cost a search
NEAR, RELATED = "memory", "related-labels"  # what is tried, in this order

Learnt = TypeVar("Learnt", bound=Model)


@dataclass(slots=True)
class Learning:
    """Candidates of held-out documents, of which there are more after each search.

    Attributes:
        model: has the scorers that are mixed.
        kept: the documents, and their vectors, as a memory keeps them.
        held_out: n of them, `longtail.data.holdout.without_orphaned_labels`.
        vectors: (n, W) of these.
        frequency: (L,) training points of each label.
        tops: the labels that searches have found: first those of the scorers.
        last: of each score kind, what its last search has found.
    """

    model: Model
    kept: tuple[Split, FloatArray]
    held_out: Split
    vectors: FloatArray
    frequency: IntArray
    tops: list[TopK] = field(default_factory=list)
    last: dict[str, TopK] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, held_out: Split, frequency: IntArray) -> Learning:
        """What the scorers of a model find for documents that it was not trained on."""
        vectors = model.encode(held_out.documents)
        asked, rows = without_orphaned_labels(held_out, frequency)
        learning = cls(model, (held_out, vectors), asked, vectors[rows], frequency)
        learning.tops += [learning.found(model, scorer.name) for scorer in model.mixed]
        return learning

    def found(self, model: Model, kind: str, k: int = _CANDIDATES) -> TopK:
        """What a score kind finds for the documents."""
        self.last[kind] = model.search(self.vectors, k, kind=kind, exclude=self.held_out.filtered)
        return self.last[kind]

    def allowed(self, votes: CSR) -> CSR:
        """(n, L) without filtered pairs."""
        return votes if self.held_out.filtered is None else apart(votes, self.held_out.filtered)

    def until_settled(self, learn: Callable[[Candidates, IntArray], Learnt]) -> Learnt:
        """The model that is learned on what it finds itself, and what was found before."""
        queries = [scorer.queries(self.vectors) for scorer in self.model.mixed]
        tables = [scorer.table() for scorer in self.model.mixed]
        while True:
            candidates = Candidates.of(self.tops, queries, tables, self.held_out.targets)
            learned = learn(candidates, self.frequency)
            self.tops.append(self.found(learned, learned.kinds[-1]))
            if candidates.coverage(self.tops[-1].ids[:, :5]) >= 0.99:
                return learned

    def calibrated(self, model: Model, kind: str) -> Calibration | None:
        """How probable the scores of a kind are."""
        top = self.last[kind] if kind in self.last else self.found(model, kind, DEPTH)
        return learn_calibration(top.first(DEPTH), self.held_out.targets, self.frequency)


class Remembered(NamedTuple):
    """What held-out documents gain by.

    Attributes:
        model: with the memory that they were asked with, if one is kept; they are not in it.
        memory: the same with these documents; None where none is kept.
        trials: what they say of each thing that was tried; None of a memory where they are too few.
    """

    model: Model
    memory: Memory | None
    trials: Mapping[str, Trial | None]


def learn_memory(
    model: Model, learning: Learning, train: Split, worth: Float64Array | None, price: float
) -> Remembered:
    """Learn whether to ask the documents near to a text, and then whether to ask what goes with the label that it is.

    Args:
        model: with a fusion of S scorers.
        learning: of the held-out documents.
        train: those that the model was trained on.
        worth: (L,) of a hit on each label, as for `learn_one_more`.
        price: for rare labels, likewise.
    """
    held_out, S = learning.held_out, len(model.mixed)
    if len(held_out) < _LEAST:
        return Remembered(model, None, {NEAR: None})
    keys = keys_of(learning.vectors, model.key_columns)
    near = remember(model, train.documents, train.targets, alone(S, S + 2))
    asked = remembering(model, near)
    votes = [learning.allowed(asked.votes(asked.neighbours(keys), keys))]
    best, by_near = _one_more(model, learning, votes, lambda w: replace(near, weights=w), worth, price, least=_SEARCH)
    memory = best.memory
    all_held, vectors = learning.kept
    whole = memory and memory.also(
        keys_of(vectors, model.key_columns), all_held.targets, all_held.documents.fields["title"]
    )
    itself = identity_pairs(held_out.documents, model.labels)
    if np.count_nonzero(np.diff(itself.indptr)) < _LEAST:
        return Remembered(best, whole, {NEAR: by_near})
    label_texts = LabelTexts.of(model)
    related = label_texts.related(train.documents, train.targets)
    known = memory or near.of_documents(np.zeros(0, np.int64))

    def with_related(w: Float64Array) -> Memory:
        return replace(known, related=related, weights=w if memory else np.insert(w, S, 0, axis=0))

    learning.held_out = _ways_back_judged(held_out, itself, train, model.labels)
    votes = [*(votes if memory else []), learning.allowed(related.votes(keys))]
    best, by_related = _one_more(best, learning, votes, with_related, worth, price, least=0)
    learning.held_out, learning.last = held_out, {}
    if best.memory is not None and best.memory.related is not None:
        targets = stacked([train.targets, all_held.targets])
        all_say = label_texts.related(train.documents.followed_by(all_held.documents), targets)
        whole = replace(whole or best.memory, related=all_say, weights=best.memory.weights)
    return Remembered(best, whole, {NEAR: by_near, RELATED: by_related})


def _ways_back_judged(held_out: Split, itself: CSR, train: Split, labels: Texts) -> Split:
    """The held-out documents without a filter on the ways back of training pairs, if some of these are true.

    Such a filter has those that are not true alone. By it, whoever says them all would be right each time.
    """
    back = reciprocal_pairs(itself, identity_pairs(train.documents, labels), train.targets)
    if held_out.filtered is None or apart(back, held_out.targets).nnz == back.nnz:
        return held_out
    return replace(held_out, filtered=apart(held_out.filtered, back))


def _one_more(
    model: Model,
    learning: Learning,
    votes: Sequence[CSR],
    made: Callable[[Float64Array], Memory],
    worth: Float64Array | None,
    price: float,
    *,
    least: float,
) -> tuple[Model, Trial | None]:
    """The model with the memory made of learned weights, if held-out documents gain by the last of some votes."""
    assert model.fusion is not None
    fusion, trial = model.fusion, None
    most = ranked(votes[-1], _CANDIDATES).ids
    learning.tops.append(TopK(most, np.zeros(most.shape, np.float32)))

    def learn(candidates: Candidates, frequency: IntArray) -> Model:
        nonlocal trial
        for one in votes:
            candidates = candidates.beside(values_at(one, np.arange(len(most)), candidates.ids))
        trial = learn_one_more(candidates, frequency, worth, price, least=least)
        return model if trial is None or trial.weights is None else model.fused_by(fusion, made(trial.weights))

    return learning.until_settled(learn), trial
