"""Models that look for labels by fewer numbers than they rank by."""

from __future__ import annotations

import numpy as np

from longtail.data.texts import Texts
from longtail.model.base import Model
from longtail.model.bundle import Bundle
from longtail.model.reranker import Reranker
from longtail.search.narrow import Narrowing, narrowings
from longtail.topk import FloatArray

_ASKED = 100_000  # documents, and labels, that say what a narrower look is to keep, at most
_TRIED, _FIRST = 500, 5  # texts that say whether it does, by how much of their first labels it finds
_SAME, _STILL = 0.999, 0.99  # of documents that it was made for, and of labels that came since


def narrowed(model: Bundle, documents: Texts) -> Bundle:
    """A model that looks for labels by as few numbers as find what it ranks first; by all, where fewer do not.

    How much of the mean square of scores they must hold depends on the set: where all labels have much in common, as on
    sets with many labels a document, that is most of it, and says nothing of which one is ahead.

    Args:
        model: has a fusion.
        documents: texts as it will be asked about; some of them say what is found.
    """
    asked = model.encode(documents.take(_evenly(len(documents), _ASKED)))
    queries, table = model.queries(asked, "fused"), model.table("fused", _evenly(len(model.labels), _ASKED))
    tried = asked[_evenly(len(asked), _TRIED)]
    found = (
        less for narrow in narrowings(queries, table) if _finds(less := model.narrowed(narrow), model, tried) >= _SAME
    )
    return next(found, model)


def narrowing_of(model: Model) -> Narrowing | None:
    """By what a model, or the first stage of one that ranks anew, looks for labels; None where by all numbers."""
    model = model.first_stage if isinstance(model, Reranker) else model
    return model.narrow if isinstance(model, Bundle) else None


def still_narrowed(model: Model, narrow: Narrowing | None, added: int) -> Model:
    """A model whose labels have changed, looking as it did before, where that finds the labels of its labels' texts.

    Args:
        model: looks by all numbers.
        narrow: by which it looked, `narrowing_of` it.
        added: how many of its labels, the last ones, it did not have then.
    """
    if isinstance(model, Reranker):
        return model.on(still_narrowed(model.first_stage, narrow, added))
    if narrow is None or not isinstance(model, Bundle) or not len(model.labels):
        return model
    before = len(model.labels) - added
    some = np.concatenate([_evenly(before, _TRIED // 2), before + _evenly(added, _TRIED // 2)])
    less = model.narrowed(narrow)
    return less if _finds(less, model, model.encode(model.labels.take(some))) >= _STILL else model


def _finds(less: Bundle, model: Bundle, texts: FloatArray) -> float:
    """How much of what a model ranks first one that looks by less does, too, of encoded texts."""
    first, found = (one.search(texts, _FIRST, kind="fused").ids for one in (model, less))
    return float((first[:, :, None] == found[:, None]).any(2).mean())


def _evenly(count: int, most: int) -> np.ndarray:
    """At most about so many of some places."""
    return np.arange(count)[:: count // most + 1]
