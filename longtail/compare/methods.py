"""What is compared: a recipe or a peer with arguments, or a finished run, under a label, as written in a command."""

from __future__ import annotations

import inspect
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from longtail.compare.peers import PEERS
from longtail.errors import BadInput
from longtail.options import Option, argument, as_json, options_of, text_of, unknown
from longtail.recipes import RECIPES
from longtail.stages.recipe import options_class

RUN = "run"  # in the place of a recipe: a run that is finished
_SET_BY_COMPARE = ("dataset", "out", "seed")
_CALLED = re.compile(r"([^/=]+)=(.+)")  # the label of a folder, whose own parts may hold an =
_KNOWN: Mapping[str, Callable[..., Any]] = ChainMap[str, Callable[..., Any]](PEERS, RECIPES)


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the tables.

    Attributes:
        label: its name in tables and files.
        recipe: a name of `longtail.recipes.RECIPES`, or of a peer (`longtail.compare.peers.PEERS`), or `RUN`.
        arguments: of the recipe or peer; the others have their defaults. ``{seed}`` in a text is the seed of a run. Of
            a finished run its ``folder``.

    Raises:
        BadInput: there is no such recipe or peer, or it takes no such argument.
    """

    label: str
    recipe: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.finished:
            return
        if self.recipe not in _KNOWN:
            problem = f"expected one of {', '.join(_KNOWN)}, found {self.recipe}"
            remedy = "name a recipe, or the folder of a finished run with a / in it, as ./mine"
            raise BadInput(self.label, problem, remedy=remedy)
        options = _options(self.recipe)
        for name in self.arguments:
            if name not in options:
                raise unknown(options, self.label, name)

    @classmethod
    def parse(cls, text: str) -> Method:
        """Read ``recipe``, ``recipe:argument=value,...`` or ``label=recipe:argument=value,...``.

        A value may hold commas: what follows one and has no ``=`` belongs to the value before it. A row without a label
        of its own is called by what was written. A name with a ``/`` in it is the folder of a finished run: ``runs/a``,
        or ``label=runs/a-{seed}``.

        Raises:
            BadInput: there is no such recipe or argument, or a value is not of the argument's type.
        """
        name, _, given = text.partition(":")
        if "/" in name:
            called = _CALLED.match(text)
            return cls(called[1], RUN, {"folder": called[2]}) if called else cls(text, RUN, {"folder": text})
        label, _, recipe = name.rpartition("=")
        arguments: dict[str, Any] = {}
        if given and recipe in _KNOWN:
            options = _options(recipe)
            for part in re.split(r",(?=[\w-]+=)", given):
                key, equals, value = part.partition("=")
                key = key.replace("-", "_")
                if not equals:
                    raise BadInput(text, f"expected argument=value, found {part}", remedy="write recipe:argument=value")
                arguments[key] = as_json(options[key].value(value)) if key in options else value
        return cls(label or text, recipe, arguments)

    @classmethod
    def parse_peers(cls, text: str) -> list[Method]:
        """Read ``peer,peer:argument=value,...``.

        Raises:
            BadInput: one is not a peer, or as `parse` does.
        """
        methods = [cls.parse(part) for part in re.split(r",(?![\w-]+=)", text)] if text else []
        for method in methods:
            if not method.peer:
                raise BadInput("peers", f"expected {', '.join(PEERS)}, found {method.label}", remedy="name a peer")
        return methods

    @property
    def text(self) -> str:
        """What `parse` reads as this method."""
        given = ",".join(f"{name}={text_of(value)}" for name, value in self.arguments.items())
        text = f"{self.recipe}:{given}" if given else self.recipe
        text = self.arguments["folder"] if self.finished else text
        return text if text == self.label else f"{self.label}={text}"

    @property
    def peer(self) -> bool:
        """Whether it is a peer."""
        return self.recipe in PEERS

    @property
    def finished(self) -> bool:
        """Whether it is a run that is finished."""
        return self.recipe == RUN

    @property
    def random(self) -> bool:
        """Whether its result depends on a seed."""
        if self.finished:
            return "{seed}" in self.arguments["folder"]
        return "seed" in inspect.signature(_KNOWN[self.recipe]).parameters

    @property
    def folder(self) -> str:
        """Its label as the name of a folder."""
        return re.sub(r"[^\w=.,+-]+", "_", self.label)


def _options(recipe: str) -> dict[str, Option]:
    """The options of a recipe or peer that a row may give: its seed and folder are those of the comparison."""
    if recipe in RECIPES:
        known = dict(options_of(options_class(RECIPES[recipe])))
    else:
        hints, given = get_type_hints(PEERS[recipe].__init__), inspect.signature(PEERS[recipe]).parameters
        known = {name: argument(name, hints[name], parameter.default) for name, parameter in given.items()}
    return {name: option for name, option in known.items() if name not in _SET_BY_COMPARE}


def distinct(methods: Sequence[Method]) -> None:
    """Make sure that every method has a label and a folder of its own.

    Raises:
        BadInput: two have the same, or there are none.
    """
    if not methods:
        raise BadInput(
            "recipes", "expected at least one recipe, found none", remedy=f"name one of {', '.join(RECIPES)}"
        )
    seen: dict[str, str] = {}
    for method in methods:
        if method.folder in seen:
            problem = f"would share its folder with {seen[method.folder]}"
            raise BadInput(method.label, problem, remedy="give one of them a label of its own: label=recipe:...")
        seen[method.folder] = method.label
