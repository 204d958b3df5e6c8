"""Rerank: a cross-encoder over any trained run, which ranks its first labels anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtail.data.dataset import Dataset
from longtail.model import Model
from longtail.stages.rerank import rerank as page
from longtail.train.progress import settings_of
from longtail.train.run import Run

RUNS = ("validation", "seed", "prefer", "tail_price")  # options that are those of the run


def rerank(
    first_stage: str | Path,
    dataset: Dataset,
    *,
    encoder: str = "minilm",
    out: str | Path | Run | None = None,
    **given: Any,
) -> Model:
    """Rank the first labels of a trained run anew, by a cross-encoder; ``longtail rerank`` is this.

    Examples:
        >>> longtail.rerank("runs/demo", dataset, encoder="minilm", out="runs/reranked")  # doctest: +SKIP

    Args:
        first_stage: the folder of a finished run, of any recipe or an ensemble, that held documents out.
        dataset: that it was trained on.
        encoder: a cross-encoder, by name or folder, or any other transformer, which is trained to be one.
        out: the run folder; nothing is written if left out.
        **given: other options of `longtail.stages.rerank.RerankOptions`.

    Raises:
        BadInput: there is no such run, encoder or option, or the run has no documents that it has not seen.
    """
    found: Model = page(dataset, out=out, **{**asked(first_stage), "encoder": encoder, **given})
    return found


def asked(first_stage: str | Path) -> Mapping[str, Any]:
    """What the options of a reranking are that come from the run."""
    folder = Path(first_stage).resolve()
    arguments = settings_of(folder)["arguments"]
    own = {name: arguments[name] for name in RUNS if arguments.get(name) is not None}
    return {"validation": 0.0, **own, "first_stage": str(folder)}
