"""The combiner by the textbook, what passes through it, and the bank that it reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from longtail.modules.combiners import Combiner, Design, make_combiner
from longtail.modules.enrichment import Enrichment, attention_entropy

B, A, D = 5, 7, 6
DESIGNS = {
    "published": Design(),
    "3 heads": Design(heads=3),
    "sharp, no spectral norm": Design(spectral_norm=False, temperature=0.1),
    "mean": Design("mean"),
}
ENCODERS = {"graphsage": Design("graphsage"), "graphformers": Design("graphformers", heads=3)}


def units(rows: int, seed: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(rows, D, generator=torch.Generator().manual_seed(seed)))


X, NODES = units(B, 0), units(A, 1)
PLACES = torch.tensor([[0, 3, 6], [2, -1, -1], [-1, -1, -1], [5, 1, -1], [4, 3, 2]])


def moved(design: Design) -> Combiner:
    """A combiner away from its start."""
    made = make_combiner(D, design)
    with torch.no_grad():
        for i, parameter in enumerate(made.parameters()):
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)) * 0.3)
    return made.eval()


@pytest.fixture(params=DESIGNS)
def combiner(request: pytest.FixtureRequest) -> Combiner:
    """Each of `DESIGNS`, moved away from its start."""
    return moved(DESIGNS[request.param])


def textbook(
    combiner: Combiner, x: Tensor, nodes: Tensor, places: Tensor, chances: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One document, one head and one node at a time."""
    sure = torch.ones(places.shape) if chances is None else chances
    design, out, weights = combiner.design, [], torch.zeros(places.shape)
    heads = design.heads if design.kind == "attention" else 1
    width = D // heads
    for i in range(len(x)):
        found = [int(place) for place in places[i] if place >= 0]
        null = math.prod(1 - float(sure[i, k]) for k in range(len(found)))
        if not found:
            out.append(x[i])
            continue
        pooled = torch.zeros(D)
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            if design.kind == "attention":
                query, keys = combiner.of_document(x[i])[part], [combiner.of_nodes(nodes[p])[part] for p in found]
                logits = [float(query @ key) / (design.temperature or math.sqrt(width)) for key in keys]
                powers = [math.exp(logit) for logit in logits]
            else:
                powers = [1.0] * len(found)
            total = sum(power * float(sure[i, k]) for k, power in enumerate(powers)) + null * sum(powers) / len(found)
            for k, place in enumerate(found):
                share = powers[k] * float(sure[i, k]) / total
                pooled[part] += share * nodes[place][part]
                weights[i, k] += share / heads
        mixed = x[i] + pooled
        if design.kind == "attention":
            mixed = combiner.norm(x[i] + combiner.out(pooled))
        out.append(mixed / mixed.norm())
    return torch.stack(out), weights


def test_it_is_the_textbook(combiner: Combiner) -> None:
    with torch.no_grad():
        found, expected = combiner(X, NODES, PLACES), textbook(combiner, X, NODES, PLACES)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])
    torch.testing.assert_close(found[1].sum(1), torch.tensor([1.0, 1, 0, 1, 1]))


def test_links_that_are_not_certain_leave_a_part_of_the_weights_to_none(combiner: Combiner) -> None:
    chances = torch.tensor([[0.5, 0.9, 0.1], [0.3, 1, 1], [1, 1, 1], [0, 1, 0], [0, 0, 0]])
    with torch.no_grad():
        found, expected = combiner(X, NODES, PLACES, chances), textbook(combiner, X, NODES, PLACES, chances)
        sure, published = combiner(X, NODES, PLACES, torch.ones(PLACES.shape)), combiner(X, NODES, PLACES)
    for one, other in zip((*found, *sure), (*expected, *published), strict=True):
        torch.testing.assert_close(one, other)
    total = found[1].sum(1)
    assert 0.3 < total[0] < 1
    assert total[1:].tolist() == pytest.approx([0.3, 0, 1, 0])
    assert torch.equal(found[0][2], X[2])


def test_a_document_without_nodes_passes_through_bit_by_bit(combiner: Combiner) -> None:
    combiner.train()
    enriched, _ = combiner(X, NODES, PLACES)
    assert torch.equal(enriched[2], X[2])
    for places in (torch.full((B, 3), -1), torch.zeros((B, 0), dtype=torch.int64)):
        enriched, weights = combiner(X, NODES, places)
        assert enriched is X
        assert not weights.any()


