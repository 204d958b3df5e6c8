"""A cross-encoder over a run: what it finds, a naive twin, how it goes on, how it is weighed, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ordered import CROSS, FIRST_STAGE, NAMES, ordered
from safetensors.numpy import load_file
from starlette.testclient import TestClient
from stopping import stopped_after
from tiny_bert import write_fresh_bert
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import longtail
from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.files import remove_folder
from longtail.model import Model, Reranker, load
from longtail.model.catalogue import Correction
from longtail.model.explanation import explain
from longtail.model.label_set import LabelSet, NewLabel
from longtail.model.remembering import remember
from longtail.modules.cross_encoder import CrossEncoder
from longtail.recipes import ngame, parabel, unidec
from longtail.recipes.rerank import asked
from longtail.report.run_summary import RunSummary
from longtail.serve.app import application
from longtail.serve.service import Settings
from longtail.stages.held_out import hold_out
from longtail.stages.make_ensemble import ensemble
from longtail.stages.rerank import FirstStage, drawn, hard_negatives
from longtail.stages.rerank import rerank as page
from longtail.train.progress import settings_of
from longtail.train.run import Run

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return ordered()


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh")
    write_fresh_bert(folder, NAMES)
    return folder


@pytest.fixture(scope="module")
def base(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "run"
    unidec(data, out=folder, refit=False, memory=False, **FIRST_STAGE)
    return folder


@pytest.fixture(scope="module")
def reranked(data: Dataset, base: Path, bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reranked") / "run"
    longtail.rerank(base, data, encoder=str(bert), out=folder, epochs=12, device="cpu", **CROSS)
    return folder


def first(model: Model, data: Dataset) -> float:
    assert data.test is not None
    top = model.rank(data.test.documents, 1, exclude=data.test.filtered).ids
    return float(np.mean([data.test.targets[i, one] > 0 for i, (one,) in enumerate(top)]))


def test_it_sees_what_the_first_stage_cannot(data: Dataset, base: Path, reranked: Path) -> None:
    before, after = load(base, device="cpu"), load(reranked, device="cpu")
    assert isinstance(after, Reranker)
    assert after.kinds == (*before.kinds, "reranked")
    assert first(before, data) < 0.7
    assert first(after, data) > 0.85
    said = settings_of(reranked)
    assert said["recipe"] == "rerank"
    assert said["arguments"]["validation"] == 0.2
    assert said["cross-encoder"]["kept"]
    assert said["cross-encoder"]["with"] > said["cross-encoder"]["without"] + 5


def test_it_is_chosen_by_what_the_run_was_chosen_by(data: Dataset, tmp_path: Path) -> None:
    given = {"prefer": "tail", "tail_price": 0.3}
    unidec(data, out=tmp_path / "run", **{**FIRST_STAGE, "epochs": 1}, refit=False, memory=False, **given)
    own = {name: value for name, value in asked(tmp_path / "run").items() if name in given}
    assert own == given


def test_it_ranks_as_a_naive_twin_does(data: Dataset, reranked: Path) -> None:
    """Each candidate by itself, through transformers, with weights of its frequency; then what is behind them."""
    model = load(reranked, device="cpu")
    assert isinstance(model, Reranker)
    assert model.fusion is not None
    assert data.test is not None
    folder, texts = reranked / "model" / "cross_encoder", data.test.documents.take(np.arange(10))
    cross = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = model.rank(texts, len(NAMES), kind=model.kinds[-2])
    top = model.rank(texts, len(NAMES))
    for i, text in enumerate(texts.fields["title"]):
        scores: list[tuple[float, int]] = []
        for label, score in zip(found.ids[i, :4].tolist(), found.scores[i, :4].tolist(), strict=True):
            with torch.inference_mode():
                logit = float(cross(**tokenizer(text, NAMES[label], return_tensors="pt")).logits[0, 0])
            f = float(model.fusion.frequency[label])
            a, b, c = (row @ [1, np.log(1 + f), f == 0, f / (1 + f), np.log(1 + f) ** 2] for row in model.weights)
            scores.append((a * score + b * logit + c, label))
        scores.sort(reverse=True)
        lowest, last = scores[-1][0], found.scores[i, 3]
        scores += [(lowest + found.scores[i, j] - last, int(found.ids[i, j])) for j in range(4, len(NAMES))]
        assert top.ids[i].tolist() == [label for _, label in scores]
        np.testing.assert_allclose(top.scores[i], [score for score, _ in scores], rtol=1e-4, atol=1e-4)
    for k in (1, 3, 4, 6):
        np.testing.assert_array_equal(model.rank(texts, k).ids, top.ids[:, :k])


def test_it_is_saved_without_pickle_and_opened_as_it_was(data: Dataset, reranked: Path, tmp_path: Path) -> None:
    model = load(reranked, device="cpu")
    model.save(tmp_path / "again" / "model")
    again = load(tmp_path / "again", device="cpu")
    assert data.test is not None
    for kind in model.kinds:
        one, two = (some.rank(data.test.documents, 6, kind=kind) for some in (model, again))
        np.testing.assert_array_equal(one.ids, two.ids)
        np.testing.assert_array_equal(one.scores, two.scores)
    kinds = {path.suffix for path in (tmp_path / "again").rglob("*") if path.is_file()}
    assert kinds <= {".json", ".jsonl", ".safetensors", ".txt"}
    (tmp_path / "again" / "model" / "cross_encoder" / "config.json").write_text("{}")
    with pytest.raises(BadInput, match=r"cross_encoder/config\.json: expected SHA-256"):
        load(tmp_path / "again", device="cpu")


def test_filters_and_probabilities_hold(data: Dataset, reranked: Path) -> None:
    model = load(reranked, device="cpu")
    assert data.test is not None
    texts = data.test.documents.take(np.arange(5))
    whole = model.rank(texts, len(NAMES))
    exclude = csr_of_lists([[one] for one in whole.ids[:, 0].tolist()], len(NAMES))
    np.testing.assert_array_equal(model.rank(texts, 3, exclude=exclude).ids[:, 0], whole.ids[:, 1])
    rows = np.array([7, 2, 5])
    among = model.among(rows).search(model.encode(texts), 3)
    places = [
        [order.index(row) for row in rows[ids].tolist()]
        for order, ids in zip(whole.ids.tolist(), among.ids, strict=True)
    ]
    assert all(len(set(row)) == 3 for row in places)
    found = model.predict(list(texts.fields["title"]), 4)
    assert ((found.probabilities >= 0) & (found.probabilities <= 1)).all()
    assert found.probabilities[:, 0].mean() > 0.6 > found.probabilities[:, 3].mean()
    why = explain(model, {"title": texts.fields["title"][0]}, whole.ids[0, :2])
    assert why[0].scores["reranked"] == pytest.approx(
        float(model.among(whole.ids[0, :2]).search(model.encode(texts), 2).scores[0].max())
    )


def test_labels_that_are_added_are_read(reranked: Path, tmp_path: Path) -> None:
    """A word that is no label yet; the first stage ranks it by its text, and the cross-encoder reads it."""
    load(reranked, device="cpu").save(tmp_path / "run" / "model")
    labels = LabelSet(tmp_path / "run", device="cpu")
    base = labels.model
    labels.add([NewLabel("again", NAMES[3]), NewLabel("other", NAMES[5], [{"title": f"{NAMES[5]} {NAMES[1]}"}])])
    labels.remove([f"uid-{NAMES[3]}"])
    labels.refresh()
    titles = [f"{NAMES[3]} {NAMES[1]}", f"{NAMES[7]} {NAMES[3]}"]
    found = labels.model.predict(titles, 13)
    old = base.predict(titles, 12)
    assert f"uid-{NAMES[3]}" not in [one.uid for one in found[0]]
    assert "again" in [one.uid for one in found[0][:4]]
    rows, snapshot = np.array([12, 0, 11, 5]), labels.model
    texts, points = snapshot.described(rows)
    assert list(texts.fields["title"]) == [snapshot.label(row)[2] for row in rows.tolist()]
    np.testing.assert_array_equal(points, snapshot.frequency(rows))
    assert {one.text for one in found[1]} == {one.text for one in old[1]}
    labels.compact()
    folded = load(tmp_path / "run", device="cpu").predict(titles, 13)
    assert [[one.uid for one in row] for row in folded] == [[one.uid for one in row] for row in found]
    labels.close()


def test_a_server_answers_as_python_does(data: Dataset, reranked: Path) -> None:
    model = load(reranked, device="cpu")
    assert data.test is not None
    texts = list(data.test.documents.fields["title"])[:3]
    threads = torch.get_num_threads()
    with TestClient(application(Settings(reranked, device="cpu"))) as client:
        answer = client.post("/v1/predict", json={"texts": texts, "k": 3, "probabilities": True}).json()
        allowed = {"texts": texts, "k": 3, "allowed": [f"uid-{NAMES[0]}", f"uid-{NAMES[1]}"]}
        some = client.post("/v1/predict", json=allowed)
        assert client.post("/v1/predict", json={"texts": texts[:1], "explain": True}).status_code == 200
    torch.set_num_threads(threads)
    assert answer["kind"] == "reranked"
    found = [[label["uid"] for label in result["labels"]] for result in answer["results"]]
    assert found == [[one.uid for one in row] for row in model.predict(texts, 3)]
    assert {label["uid"] for result in some.json()["results"] for label in result["labels"]} == set(allowed["allowed"])


def arrays(run: Path) -> dict[str, np.ndarray]:
    files = sorted((run / "model").rglob("*.safetensors"))
    return {f"{path.relative_to(run)} {name}": array for path in files for name, array in load_file(path).items()}


def test_a_run_that_is_stopped_ends_as_an_unbroken_one(data: Dataset, base: Path, bert: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"encoder": str(bert), "epochs": 2, "documents": 200, "device": "cpu", **CROSS}

    def begun(name: str, **more: Any) -> Model:
        return longtail.rerank(base, data, out=Run(tmp_path / name, **more), **given)

    begun("whole")
    stopped_after(9, lambda: begun("stopped", interval=0.0))
    assert not (tmp_path / "stopped" / "model").exists()
    begun("stopped", interval=0.0)
    whole, again = arrays(tmp_path / "whole"), arrays(tmp_path / "stopped")
    assert whole.keys() == again.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(array, again[name], err_msg=name)


def test_one_that_knows_nothing_is_dropped(data: Dataset, base: Path, tmp_path: Path) -> None:
    write_fresh_bert(tmp_path / "cross", NAMES, heads=1)
    model = longtail.rerank(base, data, encoder=str(tmp_path / "cross"), out=tmp_path / "run", epochs=0, **CROSS)
    assert not isinstance(model, Reranker)
    assert not settings_of(tmp_path / "run")["cross-encoder"]["kept"]
    assert load(tmp_path / "run").kinds == load(base).kinds
    assert first(load(tmp_path / "run", device="cpu"), data) == first(load(base, device="cpu"), data)


def test_where_each_label_has_one_example_nothing_is_left_to_weigh_it_on(bert: Path, tmp_path: Path) -> None:
    """Nor the scores of two runs, or of one anew, of which the first one stays."""
    pairs = [(a, b) for a in NAMES for b in NAMES if a != b]
    data = Dataset.from_texts(
        [" ".join(pair) for pair in pairs], [[i] for i in range(len(pairs))], [" ".join(pair[::-1]) for pair in pairs]
    )
    for seed, run in enumerate(("first", "second")):
        unidec(data, out=tmp_path / run, refit=False, **FIRST_STAGE | {"width": 16 * (1 + seed)})
    alone = load(tmp_path / "first", device="cpu").rank(data.train.documents, 3, kind="encoder").ids
    with pytest.raises(BadInput, match="expected held-out documents to weigh a cross-encoder on, found none with a"):
        longtail.rerank(tmp_path / "first", data, encoder=str(bert), out=tmp_path / "run", device="cpu", **CROSS)
    assert not (tmp_path / "run").exists()
    anew = longtail.weigh(tmp_path / "first", data, out=tmp_path / "weighed", prefer="tail", device="cpu")
    both = ensemble(tmp_path / "first", tmp_path / "second", data, out=tmp_path / "both", device="cpu")
    for model in (anew, both):
        np.testing.assert_array_equal(model.rank(data.train.documents, 3).ids, alone)


def test_a_cross_encoder_that_is_trained_is_taken_as_it_is(
    data: Dataset, base: Path, reranked: Path, tmp_path: Path
) -> None:
    ready = reranked / "model" / "cross_encoder"
    made = longtail.rerank(base, data, encoder=str(ready), out=tmp_path / "run", epochs=0, device="cpu", **CROSS)
    np.testing.assert_array_equal(made.weights, load(reranked, device="cpu").weights)


@pytest.fixture(scope="module")
def refitted(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refitted") / "run"
    unidec(data, out=folder, refit=True, memory=False, **FIRST_STAGE)
    return folder


def test_a_run_that_was_trained_on_all_is_weighed_before_that(
    data: Dataset, refitted: Path, reranked: Path, tmp_path: Path
) -> None:
    ready = str(reranked / "model" / "cross_encoder")
    model = longtail.rerank(refitted, data, encoder=ready, out=tmp_path / "run", epochs=0, device="cpu", **CROSS)
    assert isinstance(model, Reranker)
    before = longtail.model.open_model(tmp_path / "run" / "held_out", device=CPU)
    np.testing.assert_array_equal(before.weights, model.weights)
    assert before.first_stage.width != model.first_stage.width
    ngame(data, out=tmp_path / "other", refit=False, memory=False, classifier_epochs=1, **FIRST_STAGE)
    both = ensemble(tmp_path / "run", tmp_path / "other", data, out=tmp_path / "both", device="cpu")
    assert both.kinds == ("first", "second", "fused"), "as neither run has a memory"
    again = longtail.rerank(
        tmp_path / "both", data, encoder=ready, out=tmp_path / "over", epochs=0, device="cpu", **CROSS
    )
    assert first(again, data) > 0.85


def test_a_linear_model_is_reranked_too(reranked: Path, tmp_path: Path) -> None:
    """It reads pairs of words, and would know the order of those that it has seen."""
    few, ready = ordered(120), str(reranked / "model" / "cross_encoder")
    parabel(few, out=tmp_path / "linear", validation=0.5, device="cpu")
    model = longtail.rerank(tmp_path / "linear", few, encoder=ready, out=tmp_path / "run", epochs=0, **CROSS)
    assert isinstance(model, Reranker)
    assert first(load(tmp_path / "linear", device="cpu"), few) < first(model, few) - 0.1
    assert first(load(tmp_path / "run", device="cpu"), few) == first(model, few)


def test_a_memory_is_asked_without_what_was_held_out(data: Dataset, base: Path) -> None:
    """The memory of a run knows the labels of the documents on which the cross-encoder is weighed."""
    model = load(base, device="cpu", changes=False)
    rest, held_out = hold_out(data, 0.2, 0)
    assert model.fusion is not None
    weights = np.insert(model.fusion.weights, -1, [8, 0, 0, 0, 0], axis=0)
    knowing = model.fused_by(model.fusion, remember(model, data.train.documents, data.train.targets, weights))
    unseen = FirstStage(knowing, knowing).without_answers(rest.train)
    assert knowing.memory is not None
    assert unseen.memory is not None
    expected = remember(model, rest.train.documents, rest.train.targets, weights)
    np.testing.assert_array_equal(unseen.memory.keys.vectors, expected.keys.vectors)
    assert len(unseen.memory.keys.vectors) < len(knowing.memory.keys.vectors)
    assert len(held_out) == 160


def test_hard_negatives_are_the_wrong_labels_that_rank_first() -> None:
    """Neither true, nor filtered, nor what the document's text is itself."""
    texts, names = ["red fish", "green bird", "blue"], ["red", "fish", "green", "bird", "blue", "one"]
    data = Dataset.from_texts(texts * 20, [[0], [2], [3]] * 20, names)
    model = unidec(data, epochs=2, validation=0.2, refit=False, memory=False, width=8, device="cpu")
    filtered = csr_of_lists([[1], [], []], len(names))
    split = Split(Texts.of(texts), csr_of_lists([[0], [2], [3]], len(names)), filtered)
    found = hard_negatives(Run(), model, split, data, 6)
    for i, forbidden in enumerate(({0, 1}, {2}, {3, 4})):
        ranked = [
            label
            for label in model.rank(Texts.of([texts[i]]), 6, kind="fused").ids[0].tolist()
            if label not in forbidden
        ]
        assert [label for label in found[i].tolist() if label >= 0] == ranked


