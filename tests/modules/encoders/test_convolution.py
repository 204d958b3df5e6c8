"""The convolution encoder: its parts against loops, its widths, and what training and evaluation may change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file

from longtail.errors import BadInput
from longtail.modules.encoders.convolution import Attention, Bounded, ConvolutionEncoder, _around
from longtail.text.tokens import PaddedTokens
from longtail.text.words import WordTokenizer

TEXTS = ["red fish", "blue fish red", "red bird", "one blue bird", "green fish two red"] * 2


def encoder(embedding: int = 24, filters: int = 3, length: int = 6) -> ConvolutionEncoder:
    tokenizer = WordTokenizer.fit(TEXTS, max_length=length)
    return ConvolutionEncoder(tokenizer, embedding, filters=filters, generator=torch.Generator().manual_seed(0))


def tokens(model: ConvolutionEncoder, texts: list[str]) -> PaddedTokens:
    return model.tokenizer.batch(model.tokenizer(texts), np.arange(len(texts)))


@pytest.mark.parametrize(
    ("embedding", "filters", "width"), [(300, 32, 480), (256, 32, 416), (128, 32, 160), (64, 7, 7), (8, 3, 3)]
)
def test_the_width_follows_from_that_of_the_words(embedding: int, filters: int, width: int) -> None:
    model = encoder(embedding, filters).eval()
    assert model.width == width
    assert model(tokens(model, TEXTS)).shape == (10, width)


@pytest.mark.parametrize("embedding", [4, 26, 0])
def test_a_width_that_the_convolutions_do_not_divide_is_refused(embedding: int) -> None:
    with pytest.raises(BadInput, match=rf"width: expected a multiple of 4 from 8 on, found {embedding}"):
        encoder(embedding)


def naive_attention(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, gain: float) -> torch.Tensor:
    values = (weight / torch.linalg.matrix_norm(weight, 2))[: x.shape[1], : x.shape[1]]
    rows = []
    for a, b in zip(x, y, strict=True):
        alike = torch.stack([torch.stack([row @ other for other in b]) for row in a])  # (C, C)
        rows.append(a + gain * alike @ (values @ a))
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("shape", "transposed"), [((3, 5, 11), False), ((3, 7, 3), False), ((2, 5, 7), True), ((2, 11, 7), True)]
)
def test_attention_against_loops_forward_and_gradients(shape: tuple[int, int, int], transposed: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    module = Attention(7, generator, transposed=transposed).double()
    x, y = (torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2))
    with torch.no_grad():
        module.gain.fill_(0.3)
    for _ in range(200):
        module.project.bounded()  # the power method is at its end
    module.eval()
    sides = (x.mT, y.mT) if transposed else (x, y)
    expected = naive_attention(*sides, module.project.weight, module.gain)
    expected = expected.mT if transposed else expected
    torch.testing.assert_close(module(x, y), expected, rtol=1e-8, atol=1e-8)
    weights = torch.randn(shape, generator=generator, dtype=torch.float64)
    inputs = (x, y, module.project.weight, module.gain)
    found = torch.autograd.grad((module(x, y) * weights).sum(), inputs)
    for one, other in zip(found, torch.autograd.grad((expected * weights).sum(), inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_a_bounded_layer_has_spectral_norm_1_and_moves_in_training_only() -> None:
    layer = Bounded(11, 5, torch.Generator().manual_seed(0))
    for _ in range(100):
        layer.bounded()
    assert float(torch.linalg.matrix_norm(layer.bounded(), 2).detach()) == pytest.approx(1, abs=1e-4)
    with torch.no_grad():
        layer.weight.normal_(generator=torch.Generator().manual_seed(1))
    layer.eval()
    before = layer.left.clone()
    layer.bounded()
    assert torch.equal(layer.left, before)
    layer.train()
    one, two = layer.bounded(), layer.bounded()  # the second call does not spoil the gradient of the first
    (one.sum() + two.sum()).backward()
    assert not torch.equal(layer.left, before)


def test_branches_go_around() -> None:
    """Rotating the numbers of all word vectors by 4 rotates the positions of each branch by one."""
    model = encoder(24)
    x = torch.randn(2, 3, 24, generator=torch.Generator().manual_seed(2))
    for branch in model.branches:
        kernel = branch.kernel_size[0]
        found = branch(_around(x, kernel))
        assert found.shape == (2, 3, 6)
        torch.testing.assert_close(branch(_around(x.roll(4, 2), kernel)), found.roll(1, 2))
        side, n = (kernel - 4) // 2, torch.arange(kernel)
        at = torch.stack([x[:, :, (4 * i - side + n) % 24] for i in range(6)], 2)  # (2, 3, 6, kernel)
        expected = torch.einsum("bcik,fck->bfi", at, branch.weight) + branch.bias[:, None]
        torch.testing.assert_close(found, expected)


def test_gradients_touch_the_words_of_the_batch_only() -> None:
    model = encoder()
    batch = tokens(model, ["red", "fish red", ""])
    model(batch)[:, 0].sum().backward()
    gradient = model.table.weight.grad
    assert gradient is not None
    assert gradient.is_sparse
    words = [model.tokenizer.words[i] for i in gradient.coalesce().indices()[0]]
    assert words == ["red", "fish"]
    others = [p.grad for name, p in model.named_parameters() if name != "table.weight"]
    assert all(grad is not None and not grad.is_sparse for grad in others)


def test_padding_has_no_gradient() -> None:
    """Id 0 pads, and is a word too: a batch that has it as padding only leaves it as it is."""
    model = encoder()
    batch = tokens(model, ["fish", "fish blue"])
    assert model.tokenizer.words[0] == "red"
    model(batch)[:, 0].sum().backward()
    gradient = model.table.weight.grad.to_dense()
    assert (gradient[0] == 0).all()
    assert (gradient[1] != 0).any()


def test_training_normalises_over_the_batch_and_evaluation_does_not() -> None:
    model = encoder(filters=13)
    batch = tokens(model, TEXTS[:5])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()(batch)
    after = model.state_dict()
    changed = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"mixed", "branched", "joined", "hidden", "across_words", "across_numbers"}
    model.eval()
    again = model(batch)
    assert torch.equal(again, model(batch))
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in after.items())


def test_the_order_of_words_matters() -> None:
    model = encoder().eval()
    one, other = model(tokens(model, ["red fish", "fish red"]))
    assert float(F.cosine_similarity(one, other, dim=0).detach()) < 0.999


def test_without_any_word_known_there_is_a_vector_all_the_same() -> None:
    model = ConvolutionEncoder(WordTokenizer((), 4), 8, generator=torch.Generator()).eval()
    assert torch.isfinite(model(tokens(model, ["red", ""]))).all()


def test_known_words_start_from_static_vectors(tmp_path: Path) -> None:
    model = encoder(embedding=8, filters=2)
    before = model.table.weight.detach().clone()
    np.save(tmp_path / "vectors.npy", 3 * np.eye(2, 8, dtype=np.float32))
    (tmp_path / "vectors.txt").write_text("fish\nstone\n", encoding="utf-8")
    assert model.start_from(tmp_path / "vectors.npy") == (1, len(model.tokenizer))
    at = model.tokenizer.words.index("fish")
    assert model.table.weight[at].tolist() == pytest.approx([1.0] + [0.0] * 7)
    others = torch.arange(len(before)) != at
    assert torch.equal(model.table.weight[others], before[others])


def test_its_file_names_the_table_as_when_it_was_a_plain_parameter(tmp_path: Path) -> None:
    model = encoder()
    model.save(tmp_path)
    assert torch.equal(load_file(tmp_path / "convolution.safetensors")["table"], model.table.weight)
    loaded = ConvolutionEncoder.load(tmp_path)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in loaded.state_dict().items())


@pytest.mark.parametrize("embedding", [8, 24])
def test_a_batch_of_one_text_can_be_trained_on(embedding: int) -> None:
    model = encoder(embedding).train()
    model(tokens(model, ["red fish"]))[0, 0].backward()
    assert torch.isfinite(model.mix.weight.grad).all()
