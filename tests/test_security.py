"""Claims of docs/explanation/security.md that no other test holds. What is named there is looked for, too."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from longtail.arrays import load_arrays, read_archive, read_array
from longtail.errors import BadInput
from longtail.serve.app import TOKEN, application
from longtail.serve.middleware import SAFE
from longtail.serve.service import Settings

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "longtail").rglob("*.py"))
RUNS_CODE = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml", "code", "runpy"}
CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE = re.compile(
    r"allow_pickle=True|trust_remote_code(=|\": )True|torch\.load\(|shell=True|os\.(system|popen)\(|weights_only=False"
)


class Payload:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_unpickled_or_evaluated(path):
    text = path.read_text(encoding="utf-8")
    assert not UNSAFE.search(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = [module or ""] if module else [name.name for name in node.names]
            assert not {name.partition(".")[0] for name in names} & RUNS_CODE
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in CALLS


def test_arrays_that_hold_objects_are_refused_and_not_unpickled(tmp_path):
    hostile = np.array([Payload(tmp_path / "was run")], object)
    np.save(tmp_path / "a.npy", hostile, allow_pickle=True)
    np.savez(tmp_path / "a.npz", a=hostile)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Payload(tmp_path / "was run")))
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(Payload(tmp_path / "was run")))
    for read in (
        lambda: read_array(tmp_path / "a.npy", remedy="go"),
        lambda: read_array(tmp_path / "raw.npy", remedy="go"),
        lambda: load_arrays(tmp_path, ["a"]),
        lambda: read_archive(tmp_path / "a.npz", ["a"], remedy="go"),
        lambda: read_archive(tmp_path / "raw.npz", ["a"], remedy="go"),
    ):
        with pytest.raises(BadInput, match="expected"):
            read()
    assert not (tmp_path / "was run").exists()


@pytest.mark.parametrize(
    "page", sorted((ROOT / "longtail").rglob("*.js")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_pages_make_no_markup_of_texts(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)


def test_no_other_site_may_read_answers_and_every_answer_is_guarded(run, monkeypatch):
    monkeypatch.setenv(TOKEN, "secret")
    elsewhere = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    with TestClient(application(Settings(run, device="cpu"))) as client:
        for answer in (
            client.options("/v1/labels", headers=elsewhere),
            client.get("/v1/model", headers=elsewhere),
            client.get("/", headers=elsewhere),
            client.get("/nowhere", headers=elsewhere),
        ):
            assert not [name for name in answer.headers if name.startswith("access-control-")]
            assert {name: answer.headers[name.decode()].encode() for name, _ in SAFE} == dict(SAFE)
        assert "secret" not in client.get("/v1/model").text + client.get("/metrics").text


def test_every_test_that_the_page_names_is_there():
    page = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 12
    for file, test in named:
        assert (ROOT / file).is_file(), file
        assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), (file, test)
    assert len(page.splitlines()) < 150
