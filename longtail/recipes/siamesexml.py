"""SiameseXML: a dual encoder trained on batches of labels, then classifiers that are a label's text plus a residual."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.pool import Pool
from longtail.batches.samplers import ByLabel
from longtail.data.dataset import Dataset
from longtail.losses import LOSSES, loss_named
from longtail.model import Bundle
from longtail.options import POSITIVE, option
from longtail.recipes.papers import SIAMESEXML
from longtail.stages.dual_encoder import train_encoder
from longtail.stages.recipe import recipe
from longtail.stages.shortlists import ShortlistOptions, clusters_of, shortlists, train_on_shortlists
from longtail.stages.task import read
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(ShortlistOptions):
    """SiameseXML."""

    classifier_loss: str = option("decoupled_softmax", "of the classifiers", choices=LOSSES, calls=True)
    classifier_temperature: float = option(0.1, "of the classifiers' loss", within=POSITIVE)


@recipe(Options, paper=SIAMESEXML)
def siamesexml(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder on batches of labels, then a classifier a label over shortlists, then their fusion.

    Source: SiameseXML (Dahiya et al., 2021). An epoch goes once over the labels, each with one of its documents, so
    that the tail is seen as often as the head. A classifier is the embedding of its label's text plus a free residual.
    Departures and their measurements: docs/explanation/methods/siamesexml.md.
    """
    task = read(run, dataset, o)
    train, text = task.train, task.text
    pool = Pool(train.targets, positives=1, random=o.random_negatives)
    batches = text.batches(train, ByLabel(train.targets, o.batch, seed=o.seed), pool)
    encoder_loss = loss_named(o.loss)

    def objective(b: Batch) -> dict[str, Tensor]:
        x, z = text.encode(b)  # (B, D), (P, D)
        return {"encoder": encoder_loss(x @ z.T, b.targets, b.mask)}

    train_encoder(task, objective, batches, o)

    x, z = text.embed(text.documents), text.embed(text.labels)  # (N, D), (L, D)
    near = shortlists(run, train, x, z, clusters_of(run, z, o.cluster_size), o.beam)
    related = task.dataset.train.targets
    w = train_on_shortlists(run, train, x, z, near, related, o, o.classifier_loss, o.classifier_temperature)
    return task.model({"encoder": z, "classifier": w})
