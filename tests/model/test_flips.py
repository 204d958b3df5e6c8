"""Any byte of a saved model or index may be wrong: the answer is the same, or the file is refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from broken import flipped, outcome

from longtail import Dataset, recipes
from longtail.errors import BadInput
from longtail.model import Ensemble, LabelSet, load
from longtail.search.fusion import Fusion

EVERY = 64  # bytes
DOCUMENTS = ["red shoes", "oak table", "blue shoes", "pine table", "green hat", "grey hat"]
DATA = Dataset.from_texts(DOCUMENTS, [[0], [1], [0], [1], [2], [2]], ["footwear shoes", "furniture table", "hat"])


def unidec(folder):
    recipes.unidec(DATA, out=folder, epochs=1, width=8, validation=0.34, device="cpu")


def inceptionxml(folder):
    recipes.inceptionxml(DATA, out=folder, epochs=1, width=8, device="cpu")


def ensemble(folder):
    one = recipes.dpr(DATA, epochs=1, width=8, device="cpu")
    weights = np.outer(np.arange(1.0, 2 * len(one.mixed) + 2), [1.0, 0, 0])
    Ensemble(one, one).fused_by(Fusion(weights, np.ones(3, np.int64))).save(folder / "model")


def indexed(folder):
    pytest.importorskip("faiss", reason="the extra longtail[faiss] is not installed")
    recipes.dpr(DATA, out=folder, epochs=1, width=8, device="cpu")
    label_set = LabelSet(folder, device="cpu", exact=True)
    label_set.index(target=0.5)
    label_set.close()


def answers(run):
    model = load(run, device="cpu")
    return {kind: model.predict(DOCUMENTS, 3, kind=kind) for kind in model.kinds}


def outcome_of(run, expected):
    """What becomes of a run: the same answers, or one line."""
    return outcome(lambda: answers(run), expected)


def files(run):
    """The files of the model and of what is kept with it."""
    return [path for path in sorted((run / "model").rglob("*")) if path.is_file()]


@pytest.fixture(scope="module", params=[unidec, inceptionxml, ensemble, indexed], ids=lambda make: make.__name__)
def made(request, tmp_path_factory):
    """A run with a model, and its answers."""
    run = tmp_path_factory.mktemp("flips") / "run"
    request.param(run)
    return run, answers(run)


def test_a_flipped_byte_is_refused_or_changes_nothing(made):
    run, expected = made
    for path in files(run):
        content = path.read_bytes()
        for at in range(0, len(content), EVERY):
            changed = flipped(content, at, at // EVERY % 8)
            path.write_bytes(changed)
            said = outcome(
                lambda: answers(run), expected
            )  # in the key of a digest a flip makes the card one without: all else is whole
            keyless = path.suffix == ".json" and b'"digest"' in content and b'"digest"' not in changed
            assert said == "refused" or (said == "same" and keyless), (path, at)
        path.write_bytes(content)
    assert outcome_of(run, expected) == "same"


@pytest.mark.parametrize("left", [0, 1, 2])
def test_an_emptied_or_cut_file_is_refused(made, left):
    run, expected = made
    for path in files(run):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) * left // 3])
        assert outcome_of(run, expected) == "refused", path
        path.unlink()
        assert outcome_of(run, expected) == "refused", path
        path.write_bytes(content)


def test_another_key_of_the_card_is_refused(made):
    run, expected = made
    card = run / "model" / "bundle.json"
    content = card.read_text()
    said = json.loads(content)
    for key in said.keys() - {"digest"}:
        for value in (None, 0, "other", [], {}):
            card.write_text(json.dumps(said | {key: value}))
            assert outcome_of(run, expected) == ("same" if said[key] == value else "refused"), (
                key,
                value,
            )
    card.write_text(content)


def test_an_index_without_hashes_is_to_be_built_again(tmp_path):
    indexed(tmp_path)
    (card,) = (tmp_path / "model" / "index").glob("*/index.json")
    said = json.loads(card.read_text())
    card.write_text(json.dumps({key: said[key] for key in said.keys() - {"sha256", "digest"}}))
    with pytest.raises(BadInput, match=r"found no sha256; build it again \(longtail index\)"):
        load(tmp_path, device="cpu")
    label_set = LabelSet(tmp_path, device="cpu", exact=True)
    label_set.index(target=0.5)
    label_set.close()
    load(tmp_path, device="cpu")
    assert not list(card.parent.parent.glob(".*"))
