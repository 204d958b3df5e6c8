"""Values that are no numbers any more: a run ends where they are found, and none of them is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from longtail.errors import LongtailError


class NotFinite(LongtailError):
    """A loss, or what is trained, is NaN or infinite.

    Args:
        place: the stage and the step, or what was done.
        what: is no number.
    """

    def __init__(self, place: str, what: str) -> None:
        self.what = what
        super().__init__(
            f"{place}: {what}; nothing of this is kept, and longtail resume goes on from the last checkpoint; if it "
            "comes again, train with a lower learning rate, and look for texts without any known token "
            "(longtail data check)"
        )


def must_be_a_number(terms: Mapping[str, float]) -> None:
    """Refuse loss terms of which one is no number.

    Raises:
        NotFinite: with its name.
    """
    for name, value in terms.items():
        if not abs(value) < float("inf"):
            raise NotFinite("a training step", f"the loss term {name} is {value}")


def must_be_finite(place: str, state: Mapping[str, Any]) -> None:
    """Refuse a state dict, or several in one, that has a tensor with a value that is no number.

    Raises:
        NotFinite: with the name of the first.
    """
    name = not_finite(state)
    if name is not None:
        raise NotFinite(place, f"{name} has become NaN or infinite")


def not_finite(state: Mapping[str, Any]) -> str | None:
    """The name of the first tensor in nested dicts and lists that has a value that is no number; None for none."""
    return next((name for name, tensor in _tensors(state, "") if not _is_finite(tensor)), None)


def _tensors(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, (Mapping, list, tuple)):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _tensors(item, f"{name} {key}" if name else str(key))


def _is_finite(tensor: Tensor) -> bool:
    """Whether all values are numbers: a sum is one pass without a copy, and only one that is none needs a second."""
    return not tensor.is_floating_point() or bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())
