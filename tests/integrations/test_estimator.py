"""The estimator: the same model in every form of labels, in pipelines, searches and pickles; what it learns later."""

from __future__ import annotations

import ast
import io
import pickle
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import longtail as package
from longtail.errors import BadInput
from longtail.metrics.ranking import metrics_of
from longtail.options import options_of
from longtail.recipes import RECIPES
from longtail.sklearn import LongtailClassifier
from longtail.sklearn.targets import Targets
from longtail.stages.recipe import options_class
from longtail.testing.planted import planted
from longtail.train.log import read_log

SMALL = {"epochs": 8, "batch": 64, "width": 32, "validation": 0.2, "warmup": 10, "device": "cpu"}
DATA = planted(0, documents=400, test_documents=100, labels=40).dataset
X, Y = list(DATA.train.documents.fields["title"]), DATA.train.targets
X_TEST, Y_TEST = list(DATA.test.documents.fields["title"]), DATA.test.targets
TEXTS = list(DATA.labels.fields["title"])
NAMES = [f"l{i:02}" for i in range(40)]


def lists(matrix):
    return [[NAMES[j] for j in matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]] for i in range(matrix.shape[0])]


@pytest.fixture(scope="module")
def fitted():
    return LongtailClassifier("unidec", label_texts=TEXTS, **SMALL).fit(X, Y)


@pytest.fixture(scope="module")
def of_lists():
    return LongtailClassifier("unidec", label_texts=dict(zip(NAMES, TEXTS, strict=True)), **SMALL).fit(X, lists(Y))


def test_it_is_the_recipe(fitted):
    model = RECIPES["unidec"](package.Dataset.from_matrix(X, Y, TEXTS), **SMALL)
    expected = model.predict(X_TEST, 20)
    scores = fitted.decision_function(X_TEST)
    assert scores.shape == (100, 40)
    assert np.diff(scores.indptr).tolist() == [20] * 100
    for row in (0, 7, 99):
        np.testing.assert_array_equal(scores[[row]].toarray()[0, expected.ids[row]], expected.scores[row])
    chances = fitted.predict_proba(X_TEST)
    best = expected.ids[:, 0]
    np.testing.assert_array_equal(chances[np.arange(100), best], expected.probabilities[:, 0])
    found = metrics_of(model.rank(DATA.test.documents, 1), Y_TEST, ks=[1])["P@1"]
    assert 100 * fitted.score(X_TEST, Y_TEST) == pytest.approx(found)
    assert found > 50


def test_it_predicts_what_is_probable_enough(fitted):
    chances = fitted.predict_proba(X_TEST)
    found = fitted.predict(X_TEST)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found.toarray(), chances.toarray() >= 0.5)
    assert 0 < found.nnz < chances.nnz
    surer = clone(fitted).set_params(threshold=0.9)
    surer.__dict__.update({name: value for name, value in vars(fitted).items() if name.endswith("_") or name[0] == "_"})
    np.testing.assert_array_equal(surer.predict(X_TEST).toarray(), chances.toarray() >= 0.9)
    surer.set_params(threshold=None)
    assert np.diff(surer.predict(X_TEST).indptr).tolist() == [round(Y.nnz / len(X))] * 100


def test_every_form_of_labels_gives_the_same_in_its_own_form(fitted, of_lists):
    sparsely = fitted.predict(X_TEST)
    assert sparse.issparse(sparsely)
    assert fitted.classes_.tolist() == list(range(40))
    assert of_lists.classes_.tolist() == NAMES
    assert [sorted(row) for row in of_lists.predict(X_TEST)] == lists(sparsely)
    np.testing.assert_array_equal(
        of_lists.decision_function(X_TEST).toarray(), fitted.decision_function(X_TEST).toarray()
    )
    dense = clone(fitted).fit(X, Y.toarray())
    np.testing.assert_array_equal(dense.predict(X_TEST), sparsely.toarray())
    assert isinstance(dense.decision_function(X_TEST), np.ndarray)
    assert np.isfinite(dense.decision_function(X_TEST)).all()
    assert (dense.predict_proba(X_TEST) > 0).sum() > fitted.predict_proba(X_TEST).nnz  # of all labels, not of 20
    table = clone(of_lists).fit(pd.DataFrame({"title": X}), pd.DataFrame(Y.toarray(), columns=NAMES))
    assert table.classes_.tolist() == NAMES
    np.testing.assert_array_equal(table.predict(pd.Series(X_TEST)), sparsely.toarray())
    assert (
        fitted.score(X_TEST, Y_TEST.toarray()) == fitted.score(X_TEST, Y_TEST) == of_lists.score(X_TEST, lists(Y_TEST))
    )


