"""``longtail offline``: a run judged by records, beside a control; and records that are not as they must be."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longtail import load
from longtail.data.dataset import Dataset
from longtail.data.texts import Strings, Texts
from longtail.metrics.ranking import metrics_of
from longtail.testing.planted import planted

BRANDS = ("Acme", "Bolt", "")


def put(path: Path, *lines: list) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    """The data of the run ``trained`` in a folder, with a brand and a number of searches of each test document."""
    made = planted(0, documents=400, test_documents=50, labels=120).dataset
    documents = made.test.documents
    columns = {"brand": [BRANDS[i % 3] for i in range(50)], "searches": [str(1 + i) for i in range(50)]}
    fields = {**documents.fields, **{name: Strings.of(column) for name, column in columns.items()}}
    folder = tmp_path_factory.mktemp("offline") / "data"
    replace(made, test=replace(made.test, documents=Texts(documents.uids, fields))).write(folder)
    return Dataset.read(folder, fields=("title", *columns))


@pytest.fixture(scope="module")
def records(dataset, tmp_path_factory) -> dict[str, Path]:
    """Tables about its queries and labels, some rows of which are about others."""
    folder, labels = tmp_path_factory.mktemp("records"), dataset.labels
    rows = np.argwhere(dataset.test.targets.toarray()).tolist()
    query, keyword = list(dataset.test.documents.fields["title"]), list(labels.uids)
    grades = [[query[i], keyword[j], 3] for i, j in rows] + [[query[0], keyword[5], 1], ["never asked", keyword[0], 2]]
    log = [[query[i], keyword[j], 0.5, 1, i % 2, i] for i, j in rows] + [
        [query[i], "", "", "", "", i] for i in range(50)
    ]
    brands = [[keyword[j], BRANDS[j % 3]] for j in range(120)] + [["never sold", "Acme"]]
    return {
        "judged": put(folder / "judged.csv", ["query", "keyword", "grade"], *grades),
        "log": put(folder / "log.csv", ["query", "keyword", "propensity", "impressions", "clicks", "event"], *log),
        "attributes": put(folder / "brands.csv", ["keyword", "brand"], *brands),
    }


def asked(records: dict[str, Path]) -> list:
    return [word for name, path in records.items() for word in (f"--{name}", path)]


def test_a_run_is_judged_by_all_records_beside_a_control(longtail, trained, dataset, records, tmp_path):
    given = ("offline", trained, "--data", dataset.folder, "--at-most", 3, "--k", "1,5,20", *asked(records))
    out = ("--json", tmp_path / "o.json", "--report", tmp_path / "report")
    status, output, errors = longtail(*given, "--against", trained, *out)
    assert (status, errors) == (0, "")
    found = json.loads((tmp_path / "o.json").read_text())
    figures = {(one["section"], one["name"]): one for one in found["figures"]}
    top = load(trained).rank(dataset.test.documents, 20, exclude=dataset.test.filtered)
    expected = metrics_of(top, dataset.test.targets, ks=(1, 20))
    assert figures["found", "P@1"]["run"]["value"] == pytest.approx(expected["P@1"])
    assert figures["found", "R@20"]["run"]["value"] == pytest.approx(expected["R@20"])
    assert figures["given", "labels a query"]["run"] == {"low": 3, "value": 3, "high": 3}
    assert figures["judged", "grade 3"]["run"]["value"] > 90
    assert 0 < figures["contradicting the query", "brand"]["run"]["value"] < 100
    assert figures["estimated from the log", "clicks a search"]["run"]["value"] > 0
    assert figures["against the control", "new"]["run"]["value"] == 0, "it is the same run"
    for one in figures.values():
        if one["section"] != "against the control":
            assert one["control"] == one["run"]
            assert one["difference"] == {"low": 0, "value": 0, "high": 0}
    notes = " ".join(found["notes"])
    assert f"of the {len(dataset.test.targets.indices) + 2:,} rows of judged.csv have a grade" in notes
    assert "120 of the 121 rows of brands.csv are of a keyword of the data." in notes
    assert "only an A/B test says what changes" in " ".join(output.split())
    page = (tmp_path / "report" / "report.html").read_text()
    for heading in ("Found", "Given", "Judged", "Contradicting the query", "Estimated from the log", "Records"):
        assert f">{heading}</h2>" in page
    assert "only an A/B test" in page


def test_a_threshold_gives_fewer_labels_and_weights_count_queries_by_a_column(longtail, trained, dataset, tmp_path):
    given = ("offline", trained, "--data", dataset.folder, "--k", "5")
    options = {"plain": (), "sure": ("--threshold", 0.6), "weighed": ("--weight", "searches")}
    found = {}
    for name, more in options.items():
        status, output, errors = longtail(*given, *more, "--json", tmp_path / f"{name}.json")
        assert (status, errors) == (0, "")
        figures = json.loads((tmp_path / f"{name}.json").read_text())["figures"]
        found[name] = {one["name"]: one["run"]["value"] for one in figures}
    assert found["sure"]["labels a query"] < found["plain"]["labels a query"] == 10
    assert found["sure"]["P@5"] == found["plain"]["P@5"], "a threshold is no matter of what is found"
    assert "weighed by searches" in output
    model = load(trained)
    top, weights = model.rank(dataset.test.documents, 10, exclude=dataset.test.filtered), np.arange(1, 51)
    each = [
        metrics_of(type(top)(top.ids[i : i + 1], top.scores[i : i + 1]), row, ks=(5,)) if row.nnz else {"P@5": 0}
        for i, row in enumerate(dataset.test.targets[[j]] for j in range(50))
    ]
    assert found["weighed"]["P@5"] == pytest.approx(np.average([of["P@5"] for of in each], weights=weights))


@pytest.mark.parametrize(
    ("option", "lines", "said"),
    [
        ("judged", [["query", "keyword"], ["a", "b"]], 'line 2: there is no column "grade", the columns are: query'),
        ("judged", [["query", "keyword", "grade"], ["a", "b", 1]], "expected rows about the data, found 1, none of"),
        (
            "log",
            [["query", "keyword", "propensity"], ["{query}", "x", 0]],
            'above 0 and at most 1 in column "propensity"',
        ),
        ("log", [["query", "keyword", "propensity"], ["{query}", "x", "often"]], "found 'often'; mend the cell"),
        ("attributes", [["keyword", "place"], ["{keyword}", "Rome"]], "expected columns that the test documents have"),
        (
            "weight",
            "clicks",
            "--weight: expected a column of the test documents, found clicks; the columns are brand, se",
        ),
        ("weight", "brand", "--weight: expected numbers of at least 0 in the column brand"),
        ("k", "0", "--k: expected whole numbers above 0"),
        ("at-most", "0", "--at-most: expected at least 1 label, found 0"),
        ("threshold", "2", "--threshold: expected a probability from 0 to 1"),
    ],
)
def test_what_is_not_as_it_must_be_is_refused_in_a_line(longtail, trained, dataset, tmp_path, option, lines, said):
    value = lines
    if isinstance(lines, list):
        names = {"query": dataset.test.documents.fields["title"][0], "keyword": dataset.labels.uids[0]}
        value = put(tmp_path / "t.csv", *([str(cell).format(**names) for cell in line] for line in lines))
    status, _, errors = longtail("offline", trained, "--data", dataset.folder, f"--{option}", value)
    assert (status, errors.count("\n")) == (1, 1), errors
    assert said in errors
