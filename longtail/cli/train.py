"""``longtail train`` and ``longtail resume``: the options of a recipe are those of its page."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from longtail.cli.evaluate import warn_of_pairs
from longtail.cli.run_folder import RunFolder, data_of, run_in, say_done
from longtail.cli.table_data import Keep, Labels, Separator, TableOptions, Test, Text, dataset_of, say_what_next
from longtail.compare.methods import Method
from longtail.data.dataset import Dataset
from longtail.ending import acts
from longtail.errors import BadInput
from longtail.model.evaluation import evaluate
from longtail.options import Option, options_of, parsed, unknown
from longtail.recipes import DEFAULT, RECIPES
from longtail.recipes.distil import student
from longtail.stages.recipe import options_class
from longtail.stages.rerank import rerank
from longtail.train.log import WITHIN
from longtail.train.plan import Planned
from longtail.train.progress import DATA, settings_of
from longtail.train.run import Run
from longtail.train.trackers import TRACKERS, Tracking, trackers_named, trackers_of


class _Recipes(TyperGroup):
    """The recipes; what is the name of none, and is there, is data for the default one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command of a recipe."""
        first = args[0]
        if first not in self.commands and not first.startswith("-") and not Path(first).exists():
            near = get_close_matches(first, self.commands, n=1)
            remedy = f"did you mean {near[0]}?" if near else "longtail list recipes shows the recipes"
            raise BadInput("train", f"expected a recipe, or data that is there, found {first}", remedy=remedy)
        return super().resolve_command(ctx, args if first in self.commands else [DEFAULT, *args])


train_app = typer.Typer(
    cls=_Recipes,
    help=f"Train a model on a data set folder or a table, by a recipe; {DEFAULT} if none is named.",
    no_args_is_help=True,
    options_metavar="",
    subcommand_metavar="[RECIPE] DATA [OPTIONS]",
    context_settings={"ignore_unknown_options": True},  # they are the recipe's
)
_RESUMED = {**RECIPES, "rerank": rerank}
_OFTEN = ("encoder", "fields", "epochs", "budget", "prefer", "seed", "device")  # given more often than others
_METAVARS = {int: "INTEGER", float: "NUMBER", str: "TEXT"}
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")]
Seconds = Annotated[float, typer.Option("--checkpoint-every", help="Seconds between checkpoints.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Of PyTorch; as many as it takes by itself if left out.")]
Cache = Annotated[
    Path | None,
    typer.Option(
        envvar="LONGTAIL_CACHE",
        help="A folder that keeps tokens, walks and known words for other runs to find; the run's own if left out.",
    ),
]

Track = Annotated[
    str | None,
    typer.Option(help=f"Tell of each epoch, too: {', '.join(TRACKERS)}, or several with commas.", metavar="TEXT,..."),
]


def train_in(recipe: str, dataset: Dataset, run: Run, given: Mapping[str, Any], track: Sequence[str]) -> None:
    """Train a recipe, or go on with it, and say where the model is."""
    if run.ranks.first:
        acts.append(partial(_kept, run))  # said also of an error
    tracking = None if run.folder is None or not run.ranks.first else Tracking(run.folder, track, run.log.say)
    run.log.listener, model = tracking, None
    try:
        model = _RESUMED[recipe](dataset, out=run, **given)
    except Planned:
        return
    finally:
        if tracking is not None:
            tracking.end(finished=model is not None)
    if not run.ranks.first:
        return
    say_done(run, model)
    if run.folder is not None and dataset.folder == run.folder / DATA:
        found, console = evaluate(model, dataset), Console()
        console.print(found)
        warn_of_pairs(model, found, dataset, console)
        say_what_next(run.folder, model)
    elif WITHIN not in os.environ:
        run.log.say(f"Next: longtail evaluate {run.folder}")


def _kept(run: Run) -> str | None:
    """What is left of a run that is ended, and how it goes on."""
    if run.folder is None or run.dry:
        return None
    if (run.folder / "run.json").exists():
        return f"what was trained is kept up to the last checkpoint: longtail resume {run.folder}"
    return "training had not begun: the same command begins again"


def _command(name: str) -> Callable[..., None]:
    """The command of a recipe: its options are those of its page; first what is often given, then its own ones."""
    recipe = RECIPES[name]

    def command(
        data: Path,
        out: Path | None,
        dry_run: bool,
        text: str | None,
        labels: str | None,
        separator: str | None,
        test: Path | None,
        keep: str,
        checkpoint_every: float,
        cache: Path | None,
        threads: int | None,
        track: str | None,
        **options: Any,
    ) -> None:
        tracked = trackers_named(track)
        run = run_in(out, dry=dry_run, interval=checkpoint_every, cache=cache, threads=threads)
        if not run.ranks.restarted():
            must_be_new(out, dry=dry_run)
        given = {key: value for key, value in options.items() if value is not None}
        parsed(options_class(recipe), name, given)  # before anything is written
        kept = None if dry_run else out
        dataset = run.ranks.in_turn(lambda: dataset_of(data, kept, TableOptions(text, labels, separator, test, keep)))
        train_in(name, dataset, run, given, tracked)

    parameters: dict[str, tuple[Any, Any]] = {
        "data": (
            Annotated[Path, typer.Argument(help="A data set folder, or a .csv, .tsv, .jsonl or .parquet table.")],
            inspect.Parameter.empty,
        ),
        "out": (Annotated[Path | None, typer.Option(help="The run folder to make.")], None),
        "dry_run": (DryRun, False),
        "text": (Text, None),
        "labels": (Labels, None),
        "separator": (Separator, None),
        "test": (Test, None),
        "keep": (Keep, ""),
        "checkpoint_every": (Seconds, 120.0),
        "cache": (Cache, None),
        "threads": (Threads, None),
        "track": (Track, None),
    }
    known = options_of(options_class(recipe))
    order = sorted(known, key=lambda key: _OFTEN.index(key) if key in _OFTEN else len(_OFTEN))
    parameters |= {key: (annotation(known[key]), None) for key in order}
    take(command, parameters)
    command.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", (inspect.getdoc(recipe) or "").split("\n\nArgs:")[0])
    return command


def must_be_new(out: Path | None, *, dry: bool) -> None:
    """Refuse to train into no folder, where the run is no dry one, or into that of a run.

    Raises:
        BadInput: that is so.
    """
    if out is None and not dry:
        raise BadInput("out", "expected a folder for the run, found none", remedy="give one, or ask for a dry run")
    if out is not None and (out / "run.json").exists():
        raise BadInput(out, "expected a new folder, found a run", remedy=f"longtail resume {out}, or choose another")


def take(command: Callable[..., None], parameters: Mapping[str, tuple[Any, Any]]) -> None:
    """Let a command have parameters that are known by now, each with what typer is to know of it, and a default."""
    made = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        for name, (hint, default) in parameters.items()
    ]
    command.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    command.__annotations__ = {name: hint for name, (hint, _) in parameters.items()}


def annotation(option: Option) -> Any:
    """What typer is to know of an option; its value is read where that of a Python caller is."""
    default = ",".join(map(str, option.default)) if option.several else option.default
    if option.kind is bool:
        default = "on" if default else "off"
    shown = "" if default in (None, "") else f" [dim]{escape(f'[default: {default}]')}[/dim]"
    text = escape(option.about) + shown
    panel = "Often given" if option.name in _OFTEN else option.group
    if option.kind is bool:
        flags = f"--{option.name}/--no-{option.name}".replace("_", "-")
        return Annotated[bool | None, typer.Option(flags, help=text, rich_help_panel=panel)]
    metavar = "TIME" if option.time else _METAVARS[option.kind] + (",..." if option.several else "")
    return Annotated[str | None, typer.Option(help=text, rich_help_panel=panel, metavar=metavar)]


class _Recipe(TyperCommand):
    """A command whose unknown options are refused as they are to a Python caller."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        known = {flag for parameter in self.get_params(ctx) for flag in (*parameter.opts, *parameter.secondary_opts)}
        for flag in (arg.partition("=")[0] for arg in args if arg.startswith("--") and arg != "--"):
            if flag not in known:
                assert self.name is not None
                raise unknown(options_of(options_class(RECIPES[self.name])), self.name, flag[2:].replace("-", "_"))
        return super().parse_args(ctx, args)


