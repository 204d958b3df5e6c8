"""A few questions, answered by lines, become a command that trains."""

from __future__ import annotations

import shlex

import pytest

from longtail.data.dataset import Dataset
from longtail.data.graph import Graph
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Strings


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "my shop.csv"
    path.write_text("sku,name,tags\n1,red shoes,sport|shoes\n2,oak table,furniture\n")
    return path


def command_in(output: str) -> list[str]:
    (line,) = (line for line in output.splitlines() if line.startswith("longtail "))
    return shlex.split(line)[1:]


def test_what_is_likely_is_proposed(longtail, table, tmp_path):
    answers = [table, "", "", "", "", "", "", tmp_path / "run"]
    status, output, errors = longtail("new", stdin="\n".join(map(str, answers)) + "\n")
    assert (status, errors) == (0, "")
    assert command_in(output) == [
        *("train", str(table), "--text", "name", "--labels", "tags", "--separator", "|"),
        *("--out", str(tmp_path / "run")),
    ]
    assert not (tmp_path / "run").exists()


def test_what_is_answered_is_asked_for(longtail, table, tmp_path):
    answers = [table, "sku", "tags", "/", "no", "tail", "90s", tmp_path / "run", "no"]
    _, output, _ = longtail("new", stdin="\n".join(map(str, answers)) + "\n")
    assert command_in(output) == [
        *("train", "astec", str(table), "--text", "sku", "--labels", "tags", "--separator", "/"),
        *("--prefer", "tail", "--budget", "90s", "--out", str(tmp_path / "run")),
    ]


def test_a_wrong_answer_is_asked_for_again(longtail, table, tmp_path):
    answers = [tmp_path / "nothing.csv", table, "title", "name", "", "", "perhaps", "yes", "", "soon", "", tmp_path]
    status, output, _ = longtail("new", stdin="\n".join(map(str, [*answers, tmp_path / "run"])) + "\n")
    assert status == 0
    for said in (
        "there is no such file",
        "expected one of sku, name, tags, found title",
        "found perhaps",
        "found soon",
    ):
        assert said in output
    assert "is there already, and is not empty" in output
    assert command_in(output)[-1] == str(tmp_path / "run")


def test_a_folder_with_a_graph_is_asked_about_that(longtail, tmp_path):
    dataset = Dataset.from_texts(["red shoes", "oak table"], [[0], [1]], ["footwear", "furniture"])
    graph = Graph(Strings.of(["shop"]), csr_of_lists([[0], [0]], 1), None)
    Dataset("d", dataset.train, dataset.labels, graphs={"shelf": graph}).write(tmp_path / "data")
    _, output, _ = longtail("new", stdin=f"{tmp_path / 'data'}\nyes\n\n\n{tmp_path / 'run'}\n")
    assert "have links (shelf)" in output
    assert command_in(output) == ["train", str(tmp_path / "data"), "--graphs", "all", "--out", str(tmp_path / "run")]


def test_it_runs_the_command_where_that_is_wanted(longtail, table, tmp_path):
    answers = [table, "", "", "", "", "", "", tmp_path / "run", "yes"]
    status, output, errors = longtail("new", stdin="\n".join(map(str, answers)) + "\n")
    assert (status, errors) == (0, "")
    assert f"longtail predict {tmp_path / 'run'}" in output
    assert (tmp_path / "run" / "model").is_dir()


def test_an_end_of_input_ends_it(longtail, table):
    status, output, errors = longtail("new", stdin=f"{table}\n")
    assert (status, errors) == (1, "longtail: stopped\n")
    assert "longtail train" not in output
