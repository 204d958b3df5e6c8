"""The recurrent encoder: its states against the equations of an LSTM, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from longtail.errors import BadInput
from longtail.modules.encoders.recurrent import RecurrentEncoder
from longtail.text.tokens import PaddedTokens
from longtail.text.words import WordTokenizer

TEXTS = ["red fish", "blue fish red", "red bird", "one blue bird", "green fish two red"] * 2


def encoder(embedding: int = 6) -> RecurrentEncoder:
    tokenizer = WordTokenizer.fit(TEXTS, max_length=4)
    return RecurrentEncoder(tokenizer, embedding, generator=torch.Generator().manual_seed(0)).eval()


def tokens(model: RecurrentEncoder, texts: list[str]) -> PaddedTokens:
    return model.tokenizer.batch(model.tokenizer(texts), np.arange(len(texts)))


def one_side(model: RecurrentEncoder, words: Tensor, suffix: str) -> list[Tensor]:
    """h_1 .. h_T of one text by the equations, in the order in which the words are given."""
    into, own, b, c = (
        getattr(model.lstm, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    h = cell = torch.zeros(model.width // 2)
    found = []
    for word in words:
        i, f, g, o = (into @ word + b + own @ h + c).chunk(4)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        h = o.sigmoid() * cell.tanh()
        found.append(h)
    return found


def test_states_are_those_of_the_equations_from_both_sides() -> None:
    model = encoder()
    batch = tokens(model, TEXTS[:5])
    states = model.states(batch)
    for text, mask, found in zip(batch.ids, batch.mask, states, strict=True):
        words = model.table.weight[text[mask]] * 6**0.5
        forth, back = one_side(model, words, ""), one_side(model, words.flip(0), "_reverse")[::-1]
        expected = torch.stack([torch.cat(pair) for pair in zip(forth, back, strict=True)])
        torch.testing.assert_close(found[: len(words)], expected, rtol=0, atol=1e-6)
        assert not found[len(words) :].any()
        torch.testing.assert_close(
            model(batch)[0], torch.nn.functional.normalize(states[0].sum(0), dim=0), rtol=0, atol=1e-6
        )


def test_the_order_of_words_matters() -> None:
    model = encoder()
    one, other = model(tokens(model, ["red fish", "fish red"])).detach()
    assert not torch.allclose(one, other, atol=1e-3)


def test_without_any_word_known_there_is_a_vector_all_the_same() -> None:
    model = RecurrentEncoder(WordTokenizer((), 4), 8, generator=torch.Generator()).eval()
    assert not model(tokens(model, ["red", ""])).any()


def test_words_are_dropped_in_training_alone() -> None:
    model = encoder()
    batch = tokens(model, TEXTS)
    assert torch.equal(model(batch), model(batch))
    model.train()
    assert not torch.equal(model(batch), model(batch))


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(
        BadInput, match=r"^width: expected an even number, half of which is read from each side, found 7"
    ):
        encoder(7)
