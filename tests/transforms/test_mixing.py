"""Mixed rows and near words: shares by hand, and words that keep the same company."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.errors import BadInput
from longtail.transforms import augmented, mixing
from longtail.transforms.mixing import near_words

DOCUMENTS = ["a b c d e f g h i j", "k l m n o p q r s t", "u"]
LABELS = ["A B C D E F G H I J", "K", "L"]


@pytest.fixture
def letters() -> Dataset:
    return Dataset.from_texts(DOCUMENTS, [[0], [0, 1], [2]], LABELS)


def fixed_shares(monkeypatch: pytest.MonkeyPatch, shares: list[float]) -> None:
    plain = mixing._shares
    monkeypatch.setattr(mixing, "_shares", lambda *arguments: (plain(*arguments)[0], np.float32(shares)))


def test_mixup_mixes_words_and_labels_by_the_same_share(letters: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_shares(monkeypatch, [0.7, 0.2, 0.5])
    rows = augmented(letters, "mixup", seed=1).train
    assert len(rows) == 6
    targets = letters.train.targets.toarray()
    for i, share in enumerate([0.7, 0.2, 0.5]):
        words = rows.documents.fields["title"][3 + i].split()
        own = [word for word in words if word in DOCUMENTS[i].split()]
        (other,) = (j for j in range(3) if words[-1] in DOCUMENTS[j].split())
        if other != i:
            assert words == own + [word for word in words if word in DOCUMENTS[other].split()]
            assert own == sorted(own)  # in the order of the text
            assert len(own) == max(1, round(share * len(DOCUMENTS[i].split())))
            assert len(words) - len(own) == max(1, round((1 - share) * len(DOCUMENTS[other].split())))
        expected = share * targets[i] + (1 - share) * targets[other]
        np.testing.assert_allclose(rows.targets[[3 + i]].toarray()[0], expected, rtol=1e-6)


def test_label_mixup_mixes_with_a_label_and_its_own_target(letters: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_shares(monkeypatch, [0.7, 0.2, 0.5])
    for seed in range(5):
        rows = augmented(letters, "label_mixup", seed=seed).train
        for i, share in enumerate([0.7, 0.2, 0.5]):
            last = rows.documents.fields["title"][3 + i].split()[-1]
            label = next(j for j in range(3) if last in LABELS[j].split())
            expected = share * letters.train.targets.toarray()[i]
            expected[label] += 1 - share
            np.testing.assert_allclose(rows.targets[[3 + i]].toarray()[0], expected, rtol=1e-6)


def test_shares_follow_the_beta_distribution() -> None:
    _, shares = mixing._shares(20_000, 0.4, 0)
    assert abs(shares.mean() - 0.5) < 0.01
    assert abs(shares.var() - 1 / (4 * (2 * 0.4 + 1))) < 0.003


def test_a_share_of_nothing_leaves_no_target() -> None:
    data = Dataset.from_texts(["a b", "c d"], [[0], [1]], ["x", "y"])
    matrix = mixing._scaled(data.train.targets, np.float32([0, 1]))
    assert matrix.toarray().tolist() == [[0, 0], [0, 1]]


COMPANY = ["cat", "dog", "cup", "mug"]
FRIENDS = {"cat": "fur", "dog": "fur", "cup": "tea", "mug": "tea"}


def company(seed: int) -> list[str]:
    """Cats and dogs are never in one text, but keep the same company; so do cups and mugs."""
    rng = np.random.default_rng(seed)
    extras = {"fur": ["paw", "tail", "vet"], "tea": ["milk", "hot", "pot"]}
    return [
        " ".join([word, FRIENDS[word], *rng.choice(extras[FRIENDS[word]], 2, replace=False)])
        for word in rng.choice(COMPANY, 400)
    ]


def test_near_words_keep_the_same_company() -> None:
    near = near_words(company(0), similarity=0.5, width=4)
    assert near["cat"] in {"dog", "fur", "paw", "tail", "vet"}
    vectors = {word: near[word] for word in COMPANY}
    assert {vectors["cup"], vectors["mug"]} <= {"cup", "mug", "tea", "milk", "hot", "pot"}
    assert near_words(company(0), similarity=1.1) == {}
    assert near_words(["a b", "a b"], similarity=0.5) == {}  # two words are too few


def test_synonyms_replace_words_by_near_ones_and_keep_the_labels() -> None:
    texts = company(1)
    data = Dataset.from_texts(texts, [[i % 3] for i in range(len(texts))], ["x", "y", "z"])
    near = near_words([*texts, "x", "y", "z"], similarity=0.4)
    for share in (0.0, 0.3, 1.0):
        rows = augmented(data, f"synonyms:share={share}:similarity=0.4", seed=0).train
        made = list(rows.documents.fields["title"])[400:]
        pairs = [
            (old, new) for a, b in zip(texts, made, strict=True) for old, new in zip(a.split(), b.split(), strict=True)
        ]
        replaced = np.array([old != new for old, new in pairs])
        assert all(new == near[old] for old, new in pairs if old != new)
        able = np.array([old in near for old, _ in pairs])
        assert abs(replaced[able].mean() - share) < 0.05
        np.testing.assert_array_equal(rows.targets[400:].toarray(), data.train.targets.toarray())


@pytest.mark.parametrize(
    ("augment", "message"),
    [
        ("mixup:alpha=0", "alpha: expected a number above 0, found 0"),
        ("synonyms:share=1.5", "expected share and similarity of at most 1, found 1.5 and 0.6"),
    ],
)
def test_what_is_refused(letters: Dataset, augment: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        augmented(letters, augment, seed=0)


@pytest.mark.parametrize("augment", ["mixup", "label_mixup"])
def test_what_is_filtered_for_a_document_is_so_for_its_mixed_rows_unless_it_is_true(
    letters: Dataset, augment: str
) -> None:
    known = np.roll(np.eye(3), 1, axis=1)
    data = replace(letters, train=replace(letters.train, filtered=csr_of_lists([[1], [2], [0]], 3)))
    true, kept, dropped = letters.train.targets.toarray() > 0, 0, 0
    for seed in range(5):
        rows = augmented(data, augment, seed=seed).train
        for i in range(3):
            last = rows.documents.fields["title"][3 + i].split()[-1]
            either = known[i] > 0
            if augment == "mixup":
                (other,) = (j for j in range(3) if last in DOCUMENTS[j].split())
                either |= known[other] > 0
                mixed = true[i] | true[other]
            else:
                mixed = true[i] | np.array([last in label.split() for label in LABELS])
            np.testing.assert_array_equal(rows.filtered.toarray()[3 + i] > 0, either & ~mixed)
            kept, dropped = kept + (either & ~mixed).sum(), dropped + (either & mixed).sum()
    assert kept
    assert dropped


def test_rows_of_data_without_a_filter_have_none(letters: Dataset) -> None:
    assert augmented(letters, "mixup", seed=0).train.filtered is None
