"""UniDEC, OAK, RAMEN and Gandalf in one recipe: each alone changes nothing of the others, and all go together."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longtail import Dataset, LongtailError, load, recipes
from longtail.data.graph import Graph
from longtail.data.sparse import CSR, csr_of_lists
from longtail.stages.linking import LINKERS, Linking
from longtail.stages.recipe import MADE, options_class
from longtail.stages.text import TextOptions
from longtail.testing.planted import planted_links
from longtail.train import fit as fit_module
from longtail.train.log import read_log
from longtail.train.plan import Plan, Planned
from longtail.train.run import Run

SMALL: dict[str, Any] = {"batch": 64, "random_negatives": 32, "width": 16, "warmup": 5, "epochs": 2, "device": "cpu"}
SMALL |= {"validation": 0.15, "linker": "ngame", "linker_epochs": 1, "memory": False}
UNIDEC = {**SMALL, "refresh_from": 1, "hard_negatives": 2, "refit": False}
NGAME = {**SMALL, "cluster_from": 1, "classifier_epochs": 1}
PARTS = {"enrich": "kin", "graphs": ("kin",), "augment": "gandalf"}


@pytest.fixture(scope="module")
def data() -> Dataset:
    made = planted_links(0, documents=240, test_documents=40, labels=40).dataset
    kin = made.graphs["kin"]
    of_labels = csr_of_lists([[2 * label, 2 * label + 1] for label in range(40)], len(kin.nodes))
    return replace(made, graphs={"kin": Graph(kin.nodes, kin.train, of_labels)})


@pytest.mark.parametrize("parts", list(product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize(("recipe", "options"), [("unidec", UNIDEC), ("oak", NGAME)])
def test_all_sixteen_train_and_are_served_as_they_were_trained(
    recipe: str, options: dict[str, Any], parts: tuple[bool, ...], data: Dataset, tmp_path: Path
) -> None:
    chosen = {name: value for (name, value), on in zip(PARTS.items(), parts, strict=True) if on}
    chosen = {"enrich": "none", "graphs": ("none",), **chosen}
    trained = getattr(recipes, recipe)(data, out=tmp_path / "run", **options, **chosen)
    opened = load(tmp_path / "run", device="cpu")
    assert data.test is not None
    for kind in trained.kinds:
        one, other = (model.rank(data.test.documents, 5, kind=kind) for model in (trained, opened))
        np.testing.assert_array_equal(one.scores, other.scores)
    enriched, with_graph, more_rows = parts
    assert ("plain" in trained.kinds) == (opened.linked is not None) == enriched
    log = read_log(tmp_path / "run" / "metrics.jsonl")
    assert any("graphs" in line for line in log) == with_graph
    plan = next(line["plan"] for line in log if "plan" in line)
    stages = {stage["stage"]: stage["rows"] for stage in plan["stages"]}
    assert (stages["joint" if recipe == "unidec" else "encoder"] > 240) == more_rows
    assert any(name.startswith("linker ") for name in stages) == enriched


def test_no_link_gives_unidec_bit_by_bit(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Linking, "links_to_train_with", lambda self: CSR(self.train.targets.shape))
    enriched, plain = recipes.unidec(data, **UNIDEC, enrich="kin"), recipes.unidec(data, **UNIDEC)
    assert enriched.linked is not None
    for kind, table in plain.vectors.items():
        np.testing.assert_array_equal(enriched.vectors[kind], table)
    none = np.full((len(data.train), 3), -1)
    x, other = enriched.encode(data.train.documents, none), plain.encode(data.train.documents)
    for kind, same in (("encoder", "encoder"), ("plain", "encoder"), ("classifier", "classifier")):
        np.testing.assert_array_equal(enriched.queries(x, kind), plain.queries(other, same))
    of_text, with_bias = enriched.queries(x, "plain-classifier"), plain.queries(other, "classifier")
    np.testing.assert_array_equal(of_text, with_bias[:, :-1])
    np.testing.assert_array_equal(enriched.vectors["plain-classifier"], plain.vectors["classifier"][:, :-1])


@pytest.mark.parametrize(
    "options",
    [
        {"train_links": "out-of-fold"},
        {"share_encoder": True},
        {"bank": False},
        {"bank_residual": True, "binary_weight": 0.1},
        {"combiner": "early"},
        {"combiner": "mean", "plain_weight": 0.0, "plain_classifiers": False},
    ],
    ids=str,
)
def test_each_way_of_enriching_ends_as_a_model_that_is_served(
    options: dict[str, Any], data: Dataset, tmp_path: Path
) -> None:
    trained = recipes.unidec(data, out=tmp_path / "run", **UNIDEC, enrich="kin", **options)
    opened = load(tmp_path / "run", device="cpu")
    assert data.test is not None
    for kind in trained.kinds:
        one, other = (model.rank(data.test.documents, 5, kind=kind) for model in (trained, opened))
        np.testing.assert_array_equal(one.scores, other.scores)
    assert ("plain-classifier" in trained.kinds) == (options.get("combiner", "attention") == "attention")
    x = trained.encode(data.test.documents)
    differs = np.abs(trained.queries(x, "encoder") - trained.queries(x, "plain")).max(1)
    assert (differs > 1e-4).mean() > 0.9  # documents are enriched


def test_a_run_of_all_four_goes_on_where_it_was_killed(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = recipes.unidec(data, **UNIDEC, **PARTS)
    take, steps = fit_module.take_step, 0

    def killed(*given: Any, **more: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps in {3, 14, 20}:
            raise KeyboardInterrupt
        return take(*given, **more)

    monkeypatch.setattr(fit_module, "take_step", killed)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            recipes.unidec(data, out=tmp_path / "run", **UNIDEC, **PARTS)
    model = recipes.unidec(data, out=tmp_path / "run", **UNIDEC, **PARTS)
    for kind, table in whole.vectors.items():
        np.testing.assert_array_equal(model.vectors[kind], table)
    assert model.linked is not None
    assert whole.linked is not None
    assert torch.equal(model.linked.enrichment.bank.weight, whole.linked.enrichment.bank.weight)  # type: ignore[union-attr]


def test_a_dry_run_counts_each_part_and_writes_nothing(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = []
    tried: list[set[str]] = []  # the terms of steps that are tried
    take = fit_module.take_step

    def step(*given: Any, **more: Any) -> dict[str, float]:
        values = take(*given, **more)
        tried[-1] |= values.keys()
        return values

    monkeypatch.setattr(fit_module, "take_step", step)
    monkeypatch.setattr(Plan, "table", lambda plan: plans.append(plan) or "")
    without = [{name: value for name, value in PARTS.items() if name != part} for part in PARTS]
    for parts in (PARTS, *without):
        tried.append(set())
        with pytest.raises(Planned):
            recipes.unidec(data, out=Run(tmp_path / "run", dry=True), **UNIDEC, **parts)
    assert not (tmp_path / "run").exists()
    whole, no_links, _, no_rows = ({stage.stage: stage for stage in plan.stages} for plan in plans)
    assert whole.keys() - no_links.keys() == {"linker encoder", "linker classifiers"}
    bank, projections, norm = len(data.graphs["kin"].nodes) * 16, 3 * (16 + 1) * 16, 2 * 16
    assert whole["joint"].parameters - no_links["joint"].parameters == bank + projections + norm
    assert tried[0] - tried[2] == {"kin.documents", "kin.labels"}
    encoded = [plan.work["encoding texts"].times for plan in plans]
    assert encoded[0] - encoded[2] == 3  # documents, labels and nodes, to prune the graph
    assert whole["joint"].rows - no_rows["joint"].rows == len(data.labels)


def test_projections_of_the_thesis_and_nodes_do_not_go_together(data: Dataset) -> None:
    with pytest.raises(LongtailError, match="projection: documents with projections of the thesis are not enriched"):
        recipes.unidec(data, **UNIDEC, enrich="kin", projection=8)


def test_every_linker_is_a_recipe() -> None:
    with_encoder = {name for name, recipe in recipes.RECIPES.items() if issubclass(options_class(recipe), TextOptions)}
    link_themselves = {"oak", "graphsage", "graphformers", "pina", "galaxc"}
    assert set(LINKERS) == with_encoder - link_themselves - {"simcse"}  # which learns no labels
    assert set(LINKERS) <= MADE.keys()
