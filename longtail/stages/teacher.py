"""A teacher: a trained run whose scores a recipe learns, beside the true pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import load_arrays, save_arrays
from longtail.batches.batch import Batch
from longtail.data.dataset import Dataset
from longtail.data.sparse import CSR, digest, load_csr, save_csr, values_at
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.files import kept
from longtail.hashes import sha256
from longtail.losses.distillation import distillation
from longtail.model import Model, open_model
from longtail.model.exports import transformers_of
from longtail.model.remembering import said_of_labels
from longtail.model.saved import CARD
from longtail.modules.encoders.given import ask_first, each_text_once
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.options import POSITIVE, option
from longtail.stages.held_out import FusionOptions
from longtail.stages.recipe import RunOptions
from longtail.stages.refit import place_before_refit
from longtail.stages.start import must_not_have_seen
from longtail.stages.task import Task
from longtail.topk import FloatArray, IntArray
from longtail.train.plan import SAMPLE, timed
from longtail.train.run import Run

Taught: TypeAlias = Callable[..., dict[str, Tensor]]
_ARRAYS = ("queries", "table")
_BLOCK = 8_192  # texts encoded at a time, of which nothing is kept but what transformers give


class Asked(NamedTuple):
    """What a teacher says of N texts: the logit of each of L labels is an inner product, and what is said beside it.

    Attributes:
        queries: (N, W) float32.
        table: (L, W) float32.
        beside: (N, L) CSR, of texts that are labels, where it asks what goes with these.
    """

    queries: FloatArray
    table: FloatArray
    beside: CSR

    def logits(self, rows: IntArray, labels: IntArray, device: torch.device) -> Tensor:
        """(B, P) those of some texts and labels, on a device."""
        x, z, beside = (
            torch.from_numpy(some).to(device)
            for some in (
                self.queries[rows],
                self.table[labels],
                values_at(self.beside, rows, np.broadcast_to(labels, (len(rows), len(labels)))),
            )
        )
        return x @ z.T + beside


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

    The teacher is asked once: the vectors of the training rows under it, its table of labels, and what goes with texts
    that are labels are kept in the run's folder until it is done, and a batch multiplies those of its documents and of
    its pool. The documents that the student is trained on say what goes with a label, and no other: held-out ones are
    to tell what the student is worth.

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
    asked = _asked(run, before if unseen else folder / "model", task, o.teacher_temperature)

    def terms(b: Batch, **scores: Tensor) -> dict[str, Tensor]:
        logits = asked.logits(b.rows.cpu().numpy(), b.label_ids.cpu().numpy(), b.rows.device)
        loss = partial(distillation, mask=b.mask, teacher=logits, temperature=o.teacher_temperature)
        return {f"taught {name}": o.teacher_weight / len(scores) * loss(one) for name, one in scores.items()}

    return terms


def _asked(run: Run, model: Path, task: Task, temperature: float) -> Asked:
    """What a model says of the training rows, and what goes with those that are labels, if it asks that."""
    teacher = run.once(f"teacher {model}", partial(open_model, model, device=run.device))
    transformers = [part for part in transformers_of(teacher) if isinstance(part, TransformerEncoder)]
    documents, known = task.train.documents, task.dataset.train
    relates = teacher.memory is not None and teacher.memory.related is not None
    kind = "memory" if relates else "fused" if teacher.fusion is not None else _last_inner_product(teacher)
    scorer, N, L = teacher.scorer(kind), len(documents), len(teacher.labels)
    nothing = CSR((N, L), dtype=np.float32)
    every = _every_text(task, teacher, labels=relates) if transformers else documents
    if run.plan is not None:
        width, some = scorer.table(slice(0, 1)).shape[1], documents.take(np.arange(min(SAMPLE, N)))
        encode = partial(teacher.encode, some)
        seconds = run.plan.once(("teacher", model), lambda: timed(encode, run.device) / max(1, len(some)))
        texts, numbers = N + relates * L, sum(part.width for part in transformers)
        if transformers:  # which are asked about every text first, once for both teachers of a run
            texts = len(every) if run.plan.first(("teacher", every.digest())) else 0
        run.plan.add("asking the teacher", texts * seconds, held=4 * ((N + L) * width + len(every) * numbers))
        queries, table = (np.broadcast_to(np.float32(0), (rows, width)) for rows in (N, L))
        return Asked(queries, table, nothing)

    @cache
    def ask() -> Asked:
        run.log.say(f"asking the teacher, {model.parent}, about {N:,} documents, once")
        with run.log.parts("asking the teacher"), each_text_once(transformers) as given:
            ask_first(given, every.digest(), partial(_encode_all, teacher, every), run.cache)
            scale = np.float32(1 if teacher.fusion is not None else 1 / temperature)
            vectors = teacher.encode(documents)
            beside = said_of_labels(teacher, known.documents, known.targets, vectors) if relates else nothing
            return Asked(scale * scorer.queries(vectors), scorer.table(), beside)

    if run.cache is None:
        return ask()
    said = (
        f"{sha256(model / CARD)} {documents.digest()} {temperature} {known.documents.digest()} {digest(known.targets)}"
    )
    vectors = run.cache / f"teacher-{hashlib.sha256(said.encode()).hexdigest()[:32]}"
    beside = vectors.with_name(f"{vectors.name}-labels")
    queries, table = kept(
        vectors,
        lambda: save_arrays(vectors, dict(zip(_ARRAYS, ask()[:2], strict=True))),
        lambda path: load_arrays(path, _ARRAYS, mapped=True),
    )
    return Asked(queries, table, kept(beside, lambda: save_csr(ask().beside, beside), load_csr) if relates else nothing)


def _every_text(task: Task, teacher: Model, *, labels: bool) -> Texts:
    """What both teachers of a run are asked about, each text once: the second about held-out documents, too."""
    every = task.train.documents.followed_by(task.held_out.documents)
    columns = (every.followed_by(teacher.labels) if labels else every).fields
    texts = sorted({*zip(*(columns[name] for name in teacher.fields), strict=True)})
    return Texts.by_field([dict(zip(teacher.fields, text, strict=True)) for text in texts], teacher.fields)


def _encode_all(teacher: Model, texts: Texts) -> None:
    for start in range(0, len(texts), _BLOCK):
        teacher.encode(texts.take(np.arange(start, min(start + _BLOCK, len(texts)))))


def _last_inner_product(model: Model) -> str:
    return [scorer.name for scorer in model.scorers if scorer.rows is not None][-1]
