"""Two trained bags of words for the same labels, as one that is as wide as both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from longtail.model.bundle import Bundle
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.heads import TwoHeads
from longtail.modules.table import Table
from longtail.text.bag import BagTokenizer
from longtail.topk import FloatArray


def side_by_side(first: Bundle, second: Bundle) -> Bundle | None:
    """The model whose vectors are those of two models side by side; None where they are no bags of words alone.

    A text's vector is (s_1, s_2) / |(s_1, s_2)|, with s the sums of both tables over its features: nearly (x_1, x_2) /
    sqrt(2), whose cosines are the mean of both. Classifiers are (w_1, w_2) / sqrt(2), with the mean bias, so that their
    scores are the mean, too. What each drew by lot, the start of its table above all, averages out.

    Args:
        first: a model; features that the second does not know are left out.
        second: another of the same recipe, whose tokeniser is kept.
    """
    if not all(_is_bag(model) for model in (first, second)):
        return None
    one, other = first.encoder, second.encoder
    assert isinstance(one, BagEncoder)
    assert isinstance(other, BagEncoder)
    encoder = other.with_table(_joined(one.table, other.table, one.tokenizer, other.tokenizer))
    heads = None
    if isinstance(first.heads, TwoHeads) and isinstance(second.heads, TwoHeads):
        heads = TwoHeads(encoder, generator=torch.Generator())
        assert first.heads.table is not None
        assert second.heads.table is not None
        heads.table = _joined(first.heads.table, second.heads.table, one.tokenizer, other.tokenizer)
    both = replace(second, encoder=encoder, heads=heads, vectors=_vectors(first.vectors, second.vectors, one.width))
    return replace(both, vectors={**both.vectors, "encoder": both.of_labels(both.labels)})


def _is_bag(model: Bundle) -> bool:
    own_view = model.heads is None or (isinstance(model.heads, TwoHeads) and model.heads.table is not None)
    return isinstance(model.encoder, BagEncoder) and model.linked is None and own_view


def _joined(one: Table, other: Table, known: BagTokenizer, features: BagTokenizer) -> Table:
    """The rows of both beside each other, over the features of the other; 0 for what the first does not know."""
    at = {name: i for i, name in enumerate(known.features)}
    pairs = [(i, at[name]) for i, name in enumerate(features.features) if name in at]
    rows, of_one = np.asarray(pairs, np.int64).reshape(-1, 2).T
    both = torch.zeros(len(other), one.width + other.width)
    both[rows, : one.width] = torch.from_numpy(one.export()[of_one])
    both[:, one.width :] = torch.from_numpy(other.export())
    return Table(both.to(other.weight.device))


def _vectors(one: Mapping[str, FloatArray], other: Mapping[str, FloatArray], width: int) -> dict[str, FloatArray]:
    """The label vectors of both beside each other, with the mean of their biases."""
    found = {}
    for kind in other:
        w, v = one[kind], other[kind]
        both = np.concatenate([w[:, :width], v[:, :width]], axis=1) * np.float32(0.5**0.5)
        found[kind] = np.concatenate([both, (w[:, width:] + v[:, width:]) / 2], axis=1)
    return found
