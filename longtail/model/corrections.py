"""What people say of texts and labels, as of a moment: at once in effect, and kept as data to train on."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longtail.data.sparse import csr
from longtail.data.texts import MEND_TEXT, STORABLE, Strings, Texts, canonical, storable
from longtail.errors import BadInput
from longtail.model.base import Model
from longtail.model.catalogue import Correction
from longtail.search.keys import Keys, keys_of
from longtail.search.memory import Memory
from longtail.search.remembering import Part


@dataclass(frozen=True)
class Corrections:
    """The corrections of a run, and what they do.

    Attributes:
        kept: by number, ascending.
    """

    kept: Mapping[int, Correction] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """That of the newest."""
        return max(self.kept, default=0)

    def updated(self, there: Sequence[int], new: Sequence[Correction]) -> Corrections:
        """The same with new ones, and without those whose numbers are not there any more."""
        known = {**self.kept, **{one.number: one for one in new}}
        return Corrections({number: known[number] for number in there if number in known})

    def texts(self, text_of: Callable[[str], str | None]) -> list[dict[str, Any]]:
        """The corrected texts, each with its fields, its labels and those that are wrong for it: texts and uids.

        Args:
            text_of: the text of a label by its uid, or None; a label that is not there is left out.
        """
        found: dict[str, dict[str, Any]] = {}
        for one in self.kept.values():
            text, (labels, uids) = text_of(one.uid), ("labels", "uids") if one.is_right else ("wrong", "wrong_uids")
            if text is not None:
                nothing: dict[str, Any] = {key: [] for key in ("labels", "uids", "wrong", "wrong_uids", "ids")}
                said = found.setdefault(json.dumps(one.document), {"title": "", **one.document, **nothing})
                for key, value in ((labels, text), (uids, one.uid), ("ids", one.number)):
                    said[key].append(value)
        return list(found.values())

    def wrong(self, fields: Sequence[str], find: Callable[[str], int | None]) -> dict[tuple[str, ...], list[int]]:
        """The rows of the labels that were said to be wrong, and not to be right later, by text.

        Args:
            fields: of a text that have to be equal: those that the model reads.
            find: the row of a label by its uid, or None.
        """
        rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for (text, uid), one in self._newest(fields).items():
            if not one.is_right and (row := find(uid)) is not None:
                rows[text].append(row)
        return dict(rows)

    def _newest(self, fields: Sequence[str]) -> dict[tuple[tuple[str, ...], str], Correction]:
        """The newest correction of each text, as a model that reads these fields sees it, and uid."""
        texts = (tuple(canonical(one.document.get(name, "")) for name in fields) for one in self.kept.values())
        return {(text, one.uid): one for text, one in zip(texts, self.kept.values(), strict=True)}

    def remembered(self, model: Model, memory: Memory, find: Callable[[str], int | None]) -> list[Part]:
        """The texts that have labels, as documents that a memory asks, too; none where there are none.

        Of a text and a label the newest correction counts.

        Args:
            model: has the labels.
            memory: of the model.
            find: the row of a label by its uid, or None.
        """
        right = [one for one in self._newest(model.fields).values() if one.is_right and len(one.vector)]
        if not right:
            return []
        places = {uid: place for place, uid in enumerate(dict.fromkeys(one.uid for one in right))}
        rows = np.array([-1 if (row := find(uid)) is None else row for uid in places])
        frequency = np.zeros(len(rows), np.int64)
        frequency[rows >= 0] = model.frequency(rows[rows >= 0])
        titles = Strings.of(one.document.get("title", "") for one in right)
        keys = Keys(np.stack([one.vector for one in right]), memory.keys.device, titles)
        owners = np.array([places[one.uid] for one in right])
        own = memory.of_others(keys, csr(np.arange(len(right)), owners, (len(right), len(rows))))
        return [Part(own, own.shares(frequency), lambda places: rows[places])]


NONE = Corrections()


def checked(model: Model, corrections: Sequence[Correction], find: Callable[[str], int | None]) -> list[Correction]:
    """Corrections as a catalogue keeps them: with the key of each text that has a label, where the model remembers it.

    Texts are kept in Unicode NFC: of one in two forms, as of equal ones, the newest correction stays then. A text of
    which the model knows no word is near to no other, and is not remembered.

    Args:
        model: as it was built.
        corrections: without keys.
        find: the row of a label by its uid, or None.

    Raises:
        BadInput: a text is empty or none that UTF-8 can hold, or there is no such label.
    """
    for document, uid, *_ in corrections:
        if find(uid) is None:
            remedy = "longtail labels find RUN TEXT says the uids of labels"
            raise BadInput("uid", f"expected that of a label, found {uid[:100]!r}", remedy=remedy)
        if not any(part.strip() for part in document.values()):
            raise BadInput("text", "expected a text, found none", remedy="give the text that was labelled")
        if not all(map(storable, document.values())):
            raise BadInput("text", STORABLE, remedy=MEND_TEXT)
    documents = ({name: canonical(part) for name, part in one.document.items() if part} for one in corrections)
    made = [one._replace(document=document) for one, document in zip(corrections, documents, strict=True)]
    if model.memory is None:
        return made
    keys = keys_of(model.encode(Texts.by_field([one.document for one in made], model.fields)), model.key_columns)
    return [one._replace(vector=keys[i]) if one.is_right and keys[i].any() else one for i, one in enumerate(made)]
