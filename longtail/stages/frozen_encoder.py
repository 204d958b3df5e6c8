"""Classifiers on a frozen encoder, started at the texts of labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.batches.batch import Batch
from longtail.batches.loader import Loader, vector_source
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.split import Split
from longtail.losses import LOSSES
from longtail.losses.base import Loss
from longtail.modules.classifiers import FreeVectors
from longtail.options import BELOW_ONE, NATURAL, option
from longtail.stages.held_out import FusionOptions
from longtail.stages.task import EncoderOptions
from longtail.text.tokens import VectorTokens
from longtail.topk import FloatArray
from longtail.train.course import Pace
from longtail.train.optimizer import adamw
from longtail.train.run import Run


@dataclass(frozen=True, kw_only=True)
class LabelVectorOptions(EncoderOptions, FusionOptions):
    """Classifiers."""

    classifier_loss: str = option("decoupled_softmax", "of the classifiers", choices=LOSSES, calls=True)
    classifier_learning_rate: float = option(3e-3, "of the classifiers", within=NATURAL)
    dropout: float = option(
        0.5, "share of a document vector's numbers that are dropped in a step of the classifiers", within=BELOW_ONE
    )


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions(LabelVectorOptions):
    """Classifiers."""

    classifier_epochs: int = option(6, "passes over the training rows; 0 trains no classifiers", within=NATURAL)


def train_classifiers(
    run: Run,
    split: Split,
    documents: FloatArray,
    start: FloatArray,
    loss: Loss,
    o: LabelVectorOptions,
    *,
    epochs: int,
    stage: str = "classifiers",
) -> FloatArray:
    """Train one vector a label on a frozen encoder. Source: NGAME (Dahiya et al., 2023), section 3.3 (stage M2).

    Args:
        run: keeps the stage.
        split: N training documents.
        documents: (N, D) their vectors under the frozen encoder.
        start: (L, D) where the classifiers start: the embeddings of the labels' texts.
        loss: of cosines.
        o: how.
        epochs: passes over the documents.
        stage: its name in the run.

    Returns:
        (L, D) float32 rows of unit length.
    """
    classifiers = FreeVectors(start).to(run.device)
    pool = Pool(split.targets, positives=None, random=o.random_negatives)
    sampler = Shuffled(len(split), o.batch, seed=o.seed)
    batches = Loader(split, sampler, pool, vector_source(documents), None, o.seed)
    optimizer = adamw((classifiers, o.classifier_learning_rate))

    def objective(b: Batch) -> dict[str, Tensor]:
        assert isinstance(b.documents, VectorTokens)
        vectors = F.normalize(F.dropout(b.documents.values, o.dropout))  # (B, D)
        return {"classifier": loss(vectors @ classifiers(b.label_ids).T, b.targets, b.mask)}

    run.train(stage, objective, batches, optimizer, {"classifiers": classifiers}, pace=Pace(epochs))
    return classifiers.vectors()
