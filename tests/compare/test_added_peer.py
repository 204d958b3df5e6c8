"""A peer is a file and a row: one from outside is in the help of compare, runs apart from longtail, and is reported."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import longtail.cli.compare
from longtail.compare import peers
from longtail.compare.comparison import compare
from longtail.compare.methods import Method
from longtail.compare.peer_exchange import program
from longtail.compare.peers import PEERS, about
from longtail.errors import BadInput
from longtail.testing.planted import planted

TOY = '''
"""A peer of somebody else's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from longtail.compare.peers.base import Given, Package, Ranking, Reads


@dataclass(frozen=True)
class Toy:
    """The labels that training documents have most often, for everybody."""

    reads: ClassVar[Sequence[Reads]] = ("texts",)
    package: ClassVar[Package] = None
    fields: Sequence[str] = ("title",)
    first: int = 3

    def __call__(self, given: Given, model: Path) -> Callable[[], Ranking]:
        """Count."""
        model.mkdir()
        (model / "saw.txt").write_text(repr([name for name in sys.modules if name.startswith("longtail")] + sys.path))
        counts = np.asarray(given.matrix("targets").sum(0)).ravel()
        best = np.argsort(-counts, kind="stable")[: self.first]
        n = len(given.texts("test"))
        return lambda: Ranking(np.tile(best, (n, 1)), np.tile(-np.arange(len(best), dtype=np.float32), (n, 1)))
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The class, of a module that is in no package."""
    (tmp_path / "toy_peer.py").write_text(TOY)
    spec = importlib.util.spec_from_file_location("toy_peer", tmp_path / "toy_peer.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "toy_peer", module)
    spec.loader.exec_module(module)
    monkeypatch.setitem(PEERS, "toy", module.Toy)
    return module.Toy


def test_it_runs_apart_and_is_reported(toy, tmp_path):
    data = planted(0, documents=80, test_documents=20, labels=20).dataset
    data.write(tmp_path / "data")
    results = compare(
        tmp_path / "data", [Method.parse("two=toy:first=2"), *Method.parse_peers("toy")], tmp_path / "out"
    )
    assert results["failed"] == {}
    counts = np.asarray(data.train.targets.sum(0)).ravel()
    best = np.argsort(-counts, kind="stable")[0]
    expected = 100 * data.test.targets[:, [best]].mean()
    assert results["rows"]["two"]["kinds"]["peer"]["P@1"]["mean"] == pytest.approx(expected)
    for name in ("results.md", "report.html"):
        text = (tmp_path / "out" / name).read_text()
        assert "two" in text
        assert "toy" in text
    run = tmp_path / "out" / "runs" / "two" / "seed-0"
    assert json.loads((run / "run.json").read_text())["arguments"] == {"fields": ["title"], "first": 2}
    saw = (run / "model" / "saw.txt").read_text()
    for name in ("longtail", "longtail.compare", "longtail.compare.peers", "longtail.compare.peers.base"):
        assert repr(name) in saw
    assert saw.count("'longtail") == 5  # and longtail.memory
    assert str(tmp_path) not in saw


def test_it_is_in_the_help_of_compare(toy):
    try:
        app = typer.Typer()
        app.command()(importlib.reload(longtail.cli.compare).compare)
        said = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output.replace("│", " ").split())
    finally:
        PEERS.pop("toy")
        importlib.reload(longtail.cli.compare)
    assert "toy: The labels that training documents have most often, for everybody" in said
    assert all(about(name).split(" (")[0] in said for name in PEERS)


def test_what_it_takes_is_said(toy):
    with pytest.raises(BadInput, match=r"has no option last; its options are fields, first$"):
        Method.parse_peers("toy:last=3")


def test_nothing_of_longtail_is_found_by_a_peer(tmp_path):
    """Neither installed nor beside the program, but for the files that are meant to be."""
    python = program(sys.executable)
    assert python[1] == "-I"
    source = f"""
import runpy, sys
module = runpy.run_path({python[2]!r})
module["isolate"]()
import longtail.compare.peers.base, longtail.memory
for name in ("longtail.errors", "longtail.compare.peer_exchange", "longtail.topk"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{{name}} was found")
"""
    done = subprocess.run([sys.executable, "-I", "-c", source], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", PEERS)
def test_a_row_says_what_it_is(name):
    assert 20 < len(about(name)) < 120
    assert PEERS[name].__module__.startswith(peers.__name__)
