"""Distil: a student of any trained run, by a recipe that learns a teacher's scores beside the true pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.model import Bundle, open_model
from longtail.model.exports import transformers_of
from longtail.modules.encoders.bag import BagEncoder
from longtail.modules.encoders.named import encoder_named
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.options import options_of
from longtail.stages.recipe import MADE, options_class
from longtail.train.progress import settings_of
from longtail.train.run import Run

_USUAL = "unidec"
_BEST = {"preset": "best", "refits": 1, "knowledge": "none"}  # what makes a bag no larger; words are the teacher's
_ALONE = (
    "reads by a transformer alone, which often ranks behind a bag: an ensemble of it and a bag likely teaches more, "
    "see docs/guides/distil.md"
)


class Student(NamedTuple):
    """What is to be trained.

    Attributes:
        recipe: its name.
        options: of the recipe.
        advice: which other teacher would likely teach it more, if one would.
    """

    recipe: str
    options: Mapping[str, Any]
    advice: str | None


def distil(
    teacher: str | Path, dataset: Dataset, *, into: str = "bag", out: str | Path | Run | None = None, **given: Any
) -> Bundle:
    """Train a student of a trained run; ``longtail distil`` is this.

    The student is a run like any other. It holds out the documents that the teacher held out, reads the same fields of
    a text, and asks the teacher about the texts of labels, too, unless another ``augment`` is given. The words of a bag
    start from what a transformer of the teacher takes them to mean, unless ``knowledge`` says otherwise, and a bag
    learns from all graphs, and has more epochs, as by the preset ``best``, unless another ``preset`` is given.

    Examples:
        >>> longtail.distil("runs/minilm", dataset, into="bag", out="runs/student")  # doctest: +SKIP

    Args:
        teacher: the folder of a finished run, of any recipe or an ensemble; for a bag, likely better an ensemble with a
            bag than a transformer alone.
        dataset: that it was trained on.
        into: the student's encoder, with which it is a ``unidec``; or a recipe that has the option ``teacher``.
        out: the student's run folder; nothing is written if left out.
        **given: other options of the student's recipe.

    Raises:
        BadInput: there is no such run, encoder, recipe or option, or the recipe takes no teacher.
    """
    recipe, options, _ = student(teacher, into, given)
    made: Bundle = MADE[recipe](dataset, out=out, **options)
    return made


def student(teacher: str | Path, into: str, given: Mapping[str, Any]) -> Student:
    """The recipe of a student, its options, and what to teach it by instead.

    Args:
        teacher: the folder of a finished run.
        into: the name of an encoder, or of a recipe.
        given: options that were asked for, which stay as they are.
    """
    folder = Path(teacher).resolve()
    arguments = settings_of(folder)["arguments"]
    recipe = into if into in MADE else _USUAL
    known = options_of(options_class(MADE[recipe]))
    if "teacher" not in known:
        those = ", ".join(name for name, made in MADE.items() if "teacher" in options_of(options_class(made)))
        raise BadInput("into", f"expected an encoder, or one of {those}, found {into}", remedy="choose one of those")
    model = open_model(folder / "model", device=torch.device("cpu"))
    options = {
        "encoder": "bag" if into in MADE else into,
        "fields": model.fields,
        "validation": arguments.get("validation", 0.0),
        "seed": arguments["seed"],
        "teacher": str(folder),
        "augment": "unlabelled",
    }
    options = {name: value for name, value in options.items() if name in known} | {**given}
    bag = encoder_named(options["encoder"]).kind is BagEncoder
    transformers = [part.name for part in transformers_of(model) if bag and isinstance(part, TransformerEncoder)]
    usual = _BEST if bag and recipe == _USUAL and "preset" not in given else {}
    if transformers and options.get("start") is None:
        usual = {**usual, "knowledge": transformers[0]}
    alone = not any(isinstance(encoder.core, BagEncoder) for encoder in model.encoders)
    return Student(recipe, {**usual, **options}, f"{teacher} {_ALONE}" if transformers and alone else None)
