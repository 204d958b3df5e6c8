"""What a run reads beside its data is known again by its content: what was made anew in between is refused."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from longtail import distil, recipes, weigh
from longtail.compare.comparison import _job
from longtail.compare.jobs import must_agree
from longtail.compare.methods import Method
from longtail.errors import BadInput
from longtail.recipes.rerank import rerank
from longtail.stages.inputs import inputs_of
from longtail.stages.make_ensemble import ensemble
from longtail.testing.planted import planted
from longtail.train.progress import settings_of

SMALL = {"epochs": 1, "batch": 64, "width": 8, "device": "cpu"}
HELD_OUT = {"validation": 0.25, "classifier_epochs": 1, **SMALL}
ANEW = r"{path}: expected {name} [^\n]* as it was when the run began, SHA-256 \w{{12}}\.\.\., found another [^\n]*"


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=120, test_documents=16, labels=32).dataset


@pytest.fixture(scope="module")
def made(data, tmp_path_factory):
    """A run, and the same with another number of epochs."""
    folder = tmp_path_factory.mktemp("made")
    for epochs in (1, 2):
        recipes.ngame(data, out=folder / f"epochs-{epochs}", **{**HELD_OUT, "epochs": epochs})
    return folder


@pytest.fixture
def trained(made, tmp_path):
    """A folder with a run, which `anew` puts the other in the place of."""
    return shutil.copytree(made / "epochs-1", tmp_path / "trained")


def anew(trained, made):
    shutil.rmtree(trained)
    shutil.copytree(made / "epochs-2", trained)


def refused(again, name, path):
    with pytest.raises(BadInput) as raised:
        again()
    assert re.fullmatch(ANEW.format(name=name, path=path / "run.json"), str(raised.value)), raised.value


READS = {
    "start": lambda run, data, out: recipes.dpr(data, start=str(run), out=out, **SMALL),
    "augment": lambda run, data, out: recipes.dpr(data, augment=f"lever:run={run}", out=out, **SMALL),
    "teacher": lambda run, data, out: distil(run, data, out=out, **SMALL),
    "trained": lambda run, data, out: weigh(run, data, prefer="tail", out=out, device="cpu"),
    "first": lambda run, data, out: ensemble(run, run, data, out=out, device="cpu"),
}


@pytest.mark.parametrize("name", READS)
def test_a_run_that_was_trained_anew_is_not_taken_for_the_one_that_was_read(name, data, made, trained, tmp_path):
    def train():
        return READS[name](trained, data, tmp_path / "run")

    train()
    train()  # nothing has changed: it is taken as it is
    anew(trained, made)
    refused(train, name, tmp_path / "run")


def test_a_reranking_knows_its_run_and_its_transformer_again(data, made, trained, tiny_bert, tmp_path):
    encoder, out = shutil.copytree(tiny_bert, tmp_path / "bert"), tmp_path / "run"
    asked = {"encoder": str(encoder), "documents": 16, "candidates": 4, "max_length": 16, "device": "cpu", "out": out}
    rerank(trained, data, **asked)
    assert settings_of(out)["inputs"].keys() == {"first_stage", "encoder"}
    anew(trained, made)
    refused(lambda: rerank(trained, data, **asked), "first_stage", out)


def test_what_is_gone_leaves_a_finished_run_as_it_is(data, trained, tmp_path):
    model = READS["start"](trained, data, tmp_path / "run")
    shutil.rmtree(trained)
    again = READS["start"](trained, data, tmp_path / "run")
    np.testing.assert_array_equal(again.vectors["encoder"], model.vectors["encoder"])


@pytest.mark.parametrize("name", ["static_vectors", "encoder", "knowledge", "augment"])
def test_files_and_folders_that_were_written_anew_are_refused(name, data, tiny_bert, tmp_path):
    bert = shutil.copytree(tiny_bert, tmp_path / "bert")
    vectors, words, texts = (tmp_path / file for file in ("words.npy", "words.txt", "texts.txt"))
    np.save(vectors, np.ones((1, 8), np.float32))
    for file in (words, texts):
        file.write_text("one\n")
    given, changed = {
        "static_vectors": (vectors, words),
        "encoder": (bert, bert / "config.json"),
        "knowledge": (bert, bert / "config.json"),
        "augment": (f"unlabelled:texts={texts}", texts),
    }[name]

    def train():
        return recipes.dpr(data, out=tmp_path / "run", **{**SMALL, "epochs": 0, "max_length": 8, name: str(given)})

    train()
    train()
    text = changed.read_text()
    changed.write_text(text.replace("one", "two") if "one" in text else text + "\n")
    refused(train, name, tmp_path / "run")


def test_a_run_of_an_earlier_version_does_not_say_what_it_read(data, made, trained, tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr("longtail.stages.recipe.inputs_of", lambda _: {})
        READS["start"](trained, data, tmp_path / "run")
    assert "inputs" not in settings_of(tmp_path / "run")
    anew(trained, made)
    READS["start"](trained, data, tmp_path / "run")


def test_a_comparison_refuses_a_run_of_what_was_made_anew(data, made, trained, tmp_path):
    data.write(tmp_path / "data")
    options = ",".join(f"{name}={value}" for name, value in SMALL.items())
    job = _job(Method.parse(f"dpr:start={trained},{options}"), 0, tmp_path / "data", tmp_path)
    recipes.dpr(data, out=job.folder, **job.given)
    must_agree(job, data, data.fingerprint())
    anew(trained, made)
    refused(lambda: must_agree(job, data, data.fingerprint()), "start", job.folder)


def test_an_export_of_a_transformer_makes_no_other_of_it(tiny_bert, tmp_path):
    """As of a teacher's, by whose folder a student takes what it knows of words."""
    folder = shutil.copytree(tiny_bert, tmp_path / "bert")
    before = inputs_of({"knowledge": str(folder)})
    (folder / "onnx").mkdir()
    (folder / "onnx" / "export.json").write_text("{}")
    assert inputs_of({"knowledge": str(folder)}) == before


def test_what_names_nothing_on_the_disk_is_no_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = {
        "encoder": "bag",
        "knowledge": "none",
        "augment": "gandalf:threshold=0.2",
        "start": None,
        "teacher": "gone",
    }
    assert inputs_of(asked) == {}
    (tmp_path / "minilm").mkdir()
    (tmp_path / "minilm" / "config.json").write_text("{}")  # a package comes before it
    assert inputs_of({"encoder": "minilm"}) == {}
    assert inputs_of({"encoder": "./minilm"}).keys() == {"encoder"}