def test_the_order_of_nodes_and_their_padding_do_not_show(combiner: Combiner) -> None:
    with torch.no_grad():
        one, _ = combiner(X, NODES, PLACES)
        order = torch.tensor([4, 2, 6, 1, 0, 5, 3])
        moved = torch.where(PLACES < 0, -1, order.argsort()[PLACES.clamp(min=0)]).flip(1)
        other, _ = combiner(X, NODES[order], torch.nn.functional.pad(moved, (0, 2), value=-1))
    torch.testing.assert_close(one, other)


def test_it_starts_near_the_document_and_its_nodes() -> None:
    """W_d, W_m and W_o are the identity: the mean of nearly equal weights is added to x, then centred."""
    enriched, weights = make_combiner(D, Design()).eval()(X, NODES, PLACES)
    mixed = X[0] + weights[0] @ NODES[[0, 3, 6]]
    centred = torch.nn.functional.normalize(mixed - mixed.mean(), dim=0)
    torch.testing.assert_close(enriched[0], centred, rtol=0, atol=1e-4)
    assert weights[0].min() > 0.2


def test_the_projections_keep_a_spectral_norm_of_one() -> None:
    combiner = make_combiner(D, Design())
    with torch.no_grad():
        combiner.of_nodes.parametrizations.weight.original.mul_(7).add_(0.5)  # type: ignore[union-attr,operator]
        for _ in range(30):
            combiner(X, NODES, PLACES)
    norm = torch.linalg.matrix_norm(combiner.of_nodes.weight.detach(), 2)
    assert float(norm) == pytest.approx(1, abs=1e-3)
    plain = make_combiner(D, Design(spectral_norm=False))
    assert not hasattr(plain.of_nodes, "parametrizations")


def test_the_same_seed_gives_the_same_combiner_and_global_random_numbers_are_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    one = make_combiner(D, Design(), seed=1)
    assert torch.equal(torch.rand(2), expected)
    for name, tensor in make_combiner(D, Design(), seed=1).state_dict().items():
        assert torch.equal(tensor, one.state_dict()[name]), name


def sage(combiner: Combiner, x: Tensor, nodes: list[Tensor], sure: list[float]) -> tuple[Tensor, list[float]]:
    """GraphSAGE of one text, node by node and column by column."""
    said = [chance * combiner.of_nodes(node).clamp(min=0) for node, chance in zip(nodes, sure, strict=True)]
    most, wins = torch.zeros(D), [0.0] * len(nodes)
    for column in range(D):
        values = [float(vector[column]) for vector in said]
        if values and max(values) > 0:
            most[column] = max(values)
            wins[values.index(max(values))] += 1
    y = combiner.out(torch.cat([x, most]))
    return y / y.norm(), [win / max(1, sum(wins)) for win in wins]


