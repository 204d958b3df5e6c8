"""Texts of many scripts, all the way: tokens, the filter by equal texts, a model, its server and its page."""

from __future__ import annotations

from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from starlette.testclient import TestClient
from tiny_bert import write_fresh_bert

from longtail import load, recipes
from longtail.data.dataset import Dataset
from longtail.data.filters import answers, identity_pairs
from longtail.data.texts import Strings, Texts
from longtail.serve.app import application
from longtail.serve.service import Settings
from longtail.text.bag import BagTokenizer, Words
from longtail.text.huggingface import TransformerTokenizer

LABELS = {
    "Café crème": "boisson café",  # é is one character, and below it is two
    "Русский язык": "русский словарь",
    "Ελληνικά": "ελληνικά γραμματική",
    "اللغة العربية": "العربية قاموس",
    "עברית": "עברית מילון",
    "東京都": "東京都 地図",
    "한국어": "한국어 사전",
    "हिन्दी भाषा": "हिन्दी शब्दकोश",
    "ภาษาไทย": "ภาษาไทย พจนานุกรม",
    "🐟 fish": "fish 🐟 sea",
}
TITLES = [*LABELS]


def both_ways(text: str) -> tuple[str, str]:
    return normalize("NFC", text), normalize("NFD", text)


@pytest.fixture(scope="module", params=["bag", "transformer"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A run on documents of ten scripts, every second of which is decomposed."""
    asked = {"encoder": "bag", "width": 32}
    if request.param == "transformer":
        asked = {"encoder": str(tmp_path_factory.mktemp("bert")), "max_length": 16, "learning_rate": 3e-3, "warmup": 5}
        words = {normalize("NFC", word) for text in (*TITLES, *LABELS.values()) for word in text.split()}
        write_fresh_bert(Path(asked["encoder"]), sorted(words))
    texts = [both_ways(f"{words} {i}")[i % 2] for i in range(10) for words in LABELS.values()]
    data = Dataset.from_texts(texts, [[label] for _ in range(10) for label in range(len(LABELS))], TITLES)
    run = tmp_path_factory.mktemp("scripts") / "run"
    recipes.unidec(data, out=run, epochs=8, batch=30, validation=0.2, refit=False, device="cpu", **asked)
    return run


def test_texts_that_look_the_same_are_read_the_same(tiny_bert, folder):
    composed, decomposed = (Texts.of([both_ways(title)[way] for title in TITLES]) for way in (0, 1))
    assert [*composed.fields["title"]] != [*decomposed.fields["title"]]
    for tokenizer in (BagTokenizer.fit(composed.joined(["title"]), minimum=1), TransformerTokenizer(tiny_bert)):
        tables = [tokenizer(texts.joined(["title"])) for texts in (composed, decomposed)]
        np.testing.assert_array_equal(tables[0].ids, tables[1].ids)
    model = load(folder, device="cpu")
    np.testing.assert_array_equal(model.encode(composed), model.encode(decomposed))


def test_marks_belong_to_the_words_that_they_stand_in():
    names = Words()
    names(["हिन्दी भाषा, e\u0323\u0301toile \u0301 re\u0301_sume x\u0301"])
    assert names.names == ["हिन्दी", "भाषा", "e\u0323\u0301toile", "re\u0301", "sume", "x\u0301"]


def test_the_filter_takes_canonical_forms_for_one_text_and_no_others():
    """NFC, and not NFKC: a sign that merely stands for another may tell labels apart."""
    labels = Texts.of(["caf\u00e9", "x\u00b2", "\ufb01n", "\u212bngstr\u00f6m", ""])
    documents = Texts.of(["cafe\u0301", "x2", "fin", "\u00c5ngstro\u0308m", ""])
    found = identity_pairs(documents, labels)
    np.testing.assert_array_equal(found.toarray(), np.diag([1, 0, 0, 1, 0]))
    true = identity_pairs(labels, labels)
    nodes = answers(true, documents.fields["title"], labels)
    np.testing.assert_array_equal(nodes.toarray(), np.diag([1, 0, 0, 1, 0]))
    plain = Strings.of(["cafe", "fin"])
    assert plain.canonical() is plain


def test_a_server_ranks_and_shows_every_script_as_it_was_written(folder):
    with TestClient(application(Settings(folder, device="cpu"))) as client:
        for way in (0, 1):
            asked = [both_ways(words)[way] for words in LABELS.values()]
            answer = client.post("/v1/predict", json={"texts": asked, "k": 1})
            assert answer.headers["content-type"].startswith("application/json")
            assert [result["labels"][0]["text"] for result in answer.json()["results"]] == TITLES
        page = client.get("/")
        assert '<meta charset="utf-8">' in page.text
        assert "unicode-bidi: plaintext" in client.get("/page.css").text