def test_a_matrix_without_names_is_scored_in_the_order_of_the_classes(fitted, of_lists):
    expected = of_lists.score(X_TEST, lists(Y_TEST))
    assert expected > 0.5
    table = pd.DataFrame(Y_TEST.toarray(), columns=NAMES)
    for y in (Y_TEST, Y_TEST.toarray(), table, table[NAMES[::-1]]):
        assert of_lists.score(X_TEST, y) == expected
    for classifier in (fitted, of_lists):
        with pytest.raises(ValueError, match="y: expected a column for each of the 40 labels, found 39"):
            classifier.score(X_TEST, Y_TEST.toarray()[:, :39])


def test_one_label_a_text_is_what_a_classifier_has():
    first = [row[0] for row in lists(Y)]
    classifier = LongtailClassifier("unidec", **SMALL).fit(X, first)
    found, chances = classifier.predict(X_TEST), classifier.predict_proba(X_TEST)
    assert found.shape == (100,)
    assert set(found) <= set(first)
    np.testing.assert_array_equal(found, classifier.classes_[classifier.decision_function(X_TEST).argmax(1)])
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-6)
    assert classifier.score(X_TEST, found) == 1


def test_labels_that_are_not_ranked_are_behind_those_that_are():
    """A linear recipe ranks no label that no document has, and its scores may all be below 0."""
    y = np.pad(Y.toarray(), ((0, 0), (1, 1)))
    classifier = LongtailClassifier("dismec", validation=0.2, device="cpu").fit(X, y)
    found = classifier.model_.predict(X_TEST, 42)
    ranked = [set(row[row >= 0].tolist()) for row in found.rows]
    assert (found.scores[:, 0] < 0).any()
    assert not any(row & {0, 41} for row in ranked)
    scores = classifier.decision_function(X_TEST)
    np.testing.assert_array_equal(scores.argmax(1), found.rows[:, 0])
    for row, its in zip(ranked, scores, strict=True):
        assert max(its[[i for i in range(42) if i not in row]]) < its[list(row)].min()
    assert classifier.predict_proba(X_TEST)[:, [0, 41]].max() == 0
    assert classifier.predict(X_TEST)[:, [0, 41]].max() == 0


def test_a_label_that_no_text_has_is_known_by_its_own(of_lists):
    texts = dict(zip(NAMES, TEXTS, strict=True)) | {"zz": "zebra zoo"}
    classifier = clone(of_lists).set_params(label_texts=texts, epochs=1).fit(X, lists(Y))
    assert classifier.classes_.tolist() == [*NAMES, "zz"]
    assert classifier.model_.label(40)[1:] == ("zz", "zebra zoo")
    assert clone(of_lists).set_params(label_texts=None, epochs=1).fit(X, lists(Y)).model_.label(3)[1:] == ("l03", "l03")


def test_pipelines_and_searches():
    small = SMALL | {"validation": 0.0}
    steps = FunctionTransformer(lambda texts: [text.upper() for text in texts]), LongtailClassifier(**small)
    pipeline = make_pipeline(*steps).set_params(longtailclassifier__label_texts=TEXTS, longtailclassifier__width=16)
    assert pipeline.fit(X, Y).score(X_TEST, Y_TEST) > 0.4
    assert steps[1].get_params()["width"] == 16
    search = GridSearchCV(LongtailClassifier(label_texts=TEXTS, **small), {"epochs": [1, 6]}, cv=2)
    search.fit(X, Y)
    assert search.best_params_ == {"epochs": 6}
    assert search.score(X_TEST, Y_TEST) > 0.5
    scores = cross_val_score(LongtailClassifier(**small | {"epochs": 1}), X, lists(Y), cv=KFold(2))
    assert np.isfinite(scores).all()


