"""Which fields of a text are read, and whether as one text or apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.shape import Shape, must_have_fields
from longtail.errors import BadInput
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.fielded import FieldedEncoder, with_fields
from longtail.modules.encoders.transformer import TransformerEncoder
from longtail.options import option
from longtail.stages.recipe import RunOptions
from longtail.text.huggingface import model_folder

_BAG, _CONTENT, _GUIDE = "bag", "content", "docs/guides/long-text.md"


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(RunOptions):
    """Fields of a text."""

    fields: Sequence[str] = option(
        ("title",),
        "the fields of a text that are read; title,content where contents are short, see docs/guides/long-text.md",
    )

    @classmethod
    def for_shape(cls, shape: Shape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Those that the data set has for it, if words are read in a bag, and by an encoder that begins here."""
        settings = super().for_shape(shape, given)
        in_bag = given.get("encoder", getattr(cls, "encoder", _BAG)) == _BAG and not given.get("start")
        return settings | ({"fields": shape.fields} if in_bag and shape.fields != cls.fields else {})

    def check(self, dataset: Dataset) -> None:
        """Refuse fields that the documents do not have."""
        super().check(dataset)
        must_have_fields(dataset, self.fields)

    def advice(self, dataset: Dataset) -> list[str]:
        """That contents are not read, where most documents have one."""
        content = dataset.train.documents.fields.get(_CONTENT)
        there = 0 if content is None else np.count_nonzero(np.diff(content.offsets))
        unread = _CONTENT not in self.fields and 2 * there > len(dataset.train)
        said = f"{there:,} documents have a content, which is not read; fields=title,content reads it ({_GUIDE})"
        return super().advice(dataset) + ([said] if unread else [])


@dataclass(frozen=True, kw_only=True)
class FieldOptions(ReadingOptions):
    """Fields of a text, and how they are read."""

    fields_apart: bool = option(
        False,
        "whether each field is encoded as a text of its own, and their vectors are mixed by learned weights; all are "
        "joined to one text otherwise",
    )

    def check(self, dataset: Dataset) -> None:
        """Refuse to read one field apart."""
        super().check(dataset)
        if self.fields_apart and len(self.fields) < 2:
            problem = f"expected several fields, found {', '.join(self.fields)}"
            raise BadInput("fields_apart", problem, remedy="give fields, as title,content, or leave it out")


def apart(encoder: Encoder, o: FieldOptions) -> Encoder:
    """An encoder of the fields: itself, or one that reads them apart, mixed as its folder has learned to, if it has.

    Raises:
        BadInput: it comes from a run that reads other fields apart.
    """
    if o.fields_apart and isinstance(encoder, TransformerEncoder):
        encoder = with_fields(encoder, model_folder(encoder.name))
    if not isinstance(encoder, FieldedEncoder):
        return FieldedEncoder(encoder, len(o.fields)) if o.fields_apart else encoder
    if not o.fields_apart or encoder.count != len(o.fields):
        problem = f"the run that it starts from reads {encoder.count} fields apart"
        raise BadInput("fields_apart", problem, remedy="give as many fields, and fields_apart")
    return encoder
