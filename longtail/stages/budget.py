"""What a budget of time is enough for."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from longtail.errors import BadInput
from longtail.options import time_of
from longtail.stages.refit import NotTogether
from longtail.units import duration

_SLACK = 1.25  # seconds of a budget for each of a plan, which leaves out what is learned on held-out documents


def choice(
    choices: Sequence[Mapping[str, Any]], budget: float, since: float, seconds: Callable[[Mapping[str, Any]], float]
) -> Mapping[str, Any]:
    """The last of some settings with which a run is possible, and ends in time; none where there is no choice.

    Args:
        choices: settings, those that take the least time first.
        budget: seconds.
        since: when they began, of `time.monotonic`.
        seconds: that the run takes from now on with some settings.

    Raises:
        BadInput: not even the first ends in time.
    """

    def in_all(settings: Mapping[str, Any]) -> float:
        try:
            return _SLACK * seconds(settings) + time.monotonic() - since
        except NotTogether:
            return float("inf")

    fitting = bisect_right(choices, budget, key=in_all)
    if choices and not fitting:
        takes = f"{duration(in_all(choices[0]))}, which one epoch with all that comes before and after it takes"
        problem = f"expected at least {takes}, found {time_of(budget)}"
        raise BadInput("budget", problem, remedy="give more, or make the run smaller")
    return choices[fitting - 1] if choices else {}
