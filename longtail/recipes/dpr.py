"""DPR: one encoder for documents and labels, trained on in-batch negatives (Karpukhin et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.losses import loss_named
from longtail.model import Bundle
from longtail.recipes.papers import DPR
from longtail.stages.dual_encoder import train_encoder
from longtail.stages.held_out import FusionOptions
from longtail.stages.recipe import recipe
from longtail.stages.task import EncoderOptions, read
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(EncoderOptions, FusionOptions):
    """DPR."""


@recipe(Options, paper=DPR)
def dpr(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder: documents and labels share one encoder, and a document's labels are the nearest ones.

    Source: DPR (Karpukhin et al., 2020), section 3. It departs from the paper in four points
    (docs/explanation/methods/dpr.md): every true pair of the pool counts as a positive (the paper has one), the loss is
    NGAME's triplet unless another is asked for (the paper's softmax is ``info_nce``), random labels take the place of
    BM25 negatives, and held-out documents say what cosines are worth by how frequent a label is.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text
    pool = Pool(train.targets, positives=1, random=o.random_negatives)
    batches = text.batches(train, Shuffled(len(train), o.batch, seed=o.seed), pool)
    encoder_loss = loss_named(o.loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z = text.encode(b)  # (B, D), (P, D)
        return {o.loss: encoder_loss(x @ z.T, b.targets, b.mask)}

    train_encoder(task, objective, batches, o)
    return task.model({"encoder": text.embed(text.labels)})
