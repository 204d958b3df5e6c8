"""ANCE: a dual encoder on hard negatives that an index over its own label embeddings finds (Xiong et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.negatives import Mined
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.losses import loss_named
from longtail.model import Bundle
from longtail.options import COUNT, NATURAL, option
from longtail.recipes.papers import ANCE
from longtail.stages.dual_encoder import train_encoder
from longtail.stages.held_out import FusionOptions
from longtail.stages.recipe import recipe
from longtail.stages.refresh import RenewalOptions, mine
from longtail.stages.task import EncoderOptions, read
from longtail.train.renewal import Moment, Renewal, When
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(RenewalOptions, EncoderOptions, FusionOptions):
    """ANCE."""

    hard_negatives: int = option(
        1, "labels drawn for each document from its list of hard negatives, on top", within=NATURAL
    )
    mine_from: int = option(2, "the first epoch with hard negatives, counted from 0", within=NATURAL)
    mine_every: int = option(1, "epochs between two renewals of the lists", within=COUNT)
    mine_length: int = option(20, "hard negatives on the list of a document", within=COUNT)


@recipe(Options, paper=ANCE)
def ance(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder on hard negatives: wrong labels that it ranks high itself, renewed while it trains.

    Source: ANCE (Xiong et al., 2021), section 3. Before an epoch all labels are encoded and searched for each training
    document; what is found and wrong is drawn into the pools of that epoch. The paper does this beside the training,
    and with an approximate index; here it is done between epochs, or between steps, and nearly exactly. Departures and
    their measurements: docs/explanation/methods/ance.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text
    mined = Mined(len(train), o.hard_negatives)
    pool = Pool(train.targets, positives=1, random=o.random_negatives, mined=mined)
    batches = text.batches(train, Shuffled(len(train), o.batch, seed=o.seed), pool)
    encoder_loss = loss_named(o.loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z = text.encode(b)  # (B, D), (P, D)
        return {o.loss: encoder_loss(x @ z.T, b.targets, b.mask)}

    def renew(_: Moment) -> None:
        mined.renew(mine(run, train, text.embed(text.documents), text.embed(text.labels), o.mine_length))

    train_encoder(
        task,
        objective,
        batches,
        o,
        renewal=Renewal(When(o.mine_from, o.mine_every, o.refresh_steps), renew),
        others={"mined": mined},
    )
    return task.model({"encoder": text.embed(text.labels)})
