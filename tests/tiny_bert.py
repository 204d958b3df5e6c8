"""A transformer that is small enough for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from longtail.text.huggingface import quiet

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "blue", "fish", "bird", "##s", "one", "two"]


def write_tiny_bert(folder: Path, length: int = 16) -> None:
    """Write a BERT of 2 layers, 32 wide, with random weights, 13 words and texts of at most so many tokens."""
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=length,
    )
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(0)
        model = BertModel(config)
        for parameter in model.parameters():  # the usual start is too small for texts to differ much
            torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(folder)
    BertTokenizerFast(vocab={word: i for i, word in enumerate(WORDS)}, model_max_length=length).save_pretrained(folder)


def write_lookup_bert(folder: Path, words: Sequence[str], vectors: torch.Tensor) -> None:
    """Write a BERT whose layers change nothing: the vector of a word is about the one that is given for it.

    Args:
        folder: to write it into.
        words: n words.
        vectors: (n, H) of these, H a multiple of 4.
    """
    width, special = vectors.shape[1], WORDS[:5]
    sizes = {"vocab_size": len(special) + len(words), "hidden_size": width, "intermediate_size": 4}
    config = BertConfig(num_hidden_layers=1, num_attention_heads=4, max_position_embeddings=16, **sizes)
    with torch.random.fork_rng(), torch.no_grad(), quiet():
        model = BertModel(config)
        for name, parameter in model.named_parameters():
            if "LayerNorm.weight" not in name:
                parameter.zero_()
        model.get_input_embeddings().weight[len(special) :] = vectors
        model.save_pretrained(folder)
    vocabulary = {word: i for i, word in enumerate([*special, *words])}
    BertTokenizerFast(vocab=vocabulary, model_max_length=16).save_pretrained(folder)
