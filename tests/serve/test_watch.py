"""A newer model that cannot be opened is told of, and the watch for a better one goes on."""

from __future__ import annotations

import json
import logging
import shutil

import pytest
from starlette.testclient import TestClient
from waiting import until

from longtail.model.label_set import LabelSet, NewLabel
from longtail.serve import service
from longtail.serve.app import application
from longtail.serve.batcher import Late
from longtail.serve.service import Settings
from longtail.serve.telemetry import JsonLines

ASKED = {"texts": ["one two"], "k": 1000, "kind": "encoder"}


def reloads(client, result):
    lines = client.get("/metrics").text.splitlines()
    return next((float(line.split()[-1]) for line in lines if f'reloads_total{{result="{result}"}}' in line), 0.0)


def uids(client):
    answer = client.post("/v1/predict", json=ASKED)
    assert answer.status_code == 200
    return {label["uid"] for label in answer.json()["results"][0]["labels"]}


@pytest.fixture
def good(trained, tmp_path):
    """Another run, with one more label."""
    folder = shutil.copytree(trained, tmp_path / "good")
    label_set = LabelSet(folder, device="cpu")
    label_set.add([NewLabel("of the good one", "one two")])
    label_set.close()
    return folder


@pytest.fixture
def served(run, tmp_path):
    """A client of a server whose run is a link, and what moves the link."""
    link = tmp_path / "current"
    link.symlink_to(run)

    def move(folder):
        (tmp_path / "next").symlink_to(folder)
        (tmp_path / "next").replace(link)

    with TestClient(application(Settings(link, device="cpu", watch=0.05)), raise_server_exceptions=False) as client:
        yield client, move


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 5}', "\ud800", None])
def test_after_a_broken_card_a_good_model_is_taken(served, trained, good, tmp_path, caplog, content):
    client, move = served
    broken = shutil.copytree(trained, tmp_path / "broken")
    card = broken / "model" / "bundle.json"
    card.write_bytes(card.read_bytes()[:100] if content is None else content.encode(errors="surrogatepass"))
    with caplog.at_level(logging.ERROR):
        move(broken)
        until(lambda: reloads(client, "refused") == 1)
    (line,) = [JsonLines().format(record) for record in caplog.records]
    assert "bundle.json" in json.loads(line)["problem"]
    assert "traceback" not in line
    assert client.get("/readyz").status_code == 200
    assert "of the good one" not in uids(client)
    move(good)
    until(lambda: reloads(client, "done") == 1)
    assert "of the good one" in uids(client)


def test_a_model_that_is_mended_in_place_is_taken(served, good):
    client, move = served
    table = good / "model" / "labels.safetensors"
    content = table.read_bytes()
    table.write_bytes(content[:-1])  # as if somebody still copied it
    move(good)
    until(lambda: reloads(client, "refused") == 1)
    table.write_bytes(content)
    until(lambda: reloads(client, "done") == 1)
    assert "of the good one" in uids(client)


@pytest.mark.parametrize("error", [KeyError("format"), RuntimeError("a library failed"), MemoryError(), Late()])
def test_nothing_ends_the_watch(served, good, monkeypatch, error):
    client, move = served
    fails = iter([True])
    replace = service.Service._replace

    async def failing(self, labels, *given):
        if next(fails, False):
            labels.close()
            raise error
        await replace(self, labels, *given)

    monkeypatch.setattr(service.Service, "_replace", failing)
    move(good)
    until(lambda: reloads(client, "refused") == 1)
    assert client.get("/readyz").status_code == 200
    until(lambda: reloads(client, "done") == 1)
    assert "of the good one" in uids(client)


def test_a_run_that_goes_away_is_told_of_once_and_may_come_back(served, run, good, tmp_path):
    client, move = served
    run.rename(tmp_path / "elsewhere")
    until(lambda: reloads(client, "refused") == 1)
    assert client.get("/readyz").status_code == 200
    move(good)
    until(lambda: reloads(client, "done") == 1)
    assert reloads(client, "refused") == 1
