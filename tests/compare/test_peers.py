"""The peers: what each is given and answers, its process, and the time it may take."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from longtail.compare.comparison import compare
from longtail.compare.jobs import Job, must_agree, reached, run_peer
from longtail.compare.methods import Method
from longtail.compare.peer_exchange import collect, must_be_there, prepare
from longtail.compare.peers import BM25, PEERS, NapkinXC, Neighbours, XRTransformer
from longtail.compare.peers.base import Given
from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.data.texts import Strings, Texts
from longtail.errors import BadInput, LongtailError
from longtail.testing.planted import planted
from longtail.topk import rank
from longtail.train.processes import OverBudget, Process


@pytest.fixture(scope="module")
def dataset():
    return planted(0, documents=300, test_documents=60, labels=60).dataset


def given_to(path, peer, dataset, depth=10):
    prepare(path / "given", peer, dataset)
    return Given(path / "given", depth)


def tiny():
    """Three labels; documents share one word with the label that is theirs."""
    documents = ["red GetFile", "blue door", "green roof", "green lamp"]
    data = Dataset.from_texts(documents, [[0], [1], [2], [2]], ["get file", "door of a house", "roof"])
    return replace(data, test=replace(data.train, documents=data.train.documents.take(np.array([3, 0]))))


def test_features_are_fitted_on_training_documents_and_hold_no_label_of_a_test_document(tmp_path):
    data = tiny()
    given = given_to(tmp_path, Neighbours(), data)
    train, test = given.matrix("train"), given.matrix("test")
    assert train.shape == (4, test.shape[1])
    assert np.allclose(sparse.linalg.norm(train, axis=1), 1)  # each word is known, as the texts are few
    assert (test[0] != train[3]).nnz == 0
    assert given.matrix("targets").toarray().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert sorted(path.name for path in given.folder.iterdir()) == ["targets.npz", "test.npz", "train.npz"]


def test_neighbours_are_those_of_a_plain_loop(tmp_path, dataset):
    given = given_to(tmp_path, Neighbours(), dataset)
    found = Neighbours(neighbours=5)(given, tmp_path / "model")()
    x, y, test = (given.matrix(name).toarray() for name in ("train", "targets", "test"))
    for i, row in enumerate(test):
        cosines = x @ row
        near = np.argsort(-cosines)[:5]
        wanted = sum(cosines[j] * y[j] for j in near)
        scores = np.zeros(y.shape[1])
        scores[found.ids[i][found.ids[i] >= 0]] = found.scores[i][found.ids[i] >= 0]
        if np.sort(cosines)[-6] < np.sort(cosines)[-5]:  # else the fifth neighbour is one of several
            assert np.allclose(scores, wanted, atol=1e-5)


def test_a_peer_that_reads_features_and_texts_is_given_both_of_the_same_documents(tmp_path):
    data = tiny()
    given = given_to(tmp_path, XRTransformer(), data)
    assert given.texts("train") == list(data.train.documents.joined(["title"]))
    alone = given_to(tmp_path / "alone", Neighbours(), data)
    for name in ("train", "test"):
        assert (given.matrix(name) != alone.matrix(name)).nnz == 0
        assert given.matrix(name).shape[0] == len(given.texts(name))


def test_bm25_reads_words_in_camel_case_and_ranks_only_labels_that_share_one(tmp_path):
    given = given_to(tmp_path, BM25(), tiny())
    assert given.texts("test") == ["green lamp", "red get file getfile"]
    top = rank(*BM25()(given, tmp_path / "model")(), 3)
    assert top.ids.tolist() == [[-1, -1, -1], [0, -1, -1]]


@pytest.mark.parametrize("one_versus_rest", [False, True])
def test_napkinxc_learns_the_planted_labels(one_versus_rest, tmp_path, dataset):
    peer = NapkinXC(one_versus_rest=one_versus_rest)
    given = given_to(tmp_path, peer, dataset)
    top = rank(*peer(given, tmp_path / "model")(), 1)
    assert dataset.test.targets[np.arange(60), top.ids[:, 0]].mean() > 0.7
    assert (tmp_path / "model" / "tree.bin").exists() != one_versus_rest


def test_filtered_pairs_are_left_out_of_an_answer(tmp_path):
    split = tiny().test
    split = replace(split, filtered=csr_of_lists([[1], []], 3))
    np.savez(tmp_path / "answer.npz", ids=np.array([[2, 1, 0], [1, -1, 2]]), scores=np.array([[1, 3, 2], [1, 9, 2.0]]))
    wrote = dict.fromkeys(("seconds", "peak_memory", "peak_gpu_memory", "prediction_seconds", "versions"), 1)
    (tmp_path / "answer.json").write_text(json.dumps(wrote))
    top, said = collect(tmp_path, split, 2)
    assert top.ids.tolist() == [[0, 2], [2, 1]]
    assert said == wrote


def test_peers_are_compared_as_recipes_are(tmp_path, dataset):
    dataset.write(tmp_path / "data")
    methods = [Method.parse("near=neighbours:neighbours=5"), *Method.parse_peers("bm25")]
    results = compare(tmp_path / "data", methods, tmp_path / "out", seeds=2)
    assert results["failed"] == {}
    assert list(results["rows"]) == ["near", "bm25"]
    for label, of in results["rows"].items():
        (run,) = of["runs"]  # without random numbers: one seed is enough
        assert of["headline"] == "peer"
        assert 0 < run["seconds"] < 60
        assert 2**24 < run["peak_memory"] < 2**31
        assert run["model_bytes"] > 1000
        assert run["milliseconds_a_text"]["peer"] > 0
        assert run["versions"]["numpy"] == np.__version__
        folder = tmp_path / "out" / "runs" / label / "seed-0"
        assert not (folder / "given").exists()
    assert (
        f"compare {tmp_path}/data near=neighbours:neighbours=5 --out" in results["rows"]["near"]["runs"][0]["command"]
    )
    given = given_to(tmp_path, Neighbours(), dataset, depth=10)
    plain = Neighbours(neighbours=5)(given, tmp_path / "model")()
    if dataset.test.filtered is None or not dataset.test.filtered.nnz:
        hits = dataset.test.targets[np.arange(60), rank(*plain, 1).ids[:, 0]].mean()
        assert results["rows"]["near"]["kinds"]["peer"]["P@1"]["mean"] == pytest.approx(100 * hits)
    before = (tmp_path / "out" / "runs" / "bm25" / "seed-0" / "run.json").stat().st_mtime_ns
    assert compare(tmp_path / "data", methods, tmp_path / "out", seeds=2)["rows"] == results["rows"]
    assert (tmp_path / "out" / "runs" / "bm25" / "seed-0" / "run.json").stat().st_mtime_ns == before
    with pytest.raises(BadInput, match=r"made with neighbours 5, asked for now is 6"):
        compare(tmp_path / "data", [Method.parse("near=neighbours:neighbours=6")], tmp_path / "out")
    with pytest.raises(BadInput, match=r"made with neighbours 5, the default now is 20; give the row another label"):
        compare(tmp_path / "data", [Method.parse("near=neighbours")], tmp_path / "out")


def test_a_peer_that_fails_can_be_asked_for_with_other_arguments(tmp_path, dataset):
    job = Job(Method.parse("near=neighbours:neighbours=5"), 0, tmp_path, tmp_path / "run")
    with pytest.raises(LongtailError, match="exit status 1"):
        run_peer(job, dataset, "/bin/false", process=Process(inherited=(), quiet=True))
    must_agree(replace(job, method=Method.parse("near=neighbours:neighbours=6")), dataset, dataset.fingerprint())


def test_peers_read_the_fields_that_recipes_read(tmp_path):
    data = tiny()
    texts = [
        {"title": title, "content": f"{title} and six more words of a content {i}"}
        for i, title in enumerate(data.train.documents.fields["title"])
    ]
    short = Dataset.from_texts(texts, [[0], [1], [2], [2]], ["get file", "door of a house", "roof"])
    replace(short, test=short.train).write(tmp_path / "data")
    methods = [Method.parse(text) for text in ("neighbours", "titles=neighbours:fields=title")]
    compare(tmp_path / "data", methods, tmp_path / "out")
    for name, fields in (("neighbours", ["title", "content"]), ("titles", ["title"])):
        settings = json.loads((tmp_path / "out" / "runs" / name / "seed-0" / "run.json").read_text())
        assert settings["arguments"]["fields"] == fields
    methods = [Method.parse("neighbours"), Method.parse("titles=neighbours")]
    with pytest.raises(BadInput, match=r"made with fields \['title'\], the default now is \['title', 'content'\]"):
        compare(tmp_path / "data", methods, tmp_path / "out")


def test_a_peer_of_fields_that_the_documents_lack_is_reported(tmp_path):
    """Also of a column that the folder has: no method of a comparison reads it."""
    data = tiny()
    documents = data.train.documents
    columns = Texts(documents.uids, {**documents.fields, "market": Strings.of(["a", "b", "c", "d"])})
    replace(data, train=replace(data.train, documents=columns)).write(tmp_path / "data")
    methods = [Method.parse("neighbours"), Method.parse("market=neighbours:fields=title,market")]
    results = compare(tmp_path / "data", methods, tmp_path / "out")
    assert list(results["rows"]) == ["neighbours"]
    refusal = "expected fields that were read of the training documents (title), found market"
    assert refusal in results["failed"]["market"]["0"]


def test_every_peer_says_what_it_reads():
    for name, peer in PEERS.items():
        assert {"features", "words", "texts"} >= set(peer().reads) > set(), name
        assert peer(fields=["title", "content"]).fields == ["title", "content"]


def test_a_missing_package_is_said_before_anything_runs(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho libpecos\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(BadInput, match=r"has no libpecos, which the peers need; pip install 'longtail\[peers\]'"):
        must_be_there(["pecos"], str(python))
    with pytest.raises(BadInput, match=r"expected a Python with numpy and scipy, found FileNotFoundError"):
        must_be_there(["pecos"], str(tmp_path / "none"))
    must_be_there(["neighbours", "bm25"], sys.executable)
    must_be_there([], "none")


def test_peers_are_read():
    methods = Method.parse_peers("pecos,sentence-transformers:steps=20,batch=8,bm25")
    assert [(method.recipe, dict(method.arguments)) for method in methods] == [
        ("pecos", {}),
        ("sentence-transformers", {"steps": 20, "batch": 8}),
        ("bm25", {}),
    ]
    assert [method.random for method in methods] == [True, True, False]
    assert Method.parse_peers("") == []
    with pytest.raises(BadInput, match=r"^peers: expected pecos, .* found dpr"):
        Method.parse_peers("dpr")
    with pytest.raises(BadInput, match=r"has no option beams; did you mean beam"):
        Method.parse_peers("pecos:beams=3")


@pytest.mark.parametrize("text", ["pecos", "a=dpr:fields=title,content,epochs=3"])
def test_a_method_is_written_as_it_is_read(text):
    assert Method.parse(text).text == text


def test_a_run_is_stopped_after_its_budget(tmp_path):
    process = Process(inherited=(), quiet=True, budget=0.3)
    process.must_be_left(tmp_path)
    with pytest.raises(OverBudget, match=r"over the budget of 0.3s"):
        process.run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path)
    assert json.loads((tmp_path / "cost.json").read_text())["seconds"] == 0.3
    with pytest.raises(OverBudget, match=r"over the budget of 0.3s"):
        process.must_be_left(tmp_path)
    Process(inherited=(), quiet=True, budget=0.4).must_be_left(tmp_path)
    Process(inherited=(), quiet=True).must_be_left(tmp_path)


def test_how_a_process_failed_is_said(tmp_path):
    process = Process(inherited=(), quiet=True)
    process.run([sys.executable, "-c", "pass"], tmp_path)
    with pytest.raises(LongtailError, match=r"^ValueError: of no use$"):
        process.run([sys.executable, "-c", "raise ValueError('of no use')"], tmp_path)
    with pytest.raises(LongtailError, match=r"^exit status 3$"):
        process.run([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)
    with pytest.raises(LongtailError, match=r"ended by signal 9; 9 may mean too little memory"):
        process.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], tmp_path)


def test_a_process_has_the_threads_that_it_is_given(tmp_path):
    program = "import os, sys; sys.exit(os.environ.get('OMP_NUM_THREADS') != '3')"
    Process(inherited=(), quiet=True, threads=3).run([sys.executable, "-c", program], tmp_path)
    with pytest.raises(LongtailError, match=r"^exit status 1$"):
        Process(inherited=(), quiet=True, threads=2).run([sys.executable, "-c", program], tmp_path)


def test_how_far_a_stopped_run_came(tmp_path):
    assert reached(tmp_path) == ""
    lines = [{"stage": "encoder", "epoch": 7, "terms": {}}, {"stage": "encoder", "epoch": 7, "graphs": {}}]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"stage": "enc')
    assert reached(tmp_path) == ", after epoch 7 of the stage encoder"
