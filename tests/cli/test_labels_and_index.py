"""``longtail labels`` and ``longtail index``: the label set of a trained model, from the command line."""

from __future__ import annotations

import json

import pytest


@pytest.fixture(scope="module")
def run(planted_folder, longtail, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = ("--epochs", 1, "--classifier-epochs", 1, "--batch", 64, "--width", 16, "--device", "cpu")
    assert longtail("train", "ngame", planted_folder, "--out", folder, *options)[0] == 0
    return folder


def test_labels_come_and_go(run, longtail, tmp_path):
    assert longtail("labels", "add", run, "--uid", "a", "--text", "one text", "--example", "first")[0] == 0
    lines = [{"uid": "b", "text": "two"}, {"uid": "c", "text": "three", "examples": ["x", {"title": "y"}]}]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert longtail("labels", "add", run, "--input", tmp_path / "new.jsonl")[0] == 0
    assert longtail("labels", "remove", run, "b", "b") == (0, "", "removed 1\n")
    status, _, errors = longtail("labels", "remove", run, "a", "nobody")
    assert status == 1
    assert "found nobody" in errors
    status, output, _ = longtail("labels", "list", run)
    assert [json.loads(line) for line in output.splitlines()] == [
        {"uid": "a", "text": "one text", "examples": [{"title": "first"}]},
        {"uid": "c", "text": "three", "examples": [{"title": "x"}, {"title": "y"}]},
        {"uid": "b", "removed": True},
    ]
    assert longtail("labels", "compact", run)[2].startswith("122 labels in one table")
    status, output, _ = longtail("predict", run, "--k", 200, "--kind", "encoder", stdin="one text\n")
    found = {label["uid"] for label in json.loads(output)["labels"]}
    assert len(found) == 122
    assert {"a", "c"} <= found


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"uid": "a"}', '{"uid": 1, "text": "x"}', '{"uid": "a", "text": "x", "examples": [5]}']
)
def test_a_bad_line_is_named(run, longtail, tmp_path, line):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"uid": "fine", "text": "fine"}\n' + line + "\n")
    status, _, errors = longtail("labels", "add", run, "--input", path)
    assert status == 1
    assert f"{path}, line 2: expected" in errors


def test_an_index_is_kept_and_measured(run, longtail):
    pytest.importorskip("faiss", reason="the extra longtail[faiss] is not installed")
    status, output, errors = longtail("index", run, "--recall", 0.5)
    assert status == 0, errors
    assert "exact search is as good below 300,000" in output
    assert "hnsw over" in output
    assert longtail("labels", "add", run, "--uid", "z", "--text", "last")[0] == 0
    assert longtail("labels", "compact", run)[0] == 0
    kept = sorted(run.glob("model-*/index/fused/index.json"))
    assert json.loads(kept[-1].read_text())["labels"] == 123


def test_clear_errors(run, longtail, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_bytes(b"fine\n\xe9\n")
    for arguments, message in (
        (("labels", "add", run), "expected --uid and --text, or --input"),
        (("serve", tmp_path), "expected a trained model"),
        (("bench", "serve", "http://192.0.2.1:80"), "loopback"),
        (("bench", "serve", "http://127.0.0.1:9", "--seconds", 1), "no server answers"),
        (("bench", "serve", "http://127.0.0.1:9", "--texts", texts), "texts.txt, line 2: expected utf-8 text"),
    ):
        status, _, errors = longtail(*arguments)
        assert status == 1
        assert message in errors.replace("\n", " ")
