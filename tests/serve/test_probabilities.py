"""Probabilities over HTTP: the same as those of Python, whatever else is asked and whichever labels are allowed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from longtail.errors import BadInput
from longtail.model import LabelSet, load, open_model
from longtail.model.catalogue import Correction
from longtail.model.segments import Segment
from longtail.model.snapshot import Snapshot
from longtail.serve.answers import Predict, Ranked, answers
from longtail.serve.app import application
from longtail.serve.service import Settings


@pytest.fixture(scope="module")
def client(trained):
    threads = torch.get_num_threads()
    with TestClient(application(Settings(trained, device="cpu"))) as made:
        yield made
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model(trained):
    return load(trained, device="cpu")


@pytest.fixture(scope="module")
def texts(model):
    return [*model.labels.fields["title"].take(np.arange(6)), "of nothing", ""]


def asked(client, texts, **more):
    answer = client.post("/v1/predict", json={"texts": texts, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_each_label_has_its_probability(client, model, texts):
    for kind in model.kinds:
        plain = asked(client, texts, kind=kind)
        body = asked(client, texts, kind=kind, probabilities=True)
        found = model.predict(texts, 5, kind=kind).probabilities
        chances = [[label.pop("probability") for label in result["labels"]] for result in body["results"]]
        np.testing.assert_allclose(chances, found, atol=1e-6)
        assert body == plain
    assert client.get("/v1/model").json()["probabilities"] == list(model.kinds)


def test_a_threshold_and_a_precision_leave_out_what_is_less_probable(client, model, texts):
    body = asked(client, texts, threshold=0.3)
    expected = [[label.uid for label in row] for row in model.predict(texts, threshold=0.3)]
    assert [[label["uid"] for label in result["labels"]] for result in body["results"]] == expected
    assert all(label["probability"] >= 0.3 for result in body["results"] for label in result["labels"])
    assert "kept" not in body
    assert asked(client, texts, threshold=0) == asked(client, texts, threshold=0.0)
    kept = model.calibration().at_precision(0.6)
    other = asked(client, texts, precision=0.6)
    assert other["kept"] == kept._asdict()
    assert other["results"] == asked(client, texts, threshold=kept.threshold)["results"]
    sizes = {
        name: [len(result["labels"]) for result in asked(client, texts, threshold=0.0, **given)["results"]]
        for name, given in {"": {}, "k": {"k": 2}, "at_most": {"at_most": 2}}.items()
    }
    assert sizes == {"": [20] * len(texts), "k": [2] * len(texts), "at_most": [2] * len(texts)}
    assert len(asked(client, texts, at_most=7)["results"][0]["labels"]) == 7


def test_a_label_is_as_probable_alone_as_among_all(client, texts):
    every = asked(client, texts[:1], probabilities=True)["results"][0]["labels"]
    for label in every[1:4]:
        alone = asked(client, texts[:1], allowed=[label["uid"]], probabilities=True)["results"][0]["labels"]
        assert alone[0]["probability"] == pytest.approx(label["probability"], abs=1e-6)
    rest = asked(client, texts[:1], excluded=[every[0]["uid"]], threshold=0.0)["results"][0]["labels"]
    assert [label["uid"] for label in rest[:4]] == [label["uid"] for label in every[1:]]
    assert rest[0]["probability"] == pytest.approx(every[1]["probability"], abs=1e-6)


def test_a_label_is_as_probable_after_another_was_said_to_be_wrong(run, texts):
    text, other = texts[:2]
    with TestClient(application(Settings(run, device="cpu"))) as client:
        for kind in load(run, device="cpu").kinds:
            asking = {"kind": kind, "probabilities": True}
            wrong, *rest = asked(client, [text], **asking)["results"][0]["labels"]
            labels = LabelSet(run, device="cpu")
            (kept,) = labels.correct([Correction({"title": text}, wrong["uid"], False)])
            every = [label["uid"] for label in (wrong, *rest)]
            for more in ({}, {"excluded": ["none"]}, {"allowed": every}, {"threshold": 0.0}):
                found = asked(client, [other, text], k=3, **asking, **more)["results"][1]["labels"]
                assert [label["uid"] for label in found] == every[1:4]
                for label, before in zip(found, rest, strict=False):
                    assert label["probability"] == pytest.approx(before["probability"], abs=1e-6)
            for model in (labels.refresh(), load(run, device="cpu")):
                for block in (model.predict([text, other], 3, kind=kind), *model.stream([text], 3, kind=kind)):
                    assert block.uids[0].tolist() == every[1:4]
                    expected = [label["probability"] for label in rest[:3]]
                    np.testing.assert_allclose(block.probabilities[0], expected, atol=1e-6)
            assert labels.withdraw(kept.number)
            labels.close()


def test_an_explanation_goes_with_what_is_left(client, texts):
    body = asked(client, texts[:1], threshold=0.3, explain=True)["results"][0]["labels"]
    assert 1 <= len(body) < 20
    assert all(label["scores"]["fused"] == pytest.approx(label["score"], abs=1e-5) for label in body)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"threshold": 1.1}, "less than or equal to 1"),
        ({"threshold": -0.1}, "greater than or equal to 0"),
        ({"threshold": "NaN"}, "threshold"),
        ({"threshold": "0.5"}, "threshold: Input should be a valid number"),
        ({"threshold": True}, "threshold: Input should be a valid number"),
        ({"precision": "0.5"}, "precision: Input should be a valid number"),
        ({"precision": True}, "precision: Input should be a valid number"),
        ({"precision": 0}, "greater than 0"),
        ({"precision": 0.99999}, "expected what a threshold kept on held-out documents"),
        ({"threshold": 0.5, "precision": 0.5}, "expected one of threshold and precision, found both"),
        ({"k": 3, "at_most": 3}, "expected one of k and at_most, found both"),
        ({"at_most": 0}, "greater than or equal to 1"),
        ({"probabilities": 1}, "probabilities"),
    ],
)
def test_what_means_nothing_is_refused_in_a_line(client, wrong, said):
    answer = client.post("/v1/predict", json={"texts": ["a"], **wrong})
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


def test_a_model_without_fails_who_asks_for_them_and_nobody_else(trained):
    opened = open_model(trained / "model", device=torch.device("cpu")).calibrated_by({})
    snapshot, texts = Snapshot([Segment.of(opened)], 0), [{"title": "a"}]
    plain, wanting, last = answers(
        snapshot, [Predict(texts, 3), Predict(texts, 3, probabilities=True), Predict(texts, 2)]
    )
    assert isinstance(plain, Ranked)
    assert isinstance(wanting, BadInput)
    assert str(wanting).startswith("probabilities: expected a model that learned them on held-out documents")
    assert [list(label) for label in last.labels[0]] == [["id", "uid", "text", "score"]] * 2
