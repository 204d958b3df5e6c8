"""Transformers of other families, and what only some of them are asked for: prefixes, adapters, nested widths."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stopping import stopped_in_the_middle
from tiny_bert import DECODERS, write_lookup_bert, write_tiny_transformer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel, T5Config

from longtail import load, recipes
from longtail.data.dataset import Dataset
from longtail.errors import BadInput, MissingExtra
from longtail.modules.encoders import adapters, base, layers
from longtail.modules.encoders.base import embed
from longtail.modules.encoders.decoders import see_ahead
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.text.huggingface import TransformerTokenizer, quiet
from longtail.text.tokens import PaddedTokens
from longtail.train.optimizer import adamw

TEXTS = ["red fish", "blue", "one two two one red green blue fish bird", "", "green bird", "red " * 20, "fish red"]
FAMILIES = ("Bert", "MPNet", "ModernBert", *DECODERS)


@pytest.fixture(scope="session")
def family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny transformer of a family, each made once."""
    made: dict[str, Path] = {}

    def of(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            write_tiny_transformer(made[kind], kind)
        return made[kind]

    return of


def tokens(encoder: TransformerEncoder, texts: list[str] = TEXTS) -> PaddedTokens:
    return encoder.tokenizer.batch(encoder.tokenizer(texts), np.arange(len(texts)))


def vectors(encoder: TransformerEncoder, texts: list[str] = TEXTS) -> Tensor:
    with torch.inference_mode():
        return encoder.eval()(tokens(encoder, texts))


def rows_of(encoder: TransformerEncoder) -> list[Tensor]:
    """The tokens of each text alone, (1, T)."""
    table = encoder.tokenizer(TEXTS)
    return [torch.from_numpy(table.ids[i:j].astype(np.int64))[None] for i, j in pairwise(table.offsets)]


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


def by_the_package(folder: Path, texts: list[str] = TEXTS, **given: Any) -> Tensor:
    package = pytest.importorskip("sentence_transformers", reason="needs the extra sentence-transformers")
    with quiet():
        model = package.SentenceTransformer(str(folder), device="cpu")
    found: Tensor = model.encode(texts, convert_to_tensor=True, show_progress_bar=False, **given)
    return found


def data() -> Dataset:
    names = ["red", "green", "blue", "fish", "bird", "one", "two"]
    rows = [(one, other) for one in range(7) for other in range(7)]
    texts = [f"{names[one]} {names[other]}" for one, other in rows]
    return Dataset.from_texts(texts, [sorted({one, other}) for one, other in rows], names)


QUICK = {"epochs": 2, "batch": 16, "random_negatives": 2, "max_length": 8, "learning_rate": 1e-3, "device": "cpu"}


@pytest.mark.parametrize("kind", FAMILIES)
def test_each_family_trains_resumes_is_saved_and_opened_again(
    kind: str, family: Callable[[str], Path], tmp_path: Path
) -> None:
    asked = {"encoder": str(family(kind)), "document_prefix": "one two ", **QUICK}
    if kind in DECODERS:
        asked |= {"lora": 4, "bidirectional": kind == "Llama", "pooling": "mean" if kind == "Llama" else None}
    whole = recipes.dpr(data(), out=tmp_path / "whole", **asked)
    assert whole.encoder.pooling == ("last" if kind == "Qwen3" else "mean")
    untrained = TransformerEncoder(family(kind), max_length=8)
    assert (vectors(untrained) - vectors(whole.encoder)).abs().max() > 1e-2

    stopped_in_the_middle(lambda run: recipes.dpr(data(), out=run, **asked), tmp_path / "stopped")
    resumed = recipes.dpr(data(), out=tmp_path / "stopped", **asked)
    for one, other in zip(whole.encoder.parameters(), resumed.encoder.parameters(), strict=True):
        assert torch.equal(one, other)

    opened = load(tmp_path / "whole", device="cpu")
    found = torch.from_numpy(whole.encode(data().train.documents)[:, :-1])
    close(torch.from_numpy(opened.encode(data().train.documents)[:, :-1]), found)
    texts = [data().train.documents.fields["title"][i] for i in range(49)]
    close(by_the_package(tmp_path / "whole" / "model" / "encoder", texts, prompt_name="query"), found)


@pytest.mark.parametrize("kind", DECODERS)
def test_the_last_token_of_a_decoder_against_a_loop(kind: str, family: Callable[[str], Path], tmp_path: Path) -> None:
    encoder = TransformerEncoder(family(kind))
    found = vectors(encoder)
    with quiet():
        model = AutoModel.from_pretrained(family(kind)).eval()
    with torch.inference_mode():
        naive = torch.stack([model(row).last_hidden_state[0, -1] for row in rows_of(encoder)])
    close(found, normalize(naive))
    encoder.save(tmp_path)
    there = [text for text in TEXTS if text]  # the package has no token at all for an empty text
    close(by_the_package(tmp_path, there), vectors(encoder, there))


@pytest.mark.parametrize("kind", DECODERS)
def test_bidirectional_tokens_see_those_behind_them(kind: str, family: Callable[[str], Path], tmp_path: Path) -> None:
    first = {}
    for bidirectional in (False, True):
        encoder = TransformerEncoder(family(kind), pooling="cls", bidirectional=bidirectional)
        first[bidirectional] = vectors(encoder, ["red fish", "red bird"])
        longer = vectors(encoder, ["red fish", "red bird", "one two one two"])  # with padding
        close(longer[:2], first[bidirectional])
    assert torch.equal(*first[False])
    assert (first[True][0] - first[True][1]).abs().max() > 1e-2
    encoder.save(tmp_path)
    close(vectors(TransformerEncoder.load(tmp_path), ["red fish", "red bird"]), first[True])


class Stubborn(nn.Module):
    """Hidden states of a token are what came up to it, whatever the configuration says."""

    config = SimpleNamespace()

    def forward(self, input_ids: Tensor) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=input_ids.cumsum(1)[:, :, None].float())


