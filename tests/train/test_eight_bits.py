"""Moments in 8 bits: near those of torch's AdamW, a quarter of their bytes, and the same once they were saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from longtail.errors import MissingExtra
from longtail.modules.encoders.layers import groups_by_layer
from longtail.train import eight_bits
from longtail.train.checkpoint import save_state, state_in
from longtail.train.optimizer import AdamW

pytest.importorskip("bitsandbytes", reason="needs the extra eight-bit")
SHAPE = 24, 50  # not a number of whole blocks
SETTINGS = {"betas": (0.8, 0.95), "weight_decay": 0.1}


def numbers(seed: int) -> Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))


def in_eight_bits(parameter: nn.Parameter, learning_rate: float = 0.02) -> AdamW:
    return AdamW([{"params": [parameter], "eight_bits": True}], learning_rate, epsilon=1e-6, **SETTINGS)


def steps(parameter: nn.Parameter, optimizer: torch.optim.Optimizer, which: range) -> Iterator[Tensor]:
    for step in which:
        parameter.grad = numbers(step) + numbers(-1)
        optimizer.step()
        yield parameter.detach().clone()


def test_updates_are_those_of_torch_but_for_rounding() -> None:
    ours, theirs = (nn.Parameter(numbers(0)) for _ in range(2))
    by_torch = torch.optim.AdamW([theirs], 0.02, eps=1e-6, foreach=False, **SETTINGS)
    mine = list(steps(ours, in_eight_bits(ours), range(1, 31)))
    other = list(steps(theirs, by_torch, range(1, 31)))
    torch.testing.assert_close(mine[0], other[0], rtol=1e-5, atol=1e-6)  # nothing was rounded before
    moved = (other[-1] - numbers(0)).norm()
    assert 1e-4 < (mine[-1] - other[-1]).norm() / moved < 0.05


def test_moments_take_two_bytes_a_number_and_scales() -> None:
    parameter = nn.Parameter(numbers(0))
    optimizer = in_eight_bits(parameter)
    list(steps(parameter, optimizer, range(1)))
    held = {name: value for name, value in optimizer.state[parameter].items() if name != "step"}
    assert {name: value.dtype for name, value in held.items()} == {
        "exp_avg": torch.uint8,
        "exp_avg_sq": torch.uint8,
        "scale": torch.float32,
        "scale_sq": torch.float32,
    }
    assert sum(value.nbytes for value in held.values()) == 2 * 1200 + 2 * 4 * 5  # of 5 blocks
    assert all((value > 0).all() for name, value in held.items() if "scale" in name)


def test_it_goes_on_bit_by_bit_from_what_was_saved(tmp_path: Path) -> None:
    whole = nn.Parameter(numbers(0))
    *_, end = steps(whole, in_eight_bits(whole), range(8))
    first = nn.Parameter(numbers(0))
    optimizer = in_eight_bits(first)
    list(steps(first, optimizer, range(5)))
    save_state(tmp_path / "state.safetensors", optimizer.state_dict())
    rest = nn.Parameter(first.detach().clone())
    resumed = in_eight_bits(rest)
    with state_in(tmp_path / "state.safetensors") as saved:
        resumed.load_state_dict(saved)
    assert resumed.state[rest]["exp_avg"].dtype == torch.uint8
    *_, found = steps(rest, resumed, range(5, 8))
    assert torch.equal(found, end)


def test_no_step_size_changes_nothing() -> None:
    parameter = nn.Parameter(numbers(0))
    assert torch.equal(next(steps(parameter, in_eight_bits(parameter, 0.0), range(1))), numbers(0))


def test_matrices_have_them_but_for_embeddings_and_small_ones() -> None:
    sizes = {
        "wte.weight": (100, 64),
        "embedding_projection.weight": (64, 64),
        "encoder.layer.0.attention.weight": (64, 64),
        "encoder.layer.0.attention.bias": (64,),
        "encoder.layer.1.small.weight": (63, 65),
        "encoder.layer.1.wide.bias": (5000,),
    }
    named = [(name, nn.Parameter(torch.zeros(size))) for name, size in sizes.items()]
    asked = {"tables": [named[0][1]], "layer_decay": 1.0, "weight_decay": 0.0}
    groups = groups_by_layer(named, 2, 1e-3, **asked, in_eight_bits=True)
    small = {id(parameter) for group in groups if group["eight_bits"] for parameter in group["params"]}
    matrices = ["embedding_projection.weight", "encoder.layer.0.attention.weight"]
    assert [name for name, parameter in named if id(parameter) in small] == matrices
    (everything,) = groups_by_layer(named, 2, 1e-3, **asked, in_eight_bits=False)
    assert not everything["eight_bits"]
    assert len(everything["params"]) == 6


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes.functional", None)
    with pytest.raises(MissingExtra, match=r"bitsandbytes; pip install 'longtail\[eight-bit\]'"):
        eight_bits.must_be_installed()
