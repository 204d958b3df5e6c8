"""From a table to a model that is measured: one command, which goes on where it was killed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from longtail import load
from longtail.data.dataset import Dataset
from longtail.testing.planted import planted

QUICK = ("--epochs", 2, "--batch", 64, "--width", 16, "--device", "cpu")


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """The planted training documents as a CSV, with ``|`` between the labels in a cell."""
    dataset = planted(0, documents=300, labels=60).dataset
    labels = list(dataset.labels.fields["title"])
    ids = np.split(dataset.train.targets.indices, dataset.train.targets.indptr[1:-1])
    titles = dataset.train.documents.fields["title"]
    rows = [f'"{title}","{"|".join(labels[j] for j in row)}"' for title, row in zip(titles, ids, strict=True)]
    path = tmp_path_factory.mktemp("tables") / "shop.csv"
    path.write_text("name,tags\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def columns(table):
    return (table, "--text", "name", "--labels", "tags", "--separator", "|")


def contents(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_one_command_imports_splits_trains_evaluates_and_says_what_next(longtail, columns, tmp_path):
    run = tmp_path / "runs" / "shop"
    status, output, errors = longtail("train", *columns, "--out", run, *QUICK)
    assert (status, errors) == (0, "")
    assert json.loads((run / "run.json").read_text())["recipe"] == "unidec"
    dataset = Dataset.read(run / "data")
    assert (dataset.name, len(dataset.train), len(dataset.test)) == ("shop", 270, 30)
    assert "30 test documents, in percent" in output
    assert output.startswith("270 training documents: validation=0.2, refit=True (docs/guides/choosing.md)\n")
    assert "the model goes by the words that texts share;" in output
    assert "In use are 0.55,1.5" in " ".join(output.split())
    said = output.partition("Next:\n")[2].splitlines()
    commands = [line.partition("#")[0].split() for line in said]
    assert [command[:3] for command in commands][:3] == [
        ["longtail", verb, str(run)] for verb in ("predict",) * 2 + ("serve",)
    ]
    status, output, errors = longtail(*commands[0][1:], stdin="some text\n")
    assert (status, errors) == (0, "")
    assert len(json.loads(output)["labels"]) == 5

    moved = run.rename(tmp_path / "moved")
    status, _, errors = longtail("evaluate", moved)
    assert (status, errors) == (0, "")
    status, _, errors = longtail("train", *columns, "--out", moved, *QUICK)
    assert (status, errors) == (
        1,
        f"longtail: {moved}: expected a new folder, found a run; longtail resume {moved}, or choose another\n",
    )


def test_a_recipe_that_is_named_takes_a_table_and_a_test_table(longtail, columns, tmp_path):
    (tmp_path / "test.csv").write_text("name,tags\nsome text,a label that is new\n")
    given = (*columns, "--test", tmp_path / "test.csv", "--out", tmp_path / "run", *QUICK)
    status, output, errors = longtail("train", "dpr", *given)
    assert (status, errors) == (0, "")
    assert "1 test documents, in percent" in output
    dataset = Dataset.read(tmp_path / "run" / "data")
    assert (len(dataset.train), len(dataset.test)) == (300, 1)
    assert "a label that is new" in set(load(tmp_path / "run").labels.fields["title"])


def test_a_folder_is_data_for_the_default_recipe_too(longtail, planted_folder, tmp_path):
    status, output, errors = longtail("train", "--out", tmp_path / "run", planted_folder, *QUICK)
    assert (status, errors) == (0, "")
    assert output.splitlines()[-1] == f"Next: longtail evaluate {tmp_path / 'run'}"
    assert "data" not in contents(tmp_path / "run")
    assert "texts share" not in output


@pytest.mark.parametrize("left", [["data"], ["data", "run.json"]], ids=["while it began", "while it trained"])
def test_a_run_that_was_killed_goes_on(left, longtail, columns, tmp_path):
    """By the same command as long as only the data is there, and then by resume, to the same model and its figures."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert longtail("train", *columns, "--out", whole, *QUICK)[0] == 0
    run.mkdir()
    for name in left:
        (whole / name).rename(run / name)
    again = ("resume", run) if "run.json" in left else ("train", *columns, "--out", run, *QUICK)
    status, output, errors = longtail(*again)
    assert (status, errors) == (0, "")
    assert "30 test documents, in percent" in output
    assert f"longtail predict {run}" in output
    for kind, vectors in load(whole).vectors.items():
        np.testing.assert_array_equal(load(run).vectors[kind], vectors)


