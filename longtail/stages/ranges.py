"""What the numbers that recipes take may be: an argument means the same wherever it occurs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longtail.errors import BadInput


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``low`` to ``high``.

    Attributes:
        low: the least, if it is not ``open``.
        high: the largest, if it is not ``open``.
        open: which end does not belong to it: low, high or neither.
    """

    low: float
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


_ARGUMENTS = {
    Range(1): """
        batch beam cluster_every cluster_size graph_redraw heads hub_degree labels_at_once links max_length mine_every
        mine_length most_links positives refresh_every shortlist_cluster_size walk_keep width""",
    Range(2): "folds",
    Range(0): """
        bank_learning_rate binary_weight calibration_weight classifier_epochs classifier_learning_rate cluster_from
        combiner_learning_rate detached_epochs enriched_weight epochs glas_weight hard_negatives linker_epochs
        meta_weight mine_from neighbours plain_weight projection random_negatives refresh_from seed
        shortlist_negatives slowdown start_epochs warmup weight_decay""",
    Range(0, open="low"): "attention_temperature classifier_temperature learning_rate temperature",
    Range(0, 1, open="high"): "attention_dropout dropout momentum validation",
    Range(0, 1, open="low"): "graph_share walk_restart",
    Range(0, 1): "mix",
    Range(-1, 1): "prune_above",
    Range(-math.inf): "bias",
}
RANGES = {name: kind for kind, names in _ARGUMENTS.items() for name in names.split()}


def must_be_in_range(arguments: Mapping[str, Any]) -> None:
    """Make sure that the numbers among a recipe's arguments are such as it can use.

    Raises:
        BadInput: one is not; None, for an argument that is left out, is.
    """
    for name, value in arguments.items():
        if name in RANGES and value is not None and value not in RANGES[name]:
            remedy = "longtail train RECIPE --help says what it is"
            raise BadInput(f"--{name.replace('_', '-')}", f"expected {RANGES[name]}, found {value}", remedy=remedy)
