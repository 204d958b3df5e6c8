"""Whoever is asked, `longtail.load`, ``longtail predict`` or the server: the same ids, uids, texts and scores."""

from __future__ import annotations

import json

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from longtail import Dataset, load, recipes
from longtail.cli.verbs import app
from longtail.serve.app import application
from longtail.serve.service import Settings

ALL = 500  # more labels than any run here has


def longtail(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (arguments, done.output, done.exception)


def asked_in_python(run, texts, k, kind):
    rows = load(run, device="cpu").predict(texts, k=k, kind=kind)
    return [[label._asdict() for label in row] for row in rows]


def asked_by_command(run, texts, k, kind):
    given, out = run.parent / "texts.txt", run.parent / "out.jsonl"
    given.write_text("".join(f"{text}\n" for text in texts))
    options = ("--input", given, "--output", out, "--k", k, "--device", "cpu")
    longtail("predict", run, *options, *(("--kind", kind) if kind else ()))
    return [json.loads(line)["labels"] for line in out.read_text().splitlines()]


def asked_by_array(run, texts, k, kind):
    given, out = run.parent / "texts.txt", run.parent / "out.npz"
    given.write_text("".join(f"{text}\n" for text in texts))
    options = ("--input", given, "--output", out, "--k", k, "--device", "cpu", "--uids")
    longtail("predict", run, *options, *(("--kind", kind) if kind else ()))
    with np.load(out) as arrays:
        columns = [arrays[name].tolist() for name in ("ids", "uids", "scores")]
    return [
        [{"id": i, "uid": uid, "score": score} for i, uid, score in zip(*row, strict=True) if i >= 0]
        for row in zip(*columns, strict=True)
    ]


def asked_by_http(run, texts, k, kind):
    with TestClient(application(Settings(run, device="cpu"))) as client:
        answer = client.post("/v1/predict", json={"texts": texts, "k": k, "kind": kind})
    assert answer.status_code == 200, answer.text
    return [row["labels"] for row in answer.json()["results"]]


def ask_all(run, texts, kind=None, k=ALL):
    """What all of them answer: of each text, the labels by uid."""
    expected = asked_in_python(run, texts, k, kind)
    assert all(expected)
    for ask in (asked_by_command, asked_by_http, asked_by_array):
        found = ask(run, texts, k, kind)
        for one, other in zip(expected, found, strict=True):
            for name in ("id", "uid", *(("text",) if ask is not asked_by_array else ())):
                assert [label.get(name) for label in one] == [label.get(name) for label in other], (ask, name)
            np.testing.assert_allclose(
                [label["score"] for label in one], [label["score"] for label in other], atol=1e-6
            )
    return [{label["uid"]: label for label in row} for row in expected]


@pytest.fixture
def steps(run):
    """Every kind of change, by name: commands, one after the other."""
    labels = load(run, device="cpu", changes=False).labels
    uids, titles = list(labels.uids), list(labels.fields["title"])
    return {
        "nothing": [],
        "add": [("add", run, "--uid", "new", "--text", titles[0])],
        "add with examples": [("add", run, "--uid", "taught", "--text", titles[1], "--example", titles[2])],
        "replace one of the model": [("add", run, "--uid", uids[7], "--text", titles[8])],
        "replace one that was added": [("add", run, "--uid", "new", "--text", titles[3])],
        "remove": [("remove", run, uids[0], uids[90], "taught")],
        "add one more": [("add", run, "--uid", "later", "--text", titles[4])],
        "compact": [("compact", run)],
        "add those again that were removed": [
            ("add", run, "--uid", "taught", "--text", titles[1]),
            ("add", run, "--uid", uids[0], "--text", titles[0]),
        ],
        "compact and drop": [("remove", run, "new"), ("compact", run), ("remove", run, uids[3]), ("compact", run)],
        "add after that": [("add", run, "--uid", "new", "--text", "x"), ("add", run, "--uid", "last", "--text", "y")],
    }


def test_all_answer_alike_after_every_kind_of_change(run, steps):
    trained = load(run, device="cpu", changes=False)
    texts = [*trained.labels.fields["title"]][:3]
    ids = dict(zip(trained.labels.uids, range(120), strict=True))
    for name, commands in steps.items():
        for command in commands:
            longtail("labels", *command)
        rows = ask_all(run, texts, "encoder" if name == "compact" else None)
        ids |= {uid: label["id"] for uid, label in rows[0].items() if uid not in ids}
        assert all(ids[uid] == label["id"] for row in rows for uid, label in row.items()), name
    assert (ids["new"], ids["taught"], ids["later"], ids["last"]) == (120, 121, 122, 123)
    assert len(load(run, device="cpu").labels) == 120 + 4 - 2
    assert load(run, device="cpu").ids.tolist() != list(range(122))
    assert len(load(run, device="cpu", changes=False).labels) == 120


def test_an_index_answers_wherever_it_is_asked(run, steps, monkeypatch):
    pytest.importorskip("faiss", reason="the extra longtail[faiss] is not installed")
    from longtail.search.faiss import Approximate

    texts, found = [*load(run, device="cpu").labels.fields["title"]][:3], []
    plain = Approximate.search
    monkeypatch.setattr(Approximate, "search", lambda self, *given: found.append(self) or plain(self, *given))
    before = ask_all(run, texts, k=5)
    assert not found
    longtail("index", run, "--recall", 0.9, "--device", "cpu")
    for name in ("nothing", "add", "remove", "compact", "add after that"):
        for command in steps[name]:
            longtail("labels", *(one for one in command if one != "taught"))
        for ask in (asked_in_python, asked_by_command, asked_by_http):
            found.clear()
            ask(run, texts, 5, None)
            assert found, (name, ask)
        after = ask_all(run, texts, k=5)
        assert all(set(one) & set(other) for one, other in zip(before, after, strict=True))
    found.clear()
    load(run, device="cpu", exact=True).predict(texts)
    assert not found


@pytest.fixture
def unnamed(tmp_path):
    """A run whose labels have no uids."""
    texts = ["red shoes", "oak table", "grey hat", "blue shoes"]
    data = Dataset.from_texts(texts, [[0], [1], [2], [0]], ["footwear", "furniture", "headwear"])
    recipes.dpr(data, out=tmp_path / "run", epochs=1, device="cpu")
    return tmp_path / "run"


def test_a_label_without_a_uid_is_known_by_its_id(unnamed):
    def known():
        (row,) = ask_all(unnamed, ["red shoes"])
        return {uid: (label["id"], label["text"]) for uid, label in row.items()}

    before = known()
    assert before == {"0": (0, "footwear"), "1": (1, "furniture"), "2": (2, "headwear")}
    longtail("labels", "remove", unnamed, "1")
    longtail("labels", "add", unnamed, "--uid", "new", "--text", "gloves")
    after = {"0": (0, "footwear"), "2": (2, "headwear"), "new": (3, "gloves")}
    assert known() == after
    longtail("labels", "compact", unnamed)
    assert known() == after
    longtail("labels", "add", unnamed, "--uid", "1", "--text", "furniture")
    assert known() == after | {"1": (1, "furniture")}


def test_opening_a_run_writes_nothing(run):
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    ask_all(run, ["one two"])
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
