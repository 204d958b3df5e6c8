"""A function of a table and its options as one text: ``name:option=value:option=value``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from longtail.errors import BadInput


def options_of_call(function: Callable[..., Any], *, besides: Collection[str]) -> dict[str, tuple[Any, Any]]:
    """The options of a function by name: type and default, as it declares them.

    Args:
        function: of a table.
        besides: its arguments that are no options.
    """
    hints = get_type_hints(function)
    parameters = inspect.signature(function).parameters.items()
    return {key: (hints[key], found.default) for key, found in parameters if key not in besides}


def read_call(where: str, function: Callable[..., Any], text: str, *, besides: Collection[str]) -> dict[str, Any]:
    """The options in ``option=value:option=value``.

    Args:
        where: what is read, for messages.
        function: of a table.
        text: may be empty.
        besides: its arguments that are no options.

    Raises:
        BadInput: there is no such option, or a value is not of its type.
    """
    known, options = options_of_call(function, besides=besides), dict[str, Any]()
    for part in filter(None, text.split(":")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in known:
            found = f"expected one of the options {', '.join(known) or 'none'}, found {key!r}"
            raise BadInput(where, found, remedy="write options as name:option=value:option=value")
        options[key] = _value(f"{where}:{key}", known[key][0], value)
    return options


def _value(where: str, hint: Any, text: str) -> Any:
    """A value of a literal type, a text, or a number of at least 0."""
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            expected = ", ".join(get_args(hint))
            raise BadInput(where, f"expected one of {expected}, found {text!r}", remedy="choose one of those")
        return text
    if hint is str:
        return text
    (kind,) = [part for part in get_args(hint) or (hint,) if part is not NoneType]
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        what = "a number" if kind is float else "an integer"
        raise BadInput(where, f"expected {what} of at least 0, found {text!r}", remedy="write name:option=value:...")
    return value
