"""Documents that a recipe holds out, and the fusion that it learns on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset, Propensity
from longtail.data.holdout import rows_at_random
from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.metrics.propensity import inverse_propensity, label_frequency
from longtail.model.calibration import DEPTH, learn_calibration
from longtail.options import BELOW_ONE, option
from longtail.search.fusion import Candidates, learn_fusion
from longtail.stages.recipe import AnyModel, RunOptions
from longtail.topk import Float64Array, IntArray
from longtail.train.run import Run

PREFERENCES = ("precision", "tail", "coverage")
_CANDIDATES = 100  # labels that each scorer finds for a document
_USUAL = Propensity(0.55, 1.5)  # of a data set that says none; nothing is reported under them


@dataclass(frozen=True, kw_only=True)
class FusionOptions(RunOptions):
    """Fusion of the scores."""

    validation: float = option(
        0.05, "share of the training documents, 5,000 at most, held out to learn the fusion", within=BELOW_ONE
    )
    prefer: str = option(
        "precision",
        "what the fusion is chosen by: precision (P@k), tail (PSP@k) or coverage (true labels found, each the same)",
        choices=PREFERENCES,
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


def worth_of(prefer: str, validation: CSR, targets: CSR, propensity: Propensity | None) -> Float64Array | None:
    """What a hit on each label is worth, (L,) float64, to who prefers this; None where all are worth the same.

    Args:
        prefer: one of `PREFERENCES`: ``tail`` has the inverse propensity of a label, so that hits add up to PSP;
            ``coverage`` divides by how often a label is true on held-out documents, so that all labels count the same.
        validation: (n, L) of the held-out documents.
        targets: (N, L) of those that were trained on.
        propensity: of the data set; 0.55 and 1.5 where it says none.
    """
    if prefer == "tail":
        constants = propensity or _USUAL
        return inverse_propensity(targets, constants.A, constants.B)
    return 1 / np.maximum(label_frequency(validation), 1) if prefer == "coverage" else None


def fuse(
    run: Run,
    model: AnyModel,
    validation: Split,
    targets: CSR,
    *,
    prefer: str = "precision",
    propensity: Propensity | None = None,
) -> AnyModel:
    """The same model with the kind ``fused``, and probabilities of every kind, learned on held-out training documents.

    It is learned on the labels that its scorers find, and then searches all labels, where it may prefer some that none
    of them finds: nothing was learned about those. So they become candidates too, and it learns again, until at least
    99 % of the five labels that it ranks first were candidates. Every round before that adds candidates, so it ends.

    Args:
        run: of the recipe.
        model: has at least two scorers.
        validation: documents that no stage was trained on; where there are none, the model stays as it is.
        targets: (N, L) of the documents that the stages were trained on, for the frequency of labels.
        prefer: what it is chosen by, one of `PREFERENCES`.
        propensity: of the data set, for the tail.
    """
    if not len(validation):
        return model
    if run.plan is not None:
        width = sum(scorer.table().shape[1] for scorer in model.mixed)
        others = set(model.kinds).difference(scorer.name for scorer in model.mixed)
        passes = 3 + len(others)  # its parts, two rounds of its own, and the kinds that it does not mix
        run.counted("fusion", len(validation), passes * len(model.labels), width)
        return model
    vectors, frequency = model.encode(validation.documents), label_frequency(targets)
    worth = worth_of(prefer, validation.targets, targets, propensity)
    queries = [scorer.queries(vectors) for scorer in model.mixed]
    tables = [scorer.table() for scorer in model.mixed]
    tops = [scorer.search(vectors, _CANDIDATES, exclude=validation.filtered) for scorer in model.mixed]
    while True:
        candidates = Candidates.of(tops, queries, tables, validation.targets)
        fused = model.fused_by(learn_fusion(candidates, frequency, worth))
        tops.append(fused.search(vectors, _CANDIDATES, kind="fused", exclude=validation.filtered))
        if candidates.coverage(tops[-1].ids[:, :5]) >= 0.99:
            break
    found = dict(zip((scorer.name for scorer in model.mixed), tops, strict=False)) | {"fused": tops[-1]}
    for kind in set(fused.kinds).difference(found):
        found[kind] = fused.search(vectors, DEPTH, kind=kind, exclude=validation.filtered)
    learned = {kind: learn_calibration(found[kind], validation.targets, frequency) for kind in fused.kinds}
    return fused.calibrated_by({kind: one for kind, one in learned.items() if one is not None})
