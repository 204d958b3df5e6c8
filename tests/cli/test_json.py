"""Every verb that prints a table writes it as JSON, too, in one way; what is piped has no colours."""

from __future__ import annotations

import json

import pytest

from longtail.cli.verbs import command_of
from longtail.data.dataset import Dataset

VERBS = {
    "data check": ("{data}",),
    "data describe": ("{data}",),
    "list": ("losses",),
    "plan depsl": ("--documents", "1e6", "--labels", "1e5"),
    "evaluate": ("{run}", "--data", "{data}"),
    "errors": ("{run}", "--data", "{data}", "--out", "{out}"),
    "offline": ("{run}", "--data", "{data}"),
}


def command(words: str):
    verb, *below = words.split()
    return command_of(verb).commands[below[0]] if below else command_of(verb)


@pytest.mark.parametrize("words", [*VERBS, "compare", "bench serve"])
def test_verbs_that_print_a_table_have_it_as_json(words):
    (option,) = (one for one in command(words).params if "--json" in one.opts)
    assert option.help == next(one for one in command("list").params if "--json" in one.opts).help


@pytest.mark.parametrize("words", VERBS)
def test_json_is_a_file_or_all_of_the_output(words, longtail, run, planted_folder, tmp_path):
    given = (
        *words.split(),
        *(word.format(run=run, data=planted_folder, out=tmp_path / "out") for word in VERBS[words]),
    )
    status, table, errors = longtail(*given, "--json", tmp_path / "said.json")
    assert (status, errors) == (0, "")
    assert table == longtail(*given)[1]
    assert "\x1b" not in table
    status, output, errors = longtail(*given, "--json", "-")
    assert status == 0
    assert errors == table
    assert json.loads(output) == json.loads((tmp_path / "said.json").read_text())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("evaluate {run} --json {file}/said.json", "said.json: expected a folder to write into, found a file, {file};"),
        ("evaluate {run} --json {folder}", "{folder}: expected a file to write, found a folder; choose another place"),
        ("evaluate {run} --report {file}", "report.html: expected a folder to write into, found a file, {file};"),
        ("offline {run} --report {file}/below", "report.html: expected a folder to write into, found a file, {file};"),
        ("errors {run} --out {file}", "report.html: expected a folder to write into, found a file, {file};"),
        ("data describe {run} --report {file}", "report.html: expected a folder to write into, found a file, {file};"),
        ("list losses --json {file}/said.json", "said.json: expected a folder to write into, found a file, {file};"),
    ],
)
def test_a_place_that_takes_no_file_is_refused_before_the_work(words, problem, longtail, tmp_path):
    """The run is none: that is not looked at before."""
    names = {"run": tmp_path / "run", "file": tmp_path / "file", "folder": tmp_path}
    names["file"].write_text("mine")
    status, output, errors = longtail(*words.format(**names).split())
    assert (status, output, errors.count("\n")) == (1, "", 1)
    assert problem.format(**names) in errors
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "mine")]


def test_what_is_in_it(longtail, planted_folder, tmp_path):
    dataset = Dataset.read(planted_folder)
    described = json.loads(longtail("data", "describe", planted_folder, "--json", "-")[1])
    assert described["labels"] == len(dataset.labels)
    assert described["train"]["pairs"] == dataset.train.targets.nnz
    assert json.loads(longtail("data", "check", planted_folder, "--json", "-")[1])["usable"]
    (broken := tmp_path / "broken").mkdir()
    status, output, _ = longtail("data", "check", broken, "--json", "-")
    said = json.loads(output)
    assert (status, said["usable"]) == (1, False)
    assert said["findings"][0]["severity"] == "error"
    assert "unidec" in json.loads(longtail("list", "--json", "-")[1])["recipes"]
