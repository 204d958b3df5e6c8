"""The settings of a run are those that were written, or are refused in one line."""

from __future__ import annotations

import json
import re

import pytest
import torch
from broken import flipped

from longtail.errors import BadInput
from longtail.train import checkpoint
from longtail.train import progress as module
from longtail.train.checkpoint import save_state
from longtail.train.log import Log
from longtail.train.progress import SCHEMA, Progress, settings_of

SETTINGS = {
    "recipe": "dpr",
    "arguments": {"validation": 0.0, "epochs": 30, "fields": ["title"], "learning_rate": None, "weight": 0.1},
    "data": "/data/news",
    "hashes": {"targets": "ab12", "documents": "cd34"},
    "versions": {"longtail": "0.1.0"},
}


@pytest.fixture
def path(tmp_path):
    progress = Progress(tmp_path, Log())
    progress.describe(SETTINGS, {})
    progress.claim()
    return tmp_path / "run.json"


def what_decides(settings):
    return {name: settings[name] for name in ("recipe", "arguments", "hashes")}


def test_a_byte_that_has_flipped_anywhere_is_refused_or_decides_nothing(path):
    whole, refused = path.read_bytes(), []
    for offset in range(len(whole)):
        for bit in range(8):
            path.write_bytes(flipped(whole, offset, bit))
            try:
                assert what_decides(settings_of(path.parent)) == what_decides(SETTINGS), (offset, bit)
            except BadInput as error:
                refused.append(str(error))
    assert len(refused) > 2000
    assert all(re.fullmatch(rf"{path}: expected [^\n]*; [^\n]*", line) for line in refused)


@pytest.mark.parametrize("length", [0, 1, 100, -2])
def test_settings_that_are_cut_are_refused(path, length):
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BadInput, match=r"run\.json: expected JSON, found .*; put the file back"):
        settings_of(path.parent)


def test_the_folder_of_the_data_may_be_another_and_an_option_may_not(path):
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"data": "/moved"}))
    assert settings_of(path.parent) == {"schema": SCHEMA, **SETTINGS, "data": "/moved"}
    path.write_text(json.dumps(said | {"arguments": SETTINGS["arguments"] | {"epochs": 31}}))
    with pytest.raises(BadInput, match="expected another recipe, arguments, hashes"):
        settings_of(path.parent)


def test_settings_of_earlier_versions_have_no_checksum(path):
    path.write_text(json.dumps(SETTINGS))
    assert settings_of(path.parent) == {"schema": 1, **SETTINGS}


def test_options_that_earlier_versions_had_at_their_defaults_are_left_out(path):
    old = SETTINGS | {"arguments": SETTINGS["arguments"] | {"windows": 1, "window_pooling": "mean", "stride": 4}}
    path.write_text(json.dumps(old | {"schema": 2}))
    assert settings_of(path.parent)["arguments"] == SETTINGS["arguments"] | {
        "windows": None,
        "window_pooling": None,
        "stride": 4,
    }
    path.write_text(json.dumps(old | {"schema": SCHEMA}))
    assert settings_of(path.parent)["arguments"]["windows"] == 1


@pytest.mark.parametrize(
    ("recipe", "given", "kept"),
    [
        ("dpr", {}, 0.0),
        ("ngame", {"classifier_epochs": 0, "validation": 0.05}, 0.0),
        ("ngame", {"classifier_epochs": 6, "validation": 0.05}, 0.05),
        ("ramen", {"base": "ance", "validation": 0.05}, 0.0),
        ("oak", {"base": "ngame", "classifier_epochs": 0, "validation": 0.05}, 0.05),  # held out, and not used
        ("astec", {"classifier_epochs": 0, "validation": 0.05}, 0.05),
    ],
)
def test_an_encoder_alone_held_nothing_out_in_earlier_versions(path, recipe, given, kept):
    old = SETTINGS | {"recipe": recipe, "arguments": given}
    path.write_text(json.dumps(old | {"schema": 3}))
    assert settings_of(path.parent)["arguments"]["validation"] == kept
    path.write_text(json.dumps(old | {"schema": SCHEMA}))
    assert settings_of(path.parent)["arguments"] == given


@pytest.mark.parametrize("kind", ["", ".checkpoint"])
@pytest.mark.parametrize("state", [{}, {"encoder": {"weight": torch.ones(2, 3)}}, {"encoder": {}}, {"encoder": 3}])
def test_a_state_of_something_else_is_refused(tmp_path, kind, state):
    whole = state if not kind else {"parts": state, "position": {"epoch": 1, "step": 0}}
    (tmp_path / "stages").mkdir()
    save_state(tmp_path / "stages" / f"encoder{kind}.safetensors", whole)
    progress, modules = Progress(tmp_path, Log()), {"encoder": torch.nn.Linear(3, 3)}
    said = rf"encoder{kind}\.safetensors: expected a state of this stage, found"
    with pytest.raises(BadInput, match=said) as refused:
        progress.finished("encoder", modules) or progress.restore("encoder", modules, {})
    assert "\n" not in str(refused.value)


def test_the_next_checkpoint_is_as_far_as_the_last_one_took_long(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def after(seconds):
        now[0] += seconds

    monkeypatch.setattr(checkpoint, "save_state", lambda *_: after(20))
    usual, always = Progress(tmp_path, Log(), 120), Progress(tmp_path, Log(), 0)
    after(119)
    assert (usual.is_due(), always.is_due()) == (False, True)
    after(1)
    assert usual.is_due()
    for progress in (usual, always):
        progress.checkpoint("joint", {}, {}, {"epoch": 0, "step": 1})
    assert always.is_due()
    after(9 * 20 - 20 - 1)
    assert not usual.is_due()
    after(1)
    assert usual.is_due()
