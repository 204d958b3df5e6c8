"""A run of several shards keeps the rows of its tables shard by shard, and is stopped at any moment without a loss."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from longtail import Dataset
from longtail.errors import BadInput
from longtail.recipes import unidec
from longtail.testing.planted import planted
from longtail.train import checkpoint as checkpoint_module
from longtail.train.checkpoint import load_state
from longtail.train.run import Run
from longtail.train.together import Together, _Swapped

SMALL: dict[str, Any] = {"batch": 64, "random_negatives": 32, "width": 8, "epochs": 2, "warmup": 5, "device": "cpu"}
SMALL |= {"refresh_from": 1, "refresh_every": 1, "refit": False, "shards": 4}


class Stop(Exception):
    pass


@pytest.fixture(scope="module")
def data() -> Dataset:
    return planted(0, documents=320, test_documents=20, labels=42).dataset


def train(data: Dataset, run: Path) -> dict[str, bytes]:
    unidec(data, out=Run(run, interval=0.0), **SMALL)
    return {str(file.relative_to(run)): file.read_bytes() for file in (run / "model").rglob("*.safetensors")}


@pytest.fixture(scope="module")
def whole(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return train(data, tmp_path_factory.mktemp("whole"))


def stopped(data: Dataset, run: Path, monkeypatch: pytest.MonkeyPatch, *, after: int = 3) -> None:
    """Leave a run as one that was killed so many steps on has left it."""
    taken, plain = 0, Together.step

    def step(*arguments: Any, **options: Any) -> Any:
        nonlocal taken
        if taken == after:
            raise Stop
        taken += 1
        return plain(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Together, "step", step)
        with pytest.raises(Stop):
            train(data, run)


def rows_of(run: Path) -> dict[str, list[dict[str, Any]]]:
    """By file, what shards have kept of each table."""
    return {path.name: load_state(path)["tables"] for path in sorted((run / "stages").glob("*.rows-*"))}


def test_each_shard_keeps_its_own_rows_and_the_checkpoint_has_none(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(data, tmp_path, monkeypatch)
    kept = rows_of(tmp_path)
    assert [*kept] == [f"joint.rows-0-3-{shard}.safetensors" for shard in range(4)]
    of_labels = [table for tables in kept.values() for table in tables[-1:]]
    assert [len(table["rows"]) for table in of_labels] == [11, 11, 10, 10]  # row i is that of shard i mod 4
    assert all(
        len(table[name]) == len(table["rows"])
        for tables in kept.values()
        for table in tables
        for name in ("exp_avg", "exp_avg_sq")
    )
    state = load_state(tmp_path / "stages" / "joint.checkpoint.safetensors")["parts"]
    assert {value.numel() for value in tensors(state) if value.dim() == 2} == {0}


def tensors(state: Any) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list) else ()
    return [value for part in parts for value in tensors(part)]


@pytest.mark.parametrize("after", [1, 4, 6])
def test_a_run_that_is_stopped_ends_as_an_unbroken_one_and_leaves_no_rows(
    after: int, data: Dataset, whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(data, tmp_path, monkeypatch, after=after)
    assert rows_of(tmp_path)
    assert train(data, tmp_path) == whole
    assert not rows_of(tmp_path)


def test_rows_count_once_the_checkpoint_is_there_that_they_belong_to(
    data: Dataset, whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, written = checkpoint_module.save_state, []

    def dies_before_the_checkpoint(path: Path, state: Any) -> None:
        written.append(path.name)
        if written.count("joint.checkpoint.safetensors") == 3:
            raise Stop
        plain(path, state)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "save_state", dies_before_the_checkpoint)
        with pytest.raises(Stop):
            train(data, tmp_path)
    assert Counter(name[:14] for name in rows_of(tmp_path)) == {"joint.rows-0-2": 4, "joint.rows-0-3": 4}
    stopped(data, tmp_path, monkeypatch, after=2)  # from the second step on: the end of the epoch
    assert Counter(name[:14] for name in rows_of(tmp_path)) == {"joint.rows-1-0": 4}
    assert train(data, tmp_path) == whole


def test_rows_that_are_lost_are_named_with_what_to_do(
    data: Dataset, whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(data, tmp_path, monkeypatch)
    (tmp_path / "stages" / "joint.rows-0-3-2.safetensors").unlink()
    with pytest.raises(BadInput, match=r"joint\.rows-0-3-2\.safetensors: expected .*, found no such file") as refused:
        train(data, tmp_path)
    name = re.findall(r"remove (\S+) beside it, and resume", str(refused.value))
    (tmp_path / "stages" / name[0]).unlink()
    assert train(data, tmp_path) == whole


@pytest.mark.parametrize("count", [3, 8])
def test_a_buffer_that_no_shard_changes_stays_as_it_is_and_others_become_the_mean(count: int) -> None:
    module = torch.nn.Module()
    fixed = torch.cat([torch.rand(50, generator=torch.Generator().manual_seed(0)), torch.tensor([-torch.inf, 3e38])])
    module.register_buffer("fixed", fixed.clone())
    module.register_buffer("moved", torch.zeros(2))
    for _ in range(20):
        swapped = _Swapped(count, [], [(module, "fixed"), (module, "moved")], torch.device("cpu"))
        for place in range(count):
            swapped(place)
            module.get_buffer("moved").add_(place)
        swapped.take(torch.stack(swapped.states()).sum(0), count)
    assert torch.equal(module.get_buffer("fixed"), fixed)
    torch.testing.assert_close(module.get_buffer("moved"), torch.full((2,), 20 * (count - 1) / 2))
