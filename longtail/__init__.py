"""Extreme multi-label classification: rank the few relevant labels of a text out of 10^4 to 10^8."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtail import recipes
    from longtail.bulk.ranker import Ranker
    from longtail.data.dataset import Dataset
    from longtail.errors import LongtailError
    from longtail.model import Bundle, Ensemble, Model, load
    from longtail.model.evaluation import evaluate
    from longtail.model.exporting import export
    from longtail.model.predictions import Predictions
    from longtail.recipes.distil import distil
    from longtail.recipes.rerank import rerank
    from longtail.stages.make_ensemble import ensemble
    from longtail.stages.weigh import weigh
    from longtail.topk import Prediction

__version__ = "0.1.0"
__all__ = [
    "Bundle",
    "Dataset",
    "Ensemble",
    "LongtailError",
    "Model",
    "Prediction",
    "Predictions",
    "Ranker",
    "__version__",
    "distil",
    "ensemble",
    "evaluate",
    "export",
    "load",
    "recipes",
    "rerank",
    "weigh",
]

_HOMES = {
    "Bundle": "longtail.model",
    "Dataset": "longtail.data.dataset",
    "Ensemble": "longtail.model",
    "LongtailError": "longtail.errors",
    "Model": "longtail.model",
    "Prediction": "longtail.topk",
    "Predictions": "longtail.model.predictions",
    "Ranker": "longtail.bulk.ranker",
    "distil": "longtail.recipes.distil",
    "ensemble": "longtail.stages.make_ensemble",
    "evaluate": "longtail.model.evaluation",
    "export": "longtail.model.exporting",
    "load": "longtail.model",
    "rerank": "longtail.recipes.rerank",
    "weigh": "longtail.stages.weigh",
}


def __getattr__(name: str) -> Any:
    """Import the public names at their first use, so that ``longtail --help`` does not wait for PyTorch."""
    if name == "recipes":
        return import_module("longtail.recipes")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
