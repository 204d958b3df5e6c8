"""Generators that are keyed by a seed: no two uses in a run share a key, by which they would draw the same numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PACKAGE = Path(__file__).parents[1] / "longtail"
KEY = re.compile(r"(?:default_rng\(|seed = )\[(?:\w+\.)*_?seed, ([^\]]+)\]")
NEVER_IN_ONE_RUN = {  # as no recipe has both
    frozenset({"stages/linking.py", "stages/shortlists.py"}),
}
FIRST = {"batches/samplers.py", "losses/weights.py"}  # (seed, epoch) and (seed, window): an order, and normal numbers


def keys():
    """Each use: its file, and what its key has behind the seed."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for found in KEY.finditer(path.read_text()):
            yield path.relative_to(PACKAGE).as_posix(), [part.strip() for part in found[1].split(",")]


def numbers(key):
    return np.random.default_rng(key).integers(2**62, size=4).tolist()


def test_zeros_at_the_end_of_a_key_of_four_numbers_at_most_are_nothing():
    """So all but the first draws of a run have keys of five, of which the last says what for, and is not 0."""
    assert numbers([5]) == numbers([5, 0]) == numbers([5, 0, 0, 0]) == numbers(5)
    assert numbers([5]) != numbers([5, 0, 0, 0, 0])
    assert numbers([5, 1, 2, 0, 3]) != numbers([5, 1, 2, 0, 3, 0])
    assert {file for file, key in keys() if len(key) < 4} == FIRST
    assert all(int(key[3]) for _, key in keys() if len(key) >= 4)


def test_what_is_drawn_for_one_thing_is_drawn_for_no_other():
    uses = {}
    for file, key in keys():
        if len(key) >= 4:
            uses.setdefault((key[3], len(key)), []).append(file)
    assert sum(map(len, uses.values())) >= 14
    assert [files for files in uses.values() if len(files) > 1 and frozenset(files) not in NEVER_IN_ONE_RUN] == []
