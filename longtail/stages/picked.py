"""Pick some labels: what UniDEC and DePSL, its dual encoder alone, have in common."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.data.sparse import CSR
from longtail.options import COUNT, POSITIVE, option
from longtail.stages.refresh import RefreshOptions
from longtail.stages.task import EncoderOptions
from longtail.stages.teacher import TeacherOptions


@dataclass(frozen=True, kw_only=True)
class PickOptions(RefreshOptions, EncoderOptions, TeacherOptions):
    """Pick some labels."""

    positives: int | None = option(
        None, "how many true labels of each document are drawn into the pool (beta); all if left out", within=COUNT
    )
    label_pool: int | None = option(
        None,
        "the most labels of a pool, which is filled up with true labels that were not drawn; as many as are drawn if "
        "left out",
        within=COUNT,
    )
    symmetric: bool = option(False, "losses also in the other direction, from labels to documents, half and half")
    temperature: float | None = option(
        None, "of the encoder's loss; its own if left out (0.05 for a softmax, 0.1 for triplet)", within=POSITIVE
    )
    loss: str = "decoupled_softmax"


def pool_of(targets: CSR, mined: Mined, o: PickOptions) -> Pool:
    """The pool of a batch (the thesis, sections 2.3.1 and 2.3.2): some true labels of each document, hard negatives."""
    return Pool(targets, o.positives, o.random_negatives, mined, o.label_pool)
