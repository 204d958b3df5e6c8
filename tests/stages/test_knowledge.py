"""A bag encoder that starts from what a language model knows of words."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from longtail import Dataset, load, recipes
from longtail.data.graph import Graph
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput, LongtailError
from longtail.model import open_model
from longtail.model.label_set import LabelSet, NewLabel
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.knowledge import projected
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.ranks import Ranks
from longtail.recipes import RECIPES
from longtail.stages.knowledge import is_known
from longtail.train.fit import fit
from longtail.train.log import Log
from longtail.train.plan import Plan, Planned
from longtail.train.run import Run

DOCUMENTS = ["red fish", "blue bird", "one fish two", "green birds", "red bird", "two green fish"] * 2
DATA = Dataset.from_texts(DOCUMENTS, [[0], [1], [0], [1], [1], [0]] * 2, ["fish", "birds"])
SMALL = {"epochs": 2, "batch": 4, "random_negatives": 1, "width": 32, "device": "cpu"}


@pytest.fixture
def encoded(monkeypatch):
    """How many texts each pass of a language model has read."""
    counts, plain = [], TransformerEncoder.forward

    def forward(self, text):
        counts.append(len(text))
        return plain(self, text)

    monkeypatch.setattr(TransformerEncoder, "forward", forward)
    return counts


def rows(model):
    assert isinstance(model.encoder, BagEncoder)
    return model.encoder.tokenizer.features, model.encoder.table.export()


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_a_row_is_its_random_start_and_what_is_known_of_its_word(tiny_bert, weight):
    """At the width of the language model nothing is left out, and inner products do not depend on the components."""
    features, plain = rows(recipes.dpr(DATA, **{**SMALL, "epochs": 0}))
    options = {"knowledge": str(tiny_bert), "knowledge_weight": weight}
    again, found = rows(recipes.dpr(DATA, **{**SMALL, "epochs": 0}, **options))
    assert again == features
    known = [i for i, feature in enumerate(features) if is_known(feature)]
    others = sorted(set(range(len(features))) - set(known))
    assert {"red", "fish", "birds"} <= {features[i] for i in known}
    assert {"red bird", "#bird"} <= {features[i] for i in others}
    np.testing.assert_array_equal(found[others], plain[others])
    model = TransformerEncoder(tiny_bert).eval()
    with torch.no_grad():
        table = model.tokenizer([features[i] for i in known])
        vectors = model(model.tokenizer.batch(table, np.arange(len(known)))).numpy()
    centred = vectors - vectors.mean(0)
    centred *= weight / np.linalg.norm(centred, axis=1).mean()
    added = found[known] - plain[known]
    np.testing.assert_allclose(added @ added.T, centred @ centred.T, atol=1e-4)
    np.testing.assert_allclose(added, weight * projected(vectors, 32), atol=1e-4)


def test_oak_takes_it_too(tiny_bert):
    graph = Graph(Strings.of(["red fish", "blue bird"]), csr_of_lists([[0], [1]] * 6, 2), csr_of_lists([[0], [1]], 2))
    data, small = replace(DATA, graphs={"kind": graph}), {**SMALL, "epochs": 0, "classifier_epochs": 0}
    features, found = rows(recipes.oak(data, **small, knowledge=str(tiny_bert)))
    plain = rows(recipes.oak(data, **small))[1]
    known = [is_known(feature) for feature in features]
    assert np.flatnonzero(np.abs(found - plain).max(1)).tolist() == np.flatnonzero(known).tolist()


def test_a_model_has_nothing_of_the_language_model(tiny_bert, tmp_path):
    for name, knowledge in (("with", str(tiny_bert)), ("without", "none")):
        recipes.unidec(DATA, **SMALL, knowledge=knowledge, validation=0.0, out=tmp_path / name)
    files = [sorted(path.name for path in (tmp_path / name).rglob("*")) for name in ("with", "without")]
    assert files[0] == files[1]
    weights = [(tmp_path / name / "model" / "encoder" / "bag.safetensors").stat() for name in ("with", "without")]
    assert weights[0].st_size == weights[1].st_size
    vectors = [load(tmp_path / name, device="cpu").encode(DATA.train.documents) for name in ("with", "without")]
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


def test_words_are_encoded_once_for_a_cache(tiny_bert, tmp_path, encoded):
    def trained(knowledge, cache="cache", **others):
        del encoded[:]
        run = Run(cache=tmp_path / cache) if cache else Run()
        return rows(recipes.dpr(DATA, **{**SMALL, **others}, knowledge=str(knowledge), out=run))[1]

    first = trained(tiny_bert)
    assert encoded
    np.testing.assert_array_equal(trained(tiny_bert), first)
    assert not encoded  # neither by the run nor for its plan
    trained(tiny_bert, knowledge_weight=2.0, seed=3, width=8)  # the vectors are those of the words
    assert not encoded
    np.testing.assert_array_equal(trained(tiny_bert, cache=None), first)
    assert encoded
    other = shutil.copytree(tiny_bert, tmp_path / "other")
    trained(other)  # by what is in the folder, not by its name
    assert not encoded
    weights = TransformerEncoder(other)
    with torch.no_grad():
        weights.backbone.get_input_embeddings().weight[5:] *= -1
    weights.save(other)
    assert np.abs(trained(other) - first).max() > 1e-3
    assert encoded
    assert len(list((tmp_path / "cache").glob("knowledge-*"))) == 2


def test_half_a_cache_is_made_again(tiny_bert, tmp_path, encoded):
    def trained():
        return rows(recipes.dpr(DATA, **SMALL, knowledge=str(tiny_bert), out=Run(cache=tmp_path)))[1]

    first = trained()
    (folder,) = tmp_path.glob("knowledge-*")
    (folder / "vectors.npy").write_bytes(b"broken")
    del encoded[:]
    np.testing.assert_array_equal(trained(), first)
    assert encoded


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tiny_bert, tmp_path, monkeypatch, encoded):
    options = {**SMALL, "knowledge": str(tiny_bert), "validation": 0.0}
    unbroken = recipes.ngame(DATA, **options, classifier_epochs=1)

    def stopped(*given, stage, **others):
        if stage == "classifiers":
            raise KeyboardInterrupt
        fit(*given, stage=stage, **others)

    with monkeypatch.context() as patch:
        patch.setattr("longtail.train.run.fit", stopped)
        with pytest.raises(KeyboardInterrupt):
            recipes.ngame(DATA, **options, classifier_epochs=1, out=tmp_path / "run")
    assert list((tmp_path / "run" / "tokens").glob("knowledge-*"))
    del encoded[:]
    again = recipes.ngame(DATA, **options, classifier_epochs=1, out=tmp_path / "run")
    assert not encoded
    assert not (tmp_path / "run" / "tokens").exists()
    np.testing.assert_array_equal(rows(again)[1], rows(unbroken)[1])
    for kind in ("encoder", "classifier"):
        np.testing.assert_array_equal(again.vectors[kind], unbroken.vectors[kind])


def test_a_label_that_is_added_is_encoded_by_words_that_started_so(tiny_bert, tmp_path):
    model = recipes.unidec(DATA, **SMALL, knowledge=str(tiny_bert), validation=0.0, out=tmp_path)
    labels = LabelSet(tmp_path, device="cpu")
    labels.add([NewLabel("new", "two green fish")])
    snapshot = labels.refresh()
    expected = model.of_labels(Texts.of(["two green fish"]))
    np.testing.assert_allclose(snapshot.folded.vectors["encoder"][-1:], expected, atol=1e-6)
    assert snapshot.predict(["two green fish"], k=1, kind="encoder")[0][0].uid == "new"
    labels.compact()
    labels.close()
    opened = load(tmp_path, device="cpu")
    np.testing.assert_allclose(opened.vectors["encoder"][-1:], expected, atol=1e-6)


def test_the_plan_counts_the_vocabulary(tiny_bert, tmp_path, monkeypatch):
    plans = []
    monkeypatch.setattr(Plan, "table", lambda plan: plans.append(plan) or "")
    for knowledge in ("none", str(tiny_bert)):
        with pytest.raises(Planned):
            recipes.dpr(DATA, **SMALL, knowledge=knowledge, out=Run(tmp_path / "run", dry=True))
    assert not (tmp_path / "run").exists()
    assert "encoding the vocabulary" not in plans[0].work
    assert plans[1].work["encoding the vocabulary"].times == 1
    assert plans[1].work["encoding the vocabulary"].seconds > 0
    assert plans[1].work["encoding texts"].times == plans[0].work["encoding texts"].times


def test_a_run_on_all_documents_asks_nothing_anew(tiny_bert, tmp_path, encoded, monkeypatch):
    """Words of held-out documents are asked about with the others, and do not change how the first table starts."""
    documents = [f"{text} only{chr(97 + i)}" for i, text in enumerate(DOCUMENTS)]
    data = Dataset.from_texts(documents, [[0], [1], [0], [1], [1], [0]] * 2, ["fish", "birds"])
    options = {**SMALL, "knowledge": str(tiny_bert), "validation": 0.5}
    alone = recipes.unidec(data, **options)
    del encoded[:]
    plans = []
    monkeypatch.setattr(Plan, "table", lambda plan: plans.append(plan) or "")
    both = recipes.unidec(data, **options, refit=True, refits=2, out=tmp_path / "run")
    assert plans[0].work["encoding the vocabulary"].times == 1
    assert len(encoded) == 2  # for the plan, and once for three tables
    before = open_model(tmp_path / "run" / "held_out", device=torch.device("cpu"))
    assert len(before.encoder.tokenizer.features) < len(both.encoder.tokenizer.features)
    np.testing.assert_allclose(rows(before)[1], rows(alone)[1], atol=1e-5)


def test_the_log_says_how_many_features_are_known(tiny_bert):
    told = io.StringIO()
    recipes.dpr(DATA, **SMALL, knowledge=str(tiny_bert), out=Run(None, Log(None, Console(file=told, width=200))))
    features = recipes.dpr(DATA, **{**SMALL, "epochs": 0}).encoder.tokenizer.features
    known = sum(is_known(feature) for feature in features)
    assert f"{known} of {len(features)} features start from what {tiny_bert} knows" in " ".join(told.getvalue().split())


@pytest.mark.parametrize("recipe", ["dpr", "oak", "inceptionxml"])
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"encoder": "convolution", "knowledge": "minilm"}, "expected none for the encoder convolution, which has no"),
        ({"encoder": "minilm", "knowledge": "minilm"}, "expected none for the encoder minilm, which has no table"),
        ({"start": "run", "knowledge": "minilm"}, "expected none for an encoder that another run has trained, found"),
        ({"knowledge": "bag"}, "expected none or a language model, found bag, which starts from nothing; give minilm"),
    ],
)
def test_what_cannot_take_it_refuses_it(recipe, options, problem, tmp_path):
    with pytest.raises(BadInput, match=rf"^knowledge: {problem}") as raised:
        RECIPES[recipe](DATA, **{"encoder": "bag", **options}, out=tmp_path / "run")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_model_that_there_is_not_is_refused(tmp_path, monkeypatch):
    def unreachable(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    with pytest.raises(LongtailError, match=r"^no such/model: no such transformer; tried a folder") as raised:
        recipes.dpr(DATA, **SMALL, knowledge="no such/model", out=tmp_path / "run")
    assert "\n" not in str(raised.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"expected a model that transformers\.\w+ opens, found none"):
        recipes.dpr(DATA, **SMALL, knowledge=str(tmp_path / "empty"), out=tmp_path / "run")


@pytest.mark.parametrize(("others", "encodes"), [([True], False), ([False], True)])
def test_processes_encode_together_or_not_at_all(tiny_bert, tmp_path, encoded, monkeypatch, others, encodes):
    """One that finds the words in its cache encodes them all the same where another one has them not."""
    options = {**SMALL, "epochs": 0, "knowledge": str(tiny_bert)}
    _, first = rows(recipes.dpr(DATA, out=Run(cache=tmp_path), **options))
    encoded.clear()
    run = Run(cache=tmp_path)
    monkeypatch.setattr(Ranks, "every", lambda _, value: [value, *others])
    _, again = rows(recipes.dpr(DATA, out=run, **options))
    assert bool(encoded) is encodes
    np.testing.assert_array_equal(first, again)
