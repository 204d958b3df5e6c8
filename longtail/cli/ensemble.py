"""``longtail ensemble``: two trained runs as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.run_folder import Device, NewFolder, RunFolder, data_of, run_in, say_done
from longtail.data.dataset import Dataset
from longtail.stages.make_ensemble import ensemble as make


def ensemble(
    first: RunFolder,
    second: RunFolder,
    out: NewFolder,
    data: Annotated[Path | None, typer.Option(help="The data set folder; that of the first run if left out.")] = None,
    device: Device = "auto",
) -> None:
    """Rank by two trained runs at once: their scores are weighed on the documents that both held out.

    The two stay as they are and are copied into the new run, which is evaluated, asked and served like any other.
    """
    dataset = Dataset.read(data_of(first, data))
    run = run_in(out)
    say_done(run, make(first, second, dataset, out=run, device=device))
    run.log.say(f"Next: longtail evaluate {out}")
