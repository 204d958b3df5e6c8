"""States are written whole or not at all, and come back as they were."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from broken import flipped
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from longtail.errors import BadInput
from longtail.train.checkpoint import load_state, save_state


def test_a_state_comes_back_as_it_was(tmp_path):
    state = {
        "module": {"weight": torch.arange(6.0).reshape(2, 3), "empty": torch.from_numpy(np.zeros(0, np.int64))},
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1, "betas": [0.9, 0.99]}]},
        "position": {"epoch": 2, "step": 7},
        "nothing": None,
        "name": "ünïcode",
    }
    save_state(tmp_path / "state.safetensors", state)
    back = load_state(tmp_path / "state.safetensors")
    assert torch.equal(back["module"]["weight"], state["module"]["weight"])
    assert back["module"]["empty"].dtype == torch.int64
    assert float(back["optimizer"]["state"][0]["step"]) == 3.0
    assert back["optimizer"]["param_groups"] == [{"lr": 0.1, "betas": [0.9, 0.99]}]
    assert (back["position"], back["nothing"], back["name"]) == ({"epoch": 2, "step": 7}, None, "ünïcode")


def test_two_names_of_one_tensor_are_kept_apart(tmp_path):
    shared = torch.ones(4)
    save_state(tmp_path / "state.safetensors", {"a": shared, "b": shared})
    back = load_state(tmp_path / "state.safetensors")
    assert torch.equal(back["a"], back["b"])


def test_tensors_come_back_in_memory_that_is_aligned_as_new_memory_is(tmp_path):
    """A matrix product may round otherwise in other memory, and a resumed run must not."""
    save_state(tmp_path / "state", {f"{i}": torch.ones(i) for i in range(1, 40)})
    tensors = load_state(tmp_path / "state").values()
    assert all(tensor.data_ptr() % 64 == 0 for tensor in tensors)


def a_state():
    """Of a module and its optimiser: some 3 KB."""
    weight = torch.arange(512.0).reshape(64, 8)
    state = {0: {"step": torch.tensor(3.0), "exp_avg": weight / 7, "rows": torch.arange(64)}}
    return {
        "position": {"epoch": 2, "step": 7},
        "parts": {"encoder": {"weight": weight}, "optimizer": {"state": state}},
    }


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_a_byte_that_has_flipped_anywhere_is_refused_or_changes_nothing(tmp_path):
    path = tmp_path / "state.safetensors"
    save_state(path, a_state())
    whole, expected, refused = path.read_bytes(), load_state(path), []
    for offset in [*range(0, len(whole), 64), *range(len(whole) % 64, 1200)]:
        for bit in (0, 5, 7):
            path.write_bytes(flipped(whole, offset, bit))
            try:
                assert same(load_state(path), expected), (offset, bit)
            except BadInput as error:
                refused.append(str(error))
    assert len(refused) > 3000
    line = re.compile(rf"{path}: expected the state that was written, found .*; remove the file, and resume: .*")
    assert all(map(line.fullmatch, refused))


@pytest.mark.parametrize("length", [0, 7, 8, 300, 3000, -1])
def test_a_state_that_is_cut_is_refused(tmp_path, length):
    path = tmp_path / "state.safetensors"
    save_state(path, a_state())
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BadInput, match=r"state\.safetensors: expected the state that was written"):
        load_state(path)


def test_a_state_that_an_earlier_version_wrote_without_a_checksum_is_read(tmp_path):
    path = tmp_path / "state.safetensors"
    save_state(path, a_state())
    expected = load_state(path)
    with safe_open(path, "pt") as file:
        structure = file.metadata()["state"]
    save_file(load_file(path), path, metadata={"state": structure})
    assert same(load_state(path), expected)
    save_file(load_file(path), path, metadata={"state": structure[:-20]})
    with pytest.raises(BadInput, match="expected the state that was written"):
        load_state(path)