def layer(combiner: Combiner, x: Tensor, nodes: list[Tensor], sure: list[float]) -> tuple[Tensor, list[float]]:
    """A transformer layer of one text and its nodes, head by head."""
    heads = combiner.design.heads
    both, chances, pooled, weights = [x, *nodes], [1.0, *sure], torch.zeros(D), [0.0] * len(nodes)
    for head in range(heads):
        part = slice(head * D // heads, (head + 1) * D // heads)
        logits = [float(combiner.query(x)[part] @ combiner.key(v)[part]) / math.sqrt(D // heads) for v in both]
        powers = [math.exp(logit) * chance for logit, chance in zip(logits, chances, strict=True)]
        for k, (vector, power) in enumerate(zip(both, powers, strict=True)):
            pooled[part] += power / sum(powers) * combiner.value(vector)[part]
            if k:
                weights[k - 1] += power / sum(powers) / heads
    hidden = combiner.norm(x + combiner.out(pooled))
    y = combiner.last_norm(hidden + combiner.outer(torch.nn.functional.gelu(combiner.inner(hidden))))
    return y / y.norm(), weights


@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize(("kind", "naive"), [("graphsage", sage), ("graphformers", layer)])
def test_a_graph_encoder_is_the_textbook(kind: str, naive: Callable[..., Any], certain: bool) -> None:
    combiner = moved(ENCODERS[kind])
    chances = (
        torch.ones(PLACES.shape) if certain else torch.rand(PLACES.shape, generator=torch.Generator().manual_seed(5))
    )
    with torch.no_grad():
        found, weights = combiner(X, NODES, PLACES, None if certain else chances)
        for i in range(B):
            there = [int(place) for place in PLACES[i] if place >= 0]
            expected, shares = naive(combiner, X[i], [NODES[k] for k in there], chances[i, : len(there)].tolist())
            torch.testing.assert_close(found[i], expected)
            assert weights[i, : len(there)].tolist() == pytest.approx(shares, abs=1e-6)
            assert not weights[i, len(there) :].any()
        alone = combiner.alone(X)
        none, _ = combiner(X, NODES, PLACES, torch.zeros(PLACES.shape))
    torch.testing.assert_close(found[2], alone[2])
    torch.testing.assert_close(none, alone)  # a node that is surely none says nothing
    assert (found[[0, 1, 3, 4]] - alone[[0, 1, 3, 4]]).abs().max(1).values.min() > 1e-3


def test_what_a_graph_encoder_makes_of_all_is_what_it_makes_of_a_batch() -> None:
    made = Enrichment(NODES.numpy(), moved(ENCODERS["graphsage"])).eval()
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(made.alone(X.numpy())), made.combiner.alone(X))
    passing = enrichment()
    assert passing.alone(X.numpy()) is not None
    np.testing.assert_array_equal(passing.alone(X.numpy()), X.numpy())


def test_a_mean_that_was_kept_before_there_were_more_kinds_is_one(tmp_path: Path) -> None:
    made = enrichment(Design("mean"))
    made.save(tmp_path)
    old = {name: value for name, value in made.settings().items() if name != "kind"} | {"attention": False}
    assert Enrichment.load(tmp_path, old).combiner.design == Design("mean")


def enrichment(design: Design | None = None) -> Enrichment:
    return Enrichment(NODES.numpy() * 2, make_combiner(D, design or Design())).eval()


def test_a_step_touches_the_nodes_of_its_documents_only() -> None:
    made = enrichment()
    enriched, _ = made.combiner(X, made.read(torch.tensor([1, 4])), torch.tensor([[0], [1], [-1], [0], [-1]]))
    enriched.sum().backward()
    gradient = made.bank.weight.grad
    assert gradient is not None
    assert gradient.is_sparse
    assert gradient.coalesce().indices()[0].tolist() == [1, 4]


def test_a_whole_bank_reads_as_one_that_is_added_to_the_texts() -> None:
    made, texts = enrichment(), units(A, 7)
    whole = made.whole(texts.numpy()).eval()
    torch.testing.assert_close(whole.read(torch.arange(A)), made.read(torch.arange(A), texts))
    expected = torch.nn.functional.normalize(made.bank.weight.detach() + texts)
    torch.testing.assert_close(whole.read(torch.arange(A)).detach(), expected)
    found = made.enrich(X.numpy(), PLACES.numpy(), texts.numpy())
    np.testing.assert_allclose(found[0], whole.enrich(X.numpy(), PLACES.numpy())[0], atol=1e-6)


@pytest.mark.parametrize("block", [1, 2, 100])
def test_any_number_of_documents_is_enriched_as_a_batch_is(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtail.modules.enrichment._BLOCK", block)
    made = enrichment(Design(dropout=0.5)).train()
    enriched, weights = made.enrich(X.numpy(), PLACES.numpy())
    assert made.training
    with torch.no_grad():
        expected = made.eval().combiner(X, made.read(torch.arange(A)), PLACES)
    np.testing.assert_allclose(enriched, expected[0], atol=1e-6)
    np.testing.assert_allclose(weights, expected[1], atol=1e-6)
    assert made.enrich(X.numpy()[:0], PLACES.numpy()[:0])[0].shape == (0, D)


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_saved_and_loaded_it_is_bit_equal(design: Design, tmp_path: Path) -> None:
    made = enrichment(design)
    made.save(tmp_path)
    loaded = Enrichment.load(tmp_path, made.settings())
    found, expected = (part.enrich(X.numpy(), PLACES.numpy()) for part in (loaded, made))
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])
    assert [path.name for path in tmp_path.iterdir()] == ["enrichment.safetensors"]
    assert made.settings()["nodes"] == A
    bank = load_file(tmp_path / "enrichment.safetensors")["bank"]  # named as when it was a plain parameter
    assert torch.equal(bank, made.bank.weight)


def test_how_evenly_documents_weigh_their_nodes() -> None:
    links = np.array([[4, 5], [3, -1], [-1, -1], [1, 2]])
    even = np.array([[0.5, 0.5], [1, 0], [0, 0], [0.5, 0.5]], np.float32)
    assert attention_entropy(even, links) == pytest.approx(1)
    assert attention_entropy(np.array([[1, 0], [1, 0], [0, 0], [0, 1]], np.float32), links) == pytest.approx(0)
    assert attention_entropy(np.array([[1, 0], [1, 0], [0, 0], [0.5, 0.5]], np.float32), links) == pytest.approx(0.5)
    assert attention_entropy(even * 0.4, links) == pytest.approx(1)  # of links that are not certain
    assert math.isnan(attention_entropy(even[1:3], links[1:3]))
