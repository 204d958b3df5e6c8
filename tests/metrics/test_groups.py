"""Groups of documents: hand cases, bins of numbers, columns, and a twin that measures each group by itself."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.metrics.groups import (
    Groups,
    by_group,
    groups_of,
    groups_of_numbers,
    groups_of_texts,
    numbers_in,
    rarest_words,
)
from longtail.metrics.places import place
from longtail.metrics.ranking import metrics_of, score
from longtail.topk import TopK

TITLES = ("red apple", "a red, RED pear", "")
TEST = Split(
    Texts(Strings.of(["", "", ""]), {"title": Strings.of(TITLES), "market": Strings.of(["de", "fr", "de"])}),
    csr_of_lists([[0, 1], [1, 2, 4], []], 5),
)
TRAIN = Split(Texts.of(["red apple", "red plum", "the pear"]), csr_of_lists([[0], [1], [2]], 5))
DATASET = Dataset("hand", TRAIN, Texts.of(list("abcde")), TEST)
TOP = TopK(np.array([[0, 3, 1], [4, 0, -1], [2, 1, 0]]), np.zeros((3, 3), np.float32))


def grouped(asked: str) -> dict[str, list[int]]:
    """The documents of each group."""
    groups = groups_of(asked, TEST, DATASET, ("title",))
    return {name: np.flatnonzero(groups.of_document == g).tolist() for g, name in enumerate(groups.names)}


def test_built_in_groups_and_columns_by_hand() -> None:
    assert grouped("length") == {"0": [2], "2": [0], "4": [1]}
    assert grouped("labels") == {"0": [2], "2": [0], "3": [1]}
    assert grouped("market") == {"de": [0, 2], "fr": [1]}
    # "apple" is in one training document, "a" of the second text in none, and the third text has no word
    assert grouped("rarest-word") == {"0": [1], "1": [0], "(none)": [2]}
    np.testing.assert_array_equal(rarest_words(Texts.of(["red"]), TRAIN.documents, ("title",)), [2])


def test_the_worked_example_of_the_documentation() -> None:
    groups = groups_of("labels", TEST, None, ("title",))
    found = by_group({"fused": score(place(TOP, TEST.targets), ks=(1, 3))}, groups)
    assert [(group.name, group.documents) for group in found] == [("0", 1), ("2", 1), ("3", 1)]
    values = [group.metrics["fused"]["P@3"].value for group in found]
    assert values == pytest.approx([0, 200 / 3, 100 / 3])
    assert [group.metrics["fused"]["R@3"].value for group in found] == pytest.approx([0, 100, 100 / 3])
    assert not any(name.startswith(("C@", "macro")) for name in found[0].metrics["fused"]), "they are of labels"
    market = by_group({"fused": score(place(TOP, TEST.targets), ks=(1, 3))}, groups_of("market", TEST, None, ()))
    assert market[0].metrics["fused"]["P@1"].value == pytest.approx(50)
    low, high = market[0].metrics["fused"]["P@1"].low, market[0].metrics["fused"]["P@1"].high
    assert (low, high) == (0, 100), "of two documents, one right"


def test_a_group_is_worth_what_its_documents_are_worth_by_themselves() -> None:
    generator = np.random.default_rng(0)
    n, L = 80, 30
    truth = [generator.choice(L, generator.integers(0, 5), replace=False).tolist() for _ in range(n)]
    top = TopK(np.stack([generator.permutation(L)[:6] for _ in range(n)]), np.zeros((n, 6), np.float32))
    targets, weights = csr_of_lists(truth, L), 1 + 9 * generator.random(L)
    groups = Groups(("x", "y", "z"), generator.integers(0, 3, n))
    found = by_group({"k": score(place(top, targets).weighted(weights), ks=(1, 5), inverse_propensity=weights)}, groups)
    for g, group in enumerate(found):
        rows = np.flatnonzero(groups.of_document == g)
        alone = metrics_of(TopK(top.ids[rows], top.scores[rows]), targets[rows], ks=(1, 5), inverse_propensity=weights)
        for name, it in group.metrics["k"].items():
            assert it.value == pytest.approx(alone[name]), name
            assert it.low <= it.value <= it.high
        assert {"P@1", "nDCG@5", "PSP@5", "R@5", "microF1@5"} <= group.metrics["k"].keys()


def test_numbers_are_in_bins_of_as_many_documents_and_equal_ones_together() -> None:
    groups = groups_of_numbers(np.arange(1, 101).astype(float))
    assert groups.names == ("1 to 20", "21 to 40", "41 to 60", "61 to 80", "81 to 100")
    assert np.bincount(groups.of_document).tolist() == [20] * 5
    many = groups_of_numbers(np.array([1.0] * 70 + [2, 3, 4, 5, 6, 7] * 5), bins=5)
    assert many.names == ("1", "2", "3 to 4", "5", "6 to 7")
    few = groups_of_numbers(np.array([3, np.nan, 1500.5, 3, 3, 3, 3]))
    assert few.names == ("3", "1,500.5", "(none)")
    assert few.of_document.tolist() == [0, 2, 1, 0, 0, 0, 0]
    generator = np.random.default_rng(1)
    for _ in range(50):
        values = generator.integers(0, generator.integers(1, 40), generator.integers(1, 60)).astype(float)
        found = groups_of_numbers(values, bins=4)
        assert len(found.names) <= 4
        assert (np.bincount(found.of_document, minlength=len(found.names)) > 0).all(), "no group is empty"
        order = np.argsort(values, kind="stable")
        assert (np.diff(found.of_document[order]) >= 0).all()
        assert all(len({*found.of_document[values == value]}) == 1 for value in values)


def test_columns_of_texts_have_a_group_a_value_and_the_smallest_are_one() -> None:
    groups = groups_of_texts(Strings.of(["b", "a", "", "b", "a", "c"]))
    assert groups.names == ("a", "b", "c", "(none)")
    assert groups.of_document.tolist() == [1, 0, 3, 1, 0, 2]
    many = groups_of_texts(Strings.of([f"m{i:02}" for i in range(20) for _ in range(20 - i)]))
    assert many.names == (*(f"m{i:02}" for i in range(11)), "(others)")
    assert np.bincount(many.of_document).tolist() == [*range(20, 9, -1), sum(range(1, 10))]


def test_a_value_that_is_called_as_a_group_of_ours_is_a_group_by_itself() -> None:
    groups = groups_of_texts(Strings.of(["(none)", "", "a", '"(none)"', "(none)"]))
    assert groups.names == ('"(none)"', '""(none)""', "a", "(none)")
    assert groups.of_document.tolist() == [0, 3, 2, 1, 0]
    many = groups_of_texts(Strings.of(["(others)", "(others)", *map(str, range(20))]))
    assert many.names[0] == '"(others)"'
    assert many.names[-1] == "(others)"
    assert len({*many.names}) == len(many.names) == 12


def test_a_column_is_one_of_numbers_where_all_of_its_values_are() -> None:
    np.testing.assert_array_equal(numbers_in(Strings.of(["1", "", "2.5e3"])), [1, np.nan, 2500])
    np.testing.assert_array_equal(numbers_in(Strings.of([" -1 ", "+.5E-1"])), [-1, 0.05])
    for texts in (["1", "x"], ["1", "nan"], ["inf"], ["", ""], ["1_0"], ["1", "\uff12"], ["\u0663"]):
        assert numbers_in(Strings.of(texts)) is None, texts


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("mrket", "by: expected a column of the test documents, found mrket; there are no further columns"),
        ("title", "found title"),
        ("length:bins=1", "expected at least 2 bins, found 1"),
        ("length:bin=3", "expected one of the options bins, found 'bin'"),
    ],
)
def test_what_cannot_be_grouped_by_is_refused(asked: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        groups_of(asked, TEST, DATASET, ("title",))


def test_rare_words_need_training_documents() -> None:
    with pytest.raises(BadInput, match="expected a data set for rarest-word, found a split"):
        groups_of("rarest-word", TEST, None, ("title",))
