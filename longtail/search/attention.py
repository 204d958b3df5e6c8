"""Labels that attend to the words of a text, each by itself: how such a label is scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from longtail.data.sparse import CSR
from longtail.topk import FloatArray


@dataclass(frozen=True, slots=True)
class Attention:
    """A text is a sequence of states, and what a label reads of it is their mean, weighed by the label.

    With k_t the keys of a text, v_t its values and a label's vector (a, b), the score is sum(relu(m[:V / 2])) -
    sum(relu(m[V / 2:])) + b, where m = sum_t softmax_t(<k_t, a>) v_t. A text without states has m = 0. Source:
    AttentionXML (You et al., 2019): k_t is a state, and v_t the same times the weights of the fully connected layer.
    Those of the output layer are 1 and -1 here: any others are in v_t, as relu(c x) = c relu(x) for c > 0.

    Attributes:
        keys: E, the width of a key, and of a label's vector before its bias. The first E columns of a text are its own
            vector; then come T times a key and a value, zeros where the text has fewer states.
        values: V, the width of a value, an even number.
    """

    keys: int
    values: int

    def scores(self, pairs: CSR, texts: FloatArray, vectors: FloatArray) -> FloatArray:
        """Of some pairs of a text and a label, (nnz,), in their order.

        Args:
            pairs: (Q, M) those that are stored.
            texts: (Q, D) rows of encoded texts, a 1 at the end of each.
            vectors: (M, E + 1) of labels.
        """
        found = np.empty(pairs.nnz, np.float32)
        for row, text in enumerate(texts):
            some = slice(pairs.indptr[row], pairs.indptr[row + 1])
            found[some] = self._of(text, vectors[pairs.indices[some]])
        return found

    def _of(self, text: FloatArray, vectors: FloatArray) -> FloatArray:
        """Of one text, (D,), and M labels, (M, E + 1)."""
        states = text[self.keys : -1].reshape(-1, self.keys + self.values)
        states = states[states.any(1)]  # (t, E + V)
        if not len(states):
            return vectors[:, -1]
        weights = softmax(vectors[:, :-1] @ states[:, : self.keys].T, axis=1)  # (M, t)
        m = np.maximum(weights @ states[:, self.keys :], 0)  # (M, V)
        half = self.values // 2
        read: FloatArray = m[:, :half].sum(1) - m[:, half:].sum(1) + vectors[:, -1]
        return read
