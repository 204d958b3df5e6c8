"""What can be asked of a recipe: an option's type, range, default and one line of help stand in one place.

Options are frozen dataclasses that compose: a recipe's own derives from those of what it uses, and states only what is
its own and where its default differs. A call from Python, the command line, a comparison and a stored run all go
through `parsed`, so that each of them refuses the same value in the same line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from inspect import get_annotations
from numbers import Integral, Real
from pathlib import PurePath
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from longtail.errors import BadInput

Options = TypeVar("Options")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CALLED = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Range:
    """Finite numbers from ``low`` to ``high``.

    Attributes:
        low: the least, if it is not ``open``.
        high: the largest, if it is not ``open``.
        open: which end does not belong to it: low, high or neither.
    """

    low: float = -math.inf
    high: float = math.inf
    open: str = ""

    def __contains__(self, number: float) -> bool:
        above = number > self.low if self.open == "low" else number >= self.low
        below = number < self.high if self.open == "high" else number <= self.high
        return above and below and math.isfinite(number)

    def __str__(self) -> str:
        above = f"above {self.low:g}" if self.open == "low" else f"at least {self.low:g}"
        below = f"below {self.high:g}" if self.open == "high" else f"at most {self.high:g}"
        words = ([above] if self.low > -math.inf else []) + ([below] if self.high < math.inf else [])
        return " and ".join(words) or "a finite number"


class AtMost(int):
    """A number of epochs before which a stage may end by itself: what ``auto`` is as a value."""

    def __str__(self) -> str:
        return f"at most {int(self)}"


COUNT = Range(1)  # 1, 2, ...
NATURAL = Range(0)  # 0, 1, ...; and numbers that may be 0
POSITIVE = Range(0, open="low")
SHARE = Range(0, 1)
BELOW_ONE = Range(0, 1, open="high")


@dataclass(frozen=True, slots=True)
class Option:
    """What there is to know of an option.

    Attributes:
        name: as a Python argument; on the command line with ``--`` and dashes.
        kind: of its value, or of each of its values: int, float, bool or str.
        default: the value where none is given.
        help: one line.
        several: whether it is a tuple of values, given with commas on the command line.
        optional: whether None, for left out, is a value.
        range: of numbers.
        choices: of names; None where others will do, too.
        calls: whether a name may have options, as in ``name:option=value`` (`longtail.calls`).
        time: whether a number is one of seconds, which may be written as `seconds_of` reads it.
        auto: how many times the default ``auto`` is at most; None where that is no value.
        known: names that stand for something, where others will do, too; None where there are none.
        group: what the options are about that it belongs to.
    """

    name: str
    kind: type
    default: Any
    help: str
    several: bool
    optional: bool
    range: Range | None
    choices: Collection[str] | None
    known: Collection[str] | None
    calls: bool
    time: bool
    auto: int | None
    group: str

    @property
    def about(self) -> str:
        """The help, with the values that it may have, where it does not say them itself."""
        names = self.choices or self.known
        if names is None:
            return f"{self.help} ({self.range})" if self.range else self.help
        return self.help if all(name in self.help for name in names) else f"{self.help} ({', '.join(names)})"

    def value(self, given: Any) -> Any:
        """A value as a recipe takes it.

        Args:
            given: a value of the option's type, or what stands for it on a command line or in JSON.

        Raises:
            BadInput: it is not such a value.
        """
        if given is None and self.optional:
            return None
        if not self.several:
            return self._one(given)
        parts = [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given
        if not isinstance(parts, Sequence):
            raise self._bad(f"expected a list of {_CALLED[self.kind]}", given)
        return tuple(self._one(part) for part in parts)

    def _one(self, given: Any) -> Any:
        if given == _AUTO and self.auto is not None:
            return AtMost(self.auto * self.default)
        found: Any = (
            seconds_of(self.name, given) if self.time and isinstance(given, str) else _converted(self.kind, given)
        )
        if found is None:
            raise self._bad(f"expected {_CALLED[self.kind]}", given)
        if self.range is not None and found not in self.range:
            raise self._bad(f"expected {self.range}", given)
        name = found.partition(":")[0] if self.calls else found
        if self.choices is not None and name not in self.choices:
            raise self._bad(f"expected one of {', '.join(self.choices)}", given)
        return found

    def _bad(self, expected: str, given: Any) -> BadInput:
        return BadInput(self.name, f"{expected}, found {given}", remedy=f"it is: {self.help}")


def _converted(kind: type, given: Any) -> Any:
    """A value of a kind, or None where it is not one."""
    if isinstance(given, PurePath) and kind is str:
        return str(given)
    if isinstance(given, str):
        if kind is str:
            return given
        try:
            return _WORDS.get(given.lower()) if kind is bool else kind(given)
        except ValueError:
            return None
    if isinstance(given, bool):
        return given if kind is bool else None
    allowed = {int: Integral, float: Real}.get(kind)
    return kind(given) if allowed is not None and isinstance(given, allowed) else None


def option(
    default: Any,
    about: str,
    *,
    within: Range | None = None,
    choices: Collection[str] | None = None,
    known: Collection[str] | None = None,
    calls: bool = False,
    time: bool = False,
    auto: int | None = None,
) -> Any:
    """A field of a class of options.

    Args:
        default: its value where none is given.
        about: one line of help.
        within: the numbers that it may be; every number has a range.
        choices: the names that it may be, as a table of losses.
        known: names that help is to list, where it may be others, too.
        calls: whether a name may have options, as in ``name:option=value``.
        time: whether it is a number of seconds, which may be written as ``90s``, ``10m`` or ``2h``.
        auto: how many times its default it may come to where ``auto`` is asked for; None where that is no value.
    """
    described = {"help": about, "range": within, "choices": choices, "known": known}
    return field(default=default, metadata={**described, "calls": calls, "time": time, "auto": auto})


def options_of(kind: type) -> Mapping[str, Option]:
    """The options of a class by name, its own ones first, then those of what it derives from, in that order.

    A default that a class states anew without more is the same option, with another default.
    """
    return _options_of(kind)


@cache
def _options_of(kind: type) -> Mapping[str, Option]:
    """What `options_of` says, made once for each class."""
    hints, made = get_type_hints(kind), {item.name: item for item in fields(kind)}
    found = {
        item.name: _option(item.name, item, hints[item.name], made[item.name].default, group)
        for group, item in _described(kind)
    }
    return MappingProxyType(found)


def argument(name: str, hint: Any, default: Any) -> Option:
    """An argument of which no more is known than its type, as an option."""
    return _option(name, option(default, "an argument"), hint, default, "")


def _described(kind: type) -> Iterator[tuple[str, Field[Any]]]:
    """Each field where it is described, first seen first, with the title of its class."""
    seen = set()
    for part in kind.__mro__:
        own = {item.name: item for item in part.__dict__.get("__dataclass_fields__", {}).values()}
        for name in get_annotations(part):
            if name in own and "help" in own[name].metadata and name not in seen:
                seen.add(name)
                yield (part.__doc__ or "").partition("\n")[0].rstrip("."), own[name]


def _option(name: str, item: Field[Any], hint: Any, default: Any, group: str) -> Option:
    kinds = [part for part in get_args(hint) if part is not NoneType] if NoneType in get_args(hint) else [hint]
    several = get_origin(kinds[0]) is Sequence
    return Option(
        name=name,
        kind=get_args(kinds[0])[0] if several else kinds[0],
        default=None if default is MISSING else default,
        several=several,
        optional=NoneType in get_args(hint),
        group=group,
        **item.metadata,
    )


def parsed(kind: type[Options], of: str, given: Mapping[str, Any]) -> Options:
    """Options from names and values.

    Args:
        kind: the class of options.
        of: whose they are, for a message.
        given: values by name, as in `Option.value`; others have their defaults.

    Raises:
        BadInput: there is no such option, or a value is not one of its.
    """
    known = options_of(kind)
    for name in given:
        if name not in known:
            raise unknown(known, of, name)
    return kind(**{name: known[name].value(value) for name, value in given.items()})


def unknown(known: Mapping[str, Option], of: str, name: str) -> BadInput:
    """The refusal of an option that there is not."""
    near = get_close_matches(name, known, n=3)
    remedy = f"did you mean {' or '.join(near)}?" if near else f"its options are {', '.join(known)}"
    return BadInput(of, f"has no option {name}", remedy=remedy)


def stored(options: Any) -> dict[str, Any]:
    """Options as JSON keeps them, by name."""
    return {name: as_json(getattr(options, name)) for name in options_of(type(options))}


def as_json(value: Any) -> Any:
    """A value of an option as JSON keeps it: several are a list, and `AtMost` is what was asked for."""
    if isinstance(value, AtMost):
        return _AUTO
    return list(value) if isinstance(value, tuple) else value


def text_of(value: Any) -> str:
    """A value of an option as it is typed."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def seconds_of(name: str, text: str) -> float:
    """The seconds of ``90s``, ``10m``, ``1.5h`` or a plain number.

    Args:
        name: of the option that they are given to.
        text: what is given.

    Raises:
        BadInput: it is none of those, or not above 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([smh]?)", text.strip())
    if match is None or not float(match[1]):
        raise BadInput(name, f"expected a time such as 90s, 10m or 2h, found {text}", remedy="give one of those")
    return float(match[1]) * _UNITS[match[2]]


def time_of(seconds: float) -> str:
    """Seconds, as `seconds_of` reads them: in hours or minutes where these are whole."""
    unit = next(unit for unit in "hms" if unit == "s" or not seconds % _UNITS[unit])
    return f"{seconds / _UNITS[unit]:g}{unit}"
