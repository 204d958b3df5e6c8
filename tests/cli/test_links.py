"""The verbs on a model that links documents to nodes: explain, and true links in place of predicted ones."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from longtail import Dataset, load
from longtail.cli.evaluate import _links
from longtail.data.io.formats import read_sparse
from longtail.data.texts import Texts
from longtail.testing.planted import planted_links

QUICK = ("--epochs", 6, "--classifier-epochs", 3, "--linker-epochs", 6, "--batch", 64, "--width", 32, "--warmup", 10)
QUICK += ("--learning-rate", 0.02, "--bank-learning-rate", 0.05, "--train-links", "true", "--device", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A planted data set with links as a folder."""
    path = tmp_path_factory.mktemp("data") / "planted"
    planted_links(0, documents=600, test_documents=80, labels=40).dataset.write(path)
    return path


@pytest.fixture(scope="module")
def split(longtail, folder, tmp_path_factory):
    """The same with a test split cut from its training documents, whose links are known."""
    path = tmp_path_factory.mktemp("data") / "split"
    status, _, errors = longtail("data", "split", folder, "--out", path, "--rows", 90)
    assert status == 0, errors
    return path


@pytest.fixture(scope="module")
def trained(longtail, split, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "run"
    status, output, errors = longtail("train", "oak", split, "--out", run, *QUICK)
    assert status == 0, errors
    assert "linker: P@1" in output
    kept = sorted(path.name for path in run.iterdir())
    assert kept == ["cost.json", "linker", "metrics.jsonl", "model", "run.json", "stages"]
    return run


def test_a_split_keeps_the_links_of_its_test_documents_apart(folder, split):
    with gzip.open(split / "kin_tst_X_Y.txt.gz", "rt") as file:
        assert file.readline() == "90 120\n"
    edges = read_sparse(split / "kin_tst_X_Y.txt.gz", what="node id")
    known = read_sparse(folder / "kin_trn_X_Y.txt.gz", what="node id")
    assert edges.nnz > 200
    assert edges.nnz + read_sparse(split / "kin_trn_X_Y.txt.gz", what="node id").nnz == known.nnz
    assert "tst" not in (split / "dataset.json").read_text()


def test_explain_names_nodes_and_their_weights(trained, longtail, tmp_path):
    text = "something said"
    status, output, errors = longtail("predict", trained, "--explain", "--k", 2, stdin=f"{text}\n")
    assert status == 0, errors
    line = json.loads(output)
    assert len(line["labels"]) == 2
    assert [node.keys() for node in line["nodes"]] == [{"id", "text", "score", "weight"}] * 3
    assert 0 < sum(node["weight"] for node in line["nodes"]) <= 1  # of words that no document has, it is not sure
    assert [node["score"] for node in line["nodes"]] == sorted((n["score"] for n in line["nodes"]), reverse=True)
    status, output, errors = longtail("predict", trained, "--explain", "--table", stdin=f"{text}\n")
    assert status == 0, errors
    assert output.count("<-") == 3


def test_true_links_take_the_place_of_predicted_ones(trained, split, longtail, tmp_path):
    found = {}
    for name, options in {"predicted": (), "true": ("--oracle-links", split / "kin_tst_X_Y.txt.gz")}.items():
        status, output, errors = longtail("evaluate", trained, "--json", tmp_path / name, *options)
        assert status == 0, errors
        assert "product" in output
        found[name] = json.loads((tmp_path / name).read_text())["kinds"]
    assert list(found["true"]) == ["fused", "plain", "encoder", "plain-classifier", "classifier", "product"]
    assert found["true"]["plain"] == found["predicted"]["plain"]
    assert found["true"]["encoder"]["P@1"] > found["predicted"]["encoder"]["P@1"]  # documents of common words alone


def test_answer_free_links_leave_the_nodes_out_that_are_labels_of_the_document(trained, split):
    dataset, model = Dataset.read(split), load(trained, device="cpu")
    nodes = model.linked.linker.labels.fields["title"]
    first = int(dataset.test.targets.indices[0])
    titles = [nodes[3 * first + 1] if i == first else "other" for i in range(len(dataset.labels))]
    dataset = replace(dataset, labels=Texts.of(titles))
    every, free = (
        _links(split / "kin_tst_X_Y.txt.gz", model, dataset, answer_free=answer_free) for answer_free in (False, True)
    )
    whose = dataset.test.targets[:, [first]].toarray()[:, 0] > 0
    assert whose[0]
    assert free[0].tolist() == [3 * first, 3 * first + 2, -1]
    assert (every[~whose] == free[~whose]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "{run}", "--oracle-links", "{data}/nothing"], "nothing"),
        (
            ["evaluate", "{run}", "--oracle-links", "{data}/kin_trn_X_Y.txt.gz"],
            "nodes) (90, 120), found (510, 120)",
        ),
        (["train", "oak", "{data}", "--out", "{new}", "--enrich", "friends"], "no graph friends; its graphs are: kin"),
    ],
)
def test_bad_links_are_one_line_and_status_1(trained, split, longtail, tmp_path, arguments, message):
    names = {"run": trained, "data": split, "new": tmp_path / "new"}
    status, _, errors = longtail(*(argument.format(**names) for argument in arguments))
    assert status == 1, errors
    assert message in errors
    assert len(errors.strip().splitlines()) == 1, errors
