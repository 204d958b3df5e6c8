"""The terms of metadata graphs: their values, bad graphs, and that a resumed run goes on as if it had not stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from longtail import Dataset, recipes
from longtail.batches.loader import Loader
from longtail.batches.pool import Pool
from longtail.batches.samplers import Shuffled
from longtail.data.graph import Graph
from longtail.data.sparse import CSR, csr_of_lists
from longtail.data.texts import Strings
from longtail.errors import BadInput
from longtail.losses.triplet import triplet
from longtail.modules.encoders.base import encode_together
from longtail.options import parsed
from longtail.stages.graphs import GraphOptions, GraphTerms, graph_terms
from longtail.stages.task import read
from longtail.stages.text import Text, TextOptions
from longtail.testing.planted import planted
from longtail.train import fit as module
from longtail.train.log import Log
from longtail.train.run import Run

NODES = Strings.of(["running shoe", "", "dining table", "shoe table"])
OF_DOCUMENTS = csr_of_lists([[0, 1], [2], [], [2, 3]], 4)
OF_LABELS = csr_of_lists([[0], [2]], 4)


ONE = Graph(NODES, OF_DOCUMENTS, None)


def dataset(**graphs: Graph) -> Dataset:
    plain = Dataset.from_texts(
        ["red shoe", "oak table", "blue shoe", "pine table"], [[0], [1], [0], [1]], ["shoe", "table"]
    )
    return replace(plain, graphs=graphs)


@dataclass(frozen=True, kw_only=True)
class Options(GraphOptions, TextOptions):
    """Of a recipe with graphs."""

    width: int = 8


def terms_of(data: Dataset, **options: object) -> tuple[Text, GraphTerms]:
    o = parsed(Options, "test", options)
    task = read(Run(), data, o)
    return task.text, graph_terms(task, o, loss="triplet", first=2, every=1)


def batches_of(data: Dataset, text: Text, terms: GraphTerms) -> Loader:
    pool = Pool(data.train.targets, random=2)
    return text.batches(data.train, Shuffled(4, 4, seed=0), pool, graphs=terms.pools)


def test_a_term_is_its_weight_times_the_loss_of_a_side_over_all_its_rows() -> None:
    """Three of four documents and each label have a neighbour in the one graph, one of two labels in the other."""
    one_label = csr_of_lists([[], [2]], 4)
    data = dataset(one=Graph(NODES, OF_DOCUMENTS, OF_LABELS), two=Graph(NODES, None, one_label))
    text, terms = terms_of(data, graph_weights="fixed:0.25", graph_share=1.0)
    (batch,) = batches_of(data, text, terms).epoch(0)
    x, z, *anchors = encode_together(text.encoder, batch.documents, batch.labels, *batch.nodes)
    found = terms.terms(batch, x @ z.T, x, z, anchors)
    assert found.keys() == {"one.documents", "one.labels", "two.labels"}
    nodes = text.embed(text.encoder.tokenizer(NODES))
    for name, value in found.items():
        graph, side = name.split(".")
        linked, ids = batch.graphs[graph].sides[side], batch.graphs[graph].node_ids
        vectors = {"documents": x, "labels": z}[side][linked.at]
        linked_share = {"one.documents": 0.75, "one.labels": 1.0, "two.labels": 0.5}[name]
        expected = 0.25 * linked_share * triplet(vectors @ torch.from_numpy(nodes)[ids].T, linked.targets, linked.mask)
        torch.testing.assert_close(value, expected)
    assert 1 not in batch.graphs["one"].node_ids  # a node without text is no anchor
    assert sum(found.values()).requires_grad


def test_without_graphs_nothing_is_done() -> None:
    data = dataset()
    text, terms = terms_of(data, graphs=("none",))
    (batch,) = batches_of(data, text, terms).epoch(0)
    x, z = encode_together(text.encoder, batch.documents, batch.labels, *batch.nodes)
    assert terms.terms(batch, x @ z.T, x, z, []) == {}
    terms.before_epoch(0)
    terms.load_state_dict(terms.state_dict())


def test_the_walk_and_the_sides_are_as_asked() -> None:
    data = dataset(one=Graph(NODES, OF_DOCUMENTS, OF_LABELS))
    _, terms = terms_of(data, walk_restart=1.0, graph_sides=("documents",))
    assert terms.pools["one"].counts() == {"documents": 4}  # the edge to the node without text is left out
    _, terms = terms_of(data, walk_restart=1.0, hub_degree=1)
    assert terms.pools["one"].counts() == {"documents": 2, "labels": 2}  # node 2 has two documents
    _, walked = terms_of(data)
    assert walked.pools["one"].counts()["documents"] == 5  # 1 - 2 - 3 - 3: document 1 finds node 3


@pytest.mark.parametrize("sides", [("documents", "labels"), ("labels", "documents")])
def test_a_pruning_encodes_in_one_order(sides: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes encode together: each must come to the same texts, whatever the order of a set is there."""
    text, terms = terms_of(dataset(one=Graph(NODES, OF_DOCUMENTS, OF_LABELS)), graph_sides=sides, prune=True)
    pool, encoded = terms.pools["one"], []
    monkeypatch.setattr(pool, "edges", {side: pool.edges[side] for side in sides})
    embed = Text.embed
    monkeypatch.setattr(Text, "embed", lambda self, table: (encoded.append(len(table)), embed(self, table))[1])
    terms.before_epoch(2)
    assert encoded == [len(text.documents), len(text.labels), len(NODES)]


