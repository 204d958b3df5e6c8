"""Presets of the papers: options that the recipes have, each with its source, and runs that they begin."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console
from tiny_bert import write_fresh_bert

from longtail.compare.methods import Method, distinct
from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.options import options_of, text_of
from longtail.recipes import RECIPES
from longtail.recipes.papers import PAPERS
from longtail.stages.linking import LinkOptions
from longtail.stages.preset import TEXTS
from longtail.stages.recipe import RunOptions, options_class, recipe
from longtail.testing.planted import planted_links
from longtail.train.course import Pace
from longtail.train.log import Log
from longtail.train.optimizer import AdamW
from longtail.train.plan import Planned
from longtail.train.progress import settings_of
from longtail.train.run import Run

ROOT = Path(__file__).parents[2]
every_recipe = pytest.mark.parametrize("name", RECIPES)
SMALL = {"epochs": 1, "batch": 16, "width": 16, "warmup": 5, "device": "cpu"}
EPOCHS = dict.fromkeys(("start_epochs", "classifier_epochs", "detached_epochs", "linker_epochs"), 1)
ALSO_SMALL = {**EPOCHS, "labels_at_once": 50, "projection": 8}
NO_TRANSFORMERS = ("bag", "convolution", "lstm")
STEPS = 20


def small(name: str) -> dict[str, object]:
    """Options of a recipe that make it cheap; its encoder is not the paper's."""
    known = options_of(options_class(RECIPES[name]))
    given = {key: value for key, value in (SMALL | ALSO_SMALL).items() if key in known}
    return given | ({"encoder": known["encoder"].default} if "encoder" in known else {})


@every_recipe
def test_every_number_of_a_paper_is_an_option_of_its_recipe_and_has_a_source(name: str) -> None:
    known, paper = options_of(options_class(RECIPES[name])), PAPERS[name]
    assert paper.by_data.keys() <= TEXTS.keys()
    for data in ("another set", *TEXTS):
        for option, setting in paper.named(data).items():
            assert known[option].value(setting.value) == setting.value, (data, option)
            assert len(setting.source) > 5


@pytest.mark.parametrize("name", [name for name in RECIPES if issubclass(options_class(RECIPES[name]), LinkOptions)])
def test_what_a_linker_is_and_how_long_it_trains_comes_from_the_paper_or_is_said_not_to(name: str) -> None:
    if options_class(RECIPES[name]).enrich == "none":
        return  # no linker is trained
    said = " ".join(PAPERS[name].departs)
    for option in ("linker", "linker_epochs"):
        assert option in PAPERS[name].settings or f"--{option.replace('_', '-')} " in said


