"""A process that changes the catalogue is killed many times: what it acknowledged is there, and nothing half-done is.

`test_server_process.py` kills the whole server; here only the process that writes is started anew, by a fork.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

DRIVER = """
import os, pathlib, random, signal, sys, time
import numpy as np
from longtail.model.catalogue import Catalogue, Change, Correction

run, moments = pathlib.Path(sys.argv[1]), random.Random(0)
rows = {"encoder": np.arange(256, dtype=np.float32)[None]}
Catalogue(run).close()
known, acknowledged = {}, 0
for kill in range(int(sys.argv[2])):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        catalogue, dice, i = Catalogue(run), random.Random(kill), 0
        while True:
            i += 1
            pair, text = f"{kill}-{i}", None if i % 3 == 0 else f"text {i}"
            if text is None:
                pair = f"{kill}-{i - 1}"
            os.write(writer, f"tried {pair} {text}\\n".encode())
            catalogue.put([Change(f"{pair}-{n}", text, (), {} if text is None else rows) for n in range(5)])
            os.write(writer, f"done {pair} {text}\\n".encode())
            kept = catalogue.correct([Correction({"title": f"{kill}-{i}"}, f"{n}", n == 1) for n in range(2)])
            catalogue.withdraw(kept[0].number - i % 2)
            os.write(writer, f"corrected {kept[1].number} {i}\\n".encode())
    os.close(writer)
    time.sleep(moments.uniform(0.01, 0.15))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    lines = open(reader).read().splitlines()
    catalogue = Catalogue(run)
    found = {change.uid: change.text for change in catalogue.since(0)[1]}
    corrected = {int(line.split()[1]) for line in lines if line.startswith("corrected")}
    assert corrected <= set(catalogue.corrections(0)[0])
    catalogue.close()
    for line in lines:
        word, pair, text = line.split(" ", 2)
        if word == "done":
            known[pair], acknowledged = (None if text == "None" else text), acknowledged + 1
    if lines and lines[-1].startswith("tried"):
        _, pair, text = lines[-1].split(" ", 2)
        states = {found.get(f"{pair}-{n}", "absent") for n in range(5)}
        assert len(states) == 1, f"half of a change: {states}"
        (state,) = states
        assert state in ({known.get(pair, "absent")} | {None if text == "None" else text})
        if state != "absent":
            known[pair] = state
    for pair, text in known.items():
        assert all(found[f"{pair}-{n}"] == text for n in range(5)), (kill, pair)
    assert len(found) == 5 * len(known)
print(f"{acknowledged} acknowledged changes of 5 labels")
"""


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_what_was_acknowledged_survives_kills_of_the_writer(run, kills):
    command = [sys.executable, "-c", DRIVER, str(run), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert int(done.stdout.split()[0]) > kills
