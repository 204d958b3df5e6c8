"""A transformer in fewer bits: weights of bfloat16, and an optimiser's moments of 8 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stopping import stopped_at_the_end
from torch import Tensor

from longtail import load, recipes
from longtail.data.dataset import Dataset
from longtail.errors import BadInput, MissingExtra
from longtail.modules.encoders import layers
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.huggingface import quiet
from longtail.train import plan as plan_module
from longtail.train.run import Run

NAMES = ["red", "green", "blue", "fish", "bird", "one", "two"]
TEXTS = [f"{one} {other}" for one in NAMES for other in NAMES]
QUICK = {"epochs": 2, "batch": 16, "random_negatives": 2, "max_length": 8, "learning_rate": 1e-3, "device": "cpu"}
HALF, SMALL = {"weights": "bfloat16"}, {"moments": "8-bit"}


@pytest.fixture
def _eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments of 8 bits, of small matrices, too."""
    pytest.importorskip("bitsandbytes", reason="needs the extra eight-bit")
    monkeypatch.setattr(layers, "_FEWEST", 64)


def data() -> Dataset:
    return Dataset.from_texts(TEXTS, [sorted({i // 7, i % 7}) for i in range(49)], NAMES)


def vectors(encoder: TransformerEncoder) -> Tensor:
    with torch.inference_mode():
        return encoder.eval()(encoder.tokenizer.batch(encoder.tokenizer(TEXTS), np.arange(49)))


def weights(encoder: Any) -> set[torch.dtype]:
    return {parameter.dtype for parameter in encoder.backbone.parameters()}


@pytest.mark.parametrize("projection", [None, 5])
def test_a_saved_encoder_opens_as_it_was(tiny_bert: Path, tmp_path: Path, projection: int | None) -> None:
    encoder = TransformerEncoder(tiny_bert, projection=projection)
    wide = vectors(encoder)
    encoder.hold("bfloat16")
    found = vectors(encoder)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.norm(dim=1), torch.ones(49), rtol=0, atol=1e-5)
    assert 1e-5 < (found - wide).abs().max() < 5e-2
    encoder.save(tmp_path)
    assert {tensor.dtype for tensor in load_file(tmp_path / "model.safetensors").values()} == {torch.bfloat16}
    opened = TransformerEncoder.load(tmp_path)
    assert weights(opened) == {torch.bfloat16}
    assert torch.equal(vectors(opened), found)
    again = TransformerEncoder(tmp_path)  # as training begins with it
    assert weights(again) == {torch.float32}
    for one, other in zip(again.parameters(), opened.parameters(), strict=True):
        assert torch.equal(one, other.float())
    package = pytest.importorskip("sentence_transformers", reason="needs the extra sentence-transformers")
    with quiet():
        theirs = package.SentenceTransformer(str(tmp_path), device="cpu", model_kwargs={"torch_dtype": torch.float32})
    by_them = theirs.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False)
    torch.testing.assert_close(by_them, found, rtol=0, atol=3e-2)
    torch.testing.assert_close(by_them, vectors(again), rtol=0, atol=1e-5)


def test_training_resumes_bit_equal_and_the_model_ranks_the_same_when_opened(tiny_bert: Path, tmp_path: Path) -> None:
    asked = {**QUICK, **HALF, "encoder": str(tiny_bert)}
    whole = recipes.dpr(data(), out=tmp_path / "whole", **asked)
    assert weights(whole.encoder) == {torch.bfloat16}
    start = TransformerEncoder(tiny_bert, max_length=8)
    start.hold("bfloat16")
    moved = [
        not torch.equal(a, b)
        for (name, a), b in zip(whole.encoder.named_parameters(), start.parameters(), strict=True)
        if "pooler" not in name
    ]
    assert sum(moved) > 0.8 * len(moved)

    stopped_at_the_end(lambda: recipes.dpr(data(), out=tmp_path / "stopped", **asked))
    resumed = recipes.dpr(data(), out=tmp_path / "stopped", **asked)
    for one, other in zip(whole.encoder.parameters(), resumed.encoder.parameters(), strict=True):
        assert torch.equal(one, other)
    opened = load(tmp_path / "whole", device="cpu")
    assert np.array_equal(opened.encode(data().train.documents), whole.encode(data().train.documents))


@pytest.mark.usefixtures("_eight_bits")
def test_training_with_moments_of_8_bits_resumes_bit_equal(tiny_bert: Path, tmp_path: Path) -> None:
    asked = {**QUICK, **SMALL, "encoder": str(tiny_bert)}
    whole = recipes.dpr(data(), out=tmp_path / "whole", **asked)
    stopped_at_the_end(lambda: recipes.dpr(data(), out=tmp_path / "stopped", **asked))
    resumed = recipes.dpr(data(), out=tmp_path / "stopped", **asked)
    wide = recipes.dpr(data(), **{**asked, "moments": "float32"})
    rounded = 0
    for one, other, exact in zip(*(model.encoder.parameters() for model in (whole, resumed, wide)), strict=True):
        assert torch.equal(one, other)
        rounded += not torch.equal(one, exact)
    assert rounded > 10


@pytest.mark.usefixtures("_eight_bits")
def test_it_learns_as_float32_does(tiny_bert: Path) -> None:
    asked = {**QUICK, "encoder": str(tiny_bert), "epochs": 12, "warmup": 4, "learning_rate": 3e-3}

    def right(**fewer: str) -> float:
        ids = recipes.dpr(data(), **asked, **fewer).rank(data().train.documents, 1).ids[:, 0]
        return float(np.mean([label in {i // 7, i % 7} for i, label in enumerate(ids)]))

    exact, *others = right(), right(**HALF), right(**SMALL)
    assert min(exact, *others) > 0.7  # 0.82, 0.80; by chance, 0.27
    assert max(abs(other - exact) for other in others) < 0.08


def test_adapters_are_float32_beside_weights_of_bfloat16(tiny_bert: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="needs the extra lora")
    model = recipes.dpr(data(), out=tmp_path, **QUICK, **HALF, encoder=str(tiny_bert), lora=3)
    kinds = {parameter.requires_grad: parameter.dtype for parameter in model.encoder.parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16}
    opened = load(tmp_path, device="cpu").encode(data().train.documents)
    np.testing.assert_allclose(opened, model.encode(data().train.documents), rtol=0, atol=5e-2)


def test_small_updates_by_adapters_of_weights_of_bfloat16_are_saved(tiny_bert: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="needs the extra lora")
    asked = {**QUICK, **HALF, "encoder": str(tiny_bert), "lora": 3, "learning_rate": 1e-4}
    start, model = (recipes.dpr(data(), **asked | {"epochs": epochs}) for epochs in (0, 2))
    model.encoder.save(tmp_path)
    opened = TransformerEncoder.load(tmp_path)
    assert weights(opened) == {torch.float32}
    for encoder in (start.encoder, model.encoder):
        encoder.hold("float32")  # the same numbers
    learned, lost = ((vectors(encoder) - vectors(model.encoder)).abs().max() for encoder in (start.encoder, opened))
    assert lost < 1e-5
    assert learned > 1e-4


@pytest.mark.usefixtures("_eight_bits")
def test_moments_of_8_bits_go_with_adapters_beside_weights_of_bfloat16(tiny_bert: Path) -> None:
    pytest.importorskip("peft", reason="needs the extra lora")
    model = recipes.dpr(data(), **QUICK, **HALF, **SMALL, encoder=str(tiny_bert), lora=3)
    assert {parameter.dtype for parameter in model.encoder.parameters() if parameter.requires_grad} == {torch.float32}


@pytest.mark.usefixtures("_eight_bits")
def test_the_plan_counts_their_bytes(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(plan_module, "resident_bytes", lambda: 0)
    monkeypatch.setattr(plan_module.Plan, "table", lambda plan: told.append(plan) or "")
    # Activations are of half the size, too, which tests/train/test_plan.py sees.
    monkeypatch.setattr(plan_module, "activation_bytes", lambda *_: 0)
    for fewer in ({}, HALF, SMALL):
        with pytest.raises(plan_module.Planned):
            recipes.dpr(data(), out=Run(None, dry=True), **QUICK, **fewer, encoder=str(tiny_bert))
    assert told[0].memory - told[1].memory == 2 * told[0].stages[0].parameters
    matrices = [
        parameter.numel()
        for name, parameter in TransformerEncoder(tiny_bert).named_parameters()
        if parameter.ndim > 1 and "embed" not in name and parameter.requires_grad
    ]
    assert told[0].memory - told[2].memory == 6 * sum(matrices)


def test_products_in_float32_are_refused(tiny_bert: Path) -> None:
    with pytest.raises(BadInput, match="precision: weights of bfloat16 compute in it, found float32; leave it out"):
        recipes.dpr(data(), **QUICK, **HALF, encoder=str(tiny_bert), precision="float32")
    with pytest.raises(BadInput, match="weights: expected none for the encoder bag, which is no transformer"):
        recipes.dpr(data(), **QUICK, **HALF, encoder="bag")


def test_moments_of_8_bits_are_refused_where_they_are_not_to_be_had(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="moments: moments of 8 bits are of float32 weights, found weights of bfloat16"):
        recipes.dpr(data(), **QUICK, **HALF, **SMALL, encoder=str(tiny_bert))
    with pytest.raises(BadInput, match="moments: expected none for the encoder bag, which is no transformer"):
        recipes.dpr(data(), **QUICK, **SMALL, encoder="bag")
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes.functional", None)
    with pytest.raises(MissingExtra, match="eight-bit"):
        recipes.dpr(data(), **QUICK, **SMALL, encoder=str(tiny_bert))
