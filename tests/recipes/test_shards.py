"""Steps in shards: the losses of the whole batch, and one result, bit by bit, for any number of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from longtail.recipes import RECIPES
from longtail.testing.planted import planted
from longtail.train.log import Log

from .of_ranks import COMMON, MORE, digest

HERE = Path(__file__).parent
PLAIN: dict[str, dict[str, Any]] = {  # without random numbers in a step, of which each shard has its own
    "dpr": {},
    "depsl": MORE["depsl"],
    "unidec": {**MORE["unidec"], "dropout": 0.0},
    "ramen": {**MORE["ramen"], "graph_share": 0.5},
    "oak": {**MORE["oak"], "attention_dropout": 0.0, "train_links": "true", "classifier_epochs": 0},
    "dexml": MORE["dexml"],
    "siamesexml": {"classifier_epochs": 0, "batch": 20},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "planted"
    planted(0, documents=600, test_documents=60, labels=120).dataset.write(folder)
    return folder


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("recipe", PLAIN)
def test_the_terms_of_all_shards_are_those_of_the_whole_batch(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = planted(0, documents=600, test_documents=60, labels=120).dataset
    seen: dict[int, list[tuple[dict[str, float], int]]] = {1: [], 3: []}
    for shards, steps in seen.items():
        monkeypatch.setattr(Log, "step", lambda _, terms, rows, __, to=steps: to.append((dict(terms), rows)))
        RECIPES[recipe](dataset, shards=shards, **{**COMMON, "epochs": 1, **PLAIN[recipe]})
    if recipe == "oak":  # whose linker drops numbers at random
        seen = {shards: [step for step in steps if "enriched" in step[0]] for shards, steps in seen.items()}
    assert len(seen[1]) == len(seen[3]) >= 4
    for (terms, rows), (of_shards, of_all) in zip(seen[1], seen[3], strict=True):
        assert rows == of_all
        assert of_shards == pytest.approx(terms, rel=2e-3, abs=1e-5)


def by_processes(count: int, data: Path, shards: int, recipes: list[str]) -> dict[str, str]:
    """The digests of models that several processes train together."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    command += [str(HERE / "of_ranks.py"), str(data), str(shards), *recipes]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["world"] == count
    return dict(said["digests"])


def test_two_processes_train_what_one_does_bit_by_bit(data: Path) -> None:
    recipes = ["unidec", "ramen"]
    alone = {recipe: digest(recipe, data, 2) for recipe in recipes}
    assert by_processes(2, data, 2, recipes) == alone
    assert digest("unidec", data, 3) != alone["unidec"], "shards have random numbers of their own"


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_every_recipe_comes_out_the_same_for_any_number_of_processes(count: int, data: Path) -> None:
    alone = {recipe: digest(recipe, data, 4) for recipe in MORE}
    assert by_processes(count, data, 4, list(MORE)) == alone