for _name in RECIPES:
    train_app.command(_name, cls=_Recipe, rich_help_panel="Recipes")(_command(_name))


def resume(
    run: RunFolder,
    checkpoint_every: Seconds = 120.0,
    cache: Cache = None,
    threads: Threads = None,
    track: Track = None,
) -> None:
    """Go on with a run that was stopped, from its last checkpoint.

    Trackers that it was begun with are told again; --track adds others.
    """
    settings, tracked = settings_of(run), tuple(dict.fromkeys((*trackers_of(run), *trackers_named(track))))
    if settings["recipe"] not in _RESUMED:
        found = f"expected a run of longtail train, found one of longtail {settings['recipe']}"
        raise BadInput(run, found, remedy=f"give longtail {settings['recipe']} again")
    going_on = run_in(run, interval=checkpoint_every, cache=cache, threads=threads)
    going_on.planned = (run.resolve().parent / "run.json").exists()  # a run within one is in the plan of that
    dataset = Dataset.read(data_of(run, None))
    train_in(settings["recipe"], dataset, going_on, settings["arguments"], tracked)


def distil(
    teacher: RunFolder,
    out: Annotated[Path, typer.Option(help="The student's run folder to make.", show_default=False)],
    into: Annotated[
        str, typer.Option(help="The student's encoder, or a recipe with its options, as unidec:width=512,epochs=12.")
    ] = "bag",
    texts: Annotated[
        Path | None, typer.Option(help="A file of further texts without labels, one a line.", show_default=False)
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The data set folder; the teacher's if left out.")] = None,
    dry_run: DryRun = False,
    checkpoint_every: Seconds = 120.0,
    cache: Cache = None,
    threads: Threads = None,
    track: Track = None,
) -> None:
    """Train a cheap student of any trained run, which learns its scores beside the true pairs.

    It holds out the documents that the teacher held out, reads the same fields, and is a run like any other.
    """
    name = into.partition(":")[0]
    method = Method.parse(into) if name in RECIPES else None
    given = dict(method.arguments) if method else {}
    if texts is not None:
        given["augment"] = f"unlabelled:texts={texts.resolve()}"
    recipe, options, advice = student(teacher, name if method else into, given)
    run = run_in(out, dry=dry_run, interval=checkpoint_every, cache=cache, threads=threads)
    if advice is not None:
        run.log.say(advice)
    train_in(recipe, Dataset.read(data_of(teacher, data)), run, options, trackers_named(track))
