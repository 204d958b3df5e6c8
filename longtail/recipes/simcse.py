"""SimCSE: one encoder that tells texts apart by two views of each; no label is read (Gao et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.dataset import Dataset
from longtail.data.sparse import csr
from longtail.data.split import Split
from longtail.errors import BadInput
from longtail.losses import loss_named
from longtail.model import Bundle
from longtail.modules.encoders.base import encode_together
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.options import BELOW_ONE, NATURAL, option
from longtail.recipes.papers import SIMCSE
from longtail.stages.dual_encoder import train_encoder
from longtail.stages.recipe import recipe
from longtail.stages.task import EncoderOptions, read
from longtail.train.run import Run

_LEFT_OUT = 0.5  # of the features or words of a text, by an encoder that drops nothing itself


@dataclass(frozen=True, kw_only=True)
class Options(EncoderOptions):
    """SimCSE."""

    reads_pairs = False
    loss: str = "info_nce:temperature=0.05"
    random_negatives: int = option(0, "texts drawn at random, on top of those of a batch", within=NATURAL)
    left_out: float | None = option(
        None,
        "share of the features or words of a text that a view leaves out; if left out 0 for a transformer, which drops "
        f"numbers itself, and {_LEFT_OUT} for others",
        within=BELOW_ONE,
    )


@recipe(Options, paper=SIMCSE)
def simcse(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train an encoder to know a text again that is seen twice, each time with other parts of it dropped.

    Source: SimCSE (Gao et al., 2021), section 3, unsupervised: true pairs are not read. It ranks labels by their texts,
    is a baseline of what labels are worth, and a start for other recipes (``start``). Departures and their
    measurements: docs/explanation/methods/simcse.md.
    """
    task = read(run, dataset, o)
    documents, text = task.train.documents, task.text
    every = np.arange(len(documents))
    itself = Split(documents, csr(every, every, (len(every), len(every))))  # each text is a label, its own alone
    pool = Pool(itself.targets, positives=1, random=o.random_negatives)
    sampler = Shuffled(len(itself), o.batch, seed=o.seed)
    batches = text.batches(itself, sampler, pool, labels=text.documents)
    encoder_loss = loss_named(o.loss)
    share, core = o.left_out, text.encoder.core
    if share is None:
        share = 0.0 if isinstance(core, TransformerEncoder) else _LEFT_OUT
    if share and isinstance(core, TransformerEncoder) and core.tokenizer.windows > 1:
        problem = f"words that are left out would shift the {core.tokenizer.windows} windows of a text, found {share:g}"
        raise BadInput("left_out", problem, remedy="leave it out, or read one window")

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, u = encode_together(text.encoder, b.documents.without(share), b.labels.without(share))  # (B, D), (P, D)
        return {"views": encoder_loss(x @ u.T, b.targets, b.mask)}

    train_encoder(task, objective, batches, o)
    return task.model({"encoder": text.embed(text.labels)})
