"""Train recipes in several processes, and print what came out: a program of `tests/recipes/test_shards.py`.

torchrun ... tests/recipes/of_ranks.py DATA SHARDS RECIPE...
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from longtail.data.dataset import Dataset
from longtail.ranks import ranks
from longtail.recipes import RECIPES

COMMON: dict[str, Any] = {"epochs": 2, "batch": 100, "random_negatives": 32, "width": 16, "warmup": 5}
COMMON |= {"max_length": 16, "device": "cpu"}
MORE: dict[str, dict[str, Any]] = {
    "unidec": {"hard_negatives": 2, "refresh_from": 1, "refresh_every": 1, "refit": False},
    "unidec with separators": {"separators": 8, "refit": False},
    "depsl": {"hard_negatives": 2, "refresh_from": 1, "refresh_every": 1, "symmetric": True},
    "simcse": {},
    "dexa": {"cluster_from": 1, "classifier_epochs": 1, "own_vectors": 20},
    "ngame": {"cluster_from": 1, "classifier_epochs": 1},
    "ramen": {"base": "ance", "refresh_from": 1, "graph_weights": "bandit:0.03", "graph_redraw": 2},
    "oak": {"linker_epochs": 1, "classifier_epochs": 1, "folds": 2, "calibration_weight": 0.1},
    "unidec with nodes": {"enrich": "topic", "graphs": ("all",), "linker": "ngame", "linker_epochs": 1, "refit": False},
    "astec": {"classifier_epochs": 1},
    "renee": {"start_epochs": 1, "momentum": 0.9, "bfloat16": True},
    "dexml": {"random_negatives": None, "labels_at_once": 50},
    "inceptionxml": {"epochs": 1, "detached_epochs": 1},
    "attentionxml": {"levels": 2, "branching": 2, "hidden": 8},
    "lightxml": {},
    "cascadexml": {"branching": 1},
    "elias": {"start_epochs": 1},
}


def digest(recipe: str, data: Path, shards: int, **more: Any) -> str:
    """The SHA-256 of all vectors of a model, and of the documents that it encodes.

    Args:
        recipe: its name, as in `MORE`, and that of an encoder behind a colon, if it is another than the recipe's.
        data: the data set folder.
        shards: of the run.
        more: options.
    """
    name, _, encoder = recipe.partition(":")
    options = {**COMMON, **MORE[name], **({"encoder": encoder} if encoder else {}), **more}
    dataset = Dataset.read(data)
    model = RECIPES[name.partition(" ")[0]](dataset, shards=shards, **options)
    found = hashlib.sha256()
    for vectors in (*(model.vectors[kind] for kind in sorted(model.vectors)), model.encode(dataset.test.documents)):
        found.update(np.ascontiguousarray(vectors).tobytes())
    return found.hexdigest()


def main() -> None:
    """Print a digest of each recipe's model."""
    torch.set_num_threads(1)
    data, shards, *recipes = sys.argv[1:]
    found = {recipe: digest(recipe, Path(data), int(shards)) for recipe in recipes}
    if ranks().first:
        print(json.dumps({"world": ranks().world, "digests": found}))


if __name__ == "__main__":
    main()
