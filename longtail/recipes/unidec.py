"""UniDEC: a dual encoder and a classifier a label, trained in one pass on the same pools of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.batches.batch import Batch
from longtail.batches.negatives import Mined
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.losses import LOSSES, loss_named, must_learn_temperature
from longtail.metrics.propensity import log_odds
from longtail.model import Bundle
from longtail.modules.classifiers import CLASSIFIERS, classifiers_named
from longtail.modules.heads import LearnedTemperature, TwoHeads
from longtail.options import BELOW_ONE, NATURAL, POSITIVE, SHARE, option
from longtail.recipes.papers import UNIDEC
from longtail.stages.graphs import GraphOptions, graph_terms
from longtail.stages.held_out import FEWEST, FusionOptions
from longtail.stages.picked import PickOptions, pool_of
from longtail.stages.recipe import recipe
from longtail.stages.refresh import renew
from longtail.stages.task import read
from longtail.topk import FloatArray
from longtail.train.optimizer import adamw
from longtail.train.run import Run

_MANY = 10_000  # documents, of fewer of which more are learned from and held out than by default
_HELD_OUT, _MOST_HELD_OUT = 500, 0.2  # of these few, and the share at most


@dataclass(frozen=True, kw_only=True)
class Options(PickOptions, FusionOptions, GraphOptions):
    """UniDEC."""

    projection: int = option(
        0, "width of the projections of the thesis on top of the encoder; 0 for none", within=NATURAL
    )
    classifiers: str = option(
        "residual",
        "residual (the label's text plus a free vector, and a bias) or free (as in the thesis)",
        choices=CLASSIFIERS,
    )
    unit_views: bool = option(
        True, "documents have unit length for classifiers in training, as they have when ranked; not so in the thesis"
    )
    classifier_loss: str = option("decoupled_softmax", "of the classifiers", choices=LOSSES, calls=True)
    binary_weight: float = option(
        0.0, "weight of a binary cross-entropy that is added to the classifiers' loss", within=NATURAL
    )
    mix: float = option(0.5, "share of the encoder's loss in the sum of both (lambda)", within=SHARE)
    temperature: float | None = option(0.1, "of the encoder's loss", within=POSITIVE)
    classifier_temperature: float = option(0.1, "of the classifiers' loss", within=POSITIVE)
    learned_temperature: bool = option(
        False, "of both losses, which are to be softmaxes: they share one, which starts at that of the classifiers"
    )
    dropout: float = option(0.4, "share of a document's second view that is dropped in a step", within=BELOW_ONE)
    classifier_learning_rate: float = option(4e-3, "of the classifiers", within=NATURAL)
    graphs: Sequence[str] = ("none",)
    graph_loss: str | None = None

    @classmethod
    def for_size(cls, documents: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Few documents: twice the passes, and more of them held out, which a second run has back."""
        settings = super().for_size(documents, given)
        if documents >= _MANY:
            return settings
        share = min(_MOST_HELD_OUT, round(_HELD_OUT / max(1, documents), 3))
        settings |= {"epochs": 2 * cls.epochs}
        if "batch" in settings:
            settings["batch"] = min(cls.batch, 2 * settings["batch"])
        if share * documents >= FEWEST:
            settings |= {"validation": share, "refit": given.get("epochs") != "auto"}
        return settings

    def check(self, dataset: Dataset) -> None:
        """Refuse a learned temperature for losses that have none, too."""
        super().check(dataset)
        if self.learned_temperature:
            must_learn_temperature("loss", self.loss)
            must_learn_temperature("classifier_loss", self.classifier_loss)


@recipe(Options, paper=UNIDEC)
def unidec(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder and a classifier a label in one pass, and learn how to weigh their scores.

    Source: UniDEC (the thesis, chapter 2, Algorithm 1). Documents that are near each other share a batch; its pool
    holds some positives of each (pick some labels), every true pair in it counts, and two losses share it: between the
    vectors of documents and of label texts, and between a second view of the documents and the classifiers. Departures,
    and the settings of the thesis: docs/explanation/methods/unidec.md.
    """
    task = read(run, dataset, o, validation=o.validation)
    train, text = task.train, task.text
    generator = torch.Generator().manual_seed(o.seed)
    heads = TwoHeads(text.encoder, o.projection, normalised=o.unit_views, generator=generator).to(run.device)
    trunk = text.encoder
    text = replace(text, encoder=heads.text)
    learned = LearnedTemperature(o.classifier_temperature).to(run.device) if o.learned_temperature else nn.Identity()
    temperatures = (1.0, 1.0) if o.learned_temperature else (o.temperature, o.classifier_temperature)
    one_versus_all = o.binary_weight > 0 or o.classifier_loss == "binary_cross_entropy"
    bias = o.classifier_temperature * log_odds(train.targets) if one_versus_all else None
    L, width = len(dataset.labels), heads.text.width
    weights = classifiers_named(o.classifiers, L, width, generator=generator, bias=bias).to(run.device)
    graphs = graph_terms(replace(task, text=text), o, loss=o.loss, first=o.refresh_from, every=o.refresh_every)
    sampler, mined = Clustered(len(train), o.batch, seed=o.seed), Mined(len(train), o.hard_negatives)
    batches = text.batches(train, sampler, pool_of(train.targets, mined, o), graphs=graphs.pools)
    rate = task.text.rate(o.learning_rate)
    of_heads = (heads.own_parameters(), rate if heads.table is not None else 2 * rate)
    optimizer = adamw((trunk, rate), of_heads, (weights, o.classifier_learning_rate), (learned, 2 * rate))
    encoder_loss = loss_named(o.loss, symmetric=o.symmetric, temperature=temperatures[0])
    label_loss = loss_named(o.classifier_loss, symmetric=o.symmetric, temperature=temperatures[1])
    binary_loss = loss_named("binary_cross_entropy", temperature=temperatures[1])

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z, u, *anchors = heads.views(b.documents, b.labels, *b.nodes)  # (B, D), (P, D), (B, D), (A, D)
        w = weights(b.label_ids, z)  # (P, D), or (P, D + 1) with a bias
        u = F.pad(F.dropout(u, o.dropout), (0, w.shape[1] - u.shape[1]), value=1)  # (B, D), or (B, D + 1)
        by_text, by_weight = learned(x @ z.T), learned(u @ w.T)  # (B, P), (B, P)
        terms = {
            "encoder": o.mix * encoder_loss(by_text, b.targets, b.mask),
            "classifier": (1 - o.mix) * label_loss(by_weight, b.targets, b.mask),
        }
        if o.binary_weight:
            terms["binary"] = (1 - o.mix) * o.binary_weight * binary_loss(by_weight, b.targets, b.mask)
        return terms | graphs.terms(b, by_text, x, z, anchors)

    def before_epoch(epoch: int) -> None:
        graphs.before_epoch(epoch)
        renew(epoch, text, train, sampler, mined, o)

    def vectors() -> dict[str, FloatArray]:
        z = text.embed(text.labels)
        return {"encoder": z, "classifier": weights.vectors(z)}

    run.train(
        "joint",
        objective,
        batches,
        optimizer,
        {"heads": heads, "classifiers": weights, **({"temperature": learned} if o.learned_temperature else {})},
        epochs=o.epochs,
        warmup=o.warmup,
        schedule=o.schedule,
        before_epoch=before_epoch,
        score=task.score(vectors, heads=heads),
        others={"sampler": sampler, "mined": mined, "graphs": graphs},
    )
    return task.model(vectors(), heads=heads)
