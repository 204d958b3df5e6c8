"""The drawings of the docs: what a run answers, and how time and memory grow with the labels."""

from __future__ import annotations

import json
import runpy
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from longtail.model import load

DOCS = Path(__file__).parents[1] / "docs"
NAMES = ("training", "evaluation", "reading", "joint", "saving")
SPACE = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter(f"{SPACE}text")]


def test_it_shows_what_the_run_answers(run):
    model = load(run, device="cpu")
    given = f"{model.labels.fields['title'][0].split()[0]} <b>&"
    kinds = {kind: {"P@1": 10.0 + i, "P@5": 5.0} for i, kind in enumerate(model.kinds)}
    (run / "evaluation.json").write_text(json.dumps({"n": 1234, "kinds": kinds}))
    found = texts(runpy.run_path(str(DOCS / "picture.py"))["picture"](run, given))
    assert given in found
    ranked = model.predict([given], 6)[0]
    starts = [label.text[:40] for label in ranked]
    assert [any(one.startswith(start) for one in found) for start in starts] == [True] * 6
    assert "on 1,234 test documents, in percent" in found
    assert [f"{10 + i:.1f}" in found for i in range(len(model.kinds))] == [True] * len(model.kinds)
    assert any(one.startswith("<b>& ") for one in found)  # a word, and what the first label loses without it


def test_that_of_the_readme_is_small_and_serves_light_and_dark():
    content = (DOCS / "picture.svg").read_text(encoding="utf-8")
    assert len(content) < 15_000
    assert "prefers-color-scheme:dark" in content
    assert len(texts(content)) > 20
    assert "http" not in content.replace("http://www.w3.org/2000/svg", "")


def test_that_of_growing_sets_is_drawn_of_kept_figures():
    kept = json.loads((DOCS.parent / "benchmarks" / "results" / "growing-sets.json").read_text())
    drawn = runpy.run_path(str(DOCS / "growth.py"))["picture"](kept)
    assert drawn == (DOCS / "explanation" / "growth.svg").read_text(encoding="utf-8"), "run docs/growth.py"
    lines = [*ET.fromstring(drawn).iter(f"{SPACE}polyline")]
    points = [[tuple(map(float, at.split(","))) for at in line.get("points").split()] for line in lines]
    ours = [of for of, line in zip(points, lines, strict=True) if "peer" not in line.get("class")]
    assert [len(of) for of in ours] == [len(kept["sizes"])] * 8  # in time five, in memory three
    assert all(left < right for of in points for (left, _), (right, _) in pairwise(of))


def test_growth_is_drawn_by_logarithms_and_its_names_are_apart():
    """Twice the labels are as far apart anywhere, and what grows with the labels is a straight line."""
    taken = {"processor_seconds": 1.0, "peak_memory": 2**30}
    sizes = [
        {"labels": labels, **{name: {key: labels * value for key, value in taken.items()} for name in NAMES}}
        for labels in (1000, 2000, 4000)
    ]
    for size in sizes:
        size["parts"] = {name: size.pop(name) for name in NAMES[2:]}
    svg = ET.fromstring(runpy.run_path(str(DOCS / "growth.py"))["picture"]({"recipe": "ngame", "sizes": sizes}))
    for line in svg.iter(f"{SPACE}polyline"):
        (x0, y0), (x1, y1), (x2, y2) = (tuple(map(float, at.split(","))) for at in line.get("points").split())
        assert (x1 - x0, y1 - y0) == pytest.approx((x2 - x1, y2 - y1), abs=0.2)
    heights = [float(one.get("y")) for one in svg.iter(f"{SPACE}text") if "".join(one.itertext()) in NAMES]
    assert len(heights) == 5 + 3
    for panel in (sorted(heights[:5]), sorted(heights[5:])):
        assert all(below - above >= 13.9 for above, below in pairwise(panel))
