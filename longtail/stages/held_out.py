"""Documents that a recipe holds out, and the fusion that it learns on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.holdout import rows_at_random
from longtail.data.sparse import stacked, values_at
from longtail.data.split import Split
from longtail.metrics.propensity import label_frequency
from longtail.model.scorers import Scorer
from longtail.options import BELOW_ONE, option
from longtail.search.fusion import Candidates, learn_fusion, learn_memory
from longtail.search.memory import Keys, most_of
from longtail.stages.recipe import AnyModel, RunOptions
from longtail.topk import FloatArray, IntArray, TopK
from longtail.train.run import Run

_CANDIDATES = 100  # labels that each scorer finds for a document
_LEAST = 100  # held-out documents that can say whether a memory gains


@dataclass(frozen=True, kw_only=True)
class FusionOptions(RunOptions):
    """Fusion of the scores."""

    validation: float = option(
        0.05, "share of the training documents, 5,000 at most, held out to learn the fusion", within=BELOW_ONE
    )
    memory: bool = option(
        True,
        "ask the training documents nearest to a text for its labels, too, if documents held out gain by it",
    )
    refit: bool = option(
        False, "train once more, on all documents, and rank with the fusion that was learned; it takes twice as long"
    )

    def for_refit(self) -> Mapping[str, Any]:
        """What is different in a second run, on every document, that takes the fusion of the first; {} for none."""
        return {"validation": 0.0, "refit": False} if self.refit and self.validation else {}


def hold_out(dataset: Dataset, share: float, seed: int) -> tuple[Dataset, Split]:
    """Hold a share of the training documents out, drawn at random, 5,000 at most: what is left, and those rows."""
    return dataset.holdout(rows_held_out(dataset, share, seed))


def rows_held_out(dataset: Dataset, share: float, seed: int) -> IntArray:
    """The rows that `hold_out` takes."""
    return rows_at_random(len(dataset.train), min(5000, round(share * len(dataset.train))), seed)


def fuse(run: Run, model: AnyModel, validation: Split, train: Split, *, memory: bool) -> AnyModel:
    """The same model with the kind ``fused``, learned on held-out training documents, and ``memory`` if that gains.

    It is learned on the labels that its scorers find, and then searches all labels, where it may prefer some that none
    of them finds: nothing was learned about those. So they become candidates too, and it learns again, until at least
    99 % of the five labels that it ranks first were candidates. Every round before that adds candidates, so it ends.

    Held-out documents are not in the memory that is judged by them, and are in the one that is kept.

    Args:
        run: of the recipe.
        model: has at least two scorers.
        validation: documents that no stage was trained on; where there are none, the model stays as it is.
        train: the N documents that the stages were trained on, for the frequency of labels, and to remember.
        memory: whether to ask for one; with fewer than 100 documents held out there is none.
    """
    if not len(validation):
        return model
    if run.plan is not None:
        width = sum(scorer.table().shape[1] for scorer in model.mixed)
        run.counted("fusion", len(validation), 3 * len(model.labels), width)  # its parts, and two rounds of its own
        if memory:
            run.counted("memory", len(validation), len(train), model.width)
        return model
    learning = _Learning(model.encode(validation.documents), label_frequency(train.targets), validation, model.mixed)
    model = learning.until_settled(lambda candidates, f: model.fused_by(learn_fusion(candidates, f)))
    return _remembering(model, learning, train) if memory and len(validation) >= _LEAST else model


@dataclass(slots=True)
class _Learning:
    """Candidates of held-out documents, of which there are more after each search.

    Attributes:
        vectors: (n, W) of the documents.
        frequency: (L,) training points of each label.
        held_out: the documents.
        mixed: the scorers.
        tops: the labels that searches have found.
    """

    vectors: FloatArray
    frequency: IntArray
    held_out: Split
    mixed: Sequence[Scorer]
    tops: list[TopK] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tops += [self.found(scorer.search) for scorer in self.mixed]

    def found(self, search: Callable[..., TopK]) -> TopK:
        """What a search finds for the documents."""
        return search(self.vectors, _CANDIDATES, exclude=self.held_out.filtered)

    def until_settled(self, learn: Callable[[Candidates, IntArray], AnyModel]) -> AnyModel:
        """The model that is learned on what it finds itself, and what was found before."""
        queries = [scorer.queries(self.vectors) for scorer in self.mixed]
        tables = [scorer.table() for scorer in self.mixed]
        while True:
            candidates = Candidates.of(self.tops, queries, tables, self.held_out.targets)
            model = learn(candidates, self.frequency)
            self.tops.append(self.found(model.search))
            if candidates.coverage(self.tops[-1].ids[:, :5]) >= 0.99:
                return model


def _remembering(model: AnyModel, learning: _Learning, train: Split) -> AnyModel:
    """The same model with a memory of all documents, if held-out ones gain by a memory of the others."""
    fusion, held_out = model.fusion, learning.held_out
    assert fusion is not None
    plain = np.zeros((len(fusion.weights) + 1, 3))
    plain[-2, 0] = 1
    others = model.remember(train.documents, train.targets, plain)
    queries = model.keys(learning.vectors)
    votes = model.remembering(others).votes(queries)
    most = most_of(votes, _CANDIDATES, exclude=held_out.filtered)
    learning.tops.append(TopK(most, np.zeros(most.shape, np.float32)))

    def learn(candidates: Candidates, frequency: IntArray) -> AnyModel:
        s = values_at(votes, np.arange(len(held_out)), candidates.ids)
        weights = learn_memory(candidates.beside(s), frequency)
        return model.fused_by(fusion, None if weights is None else replace(others, weights=weights))

    learned = learning.until_settled(learn).memory
    if learned is None:
        return model
    keys = Keys(np.concatenate([others.keys.vectors, queries]), model.device)
    return model.fused_by(fusion, replace(learned, keys=keys, labels=stacked([others.labels, held_out.targets])))
