"""``longtail export``: what it refuses in one line, and what reads an export; `docs/guides/export.md` is run, too."""

from __future__ import annotations

import pytest

import longtail as package
from longtail import recipes
from longtail.data.dataset import Dataset

pytest.importorskip("onnxruntime", reason="needs the extra onnx")


def test_what_is_wrong_is_one_line(longtail, trained, tiny_bert, tmp_path):
    run = tmp_path / "run"
    data = Dataset.from_texts(["red fish", "bird"] * 4, [[0], [1]] * 4, ["fish", "bird"])
    recipes.dpr(data, encoder=str(tiny_bert), epochs=0, batch=4, max_length=16, out=run, device="cpu")
    (folder,) = package.export(run).folders
    (folder / "model.onnx").write_bytes(b"another")
    for arguments, message in (
        (("export", trained), "expected a model with a transformer, found one of ngame without; there is nothing to"),
        (("export", tmp_path / "none"), "expected the card of a trained model, found no such file; train it first"),
        (("predict", run, "--device", "cpu"), "; export it again (longtail export), or remove the folder"),
    ):
        status, output, errors = longtail(*arguments, stdin="red fish\n")
        assert (status, output, errors.count("\n")) == (1, "", 1)
        assert message in errors
