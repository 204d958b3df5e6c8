"""Which parts a recipe has: a row for each that has a plan on paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from longtail.errors import BadInput
from longtail.on_paper import between, parts
from longtail.on_paper.parts import Part
from longtail.on_paper.scale import Scale, distinct
from longtail.on_paper.work import Work
from longtail.options import options_of
from longtail.recipes import RECIPES
from longtail.stages.recipe import options_class
from longtail.train.renewal import Moment, When

_NEAR = 0.53  # of what documents draw, the share that is distinct where near ones share a batch (as was measured)


class Epoch(NamedTuple):
    """An epoch of a task, and whether something was renewed before it, or before an earlier one."""

    scale: Scale
    renewed: bool


class Between(NamedTuple):
    """Work between epochs, or steps.

    Attributes:
        name: of it.
        first, every: the options that say before which epochs; with ``refresh_steps``, before which steps.
        work: once, of one process.
        vectors: of which texts it needs: documents, and labels.
    """

    name: str
    first: str
    every: str
    work: Callable[[Scale], Work]
    vectors: tuple[str, ...] = ("documents",)

    def moments(self, s: Scale, count: int) -> list[Moment]:
        """Before which steps of so many epochs it is done."""
        when = When(getattr(s.o, self.first), getattr(s.o, self.every), s.o.refresh_steps)
        return [moment for epoch in range(count) for moment in when.of(epoch, s.steps)]


class Stage(NamedTuple):
    """A stage of training.

    Attributes:
        name: of it.
        epochs: the option with their number.
        parts: of its steps.
        pool: labels of a batch.
        between: what is renewed between epochs.
        vectors: which of ``documents`` and ``labels`` it has vectors of from its start to its end.
    """

    name: str
    epochs: str
    parts: tuple[Part, ...]
    pool: Callable[[Epoch], float]
    between: tuple[Between, ...] = ()
    vectors: tuple[str, ...] = ()


class Row(NamedTuple):
    """A recipe.

    Attributes:
        stages: in their order.
        scores: how wide the vectors of each score kind are beyond D, by name; those of a fusion are both together.
        without: options that make another page of it, for which there is no plan on paper.
    """

    stages: tuple[Stage, ...]
    scores: tuple[int, ...] = (0,)
    without: frozenset[str] = frozenset()

    def with_epochs(self, o: Any) -> Row:
        """The row without stages of no epochs; without the last one, there are no scores of classifiers.

        Raises:
            BadInput: there is none left.
        """
        stages = tuple(stage for stage in self.stages if getattr(o, stage.epochs))
        if not stages:
            raise BadInput("epochs", "expected at least 1 on paper, found 0", remedy="give more")
        return Row(stages, self.scores if stages[-1] is self.stages[-1] else self.scores[:1])


def _pool(positives: str | int | None) -> Callable[[Epoch], float]:
    """Distinct labels of a pool: positives of each document (so many, as an option says, or all), mined, and random."""

    def pool(e: Epoch) -> float:
        s, o = e.scale, e.scale.o
        count = getattr(o, positives) if isinstance(positives, str) else positives
        hard = getattr(o, "hard_negatives", 0) if e.renewed else 0
        own = o.batch * (min(s.labels_of, s.labels_of if count is None else count) + hard)
        near = _NEAR if e.renewed and hasattr(o, "cluster_size") else 1.0
        drawn = distinct(near * own + (o.random_negatives or 0), s.labels)
        return min(drawn, getattr(o, "label_pool", None) or drawn)

    return pool


def _every_label(e: Epoch) -> float:
    return e.scale.labels


def _mined(lists: Callable[[Scale], int], first: str, every: str) -> Between:
    def work(s: Scale) -> Work:
        return between.mined(lists(s), s) if lists(s) else Work()

    return Between("hard negatives", first, every, work, ("documents", "labels"))


_FIRST, _EVERY = "refresh_from", "refresh_every"
_HARD = _mined(lambda s: s.o.hard_negatives * s.o.renewed().passes(s.steps), _FIRST, _EVERY)
_CLUSTERS = Between("clusters of documents", _FIRST, _EVERY, between.clustered)
_DUAL = (parts.ENCODING, parts.SCORES)
_BOTH = (*_DUAL, parts.SECOND_VIEW, parts.CLASSIFIERS, parts.CLASSIFIER_SCORES)
_FROZEN = (parts.FROZEN_CLASSIFIERS, parts.SCORES)
_AGAINST_ALL = (parts.DOCUMENTS, parts.ALL_CLASSIFIERS)

ROWS: dict[str, Row] = {
    "unidec": Row((Stage("joint", "epochs", _BOTH, _pool("positives"), (_CLUSTERS, _HARD)),), (0, 1)),
    "depsl": Row((Stage("encoder", "epochs", _DUAL, _pool("positives"), (_CLUSTERS, _HARD)),)),
    "ngame": Row(
        (
            Stage(
                "encoder",
                "epochs",
                _DUAL,
                _pool(1),
                (Between("clusters of documents", "cluster_from", "cluster_every", between.clustered),),
            ),
            Stage("classifiers", "classifier_epochs", _FROZEN, _pool(None), vectors=("documents", "labels")),
        ),
        (0, 0),
    ),
    "dpr": Row((Stage("encoder", "epochs", _DUAL, _pool(1)),)),
    "ance": Row(
        (
            Stage(
                "encoder",
                "epochs",
                _DUAL,
                _pool(1),
                (_mined(lambda s: s.o.mine_length, "mine_from", "mine_every"),),
            ),
        )
    ),
    "renee": Row(
        (
            Stage("start", "start_epochs", _DUAL, _pool(1)),
            Stage("joint", "epochs", _AGAINST_ALL, _every_label),
        ),
        (0, 1),
    ),
    "dexml": Row(
        (Stage("encoder", "epochs", (parts.EVERY_LABEL, parts.ALL_LABELS), _every_label),),
        without=frozenset({"random_negatives", "hard_negatives", "refresh_from", "refresh_every", "refresh_steps"}),
    ),
}
_READ = {  # options that a plan on paper depends on
    *("encoder", "width", "max_length", "projection", "batch", "random_negatives", "positives", "hard_negatives"),
    *("label_pool", "epochs", "start_epochs", "classifier_epochs", "refresh_from", "refresh_every", "cluster_from"),
    *("cluster_every", "cluster_size", "mine_from", "mine_every", "mine_length", "validation", "memory", "refit"),
    *("refits", "refresh_steps", "momentum", "bfloat16", "labels_at_once", "texts_at_once", "recompute"),
}


def read_by(recipe: str) -> set[str]:
    """The options of a recipe that its plan on paper depends on."""
    return {name for name in options_of(options_class(RECIPES[recipe])) if name in _READ} - ROWS[recipe].without
