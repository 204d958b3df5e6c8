"""States are written whole or not at all, and come back as they were."""

from __future__ import annotations

import torch

from longtail.train.checkpoint import load_state, save_state


def test_a_state_comes_back_as_it_was(tmp_path):
    state = {
        "module": {"weight": torch.arange(6.0).reshape(2, 3), "empty": torch.zeros(0, dtype=torch.int64)},
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