@pytest.fixture(scope="module")
def official() -> Dataset:
    """A planted set by the name of an official one; the 5 % that some recipes hold out leave `STEPS` batches."""
    rows = STEPS * SMALL["batch"]
    return replace(planted_links(0, documents=rows + rows // 19 + 1, labels=40).dataset, name="LF-Amazon-131K")


@pytest.fixture(scope="module")
def tiny_transformer(official: Dataset, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a BERT of 2 layers, 32 wide, with random weights, that has read no text but knows each word."""
    texts = [official.train.documents.fields["title"], official.labels.fields["title"]]
    texts += [graph.nodes for graph in official.graphs.values()]
    words = {word for column in texts for text in column for word in text.split()}
    write_fresh_bert(folder := tmp_path_factory.mktemp("tiny"), sorted(words), length=128)
    return str(folder)


@every_recipe
def test_twenty_steps_as_the_paper_has_them(
    name: str, official: Dataset, tiny_transformer: str, tmp_path: Path
) -> None:
    paper, given = PAPERS[name].named("LF-Amazon-131K"), small(name)
    if "encoder" in paper and paper["encoder"].value not in NO_TRANSFORMERS:
        given["encoder"] = tiny_transformer
    RECIPES[name](official, out=tmp_path / "run", preset="paper", **given)
    arguments = settings_of(tmp_path / "run")["arguments"]
    for option, setting in paper.items():
        if option not in given:
            expected = list(setting.value) if isinstance(setting.value, tuple) else setting.value
            assert arguments[option] == expected, option
    assert {key: arguments[key] for key in given} == given  # what is given comes before it
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = {line["stage"]: line["step"] for line in lines if "step" in line}
    assert max(steps.values()) >= STEPS if "batch" in given else not steps, steps


@pytest.mark.parametrize("name", [name for name in RECIPES if "encoder" in small(name)])
def test_the_plan_of_the_paper_for_a_transformer(name: str, tiny_bert) -> None:
    data = planted_links(0, documents=200, labels=30).dataset
    given = small(name) | ({"encoder": str(tiny_bert), "max_length": 8} if "width" not in PAPERS[name].settings else {})
    with pytest.raises(Planned):
        RECIPES[name](data, out=Run(log=Log(None, Console(quiet=True)), dry=True), preset="paper", **given)


@pytest.mark.parametrize(
    ("name", "option"),
    [(name, key) for name in RECIPES for key, o in options_of(options_class(RECIPES[name])).items() if o.calls],
)
def test_every_loss_of_a_recipe_may_have_options(name: str, option: str) -> None:
    data = planted_links(0, documents=200, labels=30).dataset
    loss = options_of(options_class(RECIPES[name]))[option].default or "triplet"
    given = small(name) | {option: f"{loss}:temperature=0.2"}
    with pytest.raises(Planned):
        RECIPES[name](data, out=Run(log=Log(None, Console(quiet=True)), dry=True), **given)


@pytest.mark.parametrize(("named", "whose"), [("LF-Amazon-131K", "LF-Amazon-131K"), ("own", "every data set")])
def test_a_run_says_what_its_paper_sets_before_the_plan(named: str, whose: str) -> None:
    data = replace(planted_links(0, documents=200, labels=30).dataset, name=named)
    log = Log(None, Console(file=(said := io.StringIO())))
    with pytest.raises(Planned):
        RECIPES["dpr"](data, out=Run(log=log, dry=True), preset="paper", **small("dpr"))
    line = said.getvalue().splitlines()[0]
    assert line.startswith(f"the paper's settings for {whose}: ")
    assert "batch=" not in line, "which is given by name"
    for option, setting in PAPERS["dpr"].named(named).items():
        assert (f"{option}={text_of(setting.value)}" in line) == (option not in small("dpr"))


def test_a_transformer_with_far_fewer_epochs_than_its_paper_is_told_so(tiny_bert) -> None:
    data = planted_links(0, documents=200, labels=30).dataset
    for epochs, encoder, told in ((7, str(tiny_bert), True), (8, str(tiny_bert), False), (7, "bag", False)):
        log = Log(None, Console(file=(said := io.StringIO()), width=200))
        with pytest.raises(Planned):
            RECIPES["dpr"](data, out=Run(log=log, dry=True), encoder=encoder, epochs=epochs, max_length=8, batch=100)
        line = f"{epochs} epochs are few for a transformer: the paper has 40;"
        assert (line in said.getvalue()) == told


def test_free_classifiers_of_a_binary_cross_entropy_are_told_that_they_have_no_bias() -> None:
    data, options = planted_links(0, documents=200, labels=30).dataset, options_class(RECIPES["unidec"])
    for classifiers, weight, told in (("free", 0.01, True), ("residual", 0.01, False), ("free", 0.0, False)):
        said = options(classifiers=classifiers, binary_weight=weight).advice(data)
        assert any("free classifiers have no bias" in line for line in said) == told


def rises_otherwise(name: str) -> bool:
    """Whether a paper has another warm-up than is usual."""
    setting = PAPERS[name].settings.get("warmup")
    return setting is not None and setting.value != options_of(options_class(RECIPES[name]))["warmup"].default


@pytest.mark.parametrize("name", [name for name in RECIPES if rises_otherwise(name)])
def test_rates_rise_as_long_as_in_the_paper(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, paces, train = planted_links(0, documents=200, labels=30).dataset, [], Run.train

    def noted(run: Run, stage: str, *others: object, pace: Pace, **named: object) -> None:
        paces.append(pace)
        train(run, stage, *others, pace=pace, **named)

    monkeypatch.setattr(Run, "train", noted)
    given = {key: value for key, value in small(name).items() if key != "warmup"}
    with pytest.raises(Planned):
        RECIPES[name](data, out=Run(log=Log(None, Console(quiet=True)), dry=True), preset="paper", **given)
    assert PAPERS[name].settings["warmup"].value in {pace.warmup for pace in paces}


@pytest.mark.parametrize("name", [name for name in RECIPES if "encoder_decay" in PAPERS[name].settings])
def test_a_transformer_has_the_weight_decay_of_its_paper_and_a_bag_none(
    name: str, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, found, train = planted_links(0, documents=200, labels=30).dataset, set(), Run.train

    def noted(run: Run, stage: str, objective: object, batches: object, optimizer: AdamW, *others: object, **named):
        found.update(group["weight_decay"] for group in optimizer.param_groups)
        train(run, stage, objective, batches, optimizer, *others, **named)

    monkeypatch.setattr(Run, "train", noted)
    for encoder, decays in (("bag", {0.0}), (str(tiny_bert), {0.0, PAPERS[name].settings["encoder_decay"].value})):
        found.clear()
        given = small(name) | {"encoder": encoder, "max_length": 8}
        with pytest.raises(Planned):
            RECIPES[name](data, out=Run(log=Log(None, Console(quiet=True)), dry=True), preset="paper", **given)
        assert found == decays


@pytest.mark.parametrize(("name", "rising"), [("unidec", 3), ("depsl", 3), ("cascadexml", 1)])
def test_a_warm_up_in_epochs_is_their_share_of_all(name: str, rising: int) -> None:
    for data in ("another set", *TEXTS):
        paper = PAPERS[name].named(data)
        assert paper["warmup"].value * paper["epochs"].value == pytest.approx(rising)


def test_a_recipe_without_a_paper_has_no_preset_of_one() -> None:
    page = recipe(RunOptions)(lambda run, dataset, o: None)
    with pytest.raises(BadInput, match="preset: <lambda> has none that is called paper; leave it out"):
        page(planted_links(0, documents=50, labels=20).dataset, preset="paper")


def test_another_preset_is_refused() -> None:
    with pytest.raises(BadInput, match="preset: expected one of best, paper, found worst"):
        RECIPES["dpr"](planted_links(0, documents=50, labels=20).dataset, preset="worst")


@pytest.fixture(scope="module")
def reproducing() -> ModuleType:
    """The script of the page of the tables."""
    spec = spec_from_file_location("reproducing", ROOT / "benchmarks" / "reproducing.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_tables_is_what_its_script_writes(reproducing: ModuleType) -> None:
    assert (ROOT / "docs" / "explanation" / "reproducing.md").read_text(encoding="utf-8") == reproducing.page()
    for (_, _, data), rows in reproducing.published():
        assert data in TEXTS
        assert all(row["recipe"] or row["note"] for row in rows)  # the note says why there is no command
        assert all(row["recipe"] for row in rows if row["evaluate"])
        distinct([Method.parse(method) for method in reproducing.methods(rows).values()])


def test_a_row_that_starts_from_another_method_has_the_run_of_that_for_its_start(reproducing: ModuleType) -> None:
    for _, rows in reproducing.published():
        methods = [Method.parse(method) for method in reproducing.methods(rows).values()]
        for i, method in enumerate(methods):
            if start := method.arguments.get("start"):
                trained = {f"OUT/runs/{before.folder}/seed-{{seed}}": before.recipe for before in methods[:i]}
                assert trained[start] == "ngame"
    every = [row for _, rows in reproducing.published() for row in rows if row["recipe"].startswith("renee")]
    for row in every:
        assert row["row"].startswith("NGAME + Renee") == ("start=OUT/runs/ngame/" in row["recipe"])
        assert "start=" in row["recipe"] or "NGAME" in row["note"], "who does not start from it says why"


def test_graph_encoders_are_asked_with_true_links_as_in_the_papers(reproducing: ModuleType) -> None:
    rows = [row for _, rows in reproducing.published() for row in rows if row["recipe"].startswith("graph")]
    assert {row["evaluate"] for row in rows} == {"--oracle-links LINKS"}


@pytest.mark.slow
def test_every_command_of_the_tables_begins(reproducing: ModuleType) -> None:
    data = planted_links(0, documents=100, labels=20).dataset
    graph = replace(data.graphs["kin"], label=data.graphs["kin"].train[: len(data.labels)])
    commands = {
        method: key[2] for key, rows in reproducing.published() for method in reproducing.methods(rows).values()
    }
    for method, name in {method.partition("=")[2]: name for method, name in commands.items()}.items():
        graphs = ["related"] if "ORCAS" in name else ["category", "hyperlink"]
        official = replace(data, name=name, graphs=dict.fromkeys(graphs, graph))
        row, run = Method.parse(method), Run(log=Log(None, Console(quiet=True)), dry=True)
        arguments = {key: value for key, value in row.arguments.items() if key != "start"}  # no run is there
        with pytest.raises(Planned):
            RECIPES[row.recipe](official, out=run, **(small(row.recipe) | arguments))


def test_several_scores_of_a_model_are_one_method_and_what_has_no_command_says_why(reproducing: ModuleType) -> None:
    columns = dict.fromkeys(("score", "evaluate", "P@1", "GB", "note"), "")
    rows = [
        columns | {"row": "Own, both", "recipe": "oak:bank=false", "score": "product", "P@1": "3.10"},
        columns
        | {"row": "its texts", "recipe": "oak:bank=false", "score": "encoder", "P@1": "2", "evaluate": "--bins"},
        columns | {"row": "another", "recipe": "", "P@1": "1", "note": "no recipe here"},
    ]
    assert list(reproducing.table("SET", rows)) == [
        "    longtail compare SET \\",
        "        own-both=oak:preset=paper,bank=false \\",
        "        --seeds 1 --out OUT",
        "    longtail evaluate OUT/runs/own-both/seed-0 --bins",
        "",
        "| published | score | P@1 |",
        "|---|---|---|",
        "| Own, both | product | 3.10 |",
        "| its texts | encoder | 2 |",
        "| another |  | 1 |",
        "",
        "- another: no recipe here.",
    ]
