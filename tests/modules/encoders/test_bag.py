"""The bag encoder: its vectors are normalised weighted sums, and its start is of use already."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from longtail.errors import BadInput
from longtail.modules.encoders.bag import BagEncoder
from longtail.text.bag import BagTokenizer

TEXTS = ["red fish", "blue fish", "red bird", "one blue bird", "greenFish"] * 2


def encoder(width: int = 6, texts: list[str] = TEXTS) -> BagEncoder:
    return BagEncoder(BagTokenizer.fit(texts), width, generator=torch.Generator().manual_seed(0))


def vectors(model: BagEncoder, texts: list[str]) -> torch.Tensor:
    with torch.no_grad():
        return model(model.tokenizer.batch(model.tokenizer(texts), np.arange(len(texts))))


def test_vectors_against_a_loop() -> None:
    model = encoder()
    table = model.tokenizer(TEXTS)
    for text, found in enumerate(vectors(model, TEXTS)):
        total = torch.zeros(6)
        for at in range(table.offsets[text], table.offsets[text + 1]):
            total += float(table.weights[at]) * model.table.weight[int(table.ids[at])].detach()
        torch.testing.assert_close(found, total / total.norm())


def test_the_start_keeps_the_cosines_of_the_bags() -> None:
    """Inner products of random rows are right on average, within about one over the root of the width."""
    model = encoder(width=4096)
    table = model.tokenizer(TEXTS[:5])
    bags = np.zeros((5, len(model.tokenizer)))
    for text in range(5):
        at = slice(table.offsets[text], table.offsets[text + 1])
        bags[text, table.ids[at]] = table.weights[at]
    found = vectors(model, TEXTS[:5])
    np.testing.assert_allclose(found @ found.T, bags @ bags.T, atol=0.08)


def test_a_text_without_a_known_feature_is_a_zero_row() -> None:
    found = vectors(encoder(), ["", "unknown", "red"])
    assert found.norm(dim=1).tolist() == pytest.approx([0, 0, 1])


def test_gradients_touch_the_features_of_the_batch_only() -> None:
    model = encoder()
    tokens = model.tokenizer.batch(model.tokenizer(["red", "red bird"]), np.arange(2))
    model(tokens)[:, 0].sum().backward()
    assert model.table.weight.grad is not None
    assert model.table.weight.grad.is_sparse
    assert torch.equal(model.table.weight.grad.coalesce().indices()[0], tokens.ids.unique())


def static(folder: Path, words: str, vectors: np.ndarray) -> Path:
    (folder / "vectors.txt").write_text(words, encoding="utf-8")
    np.save(folder / "vectors.npy", vectors)
    return folder / "vectors.npy"


def test_known_words_start_from_static_vectors(tmp_path: Path) -> None:
    """Their mean length becomes 1, as that of the other rows; words without a feature and all other rows stay."""
    model = encoder(width=2)
    before = model.table.weight.detach().clone()
    path = static(tmp_path, "fish\nstone\nred\n", np.array([[3.0, 4.0], [9.0, 9.0], [0.0, 15.0]], np.float32))
    assert model.start_from(path) == (2, len(model.tokenizer))
    names = model.tokenizer.features
    after = dict(zip(names, model.table.weight.tolist(), strict=True))
    assert after["fish"] == pytest.approx([0.3, 0.4])
    assert after["red"] == pytest.approx([0.0, 1.5])
    others = torch.tensor([name not in ("fish", "red") for name in names])
    assert torch.equal(model.table.weight[others], before[others])


def test_words_of_static_vectors_are_cut_at_line_feeds_alone(tmp_path: Path) -> None:
    """Published vocabularies have words with further characters that Python takes for the end of a line."""
    model = encoder(width=2)
    path = static(tmp_path, "a\x85b\n\u2028\nred\n", np.array([[9.0, 9.0], [9.0, 9.0], [0.0, 15.0]], np.float32))
    assert model.start_from(path)[0] == 1
    assert model.table.weight[model.tokenizer.features.index("red")].tolist() == pytest.approx([0.0, 1.0])


def test_no_known_word_changes_nothing(tmp_path: Path) -> None:
    model = encoder(width=2)
    before = model.table.weight.detach().clone()
    assert model.start_from(static(tmp_path, "stone\n", np.ones((1, 2), np.float32)))[0] == 0
    assert torch.equal(model.table.weight, before)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"text"], ids=["empty", "cut", "text"])
def test_static_vectors_that_are_none_are_refused(tmp_path: Path, content: bytes) -> None:
    path = static(tmp_path, "red\n", np.ones((1, 2), np.float32))
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"\.npy: expected an array of numbers, found .*; write"):
        encoder(width=2).start_from(path)


def test_static_vectors_of_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expected an array of numbers, found one of <U1; write"):
        encoder(width=2).start_from(static(tmp_path, "red\n", np.array([["a", "b"]])))


def test_static_vectors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    model = encoder(width=2)
    with pytest.raises(BadInput, match=r"expected \(2, 2\).*found \(2, 3\)"):
        model.start_from(static(tmp_path, "red\nfish\n", np.ones((2, 3), np.float32)))
    with pytest.raises(BadInput, match=r"expected \(1, 2\).*found \(2, 2\)"):
        model.start_from(static(tmp_path, "red\n", np.ones((2, 2), np.float32)))
    (tmp_path / "vectors.txt").unlink()
    with pytest.raises(BadInput, match=r"vectors\.txt: there is no such file"):
        model.start_from(tmp_path / "vectors.npy")
    with pytest.raises(BadInput, match=r"other\.npy: there is no such file"):
        model.start_from(tmp_path / "other.npy")
