"""How recipes train a transformer: a few texts at a time, by another attention, until it gains no more."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stopping import stopped_in_the_middle
from tiny_bert import write_fresh_bert, write_tiny_transformer

from longtail import recipes
from longtail.errors import BadInput
from longtail.modules.encoders.attention import attend
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.testing.planted import planted
from longtail.train.log import Log, read_log
from longtail.train.run import Run

QUICK = {"epochs": 2, "batch": 24, "learning_rate": 1e-3, "warmup": 2, "max_length": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=120, test_documents=30, labels=40).dataset


@pytest.fixture(scope="module")
def bert(data, tmp_path_factory) -> Path:
    """The folder of a small BERT without dropout that knows the words of the data."""
    folder = tmp_path_factory.mktemp("bert")
    texts = [*data.train.documents.fields["title"], *data.labels.fields["title"]]
    write_fresh_bert(folder, sorted({word for text in texts for word in text.split()}))
    return folder


def encoded(model: Any, data: Any) -> np.ndarray:
    found: np.ndarray = model.encode(data.train.documents)
    return found


@pytest.mark.parametrize(
    ("recipe", "own"),
    [
        ("dpr", {}),
        ("ngame", {"classifier_epochs": 1}),
        ("renee", {"start_epochs": 1, "dropout": 0.0}),
        ("unidec", {"dropout": 0.0}),
    ],
)
def test_few_texts_at_a_time_train_the_model_of_all_at_once(data, bert, recipe, own):
    asked = {**QUICK, "encoder": str(bert), **own}
    whole, few = (recipes.RECIPES[recipe](data, **asked, texts_at_once=held) for held in (None, 5))
    start = TransformerEncoder(bert).state_dict()
    moved = max((value - start[name]).abs().max() for name, value in whole.encoder.state_dict().items())
    assert moved > 1e-3
    np.testing.assert_allclose(encoded(few, data), encoded(whole, data), atol=1e-3)


@pytest.mark.parametrize("recipe", ["dpr", "ngame", "unidec"])
def test_a_step_encodes_each_text_of_its_batch_and_pool_once(data, bert, recipe, tmp_path, monkeypatch):
    rows, plain = [], TransformerEncoder.forward

    def counted(self: TransformerEncoder, text: Any) -> torch.Tensor:
        if torch.is_grad_enabled():
            rows.append(len(text))
        return plain(self, text)

    asked = {**QUICK, "encoder": str(bert), "epochs": 1, "random_negatives": 4, "validation": 0.2, "refit": False}
    known = recipes.RECIPES[recipe].__annotations__
    planned = Run(tmp_path, Log(tmp_path / "metrics.jsonl"))
    planned.planned = True
    monkeypatch.setattr(TransformerEncoder, "forward", counted)
    recipes.RECIPES[recipe](data, **{name: value for name, value in asked.items() if name in known}, out=planned)
    line = next(line for line in read_log(tmp_path / "metrics.jsonl") if "pool" in line)
    assert len(rows) == line["step"]  # one pass a step
    assert np.mean(rows) - asked["batch"] == pytest.approx(line["pool"], abs=0.06)  # which the log rounds


@pytest.mark.parametrize("kind", ["Bert", "ModernBert", "Llama", "Qwen3"])
def test_every_attention_gives_the_same_vectors(kind: str, tmp_path: Path) -> None:
    write_tiny_transformer(tmp_path, kind)
    encoder = TransformerEncoder(tmp_path).eval()
    table = encoder.tokenizer(["red fish", "one two two one red green blue fish bird", "", "bird"])
    rows = encoder.tokenizer.batch(table, np.arange(4))
    found = []
    for name in ("eager", "sdpa"):
        attend(encoder.backbone, name)
        assert encoder.backbone.config._attn_implementation == name
        with torch.inference_mode():
            found.append(encoder(rows))
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "name"), [("MPNet", "sdpa"), ("Bert", "flash_attention_2"), ("Bert", "fastest")])
def test_an_attention_that_cannot_be_had_is_one_line(kind: str, name: str, tmp_path: Path) -> None:
    if name == "flash_attention_2" and torch.cuda.is_available():
        pytest.skip("it may be had here")
    write_tiny_transformer(tmp_path, kind)
    problem = f"^attention: expected an attention that {kind}Model can have here, found {name}; leave it out, or give"
    with pytest.raises(BadInput, match=problem):
        attend(TransformerEncoder(tmp_path).backbone, name)


def test_a_recipe_trains_by_the_attention_that_is_asked_for(data, bert):
    asked = {**QUICK, "encoder": str(bert)}
    usual, eager = recipes.dpr(data, **asked), recipes.dpr(data, **asked, attention="eager")
    assert eager.encoder.backbone.config._attn_implementation == "eager"
    assert usual.encoder.backbone.config._attn_implementation == "sdpa"
    np.testing.assert_allclose(encoded(eager, data), encoded(usual, data), atol=1e-3)
    with pytest.raises(BadInput, match=r"^attention: expected none for the encoder bag, which is no transformer"):
        recipes.dpr(data, **QUICK, attention="eager")


@pytest.mark.parametrize(
    "own",
    [
        {"recipe": "unidec", "epochs": "auto", "validation": 0.3, "learning_rate": 1e-2},
        {"recipe": "ance", "mine_from": 0, "refresh_steps": 2, "random_negatives": 0, "batch": 12},
        {"recipe": "ngame", "cluster_from": 0, "refresh_steps": 2, "classifier_epochs": 1},
    ],
    ids=lambda own: own["recipe"],
)
def test_a_schedule_is_kept_where_a_run_goes_on(data, bert, tmp_path, own):
    """Stopped in the middle, an encoder that ends by itself, or renews its negatives within epochs, ends alike."""
    asked = {**QUICK, "encoder": str(bert), "refit": False, **own}
    recipe = recipes.RECIPES[asked.pop("recipe")]
    asked = {name: value for name, value in asked.items() if name in recipe.__annotations__}

    whole = recipe(data, **asked, out=tmp_path / "whole")
    stopped_in_the_middle(lambda run: recipe(data, **asked, out=run), tmp_path / "stopped", steps=7)
    again = recipe(data, **asked, out=tmp_path / "stopped")
    for one, other in zip(whole.encoder.parameters(), again.encoder.parameters(), strict=True):
        assert torch.equal(one, other)
    lines = [line for line in read_log(tmp_path / "whole" / "metrics.jsonl") if "epoch" in line]
    if asked["epochs"] == "auto":
        scores = [line["held_out"] for line in lines]
        assert 3 < len(scores) < 24
        assert max(scores) > scores[0]
    else:
        once = recipe(data, **{**asked, "refresh_steps": None})
        assert any(
            not torch.equal(one, other)
            for one, other in zip(whole.encoder.parameters(), once.encoder.parameters(), strict=True)
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # torch's own
def test_compiled_layers_train_the_same_model(data, bert, tmp_path, monkeypatch):
    """Traced as ever, but for the backend that needs a C++ compiler and minutes of it."""
    calls: list[bool] = []

    def counted(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        calls.append(torch.is_grad_enabled())
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    asked = {**QUICK, "epochs": 1, "encoder": str(bert)}
    plain = recipes.dpr(data, **asked)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counted))
    compiled = recipes.dpr(data, **asked, compile=True, out=tmp_path / "run")
    assert all(calls)  # texts that are encoded without gradients are not compiled
    assert 1 <= len(calls) <= 4  # for batches of many widths
    np.testing.assert_allclose(encoded(compiled, data), encoded(plain, data), atol=1e-4)
    opened = TransformerEncoder.load(tmp_path / "run" / "model" / "encoder")
    assert opened.state_dict().keys() == plain.encoder.state_dict().keys()
