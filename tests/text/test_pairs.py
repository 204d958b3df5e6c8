"""Pairs of texts as one sequence: what transformers makes of two texts, and how what is too long is cut."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_bert import write_tiny_transformer
from transformers import AutoTokenizer

from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.text.pairs import PairTokenizer
from longtail.text.tokens import token_table

DOCUMENTS = ["red fish", "", "one two two blue"]
LABELS = ["blue bird", "green", ""]


@pytest.mark.parametrize("kind", ["Bert", "MPNet", "ModernBert", "Llama", "Qwen3"])
def test_a_pair_is_what_transformers_makes_of_it(kind: str, tmp_path: Path) -> None:
    write_tiny_transformer(tmp_path, kind)
    tokenizer = PairTokenizer(tmp_path)
    found = tokenizer.pairs(tokenizer(DOCUMENTS), tokenizer(LABELS))
    plain = AutoTokenizer.from_pretrained(tmp_path)
    for i, (document, label) in enumerate(zip(DOCUMENTS, LABELS, strict=True)):
        expected = plain([document], [label], return_token_type_ids=True)
        ids, types = expected["input_ids"][0], expected["token_type_ids"][0]
        length = len(ids)
        assert found.ids[i, :length].tolist() == ids
        assert found.types[i, :length].tolist() == types
        assert found.mask[i].tolist() == [True] * length + [False] * (found.mask.shape[1] - length)


def test_the_longer_one_is_cut(tiny_bert: Path) -> None:
    tokenizer = PairTokenizer(tiny_bert, 9)  # 6 tokens of texts
    assert tokenizer.room == 5
    one, two = tokenizer(["red " * 9]).ids[0], tokenizer(["blue"]).ids[0]
    for document, label, expected in (
        ("red " * 9, "blue", (5, 1)),
        ("red " * 9, "blue " * 9, (3, 3)),
        ("red", "blue " * 9, (1, 5)),
        ("red " * 4, "blue " * 9, (3, 3)),
        ("red " * 9, "blue " * 2, (4, 2)),
        ("red red", "blue blue", (2, 2)),
    ):
        ids = tokenizer.pairs(tokenizer([document]), tokenizer([label])).ids[0].tolist()
        assert (ids.count(int(one)), ids.count(int(two))) == expected
        assert len(ids) == 3 + sum(expected)


def test_what_is_saved_makes_the_same_pairs(tiny_bert: Path, tmp_path: Path) -> None:
    tokenizer = PairTokenizer(tiny_bert, 12)
    tokenizer.save(tmp_path)
    again = PairTokenizer(tmp_path)
    assert again.max_length == 12
    tables = [(one(DOCUMENTS), one(LABELS)) for one in (tokenizer, again)]
    first, second = (one.pairs(*table) for one, table in zip((tokenizer, again), tables, strict=True))
    np.testing.assert_array_equal(first.ids, second.ids)
    assert tokenizer.fingerprint == again.fingerprint


def test_tokens_that_are_kept_are_those_of_the_same_length(tiny_bert: Path, tmp_path: Path) -> None:
    texts = Texts.of(["red " * 15])
    short, long = (PairTokenizer(tiny_bert, length) for length in (6, 16))
    assert short.fingerprint != long.fingerprint
    lengths = [len(token_table(texts, ["title"], one, tmp_path).ids) for one in (short, long, short)]
    assert lengths == [2, 12, 2]


def test_a_pair_has_no_more_tokens_than_the_model_has_positions(tiny_bert: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "copy"))
    told = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(told | {"model_max_length": 10**30}))
    assert PairTokenizer(folder).max_length == 16
    with pytest.raises(BadInput, match="max_length: expected a length in 5 to 16 tokens, found 17"):
        PairTokenizer(folder, 17)


@pytest.mark.parametrize("length", [4, 17])
def test_a_length_out_of_range_is_refused(tiny_bert: Path, length: int) -> None:
    with pytest.raises(BadInput, match=f"max_length: expected a length in 5 to 16 tokens, found {length}"):
        PairTokenizer(tiny_bert, length)
