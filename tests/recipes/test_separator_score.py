"""A third score, by linear separators: what it finds, what is left of it in few numbers, and a run with it."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from longtail import Dataset, LongtailError, load, recipes
from longtail.data.sparse import CSR
from longtail.metrics.ranking import metrics_of
from longtail.model import Bundle, open_model
from longtail.model.explanation import explain
from longtail.model.label_set import LabelSet, NewLabel
from longtail.modules.classifiers import SEPARATED, separators_of_new_labels
from longtail.stages import separator_score
from longtail.testing.planted import Planted, planted
from longtail.train import pieces
from longtail.train.log import Log
from longtail.train.plan import Planned
from longtail.train.run import Run

SMALL: dict[str, Any] = {"width": 16, "batch": 64, "random_negatives": 32, "epochs": 2, "warmup": 5, "device": "cpu"}
SMALL |= {"separators": 24, "validation": 0.1, "memory": False}


@pytest.fixture(scope="module")
def data() -> Planted:
    return planted(0, documents=800, test_documents=200, labels=120)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, whose pieces are small, and its data."""
    folder, small = tmp_path_factory.mktemp("run"), planted(0, documents=300, test_documents=30, labels=40).dataset
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_PIECE", 1000)
        recipes.unidec(small, out=folder / "run", **SMALL)
    small.write(folder / "data")
    return folder / "run"


def data_of(run: Path) -> Dataset:
    return Dataset.read(run.parent / "data")


def first(model: Bundle, data: Planted, block: str, kind: str) -> float:
    """P@1 of a block, in percent."""
    rows, test = np.flatnonzero(data.blocks == block), data.dataset.test
    top = model.rank(test.documents.take(rows), 1, kind=kind, exclude=CSR(test.filtered[rows]))
    return metrics_of(top, CSR(test.targets[rows]), ks=(1,))["P@1"]


def test_separators_find_what_few_steps_do_not_and_the_fusion_takes_it(data: Planted) -> None:
    """Also with fewer numbers than labels; and labels that no document has do not come before those that some have."""
    usual = {**SMALL, "epochs": 1, "refit": False}
    plain, with_them = (recipes.unidec(data.dataset, **{**usual, "separators": count}) for count in (0, 64))
    assert with_them.kinds == ("encoder", "classifier", "separator", "combined", "fused")
    assert plain.kinds == ("encoder", "classifier", "combined", "fused")
    for kind in ("encoder", "classifier", "combined"):  # nothing else is different
        assert np.array_equal(*(one.rank(data.dataset.test.documents, 5, kind=kind).ids for one in (plain, with_them)))
    for block in "AB":
        assert first(with_them, data, block, "separator") > 80
        assert first(with_them, data, block, "fused") > max(90, first(plain, data, block, "fused") + 5)


def test_separators_are_those_of_labels_with_documents_enough(run: Path) -> None:
    model, data = load(run), data_of(run)
    counts = np.diff(CSR(data.train.targets.T).indptr)
    w = model.vectors["separator"]
    assert np.array_equal(w[:, :-1].any(1), counts >= SEPARATED)
    assert (counts < SEPARATED).any()
    assert not w[counts < SEPARATED].any()
    assert w[:, -1].any()
    assert abs(w[:, -1].mean()) < 1e-6


def test_of_very_many_labels_the_most_frequent_have_one(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separator_score, "_MOST", 5)
    data = data_of(run)
    w = recipes.unidec(data, **{**SMALL, "refit": False, "validation": 0.0}).vectors["separator"]
    counts = np.diff(CSR(data.train.targets.T).indptr)
    there = w.any(1)
    assert there.sum() == 5
    assert counts[there].min() >= counts[~there].max()


def test_who_ranks_after_the_refit_has_the_separators_of_all_documents(run: Path) -> None:
    model, data = load(run), data_of(run)
    alone = recipes.unidec(data, **{**SMALL, "refit": False, "validation": 0.0})
    texts, before = data.test.documents, open_model(run / "held_out", device=torch.device("cpu"))
    found, expected, other = (one.rank(texts, 40, kind="separator").scores for one in (model, alone, before))
    assert np.abs(found - expected).max() < 0.02  # which labels are solved at a time changes a little
    assert np.abs(found - other).max() > 0.1


