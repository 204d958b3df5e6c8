"""Other training rows and targets, made of those that are given.

Whoever trains on these takes frequencies and propensities from the data set as it was; labels, filters, the validation
rows and the test split are not touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.transforms import label_rows, mixing
from longtail.transforms.base import TransformKind
from longtail.transforms.lever import lever
from longtail.transforms.propagation import with_propagated_labels
from longtail.transforms.unlabelled import unlabelled

TRANSFORMS: dict[str, TransformKind] = {
    "gandalf": TransformKind(
        label_rows.gandalf, "label texts as rows, their targets how probably labels occur together"
    ),
    "one_hot": TransformKind(label_rows.one_hot, "label texts as rows, each with its own label alone"),
    "glas": TransformKind(label_rows.glas, "label texts as rows, with the targets of the GLaS regulariser"),
    "walk": TransformKind(
        label_rows.walk, "label texts as rows, with the labels near them on a random walk as targets"
    ),
    "lever": TransformKind(lever, "label texts as rows, with the labels that a trained model thinks near as targets"),
    "synonyms": TransformKind(mixing.synonyms, "for each document a row with near words in place of some"),
    "mixup": TransformKind(mixing.mixup, "for each document a row that mixes its words and labels with another's"),
    "label_mixup": TransformKind(mixing.label_mixup, "for each document a row that mixes it with the text of a label"),
    "propagation": TransformKind(
        with_propagated_labels, "every label that shares a graph's node with a document is its own"
    ),
    "unlabelled": TransformKind(unlabelled, "texts of labels and of a file as rows without labels, for a teacher"),
}
"""Every transform that a recipe can be given as ``augment``; one row each."""


def augmented(dataset: Dataset, augment: str, *, seed: int) -> Dataset:
    """A data set with other training rows.

    Args:
        dataset: after the validation rows were held out.
        augment: ``none``, or the name of a transform with its options: ``gandalf``,
            ``gandalf:threshold=0.2:labels=10000``. The options are the arguments of the function of that name.
        seed: of all random numbers.

    Raises:
        BadInput: there is no such transform or option, or a value is not one.
    """
    if augment == "none":
        return dataset
    kind, options = _parsed(augment)
    return kind.function(dataset, seed=seed, **options)


def run_read_by(augment: str) -> Path | None:
    """The folder of the run that a transform learns from, if it does."""
    return _path_in(augment, "run")


def file_read_by(augment: str) -> Path | None:
    """The file of texts that a transform reads, if it does."""
    return _path_in(augment, "texts")


def _path_in(augment: str, option: str) -> Path | None:
    path = None if augment == "none" else _parsed(augment)[1].get(option)
    return Path(path) if path else None


def _parsed(augment: str) -> tuple[TransformKind, dict[str, Any]]:
    """The row of a transform that is asked for with its options, and these."""
    name, _, options = augment.partition(":")
    if name not in TRANSFORMS:
        expected = ", ".join(["none", *TRANSFORMS])
        raise BadInput("augment", f"expected one of {expected}, found {name}", remedy="choose one of those")
    return TRANSFORMS[name], TRANSFORMS[name].parsed(name, options)
