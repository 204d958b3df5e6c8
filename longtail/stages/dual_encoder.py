"""The stage of an encoder of documents and labels, whose scores are cosines."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from longtail.batches.loader import Loader
from longtail.stages.task import EncoderOptions, Task
from longtail.train.checkpoint import Stateful
from longtail.train.optimizer import adamw
from longtail.train.plan_parts import Reckoning
from longtail.train.renewal import Renewal
from longtail.train.together import Objective


def train_encoder(
    task: Task,
    objective: Objective,
    batches: Loader,
    o: EncoderOptions,
    *,
    before_epoch: Callable[[int], None] | None = None,
    renewal: Renewal | None = None,
    others: Mapping[str, Stateful] | None = None,
    reckoning: Reckoning | None = None,
) -> None:
    """Train the encoder of a task, in the stage ``encoder``; its cosines are scored where documents are held out.

    Args:
        task: its encoder.
        objective: gives the loss terms of a batch by name.
        batches: makes the batches.
        o: epochs and rates.
        before_epoch: what is done between epochs, as all that follows for `longtail.train.run.Run.train`.
        renewal: what is renewed between steps.
        others: what else is part of a checkpoint, by name.
        reckoning: of a step that is too large to be measured.
    """
    text = task.text
    text.run.train(
        "encoder",
        objective,
        batches,
        adamw((text.encoder, text.rate(o.learning_rate))),
        {"encoder": text.encoder},
        pace=o.pace(o.epochs),
        before_epoch=before_epoch,
        renewal=renewal,
        score=task.score(lambda: {"encoder": text.embed(text.labels)}),
        others=others,
        reckoning=reckoning,
    )
