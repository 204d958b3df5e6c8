"""A run whose transformers were exported: who uses them, who does not, and what is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from standin_hub import standin_hub

import longtail
from longtail import recipes
from longtail.data.dataset import Dataset
from longtail.data.holdout import with_test_split
from longtail.errors import BadInput
from longtail.hub.exchange import pull, push
from longtail.model import Bundle, Ensemble, LabelSet, Model, Reranker, exporting, load, open_model
from longtail.model.exports import open_to_answer, transformers_of
from longtail.model.label_set import NewLabel
from longtail.modules.cross_encoder import CrossEncoder
from longtail.modules.encoders.named import load_encoder
from longtail.modules.exported import ExportedBackbone
from longtail.modules.linker import Linked
from longtail.search.fusion import Fusion

pytest.importorskip("onnxruntime", reason="needs the extra onnx")

CPU = torch.device("cpu")
QUICK = {"epochs": 0, "batch": 16, "max_length": 16, "device": "cpu"}
TEXTS = ["red fish", "blue", "one two bird", "green bird"]


def data() -> Dataset:
    names = ["red", "green", "blue", "fish", "bird", "one", "two"]
    rows = [(one, other) for one in range(7) for other in range(7)]
    texts = [f"{names[one]} {names[other]}" for one, other in rows]
    made = Dataset.from_texts(texts, [sorted({one, other}) for one, other in rows], names)
    return with_test_split(made, 12, 0)[0]


@pytest.fixture(scope="module")
def trained_run(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a tiny transformer, and its data set."""
    folder = tmp_path_factory.mktemp("exporting")
    data().write(folder / "set")
    recipes.dpr(Dataset.read(folder / "set"), encoder=str(tiny_bert), out=folder / "run", **QUICK)
    return folder / "run"


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


