"""The uids of labels: what people call them by."""

from __future__ import annotations

import numpy as np

from longtail.data.texts import Strings, Texts
from longtail.topk import IntArray


def with_uids(labels: Texts, ids: IntArray) -> Texts:
    """The same labels, where one without a uid is known by its id as text.

    Where another label has that for a uid, a # goes before it, or as many as it takes.

    Args:
        labels: L texts.
        ids: (L,) their stable ids.
    """
    if (np.diff(labels.uids.offsets) > 0).all():
        return labels
    taken = set(labels.uids)
    uids = (uid or _free(str(i), taken) for uid, i in zip(labels.uids, ids.tolist(), strict=True))
    return Texts(Strings.of(uids), labels.fields)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"#{name}"
    return name
