"""What holds for every encoder: those of the table, made by name, and some that are made otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from longtail import recipes
from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.model import load
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import Encoder, embed, encode_together
from longtail.modules.encoders.convolution import ConvolutionEncoder
from longtail.modules.encoders.fielded import FieldedEncoder
from longtail.modules.encoders.named import ENCODERS, EncoderKind, encoder_named, load_encoder, make_encoder, row_of
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.modules.table import unit
from longtail.text.bag import BagTokenizer
from longtail.text.ragged import Ragged
from longtail.text.tokens import PaddedTokens, Tokens
from longtail.text.words import WordTokenizer

TEXTS = ["red fish", "blue", "one two two one red green blue fish bird", "", "green birds", "fish red", "naïve 東京"]


def by_name(name: str, tiny_bert: Path | None = None) -> Encoder:
    """That of a row; where a transformer needs a folder, a small one that reads 16 tokens at most."""
    name, length = (str(tiny_bert), 16) if name == "transformer" else (name, 32)
    generator = torch.Generator().manual_seed(0)
    return make_encoder(name, iter(TEXTS * 2), width=24, max_length=length, generator=generator)


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


CASES: dict[str, Callable[[Path], Encoder]] = {
    **{name: partial(by_name, name) for name in ENCODERS},
    "BagEncoder, words": lambda _: BagEncoder(
        BagTokenizer.fit(TEXTS, ngram=0, minimum=1), 5, generator=torch.Generator().manual_seed(1)
    ),
    "ConvolutionEncoder, trained": lambda _: trained_convolution(),
    "TransformerEncoder, cls": lambda folder: TransformerEncoder(folder, pooling="cls"),
    "TransformerEncoder, projected": lambda folder: TransformerEncoder(folder, projection=7),
    "FieldedEncoder, bag": lambda _: FieldedEncoder(by_name("bag"), 2),
    "FieldedEncoder, convolution": lambda _: FieldedEncoder(trained_convolution(), 3),
    "FieldedEncoder, transformer": lambda folder: FieldedEncoder(TransformerEncoder(folder), 2),
}


@pytest.fixture(scope="module", params=CASES)
def encoder(request: pytest.FixtureRequest, tiny_bert: Path) -> Encoder:
    return CASES[request.param](tiny_bert).eval()


def tokens(encoder: Encoder, texts: list[str]) -> Any:
    return encoder.tokenizer.batch(encoder.tokenizer(texts), np.arange(len(texts)))


def vectors(encoder: Encoder, texts: list[str]) -> Tensor:
    with torch.no_grad():
        return encoder(tokens(encoder, texts))


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def rows_are_unit_float32(encoder: Encoder, _: Path) -> None:
    found = vectors(encoder, TEXTS)
    assert found.shape == (len(TEXTS), encoder.width)
    assert found.dtype == torch.float32
    close(found.norm(dim=1)[[0, 1, 2, 4, 5, 6]], torch.ones(6))


def an_empty_text_is_finite_of_length_one_or_zero(encoder: Encoder, _: Path) -> None:
    for texts in (["", " ", "\n"], ["", "red"]):
        found = vectors(encoder, texts)
        assert torch.isfinite(found).all()
        lengths = found.norm(dim=1)
        assert ((lengths < 1e-6) | ((lengths - 1).abs() < 1e-6)).all()


def the_rest_of_a_batch_and_its_padding_do_not_show(encoder: Encoder, _: Path) -> None:
    found = vectors(encoder, TEXTS)
    for i, text in enumerate(TEXTS):
        close(vectors(encoder, [text])[0], found[i])
    close(vectors(encoder, TEXTS[::-1]).flip(0), found)
    close(vectors(encoder, TEXTS + [TEXTS[2]] * 5)[: len(TEXTS)], found)


def texts_that_differ_have_vectors_that_differ(encoder: Encoder, _: Path) -> None:
    found = vectors(encoder, ["red fish", "blue", "one two"])
    assert (found @ found.T)[~torch.eye(3, dtype=torch.bool)].max() < 1 - 1e-5


def both_sides_at_once_are_the_two_sides(encoder: Encoder, _: Path) -> None:
    with torch.no_grad():
        x, z = encode_together(encoder, tokens(encoder, TEXTS[:2]), tokens(encoder, TEXTS[2:]))
    close(torch.cat([x, z]), vectors(encoder, TEXTS))


def embed_keeps_the_order_of_the_table(encoder: Encoder, _: Path) -> None:
    found = embed(encoder, encoder.tokenizer(TEXTS), device=torch.device("cpu"), block=3)
    close(torch.from_numpy(found), vectors(encoder, TEXTS))


def a_step_down_the_gradient_lowers_the_loss(encoder: Encoder, _: Path) -> None:
    encoder = deepcopy(encoder)

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


def saved_and_loaded_it_is_bit_equal(encoder: Encoder, folder: Path) -> None:
    encoder.save(folder)
    loaded = load_encoder(row_of(encoder).name, folder).eval()
    assert type(loaded) is type(encoder)
    assert loaded.width == encoder.width
    assert loaded.tokenizer.fingerprint == encoder.tokenizer.fingerprint
    assert torch.equal(vectors(loaded, TEXTS), vectors(encoder, TEXTS))
    assert not list(folder.rglob("*.bin"))
    assert not list(folder.rglob("*.pkl"))


def it_starts_from_static_vectors_or_says_that_it_does_not(encoder: Encoder, folder: Path) -> None:
    table = getattr(encoder.core, "table", None)
    (folder / "vectors.txt").write_text("red\n")
    np.save(folder / "vectors.npy", np.ones((1, 24 if table is None else table.width), np.float32))
    if table is None:
        with pytest.raises(BadInput, match=r"^static_vectors: expected none for this encoder"):
            deepcopy(encoder).start_from(folder / "vectors.npy")
    else:
        found, rows = deepcopy(encoder).start_from(folder / "vectors.npy")
        assert found == 1 < rows


CONTRACT = (
    rows_are_unit_float32,
    an_empty_text_is_finite_of_length_one_or_zero,
    the_rest_of_a_batch_and_its_padding_do_not_show,
    texts_that_differ_have_vectors_that_differ,
    both_sides_at_once_are_the_two_sides,
    embed_keeps_the_order_of_the_table,
    a_step_down_the_gradient_lowers_the_loss,
    saved_and_loaded_it_is_bit_equal,
    it_starts_from_static_vectors_or_says_that_it_does_not,
)


@pytest.mark.parametrize("check", CONTRACT)
def test_every_encoder_keeps_the_contract(
    check: Callable[[Encoder, Path], None], encoder: Encoder, tmp_path: Path
) -> None:
    check(encoder, tmp_path)


def test_a_name_is_that_of_a_row_or_of_a_transformer() -> None:
    names = ["bag", "convolution", "lstm", "minilm", "transformer"]
    assert [row.name for row in ENCODERS.values()] == list(ENCODERS) == names
    assert all(encoder_named(name) is row for name, row in ENCODERS.items())
    assert encoder_named("sentence-transformers/all-mpnet-base-v2") is ENCODERS["transformer"]
    assert all("\n" not in row.about for row in ENCODERS.values())


def test_a_rate_suits_the_kind_of_an_encoder_and_the_width_of_a_transformer(tiny_bert: Path) -> None:
    encoders = [by_name(name, tiny_bert) for name in ENCODERS]
    assert [encoder.learning_rate for encoder in encoders] == [4e-3, 4e-3, 4e-3, 3e-4, 3e-4]
    wide = encoders[-1].core
    assert isinstance(wide, TransformerEncoder)
    wide.backbone.config.hidden_size = 385
    assert FieldedEncoder(wide, 2).core.learning_rate == 1e-4


def test_the_row_of_an_encoder_is_that_of_its_class(tiny_bert: Path) -> None:
    assert [row_of(by_name(name, tiny_bert)).name for name in ENCODERS] == [*list(ENCODERS)[:3], *["transformer"] * 2]


class Letters:
    """Texts as sequences of the numbers of their letters."""

    fingerprint = "letters"

    def __call__(self, texts: Iterable[str]) -> Ragged:
        rows = [[ord(letter) % 127 + 1 for letter in text] for text in texts]
        ids = np.asarray([number for row in rows for number in row], np.int32)
        return Ragged(ids, np.cumsum([0, *map(len, rows)], dtype=np.int64), np.zeros(0, np.float32))

    def batch(self, table: Ragged, rows: np.ndarray) -> PaddedTokens:
        return PaddedTokens.of(table, rows)


class LettersEncoder(Encoder):
    """The mean of the vectors of letters: as little as an encoder can be."""

    learning_rate = 0.02

    def __init__(self, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.width, self.tokenizer = width, Letters()
        self.letters = nn.Parameter(torch.randn(128, width, generator=generator))

    @classmethod
    def make(cls, *, width: int, generator: torch.Generator, **_: object) -> LettersEncoder:
        return cls(width, generator)

    def forward(self, text: Tokens) -> Tensor:
        assert isinstance(text, PaddedTokens)
        return unit((self.letters[text.ids] * text.mask[:, :, None]).sum(1))

    def save(self, folder: Path) -> None:
        (folder / "letters.json").write_text(json.dumps(self.letters.tolist()))

    @classmethod
    def load(cls, folder: Path) -> LettersEncoder:
        rows = torch.tensor(json.loads((folder / "letters.json").read_text()))
        encoder = cls(rows.shape[1], torch.Generator())
        encoder.letters.data = rows
        return encoder


def test_an_encoder_from_outside_is_one_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It keeps the contract, is made by its name, is trained at its rate by a recipe, and its model is opened again."""
    row = EncoderKind("letters", LettersEncoder, LettersEncoder.make, LettersEncoder.load, "letters, summed")
    monkeypatch.setitem(ENCODERS, "letters", row)
    made = by_name("letters").eval()
    assert type(made) is LettersEncoder
    for check in CONTRACT:
        folder = tmp_path / check.__name__
        folder.mkdir()
        check(made, folder)
    data = Dataset.from_texts(
        ["red fish", "blue bird", "one", "two"] * 3, [[0], [1], [2], [3]] * 3, ["r", "b", "o", "t"]
    )
    model = recipes.unidec(
        data, encoder="letters", width=8, epochs=1, validation=0.0, out=tmp_path / "run", device="cpu"
    )
    opened = load(tmp_path / "run", device="cpu")
    np.testing.assert_array_equal(opened.encode(data.train.documents), model.encode(data.train.documents))
    monkeypatch.delitem(ENCODERS, "letters")
    with pytest.raises(
        BadInput, match=r"expected one of the encoders bag, .*, found letters; open it with the version"
    ):
        load(tmp_path / "run", device="cpu")
