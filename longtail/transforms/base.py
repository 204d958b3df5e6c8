"""What a transform is, what a row of the table of transforms says of one, and how its options are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longtail.calls import options_of_call, read_call
from longtail.data.dataset import Dataset

_BESIDES = ("dataset", "seed")  # arguments of a transform that are no options


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
        return options_of_call(self.function, besides=_BESIDES)

    def parsed(self, name: str, text: str) -> dict[str, Any]:
        """The options in ``option=value:option=value``.

        Args:
            name: of the transform, for messages.
            text: may be empty.

        Raises:
            BadInput: there is no such option, or a value is not of its type.
        """
        return read_call(f"augment {name}", self.function, text, besides=_BESIDES)