def test_a_copy_has_the_same_arguments_and_nothing_that_was_learned(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() == {
        "recipe": "unidec", "label_texts": TEXTS, "k": 20, "threshold": 0.5, "out": None, "verbose": False, **SMALL
    }  # fmt: skip
    with pytest.raises(NotFittedError):
        copy.predict(X_TEST)
    assert "epochs=8" in repr(copy)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
def test_an_array_of_labels_is_no_indicator_and_its_list_form_is_labels(dtype):
    assert Targets.read(np.array([[0, 1], [1, 1]], dtype), 2).matrix.toarray().tolist() == [[0, 1], [1, 1]]
    named = np.array([[3, 7], [7, 1]])
    found = Targets.read(named.tolist(), 2)
    assert (found.form, found.classes) == ("lists", [1, 3, 7])


@pytest.mark.parametrize("name", ["fit", "predict_proba", "model_", "_form", "__class__"])
def test_what_is_no_argument_is_not_set(fitted, name):
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match=f"{name}: expected an argument .* found neither; get_params"):
        fitted.set_params(**{name: 3})
    assert vars(fitted) == before
    with pytest.raises(ValueError, match=f"{name}: expected an argument"):
        LongtailClassifier(**{name: 3})


def test_what_is_dumped_holds_the_model_itself(of_lists, tmp_path):
    joblib.dump(of_lists, tmp_path / "classifier.joblib")
    found = joblib.load(tmp_path / "classifier.joblib")
    assert found.predict(X_TEST) == of_lists.predict(X_TEST)
    np.testing.assert_array_equal(found.predict_proba(X_TEST).toarray(), of_lists.predict_proba(X_TEST).toarray())
    again = found.partial_fit(["zebra"], [["zz"]])
    assert again.classes_[-1] == "zz"
    assert of_lists.classes_[-1] == NAMES[-1]
    assert pickle.loads(pickle.dumps(again)).partial_fit(["zebra zoo"], [["zz"]]).model_.fusion.frequency[-1] == 2


def test_what_is_dumped_and_broken_is_refused(of_lists):
    stream = io.BytesIO()
    joblib.dump(of_lists, stream)
    content = stream.getvalue()
    at = content.rindex(b'"title"')
    with pytest.raises(BadInput, match="copy the model folder again"):
        joblib.load(io.BytesIO(content[:at] + b'"tilte"' + content[at + 7 :]))


def test_it_learns_labels_and_examples_later(of_lists):
    words = TEXTS[0].split()
    new = f"{words[0]} {words[1]} {TEXTS[1].split()[0]}"
    later = clone(of_lists).partial_fit(X, lists(Y))  # the first call trains
    before = later.decision_function(X_TEST)
    later.partial_fit([new, new], [["zz"], ["zz", "l07"]], label_texts={"zz": "zebra zoo"})
    assert later.classes_.tolist() == [*NAMES, "zz"]
    assert later.model_.label(40)[1:] == ("zz", "zebra zoo")
    assert later.predict([new])[0][0] == "zz" or later.decision_function([new]).toarray().argmax() == 40
    after = later.decision_function(X_TEST)
    rows, columns = np.intersect1d(before.nonzero()[0], after.nonzero()[0])[:5], np.arange(40)
    there = (before[rows].toarray() != 0) & (after[rows].toarray()[:, columns] != 0)
    np.testing.assert_allclose(after[rows].toarray()[:, columns][there], before[rows].toarray()[there], rtol=1e-5)


def test_an_indicator_may_have_more_columns_later(fitted):
    wider = clone(fitted).set_params(epochs=1).fit(X, Y)
    wider.partial_fit(["zebra"], np.eye(42, dtype=int)[[41]], label_texts=["a new one", "another"])
    assert wider.classes_.tolist() == list(range(42))
    assert wider.model_.label(41)[2] == "another"
    assert wider.predict(X_TEST).shape == (100, 42)
    with pytest.raises(ValueError, match="expected at least the 42 columns"):
        wider.partial_fit(["zebra"], np.eye(40, dtype=int)[[3]])


