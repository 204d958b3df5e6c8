"""Transformers as ONNX: the hidden states of each family, whatever stands beside a text, and files that are broken."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from tiny_bert import DECODERS, write_tiny_transformer
from torch import Tensor

from longtail.cards import write_card
from longtail.errors import BadInput, MissingExtra
from longtail.modules import exported
from longtail.modules.cross_encoder import CrossEncoder, logits_of
from longtail.modules.encoders.base import embed
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.modules.exported import FILES, ExportedBackbone, encode_by, write_export

pytest.importorskip("onnxruntime", reason="needs the extra onnx")

FAMILIES = ("Bert", "DistilBert", "MPNet", "ModernBert", *DECODERS)
TEXTS = ["red fish", "blue", "one two two one red green blue fish bird", "green bird", "red " * 20, "fish red"]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def export_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, Path]]:
    """The folders of a tiny transformer of a family and of its export, each made once."""
    made: dict[tuple[str, str], tuple[Path, Path]] = {}

    def of(kind: str, numbers: str = "float32") -> tuple[Path, Path]:
        if (kind, numbers) not in made:
            folder, place = tmp_path_factory.mktemp(kind), tmp_path_factory.mktemp("onnx")
            write_tiny_transformer(folder, kind)
            TransformerEncoder(folder, bidirectional=kind == "Llama").save(folder)
            write_export(TransformerEncoder.load(folder), place, numbers)
            made[kind, numbers] = folder, place
        return made[kind, numbers]

    return of


def opened(folder: Path, place: Path) -> TransformerEncoder:
    encoder = TransformerEncoder.load(folder)
    encode_by(encoder, place)
    assert isinstance(encoder.backbone, ExportedBackbone)
    return encoder


def vectors(encoder: TransformerEncoder, texts: list[str] = TEXTS) -> Tensor:
    return torch.from_numpy(embed(encoder, encoder.tokenizer(texts), device=CPU))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", FAMILIES)
def test_hidden_states_are_those_of_pytorch(kind: str, export_of: Callable[..., tuple[Path, Path]]) -> None:
    """Of batches and lengths other than the one that was traced, with padding and without."""
    folder, place = export_of(kind)
    own, other = TransformerEncoder.load(folder), opened(folder, place)
    for texts in (TEXTS, TEXTS[:1], ["red fish", "fish red"]):
        tokens = own.tokenizer.batch(own.tokenizer(texts), np.arange(len(texts)))
        with torch.inference_mode():
            states = own.backbone(input_ids=tokens.ids, attention_mask=tokens.mask.long()).last_hidden_state
            found = other.backbone(inputs_embeds=tokens.ids, attention_mask=tokens.mask.long()).last_hidden_state
        close(found[tokens.mask], states[tokens.mask])
        close(vectors(other, texts), vectors(own, texts))


@pytest.mark.parametrize("kind", ["Bert", "Llama"])
@pytest.mark.parametrize("numbers", FILES)
def test_logits_of_a_cross_encoder_are_those_of_pytorch(kind: str, numbers: str, tmp_path: Path) -> None:
    write_tiny_transformer(tmp_path / "start", kind)
    CrossEncoder(tmp_path / "start").save(tmp_path / "saved")
    (tmp_path / "onnx").mkdir()
    own, other = (CrossEncoder.load(tmp_path / "saved", max_length=16) for _ in range(2))
    write_export(own, tmp_path / "onnx", numbers)
    encode_by(other, tmp_path / "onnx")
    documents, labels = own.tokenizer(TEXTS), own.tokenizer(TEXTS[::-1])
    found = [logits_of(encoder, documents, labels, device=CPU) for encoder in (own, other)]
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-5 if numbers == "float32" else 0.5)
    alone = [logits_of(other, documents.take(i), labels.take(i), device=CPU) for i in np.arange(len(TEXTS))[:, None]]
    np.testing.assert_allclose(np.concatenate(alone), found[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("numbers", FILES)
def test_neither_padding_nor_other_texts_change_a_vector(
    numbers: str, export_of: Callable[..., tuple[Path, Path]]
) -> None:
    encoder = opened(*export_of("Bert", numbers))
    together = vectors(encoder)
    for i, text in enumerate(TEXTS):
        close(vectors(encoder, [text])[0], together[i])


def test_eight_bits_are_near_and_smaller(export_of: Callable[..., tuple[Path, Path]]) -> None:
    (folder, place), (same, small) = export_of("Bert"), export_of("Bert", "int8")
    cosines = (vectors(opened(folder, place)) * vectors(opened(same, small))).sum(1)
    assert 0.9 < cosines.min() < 0.9999
    assert [path.name for path in small.glob("*.onnx")] == [FILES["int8"]]
    assert (small / FILES["int8"]).stat().st_size < (place / FILES["float32"]).stat().st_size


def test_weights_in_bfloat16_are_exported_in_float32(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = TransformerEncoder(tiny_bert)
    encoder.hold("bfloat16")
    encoder.save(tmp_path / "encoder")
    (tmp_path / "onnx").mkdir()
    write_export(TransformerEncoder.load(tmp_path / "encoder"), tmp_path / "onnx", "float32")
    close(vectors(opened(tmp_path / "encoder", tmp_path / "onnx")), vectors(TransformerEncoder(tmp_path / "encoder")))


def test_joined_layers_windows_and_a_projection_stay(tiny_bert: Path, tmp_path: Path) -> None:
    joined = TransformerEncoder(tiny_bert, max_length=6, windows=3)
    joined.join([1, 2])
    projected = TransformerEncoder(tiny_bert, pooling="cls", projection=5)
    for name, encoder in (("joined", joined), ("projected", projected)):
        encoder.save(tmp_path / name)
        (tmp_path / name / "onnx").mkdir()
        write_export(TransformerEncoder.load(tmp_path / name), tmp_path / name / "onnx", "float32")
        close(vectors(opened(tmp_path / name, tmp_path / name / "onnx")), vectors(encoder))


def test_plain_onnxruntime_opens_a_file_with_the_inputs_of_the_ecosystem(
    export_of: Callable[..., tuple[Path, Path]],
) -> None:
    """sentence-transformers needs the package optimum for that, which is not among those of the tests."""
    session = pytest.importorskip("onnxruntime").InferenceSession(
        str(export_of("Bert")[1] / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    assert {(one.name, one.type, tuple(one.shape)) for one in session.get_inputs()} == {
        (name, "tensor(int64)", ("batch", "length")) for name in ("input_ids", "attention_mask")
    }
    assert [(one.name, one.shape) for one in session.get_outputs()] == [("last_hidden_state", ["batch", "length", 32])]


def test_what_an_exported_encoder_saves_are_its_weights(
    export_of: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    folder, place = export_of("Bert")
    opened(folder, place).save(tmp_path / "copy")
    names = [{path.name for path in one.rglob("*")} for one in (folder, tmp_path / "copy")]
    assert names[0] == names[1]
    for name in ("config.json", "model.safetensors"):
        assert (folder / name).read_bytes() == (tmp_path / "copy" / name).read_bytes()


def test_as_many_threads_as_pytorch_has(
    export_of: Callable[..., tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, asked = opened(*export_of("Bert")), []
    made = exported._session_of
    monkeypatch.setattr(exported, "_session_of", lambda file, threads: asked.append(threads) or made(file, threads))
    for threads in (1, 1, 2, 1):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        vectors(encoder, ["red"])
    assert asked == [1, 2, 1]
    options = encoder.backbone._session().get_session_options()
    assert options.intra_op_num_threads == 1


def rewrite_card(card: Path, **more: str) -> None:
    """Let the card of an export vouch for its file as it is now."""
    said = json.loads(card.read_text())
    card.unlink()
    write_card(card, {key: said[key] for key in ("numbers", "weights")} | more)


@pytest.mark.parametrize("broken", ["flipped", "cut", "no card", "no file", "numbers"])
def test_a_broken_export_is_one_line(export_of: Callable[..., tuple[Path, Path]], tmp_path: Path, broken: str) -> None:
    folder, place = export_of("Bert")
    copy = Path(shutil.copytree(place, tmp_path / "onnx"))
    file, card = copy / "model.onnx", copy / "export.json"
    content = file.read_bytes()
    if broken == "flipped":
        file.write_bytes(content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])
    elif broken == "cut":
        file.write_bytes(content[:5000])
    elif broken == "numbers":
        rewrite_card(card, numbers="int2")
    else:
        (card if broken == "no card" else file).unlink()
    with pytest.raises(
        BadInput, match=r"onnx/.*: expected .*; export it again \(longtail export\), or remove"
    ) as error:
        encode_by(TransformerEncoder.load(folder), copy)
    assert "\n" not in str(error.value)


def test_a_file_that_onnxruntime_cannot_open_is_one_line(
    export_of: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    folder, place = export_of("Bert")
    copy = Path(shutil.copytree(place, tmp_path / "onnx"))
    (copy / "model.onnx").write_bytes(b"no model")
    rewrite_card(copy / "export.json")
    with pytest.raises(BadInput, match=r"expected a model that onnxruntime opens, found none \(.*\); export it again"):
        vectors(opened(folder, copy))


def test_without_onnxruntime_or_of_other_weights_it_is_left_aside(
    export_of: Callable[..., tuple[Path, Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (folder, place), (other, _) = export_of("Bert"), export_of("MPNet")
    with caplog.at_level(logging.WARNING):
        left = TransformerEncoder.load(other)
        encode_by(left, place)
        monkeypatch.setattr(exported, "find_spec", lambda name: None)
        without = TransformerEncoder.load(folder)
        encode_by(without, place)
        encode_by(without, tmp_path / "nothing")
        with pytest.raises(
            MissingExtra, match=r"longtail export needs the package onnx; pip install 'longtail\[onnx\]"
        ):
            write_export(without, tmp_path, "float32")
    assert not any(isinstance(one.backbone, ExportedBackbone) for one in (left, without))
    of_others, missing = caplog.messages
    assert "left aside, as it is of other weights; export it again" in of_others
    assert "left aside, as it needs the package onnxruntime; pip install 'longtail[onnx]'" in missing


def test_what_cannot_be_exported_is_one_line(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = TransformerEncoder.load(tiny_bert)
    with monkeypatch.context() as patched:
        patched.setattr(exported, "_LARGEST", 1000)
        with pytest.raises(BadInput, match=r"expected a transformer of less than 2 GiB in float32, found 0\.0 GiB"):
            write_export(encoder, tmp_path, "float32")
    for error in (OSError(28, "No space left on device"), MemoryError()):
        with monkeypatch.context() as patched:
            patched.setattr(torch.onnx, "export", Mock(side_effect=error))
            with pytest.raises(type(error)):
                write_export(encoder, tmp_path, "float32")
    monkeypatch.setattr(type(encoder.backbone), "forward", lambda self, **_: 1 / 0)
    with pytest.raises(
        BadInput, match=r"expected a transformer that PyTorch exports, found BertModel \(ZeroDivisionError: .*; use it"
    ):
        write_export(encoder, tmp_path, "float32")
