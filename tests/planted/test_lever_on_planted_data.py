"""LEVER finds rare labels by what its teacher knows of their texts, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longtail.data.dataset import Dataset
from longtail.data.sparse import csr_of_lists
from longtail.data.split import Split
from longtail.data.texts import Texts
from longtail.metrics.ranking import metrics_of
from longtail.recipes import astec, dpr
from longtail.testing.planted import made_up_words

TOPICS = 30
SMALL = {"batch": 128, "random_negatives": 64, "width": 48, "warmup": 20, "learning_rate": 0.02, "epochs": 8}


def kin(shift: int | None) -> Dataset:
    """Each topic has a frequent label and a rare one, and three texts without a word in common: documents' and labels'.

    Test documents have the rare label of their topic, training documents the frequent one. With a shift they also have
    a rare label: that of their own topic for 0, which is the truth, and that of the next one for 1.
    """
    rng = np.random.default_rng(0)
    words = np.reshape(made_up_words(rng, 14 * TOPICS), (TOPICS, 14))
    spoken, frequent, rare = np.split(words, [6, 10], axis=1)

    def split(n: int, labels: list[list[int]], side: str) -> Split:
        texts = [" ".join(rng.permutation(spoken[i % TOPICS])[:4]) for i in range(n)]
        targets = csr_of_lists([labels[i % TOPICS] for i in range(n)], 2 * TOPICS)
        return Split(Texts.of(texts, uids=[f"{side}-{i}" for i in range(n)]), targets)

    told = [[t] if shift is None else [t, TOPICS + (t + shift) % TOPICS] for t in range(TOPICS)]
    texts = [" ".join(text) for text in [*frequent, *rare]]
    return Dataset(
        name="kin",
        train=split(4 * TOPICS, told, "train"),
        labels=Texts.of(texts, uids=[f"label-{i}" for i in range(2 * TOPICS)]),
        test=split(3 * TOPICS, [[TOPICS + t] for t in range(TOPICS)], "test"),
    )


@pytest.fixture(scope="module")
def teachers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a teacher that was told which labels are near, of one told wrong, one not told, and one untrained."""
    out = tmp_path_factory.mktemp("teachers")
    for name, shift, epochs in (("right", 0, 8), ("wrong", 1, 8), ("untold", None, 8), ("untrained", 0, 0)):
        dpr(kin(shift), out=out / name, **{**SMALL, "epochs": epochs})
    return out


def test_lever_finds_rare_labels_by_what_the_teacher_knows_of_their_texts(teachers: Path) -> None:
    """No document speaks of a rare label, and its text has no word of theirs: to read it as a row does not help."""
    data = kin(None)
    assert data.test is not None

    def recall(augment: str) -> float:
        """R@2 of the rare label: the frequent one of the topic is there, too."""
        bundle = astec(data, **SMALL, cluster_size=1, validation=0.0, augment=augment)
        top = bundle.rank(data.test.documents, 2, kind="classifier")
        return metrics_of(top, data.test.targets, ks=[2])["R@2"]

    assert recall(f"lever:run={teachers / 'right'}") > 80
    for without in ("none", "one_hot", *(f"lever:run={teachers / name}" for name in ("wrong", "untold", "untrained"))):
        assert recall(without) < 15, without
