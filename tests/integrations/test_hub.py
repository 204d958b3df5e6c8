"""Models on a hub: what is pushed answers the same when it is pulled; what is not whole or not ours leaves nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from standin_hub import standin_hub

import longtail
from longtail.errors import BadInput, LongtailError
from longtail.files import write_json
from longtail.hub.exchange import pull, push
from longtail.model.label_set import LabelSet, NewLabel

TEXTS = ["kuloho rupivi hifomi", "zebra zoo", "patezo"]
REPO = "someone/tags"
EVALUATION = {"n": 50, "A": 0.55, "B": 1.5, "kinds": {"fused": {"P@1": 61.254, "PSP@1": 40.0}, "encoder": {"P@1": 3.0}}}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("HF_TOKEN", "hf_none")
    with standin_hub() as made:
        yield made


@pytest.fixture
def pushed(hub, run):
    write_json(run / "evaluation.json", EVALUATION)
    assert push(run, REPO, endpoint=hub.endpoint, licence="apache-2.0") == f"{hub.endpoint}/{REPO}"
    return hub


def test_what_is_pushed_is_pulled_and_answers_the_same(pushed, run, tmp_path):
    pull(REPO, tmp_path / "pulled", endpoint=pushed.endpoint)
    expected = longtail.load(run, device="cpu").predict(TEXTS, 10)
    found = longtail.load(tmp_path / "pulled", device="cpu").predict(TEXTS, 10)
    assert found == expected
    assert (tmp_path / "pulled" / "model" / "bundle.json").read_bytes() == (run / "model" / "bundle.json").read_bytes()
    assert {path.name for path in (tmp_path / "pulled").iterdir()} == {
        "README.md",
        "evaluation.json",
        "model",
        "run.json",
    }
    assert json.loads((tmp_path / "pulled" / "run.json").read_text())["recipe"] == "ngame"
    assert pushed.private == {REPO: True}


def test_only_what_a_model_is_made_of_leaves_the_machine(pushed, run):
    names = set(pushed.files[REPO])
    assert names == {"README.md", "run.json", "evaluation.json"} | {
        f"model/{path.relative_to(run / 'model').as_posix()}" for path in (run / "model").rglob("*") if path.is_file()
    }
    settings = json.loads((run / "run.json").read_text())
    write_json(run / "run.json", {**settings, "data": "/secret/shop"})
    (run / "model" / "index" / "fused").mkdir(parents=True)
    (run / "model" / "index" / "fused" / "index.faiss").write_bytes(b"")
    push(run, REPO, endpoint=pushed.endpoint)
    assert set(pushed.files[REPO]) == names
    assert not [name for name, content in pushed.files[REPO].items() if b"secret" in content]
    assert b"shop" in pushed.files[REPO]["README.md"]
    (run / "model" / "weights.pkl").write_bytes(b"")
    with pytest.raises(BadInput, match=r"weights\.pkl: expected a model of JSON, text and safetensors"):
        push(run, REPO, endpoint=pushed.endpoint)


def test_the_card_says_what_it_is_how_good_and_how_to_use_it(pushed):
    _, matter, text = pushed.files[REPO]["README.md"].decode().split("---\n", 2)
    said = yaml.safe_load(matter)
    assert (said["library_name"], said["license"], said["pipeline_tag"]) == (
        "longtail",
        "apache-2.0",
        "text-classification",
    )
    assert "ngame" in said["tags"]
    (result,) = said["model-index"][0]["results"]
    assert {metric["type"]: metric["value"] for metric in result["metrics"]} == {"P@1": 61.25, "PSP@1": 40.0}
    assert "It ranks 120 labels for a text, and was trained by longtail's recipe `ngame`." in text
    assert "longtail pull someone/tags --out tags" in text
    assert "|  | fused | encoder |\n|---|---|---|\n| P@1 | 61.25 | 3.00 |\n| PSP@1 | 40.00 |  |\n" in text
    assert "on 50 test documents; PSP with A = 0.55 and B = 1.5" in text
    assert "epochs 2" in text


def test_label_changes_are_folded_in(hub, run, tmp_path):
    labels = LabelSet(run, device="cpu")
    labels.add([NewLabel("zz", "zebra zoo", [{"title": "zebra"}])])
    labels.close()
    push(run, REPO, endpoint=hub.endpoint)
    pull(REPO, tmp_path / "pulled", endpoint=hub.endpoint)
    found = longtail.load(tmp_path / "pulled", device="cpu")
    assert len(found.labels) == 121
    changed = longtail.load(run, device="cpu")
    assert found.predict(TEXTS, 10) == changed.folded.predict(TEXTS, 10)
    one, other = (model.predict(TEXTS, 10) for model in (found, changed))
    np.testing.assert_array_equal(one.uids, other.uids)
    np.testing.assert_allclose(one.scores, other.scores, atol=2e-5)  # of one segment and of two
    assert b"It ranks 121 labels" in hub.files[REPO]["README.md"]


def test_files_of_an_earlier_model_go(pushed, run):
    pushed.files[REPO] |= {"model/memory.safetensors": b"old", "notes.md": b"of a person"}
    push(run, REPO, endpoint=pushed.endpoint)
    assert "model/memory.safetensors" not in pushed.files[REPO]
    assert "notes.md" in pushed.files[REPO]


def test_a_model_that_is_not_measured_has_no_metrics_of_an_earlier_one(pushed, run, tmp_path):
    (run / "evaluation.json").unlink()
    push(run, REPO, endpoint=pushed.endpoint)
    assert "evaluation.json" not in pushed.files[REPO]
    pull(REPO, tmp_path / "pulled", endpoint=pushed.endpoint)
    assert not (tmp_path / "pulled" / "evaluation.json").exists()


@pytest.mark.parametrize("name", ["../evil.json", "model/../../evil.json", "/tmp/evil.json", "model\\..\\evil.json"])
def test_names_that_lead_out_of_the_folder_are_refused(pushed, tmp_path, name):
    pushed.files[REPO][name] = b"{}"
    with pytest.raises(BadInput, match="expected names of files in the repository, found"):
        pull(REPO, tmp_path / "a" / "pulled", endpoint=pushed.endpoint)
    assert [*(tmp_path / "a").iterdir()] == []
    assert not list(tmp_path.rglob("evil.json"))


def test_other_files_are_left_where_they_are(pushed, tmp_path):
    pushed.files[REPO] |= {
        "model/weights.pkl": b"",
        "model/index/fused/index.faiss": b"",
        "setup.py": b"",
        ".bashrc": b"",
    }
    pull(REPO, tmp_path / "pulled", endpoint=pushed.endpoint)
    assert {path.name for path in (tmp_path / "pulled").iterdir()} == {
        "README.md",
        "evaluation.json",
        "model",
        "run.json",
    }
    assert not [*(tmp_path / "pulled").rglob("*.pkl"), *(tmp_path / "pulled").rglob("index")]
    assert not [asked for asked in pushed.asked if "pkl" in asked]


@pytest.mark.parametrize("what", ["cut", "another", "missing"])
def test_a_model_that_is_not_whole_leaves_nothing(pushed, tmp_path, what):
    files = pushed.files[REPO]
    name = "model/labels.safetensors"
    if what == "cut":
        pushed.cut = name
    elif what == "another":
        files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])
    else:
        del files[name]
    (tmp_path / "a").mkdir()
    with pytest.raises(BadInput, match="copy the model folder again"):
        pull(REPO, tmp_path / "a" / "pulled", endpoint=pushed.endpoint)
    assert [*(tmp_path / "a").iterdir()] == []


def test_what_is_no_model_and_what_is_not_there(hub, tmp_path, run):
    hub.files["someone/else"] = {"config.json": b"{}"}
    with pytest.raises(
        BadInput, match=r"someone/else: expected a model that longtail push wrote, found no model/bundle"
    ):
        pull("someone/else", tmp_path / "pulled", endpoint=hub.endpoint)
    with pytest.raises(LongtailError, match=r"someone/nothing: the hub said: .*404.*; check the name"):
        pull("someone/nothing", tmp_path / "pulled", endpoint=hub.endpoint)
    with pytest.raises(LongtailError, match="a/b/c: the hub said: Repo id must be"):
        push(run, "a/b/c", endpoint=hub.endpoint)
    with pytest.raises(BadInput, match="is not empty"):
        pull("someone/else", run, endpoint=hub.endpoint)
    assert not (tmp_path / "pulled").exists()


def test_a_hub_that_is_not_there_is_one_line(run):
    with pytest.raises(LongtailError, match=r"the hub said: .*refused"):
        push(run, REPO, endpoint="http://127.0.0.1:9")
