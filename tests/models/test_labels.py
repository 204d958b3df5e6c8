"""Free label vectors: parameters of their own, read by rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.models.labels import FreeVectors
from longtail.train.optim import AdamW

START = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0], [0.0, -2.0]], np.float32)


def test_vectors_are_rows_of_unit_length() -> None:
    free = FreeVectors(START)
    expected = [[0.6, 0.8], [0, 0], [1, 0], [0, -1]]
    np.testing.assert_allclose(free.vectors(), expected, rtol=1e-6)
    np.testing.assert_allclose(free(torch.tensor([0, 3])).detach(), [expected[0], expected[3]], rtol=1e-6)
    assert free.vectors().dtype == np.float32


def test_the_start_is_copied() -> None:
    start = START.copy()
    free = FreeVectors(start)
    with torch.no_grad():
        free.table.zero_()
    np.testing.assert_array_equal(start, START)


def test_the_gradient_is_that_of_the_rows_read() -> None:
    free = FreeVectors(START)
    free(torch.tensor([0, 2]))[:, 1].sum().backward()
    assert free.table.grad is not None
    assert free.table.grad.is_sparse
    dense = torch.from_numpy(START).requires_grad_()
    torch.nn.functional.normalize(dense[[0, 2]])[:, 1].sum().backward()
    assert dense.grad is not None
    torch.testing.assert_close(free.table.grad.to_dense(), dense.grad)


@pytest.mark.parametrize("label", range(4))
def test_every_label_can_learn_also_one_that_starts_from_zero(label: int) -> None:
    free = FreeVectors(START)
    optimizer = AdamW(free.parameters(), 0.1)
    goal = torch.tensor([-0.6, 0.8])
    for _ in range(100):
        optimizer.zero_grad()
        (-free(torch.tensor([label])) @ goal).sum().backward()
        optimizer.step()
    assert free.vectors()[label] @ goal.numpy() > 0.98
    others = [i for i in range(4) if i != label]
    np.testing.assert_array_equal(free.table.detach()[others], START[others])
