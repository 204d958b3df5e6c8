"""Documents that a recipe holds out, and what it learns on them: a fusion, a memory, and probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset, Propensity
from longtail.data.holdout import cut_as_test, rows_at_random, rows_evenly
from longtail.data.shape import Shape
from longtail.data.sparse import CSR
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.metrics.propensity import inverse_propensity, label_frequency
from longtail.metrics.ranking import metrics_of
from longtail.model.ensemble import AnyModel
from longtail.model.remembering import key_width
from longtail.options import BELOW_ONE, COUNT, NATURAL, option
from longtail.search.weighing import Trial, learn_fusion
from longtail.stages.recipe import SCORED, RunOptions
from longtail.stages.remembering import Learning, learn_memory
from longtail.topk import Float64Array, IntArray
from longtail.train.run import Run

PREFERENCES = {  # and what counts then
    "precision": "the mean of P@1, P@3 and P@5",
    "tail": "the mean of PSP@1, PSP@3 and PSP@5",
    "coverage": "the share of true labels found, each label the same",
}
_SCORED, _PLACES = 2000, (1, 3, 5)  # documents that say how good a model is while it is trained, and by which P@k
_OTHER_SEED = 1_000_003  # is added to that of a run for its next one, whose random numbers are others
FEWEST = 25  # held-out documents, on fewer of which a fusion of two scores is worse than their sum
_USUAL = Propensity(0.55, 1.5)  # of a data set that says none; nothing is reported under them


@dataclass(frozen=True, kw_only=True)
class PreferenceOptions(RunOptions):
    """Fusion of the scores.

    What it is chosen by.
    """

    prefer: str = option(
        "precision",
        "what the fusion is chosen by: precision (P@k), tail (PSP@k) or coverage (true labels found, each the same)",
        choices=tuple(PREFERENCES),
    )
    tail_price: float = option(
        0.1,
        "points of the expected mean of P@1, P@3 and P@5, at most, that are given for rare labels where precision is "
        "preferred; 0 gives none",
        within=NATURAL,
    )

    @property
    def price(self) -> float:
        """The share of precision that is given for rare labels: none where something else is preferred."""
        return self.tail_price / 100 if self.prefer == "precision" else 0.0


@dataclass(frozen=True, kw_only=True)
class FusionOptions(PreferenceOptions):
    """Fusion of the scores."""

    validation: float = option(
        0.05,
        "share of the training documents, 5,000 at most, held out to learn the fusion; of few documents the default is "
        "another, see docs/guides/choosing.md",
        within=BELOW_ONE,
    )
    memory: bool = option(
        True,
        "ask the training documents nearest to a text for its labels, too, if documents held out gain by it",
    )
    refit: bool = option(
        False,
        "train once more, on all documents and by other lots, and rank by the mean of both (a bag's; by the second, of "
        "other encoders) with the fusion that was learned; it takes twice as long",
    )
    refits: int = option(
        1, "times that refit trains on all documents, each by other lots; bags of words all rank together", within=COUNT
    )

    @classmethod
    def for_shape(cls, shape: Shape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Hold nothing out where it would be too little to learn a fusion from."""
        settings = super().for_shape(shape, given)
        return settings | ({"validation": 0.0} if 0 < cls.validation * shape.documents < FEWEST else {})

    def check(self, dataset: Dataset) -> None:
        """Refuse several refits where there is none."""
        super().check(dataset)
        if self.refits > 1 and not self.for_refit():
            problem = "expected refit, and documents that are held out, without which nothing is trained again"
            raise BadInput("refits", problem, remedy="give refit, too, and a validation above 0, or leave it at 1")

    def for_refit(self) -> Sequence[Mapping[str, Any]]:
        """What is different in each further run, on every document, that takes the fusion of the first."""
        again = {"validation": 0.0, "refit": False, "refits": 1}
        seeds = [self.seed + (i + 1) * _OTHER_SEED for i in range(self.refits)]
        return [{**again, "seed": seed} for seed in seeds] if self.refit and self.validation else []


def hold_out(dataset: Dataset, share: float, seed: int) -> tuple[Dataset, Split]:
    """Hold a share of the training documents out, drawn at random, 5,000 at most.

    Returns:
        The data set without them, and those that a test split could have (`longtail.data.holdout.cut_as_test`).
    """
    return cut_as_test(dataset, rows_held_out(dataset, share, seed))[:2]


def rows_held_out(dataset: Dataset, share: float, seed: int) -> IntArray:
    """The rows that `hold_out` takes."""
    return rows_at_random(len(dataset.train), min(5000, round(share * len(dataset.train))), seed)


def held_out_by(dataset: Dataset, share: float, seed: int, *, other: tuple[float, int]) -> bool:
    """Whether a run of another share and seed holds all those documents out that this share and seed do.

    A larger share of the same seed does so above 10,000 documents, if the smaller is above 2 %: one draw goes on where
    the other ends. Of fewer documents, each share has a draw of its own.
    """
    return bool(np.isin(rows_held_out(dataset, share, seed), rows_held_out(dataset, *other)).all())


