"""A transformer that encodes a text once: against one that encodes each, and what a cache keeps of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from longtail.modules.encoders import given
from longtail.modules.encoders.base import embed
from longtail.modules.encoders.given import each_text_once
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


def test_what_an_error_ends_leaves_an_encoder_as_it_was_and_no_cache(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = TransformerEncoder(tiny_bert).eval()

    def stopped() -> None:
        with each_text_once([encoder], tmp_path):
            vectors(encoder, MORE)
            raise KeyError

    with pytest.raises(KeyError):
        stopped()
    assert encoder.given is None
    assert not list(tmp_path.iterdir())


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


def test_what_is_full_begins_anew(
    tiny_bert: Path, read: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TransformerEncoder(tiny_bert).eval()
    expected = vectors(encoder, MORE)
    monkeypatch.setattr(given, "_MOST", 4 * encoder.width * 3)  # three texts
    read.clear()
    with each_text_once([encoder], tmp_path):
        for _ in range(2):
            close(vectors(encoder, MORE, 2), expected)
        assert sum(read) == 2 * len(MORE)  # four were known by then, so all are new again
        read.clear()
        close(vectors(encoder, MORE[:2]), expected[:2])
    assert len(list(tmp_path.iterdir())) == 1
    with each_text_once([encoder], tmp_path):
        read.clear()
        close(vectors(encoder, MORE[:2]), expected[:2])
    assert not read  # the last two are in the cache


def test_a_cache_has_them_for_who_comes_later(tiny_bert: Path, read: list[int], tmp_path: Path) -> None:
    expected, more = (vectors(TransformerEncoder(tiny_bert).eval(), texts) for texts in (TEXTS, MORE))
    for texts, new in ((TEXTS, 5), (MORE, 2), (TEXTS + MORE, 0)):
        read.clear()
        encoder = TransformerEncoder(tiny_bert).eval()
        with each_text_once([encoder], tmp_path):
            found = vectors(encoder, texts)
        assert sum(read) == new
    close(found, np.concatenate([expected, more]))
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 2
    broken = kept[0] / "vectors.npy"
    broken.write_bytes(broken.read_bytes()[:-1])
    read.clear()
    encoder = TransformerEncoder(tiny_bert).eval()
    with each_text_once([encoder], tmp_path):
        close(vectors(encoder, [*TEXTS, *MORE]), np.concatenate([expected, more]))
    assert sum(read) in {2, 5}