def test_a_model_that_cannot_see_ahead_says_so() -> None:
    with pytest.raises(BadInput, match=r"^bidirectional: expected a model whose tokens can see .*, found Stubborn"):
        see_ahead(Stubborn())


@pytest.mark.parametrize(("kind", "most"), [("Bert", 20), ("GPT2", 20), ("Roberta", 19), ("MPNet", 18)])
def test_the_longest_text_of_a_folder_whose_tokeniser_has_no_limit_is_read(
    kind: str, most: int, tmp_path: Path
) -> None:
    write_tiny_transformer(tmp_path, kind)
    told = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told | {"model_max_length": 10**30}))
    encoder = TransformerEncoder(tmp_path)
    assert encoder.tokenizer.max_length == most  # the padding of Roberta is at position 0, that of MPNet at 1
    assert vectors(encoder, ["red " * 40]).isfinite().all()


def test_an_encoder_with_a_decoder_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "copy"))
    sizes = {"vocab_size": 13, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    AutoModel.from_config(T5Config(**sizes)).save_pretrained(folder)
    with pytest.raises(BadInput, match=r"^encoder: expected an encoder or a decoder, found T5Model, which is one of"):
        TransformerEncoder(folder)


def test_a_transformer_that_reads_padding_is_refused(tmp_path: Path) -> None:
    write_tiny_transformer(tmp_path, "FNet")
    with pytest.raises(BadInput, match=r"^encoder: expected a transformer that can leave padding unread, found FNetMo"):
        TransformerEncoder(tmp_path)


def test_prefixes_come_from_the_folder_or_from_the_caller(tiny_bert: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "copy"))
    plain = TransformerEncoder(tiny_bert)
    named = {"prompts": {"query": "one ", "passage": "two "}}
    usual = {"prompts": {"all": "one "}, "default_prompt_name": "all"}
    for said, expected in ((named, ("one ", "two ")), (usual, ("one ", "one ")), ({}, ("", ""))):
        (folder / "config_sentence_transformers.json").write_text(json.dumps(said))
        encoder = TransformerEncoder(folder)
        assert (encoder.tokenizer.prefix, encoder.label_tokenizer.prefix) == expected
        close(vectors(encoder, ["red fish"]), vectors(plain, [f"{expected[0]}red fish"]))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(named))
    given = TransformerEncoder(folder, document_prefix="", label_prefix="three ")
    assert (given.tokenizer.prefix, given.label_tokenizer.prefix) == ("", "three ")
    assert given.tokenizer.fingerprint == plain.tokenizer.fingerprint != given.label_tokenizer.fingerprint
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"include_prompt": false}')
    with pytest.raises(BadInput, match="found include_prompt false"):
        TransformerEncoder(folder)


