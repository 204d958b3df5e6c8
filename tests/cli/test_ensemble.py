"""``longtail ensemble`` and ``longtail weigh`` in real processes."""

from __future__ import annotations

import json

import pytest

QUICK = ("--epochs", 2, "--batch", 64, "--width", 16, "--warmup", 10, "--validation", 0.2, "--no-memory")


@pytest.fixture(scope="module")
def runs(longtail, planted_folder, tmp_path_factory):
    """A folder with two runs on the planted data, and the run of both."""
    folder = tmp_path_factory.mktemp("runs")
    for recipe in ("unidec", "ngame"):
        given = (*QUICK, "--no-refit")
        status, _, errors = longtail("train", recipe, planted_folder, "--out", folder / recipe, *given)
        assert status == 0, errors
    status, output, errors = longtail("ensemble", folder / "unidec", folder / "ngame", "--out", folder / "both")
    assert status == 0, errors
    said = output.replace("\n", " ")
    assert "weighing 4 scores on 120 documents that both runs held out" in said
    assert "it ranks by its fused score" in said
    return folder


def test_a_fused_run_is_a_run(runs, longtail, planted_folder):
    status, _, errors = longtail("evaluate", runs / "both", "--json", runs / "both.json")
    assert status == 0, errors
    assert list(json.loads((runs / "both.json").read_text())["kinds"]) == ["fused", "first", "second"]
    settings = json.loads((runs / "both" / "run.json").read_text())
    assert settings["recipe"] == "ensemble"
    assert settings["data"] == str(planted_folder)
    status, output, errors = longtail("predict", runs / "both", "--kind", "second", stdin="some text\n")
    assert status == 0, errors
    alone = longtail("predict", runs / "ngame", stdin="some text\n")[1]
    assert output == alone
    assert longtail("predict", runs / "both", "--explain", stdin="some text\n")[0] == 1


def test_a_report_of_a_fused_run_is_written(runs, longtail, tmp_path):
    status, _, errors = longtail("evaluate", runs / "both", "--report", tmp_path)
    assert status == 0, errors
    assert (
        f"longtail ensemble {runs / 'unidec'} {runs / 'ngame'} --out {runs / 'both'}"
        in (tmp_path / "report.html").read_text()
    )


def test_a_run_is_weighed_anew(runs, longtail, tmp_path):
    given = ("--prefer", "tail", "--no-memory", "--out", tmp_path / "tail")
    status, output, errors = longtail("weigh", runs / "unidec", *given)
    assert status == 0, errors
    said = output.replace("\n", " ")
    assert "weighing 2 scores on 120 documents that the run held out" in said
    assert f"Next: longtail evaluate {tmp_path / 'tail'}" in said
    status, _, errors = longtail("evaluate", tmp_path / "tail", "--report", tmp_path / "report")
    assert status == 0, errors
    typed = f"longtail weigh {runs / 'unidec'} --prefer tail --tail-price 0.1 --no-memory --out {tmp_path / 'tail'}"
    assert typed in (tmp_path / "report" / "report.html").read_text()
    status, _, errors = longtail("weigh", runs / "unidec", "--prefer", "head", "--out", tmp_path / "head")
    assert (status, errors.count("\n")) == (1, 1)
    assert "--prefer: expected one of precision, tail, coverage, found head" in errors
    assert not (tmp_path / "head").exists()


def test_labels_come_and_go_in_a_fused_run(runs, longtail, tmp_path):
    asked = tmp_path / "asked.txt"
    asked.write_text("an entirely new label\n")

    def ranked():
        """The uids of all labels, for the text of the new one."""
        out = tmp_path / "ranked.jsonl"
        status, _, errors = longtail("predict", runs / "both", "--input", asked, "--k", 500, "--output", out)
        assert status == 0, errors
        return [label["uid"] for label in json.loads(out.read_text())["labels"]]

    def change(*command):
        status, _, errors = longtail("labels", *command)
        assert status == 0, errors

    before = ranked()
    change("add", runs / "both", "--uid", "new", "--text", "an entirely new label")
    assert sorted(ranked()) == sorted([*before, "new"])
    change("compact", runs / "both")
    assert sorted(ranked()) == sorted([*before, "new"])
    change("remove", runs / "both", "new")
    assert ranked() == before


def test_what_cannot_be_fused_is_said_in_a_line(runs, longtail, tmp_path):
    for arguments, words in (
        (("ensemble", runs / "unidec", tmp_path, "--out", tmp_path / "both"), "expected the settings of a run"),
        (("ensemble", runs / "unidec", runs / "ngame", "--out", runs / "unidec"), "the run was made with recipe"),
        (("resume", runs / "both"), "expected a run of longtail train, found one of longtail ensemble"),
    ):
        status, _, errors = longtail(*arguments)
        assert status == 1
        assert words in errors
        assert "Traceback" not in errors
