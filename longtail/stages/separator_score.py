"""A third score beside those of an encoder and of classifiers: linear separators of labels over words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from longtail.data.dataset import Dataset
from longtail.data.holdout import rows_evenly
from longtail.data.shape import Shape
from longtail.data.sparse import CSR
from longtail.errors import BadInput
from longtail.model.bundle import SEPARATOR
from longtail.modules.classifiers import SEPARATED
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.heads import TwoHeads
from longtail.modules.table import Table
from longtail.options import NATURAL, option
from longtail.stages.for_size import SizedOptions
from longtail.stages.separators import SeparatorOptions, Words, solved_tree
from longtail.stages.task import Task
from longtail.topk import FloatArray
from longtail.train.low_rank import low_rank
from longtail.train.run import Run

_MANY = 25_000  # documents: of more, separators take longer than all else, and gained nothing on the one set tried
_MANY_LABELS = 10  # of a document, from which on they took three times as long as all else, and gained nothing
_MOST = 8192  # labels, the most frequent ones, that have a separator
_ASKED = 8192  # documents whose scores say what is to be kept of all separators


@dataclass(frozen=True, kw_only=True)
class SeparatorScoreOptions(SizedOptions):
    """Fusion of the scores."""

    separators: int = option(
        0,
        "numbers of a third score, by linear separators over words, one versus all, of labels with 3 documents or "
        "more; 0 for none; 256 gain where labels are frequent, see docs/guides/choosing.md",
        within=NATURAL,
    )

    @classmethod
    def best(cls, shape: Shape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Also as many numbers as a bag has, where bags alone rank together, of few enough documents and labels."""
        best = super().best(shape, given)
        worth_it = "refits" in best and shape.documents < _MANY and shape.labels < _MANY_LABELS
        return best | ({"separators": cls.width} if worth_it else {})

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
        return [{**one, "separators": self.separators if one is further[-1] else 0} for one in further]


def separator_score(run: Run, task: Task, heads: TwoHeads, width: int) -> dict[str, FloatArray]:
    """Solve the separators of labels with `SEPARATED` documents or more, and put them into few numbers.

    They are those of DiSMEC (Babbar and Schoelkopf, 2017), with its usual options, over the features that a bag encoder
    reads; of more than 8,192 such labels the most frequent have one.

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
    encoder = task.text.encoder.core
    assert isinstance(encoder, BagEncoder)
    words = Words.of(encoder.tokenizer, task.text.documents, task.train, task.held_out)
    counts = np.diff(words.targets.indptr)
    frequent = np.argsort(-counts, kind="stable")[:_MOST]
    labels, leaves = frequent[counts[frequent] >= SEPARATED], np.full(len(counts), -1)
    leaves[labels] = 0  # below the root of a tree that is nothing but that
    solved = solved_tree(run, "separators", words, np.full(1, -1), leaves, SeparatorOptions()).labels
    asked = rows_evenly(len(task.train), 0 if run.plan is not None else _ASKED)
    table, vectors = low_rank(CSR(words.x[asked]), CSR(solved[labels]), width)
    vectors[:, -1] -= vectors[:, -1].mean() if len(vectors) else 0
    whole = np.zeros((len(counts), width + 1), np.float32)
    whole[labels] = vectors
    heads.separators = Table(torch.from_numpy(table)).to(run.device)
    return {SEPARATOR: whole}
