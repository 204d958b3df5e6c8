"""Why a label was ranked: its score of each kind, and how much each word of the text adds to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from longtail.bundle import Bundle
from longtail.data.texts import Strings, Texts
from longtail.serve.parts import Label, View
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
    columns = {
        name: Strings.of(titles if name == "title" else [text.get(name, "")] * len(titles))
        for name in view.model.fields
    }
    vectors = view.model.encode(Texts(Strings.of([""] * len(titles)), columns))  # (1 + words, D)
    scores = _scores(labels, vectors, kind)[:, order]  # (1 + words, labels)
    whole = {name: _scores(labels, vectors[:1], name)[0, order].tolist() for name in labels.kinds}
    return [
        Explained({name: values[i] for name, values in whole.items()}, list(zip(pieces, lost, strict=True)))
        for i, lost in enumerate((scores[0] - scores[1:]).T.tolist())
    ]


def _pieces(title: str) -> list[str]:
    words = re.findall(r"\S+", title)
    return words if len(words) <= WORDS else [*words[:WORDS], " ".join(words[WORDS:])]


def _scores(labels: Bundle, vectors: FloatArray, kind: str) -> FloatArray:
    """(n, m) scores of all m labels, in their order."""
    top: TopK = labels.search(vectors, max(1, len(labels.labels)), kind=kind)
    return np.asarray(np.take_along_axis(top.scores, np.argsort(top.ids, axis=1), axis=1), np.float32)
