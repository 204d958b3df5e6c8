"""A bundle whose label set changes: labels it was not trained with, some of its labels, and two sets as one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail import Dataset, LongtailError
from longtail.data.texts import Texts
from longtail.recipes import RECIPES

DOCUMENTS = ["red shoes", "oak table", "blue shoes", "pine table", "green hat", "grey hat"]
LABELS = ["footwear shoes", "furniture table", "headwear hat"]
NONE = np.zeros(0, np.int64)


@pytest.fixture(
    params=[("dpr", {}), ("ngame", {"validation": 0.34}), ("unidec", {"validation": 0.34})], ids=lambda param: param[0]
)
def trained(request):
    name, options = request.param
    data = Dataset.from_texts(DOCUMENTS, [[0], [1], [0], [1], [2], [2]], LABELS)
    return RECIPES[name](data, epochs=2, device="cpu", **options)


def scores(bundle, text, kind):
    """The score of every label of a text."""
    top = bundle.rank(Texts.of([text]), len(bundle.labels), kind=kind)
    return top.scores[0, np.argsort(top.ids[0])]


def test_queries_times_table_are_the_scores(trained):
    vectors = trained.encode(Texts.of(DOCUMENTS))
    for kind in trained.kinds:
        product = trained.queries(vectors, kind) @ trained.table(kind).T
        found = np.stack([scores(trained, text, kind) for text in DOCUMENTS])
        np.testing.assert_allclose(found, product, atol=1e-5)
    with pytest.raises(LongtailError, match="kind: expected one of"):
        trained.table("best")


def test_some_labels_and_then_the_others_score_as_before(trained):
    order = np.array([2, 0, 1])
    moved = trained.take(order[:1]).followed_by(trained.take(order[1:]))
    assert list(moved.labels.fields["title"]) == [LABELS[i] for i in order]
    for kind in trained.kinds:
        np.testing.assert_allclose(
            scores(moved, "red table", kind), scores(trained, "red table", kind)[order], atol=1e-6
        )


def test_a_new_label_without_examples_is_its_text(trained):
    new = trained.new_labels(Texts.of(["table of oak", "hat"], uids=["t", "h"]), Texts.of([]), NONE)
    assert list(new.labels.uids) == ["t", "h"]
    assert new.kinds == trained.kinds
    for vectors in new.vectors.values():
        text = trained.queries(trained.encode(new.labels), "encoder")
        np.testing.assert_allclose(vectors[:, : text.shape[1]], text, atol=1e-6)
        assert not vectors[:, text.shape[1] :].any()
    assert new.predict(["oak table"], k=1)[0][0].uid == "t"


def test_examples_draw_a_new_label_to_them(trained):
    labels = Texts.of(["something else", "another thing"], uids=["a", "b"])
    new = trained.new_labels(labels, Texts.of(["blue shoes", "pine table"]), np.array([1, 1]))
    plain = trained.new_labels(labels, Texts.of([]), NONE)
    for kind in set(trained.kinds) & {"classifier"}:
        gain = scores(new, "blue shoes", kind) - scores(plain, "blue shoes", kind)
        assert gain[0] == pytest.approx(0, abs=1e-6)
        assert gain[1] > 0.1
    np.testing.assert_array_equal(new.vectors["encoder"], plain.vectors["encoder"])
    if new.fusion is not None:
        assert new.fusion.frequency.tolist() == [0, 2]


def test_a_model_of_new_labels_is_saved_and_opened(trained, tmp_path):
    grown = trained.followed_by(trained.new_labels(Texts.of(["desk table"], uids=["d"]), Texts.of([]), NONE))
    grown.save(tmp_path / "model")
    opened = type(grown).load(tmp_path / "model", device=torch.device("cpu"))
    assert opened.predict(["pine table", "hat"], k=4) == grown.predict(["pine table", "hat"], k=4)


@pytest.mark.parametrize("part", ["labels.safetensors", "labels.jsonl", "encoder/bag.safetensors"])
def test_a_model_that_was_changed_on_the_disk_is_refused(trained, tmp_path, part):
    trained.save(tmp_path / "model")
    path = tmp_path / "model" / part
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(LongtailError, match=f"{part}: expected SHA-256"):
        type(trained).load(tmp_path / "model", device=torch.device("cpu"))
    path.unlink()
    with pytest.raises(LongtailError, match="found no such file"):
        type(trained).load(tmp_path / "model", device=torch.device("cpu"))
