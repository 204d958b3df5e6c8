"""The GLaS regulariser: by hand, and its gradient."""

from __future__ import annotations

import torch

from longtail.losses.glas import glas


def test_by_hand() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0]])
    related = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 0.6], [0.0, 0.6, 1.0]])
    # inner products: 1, 0.6, 0 / 0.6, 1, 1.6 / 0, 1.6, 4
    assert abs(float(glas(vectors, related)) - (2 * 0.1**2 + 2 * 1.0**2 + 3.0**2) / 9) < 1e-6


def test_it_is_zero_where_the_gram_matrix_is_the_relation_and_nowhere_else() -> None:
    vectors = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    related = vectors @ vectors.T
    assert float(glas(vectors, related)) == 0
    assert float(glas(vectors + 0.1, related)) > 0


def test_gradient() -> None:
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    related = torch.rand(5, 5, generator=generator, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda v: glas(v, (related + related.T) / 2), [vectors])
