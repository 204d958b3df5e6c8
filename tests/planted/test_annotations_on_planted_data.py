"""Wrong and missing labels that were planted are found by models that have not seen the documents, and by no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longtail import Dataset, load, recipes
from longtail.errors import BadInput
from longtail.metrics.annotations import doubts
from longtail.report.errors import errors_of_run
from longtail.stages import unseen as module
from longtail.stages.held_out import rows_held_out
from longtail.stages.unseen import judged, of_folds, of_held_out, why_none_held_out
from longtail.testing.planted import planted
from longtail.testing.wrong_labels import with_wrong_labels
from longtail.train.progress import settings_of

SMALL = {"epochs": 4, "batch": 64, "width": 64, "validation": 0.15, "refit": False, "device": "cpu"}
FOLDS = 3


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """A data set in which 5 % of the labels are others, and 5 % are left out; the pairs of either; a run."""
    folder = tmp_path_factory.mktemp("noisy")
    dataset = planted(0, documents=600, test_documents=100, labels=64).dataset
    made = with_wrong_labels(dataset, 0.05, seed=0)
    made.dataset.write(folder / "data")
    read = Dataset.read(folder / "data")
    recipes.unidec(read, out=folder / "run", **SMALL)
    return folder, read, {"wrong": made.wrong, "missing": made.missing}


def shares(found, kind, truth):
    """Precision and recall of the doubts about training documents."""
    pairs = {(row, label) for of, row, label in found if of == kind}
    return len(pairs & truth[kind]) / max(1, len(pairs)), len(pairs & truth[kind]) / len(truth[kind])


def listed(parts):
    places = np.concatenate([part.rows for part in parts]).tolist()
    return [(one.kind, places[one.document], one.label) for one in doubts([part.unseen for part in parts])]


@pytest.fixture(scope="module")
def folds(noisy):
    folder, dataset, _ = noisy
    return list(of_folds(recipes.unidec, settings_of(folder / "run"), dataset, FOLDS, folder / "folds"))


def test_what_is_planted_is_what_is_said(noisy):
    _, dataset, truth = noisy
    before = planted(0, documents=600, test_documents=100, labels=64).dataset.train.targets.toarray()
    after = dataset.train.targets.toarray()
    assert truth["wrong"] == set(zip(*np.nonzero(after > before), strict=True))
    assert truth["missing"] == set(zip(*np.nonzero(after < before), strict=True))
    assert len(truth["wrong"]) == pytest.approx(0.05 * before.sum(), rel=0.1)
    assert len(truth["missing"]) == pytest.approx(0.1 * before.sum(), rel=0.1)


def test_folds_find_what_was_planted(noisy, folds):
    _, dataset, truth = noisy
    assert sorted(np.concatenate([part.rows for part in folds]).tolist()) == list(range(len(dataset.train)))
    for kind, precision, recall in (("wrong", 0.8, 0.55), ("missing", 0.8, 0.55)):
        found = shares(listed(folds), kind, truth)
        assert found[0] > precision, kind
        assert found[1] > recall, kind


def test_what_models_say_of_other_documents_finds_nothing(noisy, folds):
    _, _, truth = noisy
    generator = np.random.default_rng(0)
    shuffled = []
    for part in folds:
        order = generator.permutation(len(part.rows))
        mixed = replace(part.unseen, ids=part.unseen.ids[order], chances=part.unseen.chances[order])
        shuffled.append(part._replace(unseen=mixed))
    for kind in truth:
        assert min(shares(listed(shuffled), kind, truth)) < 0.15


def test_a_model_that_has_seen_the_documents_misses_what_is_wrong(noisy, folds):
    folder, dataset, truth = noisy
    model, train = load(folder / "run", device="cpu"), dataset.train
    top = model.rank(train.documents, 100, exclude=train.filtered)
    seen = judged("train", np.arange(len(train)), train, top, train.targets)
    for kind, most in (("wrong", 0.47), ("missing", 0.65)):  # 13 of 28, and 0.61
        assert shares(listed([seen]), kind, truth)[1] < most * shares(listed(folds), kind, truth)[1]


def test_folds_that_are_there_are_not_trained_again_and_others_go_on(noisy, folds):
    folder, dataset, _ = noisy
    begun = []

    def stopping(rest, *, out, **given):
        begun.append(out.folder.name)
        if not (out.folder / "model").is_dir():
            raise KeyboardInterrupt
        return recipes.unidec(rest, out=out, **given)

    settings = settings_of(folder / "run")
    again = list(of_folds(stopping, settings, dataset, FOLDS, folder / "folds"))
    assert begun == ["1-of-3", "2-of-3", "3-of-3"]
    for one, other in zip(folds, again, strict=True):
        np.testing.assert_array_equal(one.unseen.chances, other.unseen.chances)


@pytest.mark.parametrize(
    ("folds", "change", "problem"),
    [
        (1, {}, "expected 2 to 600, one document each, found 1"),
        (601, {}, "found 601"),
        (2, {"hashes": {}}, "expected the data that the run was trained on"),
        (2, {"start": "runs/other"}, "found one that learned from runs/other, which has seen all"),
    ],
)
def test_folds_that_cannot_be_are_refused(noisy, folds, change, problem, tmp_path):
    folder, dataset, _ = noisy
    settings = settings_of(folder / "run")
    settings |= {"hashes": change["hashes"]} if "hashes" in change else {}
    settings["arguments"] |= {"start": change.get("start")}
    with pytest.raises(BadInput, match=problem):
        next(of_folds(recipes.unidec, settings, dataset, folds, tmp_path / "folds"))
    assert not (tmp_path / "folds").exists()


def test_of_a_budget_the_epochs_that_it_chose_are_trained(noisy, tmp_path):
    folder, dataset, _ = noisy
    settings, given = settings_of(folder / "run"), {}
    settings |= {"chosen": {"epochs": 3}, "arguments": settings["arguments"] | {"budget": 60.0}}

    def seen(rest, **arguments):
        given.update(arguments)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(of_folds(seen, settings, dataset, 2, tmp_path))
    assert (given["epochs"], given["budget"]) == (3, None)


def test_held_out_documents_are_asked_without_the_memory_that_has_them(noisy, monkeypatch):
    folder, dataset, _ = noisy
    settings, model = settings_of(folder / "run"), load(folder / "run", device="cpu")
    assert why_none_held_out(settings, model, None, dataset) is None
    asked = []
    rank = type(model).rank
    monkeypatch.setattr(module.Model, "rank", lambda *a, **k: asked.append(k["kind"]) or rank(*a, **k), raising=True)
    part = of_held_out(settings, model, dataset)
    assert part.rows.tolist() == rows_held_out(dataset, 0.15, 0).tolist()
    assert asked == ["fused"]
    refit = {**settings, "arguments": settings["arguments"] | {"refit": True}}
    assert why_none_held_out(refit, model, None, dataset) == "the run was trained once more on all documents"
    assert why_none_held_out(refit, model, model, dataset) is None, "what it was before can be asked"
    assert "other data" in why_none_held_out({**settings, "hashes": {}}, model, None, dataset)
    none = {**settings, "arguments": settings["arguments"] | {"validation": 0.0}}
    assert why_none_held_out(none, model, None, dataset) == "the run held no documents out"


def test_the_report_says_whom_it_judged(noisy, folds):
    folder, dataset, truth = noisy
    model = load(folder / "run", device="cpu")
    held = errors_of_run(folder / "run", model, dataset)
    assert (held.asked.train, held.asked.of, held.asked.test) == (90, 600, 100)
    every = errors_of_run(folder / "run", model, dataset, folds=FOLDS, out=folder, most=7)
    assert (every.asked.train, every.asked.of, every.asked.why) == (600, 600, "")
    rows = every.tables["annotations"]
    assert [row["doubt"] for row in rows] == ["wrong"] * 7 + ["missing"] * 7
    hits = [(row["document"], row["label"]) in truth[row["doubt"]] for row in rows if row["split"] == "train"]
    assert np.mean(hits) > 0.8
    row = rows[0]
    texts = {"train": dataset.train, "test": dataset.test}[row["split"]].documents.fields["title"]
    assert row["document_text"] == texts[row["document"]]
    assert row["label_uid"] == f"label-{row['label']}"
