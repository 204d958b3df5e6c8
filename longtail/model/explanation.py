"""Why a label was ranked: its score of each kind, what each word of the text adds to it, and documents that have it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.model.base import Model
from longtail.modules.encoders.base import embed
from longtail.search.keys import keys_of
from longtail.search.remembering import Near
from longtail.text.tokens import token_table
from longtail.topk import FloatArray, IntArray, TopK

WORDS = 64  # words of a text that are explained; the rest counts as one more
NEAR, NAMED = 5, 10  # documents that have a label; labels for which they are looked up, each by a pass over all


class Explained(NamedTuple):
    """Why a label was ranked.

    Attributes:
        scores: of the label by score kind.
        words: of the title in order, each with the score that the label loses without it (below 0: that it gains).
        near: documents that the model remembers with the label, those nearest to the text first; None where it
            remembers none, and for labels behind the first ten.
    """

    scores: dict[str, float]
    words: list[tuple[str, float]]
    near: list[Near] | None


def explain(model: Model, text: Mapping[str, str], rows: IntArray, kind: str | None = None) -> list[Explained]:
    """Explain ranked labels of one text, by leaving out each word of the title in turn.

    Args:
        model: that ranked them.
        text: by field.
        rows: (m,) the rows of the labels in the model.
        kind: the score kind that the words explain; the best one if left out.
    """
    pieces = _pieces(text.get("title", ""))
    titles = [" ".join(pieces)] + [" ".join(pieces[:i] + pieces[i + 1 :]) for i in range(len(pieces))]
    shorter = [{**text, "title": title} for title in titles]
    vectors = model.encode(Texts.by_field(shorter, model.fields))  # (1 + words, D)
    scores = _scores(model, rows, vectors, kind)  # (1 + words, m)
    whole = {name: _scores(model, rows, vectors[:1], name)[0].tolist() for name in model.kinds}
    near = _near(model, vectors[:1], rows)
    return [
        Explained({name: values[i] for name, values in whole.items()}, list(zip(pieces, lost, strict=True)), near[i])
        for i, lost in enumerate((scores[0] - scores[1:]).T.tolist())
    ]


def _near(model: Model, vector: FloatArray, rows: IntArray) -> list[list[Near] | None]:
    """For labels in some rows, the documents that have them and are near to a text, (1, width + 1)."""
    memory = next((scorer.memory for scorer in reversed(model.scorers) if scorer.memory is not None), None)
    if memory is None:
        return [None] * len(rows)
    (key,) = keys_of(vector, memory.columns)
    found = [memory.nearest_with(row, key, NEAR) for row in rows[:NAMED].tolist()]
    return [*found, *[None] * len(rows[NAMED:])]


class Node(NamedTuple):
    """A node that a document was linked to.

    Attributes:
        id: of the node, in [0, M).
        text: of the node.
        score: that the linker gave it.
        weight: that the combiner gave it; the weights of a document's nodes sum to 1, and to less where the linker is
            not sure of them. None where it has no weights.
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
    if model.linked is None:
        raise BadInput("explain", f"a model of {model.recipe} links no documents to nodes", remedy="leave it out")
    linked, texts, (encoder,) = model.linked, Texts.by_field(given, model.fields), model.encoders
    x = embed(encoder, token_table(texts, model.fields, encoder.tokenizer), device=model.device)
    top = linked.find(texts, x, encoder)
    weights = None if linked.enrichment is None else linked.weigh(x, top, linked.enrichment)[1]
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


def _scores(model: Model, rows: IntArray, vectors: FloatArray, kind: str | None) -> FloatArray:
    """(n, m) scores of the labels in m rows, in their order; 0 for a label that a search does not reach."""
    top: TopK = model.among(rows, kind).search(vectors, max(1, len(rows)))
    scores, there = np.zeros((vectors.shape[0], len(rows)), np.float32), top.ids >= 0
    scores[there.nonzero()[0], top.ids[there]] = top.scores[there]
    return scores
