"""What is compared: a recipe or a peer with arguments under a label, as written on a command line."""

from __future__ import annotations

import inspect
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from longtail.compare.peers import PEERS
from longtail.errors import BadInput
from longtail.options import Option, argument, as_json, options_of, unknown
from longtail.recipes import RECIPES
from longtail.report.commands import text_of
from longtail.stages.recipe import options_class

_SET_BY_COMPARE = ("dataset", "out", "seed")
_KNOWN: Mapping[str, Callable[..., Any]] = ChainMap[str, Callable[..., Any]](PEERS, RECIPES)


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the tables.

    Attributes:
        label: its name in tables and files.
        recipe: a name of `longtail.recipes.RECIPES`, or of a peer (`longtail.compare.peers.PEERS`).
        arguments: of the recipe or peer; the others have their defaults. ``{seed}`` in a text is the seed of a run.

    Raises:
        BadInput: there is no such recipe or peer, or it takes no such argument.
    """

    label: str
    recipe: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.recipe not in _KNOWN:
            known = ", ".join(_KNOWN)
            raise BadInput(self.label, f"expected one of {known}, found {self.recipe}", remedy="name a recipe")
        options = _options(self.recipe)
        for name in self.arguments:
            if name not in options:
                raise unknown(options, self.label, name)

    @classmethod
    def parse(cls, text: str) -> Method:
        """Read ``recipe``, ``recipe:argument=value,...`` or ``label=recipe:argument=value,...``.

        A value may hold commas: what follows one and has no ``=`` belongs to the value before it. A row without a label
        of its own is called by what was written.

        Raises:
            BadInput: there is no such recipe or argument, or a value is not of the argument's type.
        """
        name, _, given = text.partition(":")
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
        return text if text == self.label else f"{self.label}={text}"

    @property
    def peer(self) -> bool:
        """Whether it is a peer."""
        return self.recipe in PEERS

    @property
    def random(self) -> bool:
        """Whether its result depends on a seed."""
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
