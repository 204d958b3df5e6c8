"""A teacher: a trained run whose scores a recipe learns, beside the true pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import load_arrays, save_arrays
from longtail.batches.batch import Batch
from longtail.data.dataset import Dataset
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.files import kept
from longtail.hashes import sha256
from longtail.losses.distillation import distillation
from longtail.model import Model, open_model
from longtail.model.saved import CARD
from longtail.options import POSITIVE, option
from longtail.stages.held_out import FusionOptions
from longtail.stages.recipe import RunOptions
from longtail.stages.refit import place_before_refit
from longtail.stages.start import must_not_have_seen
from longtail.stages.task import Task
from longtail.topk import FloatArray
from longtail.train.plan import SAMPLE, timed
from longtail.train.run import Run

Taught: TypeAlias = Callable[..., dict[str, Tensor]]
_ARRAYS = ("queries", "table")


@dataclass(frozen=True, kw_only=True)
class TeacherOptions(RunOptions):
    """A teacher."""

    teacher: str | None = option(
        None,
        "the folder of a finished run of these labels, of any recipe or an ensemble, whose scores are learned, too; "
        "see docs/guides/distil.md",
    )
    teacher_weight: float = option(1.0, "of the term that pulls scores to the teacher's", within=POSITIVE)
    teacher_temperature: float = option(
        0.1, "of cosines in that term; a teacher's fused scores are logits, and stay as they are", within=POSITIVE
    )

    def check(self, dataset: Dataset) -> None:
        """Refuse a teacher of other labels, and one that has seen what a fusion is to be learned on."""
        super().check(dataset)
        if self.teacher is None:
            return
        run = Path(self.teacher)
        labels = open_model(run / "model", device=torch.device("cpu")).labels
        if labels.fields["title"].digest() != dataset.labels.fields["title"].digest():
            problem = f"expected a run of the {len(dataset.labels):,} labels of {dataset.name}, in their order"
            raise BadInput(run, f"{problem}, found others, {len(labels):,}", remedy="give a run of this data")
        if isinstance(self, FusionOptions):
            must_not_have_seen(run, dataset, self.validation, self.seed, refitted=place_before_refit(run).is_dir())


def taught(run: Run, task: Task, o: TeacherOptions) -> Taught:
    """What makes the loss terms of a teacher; without one, there are none.

    The teacher is asked once: the vectors of the training rows under it, and its table of labels, are kept in the run's
    folder until it is done, and a batch multiplies those of its documents and of its pool.

    Args:
        run: of the recipe.
        task: its training rows and labels.
        o: the teacher, and the weight of its terms.

    Returns:
        A function of a batch and of the student's (B, P) scores by name, as they are before any temperature, to terms
        that weigh as much together, whatever their number.
    """
    if o.teacher is None:
        return lambda _, **scores: {}  # noqa: ARG005 - the scores of whoever has a teacher
    folder = Path(o.teacher)
    before = place_before_refit(folder)
    unseen = before.is_dir() and len(task.held_out) > 0
    queries, table = _asked(run, before if unseen else folder / "model", task.train.documents, o.teacher_temperature)

    def terms(b: Batch, **scores: Tensor) -> dict[str, Tensor]:
        x, z = (
            torch.from_numpy(rows[ids.cpu().numpy()]).to(b.rows.device)
            for rows, ids in ((queries, b.rows), (table, b.label_ids))
        )
        loss = partial(distillation, mask=b.mask, teacher=x @ z.T, temperature=o.teacher_temperature)
        return {f"taught {name}": o.teacher_weight / len(scores) * loss(one) for name, one in scores.items()}

    return terms


def _asked(run: Run, model: Path, documents: Texts, temperature: float) -> tuple[FloatArray, FloatArray]:
    """(N, W) and (L, W), the inner products of which are the teacher's logits."""
    teacher = run.once(f"teacher {model}", partial(open_model, model, device=run.device))
    scorer = teacher.scorer("fused" if teacher.fusion is not None else _last_inner_product(teacher))
    if run.plan is not None:
        width, some = scorer.table(slice(0, 1)).shape[1], documents.take(np.arange(min(SAMPLE, len(documents))))
        encode = partial(teacher.encode, some)
        seconds = run.plan.rate(("teacher", model), lambda: timed(encode, run.device) / max(1, len(some)))
        shapes = (len(documents), width), (len(teacher.labels), width)
        run.plan.add("asking the teacher", len(documents) * seconds, held=sum(4 * n * width for n, _ in shapes))
        return np.broadcast_to(np.float32(0), shapes[0]), np.broadcast_to(np.float32(0), shapes[1])

    def ask() -> dict[str, FloatArray]:
        run.log.say(f"asking the teacher, {model.parent}, about {len(documents):,} documents, once")
        with run.log.parts("asking the teacher"):
            scale = np.float32(1 if scorer.name == "fused" else 1 / temperature)
            return {"queries": scale * scorer.queries(teacher.encode(documents)), "table": scorer.table()}

    if run.cache is None:
        asked = ask()
        return asked["queries"], asked["table"]
    said = f"{sha256(model / CARD)} {documents.digest()} {temperature}"
    folder = run.cache / f"teacher-{hashlib.sha256(said.encode()).hexdigest()[:32]}"
    queries, table = kept(
        folder, lambda: save_arrays(folder, ask()), lambda path: load_arrays(path, _ARRAYS, mapped=True)
    )
    return queries, table


def _last_inner_product(model: Model) -> str:
    return [scorer.name for scorer in model.scorers if scorer.rows is not None][-1]
