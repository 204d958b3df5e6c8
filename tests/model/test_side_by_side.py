"""Two trained bags as one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from longtail import load, recipes
from longtail.model.bundle import Bundle
from longtail.model.label_set import LabelSet, NewLabel
from longtail.model.narrowing import narrowed, narrowing_of, still_narrowed
from longtail.model.reranker import Reranker
from longtail.model.side_by_side import side_by_side
from longtail.search.narrow import narrowings
from longtail.testing.planted import planted

SMALL = {"batch": 64, "random_negatives": 32, "width": 16, "warmup": 5, "epochs": 2, "ends": False, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return planted(0, documents=300, test_documents=32, labels=64).dataset


@pytest.fixture(scope="module")
def two(data):
    rest, _ = data.holdout(np.arange(0, 300, 5))
    return [recipes.unidec(part, **SMALL, validation=0.1, refit=False, seed=i) for i, part in enumerate((rest, data))]


def test_vectors_are_those_of_both(two, data):
    both, texts = side_by_side(*two), data.test.documents
    assert both.width == 2 * two[0].width
    assert len(two[0].encoder.tokenizer) < len(both.encoder.tokenizer) == len(two[1].encoder.tokenizer)
    # the twin: sums of rows of features, one text at a time, in both tables
    tables = [dict(zip(m.encoder.tokenizer.features, m.encoder.table.export(), strict=True)) for m in two]
    tokens = both.encoder.tokenizer(texts.joined(both.fields))
    for i, x in enumerate(both.encode(texts)[:8, : both.encoder.width]):
        at = slice(tokens.offsets[i], tokens.offsets[i + 1])
        names = [both.encoder.tokenizer.features[f] for f in tokens.ids[at]]
        sums = [
            sum(weight * table.get(name, np.zeros(16)) for name, weight in zip(names, tokens.weights[at], strict=True))
            for table in tables
        ]
        whole = np.concatenate(sums)
        np.testing.assert_allclose(x, whole / np.linalg.norm(whole), atol=1e-5)


def test_scores_are_nearly_the_mean_of_both(two, data):
    both, texts = side_by_side(*two), data.test.documents

    def scores(model, kind):
        scorer = model.scorer(kind)
        return scorer.queries(model.encode(texts)) @ scorer.table().T

    for kind in ("encoder", "classifier"):
        mean = (scores(two[0], kind) + scores(two[1], kind)) / 2
        found = scores(both, kind)
        assert np.corrcoef(found.ravel(), mean.ravel())[0, 1] > 0.97
        assert np.corrcoef(found.ravel(), scores(two[0], kind).ravel())[0, 1] < 0.97


def test_labels_are_looked_for_by_what_finds_them_also_where_they_have_much_in_common(two, data):
    """A direction that all texts and all labels share holds most of every score, and tells no label from another."""
    model, texts = two[1], data.train.documents
    shared = model.encode(texts)[:, model.key_columns].mean(0)
    w = model.vectors["classifier"].copy()
    w[:, : len(shared)] += 30 * shared / np.linalg.norm(shared)
    alike = replace(model, vectors={**model.vectors, "classifier": w})
    x = alike.encode(texts)
    first, found = (one.search(x, 5, kind="fused").ids for one in (alike, narrowed(alike, texts)))
    assert (first[:, :, None] == found[:, None]).any(2).mean() > 0.998
    least = alike.narrowed(next(narrowings(alike.queries(x, "fused"), alike.table("fused"))))
    missed = least.search(x, 5, kind="fused").ids
    assert (first[:, :, None] == missed[:, None]).any(2).mean() < 0.98


def test_what_is_no_bag_of_its_own_is_left(two):
    assert side_by_side(replace(two[0], linked=SimpleNamespace(width_of=int)), two[1]) is None


def test_a_narrowed_model_is_kept_and_its_labels_change_as_any(data, tmp_path):
    made = recipes.unidec(data, **SMALL, validation=0.1, refit=True, out=tmp_path / "run")
    opened = load(tmp_path / "run")
    assert made.narrow.labels.shape[1] < made.width + 1 == len(made.narrow.labels)
    texts = data.test.documents
    expected = made.rank(texts, 5)
    np.testing.assert_array_equal(opened.rank(texts, 5).ids, expected.ids)
    labels, title = LabelSet(tmp_path / "run", device="cpu"), texts.fields["title"][0]
    labels.add([NewLabel("new", title)])
    labels.refresh()
    ranked = [label.uid for label in labels.model.predict([title], 6)[0]]
    labels.close()
    assert "new" in ranked[:3]
    others = [uid for uid in ranked if uid != "new"]
    assert others[:4] == [made.labels.uids[i] for i in expected.ids[0][:4]]


def test_exact_leaves_no_label_out_and_labels_unlike_those_of_training_are_found(data, tmp_path):
    made = recipes.unidec(data, **SMALL, validation=0.1, refit=True, out=tmp_path / "run")
    texts = data.test.documents
    whole = replace(made, narrow=None)
    exact = load(tmp_path / "run", exact=True)
    assert exact.narrow is None
    for k in (1, 5, 30):
        np.testing.assert_array_equal(exact.rank(texts, k).ids, whole.rank(texts, k).ids)
    # labels whose vectors have what no label of training had are looked for by all numbers, folded in or not
    words = [word for title in texts.fields["title"] for word in title.split()]
    new = [" ".join(np.random.default_rng(i).choice(words, 3)) for i in range(120)]
    labels = LabelSet(tmp_path / "run", device="cpu", exact=True)
    labels.add([NewLabel(f"n{i}", title) for i, title in enumerate(new)])
    labels.refresh()
    expected = labels.model.rank(texts, 5).ids
    labels.compact()
    labels.close()
    folded = load(tmp_path / "run")
    found = folded.rank(texts, 5).ids
    assert (expected[:, :, None] == found[:, None]).any(2).mean() >= 0.99
    np.testing.assert_array_equal(load(tmp_path / "run", exact=True).rank(texts, 5).ids, expected)


def test_a_model_looks_by_less_after_a_compaction_only_if_that_finds_its_labels(two, data):
    model = narrowed(two[1], data.train.documents)
    assert model.narrow is not None
    whole = model.over(model.labels, model.per_label(), model.ids)
    assert whole.narrow is None
    assert still_narrowed(whole, model.narrow, 0).narrow is model.narrow
    nothing = whole.take(np.zeros(0, np.int64))  # all labels were removed
    assert still_narrowed(nothing, model.narrow, 0).narrow is None
    noise = np.random.default_rng(0).standard_normal(model.narrow.labels.shape).astype(np.float32)
    assert still_narrowed(whole, model.narrow._replace(labels=noise), 10).narrow is None


def test_a_changed_model_that_is_pushed_looks_for_labels_as_the_one_that_was_built(data, tmp_path):
    made = recipes.unidec(data, **SMALL, validation=0.1, refit=True, out=tmp_path / "run")
    labels = LabelSet(tmp_path / "run", device="cpu", exact=True)
    labels.add([NewLabel("new", data.test.documents.fields["title"][0])])
    folded = labels.folded(labels.refresh())
    labels.close()
    np.testing.assert_array_equal(folded.narrow.labels, made.narrow.labels)
    folded.save(tmp_path / "pushed")
    assert Bundle.load(tmp_path / "pushed", device=torch.device("cpu")).narrow is not None


def test_the_first_stage_of_a_reranker_is_looked_through_as_before(two, data):
    first = narrowed(two[1], data.train.documents)
    reranker = Reranker(first, SimpleNamespace(tokenizer=SimpleNamespace(room=4)), np.zeros(2), 5, {})
    assert narrowing_of(reranker) is first.narrow
    whole = reranker.over(first.labels, first.per_label(), first.ids)
    assert narrowing_of(whole) is None
    assert narrowing_of(still_narrowed(whole, first.narrow, 0)) is first.narrow
