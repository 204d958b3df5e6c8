"""How long work between steps takes, from a small part of it: measured once for all plans of a run."""

from __future__ import annotations

import numpy as np
import torch

from longtail.batches.clusters import balanced_clusters, cuts
from longtail.data.holdout import rows_evenly
from longtail.modules.encoders.base import Encoder, embed
from longtail.text.ragged import Ragged
from longtail.train.plan import SAMPLE, Plan, timed


def seconds_a_text(plan: Plan, encoder: Encoder, table: Ragged, of: tuple[str, str], device: torch.device) -> float:
    """The time to encode a text of a token table.

    Args:
        plan: keeps what was measured.
        encoder: of the texts.
        table: their tokens.
        of: for what run, and what for: encoders that differ may be of one kind.
        device: where the encoder is.
    """
    some = table.take(rows_evenly(len(table), SAMPLE))
    count = max(1, len(some))
    return plan.once(
        (*of, type(encoder), encoder.width), lambda: timed(lambda: embed(encoder, some, device=device), device) / count
    )


def seconds_of_clusters(plan: Plan, count: int, width: int, size: int, device: torch.device) -> float:
    """The time to put so many vectors of a width into clusters of at most a size."""
    sample = min(count, 4 * SAMPLE)

    def measure() -> float:
        draws = np.random.default_rng(0)
        some = draws.standard_normal((sample, width), np.float32)
        taken = timed(lambda: balanced_clusters(some, size, generator=draws, device=device), device)
        return taken / max(1.0, sample * cuts(sample, size))

    return count * cuts(count, size) * plan.once(("clusters", width, size, sample), measure)
