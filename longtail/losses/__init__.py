"""Numbers from scores: every loss is a function of scores, targets and mask, and each is one line of algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from torch import Tensor

from longtail.calls import read_call
from longtail.errors import BadInput
from longtail.losses.base import Loss, LossKind
from longtail.losses.binary import binary_cross_entropy
from longtail.losses.contrastive import probabilistic_contrastive
from longtail.losses.full import chunked
from longtail.losses.soft_top_k import soft_top_k
from longtail.losses.softmax import decoupled_softmax, info_nce, sup_con
from longtail.losses.softmax import symmetric as both_directions
from longtail.losses.triplet import triplet

LOSSES: dict[str, LossKind] = {
    "triplet": LossKind(triplet, "each positive above the hardest negatives of its row, by a margin"),
    "decoupled_softmax": LossKind(
        decoupled_softmax,
        "cross-entropy of each positive against the negatives alone",
        chunked.decoupled_softmax,
        learnable=True,
    ),
    "info_nce": LossKind(info_nce, "cross-entropy against the whole pool, averaged over pairs", learnable=True),
    "sup_con": LossKind(
        sup_con, "cross-entropy against the whole pool, averaged over rows", chunked.sup_con, learnable=True
    ),
    "soft_top_k": LossKind(soft_top_k, "how surely a positive is among the first 5 (DEXML)", learnable=True),
    "binary_cross_entropy": LossKind(
        binary_cross_entropy,
        "a yes-or-no question of each pair",
        partial(chunked.binary_cross_entropy, value_from=8),
        one_versus_all=True,
    ),
    "probabilistic_contrastive": LossKind(
        probabilistic_contrastive, "a cosine is the logarithm of how probable a pair is (SiameseXML)"
    ),
}
"""Every loss that a recipe can name; one row each."""


def loss_named(text: str, *, temperature: float | None = None, symmetric: bool = False) -> Loss:
    """A loss of `LOSSES` over the labels of a pool.

    Args:
        text: its name, with its options: ``triplet``, ``triplet:margin=0.2:positives=3``. The options are the arguments
            of the function of that name.
        temperature: its own default if left out.
        symmetric: half of it in the other direction, from labels to documents.

    Raises:
        BadInput: there is none of that name, or no such option.
    """
    name, _, options = text.partition(":")
    row = _row(text)
    given = {} if temperature is None else {"temperature": temperature}
    given |= read_call(f"loss {name}", row.function, options, besides=("scores", "targets", "mask"))
    loss = partial(row.function, **given) if given else row.function
    return partial(both_directions, loss) if symmetric else loss


def is_one_versus_all(text: str) -> bool:
    """Whether a loss of `LOSSES`, named as for `loss_named`, asks of each pair on its own (`LossKind`)."""
    return _row(text).one_versus_all


def must_learn_temperature(option: str, text: str) -> None:
    """Refuse a loss of `LOSSES`, named as for `loss_named`, of which a temperature cannot be learned outside.

    Args:
        option: that names it, for the message.
        text: its name, with its options.

    Raises:
        BadInput: it is no softmax: a margin, or the level of a score, would mean something else in each step.
    """
    if not _row(text).learnable:
        known = ", ".join(name for name, row in LOSSES.items() if row.learnable)
        problem = f"expected a loss whose temperature can be learned ({known}), found {text}"
        raise BadInput(option, problem, remedy="choose one of those, or leave learned_temperature out")


def full_loss_named(name: str, *, temperature: float) -> Callable[..., Tensor]:
    """A loss of `LOSSES` over all labels: a function of documents, the table of all labels and sparse targets.

    Raises:
        BadInput: there is none of that name, or it has no twin over all labels.
    """
    twins = {known: row.over_all_labels for known, row in LOSSES.items() if row.over_all_labels is not None}
    if name not in twins:
        raise _unknown(name, twins)
    return partial(twins[name], temperature=temperature)


def _row(text: str) -> LossKind:
    """The row of a loss that is named as for `loss_named`."""
    name = text.partition(":")[0]
    if name not in LOSSES:
        raise _unknown(name, LOSSES)
    return LOSSES[name]


def _unknown(name: str, known: Iterable[str]) -> BadInput:
    return BadInput("loss", f"expected one of {', '.join(known)}, found {name}", remedy="choose one of those")
