"""What is typed to make a run again."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longtail.options import as_json, text_of
from longtail.recipes import RECIPES
from longtail.recipes.rerank import RUNS
from longtail.stages.rerank import rerank

BY_SHAPE = {"batch", "epochs", "fields", "refit", "validation"}  # options whose defaults go by the data (`for_shape`)
BY_BEST = {"graphs", "knowledge", "refits", "separators"}  # further ones, where what is best is asked for
_OF_RUN = ("first_stage", *RUNS)  # arguments of a reranking that come from the run it is of


def command_of(settings: Mapping[str, Any], data: Path, folder: Path) -> list[str]:
    """The arguments of ``longtail`` that make the run of a folder.

    Args:
        settings: what its ``run.json`` says.
        data: the data set folder.
        folder: of the run.
    """
    recipe, arguments = settings["recipe"], settings["arguments"]
    if recipe in RECIPES:
        told = {*given_arguments(recipe, arguments), *BY_SHAPE}
        told |= BY_BEST if arguments.get("preset") == "best" else set()
        given = {name: value for name, value in arguments.items() if name in told}
        return train_command(recipe, given, arguments["seed"], data, folder)
    ends = ["--out", str(folder), "--data", str(data)]
    if recipe == "rerank":
        defaults = defaults_of(rerank)
        given = {name: value for name, value in arguments.items() if value != defaults[name] and name not in _OF_RUN}
        return [recipe, arguments["first_stage"], *flags_of(given), *ends]
    if recipe == "weigh":
        given = {name: arguments[name] for name in ("prefer", "tail_price", "memory")}
        return [recipe, arguments["trained"], *flags_of(given), *ends]
    return [recipe, arguments["first"], arguments["second"], *ends]  # an ensemble


def train_command(recipe: str, given: Mapping[str, Any], seed: int, data: Path, folder: Path) -> list[str]:
    """The arguments of ``longtail`` that train a recipe with the arguments that were given."""
    return ["train", recipe, str(data), "--out", str(folder), *flags_of(given), "--seed", str(seed)]


def flags_of(arguments: Mapping[str, Any]) -> list[str]:
    """Arguments of a recipe as options of ``longtail train``."""
    options = []
    for name, value in arguments.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            options.append(f"--{option}" if value else f"--no-{option}")
        else:
            options += [f"--{option}", text_of(value)]
    return options


def given_arguments(recipe: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a run that are not the defaults of its recipe, without the seed; all where it is no recipe."""
    defaults = defaults_of(RECIPES.get(recipe))
    return {
        name: value
        for name, value in arguments.items()
        if name != "seed" and not (name in defaults and defaults[name] == value)
    }


def defaults_of(method: Callable[..., Any] | None) -> dict[str, Any]:
    """The defaults of a recipe or a peer, as ``run.json`` holds them; none of what is neither."""
    given = {} if method is None else inspect.signature(method).parameters
    return {name: as_json(one.default) for name, one in given.items() if one.default is not inspect.Parameter.empty}


def typed(command: Sequence[str]) -> str:
    """A command as it is typed."""
    return shlex.join(["longtail", *command])
