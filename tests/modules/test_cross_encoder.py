"""A cross-encoder: its logits are those of transformers, pair by pair, and what it cannot be is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_bert import WORDS, write_fresh_bert, write_tiny_transformer
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from longtail.errors import BadInput
from longtail.modules.cross_encoder import CrossEncoder, logits_of

DOCUMENTS = ["red fish", "", "one two two blue one", "blue"]
LABELS = ["blue bird", "green", "one", "red " * 5]
CPU = torch.device("cpu")


def asked(encoder: CrossEncoder) -> np.ndarray:
    tokens = encoder.tokenizer
    return logits_of(encoder, tokens(DOCUMENTS), tokens(LABELS), device=CPU)


@pytest.mark.parametrize("kind", ["Bert", "MPNet", "ModernBert", "Llama", "Qwen3"])
def test_a_logit_is_that_of_transformers(kind: str, tmp_path: Path) -> None:
    write_tiny_transformer(tmp_path / "body", kind)
    encoder = CrossEncoder(tmp_path / "body", seed=3).eval()
    assert encoder.has_new_head
    encoder.save(tmp_path / "saved")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    with torch.inference_mode():
        expected = [
            float(model(**tokenizer(document, label, return_tensors="pt")).logits[0, 0])
            for document, label in zip(DOCUMENTS, LABELS, strict=True)
        ]
    np.testing.assert_allclose(asked(encoder), expected, atol=1e-5)
    again = CrossEncoder.load(tmp_path / "saved", max_length=encoder.tokenizer.max_length)
    assert not again.has_new_head
    np.testing.assert_array_equal(asked(again), asked(encoder))


def test_a_new_head_is_drawn_by_the_seed(tiny_bert: Path) -> None:
    state = torch.random.get_rng_state()
    one, same, other = (CrossEncoder(tiny_bert, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(asked(one), asked(same))
    assert (asked(one) != asked(other)).any()
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_mode_stays(tiny_bert: Path) -> None:
    encoder = CrossEncoder(tiny_bert).train()
    first = asked(encoder)
    assert encoder.training
    np.testing.assert_array_equal(first, asked(encoder))  # without dropout


def test_a_classifier_of_several_classes_is_refused(tmp_path: Path) -> None:
    write_fresh_bert(tmp_path, WORDS[5:], heads=3)
    with pytest.raises(BadInput, match="expected a cross-encoder, which gives one number, found a classifier of 3 cl"):
        CrossEncoder(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expected a model that transformers"):
        CrossEncoder(tmp_path)
