"""What a model is asked from Python, and what it answers: texts of every kind in, lists and arrays out."""

from __future__ import annotations

import numpy as np
import pytest

from longtail import Dataset, Prediction, Predictions, recipes
from longtail.errors import BadInput
from longtail.model import base

TITLES = ["red shoes", "oak table", "grey hat"]
CONTENTS = ["for running", "for the kitchen", "for the winter"]


@pytest.fixture(scope="module")
def model():
    data = Dataset.from_texts(TITLES, [[0], [1], [2]], ["footwear shoes", "furniture table", "headwear hat"])
    return recipes.dpr(data, epochs=2, fields=("title", "content"), device="cpu")


def test_titles_dicts_and_streams_are_all_texts(model):
    expected = model.predict(TITLES, k=2)
    assert [row[0].text for row in expected] == ["footwear shoes", "furniture table", "headwear hat"]
    assert isinstance(expected[0][0], Prediction)
    assert model.predict([{"title": title} for title in TITLES], k=2) == expected
    assert (
        model.predict([TITLES[0], {"title": TITLES[1], "uid": 7}, {"title": TITLES[2], "content": ""}], k=2) == expected
    )
    assert model.predict((title for title in TITLES), k=2) == expected
    assert model.predict(np.array(TITLES), k=2) == expected
    read = [{"title": title, "content": content} for title, content in zip(TITLES, CONTENTS, strict=True)]
    joined = [f"{title} {content}" for title, content in zip(TITLES, CONTENTS, strict=True)]
    assert model.predict(read, k=2) == model.predict(joined, k=2)
    assert model.predict([{"content": title} for title in TITLES], k=2) == expected


def test_results_are_lists_and_arrays(model):
    found = model.predict(TITLES, k=5)
    assert isinstance(found, Predictions)
    assert (found.ids.shape, found.ids.dtype, found.scores.shape, found.scores.dtype) == (
        (3, 5),
        int,
        (3, 5),
        "float32",
    )
    assert (found.ids[:, 3:] == -1).all()
    assert np.isneginf(found.scores[:, 3:]).all()
    assert (found.uids[:, 3:] == "").all()
    assert [[label.id for label in row] for row in found] == found.ids[:, :3].tolist()
    assert [[label.uid for label in row] for row in found] == found.uids[:, :3].tolist()
    assert [[label.score for label in row] for row in found] == found.scores[:, :3].tolist()
    assert len(found) == 3
    assert found[1:] == list(found)[1:]
    nothing = model.predict([], k=4)
    assert nothing == []
    assert nothing.ids.shape == nothing.uids.shape == nothing.scores.shape == (0, 4)


def test_a_stream_is_read_as_it_is_answered(model, monkeypatch):
    monkeypatch.setattr(base, "_BLOCK", 2)
    taken = []
    blocks = model.stream((taken.append(i) or TITLES[i % 3] for i in range(1_000_000_000)), k=1)
    assert taken == []
    assert next(blocks) == model.predict(TITLES[:2], k=1)
    assert taken == [0, 1]
    assert next(blocks).ids.tolist() == [[2], [0]]
    assert taken == [0, 1, 2, 3]
    assert model.predict(iter(TITLES), k=1).ids.tolist() == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "texts: expected several texts, found one; put it into a list"),
        ({"title": "x"}, "texts: expected several texts, found one"),
        (["x", 5], "text 1: expected a text or an object with a title, found a number"),
        ([None], "text 0: expected a text or an object with a title, found null"),
        ([["x"]], "text 0: expected a text or an object with a title, found a list"),
        ([{"title": 5}], "text 0: expected strings for title and content, found a number for title"),
        ([{"title": "x", "content": None}], "found null for content"),
        ([{"text": "x"}], "text 0: expected an object with a title, found one with text"),
    ],
)
def test_what_is_no_text_is_refused_in_a_line(model, texts, message):
    with pytest.raises(BadInput) as caught:
        model.predict(texts)
    assert message in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_score_kind_that_is_not_there_is_refused(model):
    with pytest.raises(BadInput, match="kind: expected one of encoder, found best"):
        model.predict(TITLES, kind="best")


@pytest.mark.parametrize("text", ["a\ud800", {"title": "a", "content": "\0"}])
def test_a_text_that_utf8_cannot_hold_is_refused(model, text):
    with pytest.raises(BadInput, match="text 1: expected text that UTF-8 can hold, without NUL; take out"):
        model.predict(["a", text])
