"""What OAK proves of its calibration loss, and what the loss does where links are noisy.

OAK, Theorem 2 (4 in the appendix): with the encoder fixed, a step down the loss makes true labels likelier and wrong
ones less likely, given the enriched document, and happens only where enrichment has not done so yet.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.losses.calibration import calibration
from longtail.modules.combiners import Design, make_combiner
from longtail.modules.table import unit

D = 8
PAIR = torch.tensor([[1.0, 0.0]])  # a true label and a wrong one
KNOWN = torch.ones(1, 2, dtype=torch.bool)


def scores(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of one document's two labels, enriched and plain, and the bank that the first depend on."""
    generator = torch.Generator().manual_seed(seed)
    x, z = (unit(torch.randn(count, D, generator=generator, dtype=torch.float64)) for count in (1, 2))
    bank = torch.randn(3, D, generator=generator, dtype=torch.float64).requires_grad_()
    combiner = make_combiner(D, Design(dropout=0.0), seed=seed).double()
    enriched, _ = combiner(x, unit(bank), torch.arange(3)[None])
    return enriched @ z.T, x @ z.T, bank


def gradient(value: Tensor, bank: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(value, bank, retain_graph=True, allow_unused=True)
    return torch.zeros_like(bank) if found is None else found


@pytest.mark.parametrize("seed", range(30))
def test_a_step_of_the_bank_makes_true_labels_likelier_and_wrong_ones_less_likely(seed: int) -> None:
    by_all, by_text, bank = scores(seed)
    step = -gradient(calibration(by_all, PAIR, KNOWN, plain=by_text), bank)
    lacks, exceeds = (by_text - by_all + 0.05)[0, 0] > 0, (by_all - by_text + 0.05)[0, 1] > 0
    true, wrong = (gradient(by_all[0, i], bank) for i in range(2))
    odds = true - wrong  # of the log-odds of the true label, given the enriched document (appendix D.2)
    if lacks and exceeds:
        torch.testing.assert_close(step, odds / 2)
        assert (step * odds).sum() > 0
    elif lacks:
        torch.testing.assert_close(step, true / 2)
    elif exceeds:
        torch.testing.assert_close(step, -wrong / 2)
    else:
        assert not step.any(), "where enrichment says more already, nothing is updated"


def test_all_cases_of_the_theorem_occur() -> None:
    cases = set()
    for seed in range(30):
        by_all, by_text, _ = scores(seed)
        cases.add((bool(by_all[0, 0] < by_text[0, 0] + 0.05), bool(by_all[0, 1] > by_text[0, 1] - 0.05)))
    assert len(cases) == 4


def trained_on_noisy_links(weight: float, *, wrong: float, labels: int = 20, steps: int = 60) -> tuple[Tensor, Tensor]:
    """Scores of fresh documents, (n, L) enriched minus plain, of true pairs and of others, after training the bank.

    Each label has a node of its own; a share of the links of a document leads to nodes that say nothing.
    """
    generator = torch.Generator().manual_seed(0)
    z = unit(torch.randn(labels, D, generator=generator))

    def documents(n: int) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.randint(labels, (n,), generator=generator)
        x = unit(z[y] + 0.9 * torch.randn(n, D, generator=generator))
        right = torch.rand(n, 3, generator=generator) > wrong
        return x, y, torch.where(right, y[:, None], labels + torch.randint(labels, (n, 3), generator=generator))

    (x, y, links), (new, new_y, new_links) = documents(300), documents(500)
    bank = torch.nn.Parameter(0.3 * torch.randn(2 * labels, D, generator=generator))
    combiner = make_combiner(D, Design(dropout=0.0))
    optimizer = torch.optim.Adam([bank, *combiner.parameters()], 0.02)
    targets = F.one_hot(y, labels).float()
    for _ in range(steps):
        by_all = combiner(x, unit(bank), links)[0] @ z.T
        apart = calibration(by_all, targets, torch.ones_like(targets, dtype=torch.bool), plain=x @ z.T)
        optimizer.zero_grad()
        (F.cross_entropy(by_all / 0.1, y) + weight * apart).backward()
        optimizer.step()
    with torch.no_grad():
        gained = (combiner(new, unit(bank), new_links)[0] - new) @ z.T
    true = F.one_hot(new_y, labels).bool()
    return gained[true], gained[~true]


def test_with_noisy_links_calibration_keeps_enrichment_from_lifting_wrong_labels() -> None:
    """It does what it asks for on documents that it has not seen; true labels still gain by it, though less."""
    (true, others), (plain_true, plain_others) = (trained_on_noisy_links(w, wrong=0.5) for w in (5.0, 0.0))
    assert (others < 0).float().mean() > (plain_others < 0).float().mean() + 0.03
    assert others.mean() < plain_others.mean() - 0.01
    assert true.mean() > 0.4 * plain_true.mean() > 0.05