def test_a_run_that_ends_between_pieces_goes_on_with_the_next_one(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, plain, solved = data_of(run), pieces._kept, list[Path]()
    monkeypatch.setattr(pieces, "_PIECE", 1000)
    most = 0

    def kept(place: Any, make: Any) -> CSR:
        def counted() -> CSR:
            if len(solved) == most:
                raise KeyboardInterrupt
            solved.append(place)
            return make()  # type: ignore[no-any-return]

        return plain(place, counted)

    monkeypatch.setattr(pieces, "_kept", kept)
    for most in (1, 3):  # noqa: B007  (it is read above)
        with pytest.raises(KeyboardInterrupt):
            recipes.unidec(data, out=tmp_path / "run", **SMALL)
        assert not (tmp_path / "run" / "model").exists()
    most = 1000
    recipes.unidec(data, out=tmp_path / "run", **SMALL)
    assert len(solved) == len(set(solved)) > 4  # none of them twice
    for name in ("labels.safetensors", "heads.safetensors"):
        one, other = ((place / "model" / name).read_bytes() for place in (run, tmp_path / "run"))
        assert one == other


def test_labels_come_and_go_and_are_found_by_their_examples(run: Path, tmp_path: Path) -> None:
    data, copy = data_of(run), shutil.copytree(run, tmp_path / "run")
    words = data.test.documents.fields["title"][0]
    labels = LabelSet(copy)
    examples = [{"title": words}] * SEPARATED
    labels.add([NewLabel("new", "qqqq", examples), NewLabel("few", "xxxx", examples[1:])])
    labels.remove([labels.snapshot.label(0)[1]])
    labels.refresh()
    scores = {one.uid: one.score for one in labels.model.predict([words], 100, kind="separator")[0]}
    assert scores["new"] > scores["few"] + 0.1
    assert labels.model.predict([words], 2)[0][0].uid in ("new", "few")
    before = labels.model.predict([words], 5).uids.tolist()
    labels.compact()
    labels.close()
    assert load(copy).predict([words], 5).uids.tolist() == before


def test_new_separators_are_as_long_as_the_others_and_have_their_bias() -> None:
    others = np.array([[3, 4, -1], [0, 0, 0], [0, 5, 0]], np.float32)
    seen, owners = np.array([[1, 0, 1], [3, 0, 1], [2, 0, 1], [0, 2, 1]], np.float32), np.array([0, 0, 0, 1])
    found = separators_of_new_labels(3, seen, owners, others)
    np.testing.assert_allclose(found, [[5, 0, -0.5], [0, 0, 0], [0, 0, 0]], atol=1e-6)
    assert separators_of_new_labels(2, seen, owners, others[1:2]).tolist() == [[0, 0, 0]] * 2


def test_what_a_label_scores_is_told_by_kind(run: Path) -> None:
    model, text = load(run), {"title": data_of(run).test.documents.fields["title"][0]}
    (one,) = explain(model, text, np.array([3]))
    assert {"encoder", "classifier", "separator"} <= one.scores.keys()


def test_a_dry_run_says_what_they_would_take(run: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    with pytest.raises(Planned):
        recipes.unidec(data_of(run), out=Run(log=Log(None, console), dry=True), **SMALL)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"^separators +2 times, [\d.]+ s, holds ", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"projection": 4}, "expected 0 with projection 4, found 24; leave out one of separators and projection"),
        ({"enrich": "topic"}, "expected 0 with enrich topic, found 24"),
        ({"encoder": "convolution"}, "expected 0 with encoder convolution, found 24"),
        ({"fields_apart": True, "fields": ("title", "content")}, "expected 0 with fields_apart True, found 24"),
    ],
    ids=str,
)
def test_what_is_no_bag_alone_has_none(options: dict[str, Any], told: str) -> None:
    data = Dataset.from_texts([{"title": "a", "content": "b"}, {"title": "c", "content": "d"}], [[0], [1]], ["a", "c"])
    with pytest.raises(LongtailError, match=told):
        recipes.unidec(data, **{**SMALL, **options})


def test_of_further_runs_the_last_one_alone_solves_them() -> None:
    further = recipes.unidec.options(separators=8, refit=True, refits=3).for_refit()
    assert [one["separators"] for one in further] == [0, 0, 8]
    assert [one["separators"] for one in recipes.unidec.options(refit=True).for_refit()] == [0]


def test_labels_are_looked_for_by_fewer_numbers_than_they_are_ranked_by(data: Planted) -> None:
    """A part of every score that is the same for all labels would leave no share of scores that finds the first."""
    model = recipes.unidec(data.dataset, **{**SMALL, "width": 64})
    assert model.width == 4 * 64 + 24 + 1
    assert model.narrow is not None
