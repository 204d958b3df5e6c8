"""Requests to rank labels, and the answers to a batch of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from longtail.data.filters import either
from longtail.data.sparse import CSR, csr_of_lists
from longtail.data.texts import Texts
from longtail.model.base import Model
from longtail.model.calibration import RIVALS
from longtail.model.explanation import Explained, Node, explain, linked_nodes
from longtail.model.snapshot import Snapshot
from longtail.model.thresholds import Kept
from longtail.topk import FloatArray, IntArray, TopK


class Predict(NamedTuple):
    """A request for ranked labels.

    Attributes:
        texts: by field.
        k: labels a text.
        kind: the score kind; the best one if None.
        allowed: uids of the only labels to rank, or None for all.
        excluded: uids of labels that are not ranked.
        explained: whether to say why.
        probabilities: whether to say how probable each label is; so it is with one of the next two.
        threshold: the least probability of a label that is given.
        precision: that the threshold is to have kept on held-out documents.
    """

    texts: Sequence[dict[str, str]]
    k: int
    kind: str | None = None
    allowed: Sequence[str] | None = None
    excluded: Sequence[str] = ()
    explained: bool = False
    probabilities: bool = False
    threshold: float | None = None
    precision: float | None = None

    @property
    def calibrated(self) -> bool:
        """Whether it needs probabilities."""
        return self.probabilities or self.threshold is not None or self.precision is not None


class Ranked(NamedTuple):
    """The answer: labels of each text as JSON, best first, and, if that was asked, why each of them.

    The nodes that a text is linked to are a part of why, where a model links texts to nodes.
    """

    kind: str
    labels: Sequence[list[dict[str, Any]]]
    explained: list[list[Explained]] | None = None
    links: list[list[Node]] | None = None
    kept: Kept | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        for labels, row in zip(self.labels, self.explained or [], strict=False):
            for label, why in zip(labels, row, strict=True):
                label["scores"] = why.scores
                label["words"] = [{"word": word, "weight": weight} for word, weight in why.words]
                if why.near is not None:
                    label["near"] = [near._asdict() for near in why.near]
        results: list[dict[str, Any]] = [{"labels": labels} for labels in self.labels]
        for result, nodes in zip(results, self.links or [], strict=False):
            result["links"] = [node._asdict() for node in nodes]
        kept = {} if self.kept is None else {"kept": self.kept._asdict()}
        return {"kind": self.kind, "results": results, **kept}


Job: TypeAlias = Predict | Callable[[Snapshot], Any]


def answers(snapshot: Snapshot, jobs: Sequence[Job]) -> list[Any]:
    """The answers to a batch; an exception is that to a request that failed. What can be searched together is."""
    found: list[Any] = [None] * len(jobs)
    together: dict[str, list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        if isinstance(job, Predict) and job.allowed is None and not job.excluded:
            together[job.kind or snapshot.scorer().name].append(i)
        else:
            found[i] = _caught(_alone, snapshot, job)
    for kind, places in together.items():
        group = [job for job in (jobs[i] for i in places) if isinstance(job, Predict)]
        ranked = _caught(_together, snapshot, kind, group)
        for n, i in enumerate(places):
            found[i] = ranked if isinstance(ranked, Exception) else ranked[n]
    return found


def _together(model: Model, kind: str, requests: Sequence[Predict]) -> list[Ranked | Exception]:
    """Answers to requests of one score kind, by one search; an exception is that to a request that failed."""
    texts = [text for request in requests for text in request.texts]
    k = max(request.k for request in requests)
    top, first = model.rank_with_rivals(Texts.by_field(texts, model.fields), k, kind=kind)
    answers, start = [], 0
    for request in requests:
        here = slice(start, start := start + len(request.texts))
        own = TopK(top.ids[here], top.scores[here])
        answers.append(_caught(_answer, model, kind, request, own, first[here]))
    return answers


def _alone(snapshot: Snapshot, job: Job) -> Any:
    """The answer to a job that is not searched with others."""
    if not isinstance(job, Predict):
        return job(snapshot)
    excluded, kind = set(job.excluded), snapshot.scorer(job.kind).name
    texts = Texts.by_field(job.texts, snapshot.fields)
    vectors, rejected = snapshot.encode(texts), snapshot.rejected(texts)
    if job.allowed is None:
        given = csr_of_lists([_rows(snapshot, excluded).tolist()] * len(job.texts), len(snapshot))
        exclude = either(given, rejected)
        top = snapshot.search(vectors, job.k, kind=kind, exclude=exclude)
    else:
        rows = _rows(snapshot, set(job.allowed) - excluded)
        exclude = None if rejected is None else CSR(rejected[:, rows])
        top = snapshot.among(rows, kind).search(vectors, job.k, exclude=exclude)
        top = TopK(np.append(rows, -1)[top.ids], top.scores)
    first = snapshot.search(vectors, RIVALS, kind=kind).scores if job.calibrated else None
    return _answer(snapshot, kind, job, top, first)


def _answer(model: Model, kind: str, request: Predict, top: TopK, first: FloatArray | None) -> Ranked:
    """The answer of some ranked labels; ``first`` has the highest scores of all, which probabilities are made of."""
    found, threshold, kept = model.named(top.first(request.k), kind, first=first), request.threshold, None
    if request.precision is not None:
        kept = model.calibration(kind).at_precision(request.precision)
        threshold = kept.threshold
    found = found.above(threshold)
    labels = found.as_dicts(probabilities=request.calibrated)
    links = linked_nodes(model, request.texts) if request.explained and model.linked is not None else None
    return Ranked(kind, labels, _explained(model, kind, request, found.rows), links, kept)


def _rows(snapshot: Snapshot, uids: Collection[str]) -> IntArray:
    """The rows of the labels with some uids, ascending; those that are not there are left out."""
    return np.array(sorted(row for row in map(snapshot.find, uids) if row is not None), np.int64)


def _explained(model: Model, kind: str, request: Predict, rows: IntArray) -> list[list[Explained]] | None:
    """Why the labels in (n, k) rows were ranked, if that was asked."""
    if not request.explained:
        return None
    return [explain(model, text, row[row >= 0], kind) for text, row in zip(request.texts, rows, strict=True)]


def _caught(action: Callable[..., Any], *given: Any) -> Any:
    """What an action returns, or the exception that it raises."""
    try:
        return action(*given)
    except Exception as error:  # noqa: BLE001  (it is raised again where the request waits)
        return error
