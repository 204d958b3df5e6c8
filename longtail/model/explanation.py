"""Why a label was ranked: its score of each kind, and how much each word of the text adds to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.model import Bundle, Model
from longtail.model.segments import Label, View
from longtail.topk import FloatArray, TopK

WORDS = 64  # words of a text that are explained; the rest counts as one more


class Explained(NamedTuple):
    """Why a label was ranked.

    Attributes:
        scores: of the label by score kind.
        words: of the title in order, each with the score that the label loses without it (below 0: that it gains).
    """

    scores: dict[str, float]
    words: list[tuple[str, float]]


def explain(view: View, text: dict[str, str], ranked: Sequence[Label], kind: str) -> list[Explained]:
    """Explain ranked labels of one text, by leaving out each word of the title in turn.

    Args:
        view: where they were ranked.
        text: by field.
        ranked: its labels.
        kind: the score kind that the words explain.
    """
    labels = view.among(label.uid for label in ranked)
    place = {uid: i for i, uid in enumerate(labels.labels.uids)}
    order = [place[label.uid] for label in ranked if label.uid in place]
    pieces = _pieces(text.get("title", ""))
    titles = [" ".join(pieces)] + [" ".join(pieces[:i] + pieces[i + 1 :]) for i in range(len(pieces))]
    shorter = [{**text, "title": title} for title in titles]
    vectors = view.model.encode(Texts.by_field(shorter, view.model.fields))  # (1 + words, D)
    scores = _scores(labels, vectors, kind)[:, order]  # (1 + words, labels)
    whole = {name: _scores(labels, vectors[:1], name)[0, order].tolist() for name in labels.kinds}
    return [
        Explained({name: values[i] for name, values in whole.items()}, list(zip(pieces, lost, strict=True)))
        for i, lost in enumerate((scores[0] - scores[1:]).T.tolist())
    ]


class Node(NamedTuple):
    """A node that a document was linked to.

    Attributes:
        id: of the node, in [0, M).
        text: of the node.
        score: that the linker gave it.
        weight: that the combiner gave it; the weights of a document's nodes sum to 1. None where it has no weights.
    """

    id: int
    text: str
    score: float
    weight: float | None


def linked_nodes(model: Model, given: Sequence[Mapping[str, str]]) -> list[list[Node]]:
    """The nodes that enrich each of n texts, best first.

    Args:
        model: has a linker.
        given: the texts, each by field.

    Raises:
        BadInput: the model links no documents.
    """
    if not isinstance(model, Bundle) or model.linked is None:
        raise BadInput("--explain", f"a model of {model.recipe} links no documents to nodes", remedy="leave it out")
    linked, texts = model.linked, Texts.by_field(given, model.fields)
    x = model.queries(model.encode(texts, np.zeros((len(texts), 0), np.int64)), "plain")
    top = linked.find(texts, x, model.encoder)
    weights = None if linked.enrichment is None else linked.enrichment.enrich(x, top.ids)[1]
    titles = linked.linker.labels.fields["title"]
    return [
        [
            Node(node, titles[node], score, None if weights is None else float(weights[i, j]))
            for j, (node, score) in enumerate(zip(ids, scores, strict=True))
            if node >= 0
        ]
        for i, (ids, scores) in enumerate(zip(top.ids.tolist(), top.scores.tolist(), strict=True))
    ]


def _pieces(title: str) -> list[str]:
    words = re.findall(r"\S+", title)
    return words if len(words) <= WORDS else [*words[:WORDS], " ".join(words[WORDS:])]


def _scores(labels: Model, vectors: FloatArray, kind: str) -> FloatArray:
    """(n, m) scores of all m labels, in their order."""
    top: TopK = labels.search(vectors, max(1, len(labels.labels)), kind=kind)
    return np.asarray(np.take_along_axis(top.scores, np.argsort(top.ids, axis=1), axis=1), np.float32)
