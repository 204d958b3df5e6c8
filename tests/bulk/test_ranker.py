"""A batch keeps its rows and gets the labels that the model gives to each of them."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest

import longtail
from longtail import Ranker, load
from longtail.bulk import ranker as module
from longtail.bulk.ranker import BadRow
from longtail.errors import BadInput


def expected(model, titles, **options):
    """What the model says, text by text: uids and scores."""
    found = [model.predict([title], **options)[0] for title in titles]
    return [[label.uid for label in one] for one in found], [[label.score for label in one] for one in found]


def test_a_dict_keeps_its_columns_and_gets_labels(trained, titles):
    batch = {"title": np.array(titles, object), "number": np.arange(len(titles))}
    ranked = Ranker(trained, k=3, probabilities=True, label_texts=True, device="cpu")(batch)
    assert list(ranked) == ["title", "number", "labels", "label_texts", "scores", "probabilities"]
    assert ranked["number"] is batch["number"]
    model = load(trained, device="cpu")
    uids, scores = expected(model, titles, k=3)
    assert ranked["labels"] == uids
    np.testing.assert_allclose(ranked["scores"], scores, rtol=1e-5)
    np.testing.assert_allclose(ranked["probabilities"], model.predict(titles, 3).probabilities, rtol=1e-5)
    texts = dict(zip(model.labels.uids, model.labels.fields["title"], strict=True))
    assert ranked["label_texts"] == [[texts[uid] for uid in row] for row in uids]
    assert list(batch) == ["title", "number"], "the batch that was given is as it was"


def test_every_kind_of_batch_is_answered_alike(trained, titles):
    arrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    ranker = Ranker(trained, threshold=0.5, text="words", prefix="own_", device="cpu")
    plain = ranker({"words": titles})
    table = arrow.table({"words": titles})
    for batch in (table, table.to_batches()[0]):
        ranked = ranker(batch)
        assert type(ranked) is type(batch)
        assert ranked.schema.names == ["words", "own_labels", "own_scores"]
        assert ranked.schema.field("own_labels").type == arrow.list_(arrow.string())
        assert ranked.schema.field("own_scores").type == arrow.list_(arrow.float32())
        assert ranked.column("own_labels").to_pylist() == plain["own_labels"]
        assert ranked.column("own_scores").to_pylist() == plain["own_scores"]
    frame = pandas.DataFrame({"words": titles}, index=range(7, 7 + len(titles)))
    ranked = ranker(frame)
    assert ranked["own_labels"].tolist() == plain["own_labels"]
    assert list(ranked.index) == list(frame.index)
    assert {len(labels) for labels in plain["own_labels"]} > {0}, "a threshold gives some texts no labels"


def test_it_travels_as_its_arguments_and_copies_share_a_model(trained, titles, monkeypatch):
    opened = []
    monkeypatch.setattr(module, "load", lambda *given, **how: opened.append(given) or load(*given, **how))
    module._opened.cache_clear()
    ranker = Ranker(trained, k=2, device="cpu")
    before = ranker({"title": titles})
    packed = pickle.dumps(ranker)
    assert len(packed) < 1000
    copies = [pickle.loads(packed) for _ in range(4)]
    assert all(copy == ranker and "model" not in vars(copy) for copy in copies)
    answers = []
    threads = [threading.Thread(target=lambda copy=copy: answers.append(copy({"title": titles}))) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [before] * 4
    assert len(opened) == 1
    module._opened.cache_clear()


def test_a_copy_that_comes_after_a_change_of_labels_knows_it(run, titles):
    ranker = Ranker(run, k=1, device="cpu")
    (first,) = ranker({"title": titles[:1]})["labels"][0]
    labels = longtail.model.LabelSet(run, device="cpu")
    labels.remove([first])
    labels.close()
    assert ranker({"title": titles[:1]})["labels"] == [[first]], "one that is open stays as it is"
    assert first not in pickle.loads(pickle.dumps(ranker))({"title": titles[:1]})["labels"][0]


@pytest.mark.parametrize("null", [None, float("nan"), np.nan])
def test_a_text_that_is_null_is_an_error_or_has_no_labels(trained, titles, null):
    batch = {"title": np.array([titles[0], null, titles[1]], object)}
    with pytest.raises(
        BadRow, match=r'^row 2 of a batch: expected text in column "title", found null; write'
    ) as caught:
        Ranker(trained, device="cpu")(batch)
    assert caught.value.row == 1
    ranked = Ranker(trained, device="cpu", skip_null=True)(batch)
    assert [len(labels) for labels in ranked["labels"]] == [5, 0, 5]
    assert ranked["labels"][2] == expected(load(trained, device="cpu"), titles[1:2])[0][0]
    assert Ranker(trained, device="cpu", skip_null=True)({"title": [None]})["scores"] == [[]]


@pytest.mark.parametrize(
    ("batch", "options", "message"),
    [
        (
            {"text": ["a"]},
            {},
            'batch: there is no column "title", the columns are: text; name the one of the text with --text',
        ),
        ({"title": ["a"]}, {"content": "body"}, 'there is no column "body"'),
        ({"title": ["a"], "labels": [1]}, {}, 'no column of a name that is added, found "labels"; give a prefix'),
        ({"title": ["a", 3]}, {}, "row 2 of a batch: expected strings for title and content, found a number"),
        ({"title": ["a\0"]}, {}, "row 1 of a batch: expected text that UTF-8 can hold"),
        ({"title": ["a"]}, {"kind": "best"}, "kind: expected one of"),
        ({"title": ["a"]}, {"threshold": 2.0}, "threshold: expected a probability"),
    ],
)
def test_what_cannot_be_ranked_is_refused(trained, batch, options, message):
    with pytest.raises(BadInput, match=message):
        Ranker(trained, device="cpu", **options)(batch)


def test_bytes_that_are_no_utf_8_are_named_in_every_kind_of_batch(trained):
    arrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    raw = arrow.array([b"a", b"caf\xe9"])
    table = arrow.table({"title": arrow.StringArray.from_buffers(2, *raw.buffers()[1:])})
    frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
    said = '^row 2 of a batch: expected UTF-8 text in column "title", found byte 0xe9 at position 4; write it as UTF-8$'
    for batch in (table, table.to_batches()[0], frame):
        with pytest.raises(BadRow, match=said):
            Ranker(trained, device="cpu")(batch)


def test_an_error_comes_from_another_process_as_it_was(trained):
    with pytest.raises(BadRow) as caught:
        Ranker(trained, device="cpu")({"title": [None]})
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is BadRow
    assert (str(again), again.row, again.remedy) == (str(caught.value), 0, caught.value.remedy)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(BadInput, match="expected a trained model, found none"):
        Ranker(tmp_path)({"title": ["a"]})


def test_the_content_is_read_where_the_model_reads_it(trained):
    """A model of titles leaves it aside; one of both fields gets it, and a null one is empty."""
    ranker = Ranker(trained, device="cpu")
    batch = {"title": ["a", "b"], "content": ["c", None]}
    assert ranker.read(batch) == [{"title": "a"}, {"title": "b"}]
    vars(ranker)["model"] = replace(ranker.model, fields=("title", "content"))
    assert ranker.read(batch) == [{"title": "a", "content": "c"}, {"title": "b"}]
    assert ranker.read({"title": ["a"]}) == [{"title": "a"}]
