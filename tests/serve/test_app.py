"""The HTTP interface: answers, changes, limits, and no traceback whatever is sent."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from starlette.testclient import TestClient

from longtail.model import Ensemble, LabelSet, load
from longtail.model.label_set import NewLabel
from longtail.search.fusion import Fusion
from longtail.serve import schemas
from longtail.serve.app import TOKEN, application
from longtail.serve.service import Settings


def predict(client, text, k=5, **more):
    answer = client.post("/v1/predict", json={"texts": [text], "k": k, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]["labels"]


@pytest.fixture(scope="session")
def known(trained):
    """A text of words that the model knows, and of no label: a label with this text is the first for it."""
    labels = load(trained, device="cpu").labels.fields["title"]
    return f"{labels[0].split()[0]} {labels[50].split()[-1]}"


@pytest.fixture
def titles(client):
    return [label["text"] for label in client.get("/v1/labels?limit=1000").json()["labels"]]


def test_the_server_answers_as_the_command_line_does(client, run, longtail_predict):
    texts = ["one two", "", "🐟 naïve", *[label["text"] for label in client.get("/v1/labels").json()["labels"]]]
    assert client.post("/v1/predict", json={"texts": texts, "k": 7}).json()["kind"] == "fused"
    for kind in ("encoder", "classifier", "fused"):
        served = client.post("/v1/predict", json={"texts": texts, "k": 7, "kind": kind}).json()["results"]
        printed = longtail_predict(run, texts, 7, kind)
        for one, other in zip(served, printed, strict=True):
            assert [label["uid"] for label in one["labels"]] == [label["uid"] for label in other["labels"]]
            scores = [[label["score"] for label in side["labels"]] for side in (one, other)]
            np.testing.assert_allclose(*scores, atol=1e-5)


@pytest.fixture
def longtail_predict(tmp_path):
    """What ``longtail predict`` writes."""
    from typer.testing import CliRunner

    from longtail.cli.verbs import app

    def predict(run, texts, k, kind):
        path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        path.write_text("".join(json.dumps({"title": text}) + "\n" for text in texts))
        options = ["--input", path, "--k", k, "--kind", kind, "--output", out, "--device", "cpu"]
        done = CliRunner().invoke(app, ["predict", str(run), *map(str, options)])
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in out.read_text().splitlines()]

    return predict


def test_a_label_is_there_from_the_next_request_on_and_gone_from_the_next(client, bearer, longtail_predict, run, known):
    label = {"uid": "a/b c?", "text": known, "examples": ["red road", {"title": "road", "content": "x"}]}
    assert client.post("/v1/labels", json=label, headers=bearer).json() == {"uids": ["a/b c?"]}
    assert predict(client, known, kind="encoder")[0]["uid"] == "a/b c?"
    assert client.get("/v1/labels/a%2Fb%20c%3F").json() == {
        "uid": "a/b c?",
        "text": known,
        "added": True,
        "documents": 2,
    }
    assert client.get("/v1/labels", params={"query": known.upper()}).json()["labels"][0]["uid"] == "a/b c?"
    assert longtail_predict(run, [known], 1, "encoder")[0]["labels"][0]["uid"] == "a/b c?"
    assert client.delete("/v1/labels/a%2Fb%20c%3F", headers=bearer).status_code == 204
    assert "a/b c?" not in [label["uid"] for label in predict(client, known, 1000)]
    assert client.get("/v1/labels/a%2Fb%20c%3F").status_code == 404
    assert client.delete("/v1/labels/a%2Fb%20c%3F", headers=bearer).status_code == 404


@pytest.mark.parametrize("uid", ["a/../b", "..", "a\nb", "a\n", "\u2028", "e\u0301 #1"])
def test_any_uid_is_found_and_removed(client, bearer, uid):
    assert client.post("/v1/labels", json={"uid": uid, "text": "some text"}, headers=bearer).status_code == 201
    path = "/v1/labels/" + quote(uid, safe="").replace(".", "%2E")
    assert client.get(path).json()["uid"] == uid
    assert client.delete(path, headers=bearer).status_code == 204
    assert client.get(path).status_code == 404


def test_a_list_of_labels_is_added_whole_or_not_at_all(client, bearer):
    good = [{"uid": f"n{i}", "text": f"text {i}"} for i in range(3)]
    assert client.post("/v1/labels", json=good, headers=bearer).status_code == 201
    assert (
        client.post("/v1/labels", json=[{"uid": "x", "text": "y"}, *good, good[0]], headers=bearer).status_code == 422
    )
    assert client.get("/v1/labels/x").status_code == 404
    assert client.get("/v1/labels/n2").status_code == 200


def test_allowed_and_excluded(client, titles):
    ranked = [label["uid"] for label in predict(client, titles[0], 10)]
    assert [label["uid"] for label in predict(client, titles[0], 10, allowed=[*ranked[4:7], "?"])] == ranked[4:7]
    assert [label["uid"] for label in predict(client, titles[0], 5, excluded=ranked[:5])] == ranked[5:]
    some = predict(client, titles[0], 10, allowed=ranked[:4], excluded=ranked[:1])
    assert [label["uid"] for label in some] == ranked[1:4]
    assert predict(client, titles[0], 10, allowed=[]) == []


def test_an_explanation_adds_up(client, titles):
    plain, explained = (predict(client, titles[0], 3, explain=flag) for flag in (False, True))
    assert [label["uid"] for label in plain] == [label["uid"] for label in explained]
    for label in explained:
        assert label["scores"]["fused"] == pytest.approx(label["score"], abs=1e-5)
        assert label["scores"].keys() == {"encoder", "classifier", "fused"}
        assert [word["word"] for word in label["words"]] == titles[0].split()
    word = titles[0].split()[0]
    without = predict(client, titles[0].replace(word, "", 1), 1, allowed=[plain[0]["uid"]])[0]["score"]
    assert explained[0]["words"][0]["weight"] == pytest.approx(plain[0]["score"] - without, abs=1e-4)
    assert client.post("/v1/predict", json={"texts": ["a", "b"], "explain": True}).status_code == 422
    assert predict(client, "", 1, explain=True)[0]["words"] == []


@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic bGV0IG1l"}, {"Authorization": "let me"}]
)
def test_changes_need_the_token(client, header, titles):
    assert client.post("/v1/labels", json={"uid": "a", "text": "b"}, headers=header).status_code == 401
    assert client.delete("/v1/labels/a", headers=header).status_code == 401
    assert len(client.get("/v1/labels?limit=1000").json()["labels"]) == 120


def test_without_a_token_changes_are_refused(run, monkeypatch):
    monkeypatch.delenv(TOKEN, raising=False)
    with TestClient(application(Settings(run, device="cpu"))) as client:
        for header in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer x"}):
            assert client.post("/v1/labels", json={"uid": "a", "text": "b"}, headers=header).status_code == 403
        assert client.get("/v1/model").json()["changes"] is False


BAD_BODIES = {
    "no json": b"{",
    "invalid UTF-8": b'{"texts": ["\xff\xfe"]}',
    "a list": b"[]",
    "no texts": b"{}",
    "empty texts": b'{"texts": []}',
    "wrong type": b'{"texts": "one"}',
    "a number": b'{"texts": [1]}',
    "nul": b'{"texts": ["a\\u0000b"]}',
    "lone surrogate": b'{"texts": ["\\ud800"]}',
    "lone surrogate as a key": b'{"texts": ["a"], "\\ud800": 1}',
    "k 0": b'{"texts": ["a"], "k": 0}',
    "k huge": b'{"texts": ["a"], "k": 1e400}',
    "k very many digits": b'{"texts": ["a"], "k": ' + b"9" * 5000 + b"}",
    "k a string": b'{"texts": ["a"], "k": "5"}',
    "k true": b'{"texts": ["a"], "k": true}',
    "k nan": b'{"texts": ["a"], "k": NaN}',
    "unknown field": b'{"texts": ["a"], "q": 1}',
    "unknown kind": b'{"texts": ["a"], "kind": "best"}',
    "kind of another model": b'{"texts": ["a"], "kind": "combined"}',
    "too many texts": json.dumps({"texts": ["a"] * (schemas.TEXTS + 1)}).encode(),
    "too long a text": json.dumps({"texts": ["a" * (schemas.LENGTH + 1)]}).encode(),
    "deep": b'{"texts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in BAD_BODIES.items()])
def test_a_bad_request_gets_one_clear_line(client, body):
    answer = client.post("/v1/predict", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert isinstance(answer.json()["detail"], str)
    assert len(answer.json()["detail"]) < 400
    assert "Traceback" not in answer.text


def test_json_that_is_not_said_to_be_json_is_refused_with_the_header_to_send(client):
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # what curl -d sends by itself
    answer = client.post("/v1/predict", content=b'{"texts": ["a"]}', headers=form)
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith("send it with the header Content-Type: application/json")


@pytest.mark.parametrize(
    "label",
    [
        {"uid": "", "text": "a"},
        {"uid": "a", "text": " "},
        {"uid": "a"},
        {"uid": "a\0", "text": "b"},
        {"uid": 1, "text": "b"},
    ],
)
def test_a_bad_label_is_refused(client, bearer, label):
    for body in (label, [label]):
        answer = client.post("/v1/labels", json=body, headers=bearer)
        assert answer.status_code == 422, answer.text
        assert isinstance(answer.json()["detail"], str)
    assert client.post("/v1/labels", json=[], headers=bearer).status_code == 422


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("predict", {"texts": ["a", "b" * 20_001]}, "texts.1: String should have at most 20000 characters"),
        (
            "predict",
            {"texts": [{"title": "a", "content": "b" * 20_001}]},
            "texts.0.content: String should have",
        ),
        ("predict", {"texts": [{"title": "a", "body": "b"}]}, "texts.0.body: Extra inputs are not permitted"),
        ("predict", {"texts": [{"content": "a"}]}, "texts.0.title: Field required"),
        ("predict", {"texts": [["a"]]}, "texts.0: Input should be a text or an object with a title"),
        ("predict", {"texts": [1]}, "texts.0: Input should be a text or an object with a title"),
        (
            "corrections",
            {"text": {"title": 1}, "uid": "a", "right": True},
            "text.title: Input should be a valid",
        ),
        ("labels", [{"uid": f"n{i}", "text": "a"} for i in range(1_001)], ": List should have at most 1000 items"),
        ("labels", [], ": List should have at least 1 item"),
        ("labels", [{"uid": "q", "text": ""}], "0.text: String should have at least 1 character"),
        ("labels", {"uid": "q", "text": ""}, "text: String should have at least 1 character"),
        ("labels", {"uid": "q", "text": "a", "examples": ["b", {}]}, "examples.1.title: Field required"),
        ("labels", "a", ": Input should be a label or a list of labels"),
    ],
)
def test_what_may_be_of_two_kinds_is_refused_as_the_one_that_was_sent(client, bearer, path, body, said):
    answer = client.post(f"/v1/{path}", json=body, headers=bearer)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"body{said if said[0] == ':' else '.' + said}")


def test_a_large_body_is_refused(client):
    large = b'{"texts": ["' + b"a" * 5 * 2**20 + b'"]}'
    assert client.post("/v1/predict", content=large).status_code == 413
    assert client.post("/v1/predict", content=(part for part in [large])).status_code == 413  # without a length


def test_bad_paths_and_queries(client, bearer):
    assert client.get("/v1/labels/%00").status_code == 422
    assert client.get("/v1/labels?query=%00").status_code == 422
    assert client.get("/v1/labels?limit=1001").status_code == 422
    assert client.get("/v1/labels/" + "a" * 600).status_code == 422
    assert client.get("/nothing").status_code == 404
    assert client.put("/v1/predict").status_code == 405
    assert client.delete("/v1/labels/%FF", headers=bearer).status_code == 404


def test_a_fault_of_ours_is_an_error_without_a_traceback(client, monkeypatch, caplog):
    monkeypatch.setattr("longtail.serve.answers._together", lambda *_: 1 / 0)
    answer = client.post("/v1/predict", json={"texts": ["a"]})
    assert answer.status_code == 500
    assert answer.json() == {"detail": "internal error; the server's log has more"}
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't start new thread"), sqlite3.OperationalError("out of memory")]
)
@pytest.mark.parametrize(
    ("place", "path", "body"),
    [
        ("answers._together", "/v1/predict", {"texts": ["a"]}),
        ("service.LabelSet.refresh", "/v1/predict", {"texts": ["a"]}),
        ("service.LabelSet.add", "/v1/labels", {"uid": "a", "text": "a"}),
        ("answers.Ranked.as_dict", "/v1/predict", {"texts": ["a"]}),
    ],
)
def test_too_little_memory_is_an_answer_of_its_own(client, bearer, monkeypatch, caplog, error, place, path, body):
    """Libraries say it in words of their own, and wherever it comes up, it is no fault of the program."""

    def fail(*_):
        raise error

    monkeypatch.setattr(f"longtail.serve.{place}", fail)
    answer = client.post(path, json=body, headers=bearer)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "not enough memory" in answer.json()["detail"]
    assert "Traceback" not in caplog.text


def test_a_full_server_says_so(client, monkeypatch):
    from longtail.serve.batcher import Batcher, Full, Late

    for error, status in ((Full, 429), (Late, 503)):

        async def refuse(*_, error=error):
            raise error

        monkeypatch.setattr(Batcher, "__call__", refuse)
        answer = client.post("/v1/predict", json={"texts": ["a"]})
        assert answer.status_code == status
        assert answer.headers["retry-after"] == "1"


def test_the_first_scrape_has_the_labels(run):
    with TestClient(application(Settings(run, device="cpu", watch=60))) as client:
        assert 'longtail_labels{state="model"} 120.0' in client.get("/metrics").text


def test_health_metrics_model_and_page(client, bearer):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
    predict(client, "one")
    client.post("/v1/labels", json={"uid": "n", "text": "t"}, headers=bearer)
    time.sleep(0.2)
    text = client.get("/metrics").text
    assert 'longtail_request_seconds_count{method="POST",route="/v1/predict",status="200"} 1.0' in text
    assert 'longtail_label_changes_total{change="add"} 1.0' in text
    assert 'longtail_labels{state="model"} 120.0' in text
    assert "longtail_batch_texts_count" in text
    card = client.get("/v1/model").json()
    assert card["recipe"] == "ngame"
    assert card["labels"] == {"model": 120, "hidden": 0, "added": 1, "all": 121}
    assert "data" not in card["settings"]
    for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")):
        answer = client.get(path)
        assert answer.headers["content-type"].startswith(kind)
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")


def test_a_change_from_outside_and_a_compaction_are_taken_up(client, run, known):
    other = LabelSet(run, device="cpu")
    other.add([NewLabel("outside", known)])
    assert predict(client, known, 1, kind="encoder")[0]["uid"] == "outside"
    other.refresh()
    other.compact()
    other.close()
    deadline = time.monotonic() + 20
    while client.get("/v1/model").json()["labels"]["model"] != 121:
        assert predict(client, known, 1, kind="encoder")[0]["uid"] == "outside"
        assert time.monotonic() < deadline
    assert predict(client, known, 1, kind="encoder")[0]["uid"] == "outside"
    assert len(load(run, device="cpu").labels) == 121


def test_a_new_run_takes_over_without_a_failed_request(run, trained, tmp_path, monkeypatch, bearer, known):
    import shutil

    monkeypatch.setenv(TOKEN, bearer["Authorization"].removeprefix("Bearer "))
    link = tmp_path / "current"
    link.symlink_to(run)
    other = shutil.copytree(trained, tmp_path / "other")
    label_set = LabelSet(other, device="cpu")
    label_set.add([NewLabel("of the other", known)])
    label_set.close()
    with TestClient(application(Settings(link, device="cpu", watch=0.05))) as client:
        assert predict(client, known, 1, kind="encoder")[0]["uid"] != "of the other"
        (tmp_path / "next").symlink_to(other)
        (tmp_path / "next").replace(link)
        deadline = time.monotonic() + 20
        while predict(client, known, 1, kind="encoder")[0]["uid"] != "of the other":
            assert time.monotonic() < deadline
        assert client.post("/v1/labels", json={"uid": "n", "text": "t"}, headers=bearer).status_code == 201
        broken = tmp_path / "broken"
        (broken / "model").mkdir(parents=True)
        (broken / "model" / "bundle.json").write_text('{"format": 0}')
        (tmp_path / "next").symlink_to(broken)
        (tmp_path / "next").replace(link)
        while 'longtail_reloads_total{result="refused"} 1.0' not in client.get("/metrics").text:
            assert time.monotonic() < deadline
        assert predict(client, known, 1, kind="encoder")[0]["uid"] == "of the other"  # the one that works stays


def test_a_run_of_two_runs_is_served_as_any_other(client, run, tmp_path, bearer):
    one = load(run, device="cpu")
    weights = np.outer(np.arange(1.0, 2 * len(one.mixed) + 2), [1.0, 0, 0])
    both = Ensemble(one, one).fused_by(Fusion(weights, np.ones(len(one.labels), np.int64)))
    both.save(tmp_path / "both" / "model")
    with TestClient(application(Settings(tmp_path / "both", device="cpu")), raise_server_exceptions=False) as made:
        card = made.get("/v1/model").json()
        assert card["recipe"] == "ngame and ngame"
        assert card["kinds"] == ["first", "second", "fused"]
        assert card["encoder"] == "BagEncoder and BagEncoder"
        assert predict(made, "one two", kind="second") == predict(client, "one two")
        assert made.post("/v1/labels", json={"uid": "n", "text": "a new one"}, headers=bearer).status_code == 201
        for kind in card["kinds"]:
            found = predict(made, "a new one", 1000, kind=kind, explain=True)
            assert "n" in [label["uid"] for label in found]
            assert found[0]["scores"].keys() == set(card["kinds"])


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"a": NaN}', b'{"a": "\\ud800"}', b"[" * 100_000])
def test_the_card_leaves_out_what_cannot_be_read(client, run, caplog, content):
    whole = client.get("/v1/model").json()
    for name in ("run.json", "evaluation.json"):
        (run / name).write_bytes(content)
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(content)
    card = client.get("/v1/model")
    assert card.status_code == 200
    assert card.json() == {**whole, "settings": {}, "evaluation": None}
    assert "a file of the run cannot be read" in caplog.text


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_no_change_is_acknowledged_once_the_catalogue_is_gone(client, run, bearer, how):
    assert client.post("/v1/labels", json={"uid": "a", "text": "one"}, headers=bearer).status_code == 201
    assert client.get("/v1/labels/a").status_code == 200
    copied = Path(shutil.copy(run / "labels.sqlite", run / "copied"))
    (run / "labels.sqlite").unlink()
    if how == "replaced":
        copied.rename(run / "labels.sqlite")
    for _ in range(2):
        answer = client.post("/v1/labels", json={"uid": "b", "text": "two"}, headers=bearer)
        assert answer.status_code == 503
        assert "removed or replaced" in answer.json()["detail"]
        assert client.delete("/v1/labels/a", headers=bearer).status_code == 503
        assert client.get("/v1/labels/b").status_code == 404
        assert client.get("/v1/labels/a").status_code == 200
        assert client.post("/v1/predict", json={"texts": ["one"]}).status_code == 200
    assert client.get("/readyz").status_code == 200


def test_no_wait_hangs_on_the_clock_of_the_system(client, bearer, monkeypatch):
    """It may be set back or forth: waits and deadlines are of the monotonic clock."""
    for year in (-30, 30):
        now = time.time
        monkeypatch.setattr(time, "time", lambda now=now, year=year: now() + year * 31e6)
        for i in range(3):
            assert client.post("/v1/predict", json={"texts": ["one"]}).status_code == 200
            uid = f"{year}-{i}"
            assert client.post("/v1/labels", json={"uid": uid, "text": "x"}, headers=bearer).status_code == 201
            assert client.get(f"/v1/labels/{uid}").status_code == 200
        time.sleep(0.2)
        assert client.get("/readyz").status_code == 200