def held_out_score(run: Run, model: AnyModel, held_out: Split) -> float:
    """How well a model ranks, in percent: the mean of P@1, P@3 and P@5 and of its score kinds.

    Args:
        run: of the recipe; its plan counts this, and is told 0.
        model: as it is by now.
        held_out: documents that it was not trained on, 2,000 of which are asked at most.
    """
    if len(held_out) > _SCORED:
        held_out = held_out.take(rows_evenly(len(held_out), _SCORED))
    if run.plan is not None:
        run.counted(SCORED, len(held_out), len(model.kinds) * len(model.labels), model.width)
        return 0.0
    vectors = model.encode(held_out.documents)
    measured = []
    for kind in model.kinds:
        top = model.search(vectors, max(_PLACES), kind=kind, exclude=held_out.filtered)
        figures = metrics_of(top, held_out.targets, ks=_PLACES)
        measured += [figures[f"P@{k}"] for k in _PLACES]
    return float(run.ranks.told(float(np.mean(measured))))  # the same in all processes, which end by it


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
    train: Split,
    o: FusionOptions,
    *,
    propensity: Propensity | None = None,
) -> AnyModel:
    """The same model with what is learned on held-out training documents.

    That is the kind ``fused``, the kind ``memory`` if it gains, and probabilities of every kind.

    A fusion is learned on the labels that its scorers find, and then searches all labels, where it may prefer some that
    none of them finds: nothing was learned about those. So they become candidates too, and it learns again, until at
    least 99 % of the five labels that it ranks first were candidates. Every round before that adds candidates, so it
    ends.

    Held-out documents are not in the memory that is judged and calibrated by them, and are in the one that is kept.

    Args:
        run: of the recipe.
        model: has scorers to mix, or one whose scores are to be weighed by how frequent labels are.
        validation: documents that no stage was trained on; where there are none, the model stays as it is.
        train: the N documents that the stages were trained on, for the frequency of labels, and to remember.
        o: what the fusion is chosen by, and whether to ask for a memory; with fewer than 100 documents held out there
            is none.
        propensity: of the data set, for the tail.
    """
    if not len(validation):
        return model
    if run.plan is not None:
        width = sum(scorer.table().shape[1] for scorer in model.mixed)
        others = set(model.kinds).difference(scorer.name for scorer in model.mixed)
        passes = 3 + len(others)  # its parts, two rounds of its own, and the kinds that it does not mix
        run.counted("fusion", len(validation), passes * len(model.labels), width)
        if o.memory:
            held = 2 * 4 * len(train) * key_width(model)  # with a copy, of those that differ
            run.counted("asking documents", len(validation), len(train), key_width(model), held=held)
        return model
    with run.log.parts("learning on held-out documents"):
        return _fused(run, model, validation, train, o, propensity)


def _fused(
    run: Run, model: AnyModel, validation: Split, train: Split, o: FusionOptions, propensity: Propensity | None
) -> AnyModel:
    """What `fuse` says, once it is no plan."""
    learning = Learning.of(model, validation, label_frequency(train.targets))
    worth = worth_of(o.prefer, learning.held_out.targets, train.targets, propensity)
    fused = learning.until_settled(lambda candidates, f: model.fused_by(learn_fusion(candidates, f, worth, o.price)))
    calibrations = {kind: learning.calibrated(fused, kind) for kind in fused.kinds}
    if o.memory:
        assert fused.fusion is not None
        learned = learn_memory(fused, learning, train, worth, o.price)
        for what, trial in learned.trials.items():
            tell(run, what, o.prefer, len(learning.held_out), trial)
        if learned.memory is not None:
            calibrations["memory"] = learning.calibrated(learned.model, "memory")
            fused = fused.fused_by(fused.fusion, learned.memory)
    return fused.calibrated_by({kind: one for kind, one in calibrations.items() if one is not None})


def tell(run: Run, what: str, prefer: str, documents: int, trial: Trial | None) -> None:
    """Say whether one more scorer is kept, with what decided it, in percent; the log and ``run.json`` keep that, too.

    Args:
        run: of the recipe.
        what: a memory, or a cross-encoder.
        prefer: one of `PREFERENCES`.
        documents: that were held out.
        trial: what they say; None where that was too little.
    """
    noted: dict[str, Any] = {"kept": trial is not None and trial.weights is not None, "documents": documents}
    said = f"{what} not tried: too little to learn from"
    if trial is not None:
        (without, gained, error), tail = np.round(np.multiply(100, trial.gain), 2), trial.tail
        noted |= {"counts": PREFERENCES[prefer], "without": without, "with": gained, "error": error}
        said = f"{what} {'kept' if noted['kept'] else 'dropped'}: {PREFERENCES[prefer]}, {gained} with it and {without}"
        said += f" without (± {error})"
        if tail is not None:
            without, gained, error = np.round(np.multiply(100, tail), 2)
            noted |= {"tail_without": without, "tail_with": gained, "tail_error": error}
            said += f"; first places, rare labels worth more, {gained} and {without} (± {error})"
    run.log.note(**{what: noted})
    run.progress.tell(**{what: noted})
    run.log.say(f"{said}; on {documents:,} held-out documents")
