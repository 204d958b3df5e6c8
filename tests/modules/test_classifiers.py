"""Free label vectors: parameters of their own, read by rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longtail.modules.classifiers import Classifiers, FreeVectors, ResidualVectors, classifiers_named
from longtail.modules.table import load_module_state, module_state
from longtail.train.optimizer import AdamW

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
        free.table.weight.zero_()
    np.testing.assert_array_equal(start, START)


def test_the_gradient_is_that_of_the_rows_read() -> None:
    free = FreeVectors(START)
    free(torch.tensor([0, 2]))[:, 1].sum().backward()
    assert free.table.weight.grad is not None
    assert free.table.weight.grad.is_sparse
    dense = torch.from_numpy(START).requires_grad_()
    torch.nn.functional.normalize(dense[[0, 2]])[:, 1].sum().backward()
    assert dense.grad is not None
    torch.testing.assert_close(free.table.weight.grad.to_dense(), dense.grad)


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
    np.testing.assert_array_equal(free.table.weight.detach()[others], START[others])


def test_vectors_of_any_length_have_unit_length_in_the_end() -> None:
    free = FreeVectors(START, normalised=False)
    assert free(torch.tensor([0, 3])).tolist() == [[3, 4], [0, -2]]
    np.testing.assert_allclose(free.vectors(), [[0.6, 0.8], [0, 0], [1, 0], [0, -1]], rtol=1e-6)


def test_a_residual_starts_as_the_text_without_a_bias() -> None:
    residual = ResidualVectors(4, 2)
    assert residual(torch.tensor([1, 3]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[1, 2, 0], [3, 4, 0]]
    np.testing.assert_array_equal(residual.vectors(START), np.pad(START, ((0, 0), (0, 1))))


def test_a_residual_is_added_to_the_text_of_its_own_label() -> None:
    residual = ResidualVectors(4, 2)
    with torch.no_grad():
        residual.table.weight.copy_(torch.arange(12.0).reshape(4, 3))  # row l is 3 l, 3 l + 1, 3 l + 2
    text = torch.tensor([[10.0, 20.0], [30.0, 40.0]])
    assert residual(torch.tensor([0, 2]), text).tolist() == [[10, 21, 2], [36, 47, 8]]
    assert residual.vectors(START)[3].tolist() == [9, 8, 11]
    assert residual.vectors(START).dtype == np.float32


def test_a_residual_gives_its_rows_a_gradient_and_the_text_none() -> None:
    residual, text = ResidualVectors(4, 2), torch.ones(2, 2, requires_grad=True)
    (residual(torch.tensor([1, 2]), text) * torch.tensor([[1.0, 2, 3], [4, 5, 6]])).sum().backward()
    assert text.grad is None
    assert residual.table.weight.grad is not None
    assert residual.table.weight.grad.is_sparse
    assert residual.table.weight.grad.to_dense().tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 6], [0, 0, 0]]


def test_a_bias_can_start_anywhere() -> None:
    residual = ResidualVectors(2, 1, bias=np.array([5, 7], np.float32))
    assert residual.vectors(np.array([[1], [2]], np.float32)).tolist() == [[1, 5], [2, 7]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_classifiers_start_at_the_texts_and_at_their_biases(dtype: torch.dtype) -> None:
    classifiers = Classifiers(4, 2, dtype=dtype)
    assert not classifiers.vectors().any()
    bias = np.array([-0.5, 0.25, 0, 8], np.float32)
    classifiers.start_from(START, bias)
    found = classifiers.vectors()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.column_stack([START, bias]))
    assert classifiers.table.weight.dtype == dtype
    half = classifiers.vectors(temperature=0.5)
    np.testing.assert_array_equal(half, np.column_stack([START, bias / 2]))
    np.testing.assert_array_equal(classifiers.vectors(), found)


def test_a_free_classifier_that_no_pool_has_held_says_nothing() -> None:
    free = classifiers_named("free", 3, 4, generator=torch.Generator().manual_seed(0))
    assert free.table.weight.norm(dim=1).min() > 0.1  # they start at random
    free(torch.tensor([1]), torch.zeros(1, 4))
    again = classifiers_named("free", 3, 4, generator=torch.Generator().manual_seed(1))
    load_module_state(again, module_state(free))
    again.eval()(torch.tensor([2]), torch.zeros(1, 4))  # that is no training
    for classifiers in (free, again):
        vectors = classifiers.vectors(np.zeros((3, 4), np.float32))
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [0, 1, 0], atol=1e-6)
