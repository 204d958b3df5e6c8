"""Two trained bags of words for the same labels, as one that is as wide as both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch

from longtail.model.base import Model
from longtail.model.bundle import SEPARATOR, Bundle
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.heads import TwoHeads
from longtail.modules.table import Table
from longtail.text.bag import BagTokenizer
from longtail.topk import FloatArray


def side_by_side(*models: Bundle) -> Bundle | None:
    """The model whose vectors are those of n models side by side; None where they are no bags of words alone.

    A text's vector is (s_1, ..., s_n) / |(s_1, ..., s_n)|, with s the sums of each table over its features: nearly
    (x_1, ..., x_n) / sqrt(n), whose cosines are the mean of all. Classifiers are (w_1, ..., w_n) / sqrt(n), with the
    mean bias, so that their scores are the mean, too. What each drew by lot, the start of its table above all, averages
    out. Nothing is drawn for separators, so that those of the last one that has some are kept.

    Args:
        models: of the same recipe, two at least. The tokeniser of the last one is kept; features that it does not know
            are left out.
    """
    if not all(is_bag(model) for model in models):
        return None
    last, encoders = models[-1], [cast("BagEncoder", model.encoder) for model in models]
    known = [encoder.tokenizer for encoder in encoders]
    encoder = encoders[-1].with_table(_joined([encoder.table for encoder in encoders], known, known[-1]))
    kinds = [kind for kind in last.vectors if kind != SEPARATOR]
    vectors = {kind: _beside([model.vectors[kind] for model in models], encoders[-1].width) for kind in kinds}
    heads, views = None, [model.heads for model in models if isinstance(model.heads, TwoHeads)]
    if views:
        table = _joined([view.table for view in views if view.table is not None], known, known[-1])
        heads = TwoHeads(encoder, table=table, generator=torch.Generator())
        separated = [
            (view.separators, tokenizer, model.vectors[SEPARATOR])
            for view, tokenizer, model in zip(views, known, models, strict=True)
            if view.separators is not None
        ]
        if separated:
            rows, tokenizer, vectors[SEPARATOR] = separated[-1]
            heads.separators = _joined([rows], [tokenizer], known[-1])
    both = replace(last, encoder=encoder, heads=heads, vectors=vectors)
    return replace(both, vectors={**both.vectors, "encoder": both.of_labels(both.labels)})


def is_bag(model: Model) -> bool:
    """Whether a model's one encoder is a bag of words, so that another one can be put beside it."""
    if not isinstance(model, Bundle):
        return False
    own_view = model.heads is None or (isinstance(model.heads, TwoHeads) and model.heads.table is not None)
    return isinstance(model.encoder, BagEncoder) and model.linked is None and own_view


def _joined(tables: Sequence[Table], known: Sequence[BagTokenizer], last: BagTokenizer) -> Table:
    """The rows of all beside each other, over the features that a tokeniser knows; 0 for what another does not."""
    names, device = last.features, tables[-1].weight.device
    joined = np.zeros((len(names), sum(table.width for table in tables)), np.float32)
    start = 0
    for table, tokenizer in zip(tables, known, strict=True):
        at = {name: i for i, name in enumerate(tokenizer.features)}
        pairs = np.asarray([(i, at[name]) for i, name in enumerate(names) if name in at], np.int64).reshape(-1, 2)
        joined[pairs[:, 0], start : start + table.width] = table.export()[pairs[:, 1]]
        start += table.width
    return Table(torch.from_numpy(joined).to(device))


def _beside(vectors: Sequence[FloatArray], width: int) -> FloatArray:
    """Label vectors beside each other, with the mean of their biases."""
    both = np.concatenate([w[:, :width] for w in vectors], axis=1) * np.float32(len(vectors) ** -0.5)
    return np.concatenate([both, np.mean([w[:, width:] for w in vectors], axis=0)], axis=1)
