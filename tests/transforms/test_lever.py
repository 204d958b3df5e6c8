"""LEVER: soft targets that a run's encoder gives, worked out by a naive twin, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.recipes import astec, dpr, ngame
from longtail.testing.planted import planted
from longtail.train.progress import settings_of
from longtail.transforms import augmented, run_read_by

LABELS = 60


@pytest.fixture(scope="module")
def data() -> Dataset:
    return planted(0, documents=300, labels=LABELS).dataset


@pytest.fixture(scope="module")
def teacher(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lever") / "teacher"
    dpr(data, out=out, epochs=2, width=16)
    return out


def naive(teacher: Path, data: Dataset, threshold: float, nearest: int) -> list[list[float]]:
    """Its targets with loops: of each label's text, the nearest others above the threshold, and itself."""
    model = longtail.load(teacher)
    z = model.encode(data.labels)[:, :16].astype(np.float64)  # dpr reads documents and labels alike
    made = []
    for one in range(LABELS):
        soft = [(1 + float(z[one] @ other)) / 2 for other in z]
        others = sorted((m for m in range(LABELS) if m != one), key=lambda m: -soft[m])[:nearest]
        row = [0.0] * LABELS
        for m in others:
            row[m] = soft[m] if soft[m] > threshold else 0.0
        row[one] = 1.0
        made.append(row)
    return made


@pytest.mark.parametrize(("threshold", "nearest"), [(0.6, 3), (0.0, 1)])
def test_targets_are_how_near_the_teacher_has_labels(
    data: Dataset, teacher: Path, threshold: float, nearest: int
) -> None:
    made = augmented(data, f"lever:run={teacher}:threshold={threshold}:nearest={nearest}", seed=0)
    targets = made.train.targets[len(data.train) :].toarray()
    expected = np.array(naive(teacher, data, threshold, nearest))
    np.testing.assert_allclose(targets, expected, atol=1e-5)
    soft = targets[(targets > 0) & (targets < 1)]
    assert len(soft), "a teacher that is sure of all pairs would say nothing"
    assert list(made.train.documents.fields["title"])[len(data.train) :] == list(data.labels.fields["title"])


def test_labels_with_few_documents_come_first(data: Dataset, teacher: Path) -> None:
    made = augmented(data, f"lever:run={teacher}:labels=10", seed=0)
    frequency = np.bincount(data.train.targets.indices, minlength=LABELS)
    some = made.train.targets[len(data.train) :].toarray().argmax(1)
    assert len(some) == 10
    assert frequency[some].mean() < frequency.mean()


def test_another_recipe_learns_from_it_and_remembers_the_teacher(data: Dataset, teacher: Path, tmp_path: Path) -> None:
    asked = f"lever:run={teacher}"
    assert run_read_by(asked) == teacher
    assert run_read_by("none") is run_read_by("gandalf") is None
    epochs = {"epochs": 1, "classifier_epochs": 1}
    plain = astec(data, **epochs)
    taught = astec(data, augment=asked, validation=0.0, out=tmp_path / "taught", **epochs)
    assert not np.array_equal(plain.vectors["classifier"], taught.vectors["classifier"])
    assert settings_of(tmp_path / "taught")["arguments"]["augment"] == asked


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("lever", "augment lever:run: expected the folder of a finished run"),
        ("lever:run={}:threshold=1", "augment lever:threshold: expected at least 0 and below 1, found 1"),
        ("lever:run={}-not", "expected the card of a trained model, found no such file"),
    ],
)
def test_what_is_no_teacher_is_refused(data: Dataset, teacher: Path, asked: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        augmented(data, asked.format(teacher), seed=0)


def test_a_teacher_that_has_seen_the_held_out_documents_is_refused(data: Dataset, teacher: Path) -> None:
    with pytest.raises(BadInput, match="expected a run that has not seen the held-out documents"):
        ngame(data, augment=f"lever:run={teacher}", epochs=1, validation=0.05)
