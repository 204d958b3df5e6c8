"""Documents that were held out are given back: what was learned on them, for a model that was trained on them, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.files import remove_folder
from longtail.metrics.propensity import label_frequency
from longtail.model import Bundle, Model, open_model
from longtail.model.calibration import Calibration
from longtail.model.ensemble import AnyModel
from longtail.model.narrowing import narrowed
from longtail.model.remembering import remember
from longtail.model.side_by_side import is_bag, side_by_side
from longtail.modules.linker import Chances
from longtail.search.fusion import Fusion
from longtail.stages.alongside import Alongside
from longtail.topk import Float64Array
from longtail.train.run import Run

_AGAIN = "refit"  # in a run folder: the run on all documents; further ones are refit-2, ...
_BEFORE = "held_out"  # in a run folder: the model that has not seen the documents that were held out


class Learned(NamedTuple):
    """What a model has learned on held-out documents, for one that was trained on these, too.

    Attributes:
        fusion: (S + 1, F) float64 weights; None where there are none.
        memory: (S + 2, F) float64 weights; None where no memory is kept.
        calibrations: by score kind.
        chances: how far predicted links are believed; None where they are certain, or there are none.
    """

    fusion: Float64Array | None
    memory: Float64Array | None
    calibrations: Mapping[str, Calibration]
    chances: Chances | None

    @classmethod
    def by(cls, model: Model) -> Learned:
        """What a model has learned."""
        fusion = None if model.fusion is None else model.fusion.weights
        memory = None if model.memory is None else model.memory.weights
        chances = model.linked.chances if isinstance(model, Bundle) and model.linked is not None else None
        return cls(fusion, memory, model.calibrations, chances)

    def given_to(self, model: AnyModel, train: Split) -> AnyModel:
        """A model that has seen all documents, ranking by these weights; if it looks by fewer numbers, then again."""
        assert self.fusion is not None
        if isinstance(model, Bundle) and model.linked is not None:
            model = replace(model, linked=replace(model.linked, chances=self.chances))
        fusion = Fusion(self.fusion, label_frequency(train.targets))
        memory = None if self.memory is None else remember(model, train.documents, train.targets, self.memory)
        given = model.fused_by(fusion, memory).calibrated_by(self.calibrations)
        if isinstance(model, Bundle) and isinstance(given, Bundle) and model.narrow is not None:
            return narrowed(given, train.documents)
        return given


class NotTogether(BadInput):
    """Several runs on all documents were asked for, and models of their kind do not rank together."""


def further_runs(settings: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """What is different in each further run, by its name in the folder of the run."""
    return {f"{_AGAIN}-{i}" if i > 1 else _AGAIN: different for i, different in enumerate(settings, start=1)}


def with_refits(
    model: Any,
    run: Run,
    train: Split,
    settings: Mapping[str, Mapping[str, Any]],
    alongside: Alongside,
    again: Callable[[Run, Mapping[str, Any]], Any],
) -> Any:
    """A model beside some that are trained on all documents, all ranking together by what it has learned.

    Bags of words are put side by side (`longtail.model.side_by_side`), and labels are looked for by as few numbers
    (`longtail.search.narrow`) as find 99.9 % of the first five labels of some documents, so that to ask all costs
    little more than to ask one; of other encoders, the last model stays, and ranks by what the first has learned.

    Args:
        model: what a page made without the documents that it held out.
        run: of the page, or its plan.
        train: all documents.
        settings: what is different in each further run, by its name; a model without a fusion has none.
        alongside: says which of them are trained here, and waits for the others.
        again: trains the page in a run within this one, with other settings.

    Raises:
        NotTogether: there are several, and models of its kind do not rank together.
    """
    if not settings or (model.fusion is None and run.plan is None):
        return model
    if len(settings) > 1 and not is_bag(model):
        problem = "only models whose one encoder is a bag of words rank together"
        raise NotTogether("refits", problem, remedy="leave it at 1, or join runs by longtail ensemble")
    if run.plan is not None:
        name, different = next(iter(settings.items()))  # they differ in what they draw by lot alone
        with run.plan.repeated(len(settings), at_once=alongside.at_once, together=is_bag(model)):
            return again(run.within(name), different)
    keep_before_refit(run, model)
    run.log.say("once more, on all documents" if len(settings) == 1 else f"{len(settings)} times on all documents")
    further = {name: again(run.within(name), settings[name]) for name in alongside.in_turn()}
    models = [model, *(further[name] for name in settings)]
    learned = Learned.by(model)
    if learned.fusion is None:
        return models[-1]
    together = side_by_side(*models)
    if together is None:
        return learned.given_to(models[-1], train)
    del model, models, further  # they are as large as what was made of them
    return narrowed(learned.given_to(together, train), train.documents)


def forget_within(folder: Path) -> None:
    """Remove the models of runs within a run, those on all documents and its linker: the run's own model holds them."""
    for place in (*folder.glob(f"{_AGAIN}*/model"), *folder.glob("linker/model")):
        forget_within(place.parent)
        remove_folder(place)
        remove_folder(place.parent / _BEFORE)


def keep_before_refit(run: Run, model: Model) -> None:
    """Keep a model that has not seen the documents held out beside the one that will: ensembles and errors ask it."""
    if run.folder is not None and run.ranks.first:
        remove_folder(run.folder / _BEFORE)
        model.save(run.folder / _BEFORE)


def place_before_refit(folder: Path) -> Path:
    """Where `keep_before_refit` keeps a model in a run folder; nothing is there of a run without ``refit``."""
    return folder / _BEFORE


def before_refit(folder: Path, device: torch.device) -> Model | None:
    """The model that `keep_before_refit` kept in a run folder; None where there is none."""
    place = place_before_refit(folder)
    return open_model(place, device=device) if place.is_dir() else None
