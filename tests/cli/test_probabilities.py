"""``longtail predict`` with probabilities, by threshold and by precision."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from longtail import load, recipes
from longtail.cli.verbs import app
from longtail.errors import BadInput
from longtail.testing.planted import planted


@pytest.fixture(scope="module")
def model(trained):
    return load(trained, device="cpu")


@pytest.fixture(scope="module")
def titles():
    return list(planted(0, documents=400, test_documents=50, labels=120).dataset.test.documents.fields["title"])


@pytest.fixture
def predict(trained, titles):
    """Runs the verb on some titles."""

    def run(*arguments, run=trained):
        given = ["predict", str(run), "--device", "cpu", *map(str, arguments)]
        return CliRunner().invoke(app, given, input="".join(f"{title}\n" for title in titles))

    return run


def lines_of(result):
    assert result.exit_code == 0, result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_label_has_its_probability(predict, model, titles):
    plain, lines = lines_of(predict()), lines_of(predict("--probabilities"))
    found = model.predict(titles)
    for i, line in enumerate(lines):
        assert [label.pop("probability") for label in line["labels"]] == found.probabilities[i].tolist()
    assert lines == plain, "nothing else is changed"


def test_a_threshold_gives_what_is_probable_enough(predict, model, titles):
    chosen = lines_of(predict("--threshold", 0.3))
    every = lines_of(predict("--probabilities", "--k", 20))
    for line, other in zip(chosen, every, strict=True):
        assert line["labels"] == [label for label in other["labels"] if label["probability"] >= 0.3]
    sizes = [len(line["labels"]) for line in chosen]
    assert min(sizes) < max(sizes)
    assert lines_of(predict("--threshold", 0.3, "--at-most", 1)) == [
        {**line, "labels": [label for label in other["labels"][:1] if label["probability"] >= 0.3]}
        for line, other in zip(chosen, every, strict=True)
    ]


def test_a_precision_gives_what_its_threshold_gives_and_says_so(predict, model):
    threshold, precision, recall, margin = model.calibration().at_precision(0.5)
    result = predict("--precision", 0.5)
    assert lines_of(result) == lines_of(predict("--threshold", threshold))
    expected = f"threshold {threshold:g}: precision {precision:.3f} ± {margin:.3f}, recall {recall:.3f}"
    assert result.stderr == f"{expected} on held-out documents\n"
    other = lines_of(predict("--precision", 0.5, "--kind", "encoder"))
    kept = model.calibration("encoder").at_precision(0.5)
    assert other == lines_of(predict("--threshold", kept.threshold, "--kind", "encoder"))


def test_arrays_and_a_table_have_them_too(predict, model, titles, tmp_path):
    assert predict("--threshold", 0.3, "--output", tmp_path / "p.npz", "--uids").exit_code == 0
    found = model.predict(titles, threshold=0.3)
    with np.load(tmp_path / "p.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"ids", "scores", "probabilities", "uids"}
        for name in ("ids", "scores", "probabilities", "uids"):
            np.testing.assert_array_equal(arrays[name], getattr(found, name))
    table = predict("--probabilities", "--table", "--k", 1).stdout.splitlines()
    first = model.predict(titles[:1], 1)
    assert table[1].split()[:2] == [f"{first.scores[0, 0]:.3f}", f"{first.probabilities[0, 0]:.3f}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--threshold", "nan"), "threshold: expected a probability from 0 to 1, found nan"),
        (("--threshold", 1.2), "threshold: expected a probability from 0 to 1, found 1.2"),
        (("--threshold", 0.5, "--precision", 0.9), "precision: expected one of threshold and precision, found both"),
        (("--precision", 0), "precision: expected a number above 0 and at most 1"),
        (("--precision", 0.9999), "precision: expected what a threshold kept on held-out documents"),
        (("--threshold", 0.5, "--kind", "best"), "kind: expected one of encoder, classifier, fused"),
    ],
)
def test_what_means_nothing_is_refused(predict, tmp_path, arguments, message):
    result = predict(*arguments, "--output", tmp_path / "p.jsonl")
    assert isinstance(result.exception, BadInput)
    assert str(result.exception).startswith(message)
    assert not any(tmp_path.iterdir())


def test_evaluate_shows_errors_and_on_demand_the_view_by_label(trained, tmp_path, monkeypatch):
    planted(0, documents=400, test_documents=50, labels=120).dataset.write(tmp_path / "data")
    given = ["evaluate", str(trained), "--data", str(tmp_path / "data"), "--device", "cpu"]
    monkeypatch.setattr("longtail.cli.evaluate._LONG", 50 * 120 - 1)
    sampled = ["--macro", "--bins", "--sample", "20"]
    plain, more = (CliRunner().invoke(app, [*given, *others]) for others in ([], sampled))
    assert plain.exit_code == more.exit_code == 0
    said = "50 documents are ranked among 120 labels, exactly, which takes long; --sample draws some of the documents."
    assert said in " ".join(plain.stdout.split())
    assert "takes long" not in more.stdout
    assert "20 test documents of 50, drawn at random (seed 0)" in " ".join(more.stdout.split())
    assert "ECE@5" in plain.stdout
    assert "macroF1@5" not in plain.stdout
    assert all(f"{name}@{k} " in more.stdout for name in ("macroP", "macroF1", "microF1") for k in (1, 3, 5))


def test_evaluate_says_what_a_threshold_keeps_on_the_test_split(trained, model, tmp_path):
    planted(0, documents=400, test_documents=50, labels=120).dataset.write(tmp_path / "data")
    given = ["evaluate", str(trained), "--data", str(tmp_path / "data"), "--device", "cpu"]
    kept = model.calibration().at_precision(0.5)
    asked = (["--precision", "0.5"], ["--threshold", str(kept.threshold)])
    by_precision, by_threshold = (CliRunner().invoke(app, [*given, *one]) for one in asked)
    assert by_precision.exit_code == by_threshold.exit_code == 0
    assert by_precision.stderr.startswith(f"threshold {kept.threshold:g}: precision {kept.precision:.3f}")
    assert by_precision.stdout == by_threshold.stdout
    assert f"Labels at least {kept.threshold:g} probable: precision" in " ".join(by_threshold.stdout.split())
    both = CliRunner().invoke(app, [*given, "--precision", "0.5", "--threshold", "0.5"])
    assert str(both.exception).startswith("precision: expected one of threshold and precision, found both")
    high = CliRunner().invoke(app, [*given, "--threshold", "1.5"])
    assert str(high.exception).startswith("threshold: expected a probability from 0 to 1, found 1.5")


@pytest.mark.parametrize("arguments", [("--probabilities",), ("--threshold", 0.5), ("--precision", 0.9)])
def test_a_model_without_says_what_to_do(predict, tmp_path, arguments):
    data = planted(0, documents=200, test_documents=16, labels=64).dataset
    recipes.dpr(data, width=8, epochs=1, out=tmp_path / "run", device="cpu")
    result = predict(*arguments, run=tmp_path / "run")
    assert str(result.exception).startswith("probabilities: expected a model that learned them on held-out documents")
    assert "validation above 0" in str(result.exception)
