from __future__ import annotations

from dataclasses import replace

import numpy as np

from longtail.data.sparse import csr_of_lists
from longtail.metrics.annotations import SURE, Doubt, Unseen, doubts


def part_of(targets: list[list[int]], chances: list[dict[int, float]], L: int, frequency: list[int]) -> Unseen:
    """Documents with the chances of their ranked labels, highest first."""
    width = max(map(len, chances))
    ids, values = np.full((len(chances), width), -1), np.zeros((len(chances), width), np.float32)
    for row, of in enumerate(chances):
        for place, label in enumerate(sorted(of, key=lambda label: -of[label])):
            ids[row, place], values[row, place] = label, of[label]
    return Unseen(csr_of_lists(targets, L), ids, values, np.array(frequency))


def noisy(seed: int = 0) -> tuple[Unseen, set[tuple[int, int]], set[tuple[int, int]]]:
    """400 documents with one or two of 20 labels, of which labels 15 to 19 are never found; 5 % wrong, 5 % missing."""
    generator = np.random.default_rng(seed)
    n, L = 400, 20
    truth = [sorted(set(generator.integers(0, L, 2).tolist())) for _ in range(n)]
    given = [list(labels) for labels in truth]
    wrong, missing = set(), set()
    for row in generator.choice(n, 40, replace=False).tolist():
        if row % 2:
            gone = given[row].pop()
            missing.add((row, gone))
        else:
            label = next(int(i) for i in generator.permutation(15) if int(i) not in truth[row])
            given[row].append(label)
            wrong.add((row, label))
    chances = []
    for labels in truth:
        near = {int(i): float(generator.uniform(0, 0.05)) for i in generator.choice(L, 8, replace=False)}
        chances.append(near | {i: float(generator.uniform(0.5, 1)) for i in labels if i < 15})
    frequency = np.bincount(np.concatenate(given).astype(int), minlength=L)
    return part_of(list(map(sorted, given)), chances, L, frequency.tolist()), wrong, missing


def shares(found: list[Doubt], kind: str, truth: set[tuple[int, int]]) -> tuple[float, float]:
    """Precision and recall."""
    pairs = [(one.document, one.label) for one in found if one.kind == kind]
    hits = len(truth.intersection(pairs))
    return hits / max(1, len(pairs)), hits / len(truth)


def test_by_hand() -> None:
    # Label 0 is found where it is given, but in document 3; document 4 has it all but surely, and is not given it.
    chances = [{0: 0.9, 1: 0.1}, {0: 0.8}, {0: 0.9}, {1: 0.05}, {0: 0.95, 1: 0.3}]
    found = doubts([part_of([[0], [0], [0], [0], []], chances, 2, [4, 0])])
    mean = (0.9 + 0.8 + 0.9 + 0.0) / 4
    wrong, missing = found
    assert (wrong.kind, wrong.document, wrong.label, wrong.chance, wrong.rank) == ("wrong", 3, 0, 0.0, 0)
    np.testing.assert_allclose(wrong.typical, (0.9 + 0.8 + 0.9 + 2 * mean) / 5, rtol=1e-6)  # of the others
    assert (missing.kind, missing.document, missing.label, missing.rank) == ("missing", 4, 0, 1)
    np.testing.assert_allclose([missing.chance, missing.typical], [0.95, (4 * mean + 2 * mean) / 6], rtol=1e-6)


def test_planted_doubts_are_found_and_what_a_model_cannot_know_is_not() -> None:
    part, wrong, missing = noisy()
    found = doubts([part])
    precision, recall = shares(found, "wrong", wrong)
    assert precision > 0.95
    assert recall > 0.75
    findable = {pair for pair in missing if pair[1] < 15}
    precision, recall = shares(found, "missing", findable)
    assert precision > 0.9
    assert recall > 0.4  # those above the mean of their label
    assert not [one for one in found if one.label >= 15]
    assert all(one.chance >= SURE for one in found if one.kind == "missing")


def test_shuffled_chances_find_nothing() -> None:
    part, wrong, missing = noisy()
    order = np.random.default_rng(1).permutation(len(part.ids))
    found = doubts([replace(part, ids=part.ids[order], chances=part.chances[order])])
    assert shares(found, "wrong", wrong)[1] < 0.2
    assert shares(found, "missing", missing)[0] < 0.2


def test_documents_may_be_asked_in_parts_and_are_listed_from_the_likeliest() -> None:
    part, _, _ = noisy()
    halves = [
        replace(part, targets=part.targets[rows], ids=part.ids[rows], chances=part.chances[rows])
        for rows in (np.arange(150), np.arange(150, 400))
    ]
    found = doubts([part])
    assert doubts(halves) == found
    wrong, missing = ([one for one in found if one.kind == kind] for kind in ("wrong", "missing"))
    assert found == wrong + missing
    assert [one.typical - one.chance for one in wrong] == sorted(one.typical - one.chance for one in wrong)[::-1]
    assert [one.chance for one in missing] == sorted(one.chance for one in missing)[::-1]


def test_documents_without_labels_and_rankings_without_labels() -> None:
    assert doubts([part_of([[], [0]], [{}, {}], 2, [1, 0])]) == []
