"""UniDEC: a dual encoder and a classifier a label, trained in one pass on the same pools of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.batches.batch import Batch
from longtail.batches.negatives import Mined
from longtail.batches.samplers import Clustered
from longtail.data.dataset import Dataset
from longtail.data.shape import Shape
from longtail.errors import BadInput
from longtail.metrics.propensity import log_odds
from longtail.model import Bundle
from longtail.model.bundle import PLAIN
from longtail.modules.classifiers import classifiers_named
from longtail.modules.heads import LearnedTemperature, TwoHeads
from longtail.options import BELOW_ONE, NATURAL, option
from longtail.recipes.papers import UNIDEC
from longtail.stages.enriching import EnrichOptions, read_enriched
from longtail.stages.graphs import GraphOptions, graph_terms
from longtail.stages.joint import JointOptions, joint_losses
from longtail.stages.picked import pool_of
from longtail.stages.recipe import recipe
from longtail.stages.refresh import renew
from longtail.stages.separator_score import SeparatorScoreOptions, separator_score
from longtail.stages.teacher import taught
from longtail.topk import FloatArray
from longtail.train.optimizer import adamw
from longtail.train.renewal import Moment, Renewal
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class Options(JointOptions, SeparatorScoreOptions, EnrichOptions, GraphOptions):
    """UniDEC."""

    projection: int = option(
        0, "width of the projections of the thesis on top of the encoder; 0 for none", within=NATURAL
    )
    unit_views: bool = option(
        True, "documents have unit length for classifiers in training, as they have when ranked; not so in the thesis"
    )
    dropout: float = option(0.4, "share of a document's second view that is dropped in a step", within=BELOW_ONE)
    classifier_learning_rate: float = option(4e-3, "of the classifiers", within=NATURAL)
    ends: bool = True
    enrich: str | None = "none"
    graphs: Sequence[str] = ("none",)
    graph_loss: str | None = None

    @classmethod
    def best(cls, shape: Shape, given: Mapping[str, Any]) -> dict[str, Any]:
        """What is best by the shape of the documents, and all graphs."""
        return super().best(shape, given) | ({"graphs": ("all",)} if shape.graphs else {})

    def check(self, dataset: Dataset) -> None:
        """Refuse documents that are enriched and projected, too."""
        super().check(dataset)
        if self.projection and self.enrich != "none":
            problem = "documents with projections of the thesis are not enriched"
            raise BadInput("projection", problem, remedy="leave projection or enrich out")


@recipe(Options, paper=UNIDEC)
def unidec(run: Run, dataset: Dataset, o: Options) -> Bundle:
    """Train a dual encoder and a classifier a label in one pass, and learn how to weigh their scores.

    Source: UniDEC (the thesis, chapter 2, Algorithm 1). Documents that are near each other share a batch; its pool
    holds some positives of each (pick some labels), every true pair in it counts, and two losses share it: between the
    vectors of documents and of label texts, and between a second view of the documents and the classifiers. Departures,
    and the settings of the thesis: docs/explanation/methods/unidec.md.
    """
    enriched = read_enriched(run, dataset, o)
    task, train, text = enriched.task, enriched.task.train, enriched.task.text
    generator = torch.Generator().manual_seed(o.seed)
    heads = TwoHeads(text.encoder, o.projection, normalised=o.unit_views, generator=generator).to(run.device)
    trunk, text = text.encoder, replace(text, encoder=heads.text)
    learned = LearnedTemperature(o.classifier_temperature).to(run.device) if o.learned_temperature else nn.Identity()
    temperature = {"temperature": learned} if o.learned_temperature else {}
    losses = joint_losses(o, learned)
    bias = o.classifier_temperature * log_odds(train.targets) if o.one_versus_all else None
    L, width = len(dataset.labels), heads.text.width
    weights = classifiers_named(o.classifiers, L, width, generator=generator, bias=bias).to(run.device)
    known, teacher_terms = enriched.enriched(text, o), taught(run, task, o)
    graphs = graph_terms(replace(task, text=text), o, loss=o.loss, first=o.refresh_from, every=o.refresh_every)
    sampler, mined = Clustered(len(train), o.batch, seed=o.seed), Mined(len(train), o.hard_negatives)
    pool = pool_of(train.targets, mined, o)
    batches = text.batches(train, sampler, pool, documents=known.source, links=known.links, graphs=graphs.pools)
    rate = task.text.rate(o.learning_rate)
    of_heads = (heads.own_parameters(), rate if heads.table is not None else 2 * rate)
    of_weights = (weights, o.classifier_learning_rate)
    optimizer = adamw((trunk, rate), of_heads, of_weights, (learned, 2 * rate), more=known.groups(o))

    def objective(b: Batch) -> dict[str, Tensor]:
        assert b.labels is not None
        x, z, u, *others = heads.views(b.documents, b.labels, *b.nodes, *known.nodes(b))  # (B, D), (P, D), (B, D)
        anchors, nodes = others[: len(b.nodes)], others[len(b.nodes) :]  # (A, D) each
        (e, v), linked = known.views(b, nodes, x, u)  # (B, D), (B, D), (B,)
        w = weights(b.label_ids, z)  # (P, D), or (P, D + 1) with a bias

        def scores(x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
            u = F.pad(F.dropout(u, o.dropout), (0, w.shape[1] - u.shape[1]), value=1)  # (B, D), or (B, D + 1)
            return x @ z.T, u @ w.T  # (B, P), (B, P)

        by_text, by_weight = scores(e, v)
        terms = {name: o.enriched_weight * term for name, term in losses(by_text, by_weight, b.targets, b.mask).items()}
        if linked is not None and o.plain_weight:
            plain, weight = losses(*scores(x, u), b.targets, b.mask & linked[:, None]), linked.float().mean()
            terms |= {f"plain {name}": o.plain_weight * weight * term for name, term in plain.items()}
        terms |= teacher_terms(b, encoder=by_text, classifier=by_weight)
        return terms | graphs.terms(b, learned(by_text), x, z, anchors)

    def before_epoch(epoch: int) -> None:
        if epoch == 0:
            known.fill()
        graphs.before_epoch(epoch)

    def renewed(at: Moment) -> None:
        renew(at, text, train, sampler, mined, o, documents=known.documents)

    def vectors() -> dict[str, FloatArray]:
        z = text.embed(text.labels)
        return {"encoder": z, "classifier": weights.vectors(z)}

    enriched.train_linkers(known)
    run.train(
        "joint",
        objective,
        batches,
        optimizer,
        {"heads": heads, "classifiers": weights, **temperature, **known.modules},
        pace=o.pace(o.epochs),
        before_epoch=before_epoch,
        renewal=Renewal(o.renewed(), renewed),
        score=task.score(vectors, heads=heads),
        others={"sampler": sampler, "mined": mined, "graphs": graphs},
    )
    trained = vectors() | separator_score(run, task, heads, o.separators)
    if known.enrichment is not None and o.plain_classifiers:
        trained[PLAIN] = np.ascontiguousarray(trained["classifier"][:, :width])  # the bias counts once
    return task.model(trained, heads=heads, linked=enriched.linked(known))
