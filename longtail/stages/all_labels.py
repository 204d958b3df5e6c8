"""What the recipes share whose documents meet every label: their losses, batches without a pool, and sparse targets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader, Source
from longtail.batches.pool import Pool
from longtail.batches.samplers import Sampler
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.losses.full import chunked
from longtail.losses.full.targets import SparseTargets

LOSSES: dict[str, Callable[..., Tensor]] = {
    "binary_cross_entropy": partial(chunked.binary_cross_entropy, value_from=8),
    "decoupled_softmax": chunked.decoupled_softmax,
    "sup_con": chunked.sup_con,
}


def loss_over_all_labels(name: str, *, temperature: float) -> Callable[..., Tensor]:
    """A loss of `LOSSES`: a function of documents, the table of all labels and sparse targets.

    Raises:
        BadInput: there is none of that name.
    """
    if name not in LOSSES:
        raise BadInput("--loss", f"expected one of {', '.join(LOSSES)}, found {name}", remedy="choose one of those")
    return partial(LOSSES[name], temperature=temperature)


def without_pool(split: Split, sampler: Sampler, documents: Source, *, seed: int) -> Loader:
    """Batches of documents for an objective over every label."""
    return Loader(split, sampler, Pool(split.targets, positives=0), documents, None, seed=seed)


def known(split: Split, b: Batch) -> SparseTargets:
    """What is known of the documents of a batch among all labels."""
    return SparseTargets.of(split.targets, split.filtered, b.rows)