@pytest.mark.parametrize(
    ("made", "texts", "labels", "said"),
    [
        ({"recipe": "unidek"}, X, Y, "recipe: expected one of unidec, .*, found unidek"),
        ({"epoch": 3}, X, Y, "unidec: has no option epoch; did you mean epochs?"),
        ({"epochs": -3}, X, Y, "epochs: expected at least 0, found -3"),
        ({"label_texts": TEXTS[1:]}, X, Y, "label_texts: expected a text for each of 40 labels, found 39"),
        ({"label_texts": {"l00": "x"}}, X, Y, "label_texts: expected columns of y, found 'l00'"),
        ({"label_texts": TEXTS}, X, lists(Y), "label_texts: expected a dict of texts by label, found list"),
        ({}, X[1:], Y, "y: expected the labels of 399 documents, found those of 400"),
        ({}, X, None, "y: requires y to be passed, but the target y is None"),
        ({}, X[:3], [["a"], "b", ["c"]], "y: expected labels, or lists of labels, found both, or neither"),
        ({}, X[:3], [["a"], [2], []], "y: expected labels that are all strings or all numbers, found int, str"),
        ({}, X[:3], [[], [], []], "y: no document has a label"),
        (
            {},
            X[:2],
            np.array([[3, 7], [7, 1]]),
            r"y: expected 0 or 1 for each of 2 documents x 2 labels, found 3 at \(0, ",
        ),
        (
            {},
            X[:2],
            np.array([[0, 1], [0.5, 1]]),
            r"found 0.5 at \(1, 0\); of rows that are labels .* make lists, as y.to",
        ),
        ({}, X[:2], np.array([[0, np.nan], [1, 1]]), r"y: expected 0 or 1 .* found nan at \(0, 1\)"),
        ({}, X[:2], np.array([["a", "b"], ["b", "1"]]), r"y: expected 0 or 1 .* found a at \(0, 0\)"),
        ({}, X[:2], pd.DataFrame([[0, 2], [1, 1]]), r"y: expected 0 or 1 .* found 2 at \(0, 1\)"),
        (
            {},
            X[:2],
            pd.DataFrame([[0, 1], [1, 1]], columns=["a", "a"]),
            "y: expected a column .* several named 'a'; give",
        ),
        ({}, "one text", [["a"]], "X: expected several texts, found one"),
        ({}, ["3", 4], [["a"], ["b"]], "X: expected a string or a dict of strings with a title, found '4' at 1"),
        ({}, pd.DataFrame({"text": X}), Y, "X: expected a string or a dict of strings with a title"),
    ],
)
def test_what_is_wrong_is_one_line_that_is_a_value_error_too(made, texts, labels, said):
    with pytest.raises(ValueError, match=said) as refused:
        LongtailClassifier(**made).fit(texts, labels)
    assert isinstance(refused.value, BadInput)
    assert "\n" not in str(refused.value)


def test_a_run_folder_is_taken_once_and_progress_is_shown_if_asked_for(tmp_path, capsys):
    small = {"epochs": 1, "width": 16, "device": "cpu", "verbose": True}
    classifier = LongtailClassifier("dpr", out=tmp_path / "run", **small).fit(X, Y)
    assert "epoch 1 of 1" in capsys.readouterr().out
    assert [line["epoch"] for line in read_log(tmp_path / "run" / "metrics.jsonl") if "epoch" in line] == [1]
    assert package.load(tmp_path / "run").predict(X_TEST[:1], 1).rows[0, 0] == classifier._ranked(X_TEST[:1]).rows[0, 0]
    assert not hasattr(classifier, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        classifier.predict_proba(X_TEST)
    with pytest.raises(ValueError, match="expected a new folder, found a run"):
        classifier.fit(X, Y)


def test_no_option_of_a_recipe_hides_a_method_or_an_argument():
    taken = {name for name in dir(LongtailClassifier) if name[0] != "_"} | LongtailClassifier().get_params().keys()
    for recipe in RECIPES.values():
        assert taken & set(options_of(options_class(recipe))) == set()


def test_no_other_file_imports_scikit_learn():
    root = Path(package.__file__).parent
    for path in root.rglob("*.py"):
        names = [
            name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
        ]
        is_ours = path.parent.name == "sklearn"
        assert is_ours or not [name for name in names if name.split(".")[0] == "sklearn" or "longtail.sklearn" in name]


def test_without_scikit_learn_it_says_what_to_install():
    program = "import sys; sys.modules['sklearn'] = None; import longtail.sklearn"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "needs the package scikit-learn; pip install 'longtail[scikit-learn]'" in done.stderr
