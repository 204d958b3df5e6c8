"""``longtail.evaluate``: a model measured on a test split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import longtail
from longtail.data.dataset import Dataset, Propensity
from longtail.data.holdout import rows_at_random
from longtail.data.sparse import holds
from longtail.errors import BadInput
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.ranking import metrics_of
from longtail.metrics.reliability import calibration_errors
from longtail.model import load
from longtail.model.evaluation import latency
from longtail.testing.planted import planted


@pytest.fixture(scope="module")
def dataset():
    """The data set of the run ``trained``."""
    return planted(0, documents=400, test_documents=50, labels=120).dataset


@pytest.fixture(scope="module")
def found(trained, dataset):
    return longtail.evaluate(trained, dataset, device="cpu")


def test_the_numbers_are_those_of_each_score_kind(found, trained, dataset):
    model = load(trained, device="cpu")
    weights = inverse_propensity(dataset.train.targets, dataset.propensity.A, dataset.propensity.B)
    assert tuple(found.kinds) == model.kinds == ("encoder", "classifier", "fused")
    assert found.headline == "fused"
    for kind in model.kinds:
        top = model.rank(dataset.test.documents, 5, kind=kind, exclude=dataset.test.filtered)
        assert found.kinds[kind] == metrics_of(top, dataset.test.targets, inverse_propensity=weights)
        np.testing.assert_array_equal(found.ranked.tops[kind].first(5).ids, top.ids)
        assert 0 < found.ranked.milliseconds[kind] < 1000


def test_it_prints_as_a_table_and_converts_to_json(found):
    text = str(found)
    assert "50 test documents, in percent; * marks fused, which predictions use." in text
    line = next(line for line in text.splitlines() if line.split()[:1] == ["P@1"])
    assert [f"{found.kinds[kind]['P@1']:.2f}" for kind in found.kinds] == line.split()[1:4]
    content = found.as_dict()
    assert list(content) == ["n", "A", "B", "N", "kinds", "reliability"]
    assert (content["n"], content["N"], content["kinds"]) == (50, 400, dict(found.kinds))
    assert list(content["reliability"]) == ["fused", "encoder", "classifier"]


def test_reliability_is_that_of_the_probabilities_that_predict_says(found, trained, dataset):
    model, test = load(trained, device="cpu"), dataset.test
    for kind in model.kinds:
        top = model.rank(test.documents, 10, kind=kind, exclude=test.filtered)
        expected = calibration_errors(top, model.probabilities(top, kind), test.targets)
        assert found.reliability[kind] == expected
    lines = {line.split()[0]: line.split()[1:] for line in str(found).splitlines() if line.strip()}
    for name in ("ECE@1", "ECE@5"):
        assert lines[name] == [f"{found.reliability[kind][name]:.2f}" for kind in found.kinds]
    without = longtail.evaluate(model.calibrated_by({}), dataset)
    assert "ECE" not in str(without)
    assert "reliability" not in without.as_dict()
    some = longtail.evaluate(model.calibrated_by({"fused": model.calibrations["fused"]}), dataset)
    assert next(line.split() for line in str(some).splitlines() if "ECE@1" in line)[1:] == lines["ECE@1"][2:]


def test_a_model_a_folder_a_data_set_and_a_split_say_the_same(found, trained, dataset, tmp_path):
    dataset.write(tmp_path / "data")
    model = load(trained, device="cpu")
    assert longtail.evaluate(model, tmp_path / "data") == found
    assert longtail.evaluate(str(trained), str(tmp_path / "data"), device="cpu") == found
    split = longtail.evaluate(model, dataset.test, train=dataset.train.targets, propensity=dataset.propensity)
    assert split == found
    without = longtail.evaluate(model, dataset.test, train=dataset.train.targets)
    assert without.propensity is None
    assert without.kinds["fused"].items() < found.kinds["fused"].items()
    other = longtail.evaluate(model, dataset, propensity=Propensity(0.6, 2.6))
    assert other.kinds["fused"]["PSP@5"] != found.kinds["fused"]["PSP@5"]
    both = longtail.evaluate(model, dataset, propensity=[Propensity(0.6, 2.6), dataset.propensity])
    assert (both.propensity, both.others[0].propensity) == (Propensity(0.6, 2.6), dataset.propensity)
    assert both.kinds == other.kinds
    assert both.others[0].kinds["fused"]["PSP@5"] == found.kinds["fused"]["PSP@5"]


def test_the_latency_is_that_of_texts_one_after_the_other(trained, dataset):
    model, asked = load(trained, device="cpu"), []
    search = model.search

    class Counted:
        def __getattr__(self, name):
            return getattr(model, name)

        def search(self, vectors, k, **options):
            asked.append(len(vectors))
            return search(vectors, k, **options)

    p50, p99 = latency(Counted(), dataset.test, texts=20)
    assert asked == [1] * 21, "one before them is not counted"
    assert 0 < p50 <= p99


def test_cut_offs_and_intervals_are_asked_for(trained, dataset):
    found = longtail.evaluate(trained, dataset, ks=(2, 20), intervals=True, device="cpu")
    assert list(found.kinds["fused"])[:2] == ["P@2", "P@20"]
    drawn = found.intervals["fused"]["P@2"]
    assert drawn.low < found.kinds["fused"]["P@2"] < drawn.high
    assert found.as_dict()["intervals"]["fused"]["P@2"] == [drawn.low, drawn.high]


def test_what_a_threshold_gives_is_what_a_prediction_gives(trained, dataset):
    model, test = load(trained, device="cpu"), dataset.test
    asked = longtail.evaluate(model, dataset, ks=[1], threshold=0.3)
    plain = longtail.evaluate(model, replace(test, filtered=None), train=dataset.train.targets, threshold=0.3)
    given = model.predict(dataset.test.documents.fields["title"], threshold=0.3)
    there = given.ids >= 0
    right, labels = holds(test.targets, given.ids)[there].sum(), there.sum()
    assert plain.above.labels == pytest.approx(labels / len(test))
    assert plain.above.metrics["precision"].value == pytest.approx(100 * right / labels)
    assert plain.above.metrics["recall"].value == pytest.approx(100 * right / test.targets.nnz)
    every = longtail.evaluate(model, dataset, ks=[1, 30], threshold=0)
    assert every.above.labels == 20, "as many as a prediction gives, whatever the cut-offs are"
    assert str(asked.above) in " ".join(str(asked).split())
    assert asked.as_dict()["above"] == asked.above.as_dict()


def test_what_cannot_be_measured_is_refused(trained, dataset, tmp_path):
    model = load(trained, device="cpu")
    fewer = planted(0, documents=400, test_documents=50, labels=60).dataset
    for arguments, message in (
        ({"dataset": fewer}, "dataset: expected the 120 labels of the model, found 60"),
        ({"dataset": dataset.test}, "train: expected the labels of the training documents beside a split"),
        ({"dataset": dataset.test, "train": fewer.train.targets}, "train: expected the 120 labels of the model"),
        ({"dataset": dataset, "ks": ()}, "k: expected cut-offs of at least 1"),
        ({"dataset": Dataset.from_texts(["a"], [[0]], ["b"])}, "expected a test split, found none"),
    ):
        with pytest.raises(BadInput, match=message):
            longtail.evaluate(model, **arguments)
    with pytest.raises(BadInput, match="expected the card of a trained model"):
        longtail.evaluate(tmp_path, dataset)


def test_a_sample_is_ranked_as_the_same_documents_alone(found, trained, dataset):
    model = load(trained, device="cpu")
    some = longtail.evaluate(model, dataset, sample=20)
    rows = rows_at_random(50, 20, 0)
    alone = longtail.evaluate(model, replace(dataset, test=dataset.test.take(rows)), intervals=True)
    np.testing.assert_array_equal(some.drawn.rows, rows)
    assert (some.n, some.kinds, some.intervals) == (20, alone.kinds, alone.intervals)
    assert "20 test documents of 50, drawn at random (seed 0), in percent" in str(some)
    assert some.as_dict() == alone.as_dict() | {"drawn": {"of": 50, "seed": 0}}
    assert longtail.evaluate(model, dataset, sample=50).as_dict() == found.as_dict()
    with pytest.raises(BadInput, match="sample: expected a number of documents, at least 1, found 0"):
        longtail.evaluate(model, dataset, sample=0)