def test_a_true_label_is_drawn_among_wrong_ones() -> None:
    targets = torch.tensor([[1.0, 1, 0, 0, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0]])
    mask = torch.tensor([[True] * 5, [False, True, True, True, False], [True, False, False, False, False]])
    torch.manual_seed(0)
    seen = torch.stack([drawn(targets, mask, 3) for _ in range(50)])
    assert seen.shape == (50, 3, 4)
    assert set(seen[:, 0, 0].tolist()) == {0, 1}
    assert set(seen[:, 0, 1:].flatten().tolist()) == {2, 3, 4}
    assert {tuple(row) for row in seen[:, 1].tolist()} == {(1, 2, 3, -1), (1, 3, 2, -1)}
    assert seen[:, 2].tolist() == [[0, -1, -1, -1]] * 50
    assert all(len(set(row)) == 4 for row in seen[:, 0].tolist())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"encoder": "bag"}, "encoder: expected a transformer, which reads two texts together, found bag"),
        ({"epochs": 0}, "epochs: expected a cross-encoder to be taken as it is, found .*, which has no head yet"),
        ({"seed": 3}, "expected validation 0.2 and seed 0, those of the run, found validation 0.2 and seed 3"),
        ({"max_length": 17}, "max_length: expected a length in 5 to 16 tokens, found 17"),
        ({"candidates": 0}, "candidates: expected at least 1, found 0"),
        ({"depth": 3}, "rerank: has no option depth"),
    ],
)
def test_what_it_cannot_be_asked_is_refused(
    data: Dataset, base: Path, bert: Path, tmp_path: Path, given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadInput, match=problem):
        longtail.rerank(base, data, out=tmp_path / "run", **{"encoder": str(bert), **CROSS, **given})
    assert not (tmp_path / "run" / "run.json").exists()


