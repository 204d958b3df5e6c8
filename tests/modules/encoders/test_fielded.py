"""Fields that are read apart: each against the encoder alone, a mix that learns, and recipes that have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from stopping import stopped_at_the_end
from torch import Tensor

from longtail import load, recipes
from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.errors import BadInput
from longtail.model.label_set import LabelSet, NewLabel
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.base import Encoder, embed
from longtail.modules.encoders.fielded import FieldedEncoder, with_fields
from longtail.modules.encoders.mixing import Mix
from longtail.modules.encoders.named import load_encoder, make_encoder
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.modules.heads import TwoHeads
from longtail.text.bag import BagTokenizer
from longtail.text.tokens import FieldTokens, token_table

CPU = torch.device("cpu")
PAIRS = [("red fish", "one two"), ("blue", ""), ("", "green bird"), ("", ""), ("two", "red blue one"), ("bird", "bird")]
QUICK = {"epochs": 2, "batch": 16, "random_negatives": 2, "max_length": 8, "width": 16, "device": "cpu", "seed": 1}


def bag(_: Path) -> Encoder:
    words = "red green blue fish bird one two"
    return BagEncoder(BagTokenizer.fit([words, words]), 8, generator=torch.Generator().manual_seed(0))


def transformer(tiny_bert: Path) -> Encoder:
    return TransformerEncoder(tiny_bert, max_length=8)


both_kinds = pytest.mark.parametrize("make", [bag, transformer])


def of(titles: list[str], contents: list[str]) -> Texts:
    return Texts.by_field(
        [{"title": a, "content": b} for a, b in zip(titles, contents, strict=True)], ["title", "content"]
    )


def texts() -> Texts:
    return of([a for a, _ in PAIRS], [b for _, b in PAIRS])


def vectors(encoder: Encoder, given: Texts, fields: tuple[str, ...] = ("title", "content")) -> Tensor:
    return torch.from_numpy(embed(encoder, token_table(given, fields, encoder.tokenizer), device=CPU))


def tokens(encoder: FieldedEncoder, given: Texts) -> FieldTokens:
    table = token_table(given, ("title", "content"), encoder.tokenizer)
    return encoder.tokenizer.batch(table, np.arange(len(given)))


@both_kinds
def test_vectors_against_a_loop_over_fields(make: Callable[[Path], Encoder], tiny_bert: Path) -> None:
    encoder = FieldedEncoder(make(tiny_bert), 2)
    generator = torch.Generator().manual_seed(1)
    for trained in (False, True):
        if trained:
            encoder.mix.query.data = torch.randn(encoder.width, generator=generator)
            encoder.mix.bias.data = torch.tensor([0.7, -0.4])
        found = vectors(encoder, texts())
        for i, pair in enumerate(PAIRS):
            there = [f for f, part in enumerate(pair) if part] or [0]
            parts = vectors(encoder.encoder, Texts.of([pair[f] for f in there]), ("title",))
            scores = parts @ encoder.mix.query.detach() + encoder.mix.bias.detach()[there]
            expected = torch.nn.functional.normalize((scores.softmax(0)[:, None] * parts).sum(0), dim=0)
            torch.testing.assert_close(found[i], expected, rtol=0, atol=1e-5)


@both_kinds
def test_a_text_without_a_content_is_its_title(make: Callable[[Path], Encoder], tiny_bert: Path) -> None:
    encoder = FieldedEncoder(make(tiny_bert), 2)
    encoder.mix.bias.data = torch.tensor([-2.0, 3.0])
    titles = Texts.of(["red fish", "", "two two one"])
    alone = vectors(encoder.encoder, titles, ("title",))
    for given in (titles, of(list(titles.fields["title"]), [""] * 3)):  # no such field in the data, and an empty one
        torch.testing.assert_close(vectors(encoder, given), alone, rtol=0, atol=1e-6)


@both_kinds
def test_tokens_are_cut_joined_and_thinned_out(make: Callable[[Path], Encoder], tiny_bert: Path) -> None:
    encoder = FieldedEncoder(make(tiny_bert), 2).eval()
    whole = tokens(encoder, texts())
    assert len(whole) == len(PAIRS)
    with torch.inference_mode():
        expected = encoder(whole)
        for cut in (0, 1, 3, 6):
            first, second = whole.rows(slice(0, cut)), whole.rows(slice(cut, None))
            assert (len(first), len(second)) == (cut, 6 - cut)
            parts = [encoder(part) for part in (first, second) if len(part)]
            torch.testing.assert_close(torch.cat(parts), expected, rtol=0, atol=1e-5)
            if cut:
                torch.testing.assert_close(encoder(first.followed_by(second)), expected, rtol=0, atol=1e-5)
        torch.manual_seed(0)
        assert len(whole.without(0.5)) == len(whole)
        assert not torch.allclose(encoder(whole.without(0.5)), expected)


@both_kinds
def test_a_saved_one_is_opened_and_its_folder_is_the_encoder_of_a_field(
    make: Callable[[Path], Encoder], tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = FieldedEncoder(make(tiny_bert), 2)
    encoder.mix.bias.data = torch.tensor([0.3, -0.2])
    encoder.save(tmp_path)
    opened = load_encoder("bag" if make is bag else "transformer", tmp_path)
    assert isinstance(opened, FieldedEncoder)
    assert torch.equal(vectors(opened.eval(), texts()), vectors(encoder, texts()))
    kind = BagEncoder if make is bag else TransformerEncoder
    alone = kind.load(tmp_path)
    assert torch.equal(vectors(alone, texts(), ("title",)), vectors(encoder.encoder, texts(), ("title",)))
    (tmp_path / "fields.safetensors").unlink()
    with pytest.raises(BadInput, match=r"fields\.safetensors: expected the weights of a mix, found "):
        with_fields(alone, tmp_path)
    (tmp_path / "fields.json").write_text('{"fields": "2"}')
    with pytest.raises(BadInput, match=r"fields\.json: expected a number of fields, found 2"):
        with_fields(alone, tmp_path)


def test_a_mix_has_no_more_than_the_parts_and_gradients_for_all() -> None:
    mix = Mix(3, 4)
    x, of_text, kind = torch.randn(5, 4), torch.tensor([0, 0, 0, 1, 2]), torch.tensor([0, 1, 2, 1, 0])
    torch.testing.assert_close(mix(x, of_text, kind, 3), torch.stack([x[:3].mean(0), x[3], x[4]]))
    mix.bias.data = torch.tensor([0.0, 1000.0, -1000.0])  # and no overflow
    torch.testing.assert_close(mix(x, of_text, kind, 3), x[[1, 3, 4]])
    mix.bias.data.zero_()
    mix(x, of_text, kind, 3).square().sum().backward()  # type: ignore[no-untyped-call]
    assert mix.query.grad is not None
    assert (mix.query.grad != 0).all()


NAMES = [f"{kind}{i}" for kind, count in (("label", 20), ("noise", 10)) for i in range(count)]


def planted(rows: int, seed: int) -> Dataset:
    """Titles name half of the labels, beside contents of noise; contents the other half, under titles of noise.

    Noise is the name of one of ten labels that no document has.
    """
    draw = np.random.default_rng(seed)
    truth, noise = draw.integers(0, 20, 2 * rows), draw.integers(20, 30, 2 * rows)
    pairs = [(said, other) if said < 10 else (other, said) for said, other in zip(truth, noise, strict=True)]
    documents = of([NAMES[title] for title, _ in pairs], [NAMES[content] for _, content in pairs])
    targets, half = csr_of_lists([[i] for i in truth], 30), np.arange(rows)
    train, test = (Split(documents.take(some), targets[some], None) for some in (half, rows + half))
    return Dataset("planted", train, Texts.of(NAMES), test)


def test_a_mix_learns_which_field_says_what_a_text_is_about() -> None:
    data = planted(200, 0)
    assert data.test is not None
    tokenizer = BagTokenizer.fit([*NAMES, *NAMES])
    encoder = FieldedEncoder(BagEncoder(tokenizer, 32, generator=torch.Generator().manual_seed(0)), 2)
    z = vectors(encoder, data.labels)

    def right() -> float:
        assert data.test is not None
        found = (vectors(encoder, data.test.documents) @ z.T).argmax(1)
        return float((found.numpy() == data.test.targets.indices).mean())

    mean = right()
    optimizer = torch.optim.Adam(encoder.mix.parameters(), 0.1)  # alone: what is mixed stays as it is
    read, truth = tokens(encoder, data.train.documents), torch.from_numpy(data.train.targets.indices).long()
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(encoder(read) @ z.T / 0.1, truth).backward()
        optimizer.step()
    assert mean < 0.7  # both fields name a label
    assert right() > 0.95
    said, noise = (z @ encoder.mix.query.detach()).split([20, 10])
    assert said.mean() > noise.mean() + 2


@pytest.mark.parametrize("recipe", ["unidec", "ngame"])
@pytest.mark.parametrize("kind", ["bag", "transformer"])
def test_recipes_train_resume_and_open_it(recipe: str, kind: str, tiny_bert: Path, tmp_path: Path) -> None:
    data = planted(60, 1)
    encoder = "bag" if kind == "bag" else str(tiny_bert)
    asked = {**QUICK, "encoder": encoder, "fields": ("title", "content"), "fields_apart": True}
    if recipe == "unidec":
        asked |= {"refit": kind == "bag", "validation": 0.2}
    whole = recipes.RECIPES[recipe](data, out=tmp_path / "whole", **asked)
    assert whole.encoders[0].core is not whole.encoders[0]

    stopped_at_the_end(lambda: recipes.RECIPES[recipe](data, out=tmp_path / "stopped", **asked))
    resumed = recipes.RECIPES[recipe](data, out=tmp_path / "stopped", **asked)
    opened = load(tmp_path / "whole", device="cpu")
    for other in (resumed, opened):
        one, two = (model.rank(data.test.documents, 5) for model in (whole, other))
        np.testing.assert_array_equal(one.ids, two.ids)
        np.testing.assert_array_equal(one.scores, two.scores)
    prediction = opened.predict([{"title": "label3", "content": "noise1"}, "label4"], k=2)
    assert [len(found) for found in prediction] == [2, 2]
    labels = LabelSet(tmp_path / "whole", device="cpu")
    labels.add([NewLabel("new", "label3", [{"title": "label3", "content": "noise1"}])])
    labels.close()
    (found,) = load(tmp_path / "whole", device="cpu").predict([{"title": "label3", "content": "noise1"}], k=31)
    assert "new" in [label.uid for label in found]


def test_steps_in_shards_make_the_same_model() -> None:
    asked = {**QUICK, "fields": ("title", "content"), "fields_apart": True}
    one, two = (recipes.depsl(planted(60, 1), **asked, shards=shards).vectors["encoder"] for shards in (0, 2))
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-5)


def test_a_second_view_of_documents_has_a_table_of_its_own() -> None:
    encoder = FieldedEncoder(bag(Path()), 2)
    heads = TwoHeads(encoder, generator=torch.Generator())
    both = vectors(heads, texts())
    torch.testing.assert_close(both[:, :8], both[:, 8:], rtol=0, atol=1e-6)  # it starts as the first
    assert heads.table is not None
    heads.table.weight.data.neg_()
    torch.testing.assert_close(vectors(heads, texts())[:, 8:], -both[:, :8], rtol=0, atol=1e-6)


def test_what_goes_with_it_and_what_does_not(tiny_bert: Path, tmp_path: Path) -> None:
    data = planted(60, 1)
    with pytest.raises(BadInput, match="fields_apart: expected several fields, found title; give fields"):
        recipes.dpr(data, **QUICK, fields_apart=True)
    with pytest.raises(BadInput, match="fields_apart: this recipe joins layers of a transformer"):
        recipes.lightxml(data, **QUICK, encoder=str(tiny_bert), fields=("title", "content"), fields_apart=True)
    run = tmp_path / "run"
    recipes.dpr(data, out=run, **QUICK, fields=("title", "content"), fields_apart=True)
    with pytest.raises(BadInput, match="fields_apart: the run that it starts from reads 2 fields apart"):
        recipes.dpr(data, **QUICK, start=str(run))
    again = recipes.dpr(data, **QUICK | {"epochs": 0}, start=str(run), fields=("title", "content"), fields_apart=True)
    assert torch.equal(again.encoder.mix.query, load(run, device="cpu").encoders[0].mix.query)
    made = make_encoder("bag", ["red"], width=8, max_length=4, generator=torch.Generator())
    assert made.core is made


def test_a_folder_that_mixes_fields_is_the_start_of_a_run_with_its_mix(tiny_bert: Path, tmp_path: Path) -> None:
    data = planted(60, 1)
    asked = {**QUICK, "fields": ("title", "content"), "fields_apart": True, "learning_rate": 1e-2}
    before = recipes.dpr(data, out=tmp_path / "run", encoder=str(tiny_bert), **asked)
    assert before.encoder.mix.query.any()
    asked |= {"encoder": str(tmp_path / "run" / "model" / "encoder"), "epochs": 0}
    again = recipes.dpr(data, **asked)
    np.testing.assert_array_equal(again.encode(data.test.documents), before.encode(data.test.documents))
    narrow = recipes.dpr(data, **asked, widths=[8])
    assert torch.equal(narrow.encoder.mix.query, before.encoder.mix.query[:8])
    assert torch.equal(narrow.encoder.mix.bias, before.encoder.mix.bias)
    joined = recipes.dpr(data, **asked | {"fields_apart": False})
    assert joined.encoder.core is joined.encoder
    FieldedEncoder(TransformerEncoder(tiny_bert), 3).save(tmp_path / "three")
    with pytest.raises(BadInput, match="fields_apart: the run that it starts from reads 3 fields apart"):
        recipes.dpr(data, **asked | {"encoder": str(tmp_path / "three")})
