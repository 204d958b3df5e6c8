"""Steps in shards: the losses of the whole batch, and one result, bit by bit, for any number of processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_bert import WORDS

from longtail.data.dataset import Dataset
from longtail.data.texts import Texts
from longtail.recipes import RECIPES
from longtail.testing.planted import planted
from longtail.train.log import Log

from .of_ranks import COMMON, MORE, digest

HERE = Path(__file__).parent
PLAIN: dict[str, dict[str, Any]] = {  # without random numbers in a step, of which each shard has its own
    "dpr": {},
    "simcse": {"left_out": 0.0},
    "dexa": {"own_vectors": 20, "classifier_epochs": 0},
    "depsl": MORE["depsl"],
    "unidec": {**MORE["unidec"], "dropout": 0.0},
    "ramen": {**MORE["ramen"], "graph_share": 0.5},
    "oak": {**MORE["oak"], "attention_dropout": 0.0, "train_links": "true", "classifier_epochs": 0},
    "graphsage": {**MORE["oak"], "plain_weight": 1.0, "train_links": "true", "classifier_epochs": 0},
    "unidec with nodes": {**MORE["unidec with nodes"], "dropout": 0.0, "attention_dropout": 0.0},
    "dexml": MORE["dexml"],
    "siamesexml": {"classifier_epochs": 0, "batch": 20},
    "cascadexml": {"branching": 1, "dropout": 0.0},
    "elias": {"start_epochs": 1, "dropout": 0.0},
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
        monkeypatch.setattr(Log, "step", lambda _, terms, rows, *__, to=steps: to.append((dict(terms), rows)))
        RECIPES[recipe.partition(" ")[0]](dataset, shards=shards, **{**COMMON, "epochs": 1, **PLAIN[recipe]})
    if "linker_epochs" in PLAIN[recipe]:  # of a linker that drops numbers at random
        seen = {shards: [step for step in steps if len(step[0]) > 2] for shards, steps in seen.items()}
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


ALWAYS = ("unidec", "unidec with separators", "depsl", "ngame", "dexml", "renee", "ramen", "oak", "astec")
"""The others, and four processes, are in `make bench`."""


def test_two_processes_train_what_one_does_bit_by_bit(data: Path) -> None:
    alone = {recipe: digest(recipe, data, 4) for recipe in ALWAYS}
    assert by_processes(2, data, 4, [*ALWAYS]) == alone
    assert digest("unidec", data, 3) != alone["unidec"], "shards have random numbers of their own"


@pytest.fixture(scope="module")
def in_few_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of the words that the tiny transformer knows."""

    def of(texts: Texts) -> Texts:
        return Texts.of([" ".join(WORDS[5 + sum(map(ord, word)) % 8] for word in text.split()) for text in texts])

    folder, whole = tmp_path_factory.mktemp("data") / "words", planted(0, documents=200, labels=40).dataset
    train, test = (replace(split, documents=of(split.documents.fields["title"])) for split in (whole.train, whole.test))
    replace(whole, train=train, test=test, labels=of(whole.labels.fields["title"])).write(folder)
    return folder


TRANSFORMERS = ("depsl", "unidec", "dexml")  # one head; two, one of which is a linear map; gradient caching


@pytest.mark.parametrize("recipe", TRANSFORMERS)
def test_a_transformer_has_the_gradients_of_the_whole_batch(
    recipe: str, in_few_words: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_bert, tmp_path / "bert")
    config = tmp_path / "bert" / "config.json"
    plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # each shard has its own
    config.write_text(json.dumps(json.loads(config.read_text()) | plain))
    dataset, seen = Dataset.read(in_few_words), {1: [], 4: []}
    for shards, steps in seen.items():
        monkeypatch.setattr(Log, "step", lambda _, terms, *__, to=steps: to.append(dict(terms)))
        options = {
            **COMMON,
            **MORE[recipe],
            "epochs": 1,
            "batch": 40,
            "encoder": str(config.parent),
            "random_negatives": 8,
        }
        options |= {"random_negatives": None} if recipe == "dexml" else {}
        options |= {"dropout": 0.0} if recipe == "unidec" else {}
        RECIPES[recipe](dataset, shards=shards, **options, learning_rate=3e-3)
    for terms, of_shards in zip(seen[1], seen[4], strict=True):
        assert of_shards == pytest.approx(terms, rel=2e-3)
    assert max(abs(seen[1][-1][name] / seen[1][0][name] - 1) for name in seen[1][0]) > 5e-3, "something was learned"


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_a_transformer_comes_out_the_same_for_any_number_of_processes(
    count: int, in_few_words: Path, tiny_bert: Path
) -> None:
    names = [f"{recipe}:{tiny_bert}" for recipe in TRANSFORMERS]
    alone = {name: digest(name, in_few_words, 4) for name in names}
    assert by_processes(count, in_few_words, 4, names) == alone


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_every_recipe_comes_out_the_same_for_any_number_of_processes(count: int, data: Path) -> None:
    alone = {recipe: digest(recipe, data, 4) for recipe in MORE}
    assert by_processes(count, data, 4, list(MORE)) == alone
