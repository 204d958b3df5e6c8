"""When something is renewed, against a loop over all steps."""

from __future__ import annotations

import pytest

from longtail.train.renewal import When


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("steps", [1, 4, 7])
@pytest.mark.parametrize(("every", "between"), [(1, None), (2, None), (1, 1), (2, 3), (1, 4), (1, 10), (3, 7)])
def test_moments_are_those_of_a_loop(first: int, steps: int, every: int, between: int | None) -> None:
    due, last, expected = When(first, every, between), None, []
    for count in range(8 * steps):
        epoch, step = divmod(count, steps)
        enough = last is None or count - last >= (every * steps if between is None else between)
        if epoch >= first and enough:
            expected.append((epoch, step))
            last = count
    assert [(at.epoch, at.step) for epoch in range(8) for at in due.of(epoch, steps)] == expected


def test_a_document_is_met_once_an_epoch_until_the_next_renewal() -> None:
    assert [When(0, 3).passes(8), When(0, 3, 2).passes(8), When(0, 1, 8).passes(8), When(0, 1, 9).passes(8)] == [
        *(3, 1, 1, 2)
    ]
    assert {at.passes for at in When(0, 1, 9).of(0, 8)} == {2}
