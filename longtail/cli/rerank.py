"""``longtail rerank``: a cross-encoder over a finished run."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.cli.run_folder import RunFolder, data_of, run_in
from longtail.cli.train import Cache, DryRun, Seconds, Threads, Track, annotation, must_be_new, take, train_in
from longtail.data.dataset import Dataset
from longtail.options import options_of, parsed
from longtail.recipes.rerank import RUNS, asked
from longtail.stages.recipe import RunOptions
from longtail.stages.rerank import RerankOptions
from longtail.train.trackers import trackers_named

_GIVEN = {"device", "shards"}  # of the options of every recipe; a reranking has no use for the others


def rerank(
    run: RunFolder,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.", show_default=False)] = None,
    data: Annotated[Path | None, typer.Option(help="The data set folder; the run's if left out.")] = None,
    dry_run: DryRun = False,
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
    must_be_new(out, dry=dry_run)
    given = {**asked(run), **given}
    parsed(RerankOptions, "rerank", given)  # before anything is written
    made = run_in(out, dry=dry_run, interval=checkpoint_every, cache=cache, threads=threads)
    train_in("rerank", Dataset.read(data_of(run, data)), made, given, tracked)


def _parameters() -> dict[str, tuple[Any, Any]]:
    """What is written above, and the options of a reranking."""
    own = inspect.signature(rerank, eval_str=True).parameters
    first = {name: (one.annotation, one.default) for name, one in own.items() if name != "options"}
    left_out = (options_of(RunOptions).keys() - _GIVEN) | {"first_stage", *RUNS}
    known = {name: one for name, one in options_of(RerankOptions).items() if name not in left_out}
    return first | {name: (annotation(one), None) for name, one in known.items()}


take(rerank, _parameters())
