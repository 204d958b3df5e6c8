"""Windows of a long text that are weighed: against a loop, at the start, saved, trained, and where few say anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_bert import write_lookup_bert
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from longtail import load, recipes
from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.huggingface import quiet
from longtail.text.tokens import Tokens
from longtail.train.optimizer import adamw

LONG = ["red green blue fish bird one two red green", "", "one " * 13, "fish", "red fish bird one two"]


def tokens(encoder: TransformerEncoder, texts: list[str]) -> Tokens:
    return encoder.tokenizer.batch(encoder.tokenizer(texts), np.arange(len(texts)))


def vectors(encoder: TransformerEncoder, texts: list[str] = LONG) -> Tensor:
    with torch.inference_mode():
        return encoder.eval()(tokens(encoder, texts))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


def weighed(folder: Path) -> TransformerEncoder:
    """An encoder of three windows of four words, whose weights are not equal."""
    encoder = TransformerEncoder(folder, max_length=6, windows=3, window_pooling="attention")
    assert encoder.windows.mix is not None
    encoder.windows.mix.query.data = torch.randn(32, generator=torch.Generator().manual_seed(0))
    encoder.windows.mix.bias.data = torch.tensor([0.5, -1.0, 0.2])
    return encoder


def test_it_starts_as_the_mean(tiny_bert: Path) -> None:
    mean = TransformerEncoder(tiny_bert, max_length=6, windows=3)
    close(vectors(TransformerEncoder(tiny_bert, max_length=6, windows=3, window_pooling="attention")), vectors(mean))
    assert (vectors(weighed(tiny_bert)) - vectors(mean)).abs().max() > 0.01


def test_vectors_against_a_loop_over_windows(tiny_bert: Path) -> None:
    encoder, alone, expected = weighed(tiny_bert), TransformerEncoder(tiny_bert, max_length=6), []
    mix = encoder.windows.mix
    assert mix is not None
    for text in LONG:
        words = text.split()
        starts = [0, *(start for start in (4, 8) if start < len(words))]
        with torch.inference_mode():
            parts = alone.eval()._encoded(tokens(alone, [" ".join(words[start : start + 4]) for start in starts]))
            scores = normalize(parts) @ mix.query + mix.bias[: len(parts)]
            expected.append((scores.softmax(0)[:, None] * parts).sum(0))
    close(vectors(encoder), normalize(torch.stack(expected)))


def test_a_saved_one_is_opened_with_its_weights(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = weighed(tiny_bert)
    encoder.save(tmp_path)
    assert json.loads((tmp_path / "windows.json").read_text())["pooling"] == "attention"
    assert torch.equal(vectors(TransformerEncoder.load(tmp_path)), vectors(encoder))
    other = TransformerEncoder(tmp_path, max_length=6, windows=2)  # other windows, of which it knows nothing
    assert other.windows.mix is not None
    assert not other.windows.mix.query.any()
    package = pytest.importorskip("sentence_transformers", reason="needs the extra sentence-transformers")
    with quiet():
        theirs = package.SentenceTransformer(str(tmp_path), device="cpu")
    short = ["fish", "red fish bird"]
    close(theirs.encode(short, convert_to_tensor=True, show_progress_bar=False), vectors(encoder, short))
    (tmp_path / "windows.safetensors").write_bytes(b"no weights")
    with pytest.raises(BadInput, match=r"windows\.safetensors: expected the weights of a mix, found "):
        TransformerEncoder(tmp_path)
    (tmp_path / "windows.safetensors").unlink()
    with pytest.raises(BadInput, match=r"windows\.safetensors: expected the weights of a mix, found "):
        TransformerEncoder(tmp_path)


def test_where_one_window_of_three_says_what_a_text_is_about_attention_beats_the_mean(tmp_path: Path) -> None:
    """The others name labels that no text has; which window it is differs from text to text."""
    draw = np.random.default_rng(0)
    names = [f"{kind}{i}" for kind, count in (("label", 20), ("noise", 10)) for i in range(count)]
    write_lookup_bert(tmp_path, names, torch.randn(30, 32, generator=torch.Generator().manual_seed(0)))

    def texts(count: int) -> tuple[list[str], Tensor]:
        truth = draw.integers(0, 20, count)
        parts = [draw.permutation([said, *draw.integers(20, 30, 2)]) for said in truth]
        return [" ".join(names[i] for i in part) for part in parts], torch.from_numpy(truth)

    one = TransformerEncoder(tmp_path).tokenizer.batch(TransformerEncoder(tmp_path).tokenizer(["label0"]), np.arange(1))
    length = len(one.ids[0])  # a word to a window
    train, test, right = texts(300), texts(300), {}
    for pooling in ("mean", "attention"):
        encoder = TransformerEncoder(tmp_path, max_length=length, windows=3, window_pooling=pooling)
        z = vectors(encoder, names).clone()
        for parameter in encoder.backbone.parameters():
            parameter.requires_grad_(requires_grad=False)
        if encoder.windows.mix is not None:
            optimizer, read = torch.optim.Adam(encoder.windows.mix.parameters(), 0.1), tokens(encoder, train[0])
            for _ in range(40):
                optimizer.zero_grad()
                cross_entropy(encoder(read) @ z.T / 0.1, train[1]).backward()
                optimizer.step()
        right[pooling] = float(((vectors(encoder, test[0]) @ z.T).argmax(1) == test[1]).float().mean())
    assert right["mean"] < 0.6
    assert right["attention"] > 0.9


def test_it_is_trained_at_a_rate_of_its_own_and_the_model_opens_as_it_was(tiny_bert: Path, tmp_path: Path) -> None:
    names = ["red", "green", "blue", "fish", "bird", "one", "two"]
    documents = [f"{one} green blue {other}" for one in names for other in names]
    data = Dataset.from_texts(documents, [sorted({i // 7, i % 7}) for i in range(49)], names)
    asked = {"epochs": 2, "batch": 16, "random_negatives": 2, "warmup": 2, "device": "cpu", "encoder": str(tiny_bert)}
    asked |= {"max_length": 4, "windows": 2, "window_pooling": "attention"}
    model = recipes.dpr(data, out=tmp_path, **asked)
    encoder = model.encoder
    assert encoder.windows.mix.query.abs().max() > 1e-3
    groups = adamw((encoder, 1e-5)).param_groups
    own = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    assert len(own) == len([*encoder.parameters()])
    assert [own[id(parameter)] for parameter in encoder.windows.parameters()] == [4e-3, 4e-3]
    opened = load(tmp_path, device="cpu")
    np.testing.assert_array_equal(opened.encode(data.train.documents), model.encode(data.train.documents))


def test_one_window_has_no_weights(tiny_bert: Path) -> None:
    with pytest.raises(BadInput, match="window_pooling: expected several windows, found 1; give windows, as 4"):
        TransformerEncoder(tiny_bert, window_pooling="attention")


@pytest.mark.parametrize(
    ("asked", "cut", "goes_on"),
    [
        ({}, (3, 3, "attention"), True),
        ({"windows": 3}, (3, 3, "attention"), True),
        ({"windows": 2}, (2, 3, "attention"), False),
        ({"windows": 1}, (1, None, "mean"), False),
        ({"stride": 2}, (3, 2, "attention"), True),
        ({"window_pooling": "mean"}, (3, 3, "mean"), False),
        ({"window_pooling": "attention"}, (3, 3, "attention"), True),
        ({"windows": 2, "stride": 4, "window_pooling": "mean"}, (2, 4, "mean"), False),
    ],
)
def test_what_is_given_holds_and_the_rest_stays_as_the_folder_has_it(
    tiny_bert: Path, tmp_path: Path, asked: dict[str, Any], cut: tuple[Any, ...], goes_on: bool
) -> None:
    start = TransformerEncoder(tiny_bert, max_length=6, windows=3, stride=3, window_pooling="attention")
    assert start.windows.mix is not None
    start.windows.mix.bias.data = torch.tensor([0.5, -1.0, 0.2])
    start.save(tmp_path)
    data = Dataset.from_texts(LONG, [[0]] * len(LONG), ["red", "fish"])
    sizes = {"max_length": 6, "epochs": 0, "batch": 4, "random_negatives": 0, "device": "cpu"}
    encoder = recipes.dpr(data, encoder=str(tmp_path), **sizes, **asked).encoder
    assert encoder.windows.cut == cut
    assert (encoder.tokenizer.windows, encoder.tokenizer.stride) == cut[:2]
    assert (encoder.windows.mix is not None) == (cut[2] == "attention")
    assert goes_on == (encoder.windows.mix is not None and bool(encoder.windows.mix.bias.any()))


def test_a_stride_of_one_window_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    weighed(tiny_bert).save(tmp_path)
    for folder, asked in ((tiny_bert, {}), (tiny_bert, {"windows": 1}), (tmp_path, {"windows": 1})):
        with pytest.raises(BadInput, match=r"^stride: expected several windows, found 1; give windows, as 4, or leave"):
            TransformerEncoder(folder, max_length=6, stride=3, **asked)