@pytest.fixture(scope="module")
def exported_run(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, exported; not to be changed."""
    run = Path(shutil.copytree(trained_run, tmp_path_factory.mktemp("exported") / "run"))
    longtail.export(run)
    return run


def encodes_by_export(model: Model) -> list[bool]:
    return [isinstance(encoder.backbone, ExportedBackbone) for encoder in transformers_of(model)]


def test_an_export_is_measured_and_ranks_as_before(run: Path) -> None:
    before = load(run, device="cpu").predict(TEXTS, k=7)
    found = longtail.export(run)
    assert (found.asked, found.of_labels, found.numbers) == (12, False, "float32")
    assert found.folders == (run / "model" / "encoder" / "onnx",)
    assert found.before.recall == found.after.recall > 0
    assert found.same == 1
    assert found.difference < 1e-5
    assert min(*found.before, *found.after) > 0
    for model in (load(run, device="cpu"), load(run, device="cpu", changes=False)):
        assert encodes_by_export(model) == [True]
        after = model.predict(TEXTS, k=7)
        assert after.uids.tolist() == before.uids.tolist()
        np.testing.assert_allclose(after.scores, before.scores, atol=1e-5)
    shutil.rmtree(found.folders[0])
    assert encodes_by_export(load(run, device="cpu")) == [False]


def test_another_export_takes_its_place_and_is_asked_of_labels_where_documents_are_gone(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longtail.export(run)
    monkeypatch.setattr(exporting, "settings_of", lambda _: {"data": str(run / "gone")})
    found = longtail.export(run, int8=True, tolerance=1)
    assert (found.asked, found.of_labels, found.numbers) == (7, True, "int8")
    assert sorted(path.name for path in found.folders[0].iterdir()) == ["export.json", "model_quantized.onnx"]
    assert 0 < found.difference < 0.3
    assert not [path for path in run.rglob("*") if path.name.startswith(".onnx")]
    assert encodes_by_export(load(run, device="cpu")) == [True]


def test_one_that_ranks_less_well_is_not_kept_and_an_earlier_one_stays(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = longtail.export(run).folders
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    recalls = [80.0, 79.0, 80.0, 79.0]
    monkeypatch.setattr(exporting, "metrics_of", lambda *_, **__: {"R@5": recalls.pop(0)})
    with pytest.raises(BadInput) as error:
        longtail.export(run, int8=True)
    assert str(error.value) == (
        "tolerance: expected a recall@5 of 0.7990 or more on 12 texts, found 0.7900: nothing was kept; give more, or "
        "leave int8 out"
    )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == written
    assert longtail.export(run, int8=True, tolerance=0.02).numbers == "int8"
    with pytest.raises(BadInput, match="tolerance: expected a share in 0 to 1, found 2; change it"):
        longtail.export(run, tolerance=2)


def test_what_is_stopped_or_killed_leaves_no_half_of_an_export(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def files() -> set[str]:
        return {path.relative_to(run).as_posix() for path in run.rglob("*")}

    def stopped(*_: object) -> NoReturn:
        written.extend(files() - before)
        raise KeyboardInterrupt

    before, written = files(), list[str]()
    with monkeypatch.context() as patched:
        patched.setattr(exporting, "_compared", stopped)
        with pytest.raises(KeyboardInterrupt):
            longtail.export(run)
    assert files() == before
    (half,) = (name for name in written if name.endswith(".partial"))
    process, host = str(os.getpid()), half.partition("@")[2]
    killed = run / half.replace(f"{process}@{host}", f"999999999@{host}")  # which was not asked
    killed.mkdir()
    (killed / "model.onnx").write_bytes(b"half")
    assert encodes_by_export(load(run, device="cpu")) == [False]
    longtail.export(run)
    assert files() - before == {f"model/encoder/onnx{name}" for name in ("", "/export.json", "/model.onnx")}


def test_what_trains_neither_uses_nor_carries_it(exported_run: Path, tmp_path: Path) -> None:
    assert encodes_by_export(open_model(exported_run / "model", device=CPU)) == [False]
    options = QUICK | {"epochs": 1}
    from_folder = recipes.dpr(
        data(), encoder=str(exported_run / "model" / "encoder"), out=tmp_path / "folder", **options
    )
    assert encodes_by_export(from_folder) == [False]
    recipes.ngame(
        data(), encoder="transformer", start=str(exported_run), classifier_epochs=0, out=tmp_path / "start", **options
    )
    assert not [*(tmp_path / "folder").rglob("onnx"), *(tmp_path / "start").rglob("onnx")]
    assert encodes_by_export(load(tmp_path / "folder", device="cpu")) == [False]


def test_labels_are_added_and_compacted_with_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longtail.export(run)
    labels = LabelSet(run, device="cpu")
    labels.add([NewLabel("new", "green fish")])
    labels.compact()
    labels.close()
    (folder,) = run.glob("model-*")
    assert encodes_by_export(load(run, device="cpu")) == [True]
    assert load(run, device="cpu").predict(["green fish"], k=1)[0][0].uid == "new"
    (again,) = longtail.export(run).folders
    assert again == folder / "encoder" / "onnx"
    labels = LabelSet(run, device="cpu")
    labels.add([NewLabel("newer", "green one")])
    with monkeypatch.context() as patched:  # as on a machine without onnxruntime, or with a GPU
        patched.setattr("longtail.model.label_set.open_to_answer", open_model)
        labels.compact()
    labels.close()
    assert encodes_by_export(load(run, device="cpu")) == [True]


def ensemble(model: Bundle, tiny_bert: Path) -> Model:
    return Ensemble(model, open_model(Path(model.encoder.name).parent, device=CPU))


def reranker(model: Bundle, tiny_bert: Path) -> Model:
    encoder = CrossEncoder(tiny_bert, max_length=16).eval()
    model = model.fused_by(Fusion(np.outer([1.0, 0], [1.0, 0, 0]), np.zeros(7, np.int64)))
    return Reranker(model, encoder, np.outer([1.0, 0.5, 0], [1.0, 0, 0]), 5, {})


def linked(model: Bundle, tiny_bert: Path) -> Model:
    linker = open_model(Path(model.encoder.name).parent, device=CPU)
    return Bundle(
        *(model.recipe, model.encoder, model.fields, model.labels, model.vectors, None, CPU),
        linked=Linked(linker, 2, None),
    )


@pytest.mark.parametrize(
    ("made", "folders"),
    [
        (ensemble, ("first/encoder", "second/encoder")),
        (reranker, ("first_stage/encoder", "cross_encoder")),
        (linked, ("encoder", "linker/encoder")),
    ],
)
def test_every_transformer_of_a_model_is_exported(
    run: Path, tiny_bert: Path, made: Callable[[Bundle, Path], Model], folders: tuple[str, ...]
) -> None:
    model = open_model(run / "model", device=CPU)
    assert isinstance(model, Bundle)
    made(model, tiny_bert).save(run / "made")
    shutil.rmtree(run / "model")
    (run / "made").rename(run / "model")
    before = load(run, device="cpu").predict(TEXTS, k=7)
    found = longtail.export(run)
    assert found.folders == tuple(run / "model" / name / "onnx" for name in folders)
    assert found.difference < 1e-5
    opened = load(run, device="cpu")
    assert encodes_by_export(opened) == [True, True]
    np.testing.assert_allclose(opened.predict(TEXTS, k=7).scores, before.scores, atol=1e-5)


def test_fields_apart_share_one_export(tiny_bert: Path, tmp_path: Path) -> None:
    texts = [{"title": text, "content": other} for text, other in zip(TEXTS, TEXTS[::-1], strict=True)]
    whole = Dataset.from_texts(texts * 4, [[0], [1], [2], [3]] * 4, TEXTS)
    apart = {"fields": ("title", "content"), "fields_apart": True}
    recipes.dpr(whole, encoder=str(tiny_bert), out=tmp_path, **QUICK, **apart)
    before = load(tmp_path, device="cpu").predict(texts)
    assert longtail.export(tmp_path).folders == (tmp_path / "model" / "encoder" / "onnx",)
    opened = load(tmp_path, device="cpu")
    assert encodes_by_export(opened) == [True]
    np.testing.assert_allclose(opened.predict(texts).scores, before.scores, atol=1e-5)


def test_a_model_without_a_transformer_has_nothing_to_export(tmp_path: Path) -> None:
    recipes.dpr(data(), epochs=0, width=8, out=tmp_path, device="cpu")
    with pytest.raises(BadInput, match=r"model: expected a model with a transformer, found one of dpr without; there"):
        longtail.export(tmp_path)
    with pytest.raises(BadInput, match="expected the card of a trained model, found no such file; train it first"):
        longtail.export(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_it_is_not_pushed_and_not_pulled(exported_run: Path, tmp_path: Path) -> None:
    with standin_hub() as hub:
        push(exported_run, "someone/it", endpoint=hub.endpoint)
        names = hub.files["someone/it"]
        assert "model/encoder/model.safetensors" in names
        assert not [name for name in names if "onnx" in name]
        for path in (exported_run / "model" / "encoder" / "onnx").iterdir():
            names[f"model/encoder/onnx/{path.name}"] = path.read_bytes()
        pull("someone/it", tmp_path / "pulled", endpoint=hub.endpoint)
    assert not [*(tmp_path / "pulled").rglob("onnx")]


def test_a_run_may_be_moved_and_another_device_takes_the_weights(exported_run: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(exported_run, tmp_path / "moved"))
    assert encodes_by_export(load(moved, device="cpu")) == [True]
    on_a_card = torch.device("meta")  # which has no numbers, as there may be no card

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("longtail.model.exports.open_model", lambda folder, device: open_model(folder, device=CPU))
        assert encodes_by_export(open_to_answer(moved / "model", device=on_a_card)) == [False]


def test_a_broken_export_is_one_line_of_the_command_line(exported_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(exported_run, tmp_path / "broken"))
    file = run / "model" / "encoder" / "onnx" / "model.onnx"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BadInput, match=r"onnx/model\.onnx: expected SHA-256 .*; export it again \(longtail export\)"):
        load(run, device="cpu")
    assert load_encoder("transformer", file.parents[1]).width == 32  # for training
    longtail.export(run)
    assert encodes_by_export(load(run, device="cpu")) == [True]
