"""``longtail train`` and ``longtail resume``: a recipe's arguments are its options, its docstring is their help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from longtail.cli.run_folder import RunFolder, data_of, say_done
from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.recipes import RECIPES
from longtail.train.log import Log
from longtail.train.plan import Planned
from longtail.train.run import Run, settings_of

train_app = typer.Typer(help="Train a recipe on a data set folder.", no_args_is_help=True)
_NOT_OPTIONS = ("dataset", "out")
_PLAIN = (int, float, bool, str, int | None, float | None, str | None)
_INTERVAL = Annotated[float, typer.Option(help="Seconds between checkpoints.")]


def _train(recipe: str, data: Path, run: Run, options: Mapping[str, Any]) -> None:
    try:
        bundle = RECIPES[recipe](Dataset.read(data), out=run, **options)
    except Planned:
        return
    say_done(run, bundle)


def _command(name: str) -> Callable[..., None]:
    """The command of a recipe: its options are the recipe's arguments, their help is the recipe's docstring."""
    recipe = RECIPES[name]
    hints = get_type_hints(recipe)
    texts = _argument_help(inspect.getdoc(recipe) or "")

    def command(data: Path, out: Path, dry_run: bool, checkpoint_every: float, **options: Any) -> None:
        if (out / "run.json").exists():
            raise BadInput(
                out, "expected a new folder, found a run", remedy=f"longtail resume {out}, or choose another"
            )
        run = Run(out, Log(out / "metrics.jsonl", Console()), interval=checkpoint_every, dry=dry_run)
        _train(name, data, run, {key: _parsed(hints[key], value) for key, value in options.items()})

    parameters = {
        "data": (Path, typer.Argument(help="A data set folder.", show_default=False), inspect.Parameter.empty),
        "out": (Path, typer.Option(help="The run folder to make.", show_default=False), inspect.Parameter.empty),
        "dry_run": (bool, typer.Option("--dry-run", help="Show the plan and stop."), False),
        "checkpoint_every": (float, typer.Option(help="Seconds between checkpoints."), 120.0),
    }
    for key, parameter in inspect.signature(recipe).parameters.items():
        if key not in _NOT_OPTIONS:
            default = ",".join(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
            kind = hints[key] if hints[key] in _PLAIN else str
            parameters[key] = (kind, typer.Option(help=texts.get(key, "")), default)
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about])
            for key, (kind, about, default) in parameters.items()
        ]
    )
    command.__annotations__ = {key: Annotated[kind, about] for key, (kind, about, _) in parameters.items()}
    command.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", (inspect.getdoc(recipe) or "").split("\n\nArgs:")[0])
    return command


def _argument_help(docstring: str) -> dict[str, str]:
    """The lines of the Args section of a docstring, by argument."""
    _, _, section = docstring.partition("\n\nArgs:\n")
    section = section.split("\n\n")[0]
    return {
        match[1]: re.sub(r"\s+", " ", match[2]).strip()
        for match in re.finditer(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", section, re.MULTILINE | re.DOTALL)
    }


def _parsed(hint: Any, value: Any) -> Any:
    """An option's value as the recipe takes it: sequences are given with commas."""
    if isinstance(value, str) and hint not in _PLAIN:
        parts = tuple(part.strip() for part in value.split(",") if part.strip())
        return tuple(int(part) for part in parts) if "int" in str(hint) else parts
    return value


for _name in RECIPES:
    train_app.command(_name)(_command(_name))


def resume(run: RunFolder, checkpoint_every: _INTERVAL = 120.0) -> None:
    """Go on with a run that was stopped, from its last checkpoint."""
    settings = settings_of(run)
    if settings["recipe"] not in RECIPES:
        found = f"expected a run of longtail train, found one of longtail {settings['recipe']}"
        raise BadInput(run, found, remedy=f"give longtail {settings['recipe']} again")
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in settings["arguments"].items()}
    log = Log(run / "metrics.jsonl", Console())
    _train(settings["recipe"], data_of(run, settings, None), Run(run, log, interval=checkpoint_every), options)
