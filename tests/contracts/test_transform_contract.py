"""What holds for every transform: each row of the table, and one from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput
from longtail.recipes import dpr
from longtail.testing.planted import planted
from longtail.transforms import TRANSFORMS, augmented
from longtail.transforms.base import TransformKind

DOCUMENTS = ["red apple", "green pear", "blue plum", "red pear", "old plum"]
TARGETS = [[0, 1], [0, 1], [0], [0, 2], []]
LABELS = ["apple", "pear", "plum", "quince"]


def doubled(dataset: Dataset, *, seed: int, copies: int = 1, of: Literal["all", "first"] = "all") -> Dataset:
    """A toy from outside: rows that repeat documents."""
    some = np.arange(len(dataset.train) if of == "all" else 1)
    drawn = np.random.default_rng(seed).permutation(np.repeat(some, copies))
    return dataset.with_rows(replace(dataset.train.take(drawn), filtered=None))


@pytest.fixture(params=[*TRANSFORMS, "doubled"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(TRANSFORMS, "doubled", TransformKind(doubled, "documents twice"))
    return request.param


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a run, for a transform that learns from one."""
    out = tmp_path_factory.mktemp("teacher") / "run"
    dpr(planted(0, documents=100, labels=30).dataset, out=out, epochs=1, width=16)
    return str(out)


@pytest.fixture
def asked(name: str, request: pytest.FixtureRequest) -> str:
    """A transform with the options that it has to be given."""
    return f"lever:run={request.getfixturevalue('teacher')}" if name == "lever" else name


@pytest.fixture
def fruit() -> Dataset:
    """Label 0 has four documents, two of them with label 1 and one with label 2; label 3 has none."""
    lists = Dataset.from_texts(DOCUMENTS, TARGETS, LABELS)
    train = replace(lists.train, filtered=csr_of_lists([[], [1], [], [1], [2]], 4))
    graph = Graph(Strings.of(["x", "y"]), csr_of_lists([[0], [], [1], [0, 1], []], 2), csr_of_lists([[0]] * 4, 2))
    test = Split(Texts.of(["a plum"]), csr_of_lists([[2]], 4))
    return replace(lists, train=train, test=test, graphs={"g": graph})


def test_only_training_rows_and_targets_change(fruit: Dataset, name: str, asked: str) -> None:
    before = fruit.fingerprint()
    found = augmented(fruit, asked, seed=0)
    assert fruit.fingerprint() == before
    added = len(found.train) - 5
    assert added >= 0
    assert found.labels is fruit.labels
    assert found.test is fruit.test
    assert found.train.documents.fields.keys() == fruit.train.documents.fields.keys()
    assert list(found.train.documents.fields["title"])[:5] == DOCUMENTS
    assert found.train.filtered is not None
    assert fruit.train.filtered is not None
    np.testing.assert_array_equal(found.train.filtered[:5].toarray(), fruit.train.filtered.toarray())
    hidden, of_documents = found.train.filtered[5:].toarray() > 0, fruit.train.filtered.toarray() > 0
    true = found.train.targets[5:].toarray() > 0
    if name == "synonyms":  # the same document in other words
        np.testing.assert_array_equal(hidden, of_documents)
    elif name in {"mixup", "label_mixup"}:  # a document and something else
        assert ((hidden | true) >= of_documents).all()
        assert not (hidden & true).any()
    elif name == "unlabelled":  # the text of each label, which says nothing new of that one
        np.testing.assert_array_equal(hidden, np.eye(4))
    else:
        assert not hidden.any()  # a filtered pair of a document is none of a row that was made
    old, new = fruit.graphs["g"], found.graphs["g"]
    assert old.train is not None
    assert new.train is not None
    np.testing.assert_array_equal(new.train.toarray(), np.pad(old.train.toarray(), ((0, added), (0, 0))))
    assert new.label is old.label
    targets = found.train.targets
    new_pairs = targets[:5].toarray() - fruit.train.targets.toarray()
    assert new_pairs.min() >= 0, "no pair that was given is lost"
    assert (new_pairs * fruit.train.filtered.toarray() == 0).all(), "what is filtered does not become true"
    assert (added > 0) != bool(new_pairs.any()), "either rows are added, or targets"
    assert targets.shape == (5 + added, 4)
    assert targets.data.min() > 0
    assert targets.data.max() <= 1


def test_a_seed_gives_the_same_again(asked: str) -> None:
    data = planted(0, documents=400, labels=60).dataset
    one, same = (augmented(data, asked, seed=1) for _ in range(2))
    assert one.fingerprint() == same.fingerprint()
    assert one.fingerprint() != data.fingerprint()


def test_a_row_says_what_it_is_and_which_options_it_has(fruit: Dataset, name: str) -> None:
    kind = TRANSFORMS[name]
    assert kind.about
    assert not kind.about.endswith(".")
    assert kind.options(), "an option tells a transform apart from another; a constant in it could be one"
    for option in (option for option, (hint, _) in kind.options().items() if hint is not str):
        with pytest.raises(BadInput, match=f"augment {name}:{option}: expected"):
            kind.parsed(name, f"{option}=nonsense")
    with pytest.raises(BadInput, match=f"augment {name}: expected one of the options .*, found 'no_such'"):
        augmented(fruit, f"{name}:no_such=1", seed=0)


def test_a_transform_from_outside_takes_its_options(fruit: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRANSFORMS, "doubled", TransformKind(doubled, "documents twice"))
    assert len(augmented(fruit, "doubled:copies=3", seed=0).train) == 20
    assert len(augmented(fruit, "doubled:of=first:copies=2", seed=0).train) == 7
    assert TRANSFORMS["doubled"].options() == {"copies": (int, 1), "of": (Literal["all", "first"], "all")}
    with pytest.raises(BadInput, match=r"expected one of none, gandalf, .*, doubled, found"):
        augmented(fruit, "tripled", seed=0)
