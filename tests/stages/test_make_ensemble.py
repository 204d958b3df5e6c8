"""Two runs as one model: what each knows is in it, and only runs that held out the same documents make one."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import Dataset, LongtailError, load, recipes
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Strings, Texts
from longtail.metrics.ranking import metrics_of
from longtail.stages.held_out import held_out_by, rows_held_out
from longtail.stages.make_ensemble import ensemble
from longtail.train.progress import settings_of

KINDS = 12  # of labels that a title tells, and of those that a content tells
OPTIONS = {"epochs": 12, "batch": 32, "width": 32, "warmup": 10, "validation": 0.2, "refit": False, "device": "cpu"}


def two_columns(documents, seed):
    """Documents of which the title tells one label, and the content another."""
    rng = np.random.default_rng(seed)
    told, also = rng.integers(KINDS, size=(2, documents))
    noise = rng.integers(40, size=(2, documents))
    columns = {
        "title": Strings.of(f"title{i} noise{n}" for i, n in zip(told, noise[0], strict=True)),
        "content": Strings.of(f"content{i} noise{n}" for i, n in zip(also, noise[1], strict=True)),
    }
    targets = csr_of_lists([[i, KINDS + j] for i, j in zip(told.tolist(), also.tolist(), strict=True)], 2 * KINDS)
    return Split(Texts(Strings.of([""] * documents), columns), targets)


@pytest.fixture(scope="module")
def data():
    names = [f"title{i}" for i in range(KINDS)] + [f"content{i}" for i in range(KINDS)]
    columns = {"title": Strings.of(names), "content": Strings.of(names)}
    labels = Texts(Strings.of(map(str, range(2 * KINDS))), columns)
    return Dataset("columns", two_columns(600, 0), labels, two_columns(200, 1))


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """A run that reads titles, and one that reads contents."""
    folder = tmp_path_factory.mktemp("runs")
    for name, recipe in (("title", recipes.unidec), ("content", recipes.ngame)):
        recipe(data, out=folder / name, fields=(name,), **OPTIONS)
    return folder


def test_an_ensemble_knows_what_either_knows(data, runs, tmp_path):
    both = ensemble(runs / "title", runs / "content", data, out=tmp_path / "both", device="cpu")
    assert both.kinds == ("first", "second", "fused")
    assert both.fields == ("title", "content")
    found = {
        kind: metrics_of(both.rank(data.test.documents, 2, kind=kind), data.test.targets, ks=[2]) for kind in both.kinds
    }
    assert found["first"]["P@2"] < 65
    assert found["second"]["P@2"] < 65
    assert found["fused"]["P@2"] > 95
    opened = load(tmp_path / "both", device="cpu")
    for kind in both.kinds:
        before, after = (model.rank(data.test.documents, 3, kind=kind) for model in (both, opened))
        np.testing.assert_array_equal(before.ids, after.ids)
        np.testing.assert_array_equal(before.scores, after.scores)


def test_the_runs_stay_as_they_are_and_may_go(data, runs, tmp_path):
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    ensemble(runs / "title", runs / "content", data, out=tmp_path / "both", device="cpu")
    assert before == {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    assert not any(path.is_symlink() for path in (tmp_path / "both").rglob("*"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"seed": 1}, "expected validation 0.2 and seed 0, those of .*title, found validation 0.2 and seed 1"),
        ({"validation": 0.1}, "expected validation 0.2 and seed 0, those of .*title, found validation 0.1 and seed 0"),
        ({"validation": 0}, "expected a model that has learned a fusion .* found one that ranks by encoder or"),
    ],
)
def test_runs_that_held_out_other_documents_are_refused(data, runs, tmp_path, options, problem):
    recipes.ngame(data, out=tmp_path / "other", **OPTIONS | {"epochs": 1, **options})
    with pytest.raises(LongtailError, match=problem):
        ensemble(runs / "title", tmp_path / "other", data, out=tmp_path / "both", device="cpu")
    assert not (tmp_path / "both").exists()


def test_documents_that_both_held_out_weigh_runs_that_held_out_different_shares(tmp_path):
    """Above 10,000 documents a larger share has those of a smaller one, whichever run comes first."""
    columns = {"title": Strings.of([f"title{i}" for i in range(KINDS)] + [f"content{i}" for i in range(KINDS)])}
    labels = Texts(Strings.of(map(str, range(2 * KINDS))), columns)
    many = Dataset("many", two_columns(10_100, 0), labels, two_columns(50, 1))
    few = OPTIONS | {"epochs": 1, "width": 8, "batch": 512, "memory": False}
    for share in (0.04, 0.1):
        recipes.unidec(many, out=tmp_path / f"{share}", **few | {"validation": share})
    small, large = (rows_held_out(many, share, 0) for share in (0.04, 0.1))
    assert np.isin(small, large).all()
    assert held_out_by(many, 0.04, 0, other=(0.1, 0))
    assert not held_out_by(many, 0.1, 0, other=(0.04, 0))
    for first, second in ((0.04, 0.1), (0.1, 0.04)):
        out = tmp_path / f"{first}-{second}"
        ensemble(tmp_path / f"{first}", tmp_path / f"{second}", many, out=out, device="cpu")
        assert settings_of(out)["arguments"]["validation"] == 0.04
    recipes.unidec(many, start=str(tmp_path / "0.1"), **few | {"validation": 0.04})
    with pytest.raises(LongtailError, match=r"expected a run that held out the same documents .validation 0.1 and"):
        recipes.unidec(many, start=str(tmp_path / "0.04"), **few | {"validation": 0.1})


def test_a_run_that_holds_nothing_out_is_refused(data, tmp_path):
    few = {name: value for name, value in OPTIONS.items() if name not in ("validation", "refit")} | {"epochs": 1}
    recipes.dpr(data, out=tmp_path / "one", validation=0.0, **few)
    with pytest.raises(
        LongtailError, match=r"one: expected a model that has learned a fusion .* found one that ranks by encoder"
    ):
        ensemble(tmp_path / "one", tmp_path / "one", data, out=tmp_path / "both", device="cpu")
    assert not (tmp_path / "both").exists()


def test_a_run_of_other_data_is_refused(data, runs, tmp_path):
    other = Dataset("other", two_columns(100, 5), data.labels)
    with pytest.raises(LongtailError, match="expected a run of other, found one of other data"):
        ensemble(runs / "title", runs / "content", other, out=tmp_path / "both", device="cpu")
