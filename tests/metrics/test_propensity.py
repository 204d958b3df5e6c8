"""Frequencies and propensities."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import sparse

from longtail.data.sparse import csr, csr_of_lists
from longtail.errors import BadInput
from longtail.metrics.propensity import inverse_propensity, label_frequency, log_odds

TRAIN = [[0, 1], [0], [0, 2], [], [1]]


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_frequencies_count_rows_by_pattern(kind: type) -> None:
    targets = kind(csr_of_lists(TRAIN, 4))
    targets.data[:] = [0.5, 3, 0.1, 1, 0, 2]  # the stored 0 is label 2 of row 2
    np.testing.assert_array_equal(label_frequency(targets), [3, 2, 0, 0])


def test_the_formula_label_by_label() -> None:
    weights = inverse_propensity(csr_of_lists(TRAIN, 4), A=0.55, B=1.5)
    C = (math.log(5) - 1) * 2.5**0.55
    assert weights.tolist() == pytest.approx([1 + C * (count + 1.5) ** -0.55 for count in (3, 2, 1, 0)], abs=1e-12)
    assert weights.dtype == np.float64


def test_equal_to_napkinxc() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        napkin = pytest.importorskip("napkinxc.metrics", reason="napkinxc of the test extra is not installed")
    targets = sparse.random_array((97, 41), density=0.05, rng=np.random.default_rng(0), format="csr")
    theirs = napkin.Jain_et_al_inverse_propensity(sparse.csr_matrix(targets > 0).astype(int), A=0.6, B=2.6)
    np.testing.assert_allclose(inverse_propensity(targets, A=0.6, B=2.6), theirs, rtol=1e-12)


def test_a_label_rows_matrix_gives_other_weights() -> None:
    original = csr_of_lists(TRAIN, 4)
    augmented = sparse.vstack([original, sparse.eye_array(4)], format="csr")
    assert not np.allclose(inverse_propensity(original, 0.55, 1.5), inverse_propensity(augmented, 0.55, 1.5), rtol=0.01)


@pytest.mark.parametrize(("A", "B"), [(-0.1, 1.5), (0.55, 0), (0.55, -1), (math.nan, 1.5), (0.55, math.inf)])
def test_constants_out_of_range(A: float, B: float) -> None:
    with pytest.raises(BadInput, match=r"expected A >= 0 and B > 0, found .*published results"):
        inverse_propensity(csr_of_lists(TRAIN, 4), A, B)


def test_constants_may_be_whole_numbers() -> None:
    """N_l is 3 for label 0: 1 + (ln N - 1) (1 + 1) / (3 + 1)."""
    targets = csr_of_lists([[0], [0], [0], []], 1)
    np.testing.assert_allclose(inverse_propensity(targets, 1, 1), [1 + (np.log(4) - 1) / 2], rtol=1e-12)


def test_too_few_training_rows() -> None:
    with pytest.raises(BadInput, match="at least 3 training rows, found 2"):
        inverse_propensity(csr_of_lists([[0], [1]], 2), 0.55, 1.5)


def test_log_odds_are_those_of_the_share_of_documents() -> None:
    """Label 0 has three of four documents, label 1 one, label 2 none; half a document is added to each."""
    found = log_odds(csr_of_lists([[0], [0], [0, 1], []], 3))
    np.testing.assert_allclose(np.exp(found), [3.5 / 4, 1.5 / 4, 0.5 / 4], rtol=1e-6)
    soft = csr(np.array([0, 1]), np.array([0, 0]), (4, 1), np.array([1, 0.25], np.float32))
    np.testing.assert_allclose(np.exp(log_odds(soft)), [1.75 / 4], rtol=1e-6)
