"""OAK: without a graph it is its base, a run goes on where it stopped, and bad graphs are refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from longtail import Dataset, LongtailError, load, recipes
from longtail.batches.links import heaviest_links
from longtail.data.graph import Graph
from longtail.data.sparse import CSR, csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.files import write_json
from longtail.model import Bundle
from longtail.model.explanation import linked_nodes
from longtail.modules.linker import Linked
from longtail.search import weighing as weighing_module
from longtail.stages import enriching as enriching_module
from longtail.stages import task as task_module
from longtail.stages.linking import Linking, LinkOptions, links_of
from longtail.stages.refit import before_refit
from longtail.testing.planted import planted_links
from longtail.text.tokens import Tokens
from longtail.topk import TopK
from longtail.train import fit as fit_module
from longtail.train.log import Log, read_log
from longtail.train.plan import Planned
from longtail.train.run import Run

SMALL = {
    "batch": 64,
    "random_negatives": 32,
    "width": 16,
    "warmup": 5,
    "epochs": 2,
    "device": "cpu",
    "cluster_from": 1,
    "validation": 0.05,
}
OAK = {**SMALL, "linker": "ngame", "linker_epochs": 1, "classifier_epochs": 1}
OUT_OF_FOLD = {**OAK, "train_links": "out-of-fold"}
PLAIN = {"batch": 64, "random_negatives": 32, "width": 16, "warmup": 5, "epochs": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return planted_links(0, documents=240, test_documents=40, labels=40).dataset


def arrays(model: Path) -> dict[str, np.ndarray]:
    return {
        f"{path.relative_to(model)} {name}": array
        for path in sorted(model.rglob("*.safetensors"))
        for name, array in load_file(path).items()
    }


def same(one: Bundle, other: Bundle) -> None:
    """Bit-equal in all that they have in common with a model without a linker."""
    assert torch.equal(one.encoder.table.weight, other.encoder.table.weight)  # type: ignore[attr-defined]
    assert one.kinds == other.kinds
    for kind in one.kinds:
        np.testing.assert_array_equal(one.table(kind), other.table(kind))


@pytest.mark.parametrize("given", [{}, {"share_encoder": True}], ids=str)
def test_links_are_the_most_probable_ones_whatever_rare_labels_are_given(
    given: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = planted_links(0, documents=1000, test_documents=40, labels=40).dataset

    def adjusted(*_: object) -> float:
        raise AssertionError("the linker's scores are not for rare nodes")

    monkeypatch.setattr(weighing_module, "_adjustment", adjusted)
    linked = recipes.oak(data, **OAK, **given, tail_price=0).linked
    assert linked is not None
    assert linked.linker.fusion is not None
    assert np.count_nonzero(linked.linker.fusion.weights) > 1, "one of the scores alone is no test"


@pytest.mark.parametrize(
    "given", [{}, {"plain_weight": 0.0, "calibration_weight": 0.0}, {"augment": "gandalf"}], ids=str
)
def test_without_a_graph_it_is_ngame_bit_by_bit(data: Dataset, given: dict[str, object]) -> None:
    augment = {"augment": given["augment"]} if "augment" in given else {}
    base = recipes.ngame(data, **SMALL, classifier_epochs=1, **augment)
    same(recipes.oak(data, **OAK, enrich="none", **given), base)


def test_without_a_graph_it_is_dpr_bit_by_bit(data: Dataset) -> None:
    model = recipes.oak(data, **OAK, enrich="none", base="dpr")
    same(model, recipes.dpr(data, **PLAIN, validation=SMALL["validation"]))
    with pytest.raises(LongtailError, match="a model of oak links no documents to nodes"):
        linked_nodes(model, [{"title": "x"}])


def test_an_empty_bank_gives_ngame_bit_by_bit(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """With linker, bank, combiner and all three terms in place, but not one link: everything passes through."""
    monkeypatch.setattr(Linking, "links_to_train_with", lambda self, *_, **__: CSR(self.train.targets.shape))
    oak, ngame = recipes.oak(data, **OAK, calibration_weight=0.1), recipes.ngame(data, **SMALL, classifier_epochs=1)
    assert oak.linked is not None
    assert torch.equal(oak.encoder.table.weight, ngame.encoder.table.weight)  # type: ignore[attr-defined]
    for kind, table in ngame.vectors.items():
        np.testing.assert_array_equal(oak.vectors[kind], table)
    none = np.full((len(data.train), 3), -1)
    x, other = oak.encode(data.train.documents, none), ngame.encode(data.train.documents)
    for kind in ("encoder", "classifier"):
        np.testing.assert_array_equal(oak.queries(x, kind), ngame.queries(other, kind))


def test_an_out_of_fold_link_comes_from_a_linker_that_has_not_seen_the_document(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []

    def linker(given: Dataset, **_: object) -> Bundle:
        seen.append(set(given.train.documents.fields["title"]))
        return recipes.dpr(given, epochs=0, width=4, device="cpu")

    o = LinkOptions(share_encoder=True, train_links="out-of-fold", folds=3, links=2)
    linking = links_of(Run(), data, linker, o, validation=0.1)
    monkeypatch.setattr(Linked, "find", lambda self, texts: _top(texts, self.most, linking, seen[-1]))
    links = linking.links_to_train_with()
    assert len(seen) == 3
    assert links.shape == linking.train.targets.shape
    assert (np.diff(links.indptr) == 2).all()
    share = linking.train.targets[:, :2].mean()  # all are found at the same score, 1
    np.testing.assert_allclose(links.data, share, atol=0.02)
    assert linking.are_chances
    published = replace(linking, o=replace(o, link_chances=False))
    assert set(published.links_to_train_with().data) == {1.0}


def _top(texts: Texts, k: int, linking: Linking, seen: set[str]) -> TopK:
    assert not seen & set(texts.fields["title"])
    assert len(texts) > len(linking.train) // 4
    return TopK(np.tile(np.arange(k), (len(texts), 1)), np.ones((len(texts), k), np.float32))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"train_links": "out-of-fold"},
        {"share_encoder": True},
        {"bank": False, "train_links": "true"},
        {"bank_residual": True},
        {"combiner": "mean", "train_links": "true"},
        {"combiner": "early"},
        {"base": "dpr", "train_links": "true"},
        {"base": "dpr", "train_links": "true", "validation": 0.0},
        {"linker": "unidec"},
        {
            "attention_heads": 4,
            "spectral_norm": False,
            "attention_temperature": 0.1,
            "bank_row_wise": True,
            "train_links": "true",
        },
        {"linker": "dpr", "train_links": "true", "classifier_epochs": 0},
        {"augment": "gandalf", "train_links": "true"},
        {"combiner": "graphformers", "attention_heads": 4, "plain_weight": 0.0},
        {"combiner": "graphsage", "label_links": True, "bank": False, "augment": "gandalf"},
        {"enrich": "joint", "label_rows": True, "combiner": "graphsage", "train_links": "out-of-fold"},
        {"enrich": "joint", "combiner": "mean", "bank": False, "train_links": "predicted"},
    ],
    ids=str,
)
def test_a_saved_model_predicts_the_same(data: Dataset, options: dict[str, object], tmp_path: Path) -> None:
    trained = recipes.oak(data, out=tmp_path / "run", **{**OAK, **options})
    opened = load(tmp_path / "run", device="cpu")
    assert opened.kinds == trained.kinds
    assert opened.kinds[0] == "plain"
    assert data.test is not None
    for kind in trained.kinds:
        one, other = (model.rank(data.test.documents, 5, kind=kind) for model in (trained, opened))
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.scores, other.scores)
    for model in (trained, opened):
        (nodes,) = linked_nodes(model, [{"title": data.test.documents.fields["title"][3]}])
        assert len(nodes) == 3
        if options.get("combiner") == "early":
            assert nodes[0].weight is None
        else:
            total = sum(node.weight or 0 for node in nodes)
            whole = "validation" in options or options.get("combiner") == "graphsage"  # certain; shares of columns
            assert total == pytest.approx(1, abs=1e-5) if whole else 0 < total < 1
    shared = bool(options.get("share_encoder"))
    assert opened.linked is not None
    assert trained.linked is not None
    assert opened.linked.chances == trained.linked.chances
    assert (opened.linked.chances is None) == ("validation" in options)  # where nothing is held out
    assert (opened.linked.linker.encoder is opened.encoder) == shared
    assert (tmp_path / "run" / "model" / "linker" / "encoder").exists() != shared
    assert (tmp_path / "run" / "model" / "enrichment.safetensors").exists() == (options.get("combiner") != "early")
    assert not list((tmp_path / "run").glob("linker-without-*"))
    card = tmp_path / "run" / "model" / "bundle.json"
    said = json.loads(card.read_text())
    del said["digest"]
    write_json(card, said | {"format": 4})  # whose fusion mixed other scores
    with pytest.raises(LongtailError, match="expected format 7, found 4"):
        load(tmp_path / "run", device="cpu")


def test_given_links_take_the_place_of_predicted_ones(data: Dataset) -> None:
    model = recipes.oak(data, **OAK, train_links="true")
    assert data.test is not None
    assert model.linked is not None
    x = model.queries(model.encode(data.test.documents), "plain")
    found = model.linked.find(data.test.documents, x, model.encoder).ids
    assert model.linked.chances is not None
    certain = replace(model, linked=replace(model.linked, chances=None))
    np.testing.assert_array_equal(certain.encode(data.test.documents), model.encode(data.test.documents, found))
    other = model.encode(data.test.documents, (found + 1) % 100)
    np.testing.assert_array_equal(model.queries(other, "plain"), x)
    assert np.abs(other - model.encode(data.test.documents)).max() > 1e-3


def test_labels_of_a_model_with_a_linker_come_and_go(data: Dataset) -> None:
    model = recipes.oak(data, **OAK, train_links="true")
    new = model.new_labels(
        Texts.of(["one more"], uids=["x"]), data.train.documents.take(np.arange(2)), np.zeros(2, int)
    )
    grown = model.take(np.arange(5)).followed_by(new)
    assert list(grown.labels.uids)[-1] == "x"
    assert grown.kinds == model.kinds
    assert grown.predict(["one more"], k=6, kind="plain")[0][0].uid == "x"


class Stop(Exception):
    pass


@pytest.fixture(scope="module")
def whole(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unbroken run: 21 steps of the linker, 14 of each fold's, 8 of the encoder, 4 of the classifiers."""
    folder: Path = tmp_path_factory.mktemp("whole") / "run"
    recipes.oak(data, out=folder, **OUT_OF_FOLD)
    return folder


