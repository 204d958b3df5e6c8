"""Which fields of a text are read, and whether as one text or apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.data.dataset import Dataset
from longtail.errors import BadInput
from longtail.modules.encoders.base import Encoder
from longtail.modules.encoders.fielded import FieldedEncoder
from longtail.options import option
from longtail.stages.recipe import RunOptions

_CONTENT, _GUIDE = "content", "docs/guides/long-text.md"


@dataclass(frozen=True, kw_only=True)
class FieldOptions(RunOptions):
    """Fields of a text."""

    fields: Sequence[str] = option(("title",), "the fields of a text that the encoder reads")
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

    def advice(self, dataset: Dataset) -> list[str]:
        """That contents are not read, where most documents have one."""
        content = dataset.train.documents.fields.get(_CONTENT)
        there = 0 if content is None else np.count_nonzero(np.diff(content.offsets))
        unread = _CONTENT not in self.fields and 2 * there > len(dataset.train)
        said = f"{there:,} documents have a content, which is not read; fields=title,content reads it ({_GUIDE})"
        return super().advice(dataset) + ([said] if unread else [])


def apart(encoder: Encoder, o: FieldOptions) -> Encoder:
    """An encoder of the fields: itself, or one that reads them apart.

    Raises:
        BadInput: it comes from a run that reads other fields apart.
    """
    if not isinstance(encoder, FieldedEncoder):
        return FieldedEncoder(encoder, len(o.fields)) if o.fields_apart else encoder
    if not o.fields_apart or encoder.count != len(o.fields):
        problem = f"the run that it starts from reads {encoder.count} fields apart"
        raise BadInput("fields_apart", problem, remedy="give as many fields, and fields_apart")
    return encoder
