"""Hard negatives: labels that the current model ranks high for a document, and that are wrong."""

from __future__ import annotations

import numpy as np
import torch

from longtail.topk import IntArray


class Mined:
    """A list of wrong labels for each document, renewed now and then; some of it goes into every pool.

    It starts empty. Whoever renews it searches the current label vectors and leaves true and filtered pairs out
    (`longtail.stages.refresh.mine`).

    Source: ANCE (Xiong et al., 2021), section 3; the thesis, section 2.3.2, where the list of a document is H_i and
    eta of it are drawn uniformly a step.

    Args:
        documents: N, how many there are.
        per_document: eta, how many labels of its list a document draws into the pool of a batch, with replacement.
    """

    def __init__(self, documents: int, per_document: int) -> None:
        self._per_document = per_document
        self._ids = np.zeros((documents, 0), np.int64)

    def renew(self, ids: IntArray) -> None:
        """Take new lists.

        Args:
            ids: (N, H) label ids, best first, -1 where a list is shorter; none may be true for its document.
        """
        self._ids = ids

    def lists(self, rows: IntArray) -> IntArray:
        """The whole lists of a batch, (B, H) label ids, -1 where a list is shorter."""
        return self._ids[rows]

    def __call__(self, rows: IntArray, generator: np.random.Generator) -> IntArray:
        """The hard negatives of a batch, (at most B * eta,) label ids, in any order and with repeats."""
        lists = self._ids[rows]  # (B, H)
        lengths = (lists >= 0).sum(1, keepdims=True)
        draws = generator.random((len(rows), self._per_document))
        places = (draws * lengths).astype(np.int64)  # (B, eta)
        some = lengths[:, 0] > 0
        return np.take_along_axis(lists[some], places[some], axis=1).ravel()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The lists, for a checkpoint."""
        return {"ids": torch.from_numpy(self._ids)}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take the lists back from a checkpoint."""
        self._ids = state["ids"].numpy()
