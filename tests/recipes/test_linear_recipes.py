"""Linear recipes: what they find, what that takes, and a run of theirs from its plan to a model that answers."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pytest
from rich.console import Console
from scipy import sparse

from longtail import LongtailError, load, recipes
from longtail.data.filters import apart
from longtail.data.sparse import CSR
from longtail.metrics.ranking import metrics_of
from longtail.model.explanation import explain
from longtail.model.label_set import LabelSet, NewLabel
from longtail.model.linear import Linear
from longtail.search import label_trees
from longtail.search.label_trees import LabelTree, LabelTrees
from longtail.serve.answers import Predict, answers
from longtail.stages.make_ensemble import ensemble
from longtail.testing.planted import planted
from longtail.topk import IntArray, TopK
from longtail.train import pieces
from longtail.train.log import Log
from longtail.train.plan import Planned
from longtail.train.run import Run

LINEAR = {"dismec": {}, "parabel": {"leaf": 20}, "bonsai": {"leaf": 40, "branching": 10, "trees": 2}}
every = pytest.mark.parametrize("recipe", LINEAR)


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=800, test_documents=200, labels=120)


@pytest.fixture(scope="module")
def models(data):
    return {name: recipes.RECIPES[name](data.dataset, **options) for name, options in LINEAR.items()}


def precision(model: Linear, data) -> dict[str, float]:
    """P@1 of each block."""
    test = data.dataset.test
    top = model.rank(test.documents, 1, exclude=test.filtered)
    blocks = {block: np.flatnonzero(data.blocks == block) for block in "ABC"}
    return {
        block: metrics_of(TopK(top.ids[rows], top.scores[rows]), test.targets[rows], ks=[1])["P@1"]
        for block, rows in blocks.items()
    }


@every
def test_labels_are_found_by_their_examples(recipe, data, models):
    found = precision(models[recipe], data)
    assert found["A"] > 95
    assert found["B"] > 95
    assert found["C"] == 0  # a label without a document has no separator


def test_that_takes_errors_that_cost_something(data):
    assert precision(recipes.dismec(data.dataset, cost=1e-3), data)["A"] < 20


@pytest.mark.parametrize("recipe", ["parabel", "bonsai"])
def test_that_takes_the_nodes_above_a_label(recipe, data, models, monkeypatch):
    """One path is enough where each node has its own separator, and not where it has that of another."""
    monkeypatch.setattr(label_trees, "_WHOLE", 0)
    model = models[recipe]

    def with_nodes_of(tree: LabelTree, others: IntArray) -> LabelTree:
        return LabelTree(tree.parents, CSR(tree.nodes[others]), tree.leaves, tree.labels)

    def over(trees: list[LabelTree]) -> Linear:
        return Linear("one path", model.tokenizer, model.fields, model.labels, LabelTrees(trees, 1), model.counts)

    wrong = [with_nodes_of(tree, np.r_[0, np.arange(len(tree.parents) - 1, 0, -1)]) for tree in model.trees.trees]
    assert precision(over([*model.trees.trees]), data)["A"] > 90
    assert precision(over(wrong), data)["A"] < 50


PINNED = {
    "dismec": [0.803665, 1.077645, 0.688903, -0.814364, 0.833683, 0.567798, 0.817108, 1.055043, 0.757983, 0.808988],
    "parabel": [0.929964, 0.977994, 0.858931, 0.002767, 0.930733, 0.59144, 0.948495, 0.96958, 0.874858, 0.901996],
    "bonsai": [0.945404, 0.993237, 0.86557, 0.004188, 0.966671, 0.733106, 0.945718, 0.969078, 0.907923, 0.928123],
}


@every
def test_pinned_scores(recipe, data, models):
    top = models[recipe].rank(data.dataset.test.documents.take(np.arange(10)), 1)
    np.testing.assert_allclose(top.scores.ravel(), PINNED[recipe], atol=1e-2)  # a solver ends when it is near enough


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run of each recipe, whose pieces are small."""
    folder, small = tmp_path_factory.mktemp("linear"), planted(0, documents=200, test_documents=30, labels=40).dataset
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_PIECE", 1000)
        for name in LINEAR:
            recipes.RECIPES[name](small, out=folder / name, **more_of(name))
    return folder, small


def more_of(recipe: str) -> dict[str, object]:
    options = LINEAR[recipe]
    return {**options, "validation": 0.2, "leaf": 8} if "leaf" in options else {"validation": 0.2}


@every
def test_a_run_that_ends_between_pieces_goes_on_with_the_next_one(recipe, runs, tmp_path, monkeypatch):
    folder, small = runs
    monkeypatch.setattr(pieces, "_PIECE", 1000)
    plain, solved = pieces._kept, []

    def dies_after(most: int) -> None:
        def kept(place, make):
            def counted() -> CSR:
                if len(solved) == most:
                    raise KeyboardInterrupt
                solved.append(place.name)
                return make()

            return plain(place, counted)

        monkeypatch.setattr(pieces, "_kept", kept)

    for most in (2, 4, 1000):
        dies_after(most)
        if most < 1000:
            with pytest.raises(KeyboardInterrupt):
                recipes.RECIPES[recipe](small, out=tmp_path / "run", **more_of(recipe))
            assert not (tmp_path / "run" / "model").exists()
        else:
            recipes.RECIPES[recipe](small, out=tmp_path / "run", **more_of(recipe))
    names = [path.relative_to(folder / recipe) for path in (folder / recipe / "stages").rglob("*.npy")]
    assert len(solved) == len({name.parent for name in names})  # none of them twice
    for name in ["trees.safetensors", "calibration.safetensors"]:
        one, other = ((place / "model" / name).read_bytes() for place in (folder / recipe, tmp_path / "run"))
        assert one == other