def test_runs_that_cannot_be_weighed_are_refused(
    data: Dataset, base: Path, bert: Path, reranked: Path, tmp_path: Path
) -> None:
    made: list[tuple[Callable[[], object], str]] = [
        (lambda: page(data, encoder=str(bert)), "first_stage: expected the folder of a finished run, found none"),
        (lambda: longtail.rerank(reranked, data, encoder=str(bert)), "expected a run without a cross-encoder"),
        (
            lambda: longtail.rerank(base, ordered(100), encoder=str(bert)),
            "expected a run of ordered, found one of other",
        ),
        (lambda: longtail.rerank(tmp_path, data, encoder=str(bert)), r"run\.json: expected the settings of a run"),
    ]
    unidec(data, out=tmp_path / "none", **{**FIRST_STAGE, "validation": 0, "epochs": 1})
    made.append(
        (lambda: longtail.rerank(tmp_path / "none", data, encoder=str(bert)), "which it has not seen, found one")
    )
    for make, problem in made:
        with pytest.raises(BadInput, match=problem):
            make()


def test_weights_that_leave_the_order_leave_everything_as_it_is(run_with_memory: Path, tiny_bert: Path) -> None:
    """Through a memory, labels that come and go, and corrections; for fewer labels than candidates, and for more."""
    plain = LabelSet(run_with_memory, device="cpu")
    texts = [*list(plain.model.labels.fields["title"])[:8], "of nothing", ""]
    model = load(run_with_memory, device="cpu", changes=False)
    over = Reranker(model, CrossEncoder(tiny_bert).eval(), np.outer([1.0, 0, 0], [1.0, 0, 0]), 7, model.calibrations)
    remove_folder(run_with_memory / "model")
    over.save(run_with_memory / "model")
    labels = LabelSet(run_with_memory, device="cpu")

    def same() -> None:
        for one in (plain, labels):
            one.refresh()
        for k in (1, 5, 7, 30):
            first, second = (one.model.predict(texts, k) for one in (plain, labels))
            assert [[label.uid for label in row] for row in first] == [[label.uid for label in row] for row in second]
            np.testing.assert_allclose(first.scores, second.scores, rtol=1e-5, atol=1e-5)

    assert labels.model.kinds[-2:] == ("memory", "reranked")
    same()
    uids = list(labels.model.labels.uids)
    labels.add([NewLabel("new", "of nothing", [{"title": "nothing at all"}]), NewLabel(uids[3], texts[4])])
    labels.remove([uids[0]])
    same()
    labels.correct(
        [
            Correction({"title": texts[1]}, uids[5], is_right=True),
            Correction({"title": texts[2]}, uids[2], is_right=False),
        ]
    )
    same()
    for one in (plain, labels):
        one.close()
    said = RunSummary.of(run_with_memory)
    assert said.remembers
    assert (said.kinds[-1], said.labels) == ("reranked", 120)


def test_an_index_finds_the_candidates(data: Dataset, reranked: Path, tmp_path: Path) -> None:
    assert data.test is not None
    load(reranked, device="cpu").save(tmp_path / "run" / "model")
    texts = list(data.test.documents.fields["title"])
    labels = LabelSet(tmp_path / "run", device="cpu")
    labels.index(method="float16")
    labels.close()
    assert (tmp_path / "run" / "model" / "index" / "reranked").is_dir()
    found, exact = (load(tmp_path / "run", device="cpu", exact=exact).predict(texts, 1) for exact in (False, True))
    assert np.mean(found.ids == exact.ids) > 0.95


@pytest.mark.parametrize("shards", [2, 3])
def test_steps_may_be_taken_in_shards(data: Dataset, base: Path, bert: Path, shards: int) -> None:
    given: dict[str, Any] = {"encoder": str(bert), "epochs": 12, "device": "cpu", **CROSS}
    assert first(longtail.rerank(base, data, shards=shards, **given), data) > 0.85
