"""A transformer that is small enough for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModel,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    BertTokenizerFast,
    PreTrainedTokenizerFast,
)

from longtail.text.huggingface import quiet

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "blue", "fish", "bird", "##s", "one", "two"]

DECODERS = ("Llama", "Qwen3")


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


def write_tiny_transformer(folder: Path, kind: str) -> None:
    """Write a transformer of another family: 2 layers, 32 wide, random weights, the same words, at most 16 tokens.

    Args:
        folder: to write it into.
        kind: of the family: its configuration is ``transformers.kindConfig``. A decoder gets a tokeniser without
            special tokens and without padding.
    """
    sizes = {"vocab_size": len(WORDS), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    if kind in DECODERS:
        sizes |= {"num_key_value_heads": 2, "head_dim": 8}
    config = getattr(transformers, f"{kind}Config")(**sizes, intermediate_size=64, max_position_embeddings=20)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"):
        if getattr(config, name, None) is not None:
            setattr(config, name, 0)
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(0)
        model = AutoModel.from_config(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(folder)
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    if kind in DECODERS:
        rules = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        rules.pre_tokenizer = pre_tokenizers.Whitespace()
        made = PreTrainedTokenizerFast(
            tokenizer_object=rules, eos_token="[SEP]", unk_token="[UNK]", model_max_length=16
        )
    else:
        made = BertTokenizerFast(vocab=vocabulary, model_max_length=16)
    made.save_pretrained(folder)


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


def write_fresh_bert(folder: Path, words: Sequence[str], heads: int = 0, length: int = 16) -> None:
    """Write a BERT of 2 layers, 32 wide, of some words, that a few hundred steps can teach: small weights, no dropout.

    Args:
        folder: to write it into.
        words: that it knows.
        heads: outputs of a head for sequences; 0 for none.
        length: of the longest texts, in tokens.
    """
    sizes = {"vocab_size": 5 + len(words), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(**sizes, **dropout, intermediate_size=64, max_position_embeddings=length, num_labels=heads or 2)
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(0)
        model = BertForSequenceClassification(config) if heads else BertModel(config)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.1)
        model.save_pretrained(folder)
    vocabulary = {word: i for i, word in enumerate([*WORDS[:5], *words])}
    plain = {"do_lower_case": False, "strip_accents": False, "tokenize_chinese_chars": False}
    BertTokenizerFast(vocab=vocabulary, model_max_length=length, **plain).save_pretrained(folder)