@pytest.mark.parametrize("content", [b"[]", b'{"prompts": 3}', b'{"prompts": {"query": 3}}'])
def test_broken_prefixes_are_one_line(tiny_bert: Path, tmp_path: Path, content: bytes) -> None:
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "copy"))
    (folder / "config_sentence_transformers.json").write_bytes(content)
    with pytest.raises(BadInput, match=r"config_sentence_transformers\.json: expected"):
        TransformerEncoder(folder)


def test_texts_are_put_into_lower_case_where_the_folder_says_so(family: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(family("Llama"), tmp_path / "copy"))  # whose own tokeniser knows no upper case
    texts = ["Red FISH", "blue Bird"]
    plain = TransformerEncoder(folder, document_prefix="One ")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9, "do_lower_case": True}))
    encoder = TransformerEncoder(folder, document_prefix="One ")
    assert encoder.tokenizer.fingerprint != plain.tokenizer.fingerprint
    close(vectors(encoder, texts), vectors(TransformerEncoder(folder), ["one red fish", "one blue bird"]))
    assert (vectors(encoder, texts) - vectors(plain, texts)).abs().max() > 1e-2
    encoder.save(tmp_path / "saved")
    close(vectors(TransformerEncoder(tmp_path / "saved"), texts), vectors(encoder, texts))
    close(by_the_package(tmp_path / "saved", texts, prompt_name="query"), vectors(encoder, texts))


@pytest.mark.parametrize("name", ["document_prefix", "label_prefix"])
def test_a_prefix_that_leaves_no_room_for_a_text_is_refused_and_who_set_it_is_named(
    name: str, tiny_bert: Path, tmp_path: Path
) -> None:
    problem = "expected fewer tokens than the 8 of max_length, special ones included, found 'red red red"
    for asked in ({}, {"windows": 3}):
        with pytest.raises(BadInput, match=f"^{name}: {problem}"):
            TransformerEncoder(tiny_bert, max_length=8, **{name: "red " * 6}, **asked)
    assert len(vectors(TransformerEncoder(tiny_bert, max_length=8, **{name: "red " * 5})).unique(dim=0)) > 5

    folder = Path(shutil.copytree(tiny_bert, tmp_path / "copy"))
    prompts = {"query" if name == "document_prefix" else "document": "red " * 6}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    with pytest.raises(BadInput, match=f"^{name} of {folder}: {problem}"):
        TransformerEncoder(folder, max_length=8)
    TransformerEncoder(folder, max_length=8, **{name: ""})
    TransformerEncoder(folder, max_length=9)


def test_documents_and_labels_have_prefixes_of_their_own_in_training_and_after(tiny_bert: Path, tmp_path: Path) -> None:
    asked = QUICK | {"epochs": 0, "encoder": str(tiny_bert)}
    model = recipes.ngame(
        data(), out=tmp_path, document_prefix="one ", label_prefix="two ", **asked, classifier_epochs=0
    )
    plain = TransformerEncoder(tiny_bert, max_length=8)
    close(torch.from_numpy(model.vectors["encoder"][:2]), vectors(plain, ["two red", "two green"]))
    close(
        torch.from_numpy(model.encode(data().train.documents)[:2, :-1]),
        vectors(plain, ["one red red", "one red green"]),
    )
    opened = load(tmp_path, device="cpu")
    close(torch.from_numpy(opened.of_labels(data().labels)), torch.from_numpy(model.vectors["encoder"]))


