"""Free vectors of label clusters, against loops and by hand."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from longtail.modules.auxiliary import AuxiliaryVectors

CLUSTERS = np.array([0, 2, 1, 2])


def test_labels_of_a_cluster_share_a_vector_and_its_gradient() -> None:
    torch.manual_seed(0)
    module, text = AuxiliaryVectors(CLUSTERS, 3), F.normalize(torch.randn(4, 3))
    assert len(module.table) == 3
    ids = torch.tensor([0, 1, 3])
    torch.testing.assert_close(module(ids, text[ids]), text[ids], msg="a label starts as its text")
    module.table.weight.data = torch.randn(3, 3)
    expected = torch.stack([F.normalize(text[i] + module.table.weight[CLUSTERS[i]], dim=0) for i in ids.tolist()])
    found = module(ids, text[ids])
    torch.testing.assert_close(found, expected)
    target = torch.randn(3, 3)
    dense = torch.autograd.grad((expected * target).sum(), module.table.weight)[0]
    sparse = torch.autograd.grad((found * target).sum(), module.table.weight)[0]
    torch.testing.assert_close(sparse.to_dense(), dense)
    assert sparse.coalesce().indices().tolist() == [[0, 2]], "no row that the pool did not ask for is touched"


def test_all_vectors_are_those_of_pools() -> None:
    torch.manual_seed(0)
    module, text = AuxiliaryVectors(CLUSTERS, 3), F.normalize(torch.randn(4, 3))
    module.table.weight.data = torch.randn(3, 3)
    every = module(torch.arange(4), text)
    np.testing.assert_allclose(module.vectors(text.numpy()), every.detach().numpy(), atol=1e-6)


def test_no_labels_have_no_vectors() -> None:
    assert len(AuxiliaryVectors(np.zeros(0, np.int64), 3).table) == 0
