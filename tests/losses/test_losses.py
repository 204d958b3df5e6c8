from __future__ import annotations

import pytest
import torch
from scipy import sparse

from longtail.errors import BadInput
from longtail.losses import LOSSES, full_loss_named, loss_named
from longtail.losses.full.targets import SparseTargets
from longtail.losses.softmax import decoupled_softmax, symmetric

SCORES = torch.tensor([[0.9, 0.1, 0.2], [0.3, 0.8, -0.5]])
TARGETS = torch.eye(2, 3)
MASK = torch.ones(2, 3, dtype=torch.bool)


def test_options_are_bound():
    plain = loss_named("decoupled_softmax")(SCORES, TARGETS, MASK)
    assert plain == decoupled_softmax(SCORES, TARGETS, MASK)
    warm = loss_named("decoupled_softmax", temperature=1.0)(SCORES, TARGETS, MASK)
    assert warm == decoupled_softmax(SCORES, TARGETS, MASK, temperature=1.0)
    both = loss_named("decoupled_softmax", symmetric=True)(SCORES, TARGETS, MASK)
    assert both == symmetric(decoupled_softmax, SCORES, TARGETS, MASK)


@pytest.mark.parametrize("name", [name for name, row in LOSSES.items() if row.over_all_labels is not None])
def test_the_loss_over_all_labels_has_the_gradient_of_its_twin_over_a_pool_of_all(name):
    x = SCORES.clone().requires_grad_()
    documents = x.clone()
    targets = SparseTargets.of(sparse.csr_matrix(TARGETS.numpy()), None, torch.arange(2))
    full_loss_named(name, temperature=0.5)(documents, torch.eye(3), targets).backward()
    over_all, x.grad = x.grad.clone(), None
    loss_named(name, temperature=0.5)(x, TARGETS, MASK).backward()
    torch.testing.assert_close(over_all, x.grad)


def test_an_unknown_name_is_one_line_that_names_the_option():
    with pytest.raises(BadInput, match=r"^loss: expected one of triplet, .*, found hinge; choose one of those$"):
        loss_named("hinge")
    with pytest.raises(BadInput, match=r"^loss: expected one of decoupled_softmax, sup_con, binary_cross_entropy, "):
        full_loss_named("triplet", temperature=1.0)
