"""``longtail plan``: what a run would take at a size that is not at hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from longtail.cli.json_file import JsonFile, console_beside, keep_json
from longtail.cli.train import annotation, take
from longtail.on_paper.plan import OnPaper, largest_batch, named, on_paper
from longtail.on_paper.reckoning import Timed
from longtail.on_paper.rows import ROWS, read_by
from longtail.options import options_of
from longtail.recipes import RECIPES
from longtail.stages.recipe import options_class
from longtail.units import duration, size

_HOW = "Each process has one device, and one shard of each step; see docs/guides/scale.md."


class _Recipes(TyperGroup):
    """The recipes that have a plan on paper."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command of a recipe."""
        if not args[0].startswith("-"):
            named("recipe", ROWS, args[0])
        return super().resolve_command(ctx, args)


plan_app = typer.Typer(
    cls=_Recipes,
    help="Reckon memory, traffic, time and price of a run from its sizes, without data or training.",
    no_args_is_help=True,
    subcommand_metavar="RECIPE [OPTIONS]",
)

_PARAMETERS: dict[str, tuple[Any, Any]] = {
    "documents": (Annotated[float, typer.Option(min=1, help="In training, as 5e8.")], inspect.Parameter.empty),
    "labels": (Annotated[float, typer.Option(min=1, help="Of the label set.")], inspect.Parameter.empty),
    "words": (Annotated[float, typer.Option(min=1, help="Of a text, on average.")], 6.0),
    "labels_of": (
        Annotated[float, typer.Option("--labels-a-document", min=0.01, help="True ones, on average.")],
        5.0,
    ),
    "tests": (
        Annotated[
            float | None,
            typer.Option(
                "--test-documents",
                min=0,
                help="Of the evaluation; a tenth as many as in training, 100,000 at most, if left out.",
            ),
        ],
        None,
    ),
    "world": (Annotated[int, typer.Option(min=1, help="Processes, of one device each.")], 1),
    "device": (
        Annotated[str, typer.Option(help="Of a process: cpu (a core), v100, a100, h100, h200, or one of --constants.")],
        "cpu",
    ),
    "device_memory": (Annotated[float | None, typer.Option(min=1, help="Bytes of each; its own if left out.")], None),
    "constants": (
        Annotated[Path | None, typer.Option(help="A JSON file of other devices, or of other numbers of these.")],
        None,
    ),
    "price": (Annotated[float | None, typer.Option(min=0, help="Of a device an hour, in any currency.")], None),
}


def _command(name: str) -> Callable[..., None]:
    """The command of a recipe: the sizes, and the options of its page that a plan depends on."""
    known = {key: one for key, one in options_of(options_class(RECIPES[name])).items() if key in read_by(name)}

    def command(json_file: Path | None, **given: Any) -> None:
        of_recipe = {key: given.pop(key) for key in known}
        console = console_beside(json_file, highlight=False)
        asked = {key: value for key, value in of_recipe.items() if value is not None}
        plan, largest = on_paper(name, asked, **given), largest_batch(name, asked, **given)
        _show(plan, console)
        console.print(f"the largest batch whose steps fit: {largest:,} documents")
        keep_json(json_file, plan.as_json() | {"largest_batch": largest})

    parameters = _PARAMETERS | {key: (annotation(option), None) for key, option in known.items()}
    parameters["json_file"] = (JsonFile, None)
    take(command, parameters)
    command.__doc__ = f"Reckon a run of {name}. {_HOW}"
    return command


def _show(plan: OnPaper, console: Console) -> None:
    """Print a plan."""
    memory = Table("memory of a process", "device", "main memory", box=SIMPLE_HEAD, pad_edge=False)
    for moment, held in plan.memory.items():
        peak = plan.peak(moment)
        memory.add_row(moment, size(peak.device), size(peak.host), style="bold")
        for name, part in held.items():
            if any(part):
                memory.add_row(f"  {name}", *(size(count) if count else "" for count in part))
    console.print(memory)
    steps = Table("a step of a process", "time", "sent", box=SIMPLE_HEAD, pad_edge=False)
    for stage, parts in plan.steps.items():
        _rows(steps, stage, parts)
    console.print(steps)
    run = Table("the run", "times", "time", "sent by a process", box=SIMPLE_HEAD, pad_edge=False)
    for name, one in plan.run.items():
        run.add_row(name, f"{one.times:g}", duration(one.times * one.seconds), size(one.times * one.sent))
    console.print(run)
    said = f"an epoch {duration(plan.seconds_an_epoch)}, the run {duration(plan.seconds)}"
    price = "" if plan.price is None else f", {plan.price * plan.hours:,.0f} at {plan.price:g} an hour"
    console.print(f"{said}; {plan.hours:,.1f} hours of devices{price}")
    for line in plan.refusals():
        console.print(line, style="yellow", soft_wrap=True)


def _rows(table: Table, title: str, parts: Mapping[str, Timed]) -> None:
    """Add what a step consists of to a table."""
    seconds, sent = (sum(getattr(part, what) for part in parts.values()) for what in ("seconds", "sent"))
    table.add_row(title, _short(seconds), size(sent), style="bold")
    for name, part in parts.items():
        table.add_row(f"  {name}", _short(part.seconds), size(part.sent) if part.sent else "")


def _short(seconds: float) -> str:
    """A time that may be much less than a second."""
    return duration(seconds) if seconds >= 1 else f"{1000 * seconds:.3g} ms"


for _name in ROWS:
    plan_app.command(_name)(_command(_name))