def test_nodes_of_too_few_training_documents_are_left_out() -> None:
    """Node 2 has two documents, nodes 0 and 3 one each; labels count where there are no documents."""
    data = dataset(one=Graph(NODES, OF_DOCUMENTS, OF_LABELS), two=Graph(NODES, None, csr_of_lists([[0, 2], [2]], 4)))
    _, terms = terms_of(data, walk_restart=1.0, node_documents=2)
    assert terms.pools["one"].counts() == {"documents": 2, "labels": 1}
    assert terms.pools["two"].counts() == {"labels": 2}


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (None, {}, r"^graphs: the data set has no graph; train without: graphs none"),
        (
            Graph(NODES, OF_DOCUMENTS, None),
            {"graphs": ("one", "tag")},
            r"the data set has no graph tag; its graphs are: one",
        ),
        (Graph(NODES, OF_DOCUMENTS, None), {"graph_sides": ("labels",)}, r"graph one has no edges of labels"),
        (Graph(NODES, CSR((4, 4), dtype=np.float32), None), {}, r"graph one has no edges of documents or labels"),
        (Graph(Strings.of([""] * 4), OF_DOCUMENTS, OF_LABELS), {}, r"graph one has no edges of documents or labels"),
        (
            Graph(NODES, OF_DOCUMENTS, None),
            {"graph_sides": ("nodes",)},
            r"^graph_sides: expected one of documents, labels, found nodes",
        ),
        (Graph(NODES, OF_DOCUMENTS, None), {"node_documents": 3}, r"graph one has no edges of documents or labels"),
        (Graph(NODES, OF_DOCUMENTS, None), {"graph_weights": "often"}, r"expected bandit, .* found often"),
        (Graph(NODES, OF_DOCUMENTS, None), {"graph_weights": "fixed:a lot"}, r"expected bandit, .* found fixed:a lot"),
        (
            Graph(NODES, OF_DOCUMENTS, None),
            {"walk_restart": 0.0},
            r"^walk_restart: expected above 0 and at most 1, found 0",
        ),
    ],
    ids=str,
)
def test_bad_graphs_and_arguments(graph: Graph | None, options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        terms_of(dataset(**({} if graph is None else {"one": graph})), **options)


def test_of_all_graphs_those_that_say_nothing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name they are refused."""
    said: list[str] = []
    monkeypatch.setattr(Log, "say", lambda _, line: said.append(line))
    problem = "graph codes has no edges of documents or labels to nodes with a known word"
    says, codes = Graph(NODES, OF_DOCUMENTS, OF_LABELS), Graph(Strings.of(["#"] * 4), OF_DOCUMENTS, OF_LABELS)
    for graphs in ({"codes": codes, "one": says}, {"one": says, "codes": codes}):
        _, terms = terms_of(dataset(**graphs))
        assert list(terms.pools) == ["one"]
        assert said.pop() == f"{problem}, and is left out"
        assert not said
        with pytest.raises(BadInput, match=problem):
            terms_of(dataset(**graphs), graphs=("one", "codes"))
    with pytest.raises(BadInput, match="graph other has no edges"):
        terms_of(dataset(codes=codes, other=codes))


def test_a_base_that_is_none() -> None:
    with pytest.raises(BadInput, match="base: expected one of ngame, ance, found dpr"):
        recipes.ramen(dataset(), base="dpr")


SMALL = {"batch": 64, "random_negatives": 32, "width": 16, "warmup": 5, "epochs": 4, "refresh_from": 1}
SMALL |= {"learning_rate": 0.02, "classifier_epochs": 0, "device": "cpu", "graph_redraw": 3}


@pytest.mark.parametrize(("base", "walk_again"), [("ngame", False), ("ngame", True), ("ance", False)])
def test_a_resumed_run_ends_as_an_unbroken_one(
    base: str, walk_again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = planted(0, documents=600, labels=120).dataset
    plain, steps = module.take_step, {"left": 23}

    def dying(*arguments: object, **options: object) -> dict[str, float]:
        if steps["left"] == 0:
            raise KeyboardInterrupt
        steps["left"] -= 1
        return plain(*arguments, **options)

    def run(name: str) -> Run:
        return Run(tmp_path / name, Log(tmp_path / name / "metrics.jsonl"), interval=0)

    options = {**SMALL, "base": base, "walk_again": walk_again, "graph_weights": "bandit:0.03"}
    recipes.ramen(data, out=run("whole"), **options)
    with monkeypatch.context() as patch:
        patch.setattr(module, "take_step", dying)
        with pytest.raises(KeyboardInterrupt):
            recipes.ramen(data, out=run("broken"), **options)
    assert (tmp_path / "broken" / "stages" / "encoder.checkpoint.safetensors").exists()
    recipes.ramen(data, out=run("broken"), **options)
    whole, broken = (load_file(tmp_path / name / "model" / "labels.safetensors") for name in ("whole", "broken"))
    np.testing.assert_array_equal(whole["encoder"], broken["encoder"])
    logs = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("whole", "broken")]
    notes, resumed = ([line for line in map(json.loads, log) if "graphs" in line] for log in logs)
    assert notes == resumed
    assert len(notes) == 4
    first, last = (notes[i]["graphs"]["topic.documents"] for i in (0, 3))
    assert last["edges"] < first["edges"]  # pruned
    assert last["weight"] != first["weight"] == 0.03  # learned


@pytest.mark.parametrize("base", ["ngame", "ance"])
def test_the_bundle_is_that_of_the_base(base: str, tmp_path: Path) -> None:
    """Without graphs the same numbers; with them the same files, of the same size, that predict the same way."""
    data = planted(0, documents=600, labels=120).dataset
    options = {**SMALL, "classifier_epochs": 2, "epochs": 2}
    shared = {"refresh_from", "graph_redraw", "classifier_epochs" if base == "ance" else ""}
    own = {"ngame": {"cluster_from": 1}, "ance": {"mine_from": 1}}[base]
    plain = recipes.RECIPES[base](
        data, out=tmp_path / "base", **own, **{k: v for k, v in options.items() if k not in shared}
    )
    without = recipes.ramen(data, base=base, graphs=("none",), **options)
    for kind in plain.vectors:
        np.testing.assert_array_equal(plain.vectors[kind], without.vectors[kind])
    ramen = recipes.ramen(data, base=base, out=tmp_path / "ramen", **options)
    sizes = [
        {
            path.relative_to(model): path.stat().st_size
            for path in model.rglob("*")
            if path.is_file() and path.name not in ("bundle.json", "calibration.safetensors")
        }
        for model in (tmp_path / "base" / "model", tmp_path / "ramen" / "model")
    ]
    assert sizes[0] == sizes[1]
    cards = [json.loads((tmp_path / name / "model" / "bundle.json").read_text()) for name in ("base", "ramen")]
    assert cards[0].keys() == cards[1].keys()
    assert all(cards[0][key] == cards[1][key] for key in cards[0].keys() - {"recipe", "sha256", "digest"})
    assert ramen.kinds == plain.kinds
    assert not np.array_equal(ramen.vectors["encoder"], plain.vectors["encoder"])