def test_a_dry_run_of_a_table_writes_nothing(longtail, columns, tmp_path):
    status, output, errors = longtail("train", *columns, "--dry-run", *QUICK, "--out", tmp_path / "run")
    assert (status, errors) == (0, "")
    assert "in all" in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "--text title",
            "the columns are: name, tags; name the column of the text with --text",
        ),
        ("--labels sort", 'there is no column "sort", the columns are: name, tags; name the column of the labels with'),
        ("--epochs many", "epochs: expected an integer, found many"),
        ("--test nothing.csv", "nothing.csv: the file is missing"),
    ],
)
def test_what_is_refused_leaves_nothing(longtail, columns, tmp_path, words, line):
    status, _, errors = longtail("train", *columns, "--out", tmp_path / "run", *words.split())
    assert (status, errors.count("\n")) == (1, 1)
    assert line in errors
    assert not list(tmp_path.iterdir())


def test_the_data_of_another_table_stays(longtail, columns, tmp_path):
    """Also where it is no data set at all."""
    (tmp_path / "other.csv").write_text("name,tags\nred,warm\nblue,cold\n")
    for folder in ("one", "two"):
        (tmp_path / folder / "data").mkdir(parents=True)
    Dataset.from_texts(["red", "blue"], [[0], [1]], ["warm", "cold"]).write(tmp_path / "one" / "data")
    (tmp_path / "two" / "data" / "notes.txt").write_text("mine")
    for folder, kept in (("one", "trn.json.gz"), ("two", "notes.txt")):
        status, _, errors = longtail("train", *columns, "--out", tmp_path / folder, *QUICK)
        assert (status, errors.count("\n")) == (1, 1)
        assert (tmp_path / folder / "data" / kept).exists()
        assert contents(tmp_path / folder) == {"data"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("undiec data", "train: expected a recipe, or data that is there, found undiec; did you mean unidec?"),
        ("nothing", "train: expected a recipe, or data that is there, found nothing; longtail list recipes shows"),
        ("{folder} --separator ;", "expected a table, found the folder of a data set; leave --text, --labels"),
        ("{folder}/table", "table: a table of unknown kind, its name ends in ''; give a .csv"),
        ("{folder}/table --separator ;", "table: a table of unknown kind, its name ends in ''; give a .csv"),
        ("unidec {folder}/nothing --separator ;", "nothing: there is no such folder; check the path"),
        ("{folder}/one.csv", "one.csv: expected at least 2 rows, one of them to test with, found 1; write more"),
    ],
)
def test_what_is_no_data_is_one_line(longtail, tmp_path, words, line):
    (tmp_path / "one.csv").write_text('title,labels\nred,"[""warm""]"\n')
    (tmp_path / "table").write_text("title,labels\nred,warm\n")
    status, _, errors = longtail("train", *words.format(folder=tmp_path).split(), "--out", tmp_path / "run")
    assert (status, errors.count("\n")) == (1, 1)
    assert line in errors
    assert not (tmp_path / "run").exists()


def test_columns_that_are_kept_are_in_the_data_of_the_run_which_goes_on_as_others_do(longtail, table, tmp_path):
    lines = table.read_text().splitlines()
    kept = [f"{lines[0]},market", *(f"{line},{'de' if i % 3 else 'fr'}" for i, line in enumerate(lines[1:]))]
    (tmp_path / "shop.csv").write_text("\n".join(kept) + "\n")
    columns = (tmp_path / "shop.csv", "--text", "name", "--labels", "tags", "--separator", "|", "--keep", "market")
    assert longtail("train", *columns, "--out", tmp_path / "run", *QUICK)[::2] == (0, "")
    data = Dataset.read(tmp_path / "run" / "data", fields=("title", "market"))
    assert {*data.test.documents.fields["market"]} == {"de", "fr"}
    assert longtail("resume", tmp_path / "run")[::2] == (0, "")
    out = tmp_path / "again"
    assert longtail("data", "split", tmp_path / "run" / "data", "--out", out)[::2] == (0, "")
    assert {*Dataset.read(out, fields=("market",)).test.documents.fields["market"]} == {"de", "fr"}
