"""The examples run from top to bottom on small data, and say what they are to say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from longtail.testing.planted import planted

EXAMPLES = Path(__file__).parents[1] / "examples"
SAID = {
    "01_explore.py": ["of the pairs", "unseen", "there is a filter"],
    "02_look_inside.py": ["classifier: ", "unseen", "fused", "documents: "],
    "03_compare.py": ["unidec - words, P@1: +", "PSP@5"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "planted"
    planted(0, documents=400, test_documents=100, labels=64).dataset.write(folder)
    return folder


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", [name, str(folder)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert [words for words in SAID[name] if words not in printed] == [], printed


def test_every_example_is_a_notebook_with_text_before_its_code() -> None:
    assert sorted(SAID) == sorted(path.name for path in EXAMPLES.glob("*.py"))
    for name in SAID:
        cells = re.split(r"^# %%", (EXAMPLES / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert cells[0] == ""
        assert cells[1].startswith(" [markdown]\n# # ")
        assert len(cells) >= 7
