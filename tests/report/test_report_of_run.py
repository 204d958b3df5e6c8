"""The report of a single run: of a recipe, and of an ensemble."""

from __future__ import annotations

import inspect
import json
import re

import pytest

from longtail import recipes
from longtail.data.dataset import Dataset
from longtail.model import load
from longtail.model.evaluation import evaluate
from longtail.report.commands import command_of, defaults_of, flags_of, given_arguments
from longtail.report.compose import report_of_run
from longtail.stages.make_ensemble import ensemble
from longtail.testing.planted import planted

QUICK = {"epochs": 2, "batch": 64, "width": 16, "validation": 0.2, "device": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data set, two runs on it, and the run of both."""
    folder = tmp_path_factory.mktemp("runs")
    planted(0, documents=300, test_documents=60, labels=60).dataset.write(folder / "data")
    dataset = Dataset.read(folder / "data")
    recipes.unidec(dataset, out=folder / "unidec", refit=False, **QUICK)
    recipes.ngame(dataset, out=folder / "ngame", classifier_epochs=2, fields=("title", "content"), **QUICK)
    ensemble(folder / "unidec", folder / "ngame", dataset, out=folder / "both", device="cpu")
    return folder


def page_of(folder, name):
    dataset = Dataset.read(folder / "data")
    assert dataset.test is not None
    found = evaluate(load(folder / name, device="cpu"), dataset)
    return report_of_run(folder / name, dataset, found, data=folder / "data")


def test_the_report_of_an_ensemble_says_what_it_is_made_of(folder):
    page = page_of(folder, "both")
    command = (
        f"longtail ensemble {folder / 'unidec'} {folder / 'ngame'} --out {folder / 'both'} --data {folder / 'data'}"
    )
    assert f'<code class="line">{command}</code>' in page
    for kind in ("first", "second", "fused"):
        assert f"<small>{kind}</small>" in page


def test_the_report_of_a_recipe_has_the_arguments_that_were_given(folder):
    page = page_of(folder, "ngame")
    start = f"longtail train ngame {folder / 'data'} --out {folder / 'ngame'} "
    command = page.partition(start)[2].partition("<")[0].split()
    assert command.count("--no-refit") == 1, "a default that goes by the data is told"
    command.remove("--no-refit")
    given = dict(zip(command[::2], command[1::2], strict=True))
    wanted = {"validation": 0.05, **QUICK, "classifier_epochs": 2, "seed": 0}
    assert given == {f"--{name.replace('_', '-')}": str(value) for name, value in wanted.items()} | {
        "--fields": "title,content"
    }


def test_the_report_draws_how_reliable_probabilities_are(folder):
    page = page_of(folder, "unidec")
    section = page.partition('<h2 id="probabilities">')[2].partition("</section>")[0]
    assert section.count('<polyline class="curve"') == 4, "a curve a score kind"
    dataset, model = Dataset.read(folder / "data"), load(folder / "unidec", device="cpu")
    found = evaluate(model, dataset)
    for kind, errors in found.reliability.items():
        assert f"{kind} <b>ECE@5 {errors['ECE@5']:.2f}</b>" in section
    labels = [int(count.replace(",", "")) for count in re.findall(r"encoder: [\d.]+ % of ([\d,]+) labels", section)]
    assert sum(labels) == 5 * len(dataset.test)
    plain = evaluate(model.calibrated_by({}), dataset)
    without = report_of_run(folder / "unidec", dataset, plain, data=folder / "data")
    assert '<h2 id="probabilities">' not in without


def test_the_report_says_once_what_a_threshold_gives(folder):
    dataset, model = Dataset.read(folder / "data"), load(folder / "unidec", device="cpu")
    found = evaluate(model, dataset, threshold=0.2)
    page = report_of_run(folder / "unidec", dataset, found, data=folder / "data")
    assert page.count(str(found.above)) == 1
    assert "Labels at least 0.2 probable" in page.partition('<h2 id="probabilities">')[2].partition("</section>")[0]
    assert "Labels at least" not in page_of(folder, "unidec")


def test_arguments_that_a_recipe_has_by_now_or_no_longer_has_are_told_apart(folder):
    settings = json.loads((folder / "unidec" / "run.json").read_text())
    given = given_arguments("unidec", settings["arguments"])
    older = {name: value for name, value in settings["arguments"].items() if name != "fields"}
    assert given_arguments("unidec", older) == given
    assert given_arguments("unidec", older | {"was_once": 3}) == given | {"was_once": 3}
    assert given_arguments("fuse", {"first": "a", "second": "b", "seed": 0}) == {"first": "a", "second": "b"}


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_defaults_are_those_of_the_recipe(name):
    parameters = inspect.signature(recipes.RECIPES[name]).parameters
    found = defaults_of(recipes.RECIPES[name])
    wanted = {key: of.default for key, of in parameters.items() if key != "dataset"}
    assert found == {key: list(value) if isinstance(value, tuple) else value for key, value in wanted.items()}
    assert found["fields"] == ["title"]
    assert defaults_of(None) == {}


def test_options_are_as_they_are_typed(tmp_path):
    given = {"symmetric": True, "prune": False, "fields": ["title", "content"], "learning_rate": 0.01}
    assert flags_of(given) == ["--symmetric", "--no-prune", "--fields", "title,content", "--learning-rate", "0.01"]
    settings = {"recipe": "simcse", "arguments": {**defaults_of(recipes.simcse), "epochs": 3, "seed": 7}}
    command = command_of(settings, tmp_path / "data", tmp_path)[5:]
    by_data = {"--fields": "title", "--batch": "512"}  # which a data set may have other defaults of
    assert dict(zip(command[::2], command[1::2], strict=True)) == {"--epochs": "3", "--seed": "7", **by_data}
    assert command[-2:] == ["--seed", "7"]
