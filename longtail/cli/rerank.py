"""``longtail rerank``: a cross-encoder over a finished run."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from longtail.cli.run_folder import RunFolder, data_of
from longtail.cli.train import Cache, Seconds, Threads, Track, annotation, train_in
from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.options import options_of, parsed
from longtail.recipes.rerank import RUNS, asked
from longtail.stages.recipe import RunOptions
from longtail.stages.rerank import RerankOptions
from longtail.train.log import LOG, Log
from longtail.train.progress import settings_of
from longtail.train.run import Run
from longtail.train.trackers import trackers_named

_GIVEN = {"device", "shards"}  # of the options of every recipe; a reranking has no use for the others


def rerank(
    run: RunFolder,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.", show_default=False)] = None,
    data: Annotated[Path | None, typer.Option(help="The data set folder; the run's if left out.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    checkpoint_every: Seconds = 120.0,
    cache: Cache = None,
    threads: Threads = None,
    track: Track = None,
    **options: Any,
) -> None:
    """Rank the first labels of any trained run anew, by a cross-encoder that reads text and label together.

    It is weighed beside the run's own score on the documents that the run held out, and left out where these do not
    gain by it. The result is a run like any other.
    """
    tracked, given = trackers_named(track), {name: value for name, value in options.items() if value is not None}
    if out is None and not dry_run:
        raise BadInput("out", "expected a folder for the run, found none", remedy="give one, or ask for a dry run")
    if out is not None and (out / "run.json").exists():
        raise BadInput(out, "expected a new folder, found a run", remedy=f"longtail resume {out}, or choose another")
    given = {**asked(run), **given}
    parsed(RerankOptions, "rerank", given)  # before anything is written
    log = Log(None if out is None or dry_run else out / LOG, Console())
    made = Run(out, log, interval=checkpoint_every, dry=dry_run, cache=cache, threads=threads)
    train_in("rerank", Dataset.read(data_of(run, settings_of(run), data)), made, given, tracked)


def _signature() -> inspect.Signature:
    """What is written above, and the options of a reranking."""
    own = inspect.signature(rerank, eval_str=True)
    first = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    left_out = (options_of(RunOptions).keys() - _GIVEN) | {"first_stage", *RUNS}
    kind = inspect.Parameter.KEYWORD_ONLY
    known = [one for name, one in options_of(RerankOptions).items() if name not in left_out]
    return inspect.Signature(
        [*first, *(inspect.Parameter(one.name, kind, default=None, annotation=annotation(one)) for one in known)]
    )


rerank.__signature__ = _signature()  # type: ignore[attr-defined]
rerank.__annotations__ = {name: one.annotation for name, one in rerank.__signature__.parameters.items()}  # type: ignore[attr-defined]
