"""What a transform is, what a row of the table of transforms says of one, and how its options are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from longtail.data.dataset import Dataset
from longtail.errors import BadInput


@dataclass(frozen=True, slots=True)
class TransformKind:
    """A row of `longtail.transforms.TRANSFORMS`.

    Attributes:
        function: of a data set and keywords: the ``seed`` of all that is drawn, and options with defaults. It returns a
            data set with other training rows or targets, and leaves labels, filters and the test split as they are.
        about: one line of help.
    """

    function: Callable[..., Dataset]
    about: str

    def options(self) -> dict[str, tuple[Any, Any]]:
        """Its options by name: type and default, as the function declares them."""
        hints = get_type_hints(self.function)
        parameters = inspect.signature(self.function).parameters.items()
        return {key: (hints[key], found.default) for key, found in parameters if key not in {"dataset", "seed"}}

    def parsed(self, name: str, text: str) -> dict[str, Any]:
        """The options in ``option=value:option=value``.

        Args:
            name: of the transform, for messages.
            text: may be empty.

        Raises:
            BadInput: there is no such option, or a value is not of its type.
        """
        known, options = self.options(), dict[str, Any]()
        for part in filter(None, text.split(":")):
            key, _, value = (piece.strip() for piece in part.partition("="))
            if key not in known:
                found = f"expected one of the options {', '.join(known) or 'none'}, found {key!r}"
                raise BadInput(f"augment {name}", found, remedy="write options as name:option=value:option=value")
            options[key] = _value(f"augment {name}:{key}", known[key][0], value)
        return options


def _value(where: str, hint: Any, text: str) -> Any:
    """A value of a literal type, or a number of at least 0."""
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            expected = ", ".join(get_args(hint))
            raise BadInput(where, f"expected one of {expected}, found {text!r}", remedy="choose one of those")
        return text
    kind = float if hint is float else int
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        what = "a number" if kind is float else "an integer"
        raise BadInput(where, f"expected {what} of at least 0, found {text!r}", remedy="write name:option=value:...")
    return value
