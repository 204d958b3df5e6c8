from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest

from longtail.data.sparse import csr_of_lists, row_blocks
from longtail.errors import BadInput
from longtail.metrics import label_errors as module
from longtail.metrics.label_errors import Confusion, confusions, label_errors
from longtail.metrics.places import place
from longtail.topk import TopK


def top_of(ids: list[list[int]]) -> TopK:
    array = np.array(ids, np.int64)
    return TopK(array, np.where(array < 0, -np.inf, -np.arange(array.shape[1])).astype(np.float32))


TOP = top_of([[0, 1, 2], [1, 0, 2], [1, 2, 0], [3, -1, -1], [2, 1, 0]])
PAIRS = place(TOP, csr_of_lists([[0], [0], [0, 3], [], [2]], 5))


def test_errors_by_hand() -> None:
    found = label_errors(PAIRS, 1)
    assert found.true.tolist() == [3, 0, 1, 1, 0]
    assert found.found.tolist() == [1, 0, 1, 0, 0]
    assert found.given.tolist() == [1, 2, 2, 0, 0]
    assert found.in_place.tolist() == [1, 0, 1, 0, 0]
    np.testing.assert_array_equal(found.typical, [2, np.nan, 1, np.inf, np.nan])
    np.testing.assert_array_equal(found.best, [1, np.nan, 1, np.inf, np.nan])
    assert found.never_found.tolist() == [3]
    assert label_errors(PAIRS, 3).found.tolist() == [3, 0, 1, 0, 0]


def test_confusions_by_hand() -> None:
    assert confusions(PAIRS, 9) == [
        Confusion(0, 1, 2, 1),
        Confusion(3, 1, 1, 2),
        Confusion(3, 2, 1, 2),
        Confusion(0, 2, 1, 2),
    ]
    assert confusions(PAIRS, 1) == [Confusion(0, 1, 2, 1)]


@pytest.mark.parametrize("seed", [0, 1])
def test_all_is_as_document_by_document(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "row_blocks", partial(row_blocks, operations=5))  # many blocks
    generator = np.random.default_rng(seed)
    n, L, K = 60, 12, 6
    ids = generator.permuted(np.tile(np.arange(L), (n, 1)), axis=1)[:, :K]
    truth = [sorted(set(generator.integers(0, L, generator.integers(0, 4)).tolist())) for _ in range(n)]
    counted: Counter[tuple[int, int]] = Counter()
    first, given, ranks = {}, Counter[int](), [[] for _ in range(L)]
    for row, (ranked, labels) in enumerate(zip(ids.tolist(), truth, strict=True)):
        in_place = ranked[: len(labels)]
        given.update(in_place)
        for missed in set(labels) - set(in_place):
            for wrong in set(in_place) - set(labels):
                counted[missed, wrong] += 1
                first.setdefault((missed, wrong), row)
        for label in labels:
            ranks[label].append(ranked.index(label) + 1 if label in ranked else np.inf)
    pairs = place(top_of(ids.tolist()), csr_of_lists(truth, L))
    found = confusions(pairs, L * L)
    assert {(one.missed, one.predicted): (one.documents, one.example) for one in found} == {
        pair: (count, first[pair]) for pair, count in counted.items()
    }
    assert [one.documents for one in found] == sorted(counted.values(), reverse=True)
    assert confusions(pairs, 7) == found[:7]
    errors = label_errors(pairs, 3)
    assert errors.given.tolist() == [given[label] for label in range(L)]
    for label, of in enumerate(ranks):
        assert errors.typical[label] == sorted(of)[(len(of) - 1) // 2]
        assert errors.best[label] == min(of)
        assert errors.found[label] == sum(rank <= 3 for rank in of)


def test_labels_are_found_too_often_where_it_is_no_chance() -> None:
    ids = [[0]] * 8 + [[1]] * 2 + [[2]] * 5
    truth = [[3]] * 7 + [[0]] + [[3]] * 2 + [[2]] * 5
    found = label_errors(place(top_of(ids), csr_of_lists(truth, 4)), 1)
    assert found.too_often.tolist() == [0]  # not 1: twice is little; not 2: all right
    assert found.never_found.tolist() == [3]


@pytest.mark.parametrize("k", [0, 4])
def test_a_cut_off_must_be_within_the_ranking(k: int) -> None:
    with pytest.raises(BadInput, match="expected 1 to 3 labels"):
        label_errors(PAIRS, k)
