"""What methods are called where there is little room."""

from __future__ import annotations

from collections.abc import Iterable

SHORT = 24  # letters of a name that fits into a figure


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """What methods are called in a figure or a terminal: the label or, where it is long, what is before the arguments.

    Args:
        labels: of the methods, all different; so are the names.
    """
    names = {label: label for label in labels}
    for label in names:
        if len(label) > SHORT:
            stem, number = label.partition(":")[0][: SHORT - 3], 1
            name = stem
            while name in names.values():
                number += 1
                name = f"{stem} {number}"
            names[label] = name
    return names
