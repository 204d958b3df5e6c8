"""``longtail ensemble``: two trained runs as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from longtail.cli.run_folder import RunFolder, data_of, say_done
from longtail.data.dataset import Dataset
from longtail.stages.make_ensemble import ensemble as make
from longtail.train.log import LOG, Log
from longtail.train.progress import settings_of
from longtail.train.run import Run


def ensemble(
    first: RunFolder,
    second: RunFolder,
    out: Annotated[Path, typer.Option(help="The run folder to make.", show_default=False)],
    data: Annotated[Path | None, typer.Option(help="The data set folder; that of the first run if left out.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
) -> None:
    """Rank by two trained runs at once: their scores are weighed on the documents that both held out.

    The two stay as they are and are copied into the new run, which is evaluated, asked and served like any other.
    """
    dataset = Dataset.read(data_of(first, settings_of(first), data))
    run = Run(out, Log(out / LOG, Console()))
    say_done(run, make(first, second, dataset, out=run, device=device))
    run.log.say(f"Next: longtail evaluate {out}")
