"""Which filtered pairs say something of what goes with labels: the ways back, where some of them are true."""

from __future__ import annotations

from longtail.data.filters import identity_pairs
from longtail.data.sparse import CSR, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.stages.remembering import _ways_back_judged

LABELS = Texts.of(["a", "b", "c", "d"])
TRAIN = Split(Texts.of(["b", "c", "x"]), csr_of_lists([[0, 3], [0], [1]], 4))  # b and c name a, so a may name b and c


def judged(truth: list[list[int]], filtered: CSR | None) -> list[list[int]] | None:
    held_out = Split(Texts.of(["a", "y"]), csr_of_lists(truth, 4), filtered)
    found = _ways_back_judged(held_out, identity_pairs(held_out.documents, LABELS), TRAIN, LABELS).filtered
    return None if found is None else [row.nonzero()[0].tolist() for row in found.toarray()]


def test_a_way_back_that_is_not_true_is_wrong_where_another_is_true() -> None:
    filtered = csr_of_lists([[0, 2], [3]], 4)  # of document a: itself, and c; of the other one what somebody chose
    assert judged([[1, 3], [2]], filtered) == [[0], [3]]


def test_where_no_way_back_is_true_nobody_knows_which_would_be() -> None:
    filtered = csr_of_lists([[0, 1, 2], [3]], 4)
    assert judged([[3], [2]], filtered) == [[0, 1, 2], [3]]
    assert judged([[1, 3], [2]], None) is None
