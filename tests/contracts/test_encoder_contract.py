"""What holds for every encoder: one row here for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import embed, encode_together
from longtail.modules.encoders.convolution import ConvolutionEncoder
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.bag import BagTokenizer
from longtail.text.words import WordTokenizer

TEXTS = ["red fish", "blue", "one two two one red green blue fish bird", "", "green birds", "fish red", "naïve 東京"]
ENCODERS: dict[str, Callable[[Path], Any]] = {
    "BagEncoder": lambda _: BagEncoder(BagTokenizer.fit(TEXTS * 2), 8, generator=torch.Generator().manual_seed(0)),
    "BagEncoder, words": lambda _: BagEncoder(
        BagTokenizer.fit(TEXTS, ngram=0, minimum=1), 5, generator=torch.Generator().manual_seed(1)
    ),
    "ConvolutionEncoder": lambda _: ConvolutionEncoder(
        WordTokenizer.fit(TEXTS * 2), 24, generator=torch.Generator().manual_seed(0)
    ),
    "ConvolutionEncoder, trained": lambda _: trained_convolution(),
    "TransformerEncoder": TransformerEncoder,
    "TransformerEncoder, cls": lambda folder: TransformerEncoder(folder, pooling="cls"),
    "TransformerEncoder, projected": lambda folder: TransformerEncoder(folder, projection=7),
}


def trained_convolution() -> ConvolutionEncoder:
    """One whose attention and normalisation do something: their gains are not 0, their means and variances are set."""
    generator = torch.Generator().manual_seed(3)
    encoder = ConvolutionEncoder(WordTokenizer.fit(TEXTS * 2, max_length=6), 72, filters=5, generator=generator)
    with torch.no_grad():
        encoder.across_words.gain.fill_(0.5)
        encoder.across_numbers.gain.fill_(-0.7)
        for _ in range(3):
            encoder.train()(tokens(encoder, TEXTS))
    return encoder


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest, tiny_bert: Path) -> Any:
    return ENCODERS[request.param](tiny_bert).eval()


def tokens(encoder: Any, texts: list[str]) -> Any:
    return encoder.tokenizer.batch(encoder.tokenizer(texts), np.arange(len(texts)))


def vectors(encoder: Any, texts: list[str]) -> Tensor:
    with torch.no_grad():
        return encoder(tokens(encoder, texts))


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_rows_are_unit_float32(encoder: Any) -> None:
    found = vectors(encoder, TEXTS)
    assert found.shape == (len(TEXTS), encoder.width)
    assert found.dtype == torch.float32
    close(found.norm(dim=1)[[0, 1, 2, 4, 5, 6]], torch.ones(6))


def test_an_empty_text_is_finite_of_length_one_or_zero(encoder: Any) -> None:
    for texts in (["", " ", "\n"], ["", "red"]):
        found = vectors(encoder, texts)
        assert torch.isfinite(found).all()
        lengths = found.norm(dim=1)
        assert ((lengths < 1e-6) | ((lengths - 1).abs() < 1e-6)).all()


def test_the_rest_of_a_batch_and_its_padding_do_not_show(encoder: Any) -> None:
    found = vectors(encoder, TEXTS)
    for i, text in enumerate(TEXTS):
        close(vectors(encoder, [text])[0], found[i])
    close(vectors(encoder, TEXTS[::-1]).flip(0), found)
    close(vectors(encoder, TEXTS + [TEXTS[2]] * 5)[: len(TEXTS)], found)


def test_texts_that_differ_have_vectors_that_differ(encoder: Any) -> None:
    found = vectors(encoder, ["red fish", "blue", "one two"])
    assert (found @ found.T)[~torch.eye(3, dtype=torch.bool)].max() < 1 - 1e-5


def test_both_sides_at_once_are_the_two_sides(encoder: Any) -> None:
    with torch.no_grad():
        x, z = encode_together(encoder, tokens(encoder, TEXTS[:2]), tokens(encoder, TEXTS[2:]))
    close(torch.cat([x, z]), vectors(encoder, TEXTS))


def test_embed_keeps_the_order_of_the_table(encoder: Any) -> None:
    found = embed(encoder, encoder.tokenizer(TEXTS), device=torch.device("cpu"), block=3)
    close(torch.from_numpy(found), vectors(encoder, TEXTS))


def test_a_step_down_the_gradient_lowers_the_loss(encoder: Any) -> None:
    def loss() -> Tensor:
        x = encoder(tokens(encoder, TEXTS[:3]))
        return -(x[0] @ x[1]) + x[0] @ x[2]

    before = loss()
    before.backward()
    with torch.no_grad():
        for parameter in encoder.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=1e-3)
    assert loss() < before


def test_saved_and_loaded_it_is_bit_equal(encoder: Any, tmp_path: Path) -> None:
    encoder.save(tmp_path)
    loaded = type(encoder).load(tmp_path).eval()
    assert loaded.width == encoder.width
    assert loaded.tokenizer.fingerprint == encoder.tokenizer.fingerprint
    assert torch.equal(vectors(loaded, TEXTS), vectors(encoder, TEXTS))
    assert not list(tmp_path.rglob("*.bin"))
    assert not list(tmp_path.rglob("*.pkl"))
