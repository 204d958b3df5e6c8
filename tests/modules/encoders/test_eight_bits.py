"""A transformer whose optimiser has moments of 8 bits: how it learns, resumes and is planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stopping import stopped_at_the_end

from longtail import recipes
from longtail.data.dataset import Dataset
from longtail.errors import BadInput, MissingExtra
from longtail.modules.encoders import layers
from longtail.train import plan as plan_module
from longtail.train.run import Run

pytest.importorskip("bitsandbytes", reason="needs the extra eight-bit")
NAMES = ["red", "green", "blue", "fish", "bird", "one", "two"]
TEXTS = [f"{one} {other}" for one in NAMES for other in NAMES]
QUICK = {"epochs": 2, "batch": 16, "random_negatives": 2, "max_length": 8, "learning_rate": 1e-3, "device": "cpu"}
SMALL = {**QUICK, "moments": "8-bit"}


@pytest.fixture(autouse=True)
def _for_small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_FEWEST", 64)


def data() -> Dataset:
    return Dataset.from_texts(TEXTS, [sorted({i // 7, i % 7}) for i in range(49)], NAMES)


def test_training_resumes_bit_equal(tiny_bert: Path, tmp_path: Path) -> None:
    asked = {**SMALL, "encoder": str(tiny_bert)}
    whole = recipes.dpr(data(), out=tmp_path / "whole", **asked)
    stopped_at_the_end(lambda: recipes.dpr(data(), out=tmp_path / "stopped", **asked))
    resumed = recipes.dpr(data(), out=tmp_path / "stopped", **asked)
    wide = recipes.dpr(data(), **{**asked, "moments": "float32"})
    rounded = 0
    for one, other, exact in zip(*(model.encoder.parameters() for model in (whole, resumed, wide)), strict=True):
        assert torch.equal(one, other)
        rounded += not torch.equal(one, exact)
    assert rounded > 10


def test_it_learns_as_moments_of_float32_do(tiny_bert: Path) -> None:
    right = {}
    for kind in ("float32", "8-bit"):
        asked = {**QUICK, "encoder": str(tiny_bert), "epochs": 12, "warmup": 4, "learning_rate": 3e-3}
        ids = recipes.dpr(data(), **asked, moments=kind).rank(data().train.documents, 1).ids[:, 0]
        right[kind] = np.mean([label in {i // 7, i % 7} for i, label in enumerate(ids)])
    assert min(right.values()) > 0.7  # by chance, 0.27
    assert abs(right["float32"] - right["8-bit"]) < 0.08


def test_the_plan_counts_their_bytes(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(plan_module, "resident_bytes", lambda: 0)
    monkeypatch.setattr(plan_module.Plan, "table", lambda plan: told.append(plan) or "")
    for kind in ("float32", "8-bit"):
        with pytest.raises(plan_module.Planned):
            recipes.dpr(data(), out=Run(None, dry=True), **{**SMALL, "moments": kind}, encoder=str(tiny_bert))
    encoder = recipes.dpr(data(), **{**QUICK, "epochs": 0}, encoder=str(tiny_bert)).encoder
    small = [
        parameter.numel()
        for name, parameter in encoder.named_parameters()
        if parameter.ndim > 1 and "embed" not in name and parameter.requires_grad
    ]
    assert told[0].memory - told[1].memory == 6 * sum(small)


def test_they_go_with_adapters(tiny_bert: Path) -> None:
    pytest.importorskip("peft", reason="needs the extra lora")
    model = recipes.dpr(data(), **SMALL, encoder=str(tiny_bert), lora=3, weights="bfloat16")
    assert {parameter.dtype for parameter in model.encoder.parameters() if parameter.requires_grad} == {torch.float32}


def test_what_does_not_go_together_is_refused(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="moments: moments of 8 bits are of float32 weights, found weights of bfloat16"):
        recipes.dpr(data(), **SMALL, encoder=str(tiny_bert), weights="bfloat16")
    with pytest.raises(BadInput, match="moments: expected none for the encoder bag, which is no transformer"):
        recipes.dpr(data(), **SMALL, encoder="bag")
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes.functional", None)
    with pytest.raises(MissingExtra, match="eight-bit"):
        recipes.dpr(data(), **SMALL, encoder=str(tiny_bert))
