"""A third score beside those of an encoder and of classifiers: linear separators of labels over words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from longtail.data.dataset import Dataset
from longtail.data.filters import apart
from longtail.data.holdout import rows_evenly
from longtail.data.shape import Shape
from longtail.data.sparse import CSR
from longtail.errors import BadInput
from longtail.model.bundle import SEPARATOR
from longtail.model.linear import features
from longtail.modules.classifiers import SEPARATED
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.heads import TwoHeads
from longtail.modules.table import Table
from longtail.options import NATURAL, option
from longtail.stages.held_out import FusionOptions
from longtail.stages.task import EncoderOptions, Task
from longtail.topk import FloatArray, IntArray
from longtail.train.low_rank import low_rank
from longtail.train.pieces import piecewise
from longtail.train.run import Run
from longtail.train.squared_hinge import Separators

_COST, _LEAST_WEIGHT = 1.0, 0.01  # those of DiSMEC (docs/explanation/methods/dismec.md)
_MANY = 25_000  # documents: 67,087 gained nothing, and took 2.4 times the time of a run; between, it was not measured
_MANY_LABELS = 10  # of a document, from which on separators gained nothing, and took three times as long as the rest
_MOST = 8192  # labels, the most frequent ones, that have a separator
_ASKED = 8192  # documents whose scores say what is to be kept of all separators
_GROWS = 0.5  # a power of a label's documents, by which the time for its separator grows (as was measured)
_STAGE = "separators"


@dataclass(frozen=True, kw_only=True)
class SeparatorScoreOptions(EncoderOptions, FusionOptions):
    """Fusion of the scores."""

    separators: int = option(
        0,
        "numbers of a third score, by linear separators over words, one versus all, of labels with 3 documents or "
        "more; 0 for none; 256 gain where labels are frequent, see docs/guides/choosing.md",
        within=NATURAL,
    )

    @classmethod
    def best_separators(cls, shape: Shape, best: Mapping[str, Any]) -> dict[str, int]:
        """As many numbers as a bag has, where bags alone rank together, of few enough documents and labels."""
        worth_it = shape.documents < _MANY and shape.labels < _MANY_LABELS
        return {"separators": cls.width} if "refits" in best and worth_it else {}

    def check(self, dataset: Dataset) -> None:
        """Refuse separators beside what is no bag of words alone."""
        super().check(dataset)
        others = {"encoder": "bag", "enrich": "none", "projection": 0, "fields_apart": False}
        found = [name for name, usual in others.items() if getattr(self, name, usual) != usual]
        if self.separators and found:
            problem = f"expected 0 with {found[0]} {getattr(self, found[0])}, found {self.separators}"
            raise BadInput("separators", problem, remedy=f"leave out one of separators and {found[0]}")

    def for_refit(self) -> Sequence[Mapping[str, Any]]:
        """The same; the last one alone, with which another process begins, solves separators anew: no lot is drawn."""
        further = super().for_refit()
        return [{**one, "separators": self.separators * (one is further[-1])} for one in further]


def separator_score(run: Run, task: Task, heads: TwoHeads, width: int) -> dict[str, FloatArray]:
    """Solve the separators of labels with `SEPARATED` documents or more, and put them into few numbers.

    They are those of DiSMEC (Babbar and Schoelkopf, 2017), over the features that a bag encoder reads; of more than
    8,192 such labels the most frequent have one.

    Args:
        run: keeps what is solved piece by piece, and plans it.
        task: documents with their labels.
        heads: on a bag encoder, which see a document for separators, too, from then on.
        width: R; 0 for no such score.

    Returns:
        The (L, R + 1) vectors of labels by their score kind, from whose biases the mean is taken off: so labels without
        a separator, which have 0, score as others do of a text that is like any other.
    """
    if not width:
        return {}
    train, encoder = task.train, task.text.encoder.core
    assert isinstance(encoder, BagEncoder)
    x = features(task.text.documents, len(encoder.tokenizer))
    filtered = CSR(train.targets.shape, dtype=np.float32) if train.filtered is None else train.filtered
    targets, neither = CSR(apart(train.targets, filtered).T), CSR(apart(filtered, train.targets).T)
    counts = np.diff(targets.indptr)
    frequent = np.argsort(-counts, kind="stable")[:_MOST]
    labels = np.sort(frequent[counts[frequent] >= SEPARATED])
    separators = Separators(x, _COST, _LEAST_WEIGHT)

    def make(rows: IntArray) -> CSR:
        return separators.of(CSR(targets[labels[rows]]), CSR(neither[labels[rows]]))

    solved = piecewise(run, _STAGE, make, len(train) * counts[labels] ** _GROWS, x.shape[1])
    asked = x[rows_evenly(len(train), min(_ASKED, len(train)))]
    if run.plan is not None:
        asked = asked[:0]
    table, vectors = low_rank(CSR(asked), solved, width)
    vectors[:, -1] -= vectors[:, -1].mean() if len(vectors) else 0  # what they have of a text that is like any other
    whole = np.zeros((len(counts), width + 1), np.float32)
    whole[labels] = vectors
    heads.separators = Table(torch.from_numpy(table)).to(run.device)
    return {SEPARATOR: whole}
