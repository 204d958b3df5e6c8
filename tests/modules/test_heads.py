"""Two views of a text: what each head reads, what it costs the encoder, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.modules.heads import LearnedTemperature, TwoHeads
from longtail.modules.table import Table
from longtail.text.bag import BagTokenizer

TEXTS = ["red fish", "blue", "one two two one red green blue fish bird", "green birds", "fish red"]


def bag(_: Path) -> BagEncoder:
    return BagEncoder(BagTokenizer.fit(TEXTS * 2), 8, generator=torch.Generator().manual_seed(0))


HEADS: dict[str, tuple[Callable[[Path], Any], int]] = {
    "bag": (bag, 0),
    "bag, projected": (bag, 5),
    "transformer": (TransformerEncoder, 0),
    "transformer, projected": (TransformerEncoder, 7),
}


@pytest.fixture(params=HEADS)
def heads(request: pytest.FixtureRequest, tiny_bert: Path) -> TwoHeads:
    """Each of `HEADS`, or that which a test names."""
    make, projection = HEADS[request.param]
    return TwoHeads(make(tiny_bert), projection, generator=torch.Generator().manual_seed(1)).eval()


def tokens(heads: TwoHeads, texts: list[str]) -> Any:
    return heads.tokenizer.batch(heads.tokenizer(texts), np.arange(len(texts)))


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_the_views_of_a_batch_are_those_of_its_texts(heads: TwoHeads) -> None:
    with torch.no_grad():
        x, z, u = heads.views(tokens(heads, TEXTS[:2]), tokens(heads, TEXTS[2:]))
        both = heads(tokens(heads, TEXTS[:2]))
        close(z, heads.text(tokens(heads, TEXTS[2:])))
    width = heads.text.width
    assert both.shape == (2, 2 * width) == (2, heads.width)
    close(both[:, :width], x)
    close(both[:, width:], u)
    close(torch.cat([x, z, u]).norm(dim=1), torch.ones(len(TEXTS) + 2))


def test_without_a_projection_training_starts_where_both_views_are_the_encoder(heads: TwoHeads) -> None:
    with torch.no_grad():
        x, u = heads(tokens(heads, TEXTS)).split(heads.text.width, dim=1)
        encoded = heads.text.encoder(tokens(heads, TEXTS))
    if heads.projection:
        assert x.shape[1] == heads.projection
        assert (x - u).abs().max() > 0.1
    else:
        close(x, encoded)
        close(u, encoded)


@pytest.mark.parametrize("heads", [name for name, (_, projection) in HEADS.items() if projection], indirect=True)
def test_a_projection_is_that_of_the_thesis(heads: TwoHeads) -> None:
    """g1 = normalise(tanh(linear)), g2 = linear, on vectors with entries of about 1."""
    with torch.no_grad():
        encoded = heads.text.encoder(tokens(heads, TEXTS)) * heads.text.encoder.width**0.5
        first, second = heads.text.project[0], heads.project[0]  # type: ignore[index]
        x, _, u = heads.views(tokens(heads, TEXTS), tokens(heads, TEXTS[:1]))
        heads.normalised = False
        *_, raw = heads.views(tokens(heads, TEXTS), tokens(heads, TEXTS[:1]))
    close(x, torch.nn.functional.normalize(torch.tanh(encoded @ first.weight.T + first.bias)))
    torch.testing.assert_close(raw, encoded @ second.weight.T + second.bias, rtol=1e-5, atol=1e-5)
    close(u, torch.nn.functional.normalize(raw))


@pytest.mark.parametrize("heads", ["transformer", "transformer, projected", "bag, projected"], indirect=True)
def test_a_classifier_sees_the_same_document_in_training_as_in_prediction(heads: TwoHeads) -> None:
    """A map that has learned to stretch: the bias of a classifier would count a third as much as in prediction."""
    with torch.no_grad():
        next(heads.project.parameters()).mul_(3)
        *_, u = heads.views(tokens(heads, TEXTS), tokens(heads, TEXTS[:1]))
        close(u, heads(tokens(heads, TEXTS))[:, heads.text.width :])


def test_the_classifiers_loss_reaches_a_transformer_but_not_the_table_of_a_bag(heads: TwoHeads) -> None:
    *_, u = heads.views(tokens(heads, TEXTS[:2]), tokens(heads, TEXTS[2:]))
    u[:, 0].sum().backward()
    reached = any(parameter.grad is not None for parameter in heads.text.encoder.parameters())
    assert reached == (heads.table is None)


def test_own_parameters_and_those_of_the_encoder_are_all(heads: TwoHeads) -> None:
    own, encoder = heads.own_parameters(), list(heads.text.encoder.parameters())
    assert {id(p) for p in own} | {id(p) for p in encoder} == {id(p) for p in heads.parameters()}
    assert len(own) + len(encoder) == len(list(heads.parameters()))
    assert own


def test_saved_and_loaded_they_are_bit_equal(heads: TwoHeads, tmp_path: Path) -> None:
    with torch.no_grad():
        for parameter in heads.own_parameters():
            parameter.add_(0.1)
    heads.save(tmp_path)
    loaded = TwoHeads.load(tmp_path, heads.text.encoder, heads.projection).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        assert torch.equal(loaded(tokens(heads, TEXTS)), heads(tokens(heads, TEXTS)))
    assert [path.name for path in tmp_path.iterdir()] == ["heads.safetensors"]
    if heads.table is not None:
        assert list(load_file(tmp_path / "heads.safetensors")) == ["table"]  # as it was when that was a plain parameter


@pytest.mark.parametrize("heads", ["bag"], indirect=True)
def test_separators_see_the_sum_of_rows_of_their_table_before_the_other_views(heads: TwoHeads, tmp_path: Path) -> None:
    read = tokens(heads, TEXTS)
    with torch.no_grad():
        before = heads(read)
        rows = torch.randn(len(heads.tokenizer), 3, generator=torch.Generator().manual_seed(2))  # type: ignore[arg-type]
        heads.separators = Table(rows)
        found = heads(read)
    assert found.shape[1] == heads.width == 3 + 1 + before.shape[1]
    assert torch.equal(found[:, 4:], before)
    assert found[:, 3].tolist() == [1.0] * len(TEXTS)
    table = heads.tokenizer(TEXTS)  # the twin: text by text
    for i, s in enumerate(found[:, :3]):
        at = slice(table.offsets[i], table.offsets[i + 1])
        close(s, torch.from_numpy(table.weights[at]) @ rows[table.ids[at]])
    heads.save(tmp_path)
    loaded = TwoHeads.load(tmp_path, heads.text.encoder, heads.projection).eval()
    with torch.no_grad():
        assert torch.equal(loaded(read), found)


def test_a_temperature_is_learned_by_its_inverse() -> None:
    learned = LearnedTemperature(0.05)
    scores = torch.tensor([[0.1, 0.2]])
    torch.testing.assert_close(learned(scores), torch.tensor([[2.0, 4.0]]))
    learned(scores).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(learned.inverse.grad, torch.tensor([0.3]))
