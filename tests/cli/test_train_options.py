"""What Python and the command line say of an option is the same line, and a dry run needs no folder."""

from __future__ import annotations

import re
import sys

import pytest

from longtail import LongtailError, recipes
from longtail.cli.verbs import command_of
from longtail.data.dataset import Dataset
from longtail.options import options_of
from longtail.stages.recipe import options_class
from longtail.train.log import WITHIN
from longtail.train.processes import Process


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("epohcs", "3"),
        ("epochs", "many"),
        ("epochs", "-1"),
        ("learning_rate", "nan"),
        ("loss", "hinge"),
        ("device", "tpu"),
    ],
)
def test_a_wrong_option_is_the_same_line_to_both_but_for_its_dashes(longtail, planted_folder, name, given):
    status, _, errors = longtail("train", "dpr", planted_folder, "--dry-run", f"--{name.replace('_', '-')}", given)
    assert status == 1
    with pytest.raises(LongtailError) as refused:
        recipes.dpr(Dataset.from_texts(["red", "blue"], [[0], [1]], ["warm", "cold"]), **{name: given})
    where, _, said = str(refused.value).partition(": ")
    assert where in {name, "dpr"}  # an option that there is, or the recipe that has none such
    dashes = f"--{name.replace('_', '-')}" if where == name else where
    assert errors == f"longtail: {dashes}: {said}\n"
    assert "--" not in str(refused.value)


def test_a_file_that_is_called_as_an_option_has_no_dashes(longtail, tmp_path):
    status, _, errors = longtail("evaluate", "data", folder=tmp_path)
    assert status == 1
    assert errors.startswith("longtail: data")


def test_a_dry_run_needs_no_folder_and_writes_nothing(longtail, planted_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, output, errors = longtail("train", "ngame", planted_folder, "--dry-run", "--width", "8")
    assert status == 0, errors
    assert all(words in output for words in ("stage encoder", "stage classifiers", "fusion", "in all"))
    assert not list(tmp_path.iterdir())
    status, _, errors = longtail("train", "ngame", planted_folder)
    assert (status, errors) == (
        1,
        "longtail: --out: expected a folder for the run, found none; give one, or ask for a dry run\n",
    )


def test_what_comes_next_is_said_but_for_the_runs_of_a_comparison(planted_folder, tmp_path, monkeypatch, capsys):
    quick = ("--epochs", "1", "--width", "8", "--device", "cpu")
    train, run = command_of("train"), str(tmp_path / "a")
    train.main(["dpr", str(planted_folder), "--out", run, *quick], standalone_mode=False)
    assert f"Next: longtail evaluate {run}" in capsys.readouterr().out.replace("\n", "")
    Process((), quiet=True).run([sys.executable, "-c", f"import os; os.environ[{WITHIN!r}]"], tmp_path)
    monkeypatch.setenv(WITHIN, "1")
    train.main(["dpr", str(planted_folder), "--out", str(tmp_path / "b"), *quick], standalone_mode=False)
    said = capsys.readouterr().out
    assert "The model is in" in said
    assert "Next:" not in said


@pytest.mark.parametrize("recipe", ["unidec", "dpr"])
def test_help_has_what_is_often_given_then_what_the_recipe_is_about_and_then_what_recipes_share(longtail, recipe):
    status, output, _ = longtail("train", recipe, "--help")
    assert status == 0
    known = options_of(options_class(recipes.RECIPES[recipe]))
    often = re.findall(r"--(\w+)", output.partition("─ Often given ─")[2].partition("╰")[0])
    assert often[:3] == ["encoder", "fields", "epochs"]
    groups = dict.fromkeys(option.group for option in known.values() if option.name not in often)
    places = [output.index(f"─ {group} ─") for group in ("Often given", *groups)]
    assert places == sorted(places)
    assert all(f"--{name.replace('_', '-')}" in output for name in known)


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_an_interval_that_is_none_is_one_line(longtail, planted_folder, tmp_path, seconds):
    status, _, errors = longtail("train", "dpr", planted_folder, "--out", tmp_path / "x", "--checkpoint-every", seconds)
    assert status == 1
    assert errors.startswith("longtail: --checkpoint-every: expected at least 0, found ")
    assert not (tmp_path / "x").exists()
