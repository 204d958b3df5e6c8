"""The picture of the README: what a run answers, as one small drawing for light and dark."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from xml.etree import ElementTree as ET

from longtail.model import load

DOCS = Path(__file__).parents[1] / "docs"
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
