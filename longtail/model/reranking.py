"""What a cross-encoder says of the labels that another score ranks first: their order among themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse

from longtail.data.sparse import offsets_of
from longtail.data.texts import Texts
from longtail.modules.cross_encoder import CrossEncoder, logits_of
from longtail.search.fusion import by_frequency
from longtail.text.ragged import Ragged
from longtail.topk import Float64Array, FloatArray, IntArray, TopK, rank

Described: TypeAlias = Callable[[IntArray], "tuple[Texts, IntArray]"]  # rows of labels to texts and training points
_BLOCK = 256  # texts at a time
FIELD = "title"  # of a label, which is read: a saved model has no other


@dataclass(frozen=True, slots=True)
class Reranking:
    """Ranks the first labels of a search anew: score(x, l) = a_l s(x, l) + b_l t(x, l) + c_l.

    s is the score that they were found by, t the logit of a cross-encoder, and a, b and c depend on the training points
    of the label as the weights of a `longtail.search.fusion.Fusion` do. The labels behind the first ones keep their
    order behind them: their scores are as far below the lowest of these as s was below that of the last of these.

    The tokens of a document are columns of its vector, one more than their ids, and 0 behind the last.

    Attributes:
        encoder: the cross-encoder, on the device.
        weights: (3, F) float64, rows a, b and c.
        depth: labels that are ranked anew.
        columns: of an encoded text, those with tokens.
        described: reads texts and training points of labels.
        device: where the cross-encoder is.
    """

    encoder: CrossEncoder
    weights: Float64Array
    depth: int
    columns: slice | IntArray
    described: Described
    device: torch.device

    def among(self, rows: IntArray) -> Reranking:
        """The same for the labels in some rows alone, in their order."""
        return replace(self, described=lambda places: self.described(rows[places]))

    def __call__(self, vectors: Any, top: TopK, k: int) -> TopK:
        """The k best labels of n texts.

        Args:
            vectors: of the texts, as they were encoded.
            top: (n, C) labels by the score that finds them, those to be ranked anew first.
            k: at most C.
        """
        return self.anew(top, *self.logits(vectors, top.ids[:, : self.depth]), k)

    def anew(self, top: TopK, logits: FloatArray, frequency: IntArray, k: int) -> TopK:
        """The same, of what `logits` says of the first labels."""
        first = top.first(self.depth)
        found = np.where(first.ids < 0, 0, first.scores)
        a, b, c = by_frequency(self.weights, frequency)  # (n, depth) each
        best = rank(first.ids, (a * found + b * logits + c).astype(np.float32), first.k)
        if k <= self.depth or top.k <= self.depth:
            return best.first(k)
        there = top.ids[:, self.depth :] >= 0
        drop = np.where(there, top.scores[:, self.depth :], 0) - found[:, -1:]
        behind = np.where(there, best.scores[:, -1:] + drop, -np.inf).astype(np.float32)
        ids = np.concatenate([best.ids, top.ids[:, self.depth :]], axis=1)
        return TopK(ids, np.concatenate([best.scores, behind], axis=1)).first(k)

    def logits(self, vectors: Any, ids: IntArray) -> tuple[FloatArray, IntArray]:
        """What the cross-encoder says of (n, C) labels of n texts, (n, C) float32, and their training points.

        Both are 0 where an id is -1.
        """
        logits, frequency = np.zeros(ids.shape, np.float32), np.zeros(ids.shape, np.int64)
        for start in range(0, len(ids), _BLOCK):
            block = slice(start, start + _BLOCK)
            there = ids[block] >= 0
            labels, which = np.unique(ids[block][there], return_inverse=True)
            if not len(labels):
                continue
            texts, points = self.described(labels)
            tokens = self.encoder.tokenizer(texts.joined([FIELD])).take(which)
            documents = _tokens_of(vectors[block, self.columns]).take(there.nonzero()[0])
            logits[block][there] = logits_of(self.encoder, documents, tokens, device=self.device)
            frequency[block][there] = points[which]
        return logits, frequency


def columns_of(table: Ragged, width: int) -> FloatArray:
    """The tokens of n texts as (n, width) float32: one more than each id, and 0 behind the last."""
    lengths = np.diff(table.offsets)
    columns = np.zeros((len(table), width), np.float32)  # which holds every whole number below 2^24
    columns[np.arange(width) < lengths[:, None]] = table.ids + 1
    return columns


def _tokens_of(columns: Any) -> Ragged:
    """What `columns_of` made columns of; of a model without an encoder, these are sparse."""
    dense = np.asarray(columns.toarray() if sparse.issparse(columns) else columns)
    there = dense > 0
    return Ragged((dense[there] - 1).astype(np.int32), offsets_of(there.sum(1)), np.zeros(0, np.float32))
