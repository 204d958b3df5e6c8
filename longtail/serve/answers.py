"""Requests to rank labels, and the answers to a batch of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Texts
from longtail.model.base import Model
from longtail.model.explanation import Explained, explain
from longtail.model.snapshot import Snapshot
from longtail.topk import IntArray, Prediction


class Predict(NamedTuple):
    """A request for ranked labels.

    Attributes:
        texts: by field.
        k: labels a text.
        kind: the score kind; the best one if None.
        allowed: uids of the only labels to rank, or None for all.
        excluded: uids of labels that are not ranked.
        explained: whether to say why.
    """

    texts: Sequence[dict[str, str]]
    k: int
    kind: str | None = None
    allowed: Sequence[str] | None = None
    excluded: Sequence[str] = ()
    explained: bool = False


class Ranked(NamedTuple):
    """The answer: labels of each text, best first, and why each of them, if that was asked."""

    kind: str
    labels: Sequence[list[Prediction]]
    explained: list[list[Explained]] | None = None


Job: TypeAlias = Predict | Callable[[Snapshot], Any]


def answers(snapshot: Snapshot, jobs: Sequence[Job]) -> list[Any]:
    """The answers to a batch; an exception is that to a request that failed. What can be searched together is."""
    found: list[Any] = [None] * len(jobs)
    together: dict[str, list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        if isinstance(job, Predict) and job.allowed is None and not job.excluded:
            together[job.kind or snapshot.scorer().name].append(i)
        else:
            found[i] = _caught(lambda job=job: _alone(snapshot, job))  # type: ignore[misc]
    for kind, places in together.items():
        group = [job for job in (jobs[i] for i in places) if isinstance(job, Predict)]
        ranked = _caught(lambda kind=kind, group=group: _together(snapshot, kind, group))  # type: ignore[misc]
        for n, i in enumerate(places):
            found[i] = ranked if isinstance(ranked, Exception) else ranked[n]
    return found


def _together(model: Model, kind: str, requests: Sequence[Predict]) -> list[Ranked]:
    """Answers to requests of one score kind, by one search."""
    texts = [text for request in requests for text in request.texts]
    top = model.rank(Texts.by_field(texts, model.fields), max(request.k for request in requests), kind=kind)
    named, answers, start = model.named(top), [], 0
    for request in requests:
        end = start + len(request.texts)
        labels = [row[: request.k] for row in named[start:end]]
        answers.append(Ranked(kind, labels, _explained(model, kind, request, top.ids[start:end, : request.k])))
        start = end
    return answers


def _alone(snapshot: Snapshot, job: Job) -> Any:
    """The answer to a job that is not searched with others."""
    if not isinstance(job, Predict):
        return job(snapshot)
    model: Model = snapshot
    excluded, exclude = set(job.excluded), None
    if job.allowed is not None:
        model = snapshot.take(_rows(snapshot, set(job.allowed) - excluded))
    else:
        exclude = csr_of_lists([_rows(snapshot, excluded).tolist()] * len(job.texts), len(snapshot))
    kind = model.scorer(job.kind).name
    top = model.rank(Texts.by_field(job.texts, model.fields), job.k, kind=kind, exclude=exclude)
    return Ranked(kind, list(model.named(top)), _explained(model, kind, job, top.ids))


def _rows(snapshot: Snapshot, uids: Collection[str]) -> IntArray:
    """The rows of the labels with some uids, ascending; those that are not there are left out."""
    return np.array(sorted(row for row in map(snapshot.find, uids) if row is not None), np.int64)


def _explained(model: Model, kind: str, request: Predict, rows: IntArray) -> list[list[Explained]] | None:
    """Why the labels in (n, k) rows were ranked, if that was asked."""
    if not request.explained:
        return None
    return [explain(model, text, row[row >= 0], kind) for text, row in zip(request.texts, rows, strict=True)]


def _caught(action: Callable[[], Any]) -> Any:
    """What an action returns, or the exception that it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001  (it is raised again where the request waits)
        return error
