"""Presets of the papers: options that the recipes have, each with its source, and runs that they begin."""

from __future__ import annotations

import io
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from rich.console import Console

from longtail.compare.methods import Method, distinct
from longtail.errors import BadInput
from longtail.options import options_of
from longtail.recipes import RECIPES
from longtail.recipes.papers import PAPERS
from longtail.stages.preset import TEXTS
from longtail.stages.recipe import RunOptions, options_class, recipe
from longtail.testing.planted import planted_links
from longtail.train.log import Log
from longtail.train.plan import Planned
from longtail.train.progress import settings_of
from longtail.train.run import Run

ROOT = Path(__file__).parents[2]
every_recipe = pytest.mark.parametrize("name", RECIPES)
SMALL = {"epochs": 1, "batch": 16, "width": 16, "warmup": 5, "device": "cpu"}
ALSO_SMALL = {"classifier_epochs": 1, "detached_epochs": 1, "linker_epochs": 1, "labels_at_once": 50, "projection": 8}


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


@every_recipe
def test_twenty_steps_as_the_paper_has_them(name: str, tmp_path) -> None:
    data = planted_links(0, documents=16 * 20, labels=40).dataset
    RECIPES[name](replace(data, name="LF-Amazon-131K"), out=tmp_path / "run", preset="paper", **small(name))
    arguments = settings_of(tmp_path / "run")["arguments"]
    for option, setting in PAPERS[name].named("LF-Amazon-131K").items():
        if option not in small(name):
            expected = list(setting.value) if isinstance(setting.value, tuple) else setting.value
            assert arguments[option] == expected, option
    assert {key: arguments[key] for key in small(name)} == small(name)  # what is given comes before it


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
        assert (f"{option}={setting.value}" in line) == (option not in small("dpr"))


def test_a_transformer_with_far_fewer_epochs_than_its_paper_is_told_so(tiny_bert) -> None:
    data = planted_links(0, documents=200, labels=30).dataset
    for epochs, encoder, told in ((7, str(tiny_bert), True), (8, str(tiny_bert), False), (7, "bag", False)):
        log = Log(None, Console(file=(said := io.StringIO()), width=200))
        with pytest.raises(Planned):
            RECIPES["dpr"](data, out=Run(log=log, dry=True), encoder=encoder, epochs=epochs, max_length=8, batch=100)
        line = f"{epochs} epochs are few for a transformer: the paper has 40;"
        assert (line in said.getvalue()) == told


def test_a_recipe_without_a_paper_has_no_preset_of_one() -> None:
    page = recipe(RunOptions)(lambda run, dataset, o: None)
    with pytest.raises(BadInput, match="preset: <lambda> has none of a paper; leave it out"):
        page(planted_links(0, documents=50, labels=20).dataset, preset="paper")


def test_another_preset_is_refused() -> None:
    with pytest.raises(BadInput, match="preset: expected one of paper, found best"):
        RECIPES["dpr"](planted_links(0, documents=50, labels=20).dataset, preset="best")


def test_the_page_of_the_tables_is_what_its_script_writes_and_every_row_of_it_can_be_run() -> None:
    spec = spec_from_file_location("reproducing", ROOT / "benchmarks" / "reproducing.py")
    reproducing = module_from_spec(spec)
    spec.loader.exec_module(reproducing)
    assert (ROOT / "docs" / "explanation" / "reproducing.md").read_text(encoding="utf-8") == reproducing.page()
    for (_, _, data), rows in reproducing.published():
        assert data in TEXTS
        methods = [Method.parse(reproducing.method(row)) for row in rows]
        distinct(methods)