@every
def test_python_and_the_server_answer_alike_with_probabilities(recipe, runs):
    folder, small = runs
    texts = [{"title": text} for text in small.test.documents.fields["title"]][:8]
    model = load(folder / recipe)
    (found,) = answers(LabelSet(folder / recipe).snapshot, [Predict(texts, 3, probabilities=True)])
    for row, labels in zip(model.predict(texts, 3), found.labels, strict=True):
        assert [label.id for label in row] == [label["id"] for label in labels]
        np.testing.assert_allclose([label.score for label in row], [label["score"] for label in labels], rtol=1e-5)
        assert all(0 <= label["probability"] <= 1 for label in labels)


@every
def test_words_of_a_text_and_some_labels_alone(recipe, runs):
    folder, small = runs
    model, test = load(folder / recipe), small.test
    row = int(np.argmax(np.diff(test.targets.indptr)))
    text = {"title": test.documents.fields["title"][row]}
    top = model.rank(test.documents.take(np.array([row])), 3)
    told = explain(model, text, top.ids[0])
    np.testing.assert_allclose([one.scores["classifier"] for one in told], top.scores[0], rtol=1e-5)
    assert max(weight for _, weight in told[0].words) > 0  # a word without which the label loses
    among = model.among(top.ids[0][::-1].copy()).search(model.encode(test.documents.take(np.array([row]))), 3)
    assert top.ids[0][::-1][among.ids[0]].tolist() == top.ids[0].tolist()


@every
def test_labels_come_and_go_and_are_folded_in(recipe, runs, tmp_path):
    folder, small = runs
    run = shutil.copytree(folder / recipe, tmp_path / "run")
    words = small.train.documents.fields["title"][0]
    labels = LabelSet(run)
    labels.add([NewLabel("new", words, [{"title": words}]), NewLabel("unknown", "qqqq xxxx")])
    labels.remove([labels.snapshot.label(0)[1]])
    labels.refresh()
    before = labels.model.predict([words], 5).uids.tolist()
    assert "new" in before[0]
    assert "unknown" not in labels.model.predict([words], 80).uids[0]
    labels.compact()
    labels.close()
    after = load(run)
    assert after.predict([words], 5).uids.tolist() == before
    assert isinstance(after, Linear)
    assert len(after.labels) == len(small.labels) + 1


@every
def test_a_dry_run_says_what_it_would_take(recipe, runs):
    console = Console(file=io.StringIO(), width=200)
    with pytest.raises(Planned):
        recipes.RECIPES[recipe](runs[1], out=Run(log=Log(None, console), dry=True), **more_of(recipe))
    said = console.file.getvalue()
    stages = {"dismec": ["separators"], "parabel": ["tree 1", "tree 2", "tree 3"], "bonsai": ["tree 1", "tree 2"]}
    assert all(name in said for name in (*stages[recipe], "peak memory", "disk", "in all"))


def test_the_trees_of_an_ensemble_differ(models):
    first, second, _ = (tree.leaves for tree in models["parabel"].trees.trees)
    assert (first != second).any()


def test_what_there_is_no_encoder_for_is_refused(runs, tmp_path):
    folder, small = runs
    with pytest.raises(LongtailError, match="expected a model with an encoder, found one of dismec, which has none"):
        recipes.dpr(small, out=tmp_path / "x", start=str(folder / "dismec"), epochs=1, width=8)
    with pytest.raises(LongtailError, match="expected a model that has learned a fusion"):
        ensemble(folder / "dismec", folder / "parabel", small)
    with pytest.raises(LongtailError, match="expected a score with label vectors, found classifier alone"):
        load(folder / "bonsai").table()
    with pytest.raises(LongtailError, match=r"^branching: expected 2 with balanced, found 3"):
        recipes.parabel(small, out=tmp_path / "y", branching=3)
    with pytest.raises(LongtailError, match=r"^shards: expected 1 for dismec, .*found 2"):
        recipes.dismec(small, shards=2)
    with pytest.raises(LongtailError, match="dismec: has no option epochs"):
        recipes.dismec(small, epochs=3)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("recipe", "share"), [("dismec", 0.95), ("parabel", 0.85)])  # whose trees are drawn
def test_napkinxc_finds_the_same_on_the_same_features(recipe, share, data, models, tmp_path):
    """Its own solver, LIBLINEAR's dual coordinate descent, and its own trees."""
    napkinxc = pytest.importorskip("napkinxc.models")
    model, train, test = models[recipe], data.dataset.train, data.dataset.test
    x, z = (sparse.csr_matrix(model.encode(one.documents)[:, :-1]) for one in (train, test))
    known = apart(train.targets, train.filtered)
    settings = {"loss": "l2", "liblinear_c": 1.0, "liblinear_eps": 0.01, "threads": 1, "seed": 0, "verbose": False}
    own = {"weights_threshold": 0.01} if recipe == "dismec" else {"max_leaves": 20, "ensemble": 3}
    peer = {"dismec": napkinxc.OVR, "parabel": napkinxc.PLT}[recipe](str(tmp_path / "peer"), **settings, **own)
    peer.fit(x, [row.tolist() for row in np.split(known.indices, known.indptr[1:-1])])
    found = np.array([row[0][0] for row in peer.predict_proba(z, top_k=1)])
    ours = model.rank(test.documents, 1).ids[:, 0]
    assert (found == ours)[data.blocks != "C"].mean() > share
