"""Encoding many texts, and the two sides of a batch, is encoding each text alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import embed, encode_together
from longtail.text.bag import BagTokenizer
from longtail.text.tokens import BagTokens

TEXTS = ["red fish", "", "blue fish and a red bird", "one", "unknown", "one blue bird", "fish"] * 2
CPU = torch.device("cpu")


def encoder() -> BagEncoder:
    return BagEncoder(BagTokenizer.fit(TEXTS), 5, generator=torch.Generator().manual_seed(0))


def tokens(model: BagEncoder, texts: list[str]) -> BagTokens:
    return model.tokenizer.batch(model.tokenizer(texts), np.arange(len(texts)))


@pytest.mark.parametrize("block", [1, 3, 14, 1024])
def test_embed_is_encoding_one_by_one(block: int) -> None:
    model = encoder()
    found = embed(model, model.tokenizer(TEXTS), device=CPU, block=block)
    assert found.dtype == np.float32
    assert found.shape == (14, 5)
    for text, row in zip(TEXTS, found, strict=True):
        np.testing.assert_allclose(row, model(tokens(model, [text])).detach()[0], rtol=1e-5, atol=1e-6)


def test_embed_nothing() -> None:
    model = encoder()
    assert embed(model, model.tokenizer([]), device=CPU).shape == (0, 5)


class Modes(nn.Module):
    """Keeps the lengths of its blocks, and whether it was in training and whether gradients were on."""

    width = 1

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer = BagTokenizer.fit(TEXTS)
        self.seen: list[tuple[list[int], bool, bool]] = []

    def forward(self, text: BagTokens) -> Tensor:
        self.seen.append((text.offsets.diff().tolist(), self.training, torch.is_grad_enabled()))
        return torch.zeros(len(text), 1)


@pytest.mark.parametrize("training", [True, False])
def test_embed_evaluates_without_gradients_and_leaves_the_mode_as_it_was(training: bool) -> None:
    model = Modes().train(training)
    embed(model, model.tokenizer(TEXTS), device=CPU, block=5)
    assert model.training == training
    assert {(was_training, gradients) for _, was_training, gradients in model.seen} == {(False, False)}
    lengths = [lengths for lengths, *_ in model.seen]
    assert [len(block) for block in lengths] == [5, 5, 4]
    flat = [length for block in lengths for length in block]
    assert flat == sorted(flat), "texts of like length share a block"


@pytest.mark.parametrize(("left", "right"), [(TEXTS[:3], TEXTS[2:7]), ([], ["fish"]), (["fish"], [])])
def test_both_sides_at_once_are_the_two_sides(left: list[str], right: list[str]) -> None:
    one, two = encoder(), encoder()
    x, z = encode_together(one, tokens(one, left), tokens(one, right))
    assert (x.shape, z.shape) == ((len(left), 5), (len(right), 5))
    a, b = two(tokens(two, left)), two(tokens(two, right))
    torch.testing.assert_close((x, z), (a, b))
    for model, documents, labels in ((one, x, z), (two, a, b)):
        (documents[:, 0].sum() + (labels[:, 1] ** 2).sum() + (documents @ labels.T).sum()).backward()
        assert model.table.weight.grad is not None
    torch.testing.assert_close(one.table.weight.grad.to_dense(), two.table.weight.grad.to_dense())
