"""Real server processes: killed, stopped, several at once."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time

import pytest

from longtail.model.catalogue import Catalogue

PAIR = 2  # labels that are added together


class Changer(threading.Thread):
    """Adds and removes labels in pairs until the server dies, and notes what was acknowledged and what was tried."""

    def __init__(self, server, known, number, moments):
        super().__init__()
        self.server, self.known, self.number, self.moments = server, known, number, moments
        self.tried, self.acknowledged = None, 0

    def run(self):
        i = 0
        while True:
            i += 1
            there = sorted(pair for pair, state in self.known.items() if state)
            if there and self.moments.random() < 0.3:
                pair, state = self.moments.choice(there), None
            else:
                pair, state = f"{self.number}-{i}", f"text {i}"
            self.tried = (pair, state)
            try:
                if state is None:  # a removal is of one label: the first of its pair
                    status, _ = self.server.ask("DELETE", f"/v1/labels/{pair}-0")
                else:
                    labels = [{"uid": f"{pair}-{n}", "text": state, "examples": ["one"]} for n in range(PAIR)]
                    status, _ = self.server.ask("POST", "/v1/labels", labels)
            except (OSError, http.client.HTTPException):
                return
            assert status in (201, 204), status
            self.known[pair] = state
            self.acknowledged += 1
            self.tried = None


def check(catalogue, known, tried):
    """Every acknowledged change is there; one that was tried is there whole or not at all, and is now known."""
    texts = {change.uid: change.text for change in catalogue.since(0)[1]}
    if tried is not None:
        pair, state = tried
        found = [texts.get(f"{pair}-{n}", "absent") for n in range(PAIR)]
        if state is not None:
            assert found in (["absent"] * PAIR, [state] * PAIR), "half of a change"
            if found[0] == state:
                known[pair] = state
        elif found[0] is None:
            known[pair] = None
    for pair, state in known.items():
        assert texts[f"{pair}-0"] == state
        assert texts[f"{pair}-1"] is not None
    assert len(texts) == PAIR * len(known)


def kill_often(start_server, run, kills, seed):
    known, acknowledged, moments = {}, 0, random.Random(seed)
    for number in range(kills):
        server = start_server(run)
        server.wait_until_ready()
        for pair in sorted(known)[-3:]:  # the server itself knows them too
            status, _ = server.ask("GET", f"/v1/labels/{pair}-0")
            assert status == (404 if known[pair] is None else 200)
        changer = Changer(server, known, number, moments)
        changer.start()
        time.sleep(moments.uniform(0.02, 0.6))
        server.kill()
        changer.join(30)
        acknowledged += changer.acknowledged
        catalogue = Catalogue(run)
        check(catalogue, known, changer.tried)
        catalogue.close()
    return acknowledged


def test_what_was_acknowledged_survives_kill_9(run, start_server):
    assert kill_often(start_server, run, 3, seed=0) > 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_what_was_acknowledged_survives_50_kills(run, start_server):
    print(f"acknowledged changes over 50 kills: {kill_often(start_server, run, 50, seed=1)}")


def test_several_processes_agree_and_stop_gracefully(run, start_server):
    server = start_server(run, "--workers", 2)
    server.wait_until_ready()
    assert sum("labels can be changed and corrected, with the token" in line["event"] for line in server.lines) == 1
    for i in range(5):
        assert server.ask("POST", "/v1/labels", {"uid": f"n{i}", "text": f"text {i}"})[0] == 201
        for _ in range(6):  # whichever process answers
            assert server.ask("GET", f"/v1/labels/n{i}")[0] == 200
        assert server.ask("DELETE", f"/v1/labels/n{i}")[0] == 204
        for _ in range(6):
            assert server.ask("GET", f"/v1/labels/n{i}")[0] == 404
    assert b'status="201"} 5.0' in server.ask("GET", "/metrics")[1]  # of both processes
    assert server.stop()


def test_a_stopped_server_finishes_what_it_accepted(run, start_server):
    server = start_server(run, "--deadline", 100)
    server.wait_until_ready()
    answers = []

    def ask(i):
        texts = [f"text {i} {j}" for j in range(256)]
        answers.append(server.ask("POST", "/v1/predict", {"texts": texts, "k": 100}))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)  # they are on their way, or answered
    assert server.stop()
    for thread in threads:
        thread.join(60)
    assert [status for status, _ in answers] == [200] * 3
    assert all(len(json.loads(body)["results"]) == 256 for _, body in answers)
    assert {"time", "level", "logger", "event", "process"} <= server.lines[0].keys()