def test_that_bitsandbytes_would_like_other_kernels_is_not_told(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("peft", reason="needs the extra lora")
    logging.getLogger("bitsandbytes").setLevel(logging.NOTSET)  # as it is before there are adapters

    def imported(name: str) -> Any:
        logging.getLogger("bitsandbytes.backends.cpu.ops").warning("no kernel for %s", name)
        return import_module(name)

    monkeypatch.setattr(adapters, "import_module", imported)
    TransformerEncoder(tiny_bert).adapt(3, seed=1)
    assert "no kernel" not in caplog.text


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated")
def test_adapters_alone_are_trained_and_peft_puts_them_on_the_model(tiny_bert: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs the extra lora")
    encoder = TransformerEncoder(tiny_bert)
    before = vectors(encoder)
    encoder.adapt(3, seed=1)
    close(vectors(encoder), before)  # nothing yet
    trained = {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    assert len(trained) == 2 * 2 * 6  # A and B of 6 linear layers in 2 blocks
    assert all("lora_" in name for name in trained)
    frozen = {name: p.clone() for name, p in encoder.named_parameters() if not p.requires_grad}
    optimizer = torch.optim.Adam([p for p in encoder.parameters() if p.requires_grad], 0.05)
    for _ in range(3):
        x = encoder.train()(tokens(encoder))
        optimizer.zero_grad()
        (x @ x.T).square().mean().backward()
        optimizer.step()
    assert all(torch.equal(p, frozen[name]) for name, p in encoder.named_parameters() if name in frozen)
    found = vectors(encoder)
    assert (found - before).abs().max() > 0.05
    encoder.save(tmp_path)
    close(vectors(TransformerEncoder(tmp_path)), found)
    with quiet():
        theirs = peft.PeftModel.from_pretrained(AutoModel.from_pretrained(tiny_bert), tmp_path / "adapter").eval()
    with torch.inference_mode():
        hidden = torch.stack([theirs(input_ids=row).last_hidden_state[0].mean(0) for row in rows_of(encoder)])
    close(normalize(hidden), found)
    rank = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert {min(tensor.shape) for tensor in rank.values()} == {3}
    starts = [TransformerEncoder(tiny_bert) for _ in range(3)]
    for other, seed in zip(starts, (1, 1, 2), strict=True):
        other.adapt(3, seed=seed)
    a, b, c = (next(p for name, p in other.named_parameters() if "lora_A" in name) for other in starts)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated")
def test_peft_puts_the_adapters_of_a_decoder_on_the_model(
    kind: str, family: Callable[[str], Path], tmp_path: Path
) -> None:
    peft = pytest.importorskip("peft", reason="needs the extra lora")
    asked = QUICK | {"encoder": str(family(kind)), "lora": 4, "learning_rate": 1e-2}
    encoder = recipes.dpr(data(), out=tmp_path, **asked).encoder
    assert (vectors(encoder) - vectors(TransformerEncoder(family(kind), max_length=8))).abs().max() > 0.05
    with quiet():
        base = AutoModel.from_pretrained(family(kind))
        theirs = peft.PeftModel.from_pretrained(base, tmp_path / "model" / "encoder" / "adapter").eval()
    with torch.inference_mode():
        hidden = torch.stack([theirs(input_ids=row).last_hidden_state[0, -1] for row in rows_of(encoder)])
    close(normalize(hidden), vectors(encoder))


def test_layers_and_kinds_of_parameters_learn_at_rates_of_their_own(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert, projection=5)
    one = adamw((encoder, 0.5)).param_groups
    assert [group["lr"] for group in one] == [0.5]
    assert [*map(id, one[0]["params"])] == [*map(id, encoder.parameters())]
    encoder.layer_decay, encoder.weight_decay = 0.5, 0.01
    found = {
        id(parameter): (group["lr"], group["weight_decay"])
        for group in adamw((encoder, 0.4)).param_groups
        for parameter in group["params"]
    }
    assert len(found) == len([*encoder.parameters()])
    for name, parameter in encoder.named_parameters():
        rate = 0.1 if "embeddings" in name else 0.2 if "layer.0" in name else 0.4
        decay = 0.0 if "bias" in name or "LayerNorm" in name else 0.01
        assert found[id(parameter)] == (pytest.approx(rate), decay), name


@pytest.mark.parametrize(
    ("kind", "lowest", "first"),
    [
        ("GPT2", ("wte.", "wpe."), ("h.0.",)),
        ("Albert", ("embeddings.", "encoder.embedding_hidden_mapping_in."), ()),  # one layer, which is run twice
        ("Electra", ("embeddings.", "embeddings_project."), ("encoder.layer.0.",)),
        ("MPNet", ("embeddings.", "encoder.relative_attention_bias."), ("encoder.layer.0.",)),
        ("Llama", ("embed_tokens.",), ("layers.0.",)),
    ],
)
def test_embeddings_learn_least_whatever_they_are_called(
    kind: str,
    lowest: tuple[str, ...],
    first: tuple[str, ...],
    family: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layers, "_FEWEST", 1)
    tables = ("embeddings.weight", "wte.weight", "wpe.weight", "embed_tokens.weight", "relative_attention_bias.weight")
    encoder = TransformerEncoder(family(kind))
    encoder.layer_decay, encoder.eight_bits = 0.5, True
    groups = {
        id(parameter): (group["lr"], group["eight_bits"])
        for group in encoder.parameter_groups(0.4)
        for parameter in group["params"]
    }
    for name, parameter in encoder.backbone.named_parameters():
        rate, small = groups[id(parameter)]
        assert rate == pytest.approx(0.1 if name.startswith(lowest) else 0.2 if name.startswith(first) else 0.4), name
        assert small == (parameter.ndim > 1 and not name.endswith(tables)), name


def test_options_of_training_reach_the_optimiser_of_every_kind_of_page(tiny_bert: Path) -> None:
    """Without a step of the lower layers nothing of them moves; with weight decay alone they shrink."""
    asked = QUICK | {"encoder": str(tiny_bert), "epochs": 1, "warmup": 0.5, "schedule": "cosine"}
    start = TransformerEncoder(tiny_bert, max_length=8).state_dict()
    for recipe in (recipes.unidec, recipes.ngame):
        moved = recipe(data(), **asked, layer_decay=1e-12, refit=False).encoder.state_dict()
        below = [name for name in start if "layer.0" in name or "embeddings" in name]
        assert all(torch.allclose(moved[name], start[name], atol=1e-7) for name in below)
        assert not torch.allclose(
            moved["backbone.encoder.layer.1.output.dense.weight"], start["backbone.encoder.layer.1.output.dense.weight"]
        )


LONG = ["red green blue fish bird one two red green", "", "one " * 13, "fish", "red fish bird one two"]


@pytest.mark.parametrize("stride", [None, 1, 2, 3])
def test_windows_of_a_long_text_against_a_loop(tiny_bert: Path, tmp_path: Path, stride: int | None) -> None:
    """By hand: 6 tokens are 4 words between two special ones; at most 3 windows, which begin a stride apart."""
    encoder = TransformerEncoder(tiny_bert, max_length=6, windows=3, stride=stride)
    alone = TransformerEncoder(tiny_bert, max_length=6)
    found, step = vectors(encoder, LONG), stride or 4
    states = []
    for text in LONG:
        words = text.split()
        starts = [0, *(start for start in (step, 2 * step) if start - step + 4 < len(words))]
        with torch.inference_mode():
            parts = tokens(alone, [" ".join(words[start : start + 4]) for start in starts])
            states.append(alone.eval()._encoded(parts).mean(0))
    close(found, normalize(torch.stack(states)))
    for i, text in enumerate(LONG):
        close(vectors(encoder, [text])[0], found[i])
    encoder.save(tmp_path)
    opened = TransformerEncoder(tmp_path)
    assert opened.tokenizer.fingerprint == encoder.tokenizer.fingerprint != alone.tokenizer.fingerprint
    close(vectors(opened, LONG), found)
    short = [text for text in LONG if len(text.split()) < 5]
    close(by_the_package(tmp_path, short), vectors(encoder, short))


def test_windows_are_read_in_training_and_after_and_gradients_are_those_of_few_texts(
    tiny_bert: Path, tmp_path: Path
) -> None:
    asked = QUICK | {"encoder": str(tiny_bert), "max_length": 4, "windows": 2, "stride": 1}
    model = recipes.dpr(data(), out=tmp_path, **asked)
    close(
        torch.from_numpy(load(tmp_path, device="cpu").encode(data().train.documents)),
        torch.from_numpy(model.encode(data().train.documents)),
    )
    encoder = model.encoder
    gradients = []
    for held in (None, 2):
        encoder.zero_grad()
        encoder.texts_at_once = held
        x = encoder.eval()(tokens(encoder, LONG))
        (x @ x.T).square().sum().backward()
        gradients.append({name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("stride", [0, 5])
def test_a_stride_that_leaves_words_out_is_refused(tiny_bert: Path, stride: int) -> None:
    with pytest.raises(BadInput, match=f"stride: expected a number in 1 to 4, .*, found {stride}"):
        TransformerEncoder(tiny_bert, max_length=6, windows=2, stride=stride)


@pytest.mark.parametrize("content", ['{"windows": "3"}', '{"windows": 0}', '{"windows": 2, "stride": "1"}', "[]"])
def test_broken_windows_are_one_line(tiny_bert: Path, tmp_path: Path, content: str) -> None:
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "copy"))
    (folder / "windows.json").write_text(content)
    with pytest.raises(BadInput, match=r"windows\.json: expected"):
        TransformerEncoder(folder)


def test_long_rows_are_encoded_a_few_at_a_time(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = TransformerEncoder(tiny_bert)
    table = encoder.tokenizer(TEXTS * 3)
    whole, sizes, batch = embed(encoder, table, device=torch.device("cpu")), [], TransformerTokenizer.batch
    monkeypatch.setattr(base, "_TOKENS", 24)

    def noted(self: TransformerTokenizer, table: Any, rows: Any) -> PaddedTokens:
        found = batch(self, table, rows)
        sizes.append(found.ids.shape)
        return found

    monkeypatch.setattr(TransformerTokenizer, "batch", noted)
    close(torch.from_numpy(embed(encoder, table, device=torch.device("cpu"), block=5)), torch.from_numpy(whole))
    assert len(sizes) > 5
    assert all(rows <= 5 and (rows == 1 or rows * length <= 24) for rows, length in sizes)


def test_without_peft_an_adapter_names_its_extra(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(MissingExtra, match=r"pip install 'longtail\[lora\]'"):
        TransformerEncoder(tiny_bert).adapt(2, seed=0)


def test_widths_cut_vectors_to_their_first_numbers(tiny_bert: Path, tmp_path: Path) -> None:
    for projection in (None, 20):
        whole, cut = (TransformerEncoder(tiny_bert, projection=projection) for _ in range(2))
        cut.nest((16, 4))
        assert (cut.width, cut.widths) == (16, [4, 16])
        close(vectors(cut), normalize(vectors(whole)[:, :16]))
        cut.save(tmp_path / str(projection))
        close(by_the_package(tmp_path / str(projection)), vectors(cut))
    with pytest.raises(BadInput, match=r"widths: expected widths up to 32, .*found 64"):
        TransformerEncoder(tiny_bert).nest([16, 64])


def test_a_step_has_one_width_and_all_have_their_turn(tiny_bert: Path) -> None:
    encoder = TransformerEncoder(tiny_bert).train()
    encoder.nest((4, 16, 32))
    seen = []
    for seed in range(30):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            drawn = [int((encoder(tokens(encoder)) != 0).any(0).sum()) for _ in range(2)]
        assert drawn[0] == drawn[1]  # whatever is encoded in a step
        seen.append(drawn[0])
    assert {width: seen.count(width) for width in (4, 16, 32)} == dict.fromkeys((4, 16, 32), 10)


def test_narrow_vectors_are_good_where_training_has_nested_them(tmp_path: Path) -> None:
    """Documents of two words, labels of one: with 2 of 16 numbers alone, what was trained to ranks much better."""
    names = ["red", "blue", "fish", "bird", "one", "two", "green", "sun"]
    texts = [f"{one} {other}" for one in names[:4] for other in names[4:]]
    write_lookup_bert(tmp_path, names, torch.randn(8, 16, generator=torch.Generator().manual_seed(0)))
    truth = torch.tensor([[name in text.split() for name in names] for text in texts]).float() / 2
    losses = {}
    for widths in ((2, 16), (16,)):
        encoder = TransformerEncoder(tmp_path, projection=16)
        encoder.nest(widths)
        assert encoder.projection is not None
        optimizer = torch.optim.Adam(encoder.projection.parameters(), 1e-2)
        both = tokens(encoder, names + texts)

        def loss(x: Tensor) -> Tensor:
            return cross_entropy(x[8:] @ x[:8].T / 0.1, truth)

        with torch.random.fork_rng():
            for step in range(40):
                torch.manual_seed(step)
                optimizer.zero_grad()
                loss(encoder.train()(both)).backward()
                optimizer.step()
        x = vectors(encoder, names + texts)
        losses[widths] = [float(loss(normalize(x[:, :width]))) for width in (2, 16)]
    assert losses[2, 16][0] < losses[(16,)][0] - 1  # 2.8 and 4.4
    assert losses[2, 16][1] < losses[(16,)][1] + 0.1  # 0.76 and 0.73
