"""``longtail errors``, and the page of ``longtail data describe``."""

from __future__ import annotations

import json

from longtail.data.dataset import Dataset


def test_the_errors_of_a_run(longtail, run, planted_folder, tmp_path):
    out = tmp_path / "errors"
    given = ("errors", run, "--data", planted_folder, "--out", out)
    status, output, errors = longtail(*given, "--most", 3, "--json", tmp_path / "said.json")
    assert (status, errors) == (0, "")
    names = {"report.html", "confusions.csv", "never-found.csv", "found-too-often.csv", "annotations.csv"}
    assert {path.name for path in out.iterdir()} == names
    said = json.loads((tmp_path / "said.json").read_text())
    assert f"{said['counts']['never_found']:,} of {said['labels']:,} labels with test documents" in " ".join(
        output.split()
    )
    assert max(map(len, said["tables"].values())) <= 6
    assert len((out / "confusions.csv").read_text(encoding="utf-8-sig").splitlines()) == 4


def test_what_cannot_be_is_refused_in_one_line(longtail, run, planted_folder, tmp_path):
    given = ("errors", run, "--data", planted_folder, "--out", tmp_path / "errors")
    status, _, errors = longtail(*given, "--folds", 2)
    assert (status, len(errors.splitlines())) == (1, 1)
    assert "expected the data that the run was trained on" in errors
    status, _, errors = longtail(*given, "--k", 101)
    assert status == 1
    assert "expected 1 to 100 labels, found 101" in errors
    status, _, errors = longtail("errors", tmp_path, "--out", tmp_path / "errors")
    assert (status, len(errors.splitlines())) == (1, 1)
    assert not (tmp_path / "errors").exists()


def test_describe_writes_a_page(longtail, planted_folder, tmp_path):
    status, output, errors = longtail("data", "describe", planted_folder, "--report", tmp_path / "page")
    assert (status, errors) == (0, "")
    assert output.endswith(f"The report is in {tmp_path / 'page' / 'report.html'}.\n")
    assert Dataset.read(planted_folder).name in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
