"""A run that starts its encoder from what another run has trained."""

from __future__ import annotations

from pathlib import Path

import torch

from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.model import Bundle, open_model
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.named import encoder_named, row_of
from longtail.stages.held_out import held_out_by
from longtail.stages.recipe import MADE, options_class
from longtail.train.progress import as_trained, settings_of


def encoder_of(run: Path, name: str) -> Encoder:
    """The encoder of a finished run, with the words that it knows.

    Args:
        run: its folder.
        name: of an encoder, as a recipe takes it: the run's has to be of that kind.

    Raises:
        BadInput: the run is not finished, or has another encoder.
    """
    encoder = Bundle.load(run / "model", device=torch.device("cpu")).encoder
    if (found := row_of(encoder)).kind is not (wanted := encoder_named(name)).kind:
        problem = f"expected a run with the encoder {wanted.name}, found one with {found.name}"
        raise BadInput(run, problem, remedy=f"start from another run, or give --encoder {found.name}")
    return encoder


def must_not_have_seen(run: Path, dataset: Dataset, share: float, seed: int, *, refitted: bool = False) -> None:
    """Make sure that what a fusion is to be learned on is new to another run, too.

    A run whose recipe reads no true pairs knows nothing of those of any document.

    Args:
        run: the folder of the run that an encoder, or what a teacher says, comes from.
        dataset: as it was read.
        share: of its documents, which are to be held out with `longtail.stages.held_out.hold_out`.
        seed: of these.
        refitted: whether it is asked as it was before it was trained once more, on all documents.

    Raises:
        BadInput: the run is of this data, and has not held all these documents out.
    """
    settings = settings_of(run)
    of_texts = settings["recipe"] in MADE and not options_class(MADE[settings["recipe"]]).reads_pairs
    if not share or settings["hashes"] != dataset.fingerprint() or of_texts:
        return
    given, kept = as_trained(settings), open_model(run / "model", device=torch.device("cpu")).fusion is not None
    if not kept or (given.get("refit") and not refitted):
        problem = "expected a run that has not seen the held-out documents, found one that has seen all"
    elif not held_out_by(dataset, share, seed, other=(given["validation"], given["seed"])):
        found = f"validation {given['validation']:g} and seed {given['seed']}"
        problem = (
            f"expected a run that held out the same documents (validation {share:g} and seed {seed}), found {found}"
        )
    else:
        return
    raise BadInput(run / "run.json", problem, remedy="start from one that did, or give --validation 0, for no fusion")