@pytest.mark.parametrize("steps", [2, 21, 40, 52, 59])
def test_a_run_stopped_anywhere_ends_as_an_unbroken_one(
    data: Dataset, whole: Path, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the linker, between linkers, within those of the folds, the encoder stage and the classifiers."""
    left, taken, plain = steps, 0, fit_module.take_step

    def step(*arguments: object, **options: object) -> dict[str, float]:
        nonlocal left, taken
        if options["seed"]:  # the plan's trial steps have seed 0
            if left == 0:
                raise Stop
            left, taken = left - 1, taken + 1
        return plain(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(fit_module, "take_step", step)
    broken = tmp_path / "broken"
    with pytest.raises(Stop):
        recipes.oak(data, out=Run(broken, interval=0.0), **OUT_OF_FOLD)
    left = 1000
    recipes.oak(data, out=Run(broken, interval=0.0), **OUT_OF_FOLD)
    assert taken == 72  # nothing was done twice
    one, other = arrays(whole / "model"), arrays(broken / "model")
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
    recipes.oak(data, out=broken, **OUT_OF_FOLD)
    assert taken == 72  # a finished run takes no step
    assert not list(broken.rglob("*.checkpoint.safetensors"))


def test_a_finished_run_holds_its_linker_once_and_makes_a_lost_model_again(data: Dataset, tmp_path: Path) -> None:
    options = {**OAK, "linker": "unidec", "validation": 0.2, "train_links": "true"}
    run = tmp_path / "run"
    recipes.oak(data, out=run, **options)
    assert list((run / "linker" / "stages").iterdir())
    assert list((run / "linker" / "refit" / "stages").iterdir())  # so that it was kept before that, too
    assert not list((run / "linker").rglob("bundle.json"))
    kept = {path: path.stat().st_mtime_ns for path in run.rglob("stages/*.safetensors")}
    made = arrays(run / "model")
    shutil.rmtree(run / "model")
    recipes.oak(data, out=run, **options)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("stages/*.safetensors")} == kept  # nothing is trained
    again = arrays(run / "model")
    assert made.keys() == again.keys()
    for name, array in made.items():
        np.testing.assert_array_equal(array, again[name], err_msg=name)


@pytest.mark.parametrize(
    ("recipe", "options"),
    [("oak", OAK), ("oak", OUT_OF_FOLD), ("oak", {**OAK, "link_chances": False}), ("unidec", {"enrich": "links"})],
)
def test_a_second_run_on_all_documents_believes_links_as_the_first_one_learned(
    data: Dataset, recipe: str, options: dict[str, object], tmp_path: Path
) -> None:
    """The fusion and the probabilities that it has from the first run are those of such links."""
    (name,) = data.graphs
    given = {**SMALL, **options, "linker": "ngame", "linker_epochs": 1, "validation": 0.2, "refit": True}
    given |= {"enrich": name} if "enrich" in options else {}
    given = {key: value for key, value in given.items() if key != "cluster_from" or recipe == "oak"}
    recipes.RECIPES[recipe](data, out=tmp_path / "run", **given)
    first, served = before_refit(tmp_path / "run", torch.device("cpu")), load(tmp_path / "run")
    assert isinstance(first, Bundle)
    assert isinstance(served, Bundle)
    assert first.linked is not None
    assert served.linked is not None
    assert (first.linked.chances is None) is (options.get("link_chances") is False)
    assert served.linked.chances == first.linked.chances
    assert not np.array_equal(first.vectors["encoder"], served.vectors["encoder"])  # it is another run


@pytest.mark.parametrize("options", [{}, {"combiner": "early"}, {"bank_residual": True}], ids=str)
def test_training_is_judged_by_links_as_they_will_be_believed(
    data: Dataset, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Linked | None] = []
    plain = task_module.held_out_score

    def score(run: Run, model: Bundle, held_out: Split) -> float:
        if run.plan is None:
            judged.append(model.linked)
        return plain(run, model, held_out)

    monkeypatch.setattr(task_module, "held_out_score", score)
    model = recipes.oak(data, **OAK | {"validation": 0.2, "evaluate_every": 1, **options})
    assert model.linked is not None
    assert model.linked.chances is not None
    assert [linked and linked.chances for linked in judged] == [model.linked.chances] * 2


def test_the_log_says_how_good_the_links_are_and_how_even_the_attention(data: Dataset, tmp_path: Path) -> None:
    run = Run(tmp_path / "run", Log(tmp_path / "run" / "metrics.jsonl"))
    recipes.oak(data, out=run, **OAK | {"validation": 0.2}, train_links="true", calibration_weight=0.1)
    lines = read_log(tmp_path / "run" / "metrics.jsonl")
    shutil.rmtree(tmp_path / "run" / "model")  # as if it had been killed before the end
    recipes.oak(data, out=run, **OAK | {"validation": 0.2}, train_links="true", calibration_weight=0.1)
    again = read_log(tmp_path / "run" / "metrics.jsonl")
    parts = again.pop()  # of the second process
    assert parts.keys() == {"parts"}
    assert sorted(map(str, again)) == sorted(map(str, lines))  # nothing else is said twice
    (linker,) = (line for line in lines if "linker" in line)
    assert linker["linker"].keys() == {"P@1", "P@3", "R@3"}
    assert linker["documents"] == 48  # all that were held out
    entropies = [line["attention_entropy"] for line in lines if "attention_entropy" in line]
    assert len(entropies) == 2  # before the epoch that is clustered, and at the end
    assert all(0 < value <= 1 for value in entropies)
    terms = [line["terms"].keys() for line in lines if line.get("stage") == "encoder" and "terms" in line]
    assert terms == [{"enriched", "plain", "calibration"}] * 2


def test_a_linker_on_the_encoder_needs_one_pass(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    model = recipes.oak(data, **OAK, share_encoder=True, train_links="true")
    passes: list[int] = []
    plain = type(model.encoder).forward  # type: ignore[attr-defined]

    def forward(self: torch.nn.Module, text: Tokens) -> torch.Tensor:
        passes.append(len(text))
        return plain(self, text)  # type: ignore[no-any-return]

    monkeypatch.setattr(type(model.encoder), "forward", forward)
    assert data.test is not None
    model.encode(data.test.documents)
    assert passes == [40]


def graphs(**given: Graph) -> Dataset:
    texts = ["red shoe", "oak table", "blue shoe", "pine table"]
    return replace(Dataset.from_texts(texts, [[0], [1], [0], [1]], ["shoe", "table"]), graphs=given)


SOME = Graph(Strings.of(["one", "two"]), csr_of_lists([[0], [1], [], [0, 1]], 2), None)
EMPTY = Graph(Strings.of(["one", "two"]), csr_of_lists([[]] * 4, 2), None)
LABELS = Graph(Strings.of(["one", "two"]), None, csr_of_lists([[0], [1]], 2))


@pytest.mark.parametrize(
    ("there", "options", "message"),
    [
        ({}, {}, "the data set has 0 graphs: none"),
        ({"a": SOME, "b": SOME}, {}, "the data set has 2 graphs: a, b"),
        ({"a": SOME}, {"enrich": "b"}, "no graph b; its graphs are: a"),
        ({"a": EMPTY}, {}, "graph a links no training document"),
        ({"a": LABELS}, {}, "graph a links no training document"),
        ({"a": SOME}, {"linker": "wizard"}, "expected one of unidec, .*found wizard"),
        (
            {"a": SOME},
            {"train_links": "guessed"},
            "expected one of true, answer-free, predicted, out-of-fold, found guessed",
        ),
        ({"a": SOME}, {"folds": 1}, "expected at least 2, found 1"),
        ({"a": SOME}, {"base": "ance"}, "expected one of ngame, dpr, found ance"),
        (
            {"a": SOME},
            {"combiner": "late"},
            "expected one of attention, mean, graphsage, graphformers, early, found late",
        ),
    ],
)
def test_what_cannot_be_linked_is_refused(there: dict[str, Graph], options: dict[str, object], message: str) -> None:
    with pytest.raises(LongtailError, match=message):
        recipes.oak(graphs(**there), **{"epochs": 1, "linker_epochs": 1, "validation": 0.0, **options})


def test_the_only_graph_is_taken_and_weights_of_edges_do_not_matter_to_the_linker() -> None:
    data = graphs(only=replace(SOME, train=SOME.train * 7))  # type: ignore[operator]
    linking = links_of(Run(), data, recipes.ngame, LinkOptions(), validation=0.0)
    assert linking is not None
    assert linking.train.targets.toarray().tolist() == [[1, 0], [0, 1], [0, 0], [1, 1]]
    assert list(linking.nodes.fields["title"]) == ["one", "two"]


def test_of_many_links_the_heaviest_are_kept() -> None:
    weighted = CSR(np.array([[1, 2, 3], [0, 0, 1], [4, 3, 2], [0, 0, 0]], np.float32))
    data = graphs(only=Graph(Strings.of(["one", "two", "three"]), weighted, None))
    linking = links_of(Run(), data, recipes.ngame, LinkOptions(), validation=0.0)
    assert set(linking.train.targets.data) == {1.0}  # the linker learns them all alike
    for links in (linking.links_to_train_with(), linking.augmented(data)[1]):
        assert links is not None
        assert heaviest_links(links, 1).tolist() == [[2], [2], [0], [-1]]


def test_a_node_of_the_documents_own_text_is_no_link_and_no_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Strings.of(["red shoe", "table", "blue shoe"])  # documents 0 and 2 are nodes, 2 is linked to itself
    data = graphs(only=Graph(nodes, csr_of_lists([[1], [1], [0, 2], [0, 1]], 3), None))
    seen: list[Dataset] = []

    def linker(given: Dataset, **options: object) -> Bundle:
        seen.append(given)
        return recipes.dpr(given, epochs=0, width=4, device="cpu")

    o = LinkOptions(links=2, train_links="out-of-fold")
    linking = links_of(Run(), data, linker, o, validation=0.0)
    assert linking.links.toarray().tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]]
    predicted = linking.links_to_train_with().toarray() > 0
    assert predicted.sum(1).tolist() == [2, 2, 2, 2]
    assert (predicted[0, 0], predicted[2, 2]) == (0, 0)
    assert seen[0].train.filtered is not None
    own = [[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert seen[0].train.filtered.toarray().tolist() == own
    held_out = links_of(Run(), data, linker, o, validation=0.5).held_out  # which a linker's fusion is learned on
    assert held_out.filtered is not None
    rows = [data.train.documents.fields["title"][i] for i in range(4)]
    which = [rows.index(title) for title in held_out.documents.fields["title"]]
    assert len(which) == 2
    assert held_out.filtered.toarray().tolist() == [own[i] for i in which]


def test_a_text_is_its_own_node_however_its_accents_are_written() -> None:
    nodes = Strings.of(["Caf\u00e9", "plain"])
    links = csr_of_lists([[0, 1], [1]], 2)
    train = Split(Texts.of(["Cafe\u0301", "other"]), csr_of_lists([[0], [1]], 2))
    data = Dataset("d", train, Texts.of(["Cafe\u0301", "label"]), graphs={"a": Graph(nodes, links, links)})
    linking = links_of(Run(), data, recipes.ngame, LinkOptions(label_rows=True), validation=0.0)
    assert linking is not None
    assert linking.links.toarray().tolist() == [[0, 1], [0, 1]]
    assert linking.of_labels.toarray().tolist() == [[0, 1], [0, 1]]
    assert linking._label_rows(np.array([0, 1])).filtered.toarray().tolist() == [[1, 0], [0, 0]]  # type: ignore[union-attr]
    assert linking._label_rows(np.array([1])).targets.toarray().tolist() == [[0, 1], [0, 1]]


def test_answer_free_links_do_not_give_a_label_away() -> None:
    nodes = Strings.of(["shoe", "table", "wood"])  # two of them are labels
    weighted = CSR(np.array([[1, 2, 0], [0, 3, 4], [0, 5, 0], [6, 0, 0]], np.float32))
    data = graphs(only=Graph(nodes, weighted, None))
    linking = links_of(Run(), data, recipes.ngame, LinkOptions(share_encoder=True, train_links="true"), validation=0.0)
    assert (linking.links_to_train_with() != weighted).nnz == 0
    free = replace(linking, o=replace(linking.o, train_links="answer-free")).links_to_train_with()
    assert free.toarray().tolist() == [[0, 2, 0], [0, 0, 4], [0, 5, 0], [6, 0, 0]]
    assert LinkOptions().train_links == "answer-free"


@pytest.mark.parametrize("base", ["dpr", "ngame"])
def test_without_a_bank_of_its_own_a_model_has_what_its_encoder_says_of_the_nodes(data: Dataset, base: str) -> None:
    model = recipes.oak(data, **{**OAK, "classifier_epochs": 0}, base=base, bank=False)
    assert model.linked is not None
    assert model.linked.enrichment is not None
    nodes = model._embed(model.linked.linker.labels)
    np.testing.assert_allclose(model.linked.enrichment.bank.export(), nodes, atol=1e-6)


@pytest.mark.parametrize("residual", [True, False])
def test_a_node_without_links_is_what_the_trained_encoder_says_where_the_bank_is_added_to_it(
    data: Dataset, residual: bool
) -> None:
    (graph,) = data.graphs.values()
    assert graph.train is not None
    nodes = graph.nodes.followed_by(Strings.of([data.labels.fields["title"][0]]))
    wider = Graph(
        nodes, CSR((graph.train.data, graph.train.indices, graph.train.indptr), shape=(240, len(nodes))), None
    )
    model = recipes.oak(replace(data, graphs={"wider": wider}), **OAK, bank_residual=residual)
    assert model.linked is not None
    assert model.linked.enrichment is not None
    apart = model.linked.enrichment.bank.export() - model._embed(model.linked.linker.labels)
    assert np.abs(apart[:-1]).max(1).min() > 0.01  # linked ones have moved
    assert (np.abs(apart[-1]).max() < 1e-6) == residual


def test_early_concatenation_puts_the_texts_of_nodes_behind_the_title(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    plain = enriching_module.appended
    monkeypatch.setattr(enriching_module, "appended", lambda *given: seen.append(plain(*given)) or seen[-1])
    options = {"epochs": 1, "linker_epochs": 1, "validation": 0.0, "width": 8, "train_links": "true"}
    recipes.oak(graphs(only=SOME), combiner="early", **options)
    titles = ["red shoe one", "oak table two", "blue shoe", "pine table one two"]
    assert list(seen[-1].fields["title"]) == titles


def test_every_kind_is_its_queries_times_its_table_and_the_product_that_of_two(data: Dataset) -> None:
    model = recipes.oak(data, **OAK, train_links="true")
    assert data.test is not None
    vectors, found = model.encode(data.test.documents), {}
    for kind in model.kinds:
        top = model.search(vectors, len(model.labels), kind=kind)
        found[kind] = np.take_along_axis(top.scores, np.argsort(top.ids, axis=1), axis=1)
        if kind != "product":
            product = model.queries(vectors, kind) @ model.table(kind).T
            np.testing.assert_allclose(found[kind], product, atol=1e-5, err_msg=kind)
    expected = np.maximum(found["encoder"], 0) * np.maximum(found["classifier"], 0)
    np.testing.assert_allclose(found["product"], expected, atol=1e-5)
    assert model.fusion is not None
    *shares, constant = model.fusion.label_weights()
    kinds = ("plain", "plain-classifier", "classifier")
    mixed = sum(share * found[kind] for share, kind in zip(shares, kinds, strict=True))
    np.testing.assert_allclose(found["fused"], mixed + constant, atol=1e-3)
    known = "plain, encoder, plain-classifier, classifier, fused"
    with pytest.raises(LongtailError, match=f"expected one of {known}, found product"):
        model.table("product")


def test_plain_classifiers_are_those_of_the_plain_document_and_may_be_left_out(data: Dataset) -> None:
    """They start at the labels' texts, and never see a node; nothing else of the model depends on them."""
    model = recipes.oak(data, **OAK, train_links="true")
    without = recipes.oak(data, **OAK, train_links="true", plain_classifiers=False)
    assert without.kinds == ("plain", "encoder", "classifier", "product", "fused")
    assert without.fusion is not None
    assert without.fusion.weights.shape == (3, 5)
    for kind in without.vectors:
        np.testing.assert_array_equal(without.vectors[kind], model.vectors[kind])
    assert data.test is not None
    vectors, D = model.encode(data.test.documents), model.vectors["encoder"].shape[1]
    np.testing.assert_array_equal(model.queries(vectors, "plain-classifier"), vectors[:, :D])
    added = model.new_labels(data.labels.take(np.arange(2)), data.test.documents.take(np.arange(2)), np.arange(2))
    assert added.per_label()["plain-classifier"].shape == (2, D)
    assert "plain-classifier" not in recipes.oak(data, **OAK, combiner="early", train_links="true").kinds


def test_a_dry_run_shows_the_plan_and_trains_no_linker(data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(Planned):
        recipes.oak(data, out=Run(tmp_path / "run", dry=True), **OAK)
    assert not (tmp_path / "run").exists()
