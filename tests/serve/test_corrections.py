"""Corrections over HTTP: in effect with the next request, listed newest first, and taken back; and why a label."""

from __future__ import annotations

import pytest

from longtail import load, recipes
from longtail.model.label_set import LabelSet
from longtail.serve.answers import Predict, answers
from longtail.serve.batcher import Full
from longtail.testing.planted import planted, planted_links


@pytest.fixture
def run(run_with_memory):
    """That of the server in these tests."""
    return run_with_memory


@pytest.fixture
def text():
    """One that the model knows, and remembers nearly."""
    return planted(0, documents=400, test_documents=50, labels=120).dataset.train.documents.fields["title"][0][:-1]


def ranked(client, text, **about):
    answer = client.post("/v1/predict", json={"texts": [text], "k": 10, **about})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]["labels"]


def say(client, bearer, text, uid, right):
    answer = client.post("/v1/corrections", json={"text": text, "uid": uid, "right": right}, headers=bearer)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_of_a_text_in_two_forms_the_newest_correction_is_listed(client, bearer, text):
    uid = ranked(client, text)[0]["uid"]
    for title, right in ((f"{text} cafe\u0301", True), (f"{text} caf\u00e9", False)):
        said = say(client, bearer, title, uid, right)
    (listed,) = client.get("/v1/corrections", headers=bearer).json()["corrections"]
    assert (listed["id"], listed["right"], listed["text"]) == (said["id"], False, {"title": f"{text} caf\u00e9"})


def test_a_correction_is_in_effect_with_the_next_request_and_can_be_taken_back(client, bearer, text):
    before = ranked(client, text)
    wrong, right = before[0], before[-1]
    first = say(client, bearer, text, wrong["uid"], False)
    second = say(client, bearer, {"title": text}, right["uid"], True)
    assert [first, second] == [{"id": 1, "remembered": False}, {"id": 2, "remembered": True}]
    after = {label["uid"]: label for label in ranked(client, text)}
    assert wrong["uid"] not in after
    assert after[right["uid"]]["score"] > right["score"] + 1
    assert ranked(client, text, allowed=[wrong["uid"]]) == []
    (why,) = ranked(client, text, allowed=[right["uid"]], explain=True)
    assert why["near"][0] == {"title": text, "similarity": pytest.approx(1, abs=1e-5)}
    listed = client.get("/v1/corrections", headers=bearer).json()["corrections"]
    assert listed == [
        {"id": 2, "text": {"title": text}, "uid": right["uid"], "label": right["text"], "right": True},
        {"id": 1, "text": {"title": text}, "uid": wrong["uid"], "label": wrong["text"], "right": False},
    ]
    assert client.get("/v1/corrections?before=2&limit=5", headers=bearer).json()["corrections"] == listed[1:]
    for number in (1, 2):
        assert client.delete(f"/v1/corrections/{number}", headers=bearer).status_code == 204
        assert client.delete(f"/v1/corrections/{number}", headers=bearer).status_code == 404
    assert [label["uid"] for label in ranked(client, text)] == [label["uid"] for label in before]
    assert client.get("/v1/corrections", headers=bearer).json() == {"corrections": []}


def test_a_change_is_counted_when_it_is_made(client, bearer, text, monkeypatch):
    def count(change):
        found = [
            line for line in client.get("/metrics").text.splitlines() if f'changes_total{{change="{change}"}}' in line
        ]
        return float(found[0].split()[-1]) if found else 0.0

    def fail(*_):
        raise Full

    uid = ranked(client, text)[0]["uid"]
    number = say(client, bearer, text, uid, False)["id"]
    asking = {
        "withdraw": ("DELETE", f"/v1/corrections/{number}", None),
        "correct": ("POST", "/v1/corrections", {"text": "other", "uid": uid, "right": True}),
        "add": ("POST", "/v1/labels", {"uid": "new", "text": "a new one"}),
        "remove": ("DELETE", f"/v1/labels/{uid}", None),
    }
    for change, (method, path, body) in asking.items():
        before = count(change)
        with monkeypatch.context() as patched:
            patched.setattr(f"longtail.serve.service.LabelSet.{change}", fail)
            assert client.request(method, path, json=body, headers=bearer).status_code == 429
            if change in ("withdraw", "remove"):  # another one was faster
                patched.setattr(f"longtail.serve.service.LabelSet.{change}", lambda *_: False)
                assert client.request(method, path, headers=bearer).status_code == 404
        assert count(change) == before
        assert client.request(method, path, json=body, headers=bearer).is_success
        assert count(change) == before + 1


def test_they_need_the_token_and_a_label_and_a_text(client, bearer, run, text):
    given = {"text": text, "uid": "none", "right": True}
    for method, path in (("POST", ""), ("GET", ""), ("DELETE", "/1")):
        refused = client.request(method, f"/v1/corrections{path}", json=given)
        needs = "corrections" if method == "GET" else "changes"
        assert (refused.status_code, refused.json()["detail"]) == (401, f"{needs} need the server's token")
    for body, status, problem in (
        (given, 404, "there is no label with this uid"),
        ({**given, "right": "yes"}, 422, "body.right: Input should be a valid boolean"),
        ({**given, "text": " ", "uid": ranked(client, text)[0]["uid"]}, 422, "text: expected a text, found none"),
    ):
        answer = client.post("/v1/corrections", json=body, headers=bearer)
        assert answer.status_code == status
        assert problem in answer.json()["detail"]
    assert not (run / "labels.sqlite").exists()


def test_labels_are_found_by_text_or_uid_with_what_they_were_learned_from(client, bearer, run):
    model = load(run)
    uid, title = model.labels.uids[7], model.labels.fields["title"][7]
    found = client.get("/v1/labels", params={"query": uid}).json()["labels"]
    assert found == [{"uid": uid, "text": title, "added": False, "documents": int(model.fusion.frequency[7])}]
    new = {"uid": "new", "text": "brand new", "examples": ["one", "two"]}
    assert client.post("/v1/labels", json=new, headers=bearer).status_code == 201
    assert client.get("/v1/labels/new").json() == {"uid": "new", "text": "brand new", "added": True, "documents": 2}


def test_a_model_that_links_says_to_which_nodes(tmp_path):
    data = planted_links(0, documents=200, test_documents=10, labels=24).dataset
    small = {"epochs": 1, "batch": 64, "width": 16, "validation": 0, "device": "cpu"}
    recipes.oak(data, out=tmp_path / "run", **small)
    labels = LabelSet(tmp_path / "run", device="cpu")
    (answer,) = answers(
        labels.snapshot, [Predict([{"title": data.train.documents.fields["title"][0]}], 2, explained=True)]
    )
    (result,) = answer.as_dict()["results"]
    assert all(set(node) == {"id", "text", "score", "weight"} for node in result["links"])
    assert len(result["links"]) == len({node["id"] for node in result["links"]}) > 0
    labels.close()
