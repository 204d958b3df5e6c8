from __future__ import annotations

import pytest
import torch
from scipy import sparse

from longtail.errors import BadInput
from longtail.losses import LOSSES, full_loss_named, loss_named
from longtail.losses.full.targets import SparseTargets
from longtail.losses.softmax import decoupled_softmax, symmetric
from longtail.losses.triplet import triplet
from longtail.options import options_of
from longtail.stages.task import EncoderOptions

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


def test_a_loss_takes_its_options_after_its_name() -> None:
    """NGAME's classifier stage: ``margin=0.2, positives=3, negatives=5``."""
    given = loss_named("triplet:margin=0.9:positives=1:satisfied=included")(SCORES, TARGETS, MASK)
    assert given == triplet(SCORES, TARGETS, MASK, margin=0.9, positives=1, satisfied="included")
    assert given != triplet(SCORES, TARGETS, MASK)
    warm = loss_named("info_nce:temperature=0.5", temperature=1.0)(SCORES, TARGETS, MASK)
    assert warm == loss_named("info_nce", temperature=0.5)(SCORES, TARGETS, MASK)
    with pytest.raises(BadInput, match=r"loss triplet: expected one of the options margin, .*, found 'scores'"):
        loss_named("triplet:scores=1")
    with pytest.raises(BadInput, match="loss triplet:margin: expected a number of at least 0, found 'wide'"):
        loss_named("triplet:margin=wide")


@pytest.mark.parametrize("text", ["hinge:margin=1", "triplets"])
def test_a_loss_that_there_is_not_is_refused_before_anything_is_read(text: str) -> None:
    known = options_of(EncoderOptions)["loss"]
    assert known.value("triplet:margin=0.2") == "triplet:margin=0.2"
    with pytest.raises(BadInput, match=f"loss: expected one of triplet, .*, found {text}"):
        known.value(text)
