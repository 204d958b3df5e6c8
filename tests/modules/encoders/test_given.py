"""A transformer that encodes a text once: against one that encodes each, and what a cache keeps of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from longtail.modules.encoders import given as module
from longtail.modules.encoders.base import embed
from longtail.modules.encoders.given import ask_first, each_text_once
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.tokens import PaddedTokens
from longtail.topk import FloatArray

TEXTS = ["red fish", "blue", "one two two one red green blue fish bird", "", "red fish", "green birds", "blue"]
MORE = ["fish red", "blue", "red fish", "two"]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each pass of a transformer's layers has read."""
    counts: list[int] = []
    plain = TransformerEncoder.pooled_states

    def pooled_states(self: TransformerEncoder, words: Tensor, mask: Tensor) -> Tensor:
        counts.append(len(mask))
        return plain(self, words, mask)

    monkeypatch.setattr(TransformerEncoder, "pooled_states", pooled_states)
    return counts


def vectors(encoder: TransformerEncoder, texts: list[str], block: int = 1024) -> FloatArray:
    return embed(encoder, encoder.tokenizer(texts), device=torch.device("cpu"), block=block)


def close(a: FloatArray, b: FloatArray) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("block", [1, 3, 1024])
@pytest.mark.parametrize("windows", [1, 3])
def test_vectors_are_those_of_each_text_and_a_text_is_read_once(
    tiny_bert: Path, read: list[int], block: int, windows: int
) -> None:
    encoder = TransformerEncoder(tiny_bert, max_length=4, windows=windows).eval()
    naive = [vectors(encoder, [text])[0] for text in [*TEXTS, *MORE]]
    read.clear()
    vectors(encoder, list({*TEXTS, *MORE}))
    each = sum(read)
    read.clear()
    with each_text_once([encoder]):
        found = [*vectors(encoder, TEXTS, block), *vectors(encoder, MORE, block)]
    close(np.stack(found), np.stack(naive))
    assert sum(read) == each


def test_behind_the_context_nothing_is_kept_and_with_gradients_nothing_is_taken(
    tiny_bert: Path, read: list[int]
) -> None:
    encoder = TransformerEncoder(tiny_bert).eval()
    batch: PaddedTokens = encoder.tokenizer.batch(encoder.tokenizer(MORE), np.arange(len(MORE)))
    with each_text_once([encoder]):
        vectors(encoder, MORE)
        read.clear()
        assert encoder(batch).requires_grad
        assert sum(read) == len(MORE)
    read.clear()
    assert encoder.given is None
    vectors(encoder, MORE)
    assert sum(read) == len(MORE)


def test_an_error_leaves_an_encoder_as_it_was(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert).eval()

    def stopped() -> None:
        with each_text_once([encoder]):
            raise KeyError

    with pytest.raises(KeyError):
        stopped()
    assert encoder.given is None


def test_two_of_one_folder_share_and_one_of_other_weights_does_not(
    tiny_bert: Path, read: list[int], tmp_path: Path
) -> None:
    first, second = (TransformerEncoder(tiny_bert).eval() for _ in range(2))
    changed = TransformerEncoder(tiny_bert)
    with torch.no_grad():
        next(changed.backbone.parameters()).mul_(2)
    changed.save(tmp_path / "other")
    other = TransformerEncoder.load(tmp_path / "other")
    with each_text_once([first, second, other, nn.Linear(2, 2)]):
        expected = vectors(first, MORE)
        read.clear()
        assert np.array_equal(vectors(second, MORE), expected)
        assert not read
        assert not np.allclose(vectors(other, MORE), expected)
        assert sum(read) == len(MORE)


def test_one_that_cuts_texts_elsewhere_has_vectors_of_its_own(tiny_bert: Path) -> None:
    whole = TransformerEncoder(tiny_bert, max_length=8).eval()
    parts = TransformerEncoder(tiny_bert, max_length=4, windows=2).eval()
    expected = vectors(parts, TEXTS)
    with each_text_once([whole, parts]):
        assert not np.allclose(vectors(whole, TEXTS), expected)
        close(vectors(parts, TEXTS), expected)


def test_what_is_full_begins_anew(tiny_bert: Path, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = TransformerEncoder(tiny_bert).eval()
    expected = vectors(encoder, MORE)
    monkeypatch.setattr(module, "_MOST", 4 * encoder.width * 3)  # three texts
    read.clear()
    with each_text_once([encoder]):
        for _ in range(2):
            close(vectors(encoder, MORE, 2), expected)
    assert sum(read) == 2 * len(MORE)  # four were known by then, so all are new again


@pytest.mark.parametrize("cached", [True, False])
def test_who_asks_about_the_same_texts_first_has_the_same_bits(
    tiny_bert: Path, read: list[int], tmp_path: Path, *, cached: bool
) -> None:
    """Whichever of them it needs; what a cache has is not read again, unless it is broken."""
    cache, first = tmp_path if cached else None, list({*TEXTS, *MORE})

    def asked(texts: list[str], of: str = "all") -> FloatArray:
        encoder = TransformerEncoder(tiny_bert).eval()
        read.clear()
        with each_text_once([encoder]) as given:
            ask_first(given, of, lambda: vectors(encoder, first), cache)
            return vectors(encoder, texts)

    whole = asked(first)
    assert sum(read) == len(first)
    for row, text in enumerate(first):
        assert np.array_equal(asked([text])[0], whole[row])
        assert sum(read) == (0 if cached else len(first))
    close(whole, vectors(TransformerEncoder(tiny_bert).eval(), first))
    assert not np.array_equal(asked(["two red"])[0], whole[0])  # what was not asked about first is read then
    asked(first, of="others")
    assert sum(read) == len(first)
    for broken in tmp_path.glob("*/vectors.npy"):
        broken.write_bytes(broken.read_bytes()[:-1])
    assert np.array_equal(asked(first), whole)
    assert sum(read) == len(first)
