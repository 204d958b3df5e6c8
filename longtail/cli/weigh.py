"""``longtail weigh``: a trained run, ranking by what is preferred now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.run_folder import Device, NewFolder, RunFolder, data_of, run_in, say_done
from longtail.data.dataset import Dataset
from longtail.options import options_of
from longtail.stages.held_out import FusionOptions
from longtail.stages.weigh import weigh as make

_KNOWN = options_of(FusionOptions)


def weigh(
    trained: RunFolder,
    out: NewFolder,
    prefer: Annotated[str | None, typer.Option(help=_KNOWN["prefer"].help, show_default=False)] = None,
    tail_price: Annotated[float | None, typer.Option(help=_KNOWN["tail_price"].help, show_default=False)] = None,
    memory: Annotated[
        bool | None, typer.Option("--memory/--no-memory", help=_KNOWN["memory"].help, show_default=False)
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The data set folder; that of the run if left out.")] = None,
    device: Device = "auto",
) -> None:
    """Weigh the scores of a trained run anew, by what is preferred now: precision, the tail or coverage.

    It is learned on the documents that the run held out, and nothing is trained. What is left out is as the run has it.
    The run stays as it is and is copied into the new one, which is evaluated, asked and served like any other.
    """
    dataset = Dataset.read(data_of(trained, data))
    run = run_in(out)
    say_done(run, make(trained, dataset, prefer=prefer, tail_price=tail_price, memory=memory, out=run, device=device))
    run.log.say(f"Next: longtail evaluate {out}")
